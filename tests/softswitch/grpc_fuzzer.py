# SPDX-License-Identifier: Apache-2.0
"""Hostile messages for the softswitch's gRPC services: requests that would be right, changed at random.

Most cases change fields (numbers at their bounds, long strings, parts many times over, fields taken away), the others
change bytes of the encoded message. They are sent as they are, whatever they decode to.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from finsy import P4Schema
from finsy.proto import p4r as p4runtime_messages
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from narrows.switch import traffic_manager_pb2 as pb

# Without its types: what is made here is wrong on purpose.
p4r: Any = p4runtime_messages

TIMEOUT_S = 20.0
P4RUNTIME, TRAFFIC_MANAGER = "/p4.v1.P4Runtime/", "/narrows.v1.TrafficManager/"
OPTIONS = [("grpc.default_authority", "localhost"), ("grpc.max_receive_message_length", 64 << 20)]
# Answers that a server at work does not give: it is gone, took too long, or a handler of it failed.
BROKEN = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED}
INTEGERS = (0, 1, -1, 2, 7, 255, 256, 511, 512, 4096, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1)
SIGNED_32 = (FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_SINT32, FieldDescriptor.TYPE_ENUM)
SIGNED_64 = (FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_SINT64)
# No hostile client can become the primary in place of the right one.
HIGHEST_ID = {"high": 2**64 - 1, "low": 2**64 - 1}
MAX_PARTS = 40
MAX_REPLIES = 100


def seeds(compiled: Path) -> list[tuple[str, Message]]:
    """Requests of every kind, most of which the switch would carry out."""
    config = P4Schema(compiled / "narrows.p4info.txtpb", compiled / "narrows.json").get_pipeline_config()
    primary = p4r.Uint128(**HIGHEST_ID)
    entities: list[Message] = []
    for table in config.p4info.tables:
        ranked = any(key.match_type in (key.TERNARY, key.RANGE) for key in table.match_fields)
        entry = p4r.TableEntry(table_id=table.preamble.id, priority=int(ranked), metadata=b"m")
        for key in table.match_fields:
            match = entry.match.add(field_id=key.id)
            width = (key.bitwidth + 7) // 8
            match.exact.value = bytes(width)
            if key.match_type == key.TERNARY:
                match.ternary.value, match.ternary.mask = b"\1", b"\1"
            elif key.match_type == key.RANGE:
                match.range.low, match.range.high = b"\1", b"\2"
        action = next(one for one in config.p4info.actions if one.preamble.id == table.action_refs[0].id)
        entry.action.action.action_id = action.preamble.id
        for parameter in action.params:
            entry.action.action.params.add(param_id=parameter.id, value=b"\1")
        entities.append(p4r.Entity(table_entry=entry))
    # One of those that are refused, as no table has a counter of its own.
    entities.append(p4r.Entity(direct_counter_entry=p4r.DirectCounterEntry(table_entry=entry)))
    for number in (counter.preamble.id for counter in config.p4info.counters):
        data = p4r.CounterData(byte_count=1, packet_count=1)
        one = p4r.CounterEntry(counter_id=number, index=p4r.Index(index=1), data=data)
        entities += [p4r.Entity(counter_entry=one), p4r.Entity(counter_entry=p4r.CounterEntry(counter_id=number))]
    for number in (register.preamble.id for register in config.p4info.registers):
        entities.append(p4r.Entity(register_entry={"register_id": number, "data": {"bitstring": b"\1"}}))
    session = p4r.CloneSessionEntry(session_id=1, packet_length_bytes=128)
    session.replicas.add(port=b"\3", instance=1)
    replication = p4r.PacketReplicationEngineEntry(clone_session_entry=session)
    entities.append(p4r.Entity(packet_replication_engine_entry=replication))
    for digest in config.p4info.digests:
        timing = p4r.DigestEntry.Config(max_timeout_ns=1, max_list_size=1, ack_timeout_ns=1)
        entities.append(p4r.Entity(digest_entry=p4r.DigestEntry(digest_id=digest.preamble.id, config=timing)))
    for kind in ("meter_entry", "direct_meter_entry", "action_profile_member", "value_set_entry", "extern_entry"):
        entities.append(p4r.Entity(**{kind: {}}))
    found: list[tuple[str, Message]] = []
    for kind in (p4r.Update.INSERT, p4r.Update.MODIFY, p4r.Update.DELETE):
        for entity in entities:
            update = p4r.Update(type=kind, entity=entity)
            found.append((P4RUNTIME + "Write", p4r.WriteRequest(device_id=1, election_id=primary, updates=[update])))
    found.append((P4RUNTIME + "Write", p4r.WriteRequest(device_id=1, election_id=primary,
                  updates=[p4r.Update(type=p4r.Update.INSERT, entity=entity) for entity in entities])))  # fmt: skip
    found += [(P4RUNTIME + "Read", p4r.ReadRequest(device_id=1, entities=[entity])) for entity in entities]
    everything = [p4r.Entity(table_entry=p4r.TableEntry()), p4r.Entity(counter_entry=p4r.CounterEntry())]
    found.append((P4RUNTIME + "Read", p4r.ReadRequest(device_id=1, entities=everything)))
    pipeline = p4r.SetForwardingPipelineConfigRequest
    for action in (pipeline.VERIFY, pipeline.VERIFY_AND_SAVE, pipeline.VERIFY_AND_COMMIT, pipeline.COMMIT):
        request = pipeline(device_id=1, election_id=primary, action=action, config=config)
        found.append((P4RUNTIME + "SetForwardingPipelineConfig", request))
    get = p4r.GetForwardingPipelineConfigRequest(device_id=1)
    found += [(P4RUNTIME + "GetForwardingPipelineConfig", get), (P4RUNTIME + "Capabilities", p4r.CapabilitiesRequest())]
    arbitration = p4r.MasterArbitrationUpdate(device_id=1, election_id=p4r.Uint128(low=7), role={"name": "other"})
    packet = p4r.PacketOut(payload=b"frame")
    for message in ({"arbitration": arbitration}, {"packet": packet}, {"digest_ack": {"digest_id": 1, "list_id": 1}}):
        found.append((P4RUNTIME + "StreamChannel", p4r.StreamMessageRequest(**message)))
    for queue in range(3):
        setting = pb.ConfigureRequest(port=1, queue=queue, rate_bps=10**9, limit_bytes=10**6, delay_ns=10**6)
        setting.election_id.high, setting.election_id.low = HIGHEST_ID.values()
        found.append((TRAFFIC_MANAGER + "Configure", setting))
    found.append((TRAFFIC_MANAGER + "FlowDrops", pb.FlowDropsRequest(port=1)))
    found += [(TRAFFIC_MANAGER + "List", pb.ListRequest()), (TRAFFIC_MANAGER + "PortStats", pb.PortStatsRequest())]
    return found


def parts(message: Message, found: list[Message] | None = None) -> list[Message]:
    """A message and all messages in it, up to a limit."""
    found = [] if found is None else found
    found.append(message)
    for descriptor, value in message.ListFields():
        if descriptor.message_type is None or len(found) >= MAX_PARTS:
            continue
        for inner in value if hasattr(value, "__len__") else [value]:
            if len(found) < MAX_PARTS:
                parts(inner, found)
    return found


def integer(chance: random.Random, descriptor: FieldDescriptor) -> int:
    """A number that the field can hold, most often one at a bound."""
    value = chance.choice(INTEGERS) if chance.random() < 0.8 else chance.getrandbits(chance.randint(1, 64))
    if descriptor.type in SIGNED_32:
        return (value + 2**31) % 2**32 - 2**31
    if descriptor.type in SIGNED_64:
        return (value + 2**63) % 2**64 - 2**63
    bits = 64 if descriptor.type in (FieldDescriptor.TYPE_UINT64, FieldDescriptor.TYPE_FIXED64) else 32
    return value & ((1 << bits) - 1)


def scalar(chance: random.Random, descriptor: FieldDescriptor) -> Any:
    """A value for a field that holds no message."""
    if descriptor.type == FieldDescriptor.TYPE_BOOL:
        return chance.random() < 0.5
    if descriptor.type == FieldDescriptor.TYPE_STRING:
        return chance.choice(["", "x", "\u202e\0", "type.googleapis.com/x", "x" * chance.choice([300, 70_000])])
    if descriptor.type == FieldDescriptor.TYPE_BYTES:
        return chance.randbytes(chance.choice([0, 1, 2, 4, 16, 17, 300, 100_000]))
    if descriptor.type in (FieldDescriptor.TYPE_DOUBLE, FieldDescriptor.TYPE_FLOAT):
        return chance.choice([0.0, -1.0, float("inf"), float("nan")])
    return integer(chance, descriptor)


def change_fields(chance: random.Random, message: Message) -> None:
    """Change some fields of a message, or of one within it."""
    for _ in range(chance.randint(1, 3)):
        target = chance.choice(parts(message))
        descriptors = target.DESCRIPTOR.fields
        if not descriptors:
            continue
        descriptor = chance.choice(descriptors)
        if chance.random() < 0.15:
            target.ClearField(descriptor.name)
        elif descriptor.is_repeated if hasattr(descriptor, "is_repeated") else descriptor.label == 3:
            values = getattr(target, descriptor.name)
            if descriptor.message_type is None:
                values.append(scalar(chance, descriptor))
            elif len(values) and chance.random() < 0.7:
                values.extend([chance.choice(list(values))] * chance.choice([1, 2, 600]))
            else:
                values.add()
        elif descriptor.message_type is None:
            setattr(target, descriptor.name, scalar(chance, descriptor))
        else:
            getattr(target, descriptor.name).SetInParent()


def change_bytes(chance: random.Random, encoded: bytes, other: bytes) -> bytes:
    """Turn, insert, remove or exchange some bytes."""
    data = bytearray(encoded)
    for _ in range(chance.randint(1, 6)):
        at = chance.randint(0, len(data))
        match chance.randint(0, 4):
            case 0 if at < len(data):
                data[at] ^= 1 << chance.randint(0, 7)
            case 1:
                data[at:at] = chance.randbytes(chance.randint(1, 9))
            case 2:
                del data[at : at + chance.choice([1, 2, 8, 100])]
            case 3:
                cut = chance.randint(0, len(other))
                data[at : at + 30] = other[cut : cut + 60]
            case _:
                data[at:at] = b"\xff" * chance.randint(1, 12)
    return bytes(data)


@dataclass
class Findings:
    """How many cases of each method ended with which status, and what was wrong."""

    statuses: Counter[tuple[str, str]] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    @property
    def cases(self) -> int:
        """All of them."""
        return sum(self.statuses.values())


def fuzz(address: str, compiled: Path, cases: int, seed: int) -> Findings:
    """Send hostile messages, one after the other, and now and then a right one, which must be carried out.

    Args:
        address: of a switch that has no primary yet.
        compiled: where the program and its P4Info are.
        cases: how many.
        seed: of all that is random here.
    """
    chance = random.Random(seed)
    right = seeds(compiled)
    pipeline = next(message for path, message in right if path.endswith("SetForwardingPipelineConfig")
                    and message.action == message.VERIFY_AND_COMMIT)  # type: ignore[attr-defined]  # fmt: skip
    findings = Findings()
    with grpc.insecure_channel(address, options=OPTIONS) as channel:
        arbitration = p4r.StreamMessageRequest(arbitration={"device_id": 1, "election_id": HIGHEST_ID})
        held = _stream(channel, [arbitration.SerializeToString()], keep_open=True)
        next(held)
        for number in range(cases):
            if number % 250 == 0:
                _send(channel, P4RUNTIME + "SetForwardingPipelineConfig", pipeline.SerializeToString())
            path, message = chance.choice(right)
            changed = type(message)()
            changed.CopyFrom(message)
            if chance.random() < 0.7:
                change_fields(chance, changed)
                if "election_id" in message.DESCRIPTOR.fields_by_name and chance.random() < 0.9:
                    # Who is not the primary comes no further than that.
                    changed.election_id.CopyFrom(message.election_id)  # type: ignore[attr-defined]
                encoded = changed.SerializeToString()
            else:
                other = chance.choice(right)[1].SerializeToString()
                encoded = change_bytes(chance, changed.SerializeToString(), other)
            try:
                _send(channel, path, encoded)
                status = "OK"
            except grpc.RpcError as error:
                status = error.code().name
                if error.code() in BROKEN:
                    findings.faults.append(f"case {number}, {path}: {status}: {error.details()}: {encoded[:200]!r}")
                    if len(findings.faults) > 5:
                        break
            findings.statuses[path.rpartition("/")[2], status] += 1
        # After all that it does what is right, on the data path too.
        _send(channel, P4RUNTIME + "SetForwardingPipelineConfig", pipeline.SerializeToString())
        for path, message in right:
            if path.startswith(TRAFFIC_MANAGER):
                _send(channel, path, message.SerializeToString())
        held.cancel()
    return findings


def _send(channel: Any, path: str, encoded: bytes) -> None:
    if path.endswith("/StreamChannel"):
        for _ in _stream(channel, [encoded] * 3):
            pass
    elif path.endswith("/Read"):
        # A request can ask for the same large array again and again: who has seen enough goes away.
        call = channel.unary_stream(path)(encoded, timeout=TIMEOUT_S)
        for number, _ in enumerate(call):
            if number == MAX_REPLIES:
                call.cancel()
                break
    else:
        channel.unary_unary(path)(encoded, timeout=TIMEOUT_S)


def _stream(channel: Any, messages: list[bytes], keep_open: bool = False) -> Any:
    import threading

    def requests() -> Any:
        yield from messages
        if keep_open:
            threading.Event().wait()

    call = channel.stream_stream(P4RUNTIME + "StreamChannel")
    return call(requests(), timeout=None if keep_open else TIMEOUT_S)
