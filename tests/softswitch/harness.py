# SPDX-License-Identifier: Apache-2.0
"""A softswitch on veth ports between network namespaces: sender, receiver, collector."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import struct
import subprocess
import uuid
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from finsy import P4CloneSessionEntry, P4TableAction, P4TableEntry, P4TableMatch
from narrows.switch.p4runtime import P4RuntimeSession
from narrows.switch.traffic_manager import TrafficManagerClient

ROOT = Path(__file__).parents[2]
BINARY = Path(os.environ.get("NARROWS_SOFTSWITCH", ROOT / "target/release/narrows-softswitch"))
COMPILED = ROOT / "p4src/compiled/v1model"
HOSTS = ("sender", "receiver", "collector")
PORTS = {1: "p1", 2: "p2", 3: "p3"}
CROSS_CONNECT = "NarrowsIngress.cross_connect.cross_connect"
REPORT_BYTES = 184
# Lengths of a capture's header, and of a record: seconds, nanoseconds, bytes that are there, bytes of the frame.
PCAP_HEADER, PCAP_RECORD = 24, "<IIII"
# A capture's header: nanoseconds, version 2.4, Ethernet; and a frame's: no addresses, an EtherType for experiments.
CAPTURE = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1)
ETHERNET = bytes(12) + b"\x88\xb5"


def run(command: str) -> str:
    """Run a command; its standard output."""
    return subprocess.run(command.split(), check=True, capture_output=True, text=True).stdout


def write_frames(path: Path, frames: Iterable[tuple[int, int]]) -> None:
    """Write a capture of frames, each with its time in nanoseconds and its length."""
    capture = bytearray(CAPTURE)
    for time_ns, length in frames:
        capture += struct.pack(PCAP_RECORD, *divmod(time_ns, 1_000_000_000), length, length)
        capture += ETHERNET.ljust(length, b"\0")
    path.write_bytes(capture)


def replay(
    directory: Path, queue: Mapping[str, Any], source: Mapping[str, Any]
) -> tuple[dict[str, Any], list[tuple[int, int]]]:
    """Replay what comes in at port 1 from ``source`` through bottleneck 0, whose queue is port 2's.

    Returns:
        The summary, and of each frame that left port 2 when, in nanoseconds, and its length.
    """
    through = {"index": 0, "port": 2, "queue": 0}
    action = "NarrowsIngress.cross_connect.bottleneck"
    config = {
        "program": str(COMPILED / "narrows.json"),
        "ports": [1, 2],
        "entries": [
            {"table": CROSS_CONNECT, "match": {"ingress_port": 1}, "priority": 1, "action": action, "params": through}
        ],
        "queues": [{"port": 2, "limit_packets": 0, **queue}],
        "inputs": [{"port": 1, **source}],
        "outputs": [{"port": 2, "pcap": "left.pcap", "snap_bytes": 60}],
    }
    (directory / "config.json").write_text(json.dumps(config))
    command = [str(BINARY), "replay", "--config", str(directory / "config.json"), "--out", str(directory / "out")]
    found = subprocess.run(command, check=False, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    capture = (directory / "out/left.pcap").read_bytes()
    left, at = [], PCAP_HEADER
    while at < len(capture):
        seconds, nanoseconds, held, length = struct.unpack_from(PCAP_RECORD, capture, at)
        left.append((seconds * 1_000_000_000 + nanoseconds, length))
        at += struct.calcsize(PCAP_RECORD) + held
    return json.loads((directory / "out/summary.json").read_text()), left


@dataclass
class Network:
    """One namespace for each host and one for the switch; port i of the switch is p<i>, the host's end eth0."""

    prefix: str = field(default_factory=lambda: f"nwdev-live-{uuid.uuid4().hex[:6]}")

    def namespace(self, name: str) -> str:
        """Full name of a namespace."""
        return f"{self.prefix}-{name}"

    def inside(self, name: str, command: str) -> str:
        """Run a command in a namespace."""
        return run(f"ip netns exec {self.namespace(name)} {command}")

    def up(self) -> None:
        """Make everything."""
        for name in ("switch", *HOSTS):
            run(f"ip netns add {self.namespace(name)}")
            self.inside(name, "ip link set lo up")
        for port, host in enumerate(HOSTS, 1):
            self.connect(port, host)

    def connect(self, port: int, host: str) -> None:
        """Make a link between a host and a port of the switch."""
        switch = self.namespace("switch")
        run(f"ip link add p{port} netns {switch} type veth peer name eth0 netns {self.namespace(host)}")
        self.inside("switch", f"sysctl -qw net.ipv6.conf.p{port}.disable_ipv6=1")
        self.inside(host, "sysctl -qw net.ipv6.conf.eth0.disable_ipv6=1")
        self.inside(host, "ethtool -K eth0 tso off gso off gro off tx off rx off")
        self.inside("switch", f"ip link set p{port} up")
        self.inside(host, f"ip addr add 10.77.0.{port}/24 dev eth0")
        self.inside(host, "ip link set eth0 up")

    def down(self) -> None:
        """Remove everything."""
        for name in ("switch", *HOSTS):
            subprocess.run(["ip", "netns", "del", self.namespace(name)], check=False)


