# SPDX-License-Identifier: Apache-2.0
"""BMv2's simple_switch_grpc."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from expected import V1modelHash
from lab import Lab
from narrows.targets.bmv2 import simple_switch
from p4runtime import Client
from processes import Child

from targets.base import (
    COLLECTOR_PORT,
    DATA_PORTS,
    QUEUES,
    SLOW,
    Ability,
    OneControl,
    Parameters,
    Profile,
    Result,
    namespace_links,
    one_by_one,
)

LOOPBACK = (10, 11)
READY_S = 20.0
UNLIMITED_PACKETS = 100_000


class Bmv2(OneControl[Client]):
    """A running simple_switch_grpc: P4Runtime, and Thrift for queues and registers."""

    profile = Profile(
        name="bmv2",
        hashes=V1modelHash(),
        time_unit_s=1e-6,
        depth_of=one_by_one,
        # It wakes up late by half a millisecond as a rule, and by more on a busy machine.
        clock_tolerance=20_000,
        largest_burst=200,
        loopback=LOOPBACK,
        lacks={
            Ability.BYTE_LIMIT: "BMv2 limits queues in packets only",
            Ability.MANAGED: "BMv2 runs egress when the link's time is spent",
            Ability.TOFINO_AQMS: "the program on it has no AQMs",
            Ability.VARYING_LINE: "BMv2 has no delay line",
            Ability.VLAN_HOSTS: "a VLAN can be a port of its own",
            Ability.BASE_DELAY: "the program on it does not send frames round",
        },
    )

    def __init__(self, address: str, compiled: Path) -> None:
        """Connect."""
        self.control = Client(address, compiled)
        self._thrift = simple_switch.connect()

    def reset(self) -> None:
        """Load the program afresh and take every limit off the queues."""
        self.control.push()
        for port in (*DATA_PORTS, COLLECTOR_PORT, *LOOPBACK):
            for queue in range(QUEUES if port in DATA_PORTS else 1):
                self._thrift.set_queue_rate(port, queue, 0)
                self._thrift.set_queue_depth(port, queue, UNLIMITED_PACKETS)

    def shape(self, port: int, queue: int, frame_bytes: int, frames_per_second: int) -> None:
        """Let frames leave a queue at a constant rate; their size plays no role here."""
        self._thrift.set_queue_rate(port, queue, frames_per_second)

    def hold(self, port: int, queue: int, frame_bytes: int, pass_one: Callable[[], Result]) -> Result:
        """Make the queue so slow that frames behind the first one wait."""
        self._thrift.set_queue_rate(port, queue, SLOW)
        return pass_one()

    def release(self, port: int, queue: int) -> None:
        """Take the rate off; what waits already keeps its time."""
        self._thrift.set_queue_rate(port, queue, 0)

    def limit_packets(self, port: int, queue: int, packets: int) -> None:
        """Let at most so many packets wait."""
        self._thrift.set_queue_depth(port, queue, packets)

    def _register(self, name: str) -> str:
        full: str = self.control.program.find("registers", name).preamble.name
        return full

    def read_register(self, name: str, index: int) -> int:
        """One register cell."""
        return self._thrift.read_register(self._register(name), index)

    def write_register(self, name: str, index: int, value: int) -> None:
        """Set one register cell."""
        self._thrift.write_register(self._register(name), index, value)

    def close(self) -> None:
        """Let go of the switch."""
        self.control.close()
        self._thrift.close()


class Bmv2Target:
    """Starts simple_switch_grpc from PATH."""

    name = "bmv2"
    profile = Bmv2.profile

    def missing(self) -> str | None:
        """Why this machine cannot run it."""
        return simple_switch.missing()

    def links(self) -> AbstractContextManager[Lab]:
        """A namespace in which a cable from the switch to itself is its loopback port."""
        return namespace_links(self.name, self.profile, (LOOPBACK,))

    def start(self, namespace: str | None, interfaces: Mapping[int, str], directory: Path, seed: int) -> Child:
        """Start it; its random numbers take no seed.

        Raises:
            RuntimeError: it did not come up.
        """
        command = simple_switch.command(interfaces, directory)
        parameters = {"address": simple_switch.grpc_address(directory)}
        child = Child(namespace, command, directory / "switch.log", parameters)
        child.wait_until(lambda _: simple_switch.grpc_socket(directory).exists(), READY_S)
        return child

    def connect(self, parameters: Parameters, compiled: Path) -> Bmv2:
        """Connect to a running switch."""
        return Bmv2(parameters["address"], compiled)
