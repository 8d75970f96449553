# SPDX-License-Identifier: Apache-2.0
"""What a run's page shows of UDP flows and probes: their own hosts' counts, beside those of the switch."""

from __future__ import annotations

from typing import Any

from narrows_formats.summary import DelayDistribution, Summary

from narrows_analysis.report import units
from narrows_analysis.report.cells import Cell, number, table, text

_NAMES = (
    "Flow", "Sent", "Received", "Lost", "Reordered", "Duplicates", "CE", "One way\nmedian", "One way\n99 %",
    "RTT\nmedian", "RTT\n99 %",
)  # fmt: skip
_NOTE = (
    "Datagrams as the hosts counted them. Lost are those that did not arrive, whatever took them: a queue, loss "
    "emulation, or of a probe the way back. Reordered are those that arrived after one "
    "with a higher number (RFC 4737). RTT is of a probe, whose datagrams come back."
)


def datagram_table(summary: Summary) -> dict[str, Any]:
    """A row for each flow of datagrams."""
    rows = []
    for flow in summary["flows"]:
        counted = flow["datagrams"]
        if counted is None:
            continue
        counts = [
            counted["sent"], counted["received"], counted["lost"], counted["reordered"], counted["duplicates"],
            counted["ce_marked"],
        ]  # fmt: skip
        rows.append(
            [
                text(flow["name"]),
                *(number(units.count(value), value) for value in counts),
                *_times(counted["delay_s"]),
                *_times(counted["rtt_s"]),
            ]
        )
    return table("datagrams", "Datagrams", _NAMES, rows, _NOTE)


def _times(delays: DelayDistribution | None) -> list[Cell]:
    if delays is None:
        return [number(units.MISSING, None)] * 2
    return [number(units.duration(value), value) for value in (delays["p50"], delays["p99"])]
