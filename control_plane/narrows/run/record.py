# SPDX-License-Identifier: Apache-2.0
"""What is written of a measurement when it is over: run.json, and the tables that are made from raw readings.

It may have been made somewhere else; this needs only what it has found and the files in the run's directory.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from narrows_formats import files
from narrows_formats.units import NANOSECONDS

from narrows import __version__
from narrows.experiment.model import Experiment
from narrows.experiment.plan import Plan
from narrows.paths import commit
from narrows.run import clock, drop_accounting
from narrows.run.measurement import Counters, Measured, Status
from narrows.run.results import RunDirectory
from narrows.switch.readings import FlowDrops

if TYPE_CHECKING:
    from narrows_formats.run_record import RunRecord


@dataclass(frozen=True)
class Ending:
    """How a run ended; ``reason`` says why it is not complete, ``notes`` are for the user."""

    status: Status
    reason: str
    notes: tuple[str, ...]


def write(
    experiment: Experiment, plan: Plan, measured: Measured, results: RunDirectory, surroundings: dict[str, Any]
) -> Ending:
    """Write everything but the analysis.

    Args:
        experiment: of the run.
        plan: what was made of it.
        measured: what was found.
        results: the run's directory.
        surroundings: what run.json says of where it was measured: ``host`` and what stands beside it.
    """
    status, reasons, notes = measured.status, list(measured.reasons), list(measured.notes)
    if measured.sockets:
        from narrows.traffic import socket_table  # and with it pandas, once traffic has flowed

        table = results.hosts / files.SOCKETS
        socket_table.store(measured.sockets, measured.connections, measured.origin_s, table)
        for one in measured.sockets:
            one.path.unlink()
    readings: dict[str, Any] = {}
    if measured.losses_elsewhere is not None:
        readings["losses_elsewhere"] = measured.losses_elsewhere
    if measured.counters is not None:
        from narrows_formats import learned_flows

        learned_flows.write(measured.learned, results.telemetry / files.LEARNED_FLOWS)
        reports = drop_accounting.last_reports(results.telemetry, plan.bottleneck.index)
        if not reports and status == "complete":
            status = "failed"
            reasons.append("no telemetry report arrived")
        identity = _identity(measured, measured.counters, reports, plan)
        notes += [f"identity of drops: {problem}" for problem in identity.problems]
        notes += [
            f"warning: {balance.lost} of {balance.entered} packets lost {balance.place}, uncounted by the switch"
            for balance in measured.counters.balances
            if balance.lost
        ]
        readings |= _readings(measured.counters, bool(measured.profile.flow_drop_counters))
        readings["identity"] = identity.as_json()
    ending = Ending(status, "\n".join(reasons), tuple(notes))
    record = _record(experiment, plan, measured, results, ending, {**surroundings, **readings})
    results.write_run(record.as_json())
    return ending


def _identity(
    measured: Measured, counters: Counters, reports: dict[int, drop_accounting.LastReport], plan: Plan
) -> drop_accounting.CrossCheck:
    drops = counters.drops
    if not measured.profile.flow_drop_counters:
        # The program's packet counters are kept apart from the registers that reports are filled from.
        drops = [FlowDrops(total.flow, total.arrivals - total.departures, 0) for total in counters.totals]
    sampled = plan.bottleneck.sample_shift > 0
    return drop_accounting.check(reports, counters.totals, drops, counters.port_drops, sampled)


def _readings(counters: Counters, counted: bool) -> dict[str, Any]:
    return {
        "traffic_manager": {
            "queues": [asdict(queue) for queue in counters.queues],
            "flow_drops": [asdict(drop) for drop in counters.drops] if counted else None,
            "ports": [asdict(port) for port in counters.ports],
        },
        "balances": [{**asdict(balance), "lost": balance.lost} for balance in counters.balances],
    }


def _record(
    experiment: Experiment,
    plan: Plan,
    measured: Measured,
    results: RunDirectory,
    ending: Ending,
    others: dict[str, Any],
) -> RunRecord:
    # Models with descriptions take a while, and a run says something first.
    from narrows_formats.run_record import RunRecord

    settings = experiment.bottleneck
    bottleneck, realised = plan.bottleneck, measured.realised
    origin = _clock_origin(measured, results, bottleneck.index)
    host = {**others["host"], "testbed": measured.testbed}
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
            "host": host,
            "switch": {"program": realised.program, "notes": list(realised.notes)},
            "bottleneck": {
                "index": bottleneck.index,
                "rate_bps": realised.rate_bps,
                "rate_layer": "l2",
                "rate_packets_s": realised.rate_packets_s,
                "written_rate_bps": settings.rate,
                "written_rate_layer": settings.rate_layer,
                "buffer_bytes": realised.limit_bytes,
                "buffer_packets": realised.limit_packets,
                "rtt_s": settings.rtt / NANOSECONDS,
                "bdp_bytes": float(plan.bdp_bytes),
                "mtu_frame_bytes": plan.frame_bytes,
                "loss": bottleneck.loss,
                "ecn_threshold_bytes": bottleneck.ecn_threshold_bytes,
            },
            "telemetry": {"sample": 1 << bottleneck.sample_shift},
            "clock_origin_ns": origin.ns,
            "clock_origin_source": origin.source,
            "flows": [connection.as_json() for connection in measured.connections],
        }
    )


def _clock_origin(measured: Measured, results: RunDirectory, bottleneck: int) -> clock.Origin:
    """The switch's time at the experiment's start."""
    if measured.clock_offset_ns is not None:
        return clock.Origin(round(measured.origin_s * NANOSECONDS) + measured.clock_offset_ns, "switch clock")
    return clock.from_reports(results.telemetry, bottleneck, measured.connections, measured.profile.time_unit_s)