@dataclass
class Switch:
    """A running switch and the two services on it."""

    process: asyncio.subprocess.Process
    p4: P4RuntimeSession
    tm: TrafficManagerClient

    async def program(self, *, length_limit: int = 128) -> None:
        """Port 1 to port 2 through bottleneck 0 with a report for each packet on port 3; port 2 to port 1 as a wire."""
        await self.p4.push_pipeline()
        await self.p4.insert(
            [
                bottleneck(0, P4TableMatch(ingress_port=1), port=2),
                wire(P4TableMatch(ingress_port=2), port=1),
                *reporting(0),
                P4CloneSessionEntry(1, packet_length_bytes=length_limit, replicas=[3]),
            ]
        )


def bottleneck(index: int, match: P4TableMatch, *, port: int, queue: int = 0) -> P4TableEntry:
    """The entry that leads frames through a bottleneck."""
    action = P4TableAction("NarrowsIngress.cross_connect.bottleneck", index=index, port=port, queue=queue)
    return P4TableEntry(CROSS_CONNECT, match=match, action=action, priority=1)


def wire(match: P4TableMatch, *, port: int) -> P4TableEntry:
    """The entry that leads frames to a port and nothing else."""
    action = P4TableAction("NarrowsIngress.cross_connect.wire", port=port)
    return P4TableEntry(CROSS_CONNECT, match=match, action=action, priority=1)


def reporting(index: int) -> list[P4TableEntry]:
    """The entries that have a bottleneck report each packet through clone session 1."""
    observe = P4TableAction(
        "NarrowsEgress.settings.observe",
        threshold=0xFFFFFFFF,
        counts_packets=0,
        seed=0,
        mask=0,
        shift=0,
        epoch=0,
        mirror=1,
    )
    encapsulate = P4TableAction(
        "NarrowsEgress.report.encapsulate",
        src_mac="02:00:00:00:00:0f",
        dst_mac="ff:ff:ff:ff:ff:ff",
        src_ip="10.77.0.9",
        dst_ip="10.77.0.3",
        src_port=5500,
        dst_port=5500,
        length=REPORT_BYTES,
    )
    match = P4TableMatch(bottleneck=index)
    return [
        P4TableEntry("NarrowsEgress.settings.bottleneck", match=match, action=observe),
        P4TableEntry("NarrowsEgress.report.collector", match=match, action=encapsulate),
    ]


@asynccontextmanager
async def running(
    network: Network, directory: Path, *options: str, interfaces: Mapping[int, str] = PORTS
) -> AsyncIterator[Switch]:
    """A switch on these interfaces, by port; it must end with exit code 0 when it is asked to."""
    address = f"unix:{directory}/switch.sock"
    ports = [word for port, interface in interfaces.items() for word in ("--port", f"{port}@{interface}")]
    process = await asyncio.create_subprocess_exec(
        *("ip", "netns", "exec", network.namespace("switch")),
        *(str(BINARY), "serve", "--grpc", address, *ports, *options),
        stdout=asyncio.subprocess.PIPE,
    )
    session = P4RuntimeSession(address, COMPILED / "narrows.p4info.txtpb", COMPILED / "narrows.json")
    try:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"
        await session.open()
        yield Switch(process, session, TrafficManagerClient(session.channel))
    finally:
        await session.close()
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 5) == 0
    assert not Path(address.removeprefix("unix:")).exists()
