# SPDX-License-Identifier: Apache-2.0
"""Both clients against the fake switch: ours always, the SDE's where it is installed."""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from fakeswitch.faults import Fault, abort, refuse, stall
from fakeswitch.fixtures import KINDS, PIPE, RECEIVER_PORT, client, kind, switch
from fakeswitch.server import PROGRAM, FakeSwitch
from narrows_tofino.bfrt import bfruntime_pb2 as pb
from narrows_tofino.bfrt import sde_module
from narrows_tofino.bfrt.client import ALL_PIPES, Client, Endpoint, Operation
from narrows_tofino.bfrt.connect import connect
from narrows_tofino.bfrt.errors import BfrtError, ConnectionLost, SchemaError, SwitchRefused
from narrows_tofino.bfrt.own_client import SERVICE
from narrows_tofino.bfrt.values import Data, Key, Lpm, Ternary

__all__ = ["client", "kind", "switch"]

PORT: Data = {"$SPEED": "BF_SPEED_100G", "$FEC": "BF_FEC_TYP_REED_SOLOMON", "$PORT_ENABLE": True}


@pytest.mark.needs("sde")
def test_the_sde_s_client_runs_these_tests_too() -> None:
    assert KINDS == ("own", "sde")


def test_ids_come_from_the_served_schema(client: Client, switch: FakeSwitch) -> None:
    table = client.schema.table("$mirror.cfg")
    wanted = {"tofino": 23, "tofino2": 32}[switch.chip]
    assert table.field("$max_pkt_len", "$normal").id == wanted
    data: Data = {"$session_enable": True, "$ucast_egress_port": 5, "$max_pkt_len": 118}
    client.write(Operation.INSERT, table, {"$sid": 7}, data, "$normal")
    assert switch.mirrors[7]["$max_pkt_len"] == 118
    assert client.read(table, {"$sid": 7}).data["$ucast_egress_port"] == 5


def test_a_table_entry_goes_there_and_back(client: Client) -> None:
    table = client.schema.table("cross_connect")
    mac = Ternary(0x020000000001, (1 << 48) - 1)
    key: Key = {"ingress_port": Ternary(5, 0x1FF), "dst_mac": mac, "$MATCH_PRIORITY": 9}
    client.write(Operation.INSERT, table, key, {"index": 3, "port": 7, "queue": 0}, "bottleneck")
    entry = client.read(table, key)
    assert entry.action is not None and entry.action.endswith(".bottleneck")
    assert entry.data == {"index": 3, "port": 7, "queue": 0}
    everything = client.read_all(table)
    assert len(everything) == 1 and everything[0].key["ingress_port"] == Ternary(5, 0x1FF)
    client.write(Operation.MODIFY, table, key, {"port": 8}, "wire")
    assert client.read(table, key).data == {"port": 8}
    client.write(Operation.DELETE, table, key)
    assert client.find(table, key) is None


def test_prefixes_go_there_and_back(client: Client) -> None:
    table = client.schema.table("delay_bins")
    key: Key = {"queue_delay": Lpm(0x40, 26)}
    client.write(Operation.INSERT, table, key, {"bin": 20}, "set_bin")
    assert client.read(table, key).data == {"bin": 20}
    assert client.read_all(table)[0].key == key


def test_many_are_looked_for_at_once(client: Client) -> None:
    table = client.schema.table("delay_bins")
    keys: list[Key] = [{"queue_delay": Lpm(number << 10, 22)} for number in range(60)]
    for number, key in enumerate(keys):
        if number % 7:
            client.write(Operation.INSERT, table, key, {"bin": number}, "set_bin")
    found = client.find_each(table, keys)
    assert [entry and entry.data["bin"] for entry in found] == [number if number % 7 else None for number in range(60)]


def test_default_entries_and_pipes(client: Client, switch: FakeSwitch) -> None:
    table = client.schema.table("tm.pipe.sched_cfg")
    client.write(Operation.MODIFY, table, None, {"packet_ifg_compensation": 0}, pipe=2)
    assert client.read_default(table, pipe=2).data["packet_ifg_compensation"] == 0
    assert client.read_default(table, pipe=1).data["packet_ifg_compensation"] == 20
    with pytest.raises(SwitchRefused) as refused:
        client.read_default(table)
    assert refused.value.codes == {"INVALID_ARGUMENT"}


def test_arrays_names_and_flags(client: Client) -> None:
    table = client.schema.table("tm.port.cfg")
    entry = client.read(table, {"dev_port": RECEIVER_PORT})
    queues = entry.data["egress_qid_queues"]
    assert isinstance(queues, list) and queues[:3] == [0, 1, 2]
    assert entry.data["copy_to_cpu"] is False
    pool = client.read(client.schema.table("tm.pool.cfg"), {"pool": "EG_APP_POOL_3"})
    assert pool.data["size_cells"] == 12_288


