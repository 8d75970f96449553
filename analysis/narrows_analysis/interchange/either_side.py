# SPDX-License-Identifier: Apache-2.0
"""Packets captured in front of a link and behind it: what was lost between, and how long it took. Of one capture, what
that shows: rates, retransmissions, and round-trip times."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict

import numpy as np
from narrows_formats.distribution import DelayDistribution, distribution

from narrows_analysis.errors import AnalysisError
from narrows_analysis.interchange.packet_headers import TCP, UDP, Packet, decode
from narrows_analysis.interchange.pcap_file import NANOSECONDS, read_frames
from narrows_analysis.metrics.loss import retransmission_ratio
from narrows_analysis.metrics.rtt import rtt_from_timestamps
from narrows_analysis.records.five_tuple import FiveTuple

ONE_SIDE = "one capture does not show what was lost between two places, nor how long it took"
# From here on the longest packet of one side and of the other are no longer those of the same frames.
JOINED = 1.5
OFFLOADS = (
    "a NIC or a kernel coalesced or segmented them in between; allowed: captures without offloads (ethtool -K DEV tso "
    "off gso off gro off)"
)

UDP_BYTES = 8

Seen = tuple[int, Packet]


class CapturedFlow(TypedDict):
    """A direction of a connection; times in seconds from the first packet of the captures. None: not known.

    ``lost`` are packets that entered and did not leave, ``duplicated`` those that left more often than they entered.
    ``at_edges`` entered, or left, when the other side was not captured (any more): they may be anything. ``ambiguous``
    could not be told from others: they are counted, and have no delay.
    """

    protocol: int
    src: str
    dst: str
    src_port: int
    dst_port: int
    packets: int
    ip_bytes: int
    start_s: float
    end_s: float
    goodput_bps: float | None
    retransmit_ratio: float | None
    lost: int | None
    loss_ratio: float | None
    duplicated: int | None
    at_edges: int | None
    ambiguous: int | None
    delay_s: DelayDistribution | None
    rtt_s: DelayDistribution | None


class Captured(TypedDict):
    """capture.json. ``not_read`` are frames that are not IP, or of which too little was stored."""

    captures: list[str]
    not_read: int
    reason: str | None
    flows: list[CapturedFlow]


@dataclass
class _Side:
    """A capture: its packets by flow, in order of time, and when it began and ended."""

    path: Path
    flows: dict[FiveTuple, list[Seen]] = field(default_factory=lambda: defaultdict(list))
    first_ns: int = 0
    last_ns: int = 0
    not_read: int = 0
    longest: int = 0
    # Bytes of the transport that are there of each packet.
    stored: int = 1 << 30


def analyze_captures(front: Path, behind: Path | None = None) -> Captured:
    """What the packets of one capture show, or of two on either side of a link, by one clock.

    Which side packets enter at follows from their times: those of the other direction enter behind.

    Raises:
        AnalysisError: a capture cannot be read, or the two are not of one link, of one clock, or of the same packets.
    """
    sides = [_read(path) for path in (front, behind) if path is not None]
    if len(sides) == 2:
        _refuse_joined(sides)
    origin_ns = min(side.first_ns for side in sides)
    flows = list(dict.fromkeys(flow for side in sides for flow in side.flows))
    found = [_flow(flow, sides, origin_ns) for flow in flows]
    return {
        "captures": [str(side.path) for side in sides],
        "not_read": sum(side.not_read for side in sides),
        "reason": ONE_SIDE if behind is None else None,
        "flows": sorted(found, key=lambda one: -one["ip_bytes"]),
    }


def _read(path: Path) -> _Side:
    side, interface = _Side(path), None
    for frame in read_frames(path):
        if interface not in (None, frame.interface):
            raise AnalysisError(f"{path}: has packets of several interfaces; allowed: those of one")
        interface = frame.interface
        try:
            packet = decode(frame.link_type, frame.data)
        except KeyError:
            raise AnalysisError(
                f"{path}: has link type {frame.link_type}; allowed: Ethernet, Linux cooked captures, raw IP"
            ) from None
        if packet is None:
            side.not_read += 1
            continue
        side.flows[packet.flow].append((frame.time_ns, packet))
        side.longest = max(side.longest, packet.ip_bytes)
        side.stored = min(side.stored, len(packet.transport)) if packet.cut else side.stored
    if not side.flows:
        raise AnalysisError(f"{path}: has no IP packet; allowed: a capture with IPv4 or IPv6")
    for seen in side.flows.values():
        seen.sort(key=lambda one: one[0])
    side.first_ns = min(seen[0][0] for seen in side.flows.values())
    side.last_ns = max(seen[-1][0] for seen in side.flows.values())
    return side


def _refuse_joined(sides: Sequence[_Side]) -> None:
    one, other = sorted(sides, key=lambda side: side.longest)
    if other.longest > JOINED * one.longest:
        raise AnalysisError(
            f"{other.path}: has packets of up to {other.longest} bytes, {one.path} of up to {one.longest}: {OFFLOADS}"
        )


def _flow(flow: FiveTuple, sides: Sequence[_Side], origin_ns: int) -> CapturedFlow:
    entering, leaving = _direction(flow, sides)
    enters = entering.flows.get(flow, [])
    seen = (leaving or entering).flows.get(flow) or enters
    times = [time_ns for time_ns, _ in seen]
    start_s, end_s = ((time_ns - origin_ns) / NANOSECONDS for time_ns in (times[0], times[-1]))
    of_tcp = [one for _, one in enters or seen if one.payload] if flow.protocol == TCP else []
    ratio = retransmission_ratio([one.seq for one in of_tcp], [one.payload for one in of_tcp]) if of_tcp else None
    new = _new_bytes(flow, [one for _, one in seen])
    result: CapturedFlow = {
        "protocol": flow.protocol, "src": flow.src, "dst": flow.dst,
        "src_port": flow.src_port, "dst_port": flow.dst_port,
        "packets": len(enters or seen), "ip_bytes": sum(one.ip_bytes for _, one in enters or seen),
        "start_s": start_s, "end_s": end_s, "goodput_bps": new * 8 / (end_s - start_s) if end_s > start_s else None,
        "retransmit_ratio": ratio, "lost": None, "loss_ratio": None, "duplicated": None, "at_edges": None,
        "ambiguous": None, "delay_s": None, "rtt_s": _rtt(flow, entering),
    }  # fmt: skip
    if leaving is not None:
        _between(result, flow, entering, leaving, min(side.stored for side in sides))
    return result


def _new_bytes(flow: FiveTuple, packets: Sequence[Packet]) -> int:
    """Payload that was there for the first time; of TCP without what is below the highest sequence number so far."""
    carrying = [one for one in packets if one.payload]
    if flow.protocol != TCP or not carrying:
        return sum(one.payload for one in carrying)
    start = np.array([one.seq for one in carrying], dtype=np.int64)
    size = np.array([one.payload for one in carrying], dtype=np.int64)
    turned = np.concatenate(([0], np.cumsum((np.diff(start) + (1 << 31)) % (1 << 32) - (1 << 31))))
    order = np.argsort(turned, kind="stable")
    begin, end = turned[order], (turned + size)[order]
    reached = np.maximum.accumulate(np.concatenate(([begin[0]], end)))[:-1]
    return int(np.maximum(0, end - np.maximum(begin, reached)).sum())


def _rtt(flow: FiveTuple, side: _Side) -> DelayDistribution | None:
    """From where the packets enter to the receiver and back, by TCP's timestamps."""
    back = side.flows.get(flow.reverse)
    if flow.protocol != TCP or back is None:
        return None
    sent = [(time_ns, one.tsval) for time_ns, one in side.flows.get(flow, []) if one.payload and one.tsval]
    echoed = [(time_ns, one.tsecr) for time_ns, one in back if one.tsecr]
    if not sent or not echoed:
        return None
    begun_ns = sent[0][0]
    # In nanoseconds, of which doubles hold every difference exactly.
    halves = [([time_ns - begun_ns for time_ns, _ in half], [value for _, value in half]) for half in (sent, echoed)]
    _, rtts_ns = rtt_from_timestamps(*halves[0], *halves[1])
    return distribution(list(rtts_ns / NANOSECONDS))


