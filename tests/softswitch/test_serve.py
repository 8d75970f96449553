# SPDX-License-Identifier: Apache-2.0
"""The softswitch on veth ports: what only real interfaces show. Run as root: pytest tests/softswitch."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import textwrap
import time
from pathlib import Path

import grpc
import pytest
from finsy import P4CounterEntry, P4RegisterEntry, P4TableMatch
from finsy.proto import U128, p4r, p4r_grpc
from harness import BINARY, REPORT_BYTES, Network, Switch, running, wire
from narrows.errors import RunError
from narrows.switch import traffic_manager_pb2 as pb
from narrows.switch.link_models import delay_message, rate_message
from narrows_formats.schedules import DelaySteps, RateSteps

FRAME = 1042  # Ethernet, IPv4, UDP and 1000 bytes of payload


def python(network: Network, host: str, program: str) -> None:
    """Run a Python program on a host."""
    command = ["ip", "netns", "exec", network.namespace(host), "python3", "-c", textwrap.dedent(program)]
    subprocess.run(command, check=True, capture_output=True)


def send(network: Network, host: str, count: int, payload: int = 1000) -> None:
    """Send UDP datagrams from a host to the receiver in one burst."""
    program = f"""
        import socket
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.bind(("", 4000))
        for _ in range({count}):
            s.sendto(bytes({payload}), ("10.77.0.2", 9))
    """
    python(network, host, program)


def resolve(network: Network) -> None:
    """Fixed neighbours: no ARP among the counted packets."""
    for host, other in (("sender", 2), ("receiver", 1)):
        peer = "receiver" if host == "sender" else "sender"
        mac = network.inside(peer, "cat /sys/class/net/eth0/address").strip()
        network.inside(host, f"ip neigh replace 10.77.0.{other} lladdr {mac} dev eth0 nud permanent")


async def queue(switch: Switch, port: int) -> pb.Queue:
    """Counters of a port's queue 0."""
    return next(q for q in (await switch.tm.list()).queues if (q.port, q.queue) == (port, 0))


@pytest.mark.parametrize("options", [(), ("--no-af-xdp",), ("--real-time", "--spin-us", "0")])
def test_forwards_reports_and_counts(network: Network, tmp_path: Path, options: tuple[str, ...]) -> None:
    """Every frame is forwarded, reported and counted once, in whatever way it is sent."""

    async def scenario() -> None:
        async with running(network, tmp_path, *options) as switch:
            await switch.program()
            resolve(network)
            send(network, "sender", 50)
            await asyncio.sleep(0.3)
            ports = {port.port: port for port in (await switch.tm.port_stats()).ports}
            assert (ports[1].rx_packets, ports[2].tx_packets, ports[3].tx_packets) == (50, 50, 50)
            assert (ports[1].rx_bytes, ports[2].tx_bytes, ports[3].tx_bytes) == (
                50 * FRAME,
                50 * FRAME,
                50 * REPORT_BYTES,
            )
            counted = await queue(switch, 2)
            assert (counted.dequeued_packets, counted.dequeued_bytes) == (50, 50 * FRAME)
            name = "NarrowsIngress.bottleneck.arrival_counter.flows"
            found = [entity async for entity in switch.p4.read([P4CounterEntry(name)])]
            assert sum(entry.packet_count for entry in found if isinstance(entry, P4CounterEntry)) == 50

    asyncio.run(scenario())


def test_what_waits_for_the_processor_is_counted_as_late(network: Network, tmp_path: Path) -> None:
    """More than 10 ms after their time: frames that arrive while the process is stopped."""

    async def late(switch: Switch) -> int:
        return next(port.tx_late for port in (await switch.tm.port_stats()).ports if port.port == 2)

    async def scenario() -> None:
        async with running(network, tmp_path) as switch:
            await switch.program()
            resolve(network)
            send(network, "sender", 20)
            await asyncio.sleep(0.3)
            # On a busy machine these may have waited as well.
            before = await late(switch)
            switch.process.send_signal(signal.SIGSTOP)
            send(network, "sender", 30)
            await asyncio.sleep(0.05)
            switch.process.send_signal(signal.SIGCONT)
            await asyncio.sleep(0.3)
            assert (await queue(switch, 2)).dequeued_packets == 50
            assert await late(switch) - before == 30

    asyncio.run(scenario())


