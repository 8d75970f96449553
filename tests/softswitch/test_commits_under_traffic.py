# SPDX-License-Identifier: Apache-2.0
"""SAVE, WRITE and COMMIT under traffic: each frame is of one program, and every frame is accounted for."""

from __future__ import annotations

import asyncio
import struct
import threading
from pathlib import Path
from typing import Any

import pytest
from finsy import P4CounterData, P4RegisterEntry, P4Schema, P4TableAction, P4TableEntry, P4TableMatch
from finsy.proto import p4r
from harness import Network, running
from narrows.experiment.plan import FIRST_DEVICE
from narrows.switch import traffic_manager_pb2 as pb
from narrows.switch.p4runtime import ELECTION_ID
from raw_frames import ETHERTYPE, mac, raw_socket

pytestmark = [pytest.mark.needs("root", "narrows-softswitch"), pytest.mark.parallel_safe]

COMPILED = Path(__file__).parent / "p4/compiled"
# What a frame of conformance.p4 asks for: an entry of a table with an exact key.
EXACT, KEY = 1, 5
PROBE = ">BHIHHHI"
TAG_AT = 14 + struct.calcsize(PROBE) - 4
LENGTH = 200
# Frames wait for their link all the time, 64 of them.
RATE_BPS, WAITING = 40_000_000, 64
TABLE, MEMORY, CELL = "ProbeIngress.exact_table", "ProbeIngress.memory", 3
Action = p4r.SetForwardingPipelineConfigRequest


def probe() -> bytes:
    """A frame that has whatever its program answers in it, and a payload that says whether it is whole."""
    head = mac(2) + mac(1) + ETHERTYPE.to_bytes(2, "big") + struct.pack(PROBE, EXACT, KEY, 0, 0, 0, 0, 0)
    return head + bytes(number & 0xFF for number in range(LENGTH - len(head)))


class Sender(threading.Thread):
    """Sends frames as fast as it can until it is stopped."""

    def __init__(self, network: Network) -> None:
        super().__init__(daemon=True)
        self._socket = raw_socket(network.namespace("sender"))
        self._stop_it = threading.Event()
        self.sent = 0

    def run(self) -> None:
        """Count only what the kernel has taken."""
        frame = probe()
        while not self._stop_it.is_set():
            for _ in range(64):
                try:
                    self._socket.send(frame)
                    self.sent += 1
                except OSError:  # no buffer at the moment
                    continue

    def stop(self) -> None:
        """Until nothing more is sent."""
        self._stop_it.set()
        self.join()


class Receiver(threading.Thread):
    """Runs of equal tags, in the order in which frames arrive, and frames that are not whole."""

    def __init__(self, network: Network) -> None:
        super().__init__(daemon=True)
        self._socket = raw_socket(network.namespace("receiver"))
        self._socket.settimeout(0.2)
        self._stop_it = threading.Event()
        self.runs: list[tuple[int, int]] = []
        self.damaged = 0

    def run(self) -> None:
        """Until nothing has come for a while after it was stopped."""
        expected = probe()
        while True:
            try:
                frame = self._socket.recv(2048)
            except TimeoutError:
                if self._stop_it.is_set():
                    return
                continue
            self.damaged += frame[:TAG_AT] + bytes(4) + frame[TAG_AT + 4 :] != expected
            tag = int.from_bytes(frame[TAG_AT : TAG_AT + 4], "big")
            if self.runs and self.runs[-1][0] == tag:
                self.runs[-1] = (tag, self.runs[-1][1] + 1)
            else:
                self.runs.append((tag, 1))

    def stop(self) -> None:
        """Until the last frame is there."""
        self._stop_it.set()
        self.join()


