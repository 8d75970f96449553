# SPDX-License-Identifier: Apache-2.0
"""The entries of our program on Tofino that manage the queue of a link (p4src/tofino/queue_management)."""

from __future__ import annotations

from collections.abc import Iterator

from narrows.experiment.plan import Link, Plan
from narrows.queues.aqm import Call
from narrows.queues.pi2 import DualPi2, Pi2
from narrows.queues.pie import Pie
from narrows.queues.red import Red
from narrows.queues.step import Step
from narrows.switch.entries import ProgramEntry

from narrows_tofino.bfrt.client import Operation
from narrows_tofino.chip.red import TIME_PRECISION, Wred, wred
from narrows_tofino.writes.planned import PlannedWrite


def aqms(link: Link, latency_ns: int) -> Iterator[tuple[str, Call]]:
    """The program's tables that have an entry for a managed link, with its action and parameters.

    Args:
        link: the link.
        latency_ns: what the program takes for a delay while nothing waits.
    """
    match link.aqm:
        case Step(threshold_ns=threshold, ect1_only=only):
            yield "dequeue_aqm", ("step", {"threshold": threshold + latency_ns, "low_latency_only": int(only)})
        case Pi2() | Pie() as aqm:
            # Until the first update nothing is picked.
            yield "enqueue_aqm", picks(0, marks=aqm.ecn)
            yield "dequeue_aqm", ("decided_on_arrival", {})
        case DualPi2(step_ns=step):
            yield "enqueue_aqm", couples(0, 0, overload=False)
            yield "dequeue_aqm", ("coupled", {"threshold": step + latency_ns})
        case Red() as red:
            marks = {"ecn_marks": int(red.ecn), "nodrop": int(red.nodrop)}
            yield "dequeue_aqm", ("red", {"index": link.index, **marks})


def low_latency_queue(link: Link) -> int | None:
    """Number of the queue of a link's port that ECT(1) and CE wait in; None where all packets wait in one."""
    return link.queue + 1 if isinstance(link.aqm, DualPi2) else None


def queue_entries(plan: Plan) -> Iterator[ProgramEntry]:
    """The entries that choose the queue of a packet, and tell which one it left, of links that have two."""
    for link in plan.links:
        if (low := low_latency_queue(link)) is not None:
            key = {"bottleneck": link.index, "low_latency": 1}
            yield ProgramEntry("arrival_queue", key, "wait_in", {"number": low}, "ECT(1) and CE have their own queue")
            yield ProgramEntry("departure_queue", key, "second", {}, "reports and delays of that queue are its own")


def meter_writes(plan: Plan, cell_bytes: int) -> Iterator[PlannedWrite]:
    """The averages that RED decides by, one for each link that has it."""
    for link in plan.links:
        if isinstance(link.aqm, Red):
            yield meter_write(link.index, wred(link.aqm, plan.frame_bytes, cell_bytes))


def meter_write(index: int, settings: Wred) -> PlannedWrite:
    """One meter's settings, and what they may read back as."""
    constant_ns, made = settings.time_constant_ns, settings.made
    # Read back in whole percents as well, rounded down.
    least, most = made.probability - 0.0101, made.probability * made.steps / (made.steps - 1) + 0.0001
    return PlannedWrite(
        Operation.MODIFY,
        "wred",
        {"$WRED_INDEX": index},
        {
            "$WRED_SPEC_TIME_CONSTANT_NS": constant_ns,
            "$WRED_SPEC_MIN_THRESH_CELLS": settings.min_cells,
            "$WRED_SPEC_MAX_THRESH_CELLS": settings.max_cells,
            # The driver rounds up, also what is more than a percent only as a float of 32 bits.
            "$WRED_SPEC_MAX_PROBABILITY": (settings.percent - 0.5) / 100,
        },
        "the average depth that RED decides by",
        units={"$WRED_SPEC_MAX_PROBABILITY": f"{settings.percent} %"},
        within={
            "$WRED_SPEC_TIME_CONSTANT_NS": (constant_ns * (1 - 2 * TIME_PRECISION), constant_ns * (1 + 1e-6)),
            "$WRED_SPEC_MIN_THRESH_CELLS": (made.min_cells, made.min_cells),
            "$WRED_SPEC_MAX_THRESH_CELLS": (made.max_cells, made.max_cells),
            "$WRED_SPEC_MAX_PROBABILITY": (least, most),
        },
        # What a meter reads as that was never set is refused when it is written.
        stays=True,
    )


def picks(probability: int, *, marks: bool) -> Call:
    """The action of a link that picks packets on arrival, with a probability in units of 2^-32."""
    return "pick", {"probability": probability, "ecn_marks": int(marks)}


def couples(classic: int, low: int, *, overload: bool) -> Call:
    """The action of a link with DualPI2, with the probabilities of its two queues in units of 2^-32.

    In ``overload`` (RFC 9332, section 4.2) both drop what they pick, with the classic queue's probability.
    """
    if overload:
        return "couple_overloaded", {"probability": classic}
    return "couple", {"classic_probability": classic, "low_probability": low}
