# SPDX-License-Identifier: Apache-2.0
"""The Narrows softswitch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from expected import V1modelHash
from lab import Lab
from narrows.switch.traffic_manager_pb2 import ConfigureRequest, ConfigureResponse, ElectionId, Management, Variation
from p4runtime import TIMEOUT_S, Client, open_channel
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
    byte_by_byte,
    namespace_links,
)

REPOSITORY = Path(__file__).resolve().parents[2]
EXECUTABLE = REPOSITORY / "target" / "release" / "narrows-softswitch"
LOOPBACK_PORT = 10
# A port whose second queue no case configures: it is free to become one of two that share a link.
TWO_QUEUES_PORT = 8
READY_S = 10.0
DEFAULT_LIMIT_PACKETS = 100_000


class Softswitch(OneControl[Client]):
    """A running softswitch: P4Runtime and its own service for queues, at one address."""

    profile = Profile(
        name="soft",
        hashes=V1modelHash(),
        time_unit_s=1e-9,
        depth_of=byte_by_byte,
        clock_tolerance=0,
        # A third of a receive ring at the suite's MTU, half of what the kernel keeps for a processor
        # (net.core.netdev_max_backlog): a switch that has to wait for its turn loses nothing.
        largest_burst=500,
        loopback=(LOOPBACK_PORT, LOOPBACK_PORT),
        counts_settings=True,
        lacks={
            Ability.TOFINO_AQMS: "the program with queue management that it runs has AQMs of its own",
            Ability.VLAN_HOSTS: "a VLAN can be a port of its own",
            Ability.BASE_DELAY: "it has a delay line at each port",
        },
    )

    def __init__(self, address: str, compiled: Path) -> None:
        """Connect."""
        self.control = Client(address, compiled)
        self._channel = open_channel(address)
        self._call = self._channel.unary_unary(
            "/narrows.v1.TrafficManager/Configure",
            request_serializer=ConfigureRequest.SerializeToString,
            response_deserializer=ConfigureResponse.FromString,
        )
        self._epochs: dict[tuple[int, int], int] = {}

    def reset(self) -> None:
        """Load the program afresh and take every limit off the queues."""
        self.control.push()
        for port in (*DATA_PORTS, COLLECTOR_PORT, LOOPBACK_PORT):
            for queue in range(QUEUES if port in DATA_PORTS and port != TWO_QUEUES_PORT else 1):
                settings = {"unlimited": True, "limit_bytes": 0, "limit_packets": DEFAULT_LIMIT_PACKETS}
                unmanaged = Management(enabled=False)
                # A port has one line: a variation given with another of its queues is new settings for this one too.
                steady = Variation() if queue == 0 else None
                self._configure(port, queue, **settings, management=unmanaged, variation=steady, head_drop=False)

    def _configure(
        self,
        port: int,
        queue: int,
        *,
        management: Management | None = None,
        variation: Variation | None = None,
        **settings: int,
    ) -> None:
        primary = ElectionId(low=self.control.election.low)
        request = ConfigureRequest(
            port=port, queue=queue, election_id=primary, management=management, variation=variation
        )
        for name, value in settings.items():
            setattr(request, name, value)
        answer = self._call(request, timeout=TIMEOUT_S)
        # Reports have 16 bits for it, and 0 says that settings are not counted.
        self._epochs[port, queue] = (answer.epoch - 1) % 0xFFFF + 1

    def shape(self, port: int, queue: int, frame_bytes: int, frames_per_second: int) -> None:
        """Let frames of one size leave a queue at a constant rate; 0 takes the limit off again."""
        rate_bps = frame_bytes * 8 * frames_per_second
        self._configure(port, queue, **({"rate_bps": rate_bps} if rate_bps else {"unlimited": True}))

    def hold(self, port: int, queue: int, frame_bytes: int, pass_one: Callable[[], Result]) -> Result:
        """Make the queue so slow that the frame occupies its link."""
        self.shape(port, queue, frame_bytes, SLOW)
        return pass_one()

    def release(self, port: int, queue: int) -> None:
        """Take the rate off."""
        self._configure(port, queue, unlimited=True)

    def limit_packets(self, port: int, queue: int, packets: int) -> None:
        """Let at most so many packets wait."""
        self._configure(port, queue, limit_packets=packets)

    def limit_bytes(self, port: int, queue: int, size: int) -> None:
        """Let at most so many bytes wait."""
        self._configure(port, queue, limit_bytes=size)

    def manage(self, port: int, queue: int, management: Management) -> None:
        """Let the program manage the queue."""
        self._configure(port, queue, management=management)

    def drop_at_the_head(self, port: int, queue: int) -> None:
        """Let a full queue drop its oldest packets."""
        self._configure(port, queue, head_drop=True)

    def vary(self, port: int, variation: Variation) -> None:
        """Let the port's delay line delay each packet by another time, or send it twice."""
        self._configure(port, 0, variation=variation)

    def epoch(self, port: int, queue: int, program: int) -> int:
        """The traffic manager's own count of settings; what was written to the program does not matter."""
        return self._epochs[port, queue]

    def close(self) -> None:
        """Let go of the switch."""
        self.control.close()
        self._channel.close()


class SoftTarget:
    """Starts the softswitch of this checkout."""

    name = "soft"
    profile = Softswitch.profile

    def missing(self) -> str | None:
        """The switch is part of the project: where it is not built, that is a failure and not a reason to skip."""
        return None

    def links(self) -> AbstractContextManager[Lab]:
        """A namespace without cables: the switch has loopback ports of its own."""
        return namespace_links(self.name, self.profile)

    def start(self, namespace: str | None, interfaces: Mapping[int, str], directory: Path, seed: int) -> Child:
        """Start it.

        Raises:
            RuntimeError: it is not built, or did not come up.
        """
        if not EXECUTABLE.exists():
            raise RuntimeError(f"{EXECUTABLE} is not built; run make setup")
        address = f"unix:{directory}/switch.sock"
        ports = [argument for port, name in interfaces.items() for argument in ("--port", f"{port}@{name}")]
        command = [str(EXECUTABLE), "serve", "--grpc", address, *ports]
        command += ["--loopback", str(LOOPBACK_PORT), "--seed", str(seed)]
        child = Child(namespace, command, directory / "switch.log", {"address": address})
        child.wait_until(lambda running: "ready" in running.log().split(), READY_S)
        return child

    def connect(self, parameters: Parameters, compiled: Path) -> Softswitch:
        """Connect to a running softswitch."""
        return Softswitch(parameters["address"], compiled)