@pytest.mark.long
def test_a_register_has_a_number_for_each_pipe(client: Client, switch: FakeSwitch) -> None:
    table = client.schema.part("flow_arrivals", "Register")
    for pipe in (0, 3):
        switch.programs.add(table.name, 5, pipe, table.fields[0].name, 10 + pipe)
    name = table.fields[0].name
    assert client.read(table, {"$REGISTER_INDEX": 5}).data[name] == [10, 0, 0, 13]
    assert client.read(table, {"$REGISTER_INDEX": 5}, pipe=3).data[name] in (13, [13])
    client.execute(table, "Sync")
    everything = client.read_all(table, from_hw=False)
    assert len(everything) == table.size
    assert everything[5].data[name] == [10, 0, 0, 13]


def test_clear_zeroes_all_cells(client: Client, switch: FakeSwitch) -> None:
    table = client.schema.part("flow_arrivals", "Register")
    switch.programs.add(table.name, 5, 0, table.fields[0].name, 10)
    client.clear(table)
    assert client.read(table, {"$REGISTER_INDEX": 5}).data[table.fields[0].name] == [0, 0, 0, 0]


def test_digests_come_with_their_pipe_and_are_not_acknowledged(client: Client, switch: FakeSwitch) -> None:
    switch.send_digest(pipe=2, bottleneck=1, index=77, signature=0xDEADBEEF)
    found = client.digests(2.0)
    assert [(one.pipe, one.data["index"], one.data["signature"]) for one in found] == [(2, 77, 0xDEADBEEF)]
    assert client.digests(0.0) == []
    assert switch.digest_acks == 0 and client.alive()


def test_an_error_names_table_key_and_reason(client: Client, switch: FakeSwitch) -> None:
    switch.tm.unmapped.add((0, 0, PIPE))
    table = client.schema.table("tm.queue.buffer")
    with pytest.raises(SwitchRefused, match=r"tm\.queue\.buffer \[pg_id=0, pg_queue=0\] \(pipe 1\).*UNAVAILABLE"):
        client.read(table, {"pg_id": 0, "pg_queue": 0}, pipe=PIPE)


def test_two_clients_cannot_own_one_program(client: Client, switch: FakeSwitch) -> None:
    for number, one in enumerate(("own", client.kind), start=2):
        with pytest.raises(ConnectionLost, match="bound to another BF Runtime client"):
            connect(Endpoint(switch.address, PROGRAM, client_id=number, timeout_s=3), prefer=(one,))


def test_a_closed_session_frees_the_program(client: Client, switch: FakeSwitch) -> None:
    client.close()
    deadline = time.monotonic() + 5
    while switch.bound and time.monotonic() < deadline:
        time.sleep(0.02)
    connect(Endpoint(switch.address, PROGRAM, client_id=2, timeout_s=3), prefer=("own",)).close()


def test_one_session_follows_another_at_once(own: Client, switch: FakeSwitch) -> None:
    """The id is the same, so that the switch must have let go of the first."""
    switch.release_s = 0.2
    own.close()
    connect(Endpoint(switch.address, PROGRAM), ("own",)).close()


def test_the_end_of_the_stream_is_noticed(client: Client, switch: FakeSwitch) -> None:
    switch.end_sessions()
    deadline = time.monotonic() + 5
    while client.alive() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not client.alive()
    with pytest.raises(ConnectionLost):
        client.read(client.schema.table("tm.port.cfg"), {"dev_port": 1})


@pytest.fixture
def own(switch: FakeSwitch) -> Iterator[Client]:
    one = connect(Endpoint(switch.address, PROGRAM, timeout_s=2), prefer=("own",))
    yield one
    one.close()


def test_values_that_do_not_fit_never_leave_us(own: Client, switch: FakeSwitch) -> None:
    table = own.schema.table("tm.queue.buffer")
    before = len(switch.requests)
    with pytest.raises(SchemaError, match=r"dynamic_baf cannot be '42%'; allowed: 1.5%, 3%"):
        own.write(Operation.MODIFY, table, {"pg_id": 0, "pg_queue": 0}, {"dynamic_baf": "42%"}, "shared_pool", pipe=1)
    with pytest.raises(SchemaError, match=r"pg_id cannot be 256; allowed: 0\.\.255"):
        own.read(table, {"pg_id": 256, "pg_queue": 0}, pipe=1)
    with pytest.raises(SchemaError, match="the key lacks pg_queue"):
        own.read(table, {"pg_id": 1}, pipe=1)
    with pytest.raises(SchemaError, match="no action 'sharedpool'; it has: shared_pool, buffer_only"):
        own.write(Operation.MODIFY, table, {"pg_id": 0, "pg_queue": 0}, {}, "sharedpool", pipe=1)
    with pytest.raises(SchemaError, match=r"serves no table 'tm.queue.bufer'"):
        own.schema.table("tm.queue.bufer")
    assert len(switch.requests) == before


