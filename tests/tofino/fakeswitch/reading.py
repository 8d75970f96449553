# SPDX-License-Identifier: Apache-2.0
"""Reads of a fake switch's tables, in the form in which the real one answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from narrows_tofino.bfrt import bfruntime_pb2 as pb
from narrows_tofino.bfrt.schema import Table
from narrows_tofino.bfrt.values import encode_field

from fakeswitch import meters
from fakeswitch.device import Device, short
from fakeswitch.tables import ENTRY_TABLES, check_key
from fakeswitch.traffic_manager import Refused, front_panel


def entries(device: Device, table: Table, asked: pb.TableEntry, pipe: int) -> Iterator[pb.TableEntry]:
    """The entries that a read asks for.

    Raises:
        Refused: there are none, or the driver would refuse the read.
    """
    has_key = asked.WhichOneof("value") == "key"
    if table.type in ("Register", "Counter"):
        indices = [check_key(table, asked.key)[0]] if has_key else range(table.size)
        for index in indices:
            yield _cell(device, table, index, pipe, asked.table_flags.from_hw)
    elif table.type == "Wred":
        index = check_key(table, asked.key)[0]
        yield _entry(table, (index,), device.programs.meters.get((table.name, index), meters.unset(device.meter_hz)))
    elif table.type in ENTRY_TABLES:
        if not has_key and table.actions:
            default = device.default_actions[table.name]
            yield _entry(table, None, {}, next(one.id for one in table.actions if one.name == default))
        if asked.is_default_entry:
            return
        entries = device.programs.entries[table.name]
        keys = [check_key(table, asked.key)] if has_key else list(entries)
        for key in keys:
            if key not in entries:
                raise Refused("NOT_FOUND", "Object not found")
            action, values = entries[key]
            yield _entry(table, key, values, action)
    elif table.name == "$PORT":
        port = check_key(table, asked.key)[0]
        yield _entry(table, (port,), device.tm.port(port))
    elif table.name == "$PORT_STAT":
        port = check_key(table, asked.key)[0]
        if port not in device.tm.ports:
            raise Refused("INVALID_ARGUMENT", "Invalid arguments")
        yield _entry(table, (port,), device.statistics.get(port, {spec.name: 0 for spec in table.fields}))
    elif table.name == "$PORT_STR_INFO":
        name = check_key(table, asked.key)[0]
        # The board knows its cages, whether a port was added or not.
        lanes = [pipe * 128 + local for pipe in range(device.pipes) for local in range(72)]
        found = [port for port in lanes if front_panel(port) == name]
        if not found:
            raise Refused("NOT_FOUND", "Object not found")
        yield _entry(table, (name,), {"$DEV_PORT": found[0]})
    elif table.name == "$mirror.cfg":
        sid = check_key(table, asked.key)[0]
        if sid not in device.mirrors:
            raise Refused("NOT_FOUND", "Object not found")
        yield _entry(table, (sid,), device.mirrors[sid])
    elif table.name.endswith("device_configuration"):
        yield _entry(table, None, {"sku": "fake", "num_pipes": device.pipes, "num_stages": 12})
    else:
        device.check_target(table, "tableEntryGet" if has_key else "tableDefaultEntryGet", pipe)
        key = check_key(table, asked.key) if has_key else ()
        data = device.tm.read(short(table), key, device.place(table, pipe))
        yield _entry(table, key if has_key else None, data)


def _cell(device: Device, table: Table, index: int, pipe: int, from_hw: bool) -> pb.TableEntry:
    entry = pb.TableEntry(table_id=table.id)
    entry.key.fields.add(field_id=table.keys[0].id).exact.value = index.to_bytes(4, "big")
    for spec in table.fields:
        for number in device.programs.cell(table, index, spec, pipe, from_hw):
            entry.data.fields.add(field_id=spec.id).stream = number.to_bytes(spec.bytes, "big")
    return entry


def _entry(table: Table, key: tuple[Any, ...] | None, data: dict[str, Any], action: int = 0) -> pb.TableEntry:
    entry = pb.TableEntry(table_id=table.id, is_default_entry=key is None)
    for spec, part in zip(table.keys, key or (), strict=bool(key)):
        item = entry.key.fields.add(field_id=spec.id)
        if spec.match == "Ternary":
            item.ternary.value, item.ternary.mask = (n.to_bytes(spec.bytes, "big") for n in part)
        elif spec.match == "LPM":
            item.lpm.value, item.lpm.prefix_len = part[0].to_bytes(spec.bytes, "big"), part[1]
        else:
            item.exact.value = part.to_bytes(spec.bytes, "big") if spec.is_integer else part.encode()
    named = data.get("action")
    chosen = next((one for one in table.actions if one.name == named or one.id == action), None)
    if chosen is not None:
        entry.data.action_id = chosen.id
    for spec in (chosen.fields if chosen else ()) + table.fields:
        if spec.name in data:
            value = entry.data.fields.add()
            if spec.choices and not spec.repeated:
                # The driver reads back words that are no choice of its own schema: direction NONE.
                value.field_id, value.str_val = spec.id, data[spec.name]
            else:
                encode_field(table, spec, data[spec.name], value)
    return entry
