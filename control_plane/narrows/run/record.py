# SPDX-License-Identifier: Apache-2.0
"""Writes run.json after a measurement, and the tables that are made from raw readings.

The measurement may have been made elsewhere; only its findings and the files in the run's directory are needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from narrows_formats import files
from narrows_formats.schedules import as_json
from narrows_formats.units import NANOSECONDS

from narrows import __version__
from narrows.experiment.model import Experiment
from narrows.experiment.plan import Link, Plan, ReportedLink
from narrows.paths import commit
from narrows.run import clock, drop_accounting
from narrows.run.buffer_notes import depends_on_rate
from narrows.run.changes import Made, varied
from narrows.run.event_record import events
from narrows.run.measured import Counters, Measured, Status
from narrows.run.results import RunDirectory
from narrows.run.undelivered import Counted
from narrows.switch.readings import FlowDrops
from narrows.targets.base import AppliedLink

if TYPE_CHECKING:
    from narrows_formats.run_record import RunRecord


@dataclass(frozen=True)
class Ending:
    """How a run ended; ``reason`` says why it is not complete, ``notes`` are for the user."""

    status: Status
    reason: str
    notes: tuple[str, ...]


def write(
    experiment: Experiment,
    plan: Plan,
    measured: Measured,
    results: RunDirectory,
    host_metadata: Mapping[str, Mapping[str, object]],
) -> Ending:
    """Write everything but the analysis.

    Args:
        experiment: of the run.
        plan: what was made of it.
        measured: what was found.
        results: the run's directory.
        host_metadata: what run.json says of where it was measured: ``host`` and what stands beside it.
    """
    status, reasons, notes = measured.status, list(measured.reasons), list(measured.notes)
    logged = []
    if measured.sockets and plan.has_applications:
        from narrows.run import qlogs

        origin_ns = _clock_origin(measured, results, plan).ns
        logged = qlogs.of_programs(results, plan, measured, experiment.telemetry.sockets, origin_ns)
    notes += [f"{connection.flow.name}: {note}" for connection in measured.connections for note in connection.notes]
    if measured.sockets:
        from narrows.traffic import socket_table  # and with it pandas, once traffic has flowed

        with _kept_without(table := results.hosts / files.SOCKETS, reasons):
            socket_table.store(measured.sockets, measured.connections, measured.t0_s, table, logged)
            for one in measured.sockets:
                one.path.unlink()
    if plan.watches:
        from narrows_formats import registers

        with _kept_without(table := results.telemetry / files.REGISTERS, reasons):
            registers.write(
                [
                    (reading.time_s, name, value)
                    for reading in measured.watched
                    for name, value in zip(plan.watched_cells, reading.values, strict=True)
                ],
                table,
            )
    readings: dict[str, object] = {}
    drops_recorded: set[str] = set()
    if measured.unexpected_losses is not None:
        readings["losses_elsewhere"] = measured.unexpected_losses
    if measured.counters is not None:
        from narrows_formats import learned_flows

        with _kept_without(table := results.telemetry / files.LEARNED_FLOWS, reasons):
            learned_flows.write(measured.learned, table)
        checks = {}
        last_reports = drop_accounting.last_reports(results.telemetry)
        reports = {link.name: last_reports.get(link.index, {}) for link in plan.reported}
        recorded = drop_accounting.recorded_drops(results.telemetry)
        for link in plan.links:
            # A link that is alone needs no name.
            of = f" of {link.name}" if len(plan.links) > 1 else ""
            dropped = recorded[link.index]
            silent = not (reports[link.name] or dropped.at_queue or dropped.emulated)
            if silent and status == "complete" and _is_due(plan, measured.counters, link):
                reasons.append(f"no telemetry report{of} arrived")
            counted = Counter({drop.flow: drop.packets for drop in measured.counters.links[link.name].drops})
            if measured.profile.drop_records and dropped.at_queue == counted:
                drops_recorded.add(link.name)
            elif measured.profile.drop_records:
                notes.append(
                    f"warning: drops{of} are dated by the flows' next reports: {dropped.at_queue.total()} of "
                    f"{counted.total()} have a record of their own"
                )
            # Without drops there is nothing to compare.
            if measured.profile.queue_reported:
                checks[link.name] = _cross_check(measured, measured.counters, reports, link)
                notes += [f"drop cross-check{of}: {problem}" for problem in checks[link.name].problems]
        notes += [
            f"warning: {balance.lost} of {balance.entered} packets lost {balance.place}, uncounted by the switch"
            if balance.lost > 0
            else f"warning: {-balance.lost} packets too many came out {balance.place}, where {balance.entered} went in"
            for balance in measured.counters.packet_conservation
            if balance.lost
        ]
        notes += [
            f"warning: {lost} reports dropped {place}" for place, lost in measured.counters.lost_reports.items() if lost
        ]
        readings |= _readings(measured.counters, bool(measured.profile.flow_drop_counters))
        kernel = measured.testbed.get("kernel_counters")
        evidence = Counted(
            plan, kernel if isinstance(kernel, dict) else {}, measured.counters, measured.learned, recorded
        )
        if missing := evidence.undelivered(measured.connections):
            readings["undelivered"] = [asdict(one) for one in missing]
        readings["shared_hosts"] = _shared_hosts(plan, measured.counters)
        readings["drop_cross_check"] = {name: check.as_json() for name, check in checks.items()}
    if len(reasons) > len(measured.reasons):
        status = "failed"
    ending = Ending(status, "\n".join(reasons), tuple(notes))
    host = {**host_metadata["host"], "testbed": measured.testbed}
    others = {**host_metadata, "host": host, **readings}
    record = _record(experiment, plan, measured, results, ending, others, drops_recorded)
    results.write_run(record.as_json())
    return ending


@contextmanager
def _kept_without(path: Path, reasons: list[str]) -> Iterator[None]:
    """A file that cannot be written is a reason why the run is not complete; the others are written."""
    try:
        yield
    except OSError as error:
        reasons.append(f"{path.parent.name}/{path.name} cannot be written: {error.strerror or error}")


def _is_due(plan: Plan, counters: Counters, link: Link) -> bool:
    """Whether there must be reports of a link: a shell need not send anything, and nothing may cross a direction."""
    passed = sum(queue.dequeued_packets for queue in counters.queues if queue.port == link.port)
    crossed = any(link.name in flow.links for flow in plan.flows)
    return passed >= 1 << link.sample_shift or (crossed and plan.shell is None)


def _cross_check(
    measured: Measured, counters: Counters, reports: dict[str, dict[int, drop_accounting.LastReport]], link: Link
) -> drop_accounting.CrossCheck:
    mine, drops = counters.links[link.name], {name: one.drops for name, one in counters.links.items()}
    if not measured.profile.flow_drop_counters:
        # The program's packet counters are kept apart from the registers that reports are filled from. They are of all
        # links, too.
        drops = {link.name: [FlowDrops(total.flow, total.arrivals - total.departures, 0) for total in mine.totals]}
    others = [(seen, drops.get(name, ())) for name, seen in reports.items() if name != link.name]
    return drop_accounting.check(
        reports[link.name], mine.totals, drops[link.name], mine.port_drops, link.sample_shift > 0, others
    )


def _shared_hosts(plan: Plan, counters: Counters) -> list[dict[str, object]]:
    """What waited on hosts that send several flows for their modelled links."""
    flows = Counter(flow.sender for flow in plan.flows)
    ports = {port.port: port for port in counters.ports}
    return [
        {
            "host": name,
            "flows": count,
            "packets": port.rx_packets,
            "held": port.rx_held,
            "longest_held_s": (port.rx_longest_held_ns or 0) / NANOSECONDS,
        }
        for name, count in flows.items()
        if count > 1 and (port := ports.get(plan.host(name).port)) is not None and port.rx_held
    ]


def _readings(counters: Counters, counted: bool) -> dict[str, object]:
    return {
        "traffic_manager": {
            "queues": [asdict(queue) for queue in counters.queues],
            "flow_drops": {name: [asdict(drop) for drop in link.drops] for name, link in counters.links.items()}
            if counted
            else None,
            "ports": [asdict(port) for port in counters.ports],
            "discards": None if counters.discards is None else asdict(counters.discards),
        },
        "balances": [{**asdict(balance), "lost": balance.lost} for balance in counters.packet_conservation],
        "lost_reports": counters.lost_reports,
    }


def _record(
    experiment: Experiment,
    plan: Plan,
    measured: Measured,
    results: RunDirectory,
    ending: Ending,
    others: Mapping[str, object],
    drops_recorded: Set[str],
) -> RunRecord:
    # Models with descriptions take a while, and a run says something first.
    from narrows_formats.run_record import RunRecord

    applied = measured.applied
    origin = _clock_origin(measured, results, plan)
    changes = [one for one in measured.by_driver if isinstance(one, Made)]
    # A plan has the limits that a condition may give a link.
    by_condition = [one.made for one in measured.reacted if one.made is not None]
    changes += [replace(one, change=replace(one.change, limit=None)) for one in by_condition]
    return RunRecord.model_validate(
        {
            "narrows_version": __version__,
            "commit": commit(),
            "name": experiment.name,
            "started": measured.started.isoformat(),
            "ended": measured.ended.isoformat(),
            "status": ending.status,
            "reason": ending.reason or None,
            "seed": experiment.seed,
            "target_profile": measured.profile.as_json(),
            **others,
            "switch": {"program": applied.program, "notes": list(applied.notes)},
            "links": [
                _link(plan, varied(link, changes), experiment, applied.links.get(link.name))
                | ({"rate_steps_applied": steps} if (steps := measured.rate_steps.get(link.name)) else {})
                | {"drops_recorded": link.name in drops_recorded}
                | ({"queue_updates_applied": made} if (made := measured.queue_updates.get(link.name)) else {})
                for link in plan.reported
            ],
            "telemetry": {"sample": 1 << plan.links[0].sample_shift},
            "clock_origin_ns": origin.ns,
            "clock_origin_source": origin.source,
            "clock_origin_unix_ns": measured.origin_unix_ns,
            **({"events": happened} if (happened := events(experiment, measured)) else {}),
            "flows": [connection.as_json() for connection in measured.connections],
        }
    )


def _link(plan: Plan, link: ReportedLink, experiment: Experiment, applied: AppliedLink | None) -> dict[str, object]:
    """A link as run.json has it; of one that limits nothing, only where it is reported."""
    found = {
        "name": link.name,
        "direction": link.direction,
        "index": link.index,
        "rtt_s": link.rtt_ns / NANOSECONDS,
        "delay_s": link.delay_ns / NANOSECONDS,
        "mtu_frame_bytes": plan.frame_bytes,
    }
    if not isinstance(link, Link) or applied is None:
        return found
    written, marked = experiment.directions[link.name], link.ecn_threshold
    program = plan.program_of(link)
    return found | {
        "rate_bps": applied.rate_bps,
        "rate_layer": "l2",
        "rate_packets_s": applied.rate_packets_s,
        "written_rate_bps": written.rate if isinstance(written.rate, int) else None,
        "written_rate_layer": written.rate_layer,
        "buffer_bytes": applied.limit_bytes if applied.limit_packets is None else None,
        **({"written_buffer": str(written.buffer)} if depends_on_rate(written.buffer, link) else {}),
        "buffer_packets": applied.limit_packets,
        "later_buffers_bytes": [size if packets is None else None for size, packets in link.later_limits],
        "later_buffers_packets": [packets for _, packets in link.later_limits],
        "bdp_bytes": float(link.bdp_bytes),
        "loss": link.loss,
        "duplication": link.duplication,
        "burst_bytes": link.burst_bytes,
        "ack_filter": link.ack_filter,
        **{
            name: asdict(value)
            for name in ("loss_model", "policer", "framing", "aggregation", "delay_steps", "jitter")
            if (value := getattr(link, name)) is not None
        },
        **({} if link.aqm is None else {"queue_management": asdict(link.aqm)}),
        "ecn_threshold_bytes": None if marked is None or marked.in_packets else marked.amount,
        "ecn_threshold_packets": marked.amount if marked is not None and marked.in_packets else None,
        **({} if link.schedule is None else {"rate_schedule": as_json(link.schedule)}),
        **({} if program is None else {"scheduling": "deficit" if program.quanta else "strict"}),
    }


def _clock_origin(measured: Measured, results: RunDirectory, plan: Plan) -> clock.Origin:
    """The switch's time at the experiment's start."""
    if measured.clock_offset_ns is not None:
        return clock.Origin(round(measured.t0_s * NANOSECONDS) + measured.clock_offset_ns, "switch clock")
    indices = {link.name: link.index for link in plan.reported}
    return clock.from_reports(results.telemetry, indices, measured.connections, measured.profile.time_unit_s)
