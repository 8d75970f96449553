# SPDX-License-Identifier: Apache-2.0
"""UDP flows and probes: what both hosts counted in hosts/NAME.json, and what of it is in summary.json and reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict

from narrows_formats.connection_record import ConnectionRecord, Record, Time, Whole
from narrows_formats.distribution import DelayDistribution
from narrows_formats.kinds import Column, KindOfFlow, Value


class Delays(Record):
    """Least, mean, percentiles (nearest rank) and most of something, in seconds."""

    min: Time
    """Least."""
    mean: Time
    """Mean."""
    p50: Time
    """Median."""
    p95: Time
    """95th percentile."""
    p99: Time
    """99th percentile."""
    max: Time
    """Most."""


class Received(Record):
    """Datagrams of a flow as its receiver counted them; of a probe, those that came back to its sender."""

    packets: Whole
    """Datagrams that arrived, repetitions among them."""
    bytes: Whole
    """Payload of those that were no repetitions."""
    duplicates: Whole
    """Repetitions."""
    reordered: Whole
    """Those that one with a higher number had come before (RFC 4737)."""
    ce_marked: Whole
    """Those with the ECN field CE."""
    unread: Whole
    """Those that the socket had no room for."""
    delay_s: Delays | None = None
    """Time from sending to arrival, one way where both hosts have one clock; of a probe, the round-trip time."""

    def distribution(self) -> DelayDistribution | None:
        """The delays as summary.json has them."""
        delays = self.delay_s
        if delays is None:
            return None
        return {
            "min": delays.min, "mean": delays.mean, "p50": delays.p50, "p95": delays.p95, "p99": delays.p99,
            "max": delays.max,
        }  # fmt: skip


@with_config(ConfigDict(extra="forbid"))
class DatagramSummary(TypedDict):
    """UDP datagrams of a flow as its own hosts counted them; of a probe, those that came back, and round-trip times."""

    sent: int
    received: int | None
    lost: int | None
    duplicates: int | None
    reordered: int | None
    ce_marked: int | None
    delay_s: DelayDistribution | None
    rtt_s: DelayDistribution | None


class DatagramsRecord(ConnectionRecord):
    """Datagrams of a UDP flow or a probe."""

    packets_sent: Whole
    """Datagrams handed to the socket."""
    packets_unsent: Whole | None = None
    """Datagrams that the socket had no room for when their time came."""
    last_sent_s: Time | None = None
    """When the last datagram was sent, which may be before its sender ended."""
    received: Received | None = None
    """What arrived of them; null: the receiver did not say."""

    @property
    def stopped_s(self) -> float | None:
        """See `ConnectionRecord.stopped_s`: when the last datagram was sent."""
        return self.last_sent_s

    @property
    def distinct_datagrams(self) -> int | None:
        """See `ConnectionRecord.distinct_datagrams`."""
        return None if self.received is None else self.received.packets - self.received.duplicates

    def own_summary(self) -> Mapping[str, object]:
        """What both ends counted."""
        return {"datagrams": self._counted()}

    def _counted(self) -> DatagramSummary:
        """A receiver that could not tell leaves what it knows open."""
        arrived, is_probe = self.received, self.kind == "probe"
        if arrived is None:
            return {
                "sent": self.packets_sent, "received": None, "lost": None, "duplicates": None, "reordered": None,
                "ce_marked": None, "delay_s": None, "rtt_s": None,
            }  # fmt: skip
        times = arrived.distribution()
        return {
            "sent": self.packets_sent,
            "received": arrived.packets,
            "lost": self.packets_sent - (arrived.packets - arrived.duplicates),
            "duplicates": arrived.duplicates,
            "reordered": arrived.reordered,
            "ce_marked": arrived.ce_marked,
            "delay_s": None if is_probe else times,
            "rtt_s": times if is_probe else None,
        }


def _delay(of: Literal["delay_s", "rtt_s"], part: Literal["p50", "p99"]) -> Callable[[DatagramSummary], Value]:
    def value(counted: DatagramSummary) -> Value:
        delays = counted[of]
        return None if delays is None else delays[part]

    return value


KIND = KindOfFlow(
    ("udp", "probe"),
    DatagramsRecord,
    "datagrams",
    "Datagrams",
    "Datagrams as the hosts counted them. Lost are those that did not arrive, whatever took them: a queue, loss "
    "emulation, or of a probe the way back. Reordered are those that arrived after one "
    "with a higher number (RFC 4737). RTT is of a probe, whose datagrams come back.",
    (
        Column("Sent", "count", lambda counted: counted["sent"]),
        Column("Received", "count", lambda counted: counted["received"]),
        Column("Lost", "count", lambda counted: counted["lost"]),
        Column("Reordered", "count", lambda counted: counted["reordered"]),
        Column("Duplicates", "count", lambda counted: counted["duplicates"]),
        Column("CE", "count", lambda counted: counted["ce_marked"]),
        Column("One way\nmedian", "duration", _delay("delay_s", "p50")),
        Column("One way\n99 %", "duration", _delay("delay_s", "p99")),
        Column("RTT\nmedian", "duration", _delay("rtt_s", "p50")),
        Column("RTT\n99 %", "duration", _delay("rtt_s", "p99")),
    ),
)
