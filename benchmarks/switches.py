# SPDX-License-Identifier: Apache-2.0
"""What forwards between port 1 and port 2: the softswitch, BMv2, the kernel's bridge, a forwarder in plain C."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path

from finsy import P4CloneSessionEntry, P4TableAction, P4TableEntry, P4TableMatch
from finsy.proto import p4r
from narrows.errors import RunError
from narrows.hosts.links import call_inside, run
from narrows.paths import binary, compiled_program
from narrows.switch import traffic_manager_pb2 as pb
from narrows.switch.entries import delay_bins
from narrows.switch.p4runtime import P4RuntimeSession, Writable
from narrows.switch.traffic_manager import TrafficManagerClient
from narrows.targets.bmv2 import simple_switch
from narrows_formats import files
from narrows_formats.programs import COLLECTOR, SOFTSWITCH
from network import Network, end, mac, ready

READY_S = 20.0
# BMv2's default of 64 packets is too small for a TCP flow at this speed.
BMV2_QUEUE_PACKETS = 1024
DPDK_STATE = Path("/run/dpdk")
PORTS = {1: "p1", 2: "p2", 3: "p3"}
CROSS_CONNECT = "NarrowsIngress.cross_connect"
SETTINGS = "NarrowsEgress.settings"
REPORT = "NarrowsEgress.report"
HISTOGRAM_TABLE = "delay_bins"


def entries(session: P4RuntimeSession) -> list[Writable]:
    """Bottleneck 0 from port 1 to port 2 with a report on port 3 for each packet; port 2 to port 1 as a wire."""
    found: list[Writable] = [P4CloneSessionEntry(1, replicas=[3])]
    table = next(table.name for table in session.schema.tables if table.name.endswith(f".{HISTOGRAM_TABLE}"))
    set_bin = f"{table.rpartition('.')[0]}.set_bin"
    for bin_ in delay_bins():
        match = P4TableMatch({"queue_delay": f"{bin_.lowest:#x}/{bin_.prefix_length}"})
        found.append(P4TableEntry(table, match=match, action=P4TableAction(set_bin, bin=bin_.number)))
    observe = P4TableAction(
        f"{SETTINGS}.observe", threshold=0xFFFFFFFF, counts_packets=0, seed=0, mask=0, shift=0, epoch=0, mirror=1
    )
    # To an address that is not the collector's, so that its kernel counts the reports and goes no further.
    encapsulate = P4TableAction(
        f"{REPORT}.encapsulate",
        src_mac=mac(9),
        dst_mac=mac(8),
        src_ip="10.77.0.9",
        dst_ip="10.77.0.8",
        src_port=5500,
        dst_port=5500,
        length=184,
    )
    found.append(P4TableEntry(f"{SETTINGS}.bottleneck", match=P4TableMatch(bottleneck=0), action=observe))
    found.append(P4TableEntry(f"{REPORT}.collector", match=P4TableMatch(bottleneck=0), action=encapsulate))
    paths = {1: P4TableAction(f"{CROSS_CONNECT}.bottleneck", index=0, port=2, queue=0)}
    paths[2] = P4TableAction(f"{CROSS_CONNECT}.wire", port=1)
    for port, action in paths.items():
        match = P4TableMatch(ingress_port=port)
        found.append(P4TableEntry(f"{CROSS_CONNECT}.cross_connect", match=match, action=action, priority=1))
    return found


def softswitch_command(directory: Path, program: str = SOFTSWITCH, interfaces: Mapping[int, str] = PORTS) -> list[str]:
    """The command line of a softswitch on the three ports."""
    ports = [word for number, name in interfaces.items() for word in ("--port", f"{number}@{name}")]
    return [program, "serve", "--grpc", f"unix:{directory}/switch.sock", *ports]


@asynccontextmanager
async def _session(address: str, program: tuple[Path, Path] | None = None) -> AsyncIterator[P4RuntimeSession]:
    device_config, p4info = program or compiled_program("v1model")
    session = P4RuntimeSession(address, p4info, device_config)
    try:
        await session.open()
        yield session
    finally:
        await session.close()


@contextmanager
def softswitch(
    network: Network, *settings: pb.ConfigureRequest, ports: Mapping[int, str] = PORTS, options: Sequence[str] = ()
) -> Iterator[None]:
    """Narrows, with these settings of its queues: without any, all rates are unlimited."""
    command = [*softswitch_command(network.directory, str(binary(SOFTSWITCH)), ports), *options]
    process = network.start("switch", *command, stdout=subprocess.PIPE)
    ready(process, "the softswitch")

    async def configure() -> None:
        async with _session(f"unix:{network.directory}/switch.sock") as session:
            await session.push_pipeline()
            manager = TrafficManagerClient(session.channel)
            for setting in settings:
                await manager.configure(setting)
            await session.insert(entries(session))

    asyncio.run(configure())
    yield


@contextmanager
def collected_softswitch(
    network: Network, *settings: pb.ConfigureRequest, options: Sequence[str] = ()
) -> Iterator[Callable[[], int]]:
    """Narrows as a run has it: reports go through a pipe to a collector, which stores them.

    Gives a function that ends the collector and returns how many it has stored.
    """
    pipe, directory = network.directory / "reports.pipe", network.directory / "reports"
    os.mkfifo(pipe)
    words = [str(binary(COLLECTOR)), "collect", "--pipe", str(pipe), "--out", str(directory)]
    words += ["--port", "5500", "--switch", "10.77.0.9:5500"]
    with softswitch(network, *settings, options=["--pipe", f"3@{pipe}", *options]):
        collector = network.start("switch", *words, stdout=subprocess.PIPE)
        ready(collector, "the collector")

        def stored() -> int:
            end(collector)
            return int(json.loads((directory / files.COLLECTOR).read_text())["rows"])

        yield stored


@contextmanager
def bmv2(network: Network) -> Iterator[None]:
    """BMv2's simple_switch_grpc with the same program and entries."""
    _start_bmv2(network)

    async def configure() -> None:
        async with _session(simple_switch.grpc_address(network.directory)) as session:
            await session.push_pipeline()
            await session.insert(entries(session))

    asyncio.run(configure())
    _deepen(network)
    yield


