# SPDX-License-Identifier: Apache-2.0
"""Controllers and collectors as they are: what they send over gRPC, and what they take of the answers, nothing more.

The P4 tutorials' controller is in no registry, and Telegraf in none that tests install from; these clients make the
same requests. p4runtime-shell and finsy have tests of their own, and so has Telegraf where it is installed.
"""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from finsy.proto import p4i, p4r, p4r_grpc
from google.protobuf import text_format
from harness import BINARY, COMPILED, ROOT

pytestmark = [pytest.mark.needs("narrows-softswitch"), pytest.mark.parallel_safe]

PROGRAMS = Path(__file__).parent / "p4" / "compiled"
PRIMARY = p4r.Uint128(high=0, low=1)
MESSAGE_BYTES = 1 << 20
SESSIONS = "packet_replication_engine_entry { clone_session_entry { } }"


def varint(number: int) -> bytes:
    """A number as protobuf writes it."""
    head = bytes([number & 0x7F | (0x80 if number > 0x7F else 0)])
    return head + varint(number >> 7) if number > 0x7F else head


class Controller:
    """One session that never names a role, as the tutorials' controller has it."""

    def __init__(self, address: str, election_id: Any = PRIMARY) -> None:
        """Open a channel and become the primary."""
        self._election_id = election_id
        self.channel = grpc.insecure_channel(address)
        self.stub: Any = p4r_grpc.P4RuntimeStub(self.channel)
        self._ended = threading.Event()
        stream: Any = self.stub.StreamChannel(self._requests())
        self._stream = stream
        assert next(self._stream).arbitration.status.code == 0

    def _requests(self) -> Iterator[Any]:
        update = p4r.MasterArbitrationUpdate(device_id=1, election_id=self._election_id)
        yield p4r.StreamMessageRequest(arbitration=update)
        self._ended.wait()

    def load(self, info: str, config: bytes) -> None:
        """SetForwardingPipelineConfig."""
        request = p4r.SetForwardingPipelineConfigRequest(
            device_id=1, election_id=self._election_id, action=p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT
        )
        text_format.Merge(info, request.config.p4info)
        request.config.p4_device_config = config
        self.stub.SetForwardingPipelineConfig(request)

    def write(self, kind: str, entity: str) -> None:
        """One update, its entity in protobuf's text form."""
        update = p4r.Update(type=p4r.Update.Type.Value(kind))
        text_format.Merge(entity, update.entity)
        self.stub.Write(p4r.WriteRequest(device_id=1, election_id=self._election_id, updates=[update]))

    def read(self, entity: str) -> list[Any]:
        """Messages that answer a Read of one entity."""
        request = p4r.ReadRequest(device_id=1)
        text_format.Merge(entity, request.entities.add())
        return list(self.stub.Read(request))

    def entries(self, entity: str) -> list[Any]:
        """Table entries that a Read finds."""
        return [found.table_entry for message in self.read(entity) for found in message.entities]

    def close(self) -> None:
        """End the session."""
        self._ended.set()
        self.channel.close()


