# SPDX-License-Identifier: Apache-2.0
"""A P4Runtime client as small as the suite can do with; it shares nothing with the control plane that it checks."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import grpc
from finsy.proto import p4i, p4r, p4r_grpc
from google.protobuf import text_format

DEVICE_ID = 1
TIMEOUT_S = 10.0
ENTRY_PRIORITY_NONE = 0
# Of `set_loss_model`.
BY_STATE = 1

# Exact and LPM keys are one value or (value, prefix length); ternary keys (value, mask), ranges (first, last).
Match = Mapping[str, int | tuple[int, int]]


@dataclass(frozen=True)
class Entry:
    """A table entry; ``priority`` matters for tables with ternary keys or ranges only, larger wins."""

    table: str
    match: Match
    action: str
    params: Mapping[str, int] = field(default_factory=dict)
    priority: int = ENTRY_PRIORITY_NONE


def encode(value: int) -> bytes:
    """Canonical P4Runtime byte string."""
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


def open_channel(address: str) -> grpc.Channel:
    """A channel to ``unix:/path`` or ``host:port``.

    Of a Unix socket gRPC would make its path the :authority, which is none, and which strict servers refuse.
    """
    options = [("grpc.default_authority", "localhost"), ("grpc.max_receive_message_length", 64 << 20)]
    channel = grpc.insecure_channel(address, options=options)
    grpc.channel_ready_future(channel).result(TIMEOUT_S)
    return channel


class Program:
    """Names of a compiled program; everything may be called by the end of its full name."""

    def __init__(self, p4info: Path) -> None:
        """Read a P4Info file in text format."""
        self.info = p4i.P4Info()
        text_format.Parse(p4info.read_text(), self.info)

    def find(self, kind: str, name: str) -> p4i.Table | p4i.Action | p4i.Register | p4i.Counter | p4i.Digest:
        """The one object of a kind (``tables``, ``registers``, ...) whose full name ends with ``name``.

        Raises:
            KeyError: none, or several.
        """
        found = [
            item
            for item in getattr(self.info, kind)
            if item.preamble.name == name or item.preamble.name.endswith("." + name)
        ]
        if len(found) != 1:
            raise KeyError(f"{name}: {len(found)} of this name among {kind}")
        return found[0]  # type: ignore[no-any-return]

    def table_entry(self, entry: Entry) -> p4r.TableEntry:
        """An entry in P4Runtime's terms; keys that are absent match anything."""
        table = self.find("tables", entry.table)
        assert isinstance(table, p4i.Table)
        message = p4r.TableEntry(table_id=table.preamble.id, priority=entry.priority)
        keys = {key.name: key for key in table.match_fields}
        for name, value in entry.match.items():
            match = message.match.add(field_id=keys[name].id)
            kind = keys[name].match_type
            if kind == p4i.MatchField.EXACT:
                assert isinstance(value, int)
                match.exact.value = encode(value)
                continue
            assert isinstance(value, tuple)
            if kind == p4i.MatchField.LPM:
                match.lpm.value, match.lpm.prefix_len = encode(value[0]), value[1]
            elif kind == p4i.MatchField.RANGE:
                match.range.low, match.range.high = encode(value[0]), encode(value[1])
            else:
                match.ternary.value, match.ternary.mask = encode(value[0]), encode(value[1])
        offered = {reference.id for reference in table.action_refs}
        actions = {item.preamble.name: item for item in self.info.actions if item.preamble.id in offered}
        (action,) = [item for name, item in actions.items() if name.rpartition(".")[2] == entry.action]
        message.action.action.action_id = action.preamble.id
        for parameter in action.params:
            message.action.action.params.add(param_id=parameter.id, value=encode(entry.params[parameter.name]))
        return message


