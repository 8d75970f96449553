# SPDX-License-Identifier: Apache-2.0
"""What a case may ask of a target. No case knows a target by name: what differs is stated in a `Profile`."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import lab
from expected import FlowHash
from lab import Lab
from p4runtime import Entry

DATA_PORTS = tuple(range(1, 9))
COLLECTOR_PORT = 9
QUEUES = 8

Parameters = Mapping[str, str]
Result = TypeVar("Result")


class Ability(enum.Enum):
    """What not every target can do. A case says what it needs; a profile says why its target has it not."""

    PACKET_LIMIT = "a queue limit in packets"
    BYTE_LIMIT = "a queue limit in bytes"
    RATE = "a queue with a rate"
    EXACT_RATE = "a queue that lets one frame of a backlog go after the other, at exact distances"
    HOLD = "a queue that holds frames until it is let go"
    MANAGED = "a traffic manager whose queues the program manages"
    TOFINO_AQMS = "AQMs of Tofino's program, which decide on arrival by what software computes"
    LOSS_BY_POSITION = "losses at set positions"
    INDEPENDENT_DRAWS = "random numbers that do not depend on those before"
    SEEDED_SAMPLING = "samples that a seed chooses"
    PACKET_DEPTH = "the number of packets that a packet finds"
    VLAN_HOSTS = "VLANs that tell hosts of one port apart"
    BASE_DELAY = "base RTTs by recirculation"
    SHORT_ROUNDS = "rounds by recirculation of less than a millisecond"
    VARYING_LINE = "a link that delays each packet by another time, or sends it twice"


@dataclass(frozen=True)
class Profile:
    """Units and abilities of a target."""

    name: str
    hashes: FlowHash
    time_unit_s: float
    # What a frame of so many bytes adds to the depth of a queue, in the target's unit.
    depth_of: Callable[[int], int]
    # The timestamps of packets are the shaper's schedule, to this many time units.
    clock_tolerance: int
    # Frames that may be under way at once without getting lost in front of the program.
    largest_burst: int
    # The port that frames leave by to come back, and the port that they then come from.
    loopback: tuple[int, int]
    # Whether the target numbers a queue's settings itself; else reports carry the program's number.
    counts_settings: bool = False
    # Whether reports tell the depth that a packet left behind; else they say 0.
    tells_depth_left: bool = True
    # The shortest report that still has all fields right.
    shortest_report: int = 98
    # Width of a queue delay in the program.
    delay_bits: int = 48
    # The shortest frame that the target's links carry.
    shortest_frame: int = 14
    # Whether a report may be followed by bytes that its IP length does not count.
    trailing_bytes: bool = False
    # Longest wait for a frame that must come, and for one that must not (after all others came).
    patience_s: float = 5.0
    silence_s: float = 0.05
    # Ports that have an interface on the tester's side.
    tester_ports: tuple[int, ...] = (*DATA_PORTS, COLLECTOR_PORT)
    # What the target cannot do, and why.
    lacks: Mapping[Ability, str] = field(default_factory=dict)

    def depth(self, packets: int, frame_bytes: int) -> int:
        """Depth of a queue that holds ``packets`` frames of one size, in the target's unit."""
        return packets * self.depth_of(frame_bytes)

    @property
    def delay_bins(self) -> int:
        """Cells of a bottleneck's histogram: four an octave, rounded up to a power of two."""
        return 1 << (4 * (self.delay_bits - 1) - 1).bit_length()

    def depth_left(self, packets: int, frame_bytes: int) -> int:
        """What a report says of the depth that a packet left behind."""
        return self.depth(packets, frame_bytes) if self.tells_depth_left else 0


# Of a state: the chances that a packet is lost in it and that it is left after the packet, in units of 2^-32.
State = tuple[int, int]
# A chance that is certain.
CERTAIN = 1 << 32


class Control(Protocol):
    """Entries, mirror sessions, counters and digests of the program; names may be endings of full names."""

    def insert(self, *entries: Entry) -> None:
        """Add table entries."""

    def modify(self, *entries: Entry) -> None:
        """Change what existing entries do."""

    def delete(self, *entries: Entry) -> None:
        """Remove table entries."""

    def lose_by_state(self, bottleneck: int, good: State, bad: State) -> None:
        """Lose frames of a bottleneck as two states say. Only the bad one loses with certainty and is left with it."""

    def add_mirror(self, session: int, port: int) -> None:
        """Let copies of a mirror session leave by a port."""

    def remove_mirror(self, session: int) -> None:
        """Remove a mirror session."""

    def read_counters(self, name: str, indexes: Iterable[int]) -> list[tuple[int, int]]:
        """(packets, bytes) of cells of a counter array; 0 bytes where it counts packets only."""

    def enable_digest(self, name: str) -> None:
        """Ask for every message of a digest at once."""

    def digests(self, count: int, wait_s: float) -> list[list[int]]:
        """At most ``count`` digest messages, each a list of members, that arrive within ``wait_s`` of each other."""


