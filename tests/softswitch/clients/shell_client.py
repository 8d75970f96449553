# SPDX-License-Identifier: Apache-2.0
"""Drives a switch with p4runtime-shell. Runs in an environment of its own: see p4runtime-shell.txt."""

from __future__ import annotations

import contextlib
import io
import queue
from typing import Any

import client_common
import grpc
from client_common import Names, Refused, number
from google.protobuf import text_format
from google.rpc import code_pb2, status_pb2
from p4.v1 import p4runtime_pb2 as p4
from p4runtime_sh import shell
from p4runtime_sh.p4runtime import P4RuntimeClient, P4RuntimeException, P4RuntimeWriteException

WAIT_S = 5


def code_name(code: int) -> str:
    """Name of a canonical code."""
    return str(code_pb2.Code.Name(code))


def refused(error: Exception) -> Refused:
    """What the shell's exceptions, and gRPC's, hold."""
    if isinstance(error, P4RuntimeWriteException):
        updates = [(index, code_name(found.canonical_code), found.message) for index, found in error.errors]
        return Refused("UNKNOWN", str(error), updates)
    if isinstance(error, P4RuntimeException):
        error = error.grpc_error
    assert isinstance(error, grpc.RpcError)
    status = status_pb2.Status()
    metadata: Any = error.trailing_metadata()
    for key, value in metadata:
        if key == "grpc-status-details-bin":
            status.ParseFromString(value)
    updates = []
    for index, detail in enumerate(status.details):
        found = p4.Error()
        detail.Unpack(found)
        if found.canonical_code != code_pb2.OK:
            updates.append((index, code_name(found.canonical_code), found.message))
    return Refused(error.code().name, error.details() or "", updates)


def match_text(match: list[Any]) -> str:
    """A key field as one types it into the shell."""
    kind, *values = match
    return {"lpm": "{}/{}", "ternary": "{} &&& {}", "range": "{}..{}"}.get(kind, "{}").format(*values)


def table_entry(given: dict[str, Any]) -> Any:
    """A table entry as a user of the shell makes it."""
    entry = shell.TableEntry(given["table"])
    if given.get("action"):
        entry.action = shell.Action(given["action"])
        for name, value in given.get("params", {}).items():
            entry.action[name] = str(value)
    for name, match in given.get("match", {}).items():
        entry.match[name] = match_text(match)
    if given.get("priority"):
        entry.priority = given["priority"]
    if given.get("default"):
        entry.is_default = True
    return entry


