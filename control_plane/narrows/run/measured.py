# SPDX-License-Identifier: Apache-2.0
"""What a measurement has found: all that run.json is written from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from narrows_formats.digest import NewFlow
from narrows_formats.software_timing import AppliedSteps, AppliedUpdates
from narrows_formats.target_profile import TargetProfile

from narrows.run.changes import Made, Reacted
from narrows.run.stepping import Action
from narrows.run.watching import Reading
from narrows.switch.readings import Discards, FlowDrops, FlowTotals, PacketConservation, PortStats, QueueStats
from narrows.targets.base import AppliedSettings
from narrows.traffic.connection import Connection
from narrows.traffic.sockets import Readings

Status = Literal["complete", "partial", "failed"]


@dataclass(frozen=True)
class LinkCounters:
    """What the switch had counted at a link: drops of its queue (None where it cannot tell), and by flow index.

    ``totals`` are of all flow indices that it has reported and of those with drops.
    """

    port_drops: int | None
    drops: list[FlowDrops]
    totals: list[FlowTotals]


@dataclass(frozen=True)
class Counters:
    """What the switch had counted when nothing moved any more; ``links`` are those with a rate, by name."""

    queues: list[QueueStats]
    ports: list[PortStats]
    links: dict[str, LinkCounters]
    packet_conservation: list[PacketConservation]
    lost_reports: dict[str, int]
    discards: Discards | None = None


@dataclass(frozen=True)
class GuestUse:
    """What a run in virtual time took, in seconds: of this machine's time, of processor time in all and by users'
    programs, as far as looking now and then can tell, and of the guest's time."""

    wall_s: float
    cpu_s: float
    programs_cpu_s: dict[str, float]
    virtual_s: float


@dataclass(frozen=True)
class Measured:
    """What a measurement has found, besides the files in the run's directory: all that run.json is written from.

    ``reasons`` say why ``status`` is not complete; ``notes`` are for the user. ``t0_s`` is the monotonic time of
    the experiment's start, ``origin_unix_ns`` the same by the calendar of where it was measured, and
    ``clock_offset_ns`` the switch's clock minus the monotonic one, where it can be read.
    ``counters`` and ``unexpected_losses`` are None if there was no time to read them. ``changes`` are the experiment's
    that were made while traffic flowed, ``reacted`` are the conditions that held, ``by_driver`` is what a driver had
    done then. ``watched`` is what cells of registers had, if a program's are watched. ``guest`` is None in real time.
    """

    status: Status
    reasons: tuple[str, ...]
    notes: tuple[str, ...]
    started: datetime
    ended: datetime
    profile: TargetProfile
    applied: AppliedSettings
    rate_steps: Mapping[str, AppliedSteps]
    queue_updates: Mapping[str, AppliedUpdates]
    testbed: Mapping[str, object]
    t0_s: float
    origin_unix_ns: int
    clock_offset_ns: int | None
    connections: list[Connection]
    sockets: tuple[Readings, ...]
    learned: list[NewFlow]
    counters: Counters | None
    unexpected_losses: list[str] | None
    changes: tuple[Made, ...] = ()
    reacted: tuple[Reacted, ...] = ()
    by_driver: tuple[Action, ...] = ()
    watched: tuple[Reading, ...] = ()
    guest: GuestUse | None = None
