# SPDX-License-Identifier: Apache-2.0
"""How the queue of a link is managed (RFC 7567), as a plan has it: in nanoseconds, bytes and whole numbers."""

from __future__ import annotations

from dataclasses import dataclass

# Linux's units of gains: of PIE's 1/s, and of PI2's Hz.
PIE_GAINS, PI2_GAINS = 16, 256


@dataclass(frozen=True)
class Threshold:
    """A depth from which on packets are marked: in bytes, or in packets of any size."""

    amount: int
    in_packets: bool = False


@dataclass(frozen=True)
class HeadDrop:
    """A full queue drops its oldest packets."""

    kind: str = "head-drop"


@dataclass(frozen=True)
class Step:
    """Whatever waited longer than the threshold is marked; with ``ect1_only``, of L4S packets alone (RFC 9331)."""

    threshold_ns: int
    ect1_only: bool
    kind: str = "step"


@dataclass(frozen=True)
class CoDel:
    """RFC 8289; with a threshold, what waited longer is marked besides, as by Linux's ``ce_threshold``."""

    target_ns: int
    interval_ns: int
    ecn: bool
    ce_threshold_ns: int | None = None
    kind: str = "codel"


@dataclass(frozen=True)
class Pie:
    """RFC 8033; gains in sixteenths of 1/s, as Linux has them."""

    target_ns: int
    tupdate_ns: int
    alpha: int
    beta: int
    ecn: bool
    kind: str = "pie"


@dataclass(frozen=True)
class Red:
    """RED (RFC 7567) by an average depth in bytes or packets, in which the newest arrival has the weight 2^-``weight``.

    An idle time counts as the packets of ``avpkt_bytes`` that a link of ``bandwidth_bps`` would have sent in it.
    """

    min_depth: int
    max_depth: int
    probability: float
    weight: int
    avpkt_bytes: int
    bandwidth_bps: int
    ecn: bool
    harddrop: bool
    nodrop: bool
    in_packets: bool = False
    kind: str = "red"


@dataclass(frozen=True)
class Pi2:
    """PI2 of one queue (De Schepper et al. 2016); gains in 1/256 Hz, as Linux has them."""

    target_ns: int
    tupdate_ns: int
    alpha: int
    beta: int
    ecn: bool
    kind: str = "pi2"


@dataclass(frozen=True)
class DualPi2:
    """RFC 9332: a queue for ECT(1) and CE, and one for the rest.

    While both have packets the classic one has ``classic_percent`` of the link.
    """

    target_ns: int
    tupdate_ns: int
    alpha: int
    beta: int
    step_ns: int
    coupling: int
    classic_percent: int
    kind: str = "dualpi2"


@dataclass(frozen=True)
class Fair:
    """A queue for each set of flows (RFC 8290), of ``quantum`` bytes a turn; with ``codel``, if set."""

    flows: int
    quantum: int
    codel: CoDel | None
    kind: str = "fq"


Queue = HeadDrop | Step | CoDel | Pie | Red | Pi2 | DualPi2 | Fair


def marks(queue: Queue | None) -> bool:
    """Whether a queue marks packets, so that hosts are to use ECN."""
    law = queue.codel if isinstance(queue, Fair) else queue
    if isinstance(law, CoDel):
        return law.ecn or law.ce_threshold_ns is not None
    return isinstance(law, Step | DualPi2) or (isinstance(law, Pie | Red | Pi2) and law.ecn)