def _start_bmv2(network: Network) -> int:
    process = network.start("switch", *simple_switch.command(PORTS, network.directory, simple_switch.find()))
    deadline = time.monotonic() + READY_S
    while not simple_switch.grpc_socket(network.directory).exists():
        if time.monotonic() > deadline:
            raise RunError("BMv2 does not come up")
        time.sleep(0.02)
    return process.pid


def _deepen(network: Network) -> None:
    """Queues in which a burst has room."""

    def deepen() -> None:
        with closing(simple_switch.connect()) as thrift:
            for port in PORTS:
                thrift.set_queue_depth(port, 0, BMV2_QUEUE_PACKETS)

    call_inside(network.namespace("switch"), deepen)


@contextmanager
def softswitch_with(network: Network, program: tuple[Path, Path], updates: Sequence[p4r.Update]) -> Iterator[int]:
    """Narrows' softswitch with another program (BMv2 JSON and P4Info) and its entries; gives its process id."""
    process = network.start(
        "switch", *softswitch_command(network.directory, str(binary(SOFTSWITCH))), stdout=subprocess.PIPE
    )
    ready(process, "the softswitch")
    asyncio.run(_programmed(f"unix:{network.directory}/switch.sock", program, updates))
    yield process.pid


@contextmanager
def bmv2_with(network: Network, program: tuple[Path, Path], updates: Sequence[p4r.Update]) -> Iterator[int]:
    """BMv2 with it; gives its process id."""
    pid = _start_bmv2(network)
    asyncio.run(_programmed(simple_switch.grpc_address(network.directory), program, updates))
    _deepen(network)
    yield pid


async def _programmed(address: str, program: tuple[Path, Path], updates: Sequence[p4r.Update]) -> None:
    async with _session(address, program) as session:
        await session.push_pipeline()
        await session.update(updates)


@contextmanager
def bridge(network: Network) -> Iterator[None]:
    """The kernel's bridge between ports 1 and 2."""
    switch = network.namespace("switch")
    run(["ip", "-n", switch, "link", "add", "name", "br0", "type", "bridge"])
    for port in (1, 2):
        run(["ip", "-n", switch, "link", "set", f"p{port}", "master", "br0"])
    run(["ip", "-n", switch, "link", "set", "br0", "up"])
    # It learns for no longer than it takes: without spanning tree a port forwards at once.
    yield


def compile_c(source: Path, directory: Path) -> Path:
    """Compile one of our small C programs; returns the executable.

    Raises:
        RunError: there is no C compiler, or it refuses.
    """
    program = directory / source.stem
    run(["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", str(program), str(source)])
    return program


@contextmanager
def bridge_with_tbf(network: Network) -> Iterator[None]:
    """The bridge with a token bucket to the receiver, so fast that it holds nothing up."""
    words = "qdisc add dev p2 root tbf rate 100gbit burst 1mb limit 100mb"
    run(["tc", "-n", network.namespace("switch"), *words.split()])
    with bridge(network):
        yield


def testpmd_command(prefix: str = "PREFIX") -> list[str]:
    """The command line of DPDK's testpmd between ports 1 and 2, by AF_PACKET: veth takes no driver of its own.

    One processor forwards, another one waits for the end.
    """
    words = "dpdk-testpmd --lcores 0@0,1@1 --no-huge --no-pci --no-shconf --no-telemetry -m 512"
    ports = [f"--vdev=net_af_packet{port},iface=p{port},framesz=2048,framecnt=512" for port in (1, 2)]
    # It prints its counters at once, and then each hour.
    forwarding = "--forward-mode=io --auto-start --stats-period=3600 --no-lsc-interrupt --total-num-mbufs=16384"
    return [*words.split(), f"--file-prefix={prefix}", *ports, "--", *forwarding.split()]


@contextmanager
def testpmd(network: Network) -> Iterator[None]:
    """DPDK's testpmd: frames from one port to the other, polling.

    Raises:
        RunError: it does not forward.
    """
    process = network.start("switch", *testpmd_command(network.prefix), stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        while "Port statistics" not in (line := process.stdout.readline()):
            if not line:
                raise RunError("dpdk-testpmd does not come up")
        yield
    finally:
        # It leaves its directory behind.
        shutil.rmtree(DPDK_STATE / network.prefix, ignore_errors=True)
        with suppress(OSError):
            DPDK_STATE.rmdir()


@contextmanager
def naive_forwarder(network: Network, program: Path) -> Iterator[None]:
    """recvmmsg and sendmmsg between ports 1 and 2, nothing else."""
    process = network.start("switch", str(program), "p1", "p2", stdout=subprocess.PIPE)
    ready(process, "the naive forwarder")
    yield
