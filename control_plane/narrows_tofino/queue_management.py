# SPDX-License-Identifier: Apache-2.0
"""How the queues of links are managed on Tofino: which AQMs its program has, and what they cannot do."""

from __future__ import annotations

from math import isclose

from narrows.errors import InputError
from narrows.experiment.plan import Link, Plan
from narrows.queues.aqm import Aqm
from narrows.queues.pi2 import DualPi2
from narrows.queues.red import Red
from narrows.queues.step import Step
from narrows_formats.units import NANOSECONDS, format_time

from narrows_tofino.chip.red import MAX_TIME_CONSTANT_NS, wred
from narrows_tofino.link_tasks import Updated, say_sharing, tasks_of, updated_links
from narrows_tofino.testbed.inventory import MANAGED_PROGRAM, Inventory
from narrows_tofino.writes.entries import DELAY_BITS

KINDS = ("step", "pi2", "pie", "red", "dualpi2")
# Of a threshold or a probability that the driver rounds.
ROUNDING = 0.05
LEAST_STEPS = round(2 / ROUNDING)
_PERCENT = 100


def refuse_what_it_lacks(plan: Plan, inventory: Inventory) -> None:
    """Raises InputError if a queue is to be managed in a way that the chip, its program or its driver cannot."""
    for link in plan.links:
        _refuse_packets(link)
    managed = [(link, link.aqm) for link in plan.links if link.aqm is not None]
    for link, aqm in managed:
        _refuse_aqm(link, aqm, inventory)
        if isinstance(aqm, Step):
            _refuse_long_threshold(link, "threshold", aqm.threshold_ns, inventory)
        elif link.loss:
            raise InputError(
                f"{link.field}.loss: a report of Tofino has room for one count, of losses or of "
                f"{aqm.kind}'s drops; allowed: 0, or --target soft"
            )
        if isinstance(aqm, DualPi2):
            _refuse_long_threshold(link, "step_thresh", aqm.step_ns, inventory)
            _refuse_no_weight(link, aqm)
        if isinstance(aqm, Red):
            _refuse_rounding(link, aqm, plan.frame_bytes, inventory)
    for link, aqm in updated_links(plan):
        _refuse_fast_updates(link, aqm, plan, inventory)


def refuse_shared_ports(plan: Plan, inventory: Inventory) -> None:
    """Raises InputError if anything else leaves by the port of a link with two queues, whose shaper is the port's.

    Args:
        plan: a bound plan.
        inventory: the testbed.
    """
    for link in plan.links:
        if not isinstance(link.aqm, DualPi2):
            continue
        names = {one.index: one.name for one in plan.reported}
        others = [
            *(names[path.link] if path.link is not None else f"what is for {path.dst_mac}" for path in plan.paths
              if path.egress_port == link.port and path.link != link.index),
            *(["the reports"] if plan.collector.port == link.port else []),
        ]  # fmt: skip
        if others:
            raise InputError(
                f"{link.field}.queue: dualpi2's two queues share the rate of their port, "
                f"{inventory.port(link.port).name}, by which {' and '.join(dict.fromkeys(others))} would leave as "
                "well; allowed: a port for this link alone, or --target soft"
            )


def _refuse_aqm(link: Link, aqm: Aqm, inventory: Inventory) -> None:
    kind = aqm.kind
    if kind not in KINDS:
        raise InputError(
            f"{link.field}.queue: {kind} needs {aqm.needs}, which the program on Tofino does not have; allowed: "
            f"tail-drop, {', '.join(KINDS)}, with or without ecn_threshold, or --target soft"
        )
    if not inventory.switch.manages_queues:
        raise InputError(
            f"{link.field}.queue: {kind} needs the program {MANAGED_PROGRAM}, and the switch's is "
            f"{inventory.switch.program} (switch.program of the inventory); fix: deploy/install-switch.sh "
            f"{inventory.switch.chip} --managed, and program: {MANAGED_PROGRAM}; allowed without: tail-drop, or "
            "--target soft"
        )


def _refuse_packets(link: Link) -> None:
    """Raises InputError if something is to happen from a number of packets on: depths are in cells."""
    counted = {
        "ecn_threshold": link.ecn_threshold is not None and link.ecn_threshold.in_packets,
        "queue.max": isinstance(link.aqm, Red) and link.aqm.in_packets,
    }
    for field, in_packets in counted.items():
        if in_packets:
            raise InputError(
                f"{link.field}.{field}: is in packets, and Tofino knows how much memory a queue takes, not how many "
                "packets are in it; allowed: a size, a time or BDPs, or --target soft"
            )


