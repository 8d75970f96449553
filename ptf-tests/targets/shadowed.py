# SPDX-License-Identifier: Apache-2.0
"""The softswitch, with all that a case does to it done to a fake Tofino of each generation as well.

Frames pass the softswitch only. The fakes (tests/tofino/fakeswitch) speak BF Runtime over gRPC, serve the committed
bf-rt.json and refuse what a driver refuses: so every name, key, value and table operation of the Tofino adapter is
checked by every case, without Tofino's SDE.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import cast

from lab import Lab
from narrows_tofino.bfrt.client import Endpoint
from narrows_tofino.bfrt.connect import connect
from narrows_tofino.chip.model import CHIPS
from p4runtime import Entry
from processes import Child, inside

from targets.base import Ability, Control, Parameters, Profile, Result, State, Switch, namespace_links
from targets.soft import Softswitch, SoftTarget
from targets.tofino import MODEL_PORTS, PROGRAM, connect_switch, port_parameter
from targets.tofino_switch import TofinoSwitch

FAKES = Path(__file__).resolve().parents[2] / "tests" / "tofino"
NAME = "tofino-fake"
# What neither Tofino's program nor its traffic manager has.
NOTHING_TO_SHADOW = (Ability.MANAGED, Ability.LOSS_BY_POSITION, Ability.VARYING_LINE)

# Parameters of `observe` that Tofino's program does not have.
SOFTWARE_ONLY = ("counts_packets", "seed")


class DifferenceError(AssertionError):
    """A fake does not hold what was written to it."""


@contextlib.contextmanager
def where_it_can() -> Iterator[None]:
    """Leave out what Tofino cannot do: there the case is skipped."""
    with contextlib.suppress(NotImplementedError):
        yield


class ShadowedControl:
    """See `targets.base.Control`: what the first control is asked for, the others are asked for too."""

    def __init__(self, first: Control, others: Sequence[TofinoSwitch]) -> None:
        """Take connected ones."""
        self._first = first
        self._others = others

    def insert(self, *entries: Entry) -> None:
        """Add table entries."""
        self._first.insert(*entries)
        for other in self._others:
            other.control.insert(*that_fit(entries, other))

    def modify(self, *entries: Entry) -> None:
        """Change what existing entries do."""
        self._first.modify(*entries)
        for other in self._others:
            other.control.modify(*that_fit(entries, other))

    def delete(self, *entries: Entry) -> None:
        """Remove table entries."""
        self._first.delete(*entries)
        for other in self._others:
            other.control.delete(*entries)

    def lose_by_state(self, bottleneck: int, good: State, bad: State) -> None:
        """Lose frames of a bottleneck as two states say."""
        self._first.lose_by_state(bottleneck, good, bad)
        for other in self._others:
            other.control.lose_by_state(bottleneck, good, bad)

    def add_mirror(self, session: int, port: int) -> None:
        """Let copies of a mirror session leave by a port."""
        self._first.add_mirror(session, port)
        for other in self._others:
            other.control.add_mirror(session, port)

    def remove_mirror(self, session: int) -> None:
        """Remove a mirror session."""
        self._first.remove_mirror(session)
        for other in self._others:
            other.control.remove_mirror(session)

    def read_counters(self, name: str, indexes: Iterable[int]) -> list[tuple[int, int]]:
        """(packets, bytes) of the first one's cells; the fakes' must be there."""
        wanted = list(indexes)
        for other in self._others:
            found = other.control.read_counters(name, (_index(other, one) for one in wanted))
            if found != [(0, 0)] * len(wanted):
                raise DifferenceError(f"{other.profile.name} counted packets that it never got: {found}")
        return self._first.read_counters(name, wanted)

    def enable_digest(self, name: str) -> None:
        """Ask for every message of a digest at once."""
        self._first.enable_digest(name)
        for other in self._others:
            other.control.enable_digest(name)

    def digests(self, count: int, wait_s: float) -> list[list[int]]:
        """The first one's; fakes send none."""
        for other in self._others:
            if other.control.digests(count, 0.0):
                raise DifferenceError(f"{other.profile.name} sent a digest of a flow that it never saw")
        return self._first.digests(count, wait_s)


def that_fit(entries: Iterable[Entry], switch: TofinoSwitch) -> Iterator[Entry]:
    """Entries as a program has them that holds delays in fewer bits, counts no packets for thresholds and seeds no
    samples; bins of longer delays are left out."""
    missing = Profile.delay_bits - switch.profile.delay_bits
    for entry in entries:
        if entry.action == "observe":
            yield replace(
                entry, params={name: entry.params[name] for name in entry.params if name not in SOFTWARE_ONLY}
            )
            continue
        if entry.table != "delay_bins":
            yield entry
            continue
        lowest, length = cast(tuple[int, int], entry.match["queue_delay"])
        if lowest < 1 << switch.profile.delay_bits:
            yield replace(entry, match={"queue_delay": (lowest, length - missing)})


def _index(switch: TofinoSwitch, index: int) -> int:
    """Tofino has fewer flow indices; indices of bottlenecks and bins are below their number anyhow."""
    return index % switch.profile.hashes.flow_count