def test_tail_drop_at_exactly_the_packets_and_bytes(network: Network, tmp_path: Path) -> None:
    """Drops are exact in packets and bytes, also after live changes of the limits; nothing that waits is lost."""

    async def scenario() -> None:
        async with running(network, tmp_path) as switch:
            await switch.program()
            resolve(network)
            # 400 bit/s: the first frame is in service for 20 s, so that nothing leaves the queue meanwhile.
            for limits, sent, waiting, dropped in (
                ({"limit_packets": 7}, 20, 7, 12),
                ({"limit_bytes": 7 * FRAME, "limit_packets": 0}, 5, 7, 17),
                ({"limit_bytes": 9 * FRAME - 1}, 5, 8, 21),
                ({"limit_bytes": 9 * FRAME}, 5, 9, 25),
            ):
                asked = pb.ConfigureRequest(port=2, queue=0, rate_bps=400)
                for name, value in limits.items():
                    setattr(asked, name, value)
                await switch.tm.configure(asked)
                send(network, "sender", sent)
                await asyncio.sleep(0.3)
                found = await queue(switch, 2)
                assert (found.depth_packets, found.depth_bytes) == (waiting, waiting * FRAME)
                assert (found.dropped_packets, found.dropped_bytes) == (dropped, dropped * FRAME)
                drops = (await switch.tm.flow_drops(2, 0)).flows
                assert [(drop.packets, drop.bytes) for drop in drops] == [(dropped, dropped * FRAME)]
                listed = await switch.tm.list([pb.FlowDropsRequest(port=2), pb.FlowDropsRequest(port=1)])
                assert [list(one.flows) for one in listed.flow_drops] == [list(drops), []]
            with pytest.raises(RunError, match="port 9: the switch has no such port"):
                await switch.tm.list([pb.FlowDropsRequest(port=9)])
            # Live: at 10 Gbit/s everything that waits leaves after the frame in service.
            await switch.tm.configure(pb.ConfigureRequest(port=2, queue=0, rate_bps=10_000_000_000))
            async with asyncio.timeout(90):
                while (await queue(switch, 2)).depth_packets:
                    await asyncio.sleep(0.2)
            found = await queue(switch, 2)
            assert found.dequeued_packets == found.enqueued_packets == 10

    asyncio.run(scenario())


@pytest.mark.parallel_safe
def test_interface_down_and_up_and_made_anew(network: Network, tmp_path: Path) -> None:
    """An interface that goes down, comes up or is made anew works on."""

    async def scenario() -> None:
        async with running(network, tmp_path) as switch:
            await switch.program()
            resolve(network)
            send(network, "sender", 5)
            network.inside("switch", "ip link set p2 down")
            await asyncio.sleep(0.5)
            assert not {port.port: port for port in (await switch.tm.port_stats()).ports}[2].link_up
            send(network, "sender", 5)
            await asyncio.sleep(0.3)
            network.inside("switch", "ip link set p2 up")
            await asyncio.sleep(0.5)
            send(network, "sender", 5)
            await asyncio.sleep(0.3)
            port = {port.port: port for port in (await switch.tm.port_stats()).ports}[2]
            assert port.link_up
            assert (port.tx_packets, port.tx_errors + port.tx_drops) == (10, 5)
            network.inside("switch", "ip link del p2")
            await asyncio.sleep(0.5)
            network.connect(2, "receiver")
            await asyncio.sleep(0.8)
            resolve(network)
            send(network, "sender", 5)
            await asyncio.sleep(0.3)
            assert {port.port: port for port in (await switch.tm.port_stats()).ports}[2].tx_packets == 15

    asyncio.run(scenario())


