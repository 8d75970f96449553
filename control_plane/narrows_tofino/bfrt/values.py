# SPDX-License-Identifier: Apache-2.0
"""Keys and data by field name, and their form on the wire.

Integers (whatever their width, MAC and IP addresses included) are Python ints, flags bools, names strings, arrays
lists. A register read over several pipes gives a list with one number for each pipe.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from narrows_tofino.bfrt import bfruntime_pb2 as pb
from narrows_tofino.bfrt.errors import SchemaError
from narrows_tofino.bfrt.schema import Field, Table


@dataclass(frozen=True)
class Ternary:
    """``value`` where ``mask`` has ones; mask 0 matches everything."""

    value: int
    mask: int


@dataclass(frozen=True)
class Lpm:
    """The first ``prefix_len`` bits of ``value``."""

    value: int
    prefix_len: int


KeyValue = int | str | Ternary | Lpm
Key = Mapping[str, KeyValue]
Value = int | bool | str | float | list[int] | list[bool] | list[str]
Data = Mapping[str, Value]


@dataclass(frozen=True)
class Entry:
    """One entry as the switch holds it."""

    key: Key
    data: Data
    action: str | None = None
    is_default: bool = False


@dataclass(frozen=True)
class DigestMessage:
    """One digest; ``pipe`` is where it comes from."""

    name: str
    pipe: int
    data: Mapping[str, int] = field(default_factory=dict)


def encode_key(table: Table, key: Key) -> pb.TableKey:
    """The wire form of a key.

    Raises:
        SchemaError: an unknown or missing field, or a value that the field cannot hold.
    """
    message = pb.TableKey()
    for name, value in key.items():
        spec = table.key(name)
        item = message.fields.add(field_id=spec.id)
        if spec.match == "Ternary":
            pattern = value if isinstance(value, Ternary) else Ternary(_int(table, spec, value), (1 << spec.bits) - 1)
            item.ternary.value = _number(table, spec, pattern.value)
            item.ternary.mask = _number(table, spec, pattern.mask)
        elif spec.match == "LPM":
            prefix = value if isinstance(value, Lpm) else Lpm(_int(table, spec, value), spec.bits)
            item.lpm.value = _number(table, spec, prefix.value)
            item.lpm.prefix_len = prefix.prefix_len
        elif isinstance(value, str):
            if spec.is_integer:
                raise _bad(table, spec, value)
            item.exact.value = value.encode()
        else:
            item.exact.value = _number(table, spec, _int(table, spec, value))
    missing = [spec.name for spec in table.keys if spec.mandatory and spec.name not in key]
    if missing:
        raise SchemaError(f"{table.name}: the key lacks {', '.join(missing)}")
    return message


def decode_key(table: Table, message: pb.TableKey) -> dict[str, KeyValue]:
    """A key from its wire form."""
    specs = {spec.id: spec for spec in table.keys}
    key: dict[str, KeyValue] = {}
    for item in message.fields:
        spec = _known(table, specs, item.field_id)
        match item.WhichOneof("match_type"):
            case "ternary":
                key[spec.name] = Ternary(_from(item.ternary.value), _from(item.ternary.mask))
            case "lpm":
                key[spec.name] = Lpm(_from(item.lpm.value), item.lpm.prefix_len)
            case _:
                key[spec.name] = _from(item.exact.value) if spec.is_integer else item.exact.value.decode()
    return key


def encode_data(table: Table, data: Data, action: str | None) -> pb.TableData:
    """The wire form of an entry's data.

    Raises:
        SchemaError: an unknown field or action, or a value that the field cannot hold.
    """
    message = pb.TableData(action_id=0 if action is None else table.action(action).id)
    for name, value in data.items():
        encode_field(table, table.field(name, action), value, message.fields.add())
    return message


def encode_field(table: Table, spec: Field, value: Value, item: pb.DataField) -> None:
    """Fill in one data field.

    Raises:
        SchemaError: a value that the field cannot hold.
    """
    item.field_id = spec.id
    if spec.repeated:
        if not isinstance(value, list):
            raise _bad(table, spec, value)
        if spec.type == "bool":
            item.bool_arr_val.val.extend(bool(one) for one in value)
        elif spec.is_integer:
            item.int_arr_val.val.extend(int(one) for one in value)
        else:
            item.str_arr_val.val.extend(str(one) for one in value)
    elif spec.type == "bool":
        if not isinstance(value, bool):
            raise _bad(table, spec, value)
        item.bool_val = value
    elif spec.type == "float":
        if not isinstance(value, int | float):
            raise _bad(table, spec, value)
        item.float_val = value
    elif spec.is_integer:
        item.stream = _number(table, spec, _int(table, spec, value))
    else:
        if not isinstance(value, str) or (spec.choices and value not in spec.choices):
            raise _bad(table, spec, value)
        item.str_val = value


def decode_data(fields: Iterable[Field], message: pb.TableData, name: str) -> dict[str, Value]:
    """Data from its wire form. A register's field comes once for each pipe and becomes a list of that many numbers."""
    specs = {spec.id: spec for spec in fields}
    data: dict[str, Value] = {}
    for item in message.fields:
        if item.field_id not in specs:
            raise SchemaError(f"{name}: the switch sent the unknown field id {item.field_id}")
        spec = specs[item.field_id]
        value = _decoded(item, spec)
        if spec.name not in data:
            data[spec.name] = value
            continue
        before = data[spec.name]
        if not isinstance(value, int):
            raise SchemaError(f"{name}: the switch sent {spec.name} twice")
        numbers: list[int] = [int(one) for one in before] if isinstance(before, list) else [_as_int(before)]
        data[spec.name] = [*numbers, int(value)]
    return data


def per_pipe(value: Value) -> list[int]:
    """A register's value as a list of one number for each pipe."""
    return [int(one) for one in value] if isinstance(value, list) else [_as_int(value)]


def _as_int(value: object) -> int:
    if not isinstance(value, int):
        raise SchemaError(f"the switch sent {value!r} where a number belongs")
    return int(value)


def _decoded(item: pb.DataField, spec: Field) -> Value:
    match item.WhichOneof("value"):
        case "stream":
            return _from(item.stream)
        case "bool_val":
            return item.bool_val
        case "float_val":
            return item.float_val
        case "str_val":
            return item.str_val
        case "int_arr_val":
            return list(item.int_arr_val.val)
        case "bool_arr_val":
            return list(item.bool_arr_val.val)
        case "str_arr_val":
            return list(item.str_arr_val.val)
        case _:
            # An empty array has no bytes on the wire.
            return [] if spec.repeated else 0


def _known(table: Table, specs: Mapping[int, Field], field_id: int) -> Field:
    if field_id not in specs:
        raise SchemaError(f"{table.name}: the switch sent the unknown key field id {field_id}")
    return specs[field_id]


def _from(raw: bytes) -> int:
    return int.from_bytes(raw, "big")


def _int(table: Table, spec: Field, value: object) -> int:
    if not isinstance(value, int):
        raise _bad(table, spec, value)
    return int(value)


def _number(table: Table, spec: Field, value: int) -> bytes:
    if not 0 <= value < 1 << spec.bits:
        raise _bad(table, spec, value)
    return value.to_bytes(spec.bytes, "big")


def _bad(table: Table, spec: Field, value: object) -> SchemaError:
    if spec.choices:
        allowed = ", ".join(spec.choices)
    elif spec.is_integer:
        allowed = f"0..{(1 << spec.bits) - 1}"
    else:
        allowed = f"a {spec.type}"
    return SchemaError(f"{table.name}: {spec.name} cannot be {value!r}; allowed: {allowed}")
