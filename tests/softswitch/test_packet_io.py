# SPDX-License-Identifier: Apache-2.0
"""Packet-in and packet-out: finsy as the controller of a program that shows it frames and sends what it says."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import finsy
import grpc
import pytest
from finsy.proto import p4r, p4r_grpc
from harness import BINARY, Network, Switch, running
from raw_frames import ETHERTYPE, frame, raw_socket, receive, waiting

pytestmark = [pytest.mark.needs("root", "narrows-softswitch"), pytest.mark.parallel_safe]

COMPILED = Path(__file__).parent / "p4/compiled"
CPU_PORT = ("--cpu-port", "255")
# As packet_io.p4 says of what it shows.
PUNTED = 5
WAIT_S = 10.0
AUTHORITY = [("grpc.default_authority", "localhost")]
COUNT = 300
BURST = 50_000


@pytest.fixture(autouse=True)
def _authority(monkeypatch: pytest.MonkeyPatch) -> None:
    """Finsy would send the path of a Unix socket as the authority, which is none, and has no option for another one."""

    def channel(address: str, **_: object) -> grpc.aio.Channel:
        return grpc.aio.insecure_channel(address, options=AUTHORITY)

    monkeypatch.setattr(finsy.p4client, "grpc_channel", channel)


@asynccontextmanager
async def controller(
    path: Path, election_id: int = 10, program: str | None = "packet_io"
) -> AsyncIterator[finsy.Switch]:
    """A client that has loaded a program, or takes the one that there is."""
    options = finsy.SwitchOptions(
        initial_election_id=election_id,
        p4info=COMPILED / f"{program}.p4info.txtpb" if program else None,
        p4blob=COMPILED / f"{program}.json" if program else None,
        p4force=program is not None,
    )
    async with finsy.Switch("switch", f"unix:{path}/switch.sock", options) as client:
        yield client


async def packets(client: finsy.Switch, count: int) -> list[finsy.P4PacketIn]:
    """The next packet-ins."""
    found = []
    async with asyncio.timeout(WAIT_S):
        async for packet in client.read_packets(queue_size=2 * COUNT):
            found.append(packet)
            if len(found) == count:
                return found
    return found


async def refusal(path: Path, packet: p4r.PacketOut, election_id: int) -> p4r.StreamError:
    """What the switch answers a client that sends a packet-out and is not, or no longer, to be obeyed."""
    async with asyncio.timeout(WAIT_S):
        channel = grpc.aio.insecure_channel(f"unix:{path}/switch.sock", options=AUTHORITY)
        async with channel:
            stub: Any = p4r_grpc.P4RuntimeStub(channel)
            stream = stub.StreamChannel()
            arbitration = p4r.MasterArbitrationUpdate(device_id=1, election_id=p4r.Uint128(low=election_id))
            await stream.write(p4r.StreamMessageRequest(arbitration=arbitration))
            await stream.read()
            await stream.write(p4r.StreamMessageRequest(packet=packet))
            answer = await stream.read()
            stream.cancel()
            assert isinstance(answer, p4r.StreamMessageResponse)
            return answer.error


async def lost(switch: Switch) -> int:
    """Packet-ins that did not get to their controller."""
    return int((await switch.tm.port_stats()).discards.packet_ins)


def test_packets_go_to_the_controller_and_come_from_it(network: Network, tmp_path: Path) -> None:
    async def act() -> None:
        sender, receiver = (raw_socket(network.namespace(host)) for host in ("sender", "receiver"))
        async with running(network, tmp_path, *CPU_PORT) as switch, controller(tmp_path) as client:
            sent = [frame(2, number, 60 + number) for number in range(COUNT)]
            reading = asyncio.create_task(packets(client, COUNT))
            await asyncio.sleep(0)
            for one in sent:
                sender.send(one)
            found = await reading
            # In order and whole, without the header, whose fields are metadata.
            assert [packet.payload for packet in found] == sent
            assert {(packet["ingress_port"], packet["reason"]) for packet in found} == {(1, PUNTED)}
            assert await lost(switch) == 0

            for one in sent:
                await client.write([finsy.P4PacketOut(one, egress_port=2, unused=0)])
            # A wrong port is a wrong port; what follows goes on.
            await client.write([finsy.P4PacketOut(sent[0], egress_port=77, unused=0)])
            await client.write([finsy.P4PacketOut(sent[-1], egress_port=2, unused=0)])
            arrived = await asyncio.to_thread(receive, receiver, COUNT + 1)
            assert arrived == [*sent, sent[-1]]
            assert waiting(sender) == []
            assert (await switch.tm.port_stats()).discards.absent_port == 1

    asyncio.run(act())


def test_only_the_primary_has_packets(network: Network, tmp_path: Path) -> None:
    async def act() -> None:
        sender, receiver = (raw_socket(network.namespace(host)) for host in ("sender", "receiver"))
        async with running(network, tmp_path, *CPU_PORT) as switch, controller(tmp_path, 10) as client:
            async with controller(tmp_path, 5, program=None) as backup:
                of_backup = asyncio.create_task(packets(backup, 1))
                of_primary = asyncio.create_task(packets(client, 1))
                await asyncio.sleep(0)
                sender.send(frame(2, 1, 60))
                assert len(await of_primary) == 1
                assert not of_backup.done()
                of_backup.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await of_backup
            metadata = [p4r.PacketMetadata(metadata_id=1, value=b"\x02")]
            out = p4r.PacketOut(payload=frame(2, 2, 60), metadata=metadata)
            answer = await refusal(tmp_path, out, 4)
            assert (finsy.GRPCStatusCode(answer.canonical_code).name, answer.message) == (
                "PERMISSION_DENIED",
                "packet-out: only a primary client may send packets",
            )
            assert answer.packet_out.packet_out == out
            # The primary's with the same words goes: padding need not be given.
            assert waiting(receiver) == []
            await client.write([finsy.P4PacketOut(out.payload, egress_port=2, unused=0)])
            assert await asyncio.to_thread(receive, receiver, 1) == [out.payload]
        # Without a primary there is nowhere for what comes now.
        async with running(network, tmp_path, *CPU_PORT) as switch:
            async with controller(tmp_path):
                pass
            async with asyncio.timeout(WAIT_S):
                # The switch notices a moment later that its client has left.
                while await lost(switch) == 0:
                    sender.send(frame(2, 3, 60))
                    await asyncio.sleep(0.01)

    asyncio.run(act())


@pytest.mark.parametrize(
    ("program", "options", "metadata", "code", "message"),
    [
        (
            "conformance",
            CPU_PORT,
            {},
            "UNIMPLEMENTED",
            "packet-out: the P4Info of the program has no controller header packet_out",
        ),
        ("packet_io", (), {1: b"\x02"}, "FAILED_PRECONDITION", "packet-out: the switch has no CPU port (--cpu-port)"),
        ("packet_io", CPU_PORT, {2: b"\x02"}, "INVALID_ARGUMENT", "packet_out: metadata 1 (egress_port) is missing"),
        (
            "packet_io",
            CPU_PORT,
            {1: b"\x02\x00"},
            "OUT_OF_RANGE",
            "packet_out: metadata 1 (egress_port): the value does not fit in 9 bits",
        ),
    ],
)
def test_a_packet_out_that_cannot_be_is_refused(
    network: Network,
    tmp_path: Path,
    program: str,
    options: tuple[str, ...],
    metadata: dict[int, bytes],
    code: str,
    message: str,
) -> None:
    async def act() -> None:
        given = [p4r.PacketMetadata(metadata_id=key, value=value) for key, value in metadata.items()]
        out = p4r.PacketOut(payload=frame(2, 1, 60), metadata=given)
        async with running(network, tmp_path, *options), controller(tmp_path, program=program):
            answer = await refusal(tmp_path, out, 20)
        assert (finsy.GRPCStatusCode(answer.canonical_code).name, answer.message) == (code, message)

    asyncio.run(act())


def test_a_packet_out_is_as_long_as_a_frame(network: Network, tmp_path: Path) -> None:
    async def act() -> None:
        out = p4r.PacketOut(payload=bytes(10_000), metadata=[p4r.PacketMetadata(metadata_id=1, value=b"\x02")])
        async with running(network, tmp_path, *CPU_PORT), controller(tmp_path):
            answer = await refusal(tmp_path, out, 20)
        assert answer.message == "packet-out: 10002 bytes with its header: allowed are 1 to 9234"

    asyncio.run(act())


def burst(path: Path, count: int) -> list[p4r.StreamMessageResponse]:
    """What the switch answers a client that sends as many small packet-outs as it can, and one more that is refused."""
    become = p4r.MasterArbitrationUpdate(device_id=1, election_id=p4r.Uint128(low=20))
    small = p4r.PacketOut(payload=bytes(4), metadata=[p4r.PacketMetadata(metadata_id=1, value=b"\x4d")])
    messages = itertools.chain(
        [p4r.StreamMessageRequest(arbitration=become)],
        itertools.repeat(p4r.StreamMessageRequest(packet=small), count),
        [p4r.StreamMessageRequest(packet=p4r.PacketOut())],
    )
    with grpc.insecure_channel(f"unix:{path}/switch.sock", options=AUTHORITY) as channel:
        stub: Any = p4r_grpc.P4RuntimeStub(channel)
        return list(stub.StreamChannel(messages, timeout=6 * WAIT_S))


def test_many_small_packet_outs_wait_for_the_switch(network: Network, tmp_path: Path) -> None:
    """HTTP/2's flow control holds their client up; the connection is not given up, and none of them is lost."""

    async def act() -> None:
        async with running(network, tmp_path, *CPU_PORT) as switch, controller(tmp_path):
            arbitrated, refused = await asyncio.to_thread(burst, tmp_path, BURST)
            assert arbitrated.arbitration.status.code == 0
            assert refused.error.message == "packet_out: metadata 1 (egress_port) is missing"
            # All of them went to a port that is not there.
            assert (await switch.tm.port_stats()).discards.absent_port == BURST

    asyncio.run(act())