def status(pid: int) -> dict[str, str]:
    """What the kernel says of a process's threads, each of which has the same privileges."""
    found = []
    for thread in Path(f"/proc/{pid}/task").iterdir():
        lines = (line.partition(":") for line in (thread / "status").read_text().splitlines())
        found.append({name: value.strip() for name, _, value in lines})
    wanted = ("CapPrm", "CapEff", "CapInh", "CapAmb", "NoNewPrivs")
    different = {tuple(thread[name] for name in wanted) for thread in found}
    assert len(different) == 1, different
    return found[0]


def test_keeps_no_privilege_but_for_its_interfaces(network: Network, tmp_path: Path) -> None:
    """Every thread of a switch that root has started: raw packets, interfaces, locked memory, real-time priority."""

    async def scenario() -> None:
        async with running(network, tmp_path) as switch:
            found = status(switch.process.pid)
            kept = 1 << 12 | 1 << 13 | 1 << 14 | 1 << 23
            assert (int(found["CapPrm"], 16), int(found["CapEff"], 16)) == (kept, kept)
            assert (int(found["CapInh"], 16), int(found["CapAmb"], 16), found["NoNewPrivs"]) == (0, 0, "1")

    asyncio.run(scenario())


async def longest_wait(switch: Switch, seconds: float) -> float:
    """How long the data path makes a question wait, at most, while it is asked again and again."""
    longest, ends = 0.0, time.monotonic() + seconds
    while (asked := time.monotonic()) < ends:
        await switch.tm.list()
        longest = max(longest, time.monotonic() - asked)
        await asyncio.sleep(0.002)
    return longest


@pytest.mark.long
def test_opening_an_interface_again_stops_no_other(network: Network, tmp_path: Path) -> None:
    """A ring of 256 MiB is opened again, for a second or so; the data path answers all the while."""

    async def scenario() -> None:
        async with running(network, tmp_path, "--ring-mib", "256") as switch:
            await switch.program()
            # What a busy machine alone makes an answer wait.
            before = await longest_wait(switch, 2)
            network.inside("switch", "ip link del p2")
            network.connect(2, "receiver")
            longest = await longest_wait(switch, 4)
            resolve(network)
            send(network, "sender", 5)
            await asyncio.sleep(0.3)
            ports = {port.port: port for port in (await switch.tm.port_stats()).ports}
            assert ports[2].tx_packets == 5
            came_in = ports[2].rx_packets
            send_back = """
                import socket
                s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                for _ in range(7):
                    s.sendto(bytes(1000), ("10.77.0.1", 9))
            """
            python(network, "receiver", send_back)
            await asyncio.sleep(0.3)
            ports = {port.port: port for port in (await switch.tm.port_stats()).ports}
            assert ports[2].rx_packets >= came_in + 7
            print(f"longest wait for an answer: {longest:.3f} s, {before:.3f} s before")
            assert longest < max(0.25, 3 * before)

    asyncio.run(scenario())


def test_frames_longer_than_a_page(network: Network, tmp_path: Path) -> None:
    """Frames that AF_XDP does not take are sent all the same, also if the MTU grows meanwhile."""
    for port, host in enumerate(("sender", "receiver"), 1):
        network.inside("switch", f"ip link set p{port} mtu 9000")
        network.inside(host, "ip link set eth0 mtu 3000")

    async def scenario() -> None:
        network.inside("switch", "ip link set p2 mtu 3000")
        async with running(network, tmp_path) as switch:
            await switch.program()
            resolve(network)
            send(network, "sender", 20, 2900)
            network.inside("switch", "ip link set p2 mtu 9000")
            for host in ("sender", "receiver"):
                network.inside(host, "ip link set eth0 mtu 9000")
            await asyncio.sleep(0.5)
            send(network, "sender", 20, 8900)
            await asyncio.sleep(0.3)
            ports = {port.port: port for port in (await switch.tm.port_stats()).ports}
            assert (ports[2].tx_packets, ports[2].tx_bytes) == (40, 20 * (2942 + 8942))
            assert ports[3].tx_packets == 40

    asyncio.run(scenario())