def _identities(seen: Sequence[Seen], stored: int) -> dict[tuple[bytes, bytes], list[int]]:
    """Times at which each packet was seen, by what it is known by on both sides."""
    found: dict[tuple[bytes, bytes], list[int]] = defaultdict(list)
    for time_ns, packet in seen:
        found[packet.network, packet.transport[:stored]].append(time_ns)
    return found


def _direction(flow: FiveTuple, sides: Sequence[_Side]) -> tuple[_Side, _Side | None]:
    """Where a flow's packets enter, and where they leave. A flow of which no packet was on both sides may not cross the
    link at all: it has one side, where more of it was."""
    if len(sides) == 1:
        return sides[0], None
    front, behind = sides
    later = _later_ns(flow, front, behind)
    if later is None:
        return max(sides, key=lambda side: len(side.flows.get(flow, ()))), None
    back = _later_ns(flow.reverse, front, behind) or 0
    if later * back > 0:
        raise AnalysisError(
            f"{front.path} and {behind.path}: packets of both directions seem to go the same way; allowed: captures by "
            "one clock"
        )
    return (front, behind) if later >= 0 else (behind, front)


def _later_ns(flow: FiveTuple, front: _Side, behind: _Side) -> int | None:
    """How much later the flow's packets were behind than in front, in sum; None if no packet was in both."""
    stored = min(front.stored, behind.stored)
    here, there = (_identities(side.flows.get(flow, []), stored) for side in (front, behind))
    found = [pair for one, times in here.items() if one in there for pair in zip(times, there[one], strict=False)]
    return sum(after - before for before, after in found) if found else None


