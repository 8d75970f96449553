# SPDX-License-Identifier: Apache-2.0
"""The softswitch on real interfaces when something is full, large, many or changed under way."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from finsy import P4CloneSessionEntry, P4TableMatch
from harness import PORTS, Network, Switch, bottleneck, reporting, run, running, wire
from narrows.switch import traffic_manager_pb2 as pb
from raw_frames import (
    ETHERTYPE,
    frame,
    mac,
    number_of,
    raw_socket,
    receive,
    report_field,
    resident_bytes,
    stuck_interface,
    waiting,
)

IPV4 = 0x0800
EPOCH_AT, SEQUENCE_AT, TIMESTAMP_AT = 46, 12, 48
OpenSocket = Callable[..., socket.socket]


@pytest.fixture
def open_socket(network: Network) -> Iterator[OpenSocket]:
    """Opens raw sockets on interfaces of hosts; they are closed after the test."""
    with ExitStack() as sockets:

        def opened(host: str, interface: str = "eth0", ethertype: int = ETHERTYPE) -> socket.socket:
            return sockets.enter_context(raw_socket(network.namespace(host), interface, ethertype))

        yield opened


async def settled(switch: Switch, port: int, frames: int, reports: int = 0) -> dict[int, pb.Port]:
    """Port counters by number, once this many frames have been received on a port and reports been sent on port 3.

    Reports have time: what else there is to do comes first.
    """
    async with asyncio.timeout(20):
        while True:
            found = {port.port: port for port in (await switch.tm.port_stats()).ports}
            received = found[port].rx_packets + found[port].rx_ring_drops
            if received >= frames and (reports == 0 or found[3].tx_packets >= reports):
                return found
            await asyncio.sleep(0.05)


async def queues(switch: Switch) -> dict[int, pb.Queue]:
    """Queue 0 of each port."""
    return {queue.port: queue for queue in (await switch.tm.list()).queues if queue.queue == 0}


def test_a_slow_collector_costs_reports_only(network: Network, open_socket: OpenSocket, tmp_path: Path) -> None:
    """Reports that their link cannot take are dropped and counted; every data frame leaves at once."""

    async def scenario() -> None:
        async with running(network, tmp_path) as switch:
            await switch.program()
            # A report takes 14 s: one is in service, five wait.
            await switch.tm.configure(pb.ConfigureRequest(port=3, queue=0, rate_bps=100, limit_packets=5))
            sender, receiver = map(open_socket, ("sender", "receiver"))
            for number in range(5_000):
                sender.send(frame(2, number, 1_000))
            found = await asyncio.to_thread(receive, receiver, 5_000)
            assert [number_of(one) for one in found] == list(range(5_000))
            queue = await queues(switch)
            # Nothing waited for the reports.
            assert (queue[2].dequeued_packets, queue[2].peak_depth_packets, queue[2].dropped_packets) == (5_000, 0, 0)
            assert (queue[3].enqueued_packets, queue[3].dropped_packets, queue[3].depth_packets) == (6, 4_994, 5)
            # Before egress a report is as long as its session lets it be.
            assert queue[3].dropped_bytes == 4_994 * 128

    asyncio.run(scenario())


@pytest.mark.long
def test_a_collector_link_that_takes_nothing_costs_reports_only(
    network: Network, open_socket: OpenSocket, tmp_path: Path
) -> None:
    """The same when the interface itself is full: frames wait, up to a bound, and are dropped and counted then."""

    async def scenario() -> None:
        stuck = stuck_interface(network.namespace("switch"), "stuck")
        try:
            network.inside("switch", "ip link set stuck txqueuelen 50 up")
            async with running(network, tmp_path, interfaces={**PORTS, 3: "stuck"}) as switch:
                await switch.program()
                sender, receiver = map(open_socket, ("sender", "receiver"))
                for number in range(10_000):
                    sender.send(frame(2, number, 200))
                found = await asyncio.to_thread(receive, receiver, 10_000)
                assert [number_of(one) for one in found] == list(range(10_000))
                ports = await settled(switch, 1, 10_000)
                queue = await queues(switch)
                assert (queue[2].peak_depth_packets, queue[2].dropped_packets) == (0, 0)
                assert queue[3].dequeued_packets == 10_000
                # What the switch does not hold, the interface took or it is counted as lost.
                lost = ports[3].tx_drops + ports[3].tx_errors
                held = 10_000 - ports[3].tx_packets - lost
                assert lost > 0
                assert 0 <= held <= 4_096
        finally:
            os.close(stuck)

    asyncio.run(scenario())


@pytest.mark.long
def test_jumbo_frames(network: Network, open_socket: OpenSocket, tmp_path: Path) -> None:
    """Frames of 9,216 bytes of MTU pass unchanged, also when the MTU grows under way."""

    async def scenario() -> None:
        async with running(network, tmp_path) as switch:
            await switch.program()
            sender, receiver = map(open_socket, ("sender", "receiver"))
            sender.send(frame(2, 0, 1_514))
            for host, port in (("sender", 1), ("receiver", 2)):
                network.inside(host, "ip link set eth0 mtu 9216")
                network.inside("switch", f"ip link set p{port} mtu 9216")
            # Looked after four times a second.
            await asyncio.sleep(1)
            sent = [frame(2, number, 9_216 + 14).replace(b"\0" * 64, bytes(range(64))) for number in range(1, 200)]
            for one in sent:
                sender.send(one)
            found = await asyncio.to_thread(receive, receiver, 200)
            assert found[1:] == sent
            ports = await settled(switch, 1, 200, reports=200)
            assert (ports[1].rx_bytes, ports[2].tx_bytes) == (1_514 + 199 * 9_230, 1_514 + 199 * 9_230)
            assert (ports[1].rx_errors, ports[2].tx_errors, ports[3].tx_packets) == (0, 0, 200)

    asyncio.run(scenario())


@pytest.mark.long
def test_64_bottlenecks_on_64_ports(network: Network, open_socket: OpenSocket, tmp_path: Path) -> None:
    """Each has its port, rate, limit and sequence of reports; what comes back enters by its own port."""
    numbers = range(64)
    frames = 20

    async def scenario() -> None:
        switch_ns, receiver_ns = network.namespace("switch"), network.namespace("receiver")
        for number in numbers:
            run(f"ip link add q{number} netns {switch_ns} type veth peer name r{number} netns {receiver_ns}")
            for namespace, name in ((switch_ns, f"q{number}"), (receiver_ns, f"r{number}")):
                run(f"ip netns exec {namespace} sysctl -qw net.ipv6.conf.{name}.disable_ipv6=1")
                run(f"ip -n {namespace} link set {name} up")
        interfaces = {1: "p1", 3: "p3", **{100 + number: f"q{number}" for number in numbers}}
        async with running(network, tmp_path, "--ring-mib", "4", interfaces=interfaces) as switch:
            await switch.p4.push_pipeline()
            address = {number: mac(0x100 + number).hex(":") for number in numbers}
            for number in numbers:
                to_it = P4TableMatch(ingress_port=1, dst_mac=address[number])
                await switch.p4.insert(
                    [
                        bottleneck(number, to_it, port=100 + number),
                        wire(P4TableMatch(ingress_port=100 + number), port=1),
                        *reporting(number),
                    ]
                )
                # The first is in service for 15 s and more; as many wait as the number says, at most.
                setting = pb.ConfigureRequest(port=100 + number, rate_bps=800 - number, limit_packets=number + 1)
                await switch.tm.configure(setting)
            await switch.p4.insert([P4CloneSessionEntry(1, packet_length_bytes=128, replicas=[3])])
            sender = open_socket("sender")
            collector = open_socket("collector", ethertype=IPV4)
            back = [open_socket("receiver", f"r{number}") for number in numbers]
            for turn in range(frames):
                for number in numbers:
                    sender.send(frame(0x100 + number, turn, 1_500))
            await settled(switch, 1, frames * 64)
            queue = await queues(switch)
            for number in numbers:
                here = queue[100 + number]
                fits = min(number + 1, frames - 1)
                assert here.rate_bps == 800 - number
                assert (here.depth_packets, here.dropped_packets) == (fits, frames - 1 - fits), number
            for number, raw in enumerate(back):
                raw.send(frame(1, number, 60))
            returned = await asyncio.to_thread(receive, sender, 64)
            assert sorted(number_of(one) for one in returned) == list(numbers)
            reports = await asyncio.to_thread(receive, collector, 64, at_most_s=5)
            first = {report_field(report, 2, 1): report_field(report, SEQUENCE_AT, 4) for report in reports}
            assert first == dict.fromkeys(numbers, 1)
            ports = {port.port: port for port in (await switch.tm.port_stats()).ports}
            assert len(ports) == 66
            assert all(ports[100 + number].rx_packets == 1 for number in numbers)
            assert sum(port.rx_ring_drops + port.rx_errors for port in ports.values()) == 0

    asyncio.run(scenario())


def test_changes_under_traffic_lose_nothing(network: Network, open_socket: OpenSocket, tmp_path: Path) -> None:
    """Rate, depth and delay change 30 times while frames pass: all arrive in order, and telemetry tells each change."""
    frames = 12_000

    async def scenario() -> None:
        async with running(network, tmp_path) as switch:
            await switch.program()
            sender, receiver = map(open_socket, ("sender", "receiver"))
            collector = open_socket("collector", ethertype=IPV4)
            # More than is sent: a queue that drops nothing by itself.
            first = (
                await switch.tm.configure(pb.ConfigureRequest(port=2, rate_bps=1_000_000_000, limit_packets=0))
            ).epoch

            def send() -> None:
                for number in range(frames):
                    sender.send(frame(2, number, 1_000))
                    if number % 50 == 0:
                        time.sleep(0.005)

            sending = threading.Thread(target=send)
            sending.start()
            changes = []
            for turn in range(10):
                for setting in (
                    pb.ConfigureRequest(port=2, rate_bps=100_000_000 if turn % 2 else 40_000_000),
                    pb.ConfigureRequest(port=2, limit_packets=100_000 if turn % 2 else 0),
                    pb.ConfigureRequest(port=2, delay_ns=0 if turn % 2 else 3_000_000),
                ):
                    changes.append(await switch.tm.configure(setting))
                    await asyncio.sleep(0.03)
            sending.join()
            found = await asyncio.to_thread(receive, receiver, frames)
            assert [number_of(one) for one in found] == list(range(frames))
            queue = (await queues(switch))[2]
            assert (queue.enqueued_packets, queue.dequeued_packets, queue.dropped_packets) == (frames, frames, 0)
            assert [change.epoch for change in changes] == list(range(first + 1, first + 31))
            reports = await asyncio.to_thread(receive, collector, frames)
            epochs = [report_field(report, EPOCH_AT, 2) for report in reports]
            assert len(reports) == frames
            # Each packet tells the settings at its arrival; a report's time is that of its departure, not before.
            assert epochs == sorted(epochs)
            assert set(epochs) == set(range(first, first + 31))
            times = [report_field(report, TIMESTAMP_AT, 6) for report in reports]
            assert times == sorted(times)
            for change in changes:
                earliest = next(at for at, epoch in zip(times, epochs, strict=True) if epoch == change.epoch)
                assert earliest >= change.timestamp_ns & (1 << 48) - 1

    asyncio.run(scenario())


# What the documentation promises for a frame of each length.
HELD_BYTES = {200: 1_024, 1_500: 2_560, 9_000: 10_240}


@pytest.mark.long
@pytest.mark.parametrize("length", HELD_BYTES)
def test_memory_is_bounded_by_the_pool(network: Network, open_socket: OpenSocket, tmp_path: Path, length: int) -> None:
    """A queue without limits that does not drain fills the pool; the rest is dropped and counted, and memory stays."""
    pool, frames = 8_000, 16_000

    async def scenario() -> None:
        for host, port in (("sender", 1), ("receiver", 2)):
            network.inside(host, "ip link set eth0 mtu 9216")
            network.inside("switch", f"ip link set p{port} mtu 9216")
        async with running(network, tmp_path, "--pool", str(pool)) as switch:
            await switch.program()
            await switch.tm.configure(pb.ConfigureRequest(port=2, rate_bps=1, limit_bytes=0, limit_packets=0))
            sender = open_socket("sender")
            # Touch every page of the ring and whatever else is made once: frames that the program discards.
            warm_up = open_socket("receiver")
            for number in range(3_000):
                warm_up.send(frame(1, number, length))
            await settled(switch, 2, 3_000)

            async def fill(total: int) -> int:
                for number in range(frames):
                    sender.send(frame(2, number, length))
                    if number % 100 == 0:
                        await asyncio.sleep(0.001)
                await settled(switch, 1, total)
                return resident_bytes(switch.process.pid)

            before = resident_bytes(switch.process.pid)
            full = await fill(frames)
            listed = await switch.tm.list()
            queue = next(queue for queue in listed.queues if queue.port == 2)
            assert (listed.pool_used_packets, listed.pool_limit_packets) == (pool, pool)
            # The one in service is held too; its report passes through the pool as well while there is room.
            assert queue.depth_packets == pool - 1
            lost = (await settled(switch, 1, frames))[1].rx_ring_drops
            assert queue.pool_dropped_packets == queue.dropped_packets == frames - lost - pool
            assert sum(drop.packets for drop in (await switch.tm.flow_drops(2, 0)).flows) == queue.dropped_packets
            assert pool * length // 2 < full - before < pool * HELD_BYTES[length] + (4 << 20)
            assert await fill(2 * frames) - full < 2 << 20

    asyncio.run(scenario())


def test_reports_of_a_burst_are_all_accounted_for(network: Network, open_socket: OpenSocket, tmp_path: Path) -> None:
    """Sequence numbers end at the number of departures: what is missing was lost, and is counted somewhere."""

    async def scenario() -> None:
        async with running(network, tmp_path) as switch:
            await switch.program()
            await switch.tm.configure(pb.ConfigureRequest(port=2, rate_bps=200_000_000, limit_packets=40))
            sender = open_socket("sender")
            collector = open_socket("collector", ethertype=IPV4)
            for number in range(5_000):
                sender.send(frame(2, number, 1_000))
            await settled(switch, 1, 5_000)
            await asyncio.sleep(0.3)
            queue = await queues(switch)
            reports = await asyncio.to_thread(waiting, collector)
            ports = {port.port: port for port in (await switch.tm.port_stats()).ports}
            assert queue[2].dropped_packets > 0
            assert ports[1].rx_packets == queue[2].dequeued_packets + queue[2].dropped_packets
            assert queue[3].enqueued_packets + queue[3].dropped_packets == queue[2].dequeued_packets
            assert [report_field(report, SEQUENCE_AT, 4) for report in reports] == list(
                range(1, queue[2].dequeued_packets + 1)
            )

    asyncio.run(scenario())
