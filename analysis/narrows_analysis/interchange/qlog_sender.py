# SPDX-License-Identifier: Apache-2.0
"""The state of a QUIC sender over time, from the events that its stack has logged.

Sources: draft-ietf-quic-qlog-quic-events (`recovery_metrics_updated`, `congestion_state_updated`, `packet_lost`,
`packet_sent`, `packet_received`, `packets_acked`), and the names that its first versions had for them. What is not
logged is not a number: nothing is concluded from a stack's name.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pandas as pd

from narrows_analysis.interchange.qlog import Event, Trace, number

FloatArray = npt.NDArray[np.float64]

# The metrics by their names in the drafts, and the columns of sockets.parquet that have them.
IN_MS = {"smoothed_rtt": "rtt_s", "min_rtt": "min_rtt_s", "latest_rtt": "latest_rtt_s"}
AS_LOGGED = {
    "congestion_window": "cwnd_bytes", "bytes_in_flight": "inflight_bytes", "ssthresh": "ssthresh_bytes",
    "pacing_rate": "pacing_rate_bps",
}  # fmt: skip
COUNTED = ("retransmits", "acked_bytes", "data_packets")
NUMBERS = (*IN_MS.values(), *AS_LOGGED.values(), *COUNTED)
# Larger than QUIC's integers are (RFC 9000, section 16): a threshold that nothing has set.
UNSET = 2.0**62
# Names of BBR's phases in letters alone, as stacks write them: ProbeBwUp, probe_bw_up, PROBE_UP. A PROBE_BW that says
# no more is none of them.
PHASES = {
    "STARTUP": "STARTUP", "DRAIN": "DRAIN", "PROBERTT": "PROBE_RTT",
    **{f"PROBE{bw}{part}": f"PROBE_{part}" for bw in ("", "BW") for part in ("UP", "DOWN", "CRUISE", "REFILL")},
}  # fmt: skip
_NO_LETTER = re.compile(r"[^A-Z]")
# The packet number space of application data.
_APPLICATION = ("1RTT", "0RTT")
# So many packets are enough to find a log's place among a switch's reports.
MOST_SENT = 200


@dataclass
class SenderLog:
    """What a trace has of its own sender.

    Attributes:
        trace: of which it is.
        sent_ms: times of the first packets that it has sent, all spaces.
        end_ms: time of its last event.
        mistyped: values that are not of their kind, and were left out.
    """

    trace: Trace
    sent_ms: list[float] = field(default_factory=list)
    end_ms: float = 0.0
    mistyped: int = 0
    _times: array[float] = field(default_factory=lambda: array("d"))
    _columns: dict[str, array[float]] = field(default_factory=lambda: {name: array("d") for name in NUMBERS})
    _states: list[str | None] = field(default_factory=list)
    _now: dict[str, float] = field(default_factory=dict)
    _state: str | None = None
    _has_acks: bool | None = None
    _has_rtt: bool = False
    _packets: _Packets = field(default_factory=lambda: _Packets())

    @property
    def begin_ms(self) -> float | None:
        """Time of the first event that tells of the sender's state; None: there is none."""
        return self._times[0] if self._times else None

    def take(self, event: Event) -> None:
        """The next event."""
        # Threads of a stack may log out of order.
        self.end_ms = max(self.end_ms, event.time_ms)
        if (handle := _HANDLERS.get(event.name)) is not None and handle(self, event.data):
            self._note()

    def _note(self) -> None:
        self._times.append(self.end_ms)
        self._states.append(self._state)
        for name, values in self._columns.items():
            values.append(self._now.get(name, np.nan))

    def at(self, times_ms: FloatArray) -> pd.DataFrame:
        """The state at each time, as the last event until then left it: `NUMBERS`, ``congestion_state`` and
        ``bbr_phase``; without rows for times before the first event, and behind the last one."""
        inside = times_ms[times_ms <= self.end_ms]
        place = np.searchsorted(np.asarray(self._times), inside, side="right") - 1
        inside, place = inside[place >= 0], place[place >= 0]
        frame = pd.DataFrame({name: np.asarray(values)[place] for name, values in self._columns.items()})
        states = pd.Series([self._states[one] for one in place], dtype="string")
        phases = states.str.upper().str.replace(_NO_LETTER, "", regex=True).str.removeprefix("BBR").map(PHASES)
        counts = {name: frame[name].fillna(0) for name in COUNTED if name in self._now}
        return frame.assign(time_ms=inside, congestion_state=states, bbr_phase=phases.astype("string"), **counts)

    def _metrics(self, data: Mapping[str, object]) -> bool:
        found = {}
        for name in (*IN_MS, *AS_LOGGED):
            if data.get(name) is None:
                continue
            value = number(data[name])
            if value is None or value < 0:
                self.mistyped += 1
            else:
                found[name] = value if value < UNSET else np.nan
        # Before the first sample, which is of the first ACK, stacks have a guess of the RTT, or a smallest one of none.
        sampled = found.get("latest_rtt", 0.0) > 0 or found.get("min_rtt", 0.0) > 0
        self._has_rtt |= sampled and self._has_acks is not False
        self._now |= {AS_LOGGED[name]: value for name, value in found.items() if name in AS_LOGGED}
        if self._has_rtt:
            in_ms = {IN_MS[name]: value * self.trace.unit_ms for name, value in found.items() if name in IN_MS}
            self._now |= {name: value / 1e3 or np.nan for name, value in in_ms.items()}
        return bool(found)

    def _congestion_state(self, data: Mapping[str, object]) -> bool:
        if not isinstance(state := data.get("new"), str):
            self.mistyped += 1
            return False
        self._state = state
        return True

    def _sent(self, data: Mapping[str, object]) -> bool:
        if len(self.sent_ms) < MOST_SENT:
            self.sent_ms.append(self.end_ms)
        if not (frames := list(_stream_frames(data))):
            return False
        self._count("data_packets", 1)
        if (packet := _packet_number(data)) is not None:
            self._packets.send(packet, frames)
        return True

    def _received(self, data: Mapping[str, object]) -> bool:
        self._has_acks = self._has_acks or any(_frames(data, "ack"))
        if _packet_number(data) is None:
            return False
        ranges = [one for frame in _frames(data, "ack") for one in _ranges(frame.get("acked_ranges"))]
        return bool(ranges) and self._acked(ranges)

    def _packets_acked(self, data: Mapping[str, object]) -> bool:
        if data.get("packet_number_space", "application_data") != "application_data":
            return False
        return self._acked(list(_ranges([[one] for one in _items(data.get("packet_numbers"))])))

    def _acked(self, ranges: list[tuple[int, int]]) -> bool:
        if not self._packets.any_sent:
            return False
        self._count("acked_bytes", sum(self._packets.acknowledge(*one) for one in ranges))
        return True

    def _lost(self, data: Mapping[str, object]) -> bool:
        """A lost probe of the MTU, and one without data, is not sent again."""
        packet = _packet_number(data)
        is_probe = data.get("is_mtu_probe_packet") is True
        has_data = not self._packets.any_sent or packet is None or self._packets.has_data(packet)
        self._count("retransmits", int(has_data and not is_probe))
        return True

    def _count(self, name: str, more: int) -> None:
        self._now[name] = self._now.get(name, 0.0) + more