def test_the_program_has_the_ethertype_of_the_frames() -> None:
    assert f"0x{ETHERTYPE:04x}" in (COMPILED.parent / "packet_io.p4").read_text()


ASK = """
import sys

import grpc
from narrows.switch import traffic_manager_pb2 as pb
from narrows.switch.p4runtime import p4r, p4r_grpc

channel = grpc.insecure_channel("127.0.0.1:9559")
p4r_grpc.P4RuntimeStub(channel).Capabilities(p4r.CapabilitiesRequest(), timeout=10)
configure = channel.unary_unary("/narrows.v1.TrafficManager/PortStats", pb.PortStatsRequest.SerializeToString)
try:
    configure(pb.PortStatsRequest(), timeout=10)
except grpc.RpcError as error:
    print(error.code().name)
"""


def test_the_traffic_manager_is_not_served_to_controllers(network: Network, tmp_path: Path) -> None:
    async def act() -> None:
        async with running(network, tmp_path, "--p4runtime", "127.0.0.1:9559"):
            network.inside("switch", "ip link set lo up")
            command = ["ip", "netns", "exec", network.namespace("switch"), sys.executable, "-c", ASK]
            asked = await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True, text=True)
            assert asked.stdout == "UNIMPLEMENTED\n"

    asyncio.run(act())


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("unix:/tmp/x", "expected host:port"),
        ("0.0.0.0:9559", "--p4runtime 0.0.0.0:9559: not an address of this machine"),
    ],
)
def test_a_controller_has_an_address_of_this_machine(tmp_path: Path, address: str, message: str) -> None:
    command = [str(BINARY), "serve", "--grpc", f"unix:{tmp_path}/x.sock", "--port", "1@lo", "--p4runtime", address]
    asked = subprocess.run(command, check=False, capture_output=True, text=True)
    assert asked.returncode == 2 and message in asked.stderr