class Client:
    """Primary controller of one device."""

    def __init__(self, address: str, compiled: Path) -> None:
        """Connect to ``address`` and become primary; ``compiled`` holds narrows.json and narrows.p4info.txtpb.

        Raises:
            RuntimeError: another client is primary.
        """
        self.program = Program(compiled / "narrows.p4info.txtpb")
        self._config = (compiled / "narrows.json").read_bytes()
        self._channel = open_channel(address)
        self._stub = p4r_grpc.P4RuntimeStub(self._channel)
        self._requests: queue.SimpleQueue[p4r.StreamMessageRequest | None] = queue.SimpleQueue()
        self._digests: queue.Queue[p4r.DigestList] = queue.Queue()
        self._arbitration: queue.Queue[p4r.MasterArbitrationUpdate] = queue.Queue()
        self._sessions: set[int] = set()
        stream = self._stub.StreamChannel(iter(self._requests.get, None))
        threading.Thread(target=self._read, args=(stream,), daemon=True).start()
        arbitration = p4r.MasterArbitrationUpdate(device_id=DEVICE_ID, election_id=self.election)
        self._requests.put(p4r.StreamMessageRequest(arbitration=arbitration))
        answer = self._arbitration.get(timeout=TIMEOUT_S)
        if answer.status.code != 0:
            raise RuntimeError(f"not primary: {answer.status.message}")

    @property
    def election(self) -> p4r.Uint128:
        """The election id of the primary that this is."""
        return p4r.Uint128(low=1)

    def _read(self, stream: Iterator[p4r.StreamMessageResponse]) -> None:
        try:
            for message in stream:
                if message.HasField("arbitration"):
                    self._arbitration.put(message.arbitration)
                elif message.HasField("digest"):
                    self._digests.put(message.digest)
        except grpc.RpcError:
            return  # The switch ended, or we did.

    def close(self) -> None:
        """End the session."""
        self._requests.put(None)
        self._channel.close()

    def push(self) -> None:
        """Load the program afresh: no entries, every register and counter 0."""
        for session in sorted(self._sessions):
            self.remove_mirror(session)
        request = p4r.SetForwardingPipelineConfigRequest(
            device_id=DEVICE_ID,
            election_id=self.election,
            action=p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT,
        )
        request.config.p4info.CopyFrom(self.program.info)
        request.config.p4_device_config = self._config
        request.config.cookie.cookie = 1
        self._stub.SetForwardingPipelineConfig(request, timeout=TIMEOUT_S)
        while not self._digests.empty():
            self._digests.get()

    def _write(self, kind: p4r.Update.Type.ValueType, entities: Iterable[p4r.Entity]) -> None:
        request = p4r.WriteRequest(device_id=DEVICE_ID, election_id=self.election)
        request.updates.extend(p4r.Update(type=kind, entity=entity) for entity in entities)
        self._stub.Write(request, timeout=TIMEOUT_S)

    def _read_entities(self, entities: Iterable[p4r.Entity]) -> list[p4r.Entity]:
        request = p4r.ReadRequest(device_id=DEVICE_ID)
        request.entities.extend(entities)
        return [entity for answer in self._stub.Read(request, timeout=TIMEOUT_S) for entity in answer.entities]

    def insert(self, *entries: Entry) -> None:
        """Add table entries."""
        self._write(p4r.Update.INSERT, (p4r.Entity(table_entry=self.program.table_entry(e)) for e in entries))

    def modify(self, *entries: Entry) -> None:
        """Change what existing entries do."""
        self._write(p4r.Update.MODIFY, (p4r.Entity(table_entry=self.program.table_entry(e)) for e in entries))

    def delete(self, *entries: Entry) -> None:
        """Remove table entries."""
        self._write(p4r.Update.DELETE, (p4r.Entity(table_entry=self.program.table_entry(e)) for e in entries))

    def lose_by_state(self, bottleneck: int, *states: tuple[int, int]) -> None:
        """Lose frames of a bottleneck as its good and its bad state say; see `targets.base.Control`."""
        self.insert(
            Entry("loss", {"bottleneck": bottleneck}, "set_loss_model", {"model": BY_STATE}),
            *(
                Entry(
                    "loss_states",
                    {"bottleneck": bottleneck, "is_bad": is_bad},
                    "set_chances",
                    {"loss": loss, "leave": leave},
                )
                for is_bad, (loss, leave) in enumerate(states)
            ),
        )

    def _mirror(self, session: int, port: int) -> p4r.Entity:
        entity = p4r.Entity()
        clone = entity.packet_replication_engine_entry.clone_session_entry
        clone.session_id = session
        clone.replicas.add(egress_port=port, instance=1)
        return entity

    def add_mirror(self, session: int, port: int) -> None:
        """Let copies of a mirror session leave by a port."""
        self._write(p4r.Update.INSERT, [self._mirror(session, port)])
        self._sessions.add(session)

    def remove_mirror(self, session: int) -> None:
        """Remove a mirror session."""
        entity = p4r.Entity()
        entity.packet_replication_engine_entry.clone_session_entry.session_id = session
        self._write(p4r.Update.DELETE, [entity])
        self._sessions.discard(session)

    def read_counters(self, name: str, indexes: Iterable[int]) -> list[tuple[int, int]]:
        """(packets, bytes) of cells of a counter array."""
        number = self.program.find("counters", name).preamble.id
        answers = self._read_entities(
            p4r.Entity(counter_entry=p4r.CounterEntry(counter_id=number, index=p4r.Index(index=index)))
            for index in indexes
        )
        return [(a.counter_entry.data.packet_count, a.counter_entry.data.byte_count) for a in answers]

    def _register(self, name: str, index: int) -> p4r.RegisterEntry:
        number = self.program.find("registers", name).preamble.id
        return p4r.RegisterEntry(register_id=number, index=p4r.Index(index=index))

    def read_register(self, name: str, index: int) -> int:
        """One register cell."""
        (answer,) = self._read_entities([p4r.Entity(register_entry=self._register(name, index))])
        return int.from_bytes(answer.register_entry.data.bitstring, "big")

    def write_register(self, name: str, index: int, value: int) -> None:
        """Set one register cell."""
        entry = self._register(name, index)
        entry.data.bitstring = encode(value)
        self._write(p4r.Update.MODIFY, [p4r.Entity(register_entry=entry)])

    def enable_digest(self, name: str) -> None:
        """Ask for every message of a digest at once."""
        entry = p4r.DigestEntry(digest_id=self.program.find("digests", name).preamble.id)
        entry.config.max_list_size = 1
        self._write(p4r.Update.INSERT, [p4r.Entity(digest_entry=entry)])

    def digests(self, count: int, wait_s: float) -> list[list[int]]:
        """At most ``count`` digest messages, each a list of members, that arrive within ``wait_s`` of each other."""
        messages: list[list[int]] = []
        while len(messages) < count:
            try:
                batch = self._digests.get(timeout=wait_s)
            except queue.Empty:
                break
            messages += [[int.from_bytes(one.bitstring, "big") for one in data.struct.members] for data in batch.data]
            ack = p4r.DigestListAck(digest_id=batch.digest_id, list_id=batch.list_id)
            self._requests.put(p4r.StreamMessageRequest(digest_ack=ack))
        return messages