def _only(seen: Iterable[Seen], elsewhere: Mapping[tuple[bytes, bytes], object], stored: int) -> list[tuple[int, int]]:
    """First sequence number and size of the data of packets that are not on the other side."""
    return [
        (one.seq, one.payload)
        for _, one in seen
        if one.payload and (one.network, one.transport[:stored]) not in elsewhere
    ]


def _recut(
    entered: Iterable[tuple[int, int]], left: Iterable[tuple[int, int]]
) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Data that entered, and data that left in packets that never entered and of which a part is the same, as where
    both captures were taken with offloads; None without such. What is sent again in other pieces enters in those."""
    sent = sorted(set(entered))
    starts, longest = [seq for seq, _ in sent], max((size for _, size in sent), default=0)
    for seq, size in left:
        for one, of_one in sent[bisect_right(starts, seq - longest) : bisect_left(starts, seq + size)]:
            if one + of_one > seq and (one, of_one) != (seq, size):
                return (one, of_one), (seq, size)
    return None


def _rejoined(enters: Sequence[Seen], leaves: Sequence[Seen], entering: _Side, stored: int) -> tuple[int, int] | None:
    """Sizes of a datagram that only entered and of one that only left, which begin alike: both captures have trains of
    datagrams joined, but not the same ones. What left when the other capture was not running entered unseen."""
    here, there = (
        {
            (one.network, one.transport[:stored]): one
            for time_ns, one in seen
            if entering.first_ns <= time_ns <= entering.last_ns and one.payload
        }
        for seen in (enters, leaves)
    )
    begins = {one.transport[UDP_BYTES:stored]: one.payload for known, one in here.items() if known not in there}
    for known, one in there.items():
        size = begins.get(one.transport[UDP_BYTES:stored])
        if known not in here and size not in (None, one.payload):
            return size, one.payload
    return None


def _between(result: CapturedFlow, flow: FiveTuple, entering: _Side, leaving: _Side, stored: int) -> None:
    """Fill in what was lost between the two sides, and how long the rest took."""
    enters, leaves = (side.flows.get(flow, []) for side in (entering, leaving))
    here, there = _identities(enters, stored), _identities(leaves, stored)
    if flow.protocol == TCP and (recut := _recut(_only(enters, there, stored), _only(leaves, here, stored))):
        (seq, size), (seq_behind, size_behind) = recut
        raise AnalysisError(
            f"{flow.src} to {flow.dst}: {size} bytes from sequence number {seq} on entered, and {size_behind} from "
            f"{seq_behind} on left: {OFFLOADS}"
        )
    if flow.protocol == UDP and (sizes := _rejoined(enters, leaves, entering, stored)):
        raise AnalysisError(
            f"{flow.src} to {flow.dst}: {sizes[0]} bytes entered, and {sizes[1]} that begin alike left: {OFFLOADS}"
        )
    delays = [
        after - before
        for one, times in here.items()
        if len(times) == len(there.get(one, ()))
        for before, after in zip(times, there[one], strict=True)
    ]
    if any(delay < 0 for delay in delays):
        raise AnalysisError(
            f"{result['src']} to {result['dst']}: a packet left before it entered; allowed: captures by one clock"
        )
    longest = max(delays, default=0)
    lost = unseen = duplicated = ambiguous = 0
    for one, times in here.items():
        missing = len(times) - len(there.get(one, ()))
        # What entered before the other capture began, or shortly before it ended, may have left unseen.
        inside = sum(leaving.first_ns <= time_ns <= leaving.last_ns - longest for time_ns in times)
        counted = min(max(0, missing), inside)
        lost, unseen = lost + counted, unseen + max(0, missing) - counted
        duplicated += max(0, -missing)
        ambiguous += len(times) if missing and one in there else 0
    entered = len(enters) - unseen
    appeared = sum(len(times) for one, times in there.items() if one not in here)
    result |= {
        "lost": lost,
        "loss_ratio": lost / entered if entered else None,
        "duplicated": duplicated,
        "at_edges": unseen + appeared,
        "ambiguous": ambiguous,
    }
    result["delay_s"] = distribution([delay / NANOSECONDS for delay in delays])