def test_a_busy_switch_is_asked_again(own: Client, switch: FakeSwitch) -> None:
    switch.faults.append(Fault("read", refuse("UNAVAILABLE", "Failed to acquire read lock In use"), times=2))
    assert own.read(own.schema.table("tm.port.cfg"), {"dev_port": 1}).data["pg_id"] == 0


def test_an_answer_that_does_not_come_is_not_waited_for_for_ever(own: Client, switch: FakeSwitch) -> None:
    switch.faults.append(Fault("read", stall(4)))
    with pytest.raises(ConnectionLost, match="DEADLINE_EXCEEDED"):
        own.read(own.schema.table("tm.port.cfg"), {"dev_port": 1})


def test_a_broken_call_is_a_lost_connection(own: Client, switch: FakeSwitch) -> None:
    switch.faults.append(Fault("write", abort()))
    with pytest.raises(ConnectionLost, match="UNAVAILABLE"):
        own.write(Operation.INSERT, own.schema.table("$PORT"), {"$DEV_PORT": 1}, PORT)


def test_no_switch_there() -> None:
    with pytest.raises(ConnectionLost, match=r"switch 127\.0\.0\.1:1: "):
        connect(Endpoint("127.0.0.1:1", PROGRAM, timeout_s=3), prefer=("own",))


def test_program_not_loaded(switch: FakeSwitch) -> None:
    with pytest.raises(ConnectionLost, match="cannot bind to program 'basic': NOT_FOUND"):
        connect(Endpoint(switch.address, "basic", timeout_s=3), prefer=("own",))


def test_a_refused_subscription(switch: FakeSwitch) -> None:
    one = connect(Endpoint(switch.address, PROGRAM, timeout_s=3), prefer=("own",))
    with pytest.raises(ConnectionLost, match="the subscription is refused: client id is taken"):
        connect(Endpoint(switch.address, PROGRAM, timeout_s=3), prefer=("own",))
    one.close()


def test_a_schema_that_is_no_json(switch: FakeSwitch) -> None:
    switch.documents = (b"{", switch.documents[1])
    with pytest.raises(BfrtError, match="is not JSON"):
        connect(Endpoint(switch.address, PROGRAM, timeout_s=3), prefer=("own",))


def test_messages_are_those_of_the_real_protocol() -> None:
    """Bytes written by hand from the documented field numbers."""
    entry = pb.TableEntry(table_id=1, is_default_entry=True, table_flags=pb.TableFlags(from_hw=True))
    assert entry.SerializeToString() == bytes([0x08, 1, 0x20, 1, 0x4A, 2, 0x08, 1])
    target = pb.TargetDevice(device_id=0, pipe_id=ALL_PIPES, direction=0xFF, prsr_id=0xFF)
    assert target.SerializeToString() == bytes([0x10, 0xFF, 0xFF, 3, 0x18, 0xFF, 1, 0x20, 0xFF, 1])
    data = pb.DataField(field_id=2, bool_val=True)
    assert data.SerializeToString() == bytes([0x08, 2, 0x40, 1])
    update = pb.Update(type=pb.Update.DELETE, entity=pb.Entity(table_operation=pb.TableOperation(table_id=3)))
    assert update.SerializeToString() == bytes([0x08, 4, 0x12, 4, 0x22, 2, 0x08, 3])
    request = pb.SetForwardingPipelineConfigRequest(config=[pb.ForwardingPipelineConfig(p4_name="p")])
    assert request.SerializeToString() == bytes([0x32, 3, 0x0A, 1, ord("p")])
    assert SERVICE == "/bfrt_proto.BfRuntime/"
    assert grpc.StatusCode.UNKNOWN.value[0] == 2


@pytest.mark.needs("sde")
def test_our_messages_are_those_of_the_sde() -> None:
    sde_module.load()
    theirs = importlib.import_module("bfrt_grpc.bfruntime_pb2").DESCRIPTOR
    compared = 0
    for name, ours in pb.DESCRIPTOR.message_types_by_name.items():
        # google.rpc.Status is part of our file.
        if name != "Status":
            compared += compare(ours, theirs.message_types_by_name[name])
    assert compared > 60


def compare(ours: Any, theirs: Any) -> int:
    """Compare a message and all in it field by field; returns how many fields there were."""
    for field in ours.fields:
        other = theirs.fields_by_number[field.number]
        assert (field.name, field.type, field.is_repeated) == (other.name, other.type, other.is_repeated), (
            ours.full_name
        )
    for kind_of in ours.enum_types:
        values = {value.name: value.number for value in theirs.enum_types_by_name[kind_of.name].values}
        assert {value.name: value.number for value in kind_of.values}.items() <= values.items()
    nested = sum(compare(message, theirs.nested_types_by_name[message.name]) for message in ours.nested_types)
    return len(ours.fields) + nested