_HANDLERS: dict[str, Callable[[SenderLog, Mapping[str, object]], bool]] = {
    "recovery_metrics_updated": SenderLog._metrics,
    "metrics_updated": SenderLog._metrics,
    "metric_update": SenderLog._metrics,
    "congestion_state_updated": SenderLog._congestion_state,
    "packet_sent": SenderLog._sent,
    "packet_received": SenderLog._received,
    "packets_acked": SenderLog._packets_acked,
    "packet_lost": SenderLog._lost,
}


class _Packets:
    """Packets with data that were sent, until they are acknowledged; and which data have been, once each."""

    def __init__(self) -> None:
        self.any_sent = False
        self._frames: dict[int, list[tuple[int, int, int]]] = {}
        self._numbers: list[int] = []
        self._acknowledged: dict[int, _Intervals] = {}

    def send(self, packet: int, frames: list[tuple[int, int, int]]) -> None:
        self.any_sent = True
        if not self._numbers or packet > self._numbers[-1]:
            self._numbers.append(packet)
            self._frames[packet] = frames

    def has_data(self, packet: int) -> bool:
        return packet in self._frames

    def acknowledge(self, first: int, last: int) -> int:
        """Bytes that packets of a range have, and that no other one that was acknowledged had."""
        low, high = bisect_left(self._numbers, first), bisect_right(self._numbers, last)
        packets = self._numbers[low:high]
        del self._numbers[low:high]
        return sum(
            self._acknowledged.setdefault(stream, _Intervals()).add(begin, begin + length)
            for packet in packets
            for stream, begin, length in self._frames.pop(packet)
        )


class _Intervals:
    """Disjoint intervals of whole numbers, in order."""

    def __init__(self) -> None:
        self._begins: list[int] = []
        self._ends: list[int] = []

    def add(self, begin: int, end: int) -> int:
        """How many of the numbers from ``begin`` until before ``end`` are new."""
        low, high = bisect_left(self._ends, begin), bisect_right(self._begins, end)
        inside = zip(self._begins[low:high], self._ends[low:high], strict=True)
        known = sum(min(last, end) - max(first, begin) for first, last in inside)
        merged = min([begin, *self._begins[low : low + 1]]) if low < high else begin
        until = max(end, self._ends[high - 1]) if low < high else end
        self._begins[low:high], self._ends[low:high] = [merged], [until]
        return end - begin - known


def _items(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _frames(data: Mapping[str, object], kind: str) -> Iterator[dict[str, object]]:
    for frame in _items(data.get("frames")):
        if isinstance(frame, dict) and str(frame.get("frame_type")).lower() == kind:
            yield frame


def _stream_frames(data: Mapping[str, object]) -> Iterator[tuple[int, int, int]]:
    """Stream, offset and length of each frame with data."""
    for frame in _frames(data, "stream"):
        raw = frame.get("raw")
        lengths = raw if isinstance(raw, dict) else {}
        length = frame.get("length", lengths.get("payload_length", lengths.get("length")))
        stream, offset, size = _whole(frame.get("stream_id")), _whole(frame.get("offset", 0)), _whole(length)
        if stream is not None and offset is not None and size:
            yield stream, offset, size


def _packet_number(data: Mapping[str, object]) -> int | None:
    """The number of a packet of application data; None: another one, or one that does not say it."""
    header = data.get("header")
    found = header if isinstance(header, dict) else {}
    kind = found.get("packet_type", data.get("packet_type"))
    return _whole(found.get("packet_number")) if str(kind).upper() in _APPLICATION else None


def _ranges(value: object) -> Iterator[tuple[int, int]]:
    """Ranges of packet numbers: [1, 4], or [4] for one."""
    for one in _items(value):
        ends = [_whole(end) for end in _items(one)]
        if ends and ends[0] is not None and ends[-1] is not None:
            yield ends[0], ends[-1]


def _whole(value: object) -> int | None:
    found = number(value)
    return int(found) if found is not None and 0 <= found < UNSET else None
