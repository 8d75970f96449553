# SPDX-License-Identifier: Apache-2.0
"""How much memory a guest is given, and where on this machine that memory is."""

from __future__ import annotations

import math
import os
import platform
from pathlib import Path

from narrows.errors import InputError
from narrows.experiment.plan import Plan
from narrows.flows.datagrams import frame_bytes
from narrows.targets.soft.virtual_time import INITIAL_WINDOW, adapted, settings

# Kernel, Python, collector and what they keep of the host's files.
BASE_BYTES = 768 << 20
# Programs of a host.
HOST_BYTES = 32 << 20
# Two sockets of a flow and what serves them, beside what is in flight.
FLOW_BYTES = 32 << 10
# A byte in flight is held by the sender until it is acknowledged, and by switch or receiver; in the kernel it takes
# almost twice its size, in a report of a short packet as much again. As much again is what a lossy flow keeps until a
# gap is filled: the sender what was acknowledged beyond the gap, the receiver what came out of order. With half of
# this, kernels at 100 Gbit/s threw data away that had arrived.
COPIES = 16
# The kernel gives TCP and caches only parts of its memory.
SHARE = 1.5
MEMORY = Path("/proc/meminfo")
LARGE_BYTES, SLACK_BYTES = 1 << 30, 16 << 20


def memory_bytes(plan: Plan) -> int:
    """Memory for a guest in which no buffer of a plan is too small: whole MiB."""
    in_flight = min(_held_bytes(plan), _sent_bytes(plan))
    # The rings are the kernel's own and whole from the start.
    rings = settings(adapted(plan)).ring_bytes * len(plan.hosts)
    made = HOST_BYTES * len(plan.hosts) + FLOW_BYTES * len(plan.flows)
    wanted = BASE_BYTES + made + rings + SHARE * COPIES * in_flight
    return -(int(-wanted) >> 20) << 20


def _held_bytes(plan: Plan) -> float:
    """What paths and queues hold when they are full."""
    longest = max(port.delay_ns for port in plan.ports)
    return sum(link.rates_bps.most * longest / 8e9 + link.most_limit_bytes for link in plan.links)


def _sent_bytes(plan: Plan) -> float:
    """What flows can have sent at any time without an acknowledgement; infinity where that cannot be known.

    A congestion window grows by no more than what was acknowledged, and all of that has crossed a link.
    """
    if plan.has_applications or plan.driven:
        return math.inf
    sent, carrying_ns = 0.0, 0.0
    for flow in plan.flows:
        if (datagrams := flow.payload.datagrams) is not None:
            ways = 2 if flow.payload.acknowledged else 1
            sent += datagrams.count * frame_bytes(datagrams.payload, plan.ip_version) * ways
        elif flow.payload.is_finite:
            sent += sum(flow.payload.sizes)
        else:
            sent += 2 * INITIAL_WINDOW * plan.frame_bytes * flow.payload.at_once
            carrying_ns = max(carrying_ns, math.inf if flow.end_ns is None else flow.end_ns)
    return sent + sum(link.rates_bps.most for link in plan.links) * carrying_ns / 8e9


def in_large_pages(size: int) -> int:
    """Size of the large-page file system for the memory of a guest of this size, in bytes; 0 if it gets none.

    TLB misses of a guest are expensive: large pages save a seventh of the time at 100 Gbit/s. Zeroing them takes a
    tenth of a second, which is more than a small guest saves.
    """
    return size + SLACK_BYTES if size >= LARGE_BYTES else 0


def available_bytes() -> int:
    """Memory of this machine that is unused."""
    lines = dict(line.split(":", 1) for line in MEMORY.read_text().splitlines())
    return int(lines["MemAvailable"].split()[0]) << 10


def places() -> list[Path]:
    """Where a guest's memory may be, best first: the user's choice, memory, disk."""
    named = [Path(value) for name in ("TMPDIR", "TMP", "TEMP") if (value := os.environ.get(name))]
    return [*named, Path("/dev/shm"), Path("/tmp"), Path("/var/tmp")]


def place(wanted: int) -> Path:
    """A directory for the file that a guest's memory is; it has no name there.

    Raises:
        InputError: none has room, or may hold programs.
    """
    reasons = []
    for directory in dict.fromkeys(places()):
        if reason := _unfit(directory, wanted):
            reasons.append(f"{directory} {reason}")
        else:
            return directory
    raise InputError(
        f"no directory can hold the {wanted >> 20} MB of a guest's memory: {', '.join(reasons)}; "
        "fix: TMPDIR=DIR with room on a file system that is not mounted noexec"
    )


def problems(wanted: int, guests: int = 1) -> list[str]:
    """Why this machine cannot hold a guest, or several at once; empty if it can.

    Args:
        wanted: bytes of memory of each.
        guests: how many.
    """
    found = []
    if platform.machine() not in ("x86_64", "amd64"):
        found.append(f"virtual time runs on x86-64 processors only, and this is {platform.machine()}")
    if (available := available_bytes()) < wanted * guests:
        found.append(
            f"this experiment takes {wanted * guests >> 20} MB of memory in virtual time, and {available >> 20} MB are "
            "free; fix: a lower rate, a shorter RTT or a smaller buffer"
        )
    else:
        try:
            place(wanted * guests)
        except InputError as error:
            found.append(str(error))
    return found


def _unfit(directory: Path, wanted: int) -> str:
    try:
        status = os.statvfs(directory)
    except OSError as error:
        return f"cannot be used ({error.strerror})"
    if not os.access(directory, os.W_OK | os.X_OK):
        return "cannot be written"
    if status.f_flag & os.ST_NOEXEC:
        return "is mounted noexec"
    free = status.f_bavail * status.f_frsize
    return f"has {free >> 20} MB" if free < wanted else ""