class Driver:
    """One client."""

    def __init__(self, address: str) -> None:
        """Take the switch's address; nothing is sent."""
        self.address = address
        self.names: Names | None = None

    def handle(self, request: dict[str, Any]) -> Any:
        """Do what a request says."""
        try:
            return getattr(self, request.pop("do"))(**request)
        except (P4RuntimeWriteException, P4RuntimeException, grpc.RpcError) as error:
            raise refused(error) from error

    def connect(self, election_id: int, program: str | None = None, role: str | None = None) -> bool:
        """Open a session, and load a program; whether this client is the primary."""
        words = io.StringIO()
        with contextlib.redirect_stdout(words):
            if program is not None:
                config = shell.FwdPipeConfig(*map(str, client_common.artifacts(program)))
                shell.setup(1, self.address, (0, election_id), role, config, verbose=False)
                self._learn_names()
            else:
                shell.client = P4RuntimeClient(1, self.address, (0, election_id), role)
        return "not the primary" not in words.getvalue()

    def _learn_names(self) -> None:
        info = shell.client.get_p4info()
        shell.context.set_p4info(info)
        shell.global_options["verbose"] = False
        self.names = Names(info)

    def adopt(self) -> None:
        """Take the program that the switch has."""
        self._learn_names()

    def status(self) -> list[Any]:
        """Code and election id of the next arbitration message that comes by itself."""
        message = shell.client.get_stream_packet("arbitration", timeout=WAIT_S)
        assert message is not None, "no arbitration message came"
        return [code_name(message.arbitration.status.code), message.arbitration.election_id.low]

    def version(self) -> str:
        """The P4Runtime version that the switch tells."""
        return str(shell.APIVersion())

    def pipeline(self, action: str, program: str | None = None, device_config: str | None = None) -> None:
        """SetForwardingPipelineConfig with any action."""
        client = shell.client
        request = p4.SetForwardingPipelineConfigRequest(device_id=1, action=action)
        request.election_id.low = client.election_id[1]
        if program is not None:
            info, config = client_common.artifacts(program)
            text_format.Merge(info.read_text(), request.config.p4info)
            request.config.p4_device_config = config.read_bytes() if device_config is None else device_config.encode()
        client.stub.SetForwardingPipelineConfig(request)

    def write(self, kind: str, entry: dict[str, Any]) -> None:
        """Insert, modify or delete a table entry."""
        getattr(table_entry(entry), kind)()

    def batch(self, updates: list[tuple[str, dict[str, Any]]]) -> None:
        """Several updates in one request. The shell's own way of reading its errors never ends when some succeed."""
        request = p4.WriteRequest(device_id=1)
        request.election_id.low = shell.client.election_id[1]
        for kind, entry in updates:
            update = request.updates.add(type=kind.upper())
            update.entity.table_entry.CopyFrom(table_entry(entry).msg())
        shell.client.stub.Write(request)

    def read(self, entry: dict[str, Any], counters: bool = False) -> list[dict[str, Any]]:
        """Table entries that match one with fields left out."""
        assert self.names is not None
        wanted = table_entry(entry)
        if counters:
            # Reading the attribute asks for the counters.
            assert wanted.counter_data is not None
        return [self.names.table_entry(found.msg()) for found in wanted.read()]

    def clear(self) -> None:
        """Delete all entries, as the shell's help shows it."""
        for table in shell.P4Objects(shell.P4Type.table):
            if not table.is_const_table:
                shell.TableEntry(table.preamble.name).read(lambda found: found.delete())

    def raw_write(self, kind: str, entity: str) -> None:
        """Any entity, in protobuf's text form."""
        update = p4.Update(type=kind.upper())
        text_format.Merge(entity, update.entity)
        shell.client.write_update(update)

    def raw_read(self, entity: str) -> list[str]:
        """Any entities, in protobuf's text form."""
        wanted = p4.Entity()
        text_format.Merge(entity, wanted)
        answers = shell.client.read_one(wanted)
        return [text_format.MessageToString(found, as_one_line=True) for answer in answers for found in answer.entities]

    def counters(self, name: str, index: int | None = None) -> dict[int, list[int]]:
        """Packets and bytes by index."""
        wanted = shell.CounterEntry(name)
        if index is not None:
            wanted.index = index
        return {found.index: [found.msg().data.packet_count, found.msg().data.byte_count] for found in wanted.read()}

    def set_counter(self, name: str, index: int, packets: int, octets: int) -> None:
        """Write one cell."""
        cell = shell.CounterEntry(name)
        cell.index = index
        cell.packet_count, cell.byte_count = packets, octets
        cell.modify()

    def direct_counters(self, name: str, entry: dict[str, Any] | None = None) -> list[list[Any]]:
        """Entry, packets and bytes of each direct counter, or of an entry's."""
        assert self.names is not None
        wanted = shell.DirectCounterEntry(name)
        if entry is not None:
            wanted.table_entry = table_entry(entry)
        return [
            [self.names.table_entry(found.table_entry), found.data.packet_count, found.data.byte_count]
            for found in (answer.msg() for answer in wanted.read())
        ]

    def set_direct_counter(self, name: str, entry: dict[str, Any], packets: int) -> None:
        """Write the packets of an entry's counter."""
        counter = shell.DirectCounterEntry(name)
        counter.table_entry = table_entry(entry)
        counter.packet_count = packets
        counter.modify()

    def clone_session(self, kind: str, session: int, ports: list[int], length: int = 0) -> None:
        """Insert, modify or delete a clone session."""
        entry = shell.CloneSessionEntry(session)
        for port in ports:
            entry.add(port)
        entry.packet_length_bytes = length
        getattr(entry, kind)()

    def clone_sessions(self) -> list[list[Any]]:
        """Number, ports and length of each clone session."""
        found = shell.CloneSessionEntry().read()
        return [[s.session_id, [r.egress_port for r in s.replicas], s.packet_length_bytes] for s in found]

    def digest(self, kind: str, name: str, size: int = 0, wait_ns: int = 0, ack_ns: int = 0) -> None:
        """Insert, modify or delete a digest's configuration."""
        entry = shell.DigestEntry(name)
        entry.max_list_size, entry.max_timeout_ns, entry.ack_timeout_ns = size, wait_ns, ack_ns
        getattr(entry, kind)()

    def next_digest(self, name: str, wait_s: float) -> list[Any] | None:
        """Number and records of the next list, or nothing for so long."""
        try:
            message = shell.client.stream_in_q["digest"].get(timeout=wait_s)
        except queue.Empty:
            return None
        self._digest_id = message.digest.digest_id
        records = [[number(member.bitstring) for member in data.struct.members] for data in message.digest.data]
        return [message.digest.list_id, records]

    def acknowledge(self, list_id: int) -> None:
        """Acknowledge a list."""
        request = p4.StreamMessageRequest()
        request.digest_ack.digest_id, request.digest_ack.list_id = self._digest_id, list_id
        shell.client.stream_out_q.put(request)


if __name__ == "__main__":
    client_common.serve(lambda address: Driver(address).handle)