@pytest.fixture
def address() -> Iterator[str]:
    """A softswitch without a pipeline and without interfaces."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{found.getsockname()[1]}"
    command = [str(BINARY), "serve", "--grpc", address, "--loopback", "1", "--loopback", "2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            yield address
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(10) == 0


@pytest.fixture
def controller(address: str) -> Iterator[Controller]:
    """The primary."""
    opened = Controller(address)
    try:
        yield opened
    finally:
        opened.close()


def artifacts(folder: Path, program: str) -> tuple[str, bytes]:
    """P4Info and BMv2 JSON."""
    return (folder / f"{program}.p4info.txtpb").read_text(), (folder / f"{program}.json").read_bytes()


def p4info(text: str) -> Any:
    """A P4Info of its text form."""
    return text_format.Parse(text, p4i.P4Info())


def identifier(info: Any, kind: str, suffix: str) -> int:
    """The id of the object of a kind whose name ends so."""
    found: int = next(o.preamble.id for o in getattr(info, kind) if o.preamble.name.endswith(suffix))
    return found


def test_telegraf_gets_every_counter_of_the_first_message_that_it_waits_for(
    address: str, controller: Controller
) -> None:
    """Telegraf asks for the P4Info, then for each counter with a Read of which it receives one message."""
    controller.load(*artifacts(PROGRAMS, "conformance"))
    info = p4info(artifacts(PROGRAMS, "conformance")[0])
    probes = identifier(info, "counters", "probes")
    cell = f"counter_entry {{ counter_id: {probes} index {{ index: 3 }} data {{ packet_count: 5 byte_count: 700 }} }}"
    controller.write("MODIFY", cell)

    telegraf: Any = p4r_grpc.P4RuntimeStub(grpc.insecure_channel(address))
    asked = p4r.GetForwardingPipelineConfigRequest(
        device_id=1, response_type=p4r.GetForwardingPipelineConfigRequest.P4INFO_AND_COOKIE
    )
    counters = telegraf.GetForwardingPipelineConfig(asked).config.p4info.counters
    assert [counter.preamble.name for counter in counters] == ["ProbeIngress.probes"]
    for counter in counters:
        request = p4r.ReadRequest(device_id=1)
        request.entities.add().counter_entry.counter_id = counter.preamble.id
        first = next(telegraf.Read(request))
        found = {e.counter_entry.index.index: e.counter_entry.data for e in first.entities}
        assert sorted(found) == list(range(counter.size))
        assert (found[3].packet_count, found[3].byte_count) == (5, 700)
        assert sum(data.packet_count for data in found.values()) == 5


def test_answers_fill_messages(controller: Controller) -> None:
    """A large counter comes in as few messages as there can be: up to 1 MiB each, none of them empty."""
    info, config = artifacts(COMPILED, "narrows")
    controller.load(info, config)
    counter = max(p4info(info).counters, key=lambda counter: counter.size)
    messages = controller.read(f"counter_entry {{ counter_id: {counter.preamble.id} }}")
    cells = [found.counter_entry.index.index for message in messages for found in message.entities]
    assert cells == list(range(counter.size)) and counter.size > 4096
    longest = max(found.ByteSize() for found in messages[0].entities)
    # Each entity is in its message behind a tag and a length: two bytes.
    full = [sum(found.ByteSize() for found in message.entities) for message in messages]
    assert all(MESSAGE_BYTES - longest < size <= MESSAGE_BYTES for size in full[:-1]) and full[-1] > 0
    # Nothing at all is one message without entities.
    assert [len(message.entities) for message in controller.read(SESSIONS)] == [0]


def test_the_tutorials_controller_loads_its_program_in_its_wrapper(controller: Controller) -> None:
    """p4runtime_lib sends the JSON in `p4.tmp.P4DeviceConfig`, values in as many bytes as their fields have."""
    info, config = artifacts(PROGRAMS, "conformance")
    controller.load(info, b"\x08\x01\x1a" + varint(len(config)) + config)
    table = identifier(p4info(info), "tables", "lpm_table")
    action = identifier(p4info(info), "actions", ".answer")
    params = r'params { param_id: 1 value: "\000\002" } params { param_id: 2 value: "\000\007" }'
    entry = (
        f'table_entry {{ table_id: {table} match {{ field_id: 1 lpm {{ value: "\\012\\000\\000\\000" prefix_len: 8 }}'
        f" }} action {{ action {{ action_id: {action} {params} }} }} }}"
    )
    controller.write("INSERT", entry)
    everything = controller.entries("table_entry { }")
    assert [found.table_id for found in everything if not found.is_const] == [table]
    probes = identifier(p4info(info), "counters", "probes")
    one = controller.read(f"counter_entry {{ counter_id: {probes} index {{ index: 2 }} }}")
    assert [found.counter_entry.index.index for message in one for found in message.entities] == [2]
    # What was sent is what comes back.
    asked = p4r.GetForwardingPipelineConfigRequest(
        device_id=1, response_type=p4r.GetForwardingPipelineConfigRequest.ALL
    )
    assert controller.stub.GetForwardingPipelineConfig(asked).config.p4_device_config.endswith(config)


@pytest.mark.parametrize("broken", [b"\x08\x01", b"\x1a\x05{}", b"\x08\x01\x1a\x02no"])
def test_a_wrapper_without_a_program_is_refused(controller: Controller, broken: bytes) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        controller.load(artifacts(PROGRAMS, "conformance")[0], broken)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "p4_device_config" in (caught.value.details() or "")


def test_entries_keep_what_controllers_store_with_them_and_are_found_by_it(controller: Controller) -> None:
    """`metadata` and `controller_metadata` of entries and of the default one; Reads filter by both."""
    info = p4info(artifacts(PROGRAMS, "conformance")[0])
    controller.load(*artifacts(PROGRAMS, "conformance"))
    table, action = identifier(info, "tables", "exact_table"), identifier(info, "actions", ".answer")
    chosen = f'action {{ action {{ action_id: {action} params {{ param_id: 1 value: "\\002" }} '
    chosen += 'params { param_id: 2 value: "\\007" } } }'
    for key, stored in (("\\001", 'metadata: "a"'), ("\\002", 'metadata: "b"'), ("\\003", "controller_metadata: 9")):
        match = f'match {{ field_id: 1 exact {{ value: "{key}" }} }}'
        controller.write("INSERT", f"table_entry {{ table_id: {table} {match} {chosen} {stored} }}")

    def found(wanted: str) -> list[Any]:
        return [entry.match[0].exact.value for entry in controller.entries(f"table_entry {{ {wanted} }}")]

    assert found(f"table_id: {table}") == [b"\x01", b"\x02", b"\x03"]
    assert found(f'table_id: {table} metadata: "b"') == [b"\x02"]
    assert found('metadata: "a"') == [b"\x01"]
    assert found(f"table_id: {table} controller_metadata: 9") == [b"\x03"]
    assert found(f'table_id: {table} metadata: "c"') == []


def test_the_default_entry_keeps_what_its_controller_stored(controller: Controller) -> None:
    info = p4info(artifacts(PROGRAMS, "conformance")[0])
    controller.load(*artifacts(PROGRAMS, "conformance"))
    table = identifier(info, "tables", "ternary_table")
    action = identifier(info, "actions", ".unmatched")
    default = f"table_id: {table} is_default_action: true"
    given = f'action {{ action {{ action_id: {action} params {{ param_id: 1 value: "\\005" }} }} }}'

    def read(wanted: str = "") -> list[tuple[bytes, int]]:
        entries = controller.entries(f"table_entry {{ {default} {wanted} }}")
        return [(entry.metadata, entry.controller_metadata) for entry in entries]

    controller.write("MODIFY", f'table_entry {{ {default} {given} metadata: "mine" controller_metadata: 4 }}')
    assert read() == [(b"mine", 4)]
    assert (read('metadata: "mine"'), read('metadata: "other"')) == ([(b"mine", 4)], [])
    # Without an action it is the program's own again, of which nothing was said.
    controller.write("MODIFY", f"table_entry {{ {default} }}")
    assert read() == [(b"", 0)]


def test_multicast_groups_are_set_read_and_removed(controller: Controller) -> None:
    controller.load(*artifacts(PROGRAMS, "conformance"))

    def group(number: int, *ports: int) -> str:
        replicas = " ".join(f'replicas {{ port: "\\{port:03o}" instance: 7 }}' for port in ports)
        entry = f"multicast_group_entry {{ multicast_group_id: {number} {replicas} }}"
        return f"packet_replication_engine_entry {{ {entry} }}"

    def ports(number: int) -> list[bytes]:
        (found,) = [entity for message in controller.read(group(number)) for entity in message.entities]
        entry = found.packet_replication_engine_entry.multicast_group_entry
        return [replica.port for replica in entry.replicas]

    controller.write("INSERT", group(9, 1, 2))
    assert ports(9) == [b"\x01", b"\x02"]
    controller.write("MODIFY", group(9, 3))
    assert ports(9) == [b"\x03"]
    for kind, wrong in (("INSERT", group(9)), ("MODIFY", group(8)), ("DELETE", group(8)), ("INSERT", group(0))):
        with pytest.raises(grpc.RpcError):
            controller.write(kind, wrong)
    controller.write("DELETE", group(9))
    with pytest.raises(grpc.RpcError, match="no multicast group 9"):
        controller.entries(group(9))


def test_programs_need_not_say_their_version(controller: Controller) -> None:
    """As on BMv2; another version than 2 is refused."""
    info, config = artifacts(PROGRAMS, "conformance")
    program = json.loads(config)
    del program["__meta__"]
    controller.load(info, json.dumps(program).encode())
    program["__meta__"] = {"version": [3, 0]}
    with pytest.raises(grpc.RpcError, match="version 3"):
        controller.load(info, json.dumps(program).encode())


def test_the_example_for_telegraf_asks_a_switch_as_it_is_started() -> None:
    """deploy/telegraf.conf is read as Telegraf reads it, and names counters that the program has."""
    given = tomllib.loads((ROOT / "deploy/telegraf.conf").read_text())["inputs"]["p4runtime"]
    info = p4info(artifacts(COMPILED, "narrows")[0])
    assert [source["device_id"] for source in given] == [1]
    assert set(given[0]["counter_names_include"]) <= {counter.preamble.name for counter in info.counters}