class Switch(Protocol):
    """A running target as the cases see it."""

    profile: Profile

    @property
    def control(self) -> Control:
        """The program's tables and all else that is not a queue or a register."""

    def reset(self) -> None:
        """Load the program afresh and take every limit off the queues."""

    def shape(self, port: int, queue: int, frame_bytes: int, frames_per_second: int) -> None:
        """Let frames of one size leave a queue at a constant rate; 0 takes the limit off again."""

    def hold(self, port: int, queue: int, frame_bytes: int, pass_one: Callable[[], Result]) -> Result:
        """Let ``pass_one`` send one frame through a queue, and hold whatever comes after it until `release`.

        A target may hold it by a rate so slow that the frame itself occupies the link for a while; frames then leave
        one by one at that rate, too.
        """

    def release(self, port: int, queue: int) -> None:
        """Let a held queue go."""

    def limit_packets(self, port: int, queue: int, packets: int) -> None:
        """Let at most so many packets wait."""

    def limit_bytes(self, port: int, queue: int, size: int) -> None:
        """Let at most so many bytes wait."""

    def epoch(self, port: int, queue: int, program: int) -> int:
        """Generation of a queue's settings that reports state when the program was given ``program``."""

    def read_register(self, name: str, index: int) -> int:
        """One register cell."""

    def write_register(self, name: str, index: int, value: int) -> None:
        """Set one register cell."""

    def is_counted(self, flow: int) -> None:
        """A report had this flow index, so that its cells hold counts until the next `reset`."""

    def close(self) -> None:
        """Let go of the target; it keeps running."""


class Registers(Protocol):
    """Where a program's registers are read and written."""

    def read_register(self, name: str, index: int) -> int:
        """One register cell."""

    def write_register(self, name: str, index: int, value: int) -> None:
        """Set one register cell."""


Found = TypeVar("Found", bound=Registers)


class OneControl(Generic[Found]):
    """A switch whose registers are read where its tables are written, and that limits no queue; see `Switch`."""

    profile: Profile
    control: Found

    def limit_packets(self, port: int, queue: int, packets: int) -> None:
        """Not what it can do.

        Raises:
            NotImplementedError: always.
        """
        raise unsupported(self.profile, Ability.PACKET_LIMIT)

    def limit_bytes(self, port: int, queue: int, size: int) -> None:
        """Not what it can do.

        Raises:
            NotImplementedError: always.
        """
        raise unsupported(self.profile, Ability.BYTE_LIMIT)

    def epoch(self, port: int, queue: int, program: int) -> int:
        """Nothing counts settings, so reports carry what the program was given."""
        return program

    def read_register(self, name: str, index: int) -> int:
        """One register cell."""
        return self.control.read_register(name, index)

    def write_register(self, name: str, index: int, value: int) -> None:
        """Set one register cell."""
        self.control.write_register(name, index, value)

    def is_counted(self, flow: int) -> None:
        """Nothing to do: all cells are cleared alike."""


class Target(Protocol):
    """How a target is started, and how the process that runs the cases finds it."""

    name: str
    profile: Profile

    def missing(self) -> str | None:
        """Why this machine cannot run the target, or None."""

    def links(self) -> AbstractContextManager[Lab]:
        """The interfaces of switch and tester, made for the run and removed at its end.

        Raises:
            RuntimeError: they could not be had.
        """

    def start(self, namespace: str | None, interfaces: Mapping[int, str], directory: Path, seed: int) -> Running:
        """Start it on interfaces (of a network namespace); logs and sockets go to ``directory``.

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


# A queue that holds frames by its rate lets so many of them go a second: a burst is complete before the next one goes.
SLOW = 2


def one_by_one(frame_bytes: int) -> int:
    """Depth in packets: every frame is one."""
    return 1


def byte_by_byte(frame_bytes: int) -> int:
    """Depth in bytes."""
    return frame_bytes


def namespace_links(name: str, profile: Profile, cables: Sequence[tuple[int, int]] = ()) -> AbstractContextManager[Lab]:
    """A namespace with a veth pair for every port of the tester, and ``cables`` between ports of the switch."""
    return lab.built(name, profile.tester_ports, cables)


def unsupported(profile: Profile, ability: Ability) -> NotImplementedError:
    """What a target raises that is asked for what its profile says it cannot do."""
    return NotImplementedError(f"{profile.name}: {ability.value}: {profile.lacks[ability]}")
