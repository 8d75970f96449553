# SPDX-License-Identifier: Apache-2.0
"""What a case may ask of a target. No case knows a target by name: what differs is stated in a `Profile`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from p4runtime import Client

DATA_PORTS = tuple(range(1, 9))
COLLECTOR_PORT = 9
QUEUES = 8

Parameters = Mapping[str, str]


@dataclass(frozen=True)
class Profile:
    """Units and abilities of a target."""

    name: str
    time_unit_s: float
    # Queue depths in bytes, else in packets.
    depth_in_bytes: bool
    # The timestamps of packets are the shaper's schedule, to this many time units.
    clock_tolerance: int
    # Frames that may be under way at once without getting lost in front of the program.
    largest_burst: int
    # The port that frames leave by to come back, and the port that they then come from.
    loopback: tuple[int, int]
    # Ports that have an interface on the tester's side.
    tester_ports: tuple[int, ...] = (*DATA_PORTS, COLLECTOR_PORT)

    def depth(self, packets: int, frame_bytes: int) -> int:
        """Depth of a queue that holds ``packets`` frames of one size, in the target's unit."""
        return packets * frame_bytes if self.depth_in_bytes else packets


class Switch(Protocol):
    """A running target as the cases see it."""

    profile: Profile
    control: Client

    def reset(self) -> None:
        """Load the program afresh and take every limit off the queues."""

    def shape(self, port: int, queue: int, frame_bytes: int, frames_per_second: int) -> None:
        """Let frames of one size leave a queue at a constant rate; 0 takes the limit off again."""

    def limit_packets(self, port: int, queue: int, packets: int) -> None:
        """Let at most so many packets wait."""

    def limit_bytes(self, port: int, queue: int, size: int) -> None:
        """Let at most so many bytes wait; only where the profile's depths are in bytes."""

    def epoch(self, port: int, queue: int, program: int) -> int:
        """Generation of a queue's settings that reports state when the program was told ``program``."""

    def read_register(self, name: str, index: int) -> int:
        """One register cell."""

    def write_register(self, name: str, index: int, value: int) -> None:
        """Set one register cell."""

    def close(self) -> None:
        """Let go of the target; it keeps running."""


class Target(Protocol):
    """How a target is started, and how the process that runs the cases finds it."""

    name: str
    # Port number -> whether the tester has the other end; the rest is the target's own wiring.
    profile: Profile

    def missing(self) -> str | None:
        """Why this machine cannot run the target, or None."""

    def wiring(self) -> tuple[tuple[int, int], ...]:
        """Pairs of switch ports that a cable connects."""

    def start(self, namespace: str, interfaces: Mapping[int, str], directory: Path, seed: int) -> Running:
        """Start it on interfaces of a network namespace; logs and sockets go to ``directory``.

        Raises:
            RuntimeError: it did not come up; the message holds the end of its log.
        """

    def connect(self, parameters: Parameters, compiled: Path) -> Switch:
        """Connect to a running target, in its namespace, with what `Running.parameters` said."""


class Running(Protocol):
    """A started target."""

    parameters: Parameters

    def alive(self) -> bool:
        """Whether it still runs."""

    def stop(self) -> None:
        """End it."""
