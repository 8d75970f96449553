# SPDX-License-Identifier: Apache-2.0
"""Entries of the program's tables, registers and counters, and the checks that every request passes."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from narrows_tofino.bfrt import bfruntime_pb2 as pb
from narrows_tofino.bfrt.schema import Action, Field, Table

from fakeswitch.traffic_manager import ALL_PIPES, Refused

# Types of tables whose entries come and go.
ENTRY_TABLES = ("MatchAction_Direct", "PortMetadata")
# What the driver says of each code, at the end of its messages.
ENDINGS = ("Invalid arguments", "Object not found", "Already exists", "Not enough space", "Operation not supported",
           "Not ready")  # fmt: skip
ARRAYS = {"int_arr_val", "bool_arr_val", "str_arr_val"}


@dataclass
class Programs:
    """What the P4 program's tables, registers and counters hold."""

    pipes: int
    entries: dict[str, dict[tuple[Any, ...], tuple[int, dict[str, Any]]]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    hardware: dict[tuple[str, int, int], dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    shadow: dict[tuple[str, int, int], dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    meters: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)

    def sync(self, table: Table) -> None:
        """Bring the driver's copy of a register or counter up to date."""
        for place, values in self.hardware.items():
            if place[0] == table.name:
                self.shadow[place] = dict(values)

    def clear(self, table: Table) -> None:
        """Delete all entries, or zero all cells."""
        self.entries.pop(table.name, None)
        self.meters = {place: held for place, held in self.meters.items() if place[0] != table.name}
        for store in (self.hardware, self.shadow):
            for place in [place for place in store if place[0] == table.name]:
                del store[place]

    def add(self, table: str, index: int, pipe: int, name: str, amount: int, bits: int = 32) -> int:
        """What the data plane does: count."""
        values = self.hardware[table, index, pipe]
        values[name] = (values.get(name, 0) + amount) & ((1 << bits) - 1)
        return values[name]

    def cell(self, table: Table, index: int, spec: Field, pipe: int, from_hw: bool) -> list[int]:
        """One number for each pipe of a register; the sum over pipes of a counter."""
        if index >= table.size:
            raise Refused("INVALID_ARGUMENT", "Invalid arguments")
        source = self.hardware if from_hw else self.shadow
        pipes = range(self.pipes) if pipe == ALL_PIPES else [pipe]
        numbers = [source.get((table.name, index, one), {}).get(spec.name, 0) for one in pipes]
        return [sum(numbers)] if table.type == "Counter" else numbers


def named(table: Table, message: str) -> str:
    """A message of the driver with its table, in front of the words that go with its code."""
    for words in ENDINGS:
        if message.endswith(words):
            return f"{message.removesuffix(words).rstrip()} table:{table.name} {words}".lstrip()
    return message


def check_key(table: Table, key: pb.TableKey) -> tuple[Any, ...]:
    """The key as a tuple, field by field.

    Raises:
        Refused: unknown or missing field, wrong match type or width.
    """
    given = {item.field_id: item for item in key.fields}
    unknown = set(given) - {spec.id for spec in table.keys}
    if unknown:
        raise Refused("NOT_FOUND", f"Invalid key field id {unknown.pop()} Object not found")
    parts: list[Any] = []
    for spec in table.keys:
        item = given.get(spec.id)
        if item is None:
            if spec.mandatory or spec.name == "$MATCH_PRIORITY":
                raise Refused("INVALID_ARGUMENT", f"{spec.name} is missing Invalid arguments")
            parts.append((0, 0) if spec.match != "Exact" else 0)
            continue
        wanted = {"Exact": "exact", "Ternary": "ternary", "LPM": "lpm"}[spec.match]
        if item.WhichOneof("match_type") != wanted:
            raise Refused("INVALID_ARGUMENT", f"{spec.name} is not {wanted} Invalid arguments")
        if spec.match == "Exact":
            parts.append(_number(spec, item.exact.value) if spec.is_integer else _word(spec, item.exact.value))
        elif spec.match == "Ternary":
            value, mask = _number(spec, item.ternary.value), _number(spec, item.ternary.mask)
            parts.append((value & mask, mask))
        else:
            if not 0 <= item.lpm.prefix_len <= spec.bits:
                raise Refused("INVALID_ARGUMENT", f"{spec.name} prefix Invalid arguments")
            parts.append((_number(spec, item.lpm.value), item.lpm.prefix_len))
    return tuple(parts)


def check_data(table: Table, data: pb.TableData, *, complete: bool) -> tuple[Action | None, dict[str, Any]]:
    """Action and values of a write.

    Raises:
        Refused: no or unknown action, unknown, read-only or badly typed field, a choice or width that does not exist,
            or, with ``complete``, a parameter that is missing.
    """
    action: Action | None = None
    if table.actions:
        action = next((one for one in table.actions if one.id == data.action_id), None)
        if action is None:
            raise Refused("NOT_FOUND", f"{table.name} needs an action Object not found")
    specs = {spec.id: spec for spec in (action.fields if action else ()) + table.fields}
    values: dict[str, Any] = {}
    for item in data.fields:
        if item.field_id not in specs:
            raise Refused("NOT_FOUND", f"Invalid data field id {item.field_id} Object not found")
        spec = specs[item.field_id]
        if spec.read_only:
            raise Refused("INVALID_ARGUMENT", f"{spec.name} is read-only Invalid arguments")
        values[spec.name] = _value(spec, item)
        if spec.clear_only and values[spec.name] != 0:
            raise Refused("INVALID_ARGUMENT", f"{spec.name} can only be cleared Invalid arguments")
    if complete and action is not None:
        missing = [spec.name for spec in action.fields if spec.mandatory and spec.name not in values]
        if missing:
            raise Refused("INVALID_ARGUMENT", f"{missing[0]} is missing Invalid arguments")
    return action, values


def _value(spec: Field, item: pb.DataField) -> Any:
    kind = item.WhichOneof("value")
    if spec.repeated:
        if kind not in ARRAYS:
            raise Refused("INVALID_ARGUMENT", f"{spec.name} is an array Invalid arguments")
        return list(getattr(item, str(kind)).val)
    if spec.is_integer:
        if kind != "stream":
            raise Refused("INVALID_ARGUMENT", f"{spec.name} is a byte string Invalid arguments")
        return _number(spec, item.stream)
    wanted = {"bool": "bool_val", "float": "float_val", "string": "str_val"}[spec.type]
    if kind != wanted:
        raise Refused("INVALID_ARGUMENT", f"{spec.name} is a {spec.type} Invalid arguments")
    value = getattr(item, wanted)
    if spec.choices and value not in spec.choices:
        raise Refused("INVALID_ARGUMENT", f"{spec.name} has no choice {value} Invalid arguments")
    return value


def _number(spec: Field, raw: bytes) -> int:
    value = int.from_bytes(raw, "big")
    if len(raw) != spec.bytes or value >= 1 << spec.bits:
        raise Refused("INVALID_ARGUMENT", f"{spec.name} is {len(raw)} bytes, not {spec.bits} bits Invalid arguments")
    return value


def _word(spec: Field, raw: bytes) -> str:
    word = raw.decode()
    if spec.choices and word not in spec.choices:
        raise Refused("INVALID_ARGUMENT", f"{spec.name} has no choice {word} Invalid arguments")
    return word
