# SPDX-License-Identifier: Apache-2.0
"""The media of calls: their receivers' reports in hosts/NAME.json, and what of them is in summary.json and reports."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

from narrows_formats.connection_record import NotNegative, Positive, Record, Time
from narrows_formats.kinds import Figure, KindOfFlow, Value, measured
from narrows_formats.kinds.datagrams import DatagramsRecord


class RateReport(Record):
    """A report of the receiver, and what its sender made of it."""

    time_s: Time
    """When it came, from the start of the experiment."""
    rtt_s: NotNegative
    """Round-trip time, from the sending of the datagram that it answers to its own arrival."""
    signal_s: NotNegative
    """Aggregate congestion signal (RFC 8698, section 4.2): queueing delay, and what losses and marks count for."""
    rate_bps: Positive
    """Reference rate of the payload from then on."""


class MediaRecord(DatagramsRecord):
    """What such a flow sent, and the reports that it followed."""

    reports: tuple[RateReport, ...]
    """Its receiver's, in the order in which they came."""

    def own_summary(self) -> Mapping[str, object]:
        """What both ends counted, and its figures."""
        return {**super().own_summary(), "figures": measured(_FIGURES, self)}


def _mean_rate(record: MediaRecord) -> Value:
    """Mean of the reference rate over time, from the first report to the end of the flow."""
    if not record.reports:
        return None
    ends = [*(one.time_s for one in record.reports[1:]), record.stopped_s or record.ended_s]
    spans = [max(0.0, end - one.time_s) for one, end in zip(record.reports, ends, strict=True)]
    weighted = sum(one.rate_bps * span for one, span in zip(record.reports, spans, strict=True))
    return weighted / sum(spans) if sum(spans) > 0 else None


def _mean_signal(record: MediaRecord) -> Value:
    return fmean(one.signal_s for one in record.reports) if record.reports else None


_FIGURES = (
    Figure("reports", "Reports", "count", lambda record: len(record.reports)),
    Figure("reference_rate_bps", "Reference rate\nmean", "rate", _mean_rate),
    Figure("congestion_signal_s", "Congestion signal\nmean", "duration", _mean_signal),
)
KIND = KindOfFlow(
    ("media",),
    MediaRecord,
    "media",
    "Media of calls",
    "As the senders measured it (RFC 8698): reports that came back, the rate that they were followed with, and the "
    "aggregate congestion signal in them: queueing delay, and what losses and marks count for.",
    figures=_FIGURES,
)