def test_full_collector_link_costs_reports_only(network: Network, tmp_path: Path) -> None:
    """A collector link that takes nothing: every packet is forwarded, each report is sent or counted as dropped."""
    frames = 6000
    network.inside("switch", "ip link del p3")
    # A tap interface holds as much as its queue does until somebody reads.
    reader = """
        import fcntl, os, select, struct, sys
        tap = os.open("/dev/net/tun", os.O_RDWR)
        fcntl.ioctl(tap, 0x400454CA, struct.pack("16sH22x", b"p3", 0x1002))
        os.system("ip link set p3 txqueuelen 500 up")
        print("ready", flush=True)
        sys.stdin.readline()
        count = 0
        while select.select([tap], [], [], 1.0)[0]:
            count += os.read(tap, 65536)[12:14] == b"\\x08\\x00"
        print(count, flush=True)
        sys.stdin.readline()
    """
    command = ["ip", "netns", "exec", network.namespace("switch"), "python3", "-c", textwrap.dedent(reader)]
    tap = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert tap.stdin is not None and tap.stdout is not None
    assert tap.stdout.readline() == "ready\n"

    async def scenario() -> None:
        async with running(network, tmp_path) as switch:
            await switch.program()
            resolve(network)
            send(network, "sender", frames // 2)
            send(network, "sender", frames // 2)
            await asyncio.sleep(0.5)
            ports = {port.port: port for port in (await switch.tm.port_stats()).ports}
            assert ports[1].rx_ring_drops == 0
            assert ports[2].tx_packets == frames
            assert ports[3].tx_drops > 0
            # Somebody reads: what still waits is sent.
            assert tap.stdin is not None and tap.stdout is not None
            tap.stdin.write("read\n")
            tap.stdin.flush()
            read = int(await asyncio.to_thread(tap.stdout.readline))
            stats = {port.port: port for port in (await switch.tm.port_stats()).ports}[3]
            assert read == stats.tx_packets >= ports[3].tx_packets
            assert stats.tx_packets + stats.tx_drops + stats.tx_errors == frames

    try:
        asyncio.run(scenario())
    finally:
        tap.kill()
        tap.communicate()


# Prints the first frame with a tag. The kernel takes the outer one out of it and hands it over beside it:
# struct tpacket_auxdata of linux/if_packet.h, whose status says by 0x10 that there is a tag and by 0x40 its TPID.
SHOW_TAGGED = """
    import socket, struct
    SOL_PACKET, PACKET_AUXDATA = 263, 8
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    s.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
    s.bind(("eth0", 3))
    s.settimeout(10)
    print("listening", flush=True)
    while True:
        frame, ((_, _, beside),), _, _ = s.recvmsg(4096, socket.CMSG_SPACE(20))
        status, _, _, _, _, tci, tpid = struct.unpack("IIIHHHH", beside)
        if status & 0x50 == 0x50:
            print((frame[:12] + struct.pack(">HH", tpid, tci) + frame[12:]).hex())
            break
"""


@pytest.mark.parallel_safe
def test_tags_survive(network: Network, tmp_path: Path) -> None:
    """VLAN tags that the kernel takes out of frames are put back."""

    async def scenario() -> None:
        async with running(network, tmp_path) as switch:
            await switch.program()
            receiver = await asyncio.create_subprocess_exec(
                *("ip", "netns", "exec", network.namespace("receiver"), "python3", "-c", textwrap.dedent(SHOW_TAGGED)),
                stdout=asyncio.subprocess.PIPE,
            )
            assert receiver.stdout is not None
            assert await receiver.stdout.readline() == b"listening\n"
            frame = "02000000000202000000000181000123" + "88a80045" + "0800" + "45" + "00" * 60
            program = f"""
                import socket
                s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
                s.bind(("eth0", 0))
                s.send(bytes.fromhex("{frame}"))
            """
            python(network, "sender", program)
            seen, _ = await asyncio.wait_for(receiver.communicate(), 10)
            assert seen.decode().strip() == frame

    asyncio.run(scenario())


@pytest.mark.parallel_safe
def test_partial_checksums_are_completed(network: Network, tmp_path: Path) -> None:
    """Checksums that the sender's kernel left to its hardware are computed."""

    async def scenario() -> None:
        async with running(network, tmp_path) as switch:
            await switch.program()
            resolve(network)
            network.inside("sender", "ethtool -K eth0 tx on")
            receive = """
                import socket
                s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                s.bind(("10.77.0.2", 9))
                s.settimeout(5)
                print("bound", flush=True)
                print(len(s.recv(4096)), flush=True)
            """
            receiver = await asyncio.create_subprocess_exec(
                *("ip", "netns", "exec", network.namespace("receiver"), "python3", "-c", textwrap.dedent(receive)),
                stdout=asyncio.subprocess.PIPE,
            )
            assert receiver.stdout is not None
            assert await receiver.stdout.readline() == b"bound\n"
            send(network, "sender", 1)
            # A datagram whose checksum is wrong would never reach the socket.
            assert (await asyncio.wait_for(receiver.communicate(), 6))[0] == b"1000\n"
            assert {port.port: port for port in (await switch.tm.port_stats()).ports}[1].rx_partial_checksums >= 1

    asyncio.run(scenario())


@pytest.mark.parallel_safe
def test_partial_checksums_behind_extension_headers(network: Network, tmp_path: Path) -> None:
    """The kernel says where a checksum is to be completed: TCP over IPv6 behind destination options."""
    for number, host in ((1, "sender"), (2, "receiver")):
        network.inside(host, "sysctl -qw net.ipv6.conf.eth0.disable_ipv6=0")
        network.inside(host, f"ip -6 addr add fd00:77::{number}/64 dev eth0 nodad")
    network.inside("sender", "ethtool -K eth0 tx on")

    async def scenario() -> None:
        async with running(network, tmp_path) as switch:
            await switch.p4.push_pipeline()
            await switch.p4.insert([wire(P4TableMatch(ingress_port=a), port=b) for a, b in ((1, 2), (2, 1))])
            serve = """
                import socket
                s = socket.create_server(("fd00:77::2", 9), family=socket.AF_INET6)
                print("bound", flush=True)
                connection, _ = s.accept()
                print(len(connection.recv(4096, socket.MSG_WAITALL)), flush=True)
            """
            server = await asyncio.create_subprocess_exec(
                *("ip", "netns", "exec", network.namespace("receiver"), "python3", "-c", textwrap.dedent(serve)),
                stdout=asyncio.subprocess.PIPE,
            )
            assert server.stdout is not None
            assert await server.stdout.readline() == b"bound\n"
            client = """
                import socket
                s = socket.socket(socket.AF_INET6)
                s.settimeout(5)
                s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_DSTOPTS, bytes([0, 0, 1, 4, 0, 0, 0, 0]))
                s.connect(("fd00:77::2", 9))
                s.sendall(bytes(1000))
            """
            try:
                await asyncio.to_thread(python, network, "sender", client)
                assert (await asyncio.wait_for(server.communicate(), 6))[0] == b"1000\n"
            finally:
                if server.returncode is None:
                    server.kill()
            assert {port.port: port for port in (await switch.tm.port_stats()).ports}[1].rx_partial_checksums >= 3

    asyncio.run(scenario())


@pytest.mark.parallel_safe
def test_several_packets_in_one_are_not_passed(network: Network, tmp_path: Path) -> None:
    """What segmentation offload would take apart is discarded and counted, also if it fits into a jumbo frame."""
    for port in ("p1", "p2"):
        network.inside("switch", f"ip link set {port} mtu 9000")
    network.inside("sender", "ethtool -K eth0 tx on tso on gso on tx-udp-segmentation on")

    async def scenario() -> None:
        async with running(network, tmp_path) as switch:
            await switch.program()
            resolve(network)
            program = """
                import socket
                s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                s.setsockopt(socket.IPPROTO_UDP, 103, 1000)
                s.sendto(bytes(5000), ("10.77.0.2", 9))
            """
            python(network, "sender", program)
            await asyncio.sleep(0.3)
            ports = {port.port: port for port in (await switch.tm.port_stats()).ports}
            assert (ports[1].rx_packets, ports[1].rx_errors + ports[1].rx_ring_drops) == (0, 1)
            assert ports[2].tx_packets == 0

    asyncio.run(scenario())


@pytest.mark.parallel_safe
def test_registers_and_saved_pipeline(network: Network, tmp_path: Path) -> None:
    """Registers are read; a saved pipeline takes writes and replaces the active one at COMMIT only."""

    async def scenario() -> None:
        async with running(network, tmp_path) as switch:
            await switch.program()
            resolve(network)
            send(network, "sender", 3)
            await asyncio.sleep(0.3)
            name = next(register.name for register in switch.p4.schema.registers if "departures" in register.name)
            registers = [entry async for entry in switch.p4.read([P4RegisterEntry(name)])]
            assert len(registers) == next(r.size for r in switch.p4.schema.registers if r.name == name)
            cells = [entry async for entry in switch.p4.read([P4RegisterEntry(name, index=0)])]
            assert len(cells) == 1
            # A second pipeline is saved; entries go to it, the active one is untouched until COMMIT.
            stub = p4r_grpc.P4RuntimeStub(switch.p4.channel)
            action = p4r.SetForwardingPipelineConfigRequest
            request = action(
                device_id=1,
                election_id=U128.encode(1),
                action=action.VERIFY_AND_SAVE,
                config=switch.p4.schema.get_pipeline_config(),
            )
            await stub.SetForwardingPipelineConfig(request)
            entry = wire(P4TableMatch(ingress_port=1), port=2)
            await switch.p4.insert([entry])
            send(network, "sender", 3)
            await asyncio.sleep(0.3)
            reports = {port.port: port for port in (await switch.tm.port_stats()).ports}[3].tx_packets
            assert reports == 6
            await stub.SetForwardingPipelineConfig(
                action(device_id=1, election_id=U128.encode(1), action=action.COMMIT)
            )
            send(network, "sender", 3)
            await asyncio.sleep(0.3)
            ports = {port.port: port for port in (await switch.tm.port_stats()).ports}
            assert (ports[2].tx_packets, ports[3].tx_packets) == (9, 6)
            reconcile = action(
                device_id=1,
                election_id=U128.encode(1),
                action=action.RECONCILE_AND_COMMIT,
                config=switch.p4.schema.get_pipeline_config(),
            )
            await stub.SetForwardingPipelineConfig(reconcile)
            # The entry is still there.
            with pytest.raises(RunError, match="ALREADY_EXISTS"):
                await switch.p4.insert([entry])

    asyncio.run(scenario())


@pytest.mark.parallel_safe
def test_queues_are_set_by_the_primary_only(network: Network, tmp_path: Path) -> None:
    """Settings of queues follow P4Runtime's arbitration, and the socket belongs to who started the switch."""

    async def scenario() -> None:
        async with running(network, tmp_path) as switch:
            assert (tmp_path / "switch.sock").stat().st_mode & 0o777 == 0o600
            configure = switch.p4.channel.unary_unary(
                "/narrows.v1.TrafficManager/Configure",
                request_serializer=pb.ConfigureRequest.SerializeToString,
                response_deserializer=pb.ConfigureResponse.FromString,
            )
            for who in ({}, {"election_id": pb.ElectionId(low=2)}, {"election_id": pb.ElectionId(low=1), "role": "x"}):
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await configure(pb.ConfigureRequest(port=2, rate_bps=1, **who))
                assert refused.value.code() == grpc.StatusCode.PERMISSION_DENIED
            assert not (await switch.tm.list()).queues
            answer = await configure(pb.ConfigureRequest(port=2, rate_bps=1, election_id=pb.ElectionId(low=1)))
            assert answer.epoch == 2

    asyncio.run(scenario())


@pytest.mark.parallel_safe
def test_links_that_vary_are_set_and_read_back(network: Network, tmp_path: Path) -> None:
    """Schedules wait for their epoch, read back, and are refused as a whole with the field's name."""

    async def scenario() -> None:
        async with running(network, tmp_path) as switch:
            await switch.program()
            resolve(network)
            asked = pb.ConfigureRequest(
                port=2,
                rate_bps=10_000_000,
                rate_schedule=rate_message(RateSteps(((0, 5_000_000), (1_000_000, 0)), period_ns=2_000_000)),
                delay_schedule=delay_message(DelaySteps(((0, 3_000_000),))),
                variation=pb.Variation(duplicate=1.0),
            )
            await switch.tm.configure(asked)
            found = await queue(switch, 2)
            assert (found.rate_bps, found.unlimited) == (10_000_000, False)
            assert (found.rate_schedule.entries, found.rate_schedule.period_ns) == (2, 2_000_000)
            assert not found.rate_schedule.HasField("epoch_ns")
            send(network, "sender", 8)
            await asyncio.sleep(0.3)
            found = await queue(switch, 2)
            assert (found.enqueued_packets, found.dropped_packets, found.duplicated_packets) == (8, 0, 8)
            flows = (await switch.tm.flow_drops(2, 0, pb.DUPLICATE)).flows
            assert [flow.packets for flow in flows] == [8]
            now = (await switch.tm.list()).timestamp_ns
            with pytest.raises(RunError, match=r"INVALID_ARGUMENT: epoch_ns 1: allowed is \d+ \(now\) or later"):
                await switch.tm.start_schedules(1)
            assert (await switch.tm.start_schedules(now + 10**9)).schedules == 2
            found = await queue(switch, 2)
            assert found.rate_schedule.epoch_ns == found.delay_schedule.epoch_ns == now + 10**9
            before = found.epoch
            for wrong, message in (
                (pb.ConfigureRequest(port=2, rate_bps=1, unlimited=True), "rate_bps 1 and unlimited"),
                (pb.ConfigureRequest(port=2, rate_bps=1, variation=pb.Variation(duplicate=2.0)), "duplicate 2"),
                (pb.ConfigureRequest(port=2, rate_bps=1, rate_schedule=pb.RateSchedule()), "steps or opportunities"),
            ):
                with pytest.raises(RunError, match=message):
                    await switch.tm.configure(wrong)
            found = await queue(switch, 2)
            assert (found.rate_bps, found.epoch) == (10_000_000, before)
            await switch.tm.configure(pb.ConfigureRequest(port=2, unlimited=True))
            found = await queue(switch, 2)
            assert found.unlimited and found.rate_bps == 0 and not found.HasField("rate_schedule")

    asyncio.run(scenario())


def test_command_line_errors(tmp_path: Path) -> None:
    """Bad input ends with exit code 2 and one message."""
    taken = tmp_path / "taken.sock"
    (tmp_path / "file").write_text("")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(taken))
        server.listen()
        for arguments, message in (
            (["--grpc", f"unix:{tmp_path}/s", "--port", "1@no-such-if"], "no-such-if does not exist"),
            (["--grpc", f"unix:{tmp_path}/s", "--loopback", "1", "--loopback", "1"], "port 1 is given twice"),
            (["--grpc", f"unix:{taken}"], "another server"),
            (["--grpc", f"unix:{tmp_path}/file"], "not a socket"),
            (["--grpc", f"unix:{tmp_path}/none/s"], "No such file"),
            (["--grpc", "0.0.0.0:9559"], "not an address of this machine only"),
            (["--grpc", "[::]:9559"], "not an address of this machine only"),
            (["--grpc", "0.0.0.0:9559", "--tls-cert", "x"], "--tls-key"),
            (["--grpc", "nonsense"], "expected unix:/path/to.sock or host:port"),
        ):
            found = subprocess.run([BINARY, "serve", *arguments], capture_output=True, text=True, check=False)
            assert (found.returncode, found.stdout) == (2, "")
            assert message in found.stderr
