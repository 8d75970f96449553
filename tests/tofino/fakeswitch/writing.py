# SPDX-License-Identifier: Apache-2.0
"""Writes to a fake switch's tables: every key, field, type, width, action, target and operation is checked."""

from __future__ import annotations

from typing import Any

from narrows_tofino.bfrt import bfruntime_pb2 as pb
from narrows_tofino.bfrt.schema import Table

from fakeswitch import meters
from fakeswitch.device import Device, short
from fakeswitch.tables import ENTRY_TABLES, check_data, check_key, named
from fakeswitch.traffic_manager import Refused

NAMES = {pb.Update.INSERT: "tableEntryAdd", pb.Update.MODIFY: "tableEntryMod", pb.Update.DELETE: "tableEntryDel"}
DEFAULTS = {pb.Update.MODIFY: "tableDefaultEntrySet", pb.Update.DELETE: "tableDefaultEntryReset"}
SERVICED = (*ENTRY_TABLES, "Register", "Counter", "Wred")


def write(device: Device, table: Table, kind: Any, entry: pb.TableEntry, pipe: int) -> None:
    """Carry one write out.

    Raises:
        Refused: the driver would refuse it.
    """
    with device.lock:
        try:
            if table.type in SERVICED:
                _program(device, table, kind, entry)
            elif table.name == "$PORT":
                _port(device, table, kind, entry)
            elif table.name == "$mirror.cfg":
                _mirror(device, table, kind, entry)
            else:
                _fixed(device, table, kind, entry, pipe)
        except Refused as refused:
            raise Refused(refused.code, named(table, str(refused))) from None


def _fixed(device: Device, table: Table, kind: Any, entry: pb.TableEntry, pipe: int) -> None:
    has_key = entry.WhichOneof("value") == "key"
    if entry.is_default_entry and kind == pb.Update.INSERT:
        raise Refused("UNIMPLEMENTED", "INSERT of default entry is not supported. Please use MODIFY instead")
    api = (NAMES if has_key else DEFAULTS).get(kind, "")
    device.check_target(table, api, pipe)
    key = check_key(table, entry.key) if has_key else ()
    action, values = check_data(table, entry.data, complete=False)
    if kind == pb.Update.DELETE:
        device.tm.settings.pop((short(table), key, device.place(table, pipe)), None)
        return
    if action is not None:
        values["action"] = action.name
    device.tm.modify(short(table), key, device.place(table, pipe), values)


def _port(device: Device, table: Table, kind: Any, entry: pb.TableEntry) -> None:
    port = check_key(table, entry.key)[0]
    _, values = check_data(table, entry.data, complete=False)
    if kind == pb.Update.INSERT:
        device.tm.add_port(port, values)
    elif kind == pb.Update.MODIFY:
        device.tm.modify_port(port, values)
    else:
        device.tm.delete_port(port)


def _mirror(device: Device, table: Table, kind: Any, entry: pb.TableEntry) -> None:
    sid = check_key(table, entry.key)[0]
    if not 1 <= sid <= (1015 if device.chip == "tofino" else 255):
        raise Refused("INVALID_ARGUMENT", "Invalid arguments")
    if kind == pb.Update.DELETE:
        if device.mirrors.pop(sid, None) is None:
            raise Refused("INVALID_ARGUMENT", "Table Entry delete failed Invalid arguments")
        return
    action, values = check_data(table, entry.data, complete=False)
    if kind == pb.Update.INSERT and sid in device.mirrors:
        raise Refused("INVALID_ARGUMENT", "Table Add failed Invalid arguments")
    if kind == pb.Update.MODIFY and sid not in device.mirrors:
        raise Refused("INVALID_ARGUMENT", "Table Entry modify failed Invalid arguments")
    assert action is not None
    # What is not named is reset, also in a session that is there.
    device.mirrors[sid] = {**{spec.name: _zero(spec) for spec in table.fields}, **values, "action": action.name}


def _program(device: Device, table: Table, kind: Any, entry: pb.TableEntry) -> None:
    if kind == pb.Update.DELETE and entry.WhichOneof("value") is None and not entry.is_default_entry:
        device.programs.clear(table)
        return
    if table.type == "Wred":
        _, values = check_data(table, entry.data, complete=False)
        device.programs.meters[table.name, check_key(table, entry.key)[0]] = meters.kept(values, device.meter_hz)
        return
    if table.type not in ENTRY_TABLES:
        index = check_key(table, entry.key)[0]
        _, values = check_data(table, entry.data, complete=False)
        for pipe in range(device.pipes):
            device.programs.hardware[table.name, index, pipe].update(values)
        return
    if entry.is_default_entry:
        raise Refused("UNIMPLEMENTED", "const default action Operation not supported")
    entries = device.programs.entries[table.name]
    key = check_key(table, entry.key)
    if kind == pb.Update.DELETE:
        if entries.pop(key, None) is None:
            raise Refused("NOT_FOUND", "Table Entry delete failed Object not found")
        return
    action, values = check_data(table, entry.data, complete=True)
    if kind == pb.Update.INSERT:
        if key in entries:
            raise Refused("ALREADY_EXISTS", "Table Add failed Already exists")
        if len(entries) >= table.size:
            raise Refused("RESOURCE_EXHAUSTED", "Table Add failed Not enough space")
    elif key not in entries:
        raise Refused("NOT_FOUND", "Table Entry modify failed Object not found")
    entries[key] = (0 if action is None else action.id, values)


def _zero(spec: Any) -> Any:
    if spec.name == "$direction":
        return "NONE"
    if spec.choices:
        return spec.choices[0]
    return False if spec.type == "bool" else 0