class ShadowedSwitch:
    """See `targets.base.Switch`."""

    def __init__(self, first: Switch, others: Sequence[TofinoSwitch]) -> None:
        """Take connected ones."""
        self._first = first
        self._others = others
        lacks = {ability: others[0].profile.lacks[ability] for ability in NOTHING_TO_SHADOW}
        self.profile = replace(first.profile, name=NAME, lacks={**first.profile.lacks, **lacks})
        self.control = ShadowedControl(first.control, others)

    def reset(self) -> None:
        """Load the program afresh and take every limit off the queues."""
        self._first.reset()
        for other in self._others:
            other.reset()

    def shape(self, port: int, queue: int, frame_bytes: int, frames_per_second: int) -> None:
        """Let frames of one size leave a queue at a constant rate; 0 takes the limit off again."""
        self._first.shape(port, queue, frame_bytes, frames_per_second)
        for other in self._others:
            other.shape(port, queue, frame_bytes, frames_per_second)

    def hold(self, port: int, queue: int, frame_bytes: int, pass_one: Callable[[], Result]) -> Result:
        """Let one frame through the first one, and hold whatever comes after it."""
        for other in self._others:
            other.hold(port, queue, frame_bytes, lambda: None)
        return self._first.hold(port, queue, frame_bytes, pass_one)

    def release(self, port: int, queue: int) -> None:
        """Let a held queue go."""
        self._first.release(port, queue)
        for other in self._others:
            other.release(port, queue)

    def limit_packets(self, port: int, queue: int, packets: int) -> None:
        """Let at most so many packets wait."""
        self._first.limit_packets(port, queue, packets)
        for other in self._others:
            with where_it_can():
                other.limit_packets(port, queue, packets)

    def limit_bytes(self, port: int, queue: int, size: int) -> None:
        """Let at most so many bytes wait."""
        self._first.limit_bytes(port, queue, size)
        for other in self._others:
            with where_it_can():
                other.limit_bytes(port, queue, size)

    def epoch(self, port: int, queue: int, program: int) -> int:
        """Generation of a queue's settings."""
        return self._first.epoch(port, queue, program)

    def read_register(self, name: str, index: int) -> int:
        """One register cell of the first one."""
        for other in self._others:
            other.read_register(name, _index(other, index))
        return self._first.read_register(name, index)

    def write_register(self, name: str, index: int, value: int) -> None:
        """Set one register cell; the fakes must hold it then."""
        self._first.write_register(name, index, value)
        for other in self._others:
            other.write_register(name, _index(other, index), value)
            found = other.read_register(name, _index(other, index))
            if found != value:
                raise DifferenceError(f"{other.profile.name}: {name}[{index}] is {found}, not {value}")

    def is_counted(self, flow: int) -> None:
        """Only of the first one: no frame passes the fakes."""
        self._first.is_counted(flow)

    def close(self) -> None:
        """Let go of all."""
        self._first.close()
        for other in self._others:
            other.close()


class Fake:
    """A fake switch in a process of its own; it ends with its input."""

    def __init__(self, namespace: str | None, chip: str) -> None:
        """Start it.

        Raises:
            RuntimeError: it did not come up.
        """
        self._process = subprocess.Popen(
            inside(namespace, [sys.executable, "-m", "fakeswitch.serve", chip]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(FAKES)},
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self.address = self._process.stdout.readline().strip()
        if not self.address:
            raise RuntimeError(f"the fake {chip} did not come up")

    def alive(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def stop(self) -> None:
        """End it."""
        self._process.communicate()


class Shadowed:
    """The softswitch and the fakes. See `targets.base.Running`."""

    def __init__(self, first: Child, fakes: Mapping[str, Fake]) -> None:
        """Take started ones; ``fakes`` by generation."""
        self._first = first
        self._fakes = fakes
        addresses = {f"{chip}_address": fake.address for chip, fake in fakes.items()}
        self.parameters: Parameters = {**first.parameters, **addresses}

    def alive(self) -> bool:
        """Whether all still run."""
        return self._first.alive() and all(fake.alive() for fake in self._fakes.values())

    def stop(self) -> None:
        """End all."""
        self._first.stop()
        for fake in self._fakes.values():
            fake.stop()


class ShadowedTarget:
    """Starts the softswitch and a fake of each generation."""

    name = NAME
    profile = Softswitch.profile

    def missing(self) -> str | None:
        """Nothing of it comes from elsewhere."""
        return None

    def links(self) -> AbstractContextManager[Lab]:
        """The softswitch's."""
        return namespace_links(self.name, self.profile)

    def start(self, namespace: str | None, interfaces: Mapping[int, str], directory: Path, seed: int) -> Shadowed:
        """Start all.

        Raises:
            RuntimeError: one did not come up.
        """
        fakes: dict[str, Fake] = {}
        try:
            for chip in CHIPS:
                fakes[chip] = Fake(namespace, chip)
            first = SoftTarget().start(namespace, interfaces, directory, seed)
        except RuntimeError:
            for fake in fakes.values():
                fake.stop()
            raise
        print("tofino-fake: frames pass the softswitch; what is set and read is set and read on fake Tofinos, too")
        return Shadowed(first, fakes)

    def connect(self, parameters: Parameters, compiled: Path) -> ShadowedSwitch:
        """Connect to all."""
        others = []
        for chip in CHIPS:
            client = connect(Endpoint(parameters[f"{chip}_address"], PROGRAM), prefer=("own",))
            described = {"chip": chip, "ports": port_parameter(MODEL_PORTS), "model": "no"}
            # It forwards nothing: what a case has sent has arrived.
            others.append(connect_switch(client, described, late_digests_s=0))
        return ShadowedSwitch(SoftTarget().connect(parameters, compiled), others)
