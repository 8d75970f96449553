# SPDX-License-Identifier: Apache-2.0
"""What QUIC stacks have logged of their senders (qlog), in the places and times of a run.

A log whose reference is the date of the run is on the clock of its host. Others count from their connection's start,
or from a monotonic clock's: their place is known from the packets, each of which came to the flow's first link when
it had been sent. Either way the packets decide whether it is right, and of which connection the log is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
from narrows_analysis.interchange.qlog import SUFFIXES, QlogError, QlogFile
from narrows_analysis.interchange.qlog_sender import MOST_SENT, SenderLog
from narrows_formats.columns import OF_QLOG
from narrows_formats.units import NANOSECONDS

from narrows.experiment.plan import Plan
from narrows.onhost.program import Program
from narrows.run import arrivals
from narrows.run.arrivals import Ports
from narrows.run.measured import Measured
from narrows.run.results import RunDirectory

FloatArray = npt.NDArray[np.float64]

# How far from a packet's time in the log it may have come to the switch: stacks may count whole milliseconds. In real
# time they take some to log a burst before they send it.
TOLERANCE_S, REAL_TOLERANCE_S = 2e-3, 5e-3
# So many of the first packets of a log must have come; and so many packets may have come before the first one of the
# log, as a Retry, which is of no connection yet.
MATCHED, BEFORE = 0.9, 5
MOST_ARRIVALS = 4 * MOST_SENT
MS, NS_PER_MS = 1e-3, 1e6


@dataclass(frozen=True)
class Placement:
    """The run's side: the interval of readings, the experiment's start in ms since 1970, when the flow ended, and how
    far its packets may be from where the log has them."""

    interval_s: float
    origin_unix_ms: float
    end_s: float
    tolerance_s: float


def of_programs(
    results: RunDirectory, plan: Plan, measured: Measured, interval_ns: int, origin_ns: int | None
) -> list[pd.DataFrame]:
    """What the programs of a run have logged of their senders: readings (columns of SOCKETS) each ``interval_ns``.

    What of it is of no use is in the notes of their connections. ``origin_ns`` is the switch's time at the
    experiment's start, if that is known.
    """
    found: list[pd.DataFrame] = []
    indices = {link.name: link.index for link in plan.reported}
    whole = measured.profile.queue_reported and not any(link.sample_shift for link in plan.links)
    guest = measured.guest
    lasted_s = (measured.ended - measured.started).total_seconds() if guest is None else guest.virtual_s
    for number, connection in enumerate(measured.connections):
        flow, directory = connection.flow, results.hosts / connection.flow.name / "files"
        if not isinstance(flow.payload, Program) or not _files(directory):
            continue
        came = {}
        if whole and origin_ns is not None:
            link = indices[flow.links[0]]
            came = arrivals.over_udp(results.telemetry, link, flow.ends, measured.profile, origin_ns, MOST_ARRIVALS)
        ended_s = lasted_s if connection.ended_s is None else connection.ended_s
        placement = Placement(
            interval_s=interval_ns / NANOSECONDS,
            origin_unix_ms=measured.origin_unix_ns / NS_PER_MS,
            end_s=ended_s,
            tolerance_s=REAL_TOLERANCE_S if guest is None else TOLERANCE_S,
        )
        frames, notes = read(directory, flow.payload.sends, came, placement)
        found += [frame.assign(flow=number) for frame in frames]
        connection.notes += notes
    return found


def read(
    directory: Path, sends: str, came: Mapping[Ports, FloatArray], placement: Placement
) -> tuple[list[pd.DataFrame], list[str]]:
    """The state of the senders that a flow's files have, and what was not used, and why.

    Args:
        directory: with what programs have left.
        sends: which end it is that sends: "client" or "server".
        came: seconds at which the first packets of each connection over UDP came to the flow's first link; none
            where not every packet is reported.
        placement: of the run.

    Returns:
        Columns of SOCKETS, but ``flow``; a row each ``placement.interval_s``.
    """
    frames: dict[Ports, pd.DataFrame] = {}
    notes = []
    for path in _files(directory):
        name = path.relative_to(directory)
        try:
            logs, said = _logs(path)
        except (QlogError, OSError) as error:
            notes.append(f"{name} is not used: it {error}")
            continue
        mine = [log for log in logs if log.trace.vantage == sends and log.begin_ms is not None]
        for log in mine:
            found = _placed(log, came, placement)
            if isinstance(found, str):
                notes.append(f"{name} is not used: {found}")
            elif found[0] in frames:
                notes.append(f"{name} is not used: another file has the same connection")
            else:
                ports, offset_s = found
                frames[ports] = _rows(log, ports, offset_s, placement)
        if mine:
            notes += [f"{name} {one}" for one in said]
        elif all(log.trace.vantage not in ("client", "server") for log in logs):
            notes.append(f"{name} is not used: it does not say which end has logged")
    return list(frames.values()), notes


def _files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.suffix in SUFFIXES and path.is_file())


def _logs(path: Path) -> tuple[list[SenderLog], list[str]]:
    logs: dict[int, SenderLog] = {}
    with path.open("rb") as stream:
        file = QlogFile(stream)
        for trace, event in file.events():
            if id(trace) not in logs:
                logs[id(trace)] = SenderLog(trace)
            logs[id(trace)].take(event)
    left_out = sum(log.mistyped for log in logs.values())
    said = [
        *(["ends in the midst of an event: what is in front of it is used"] if file.cut else []),
        *([f"has {file.broken} events that are none: the others are used"] if file.broken else []),
        *([f"has {left_out} values of another kind than qlog's: they are left out"] if left_out else []),
    ]
    return list(logs.values()), said


def _placed(log: SenderLog, came: Mapping[Ports, FloatArray], placement: Placement) -> tuple[Ports, float] | str:
    """Of which connection a log is, and the run's time at the log's zero; or why that is not known."""
    sent_s = np.array(log.sent_ms) * MS
    reference_ms = log.trace.reference_ms
    said_s = -np.inf if reference_ms is None else (reference_ms - placement.origin_unix_ms) * MS
    # Others count from 1970, or from where they begin.
    dated = -placement.tolerance_s <= said_s + (log.begin_ms or 0.0) * MS <= placement.end_s
    if not came:
        return "the telemetry has not each packet of a connection over UDP, by which its clock is compared"
    if not len(sent_s):
        return "it has no packet_sent, by which its clock is compared with the switch's"
    found = {
        ports: offset_s
        for ports, came_s in came.items()
        if (offset_s := place(sent_s, came_s, said_s if dated else None, placement.tolerance_s)) is not None
    }
    if len(found) != 1:
        date = "its times" if dated else "its times, which have no date of the run,"
        fit = f"{len(found)} of {len(came)} connections"
        return f"{date} fit {fit} that the switch saw, by the first {len(sent_s)} packets"
    return next(iter(found.items()))


def place(sent_s: FloatArray, came_s: FloatArray, said_s: float | None, tolerance_s: float) -> float | None:
    """The run's time at a log's zero; None where its packets are not those that came.

    Args:
        sent_s: when the log says that its first packets were sent, in order.
        came_s: when the first packets of a connection came to the switch, in order.
        said_s: the run's time at the log's zero as its date has it; None without one.
        tolerance_s: how far packets may be from where the log has them.
    """
    candidates = [came - sent_s[0] for came in came_s[:BEFORE]] if said_s is None else [said_s]
    for offset_s in candidates:
        after = np.searchsorted(came_s, sent_s + offset_s)
        gaps = [np.abs(came_s[np.clip(after + side, 0, len(came_s) - 1)] - sent_s - offset_s) for side in (-1, 0)]
        if np.mean(np.minimum(*gaps) <= tolerance_s) >= MATCHED:
            return float(offset_s)
    return None


def _rows(log: SenderLog, ports: Ports, offset_s: float, placement: Placement) -> pd.DataFrame:
    """Readings at whole intervals, as those of sockets are made: means over them are means over time."""
    interval_s = placement.interval_s
    last_s = min(log.end_ms * MS + offset_s, placement.end_s)
    times_s = np.arange(max(0, int(last_s / interval_s)) + 1, dtype=np.float64) * interval_s
    state = log.at((times_s - offset_s) / MS)
    times_s = state["time_ms"].to_numpy() * MS + offset_s
    src_port, dst_port = ports
    # Rounding may take a reading at the start to before it.
    return state.drop(columns="time_ms").assign(
        time_s=np.maximum(times_s, 0.0), src_port=src_port, dst_port=dst_port, source=OF_QLOG
    )
