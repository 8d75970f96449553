# SPDX-License-Identifier: Apache-2.0
"""TCP on/off sources: their bursts in hosts/NAME.json, and what of them is in summary.json and reports."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict

from narrows_formats.connection_record import ConnectionRecord, Time, Whole
from narrows_formats.kinds import Figure, KindOfFlow, Value, measured


class Burst(BaseModel):
    """A burst; times from the start of the experiment."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    begun_s: Time
    """When the source began to send."""
    ended_s: Time
    """When it stopped."""
    bytes: Whole
    """Payload that it gave to the socket."""


class OnOffRecord(ConnectionRecord):
    """What such a source did."""

    bursts: tuple[Burst, ...]
    """When it sent, and how much."""

    def own_summary(self) -> Mapping[str, object]:
        """Its figures."""
        return {"figures": measured(_FIGURES, self)}


def _on_s(record: OnOffRecord) -> float:
    return sum(one.ended_s - one.begun_s for one in record.bursts)


def _rate(record: OnOffRecord) -> Value:
    on_s = _on_s(record)
    return sum(one.bytes for one in record.bursts) * 8 / on_s if on_s > 0 else None


_FIGURES = (
    Figure("bursts", "Bursts", "count", lambda record: len(record.bursts)),
    Figure("on_s", "Sending\nin all", "duration", _on_s),
    Figure("rate_on_bps", "Rate while\nsending", "rate", _rate),
)
KIND = KindOfFlow(
    ("onoff",),
    OnOffRecord,
    "onoff",
    "On/off sources",
    "As the senders measured it: rate is the payload given to the socket in bursts over their length.",
    figures=_FIGURES,
)
