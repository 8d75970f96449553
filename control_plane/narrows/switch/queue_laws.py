# SPDX-License-Identifier: Apache-2.0
"""What makes our P4 program and the softswitch's traffic manager manage the queue of a link."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil, log2
from typing import TYPE_CHECKING

from narrows_formats.units import NANOSECONDS

from narrows.experiment.plan import Link, Plan
from narrows.experiment.queues import PI2_GAINS, PIE_GAINS, CoDel, DualPi2, Fair, HeadDrop, Pi2, Pie, Queue, Red, Step

if TYPE_CHECKING:
    from narrows.switch import traffic_manager_pb2 as pb

# Of no packet: 32 bits.
NO_THRESHOLD = (1 << 32) - 1
# Probabilities are of 56 bits in PIE, of 32 in PI2 (p4src/v1model/queue_management).
PIE_CERTAIN, PI2_CERTAIN = (1 << 56) - 1, (1 << 32) - 1
PI2_UNIT_NS = 64
# RED's probabilities are of 32 bits, what they add for each unit of the average of 64, its halvings in units of 2^-56.
RED_CERTAIN, RED_SLOPE, RED_HALVING = (1 << 32) - 1, 1 << 32, 1 << 56
# Its depths in packets are in units of 2 to the power of minus this.
RED_PACKET_BITS = 10
# Halvings after which nothing is left of its average of 52 bits.
RED_HALVINGS = 52
# Packets that the longest queue of FQ-CoDel loses at once, at most (RFC 8290, section 4.1).
FQ_CODEL_BATCH = 64

# Times of 48 bits wrap: half of them are of the past.
MOST_IDLE_NS = (1 << 47) - 1

Call = tuple[str, Mapping[str, int]]

# What each kind needs of a switch and of Narrows' program on it, beside dropping what there is no room for.
_DEPTH_AT_INGRESS = "the depth of the queue before a packet is queued"
_DROPS_FOR_FREE = "drops behind the queue that cost the link no time"
NEEDS = {
    "head-drop": "to drop what has waited longest",
    "step": "marks by the time that a packet waited",
    "codel": _DROPS_FOR_FREE,
    "pie": _DEPTH_AT_INGRESS,
    "red": _DEPTH_AT_INGRESS,
    "pi2": _DROPS_FOR_FREE,
    "dualpi2": f"two queues that share a link by the bytes that each has sent, and {_DROPS_FOR_FREE}",
    "fq": "a queue of a link for each of its flows",
    "fq_codel": f"a queue of a link for each of its flows, and {_DROPS_FOR_FREE}",
}


def laws(link: Link, frame_bytes: int) -> Iterator[tuple[str, Call]]:
    """The program's tables that have an entry for a managed link, with its action and parameters."""
    if (enqueue := _enqueue_law(link, frame_bytes)) is not None:
        yield "enqueue_law", enqueue
    if (dequeue := _dequeue_law(link.management, frame_bytes)) is not None:
        yield "dequeue_law", dequeue
    if isinstance(link.management, Pie | Pi2 | DualPi2):
        yield "update_law", update_law(link.management)


def _enqueue_law(link: Link, mtu: int) -> Call | None:
    match link.management:
        case Pie(target_ns=target, ecn=ecn):
            limits = {"limit_bytes": link.byte_limit, "limit_packets": link.limit_packets or 0}
            return "pie_at_enqueue", {"target": target, "mtu": mtu, **limits, "ecn_marks": int(ecn)}
        case Red() as red:
            return "red", _red(red)
        case DualPi2():
            return "two_queues", {}
        case Fair(flows=flows):
            return "fair_queues", {"mask": flows - 1}
    return None


