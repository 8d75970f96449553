# SPDX-License-Identifier: Apache-2.0
"""What a switch has of P4Runtime's updates once they are made, in the form in which two equal entities are the same."""

from __future__ import annotations

from collections.abc import Iterable

from finsy.proto import p4r
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message


def left_by(updates: Iterable[p4r.Update]) -> list[p4r.Entity]:
    """The table entries and clone sessions that are there after updates of an empty switch, which it has all accepted.

    Default actions, and entries that the program itself has, are left out.
    """
    left: dict[bytes, p4r.Entity] = {}
    for update in updates:
        entity = canonical(update.entity)
        if entity.HasField("direct_meter_entry"):
            meter = entity.direct_meter_entry
            if (entry := left.get(_key(p4r.Entity(table_entry=meter.table_entry)))) is not None:
                entry.table_entry.ClearField("meter_config")
                if meter.HasField("config"):
                    entry.table_entry.meter_config.CopyFrom(meter.config)
        elif update.type == p4r.Update.DELETE:
            left.pop(_key(entity), None)
        elif _is_kept(entity):
            left[_key(entity)] = entity
    return list(left.values())


def canonical(entity: p4r.Entity) -> p4r.Entity:
    """A copy as a switch reads it back: numbers without leading zeros, a key's fields in order, no counters."""
    same = p4r.Entity()
    same.CopyFrom(entity)
    _shorten(same)
    if same.HasField("table_entry"):
        same.table_entry.ClearField("counter_data")
        same.table_entry.match.sort(key=lambda field: field.field_id)
    elif same.HasField("direct_meter_entry"):
        same.direct_meter_entry.table_entry.match.sort(key=lambda field: field.field_id)
    return same


def _is_kept(entity: p4r.Entity) -> bool:
    entry = entity.table_entry
    is_entry = entity.HasField("table_entry") and entry.HasField("action") and not entry.is_default_action
    return is_entry or entity.packet_replication_engine_entry.HasField("clone_session_entry")


def _key(entity: p4r.Entity) -> bytes:
    """What tells entities apart."""
    key = p4r.Entity()
    if entity.HasField("table_entry"):
        entry = entity.table_entry
        key.table_entry.table_id, key.table_entry.priority = entry.table_id, entry.priority
        key.table_entry.is_default_action = entry.is_default_action
        key.table_entry.match.extend(entry.match)
    else:
        session = entity.packet_replication_engine_entry.clone_session_entry
        key.packet_replication_engine_entry.clone_session_entry.session_id = session.session_id
    return key.SerializeToString(deterministic=True)


def _shorten(message: Message) -> None:
    """Takes the leading zeros of all numbers, and names ports of replicas by bytes, as P4Runtime does since 1.4."""
    if isinstance(message, p4r.Replica) and message.HasField("egress_port"):
        message.port = message.egress_port.to_bytes(4, "big")
    for field, value in message.ListFields():
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            for one in (value,) if isinstance(value, Message) else value:
                _shorten(one)
        elif field.type == FieldDescriptor.TYPE_BYTES and field.name != "metadata":
            setattr(message, field.name, value.lstrip(b"\0") or b"\0")