class Client:
    """A primary client that loads two programs in turns."""

    def __init__(self, stub: Any) -> None:
        self._stub = stub
        self.schema, self._other = (
            P4Schema(COMPILED / f"{name}.p4info.txtpb", COMPILED / f"{name}.json")
            for name in ("conformance", "packet_io")
        )

    async def configure(self, action: Action.Action.ValueType, *, other: bool = False) -> None:
        """SetForwardingPipelineConfig; of COMMIT without a program."""
        config = None if action == Action.COMMIT else (self._other if other else self.schema).get_pipeline_config()
        request = Action(device_id=FIRST_DEVICE, election_id=ELECTION_ID, action=action, config=config)
        await self._stub.SetForwardingPipelineConfig(request)

    async def enter(self, tag: int) -> None:
        """Have frames answered with a tag, which a register has as well."""
        action = P4TableAction("ProbeIngress.answer", port=2, tag=tag)
        entry = P4TableEntry(TABLE, match=P4TableMatch(key=KEY), action=action)
        cell = P4RegisterEntry(MEMORY, index=CELL, data=tag)
        updates = [
            p4r.Update(type=p4r.Update.INSERT, entity=entry.encode(self.schema)),
            p4r.Update(type=p4r.Update.MODIFY, entity=cell.encode(self.schema)),
        ]
        await self._stub.Write(p4r.WriteRequest(device_id=FIRST_DEVICE, election_id=ELECTION_ID, updates=updates))

    async def state(self) -> tuple[int, int, int]:
        """The tag of the entry, packets that have found it, and what the register has."""
        table = P4TableEntry(TABLE, counter_data=P4CounterData()).encode(self.schema)
        cell = P4RegisterEntry(MEMORY, index=CELL).encode(self.schema)
        request = p4r.ReadRequest(device_id=FIRST_DEVICE, entities=[table, cell])
        found = [entity async for answer in self._stub.Read(request) for entity in answer.entities]
        entry = next(entity.table_entry for entity in found if entity.HasField("table_entry"))
        (register,) = (entity.register_entry for entity in found if entity.HasField("register_entry"))
        (tag,) = (int.from_bytes(param.value, "big") for param in entry.action.action.params if param.param_id == 2)
        return tag, entry.counter_data.packet_count, int.from_bytes(register.data.bitstring, "big")


@pytest.mark.parametrize("commits", [60, pytest.param(1_000, marks=pytest.mark.long)])
def test_each_frame_is_of_one_program(network: Network, tmp_path: Path, commits: int) -> None:
    async def act() -> None:
        sender, receiver = Sender(network), Receiver(network)
        async with running(network, tmp_path) as switch:
            client = Client(switch.p4._stub)
            await switch.tm.configure(pb.ConfigureRequest(port=2, rate_bps=RATE_BPS, limit_packets=WAITING))
            receiver.start()
            sender.start()
            last_tag = 0
            for number in range(1, commits + 1):
                # Every third program is another one, whose packets have other headers and go nowhere.
                is_other = number % 3 == 0
                await client.configure(Action.VERIFY_AND_SAVE, other=is_other)
                if not is_other:
                    await client.enter(number)
                    # What is saved sees no packets.
                    assert await client.state() == (number, 0, number)
                    last_tag = number
                await client.configure(Action.COMMIT)
                if not is_other:
                    tag, _, cell = await client.state()
                    assert (tag, cell) == (number, number)
            sender.stop()
            await asyncio.sleep(0.2)
            receiver.stop()
            (queue,) = [queue for queue in (await switch.tm.list()).queues if queue.port == 2]
            stats = await switch.tm.port_stats()
            counted = None if commits % 3 == 0 else (await client.state())[1]
        came = next(port for port in stats.ports if port.port == 1)
        received = sum(count for _, count in receiver.runs)

        assert receiver.damaged == 0
        # In order, each of a program that was there, and of most of them some have come.
        tags = [tag for tag, _ in receiver.runs]
        assert tags == sorted(set(tags))
        assert all(tag % 3 for tag in tags) and tags[-1] <= last_tag
        assert len(tags) > commits // 3
        # Nothing is lost but what is counted.
        assert came.rx_packets + came.rx_ring_drops == sender.sent
        assert queue.flushed_packets > 0
        discards = stats.discards
        ended = received + queue.flushed_packets + queue.dropped_packets
        assert came.rx_packets == ended + discards.no_pipeline + discards.absent_port + discards.ingress
        assert discards.absent_port > 0
        if counted is not None:
            last = dict(receiver.runs).get(last_tag, 0)
            assert last <= counted <= came.rx_packets

    asyncio.run(act())