def _refuse_long_threshold(link: Link, field: str, threshold_ns: int, inventory: Inventory) -> None:
    longest = (1 << DELAY_BITS) - 2 - inventory.latency_ns
    if threshold_ns > longest:
        raise InputError(
            f"{link.field}.queue.{field}: {format_time(threshold_ns)} is more than the program on Tofino can tell; "
            f"allowed: up to {longest}ns, or --target soft"
        )


def _refuse_no_weight(link: Link, aqm: DualPi2) -> None:
    if not 0 < aqm.classic_percent < _PERCENT:
        raise InputError(
            f"{link.field}.queue.classic_protection: {aqm.classic_percent}% would give a queue the weight 0, by which "
            "Tofino's scheduler does not share; allowed: 1% to 99%, or --target soft"
        )


def _refuse_rounding(link: Link, red: Red, frame_bytes: int, inventory: Inventory) -> None:
    """Raises InputError if the driver would make something else of RED's settings, or the chip has no such thing."""
    field = f"{link.field}.queue"
    if red.harddrop:
        raise InputError(
            f"{field}.harddrop: Tofino tells what RED picks, and not by which bound; allowed: false, or --target soft"
        )
    settings = wred(red, frame_bytes, inventory.switch.generation.cell_bytes)
    if not isclose(red.probability * 100, settings.percent) or not settings.percent:
        raise InputError(
            f"{field}.probability: {red.probability:g} is not a whole percent, and the driver takes no other; allowed: "
            "0.01, 0.02 and so on up to 1, or --target soft"
        )
    if settings.time_constant_ns > MAX_TIME_CONSTANT_NS:
        raise InputError(
            f"{field}.burst: an average over {format_time(round(settings.time_constant_ns))} is longer than a meter of "
            f"Tofino has; allowed: up to {format_time(MAX_TIME_CONSTANT_NS)} (less burst, more bandwidth), or --target "
            "soft"
        )
    made = settings.made
    if made.steps < LEAST_STEPS:
        raise InputError(
            f"{field}.min: the driver makes {made.steps} steps of the slope from {settings.min_cells} to "
            f"{settings.max_cells} cells, which are too few; allowed: {LEAST_STEPS} or more, as with min further from "
            "max, or --target soft"
        )
    for name, asked, got in (
        ("min", settings.min_cells, made.min_cells),
        ("max", settings.max_cells, made.max_cells),
        ("probability", settings.percent / 100, made.probability),
    ):
        if not isclose(asked, got, rel_tol=ROUNDING):
            unit = "" if name == "probability" else " cells"
            raise InputError(
                f"{field}.{name}: the driver makes {got:.3g}{unit} of {asked:.3g}, as it has min, max and the slope "
                f"between them in 8 bits of one unit; allowed: what comes within {ROUNDING:.0%}, as with min nearer to "
                "max, or --target soft"
            )


def _refuse_fast_updates(link: Link, aqm: Updated, plan: Plan, inventory: Inventory) -> None:
    calibration = inventory.calibration
    if calibration is None or calibration.rate_step_ns is None:
        raise InputError(
            f"{link.field}.queue: {aqm.kind} has its probability from the control plane, and how fast this switch "
            "takes one was never measured; fix: narrows calibrate; allowed without: tail-drop, step, or --target soft"
        )
    if not link.rates_bps.least:
        raise InputError(
            f"{link.field}.rate: is 0 for a time, in which {aqm.kind} would learn nothing of its queue: delays are "
            "read from departures; allowed: rates above 0, tail-drop, step, or --target soft"
        )
    # A queue in which something waits has a departure in each period.
    percent = aqm.classic_percent if isinstance(aqm, DualPi2) else _PERCENT
    frame_ns = -(-plan.frame_bytes * 8 * NANOSECONDS * _PERCENT // (link.rates_bps.least * percent))
    part = "" if percent == _PERCENT else f", of which the classic queue has {percent}%"
    finest_ns = max(calibration.rate_step_ns * tasks_of(plan), frame_ns)
    if aqm.tupdate_ns < finest_ns:
        why = (
            f"a frame takes {format_time(frame_ns)} at the least rate{part}"
            if finest_ns == frame_ns
            else f"the driver takes an update every {format_time(finest_ns)} (calibration of {calibration.date}"
            f"{say_sharing(plan)})"
        )
        raise InputError(
            f"{link.field}.queue.tupdate: {format_time(aqm.tupdate_ns)} is too short, {why}; allowed: {finest_ns}ns or "
            "more, or --target soft"
        )