def _red(red: Red) -> dict[str, int]:
    """The average is in units of 2^-weight of a byte, or of 2^-10 packets."""
    scale = red.weight + (RED_PACKET_BITS if red.in_packets else 0)
    low, high = red.min_depth << scale, red.max_depth << scale
    packet_ns = red.avpkt_bytes * 8 * NANOSECONDS / red.bandwidth_bps
    halvings_each_ns = -log2(1 - 2**-red.weight) / packet_ns
    return {
        "counts_packets": int(red.in_packets),
        "weight": red.weight,
        "low": low,
        "high": high,
        "slope": min(round(red.probability * (1 << 32)), RED_CERTAIN) * RED_SLOPE // (high - low),
        "halvings": round(halvings_each_ns * RED_HALVING),
        "forgotten": min(ceil(RED_HALVINGS / halvings_each_ns), MOST_IDLE_NS),
        "ecn_marks": int(red.ecn),
        "harddrop": int(red.harddrop),
        "nodrop": int(red.nodrop),
    }


def _dequeue_law(queue: Queue | None, mtu: int, shares_link: bool = False) -> Call | None:
    match queue:
        case Step(threshold_ns=threshold, ect1_only=only):
            return "step", {"threshold": threshold, "low_latency_only": int(only)}
        case CoDel() as codel:
            threshold = NO_THRESHOLD if codel.ce_threshold_ns is None else codel.ce_threshold_ns
            return "codel", {
                "target": codel.target_ns,
                "interval": codel.interval_ns,
                "mtu": mtu,
                "ecn_marks": int(codel.ecn),
                "shares_link": int(shares_link),
                "threshold": threshold,
                "low_latency_only": 0,
            }
        case Fair(codel=codel):
            return _dequeue_law(codel, mtu, shares_link=True)
        case Pie():
            return "pie_at_dequeue", {}
        case Pi2(ecn=ecn):
            return "pi2_at_dequeue", {"step": NO_THRESHOLD, "coupling": 1, "mtu": mtu, "ecn_marks": int(ecn)}
        case DualPi2(step_ns=step, coupling=coupling):
            return "pi2_at_dequeue", {"step": step, "coupling": coupling, "mtu": mtu, "ecn_marks": 1}
    return None


def update_law(queue: Pie | Pi2 | DualPi2) -> Call:
    """What a law does each ``tupdate``."""
    match queue:
        case Pie(target_ns=target, tupdate_ns=tupdate, alpha=alpha, beta=beta):
            gains = {"alpha": _pie_gain(alpha), "beta": _pie_gain(beta)}
            return "pie_at_update", {"target": target, "tupdate": tupdate, **gains}
        case Pi2() | DualPi2():
            gains = {"alpha": _pi2_gain(queue.alpha), "beta": _pi2_gain(queue.beta)}
            return "pi2_at_update", {"target": queue.target_ns, **gains}


def _pie_gain(sixteenths: int) -> int:
    """Probability for each nanosecond of delay, as Linux rounds it."""
    return sixteenths * (PIE_CERTAIN // NANOSECONDS) // PIE_GAINS


def _pi2_gain(of_256: int) -> int:
    """Probability for each 64 ns of delay, as Linux rounds it."""
    return of_256 * PI2_CERTAIN * PI2_UNIT_NS // (PI2_GAINS * NANOSECONDS)


def is_managed(plan: Plan) -> bool:
    """Whether the program manages some queue of a plan, so that it is the one that can."""
    return any(link.management is not None and not isinstance(link.management, HeadDrop) for link in plan.links)


def management_message(link: Link, frame_bytes: int) -> pb.Management:
    """The traffic manager's settings of a link."""
    from narrows.switch import traffic_manager_pb2 as pb

    queue = link.management
    if queue is None or isinstance(queue, HeadDrop):
        return pb.Management(enabled=False)
    period = queue.tupdate_ns if isinstance(queue, Pie | Pi2 | DualPi2) else 0
    message = pb.Management(enabled=True, index=link.index, period_ns=period)
    if isinstance(queue, DualPi2):
        message.coupled.CopyFrom(pb.Coupled(classic_percent=queue.classic_percent, mtu=frame_bytes))
    elif isinstance(queue, Fair):
        message.fair.CopyFrom(
            pb.Fair(queues=queue.flows, quantum=queue.quantum, batch=1 if queue.codel is None else FQ_CODEL_BATCH)
        )
    return message
