# SPDX-License-Identifier: Apache-2.0
"""Entries of a user's P4 program from a file: in the form of the P4 tutorials, or as P4Runtime's text protobuf.

The first is JSON with ``table_entries``, ``clone_session_entries`` and ``multicast_group_entries``; tables, actions and
fields have the names that P4Info has. The second is a ``WriteRequest``. Every error names the file, and the line where
it is known.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any, TypeVar

from finsy.proto import p4i, p4r
from google.protobuf import text_format
from google.protobuf.message import Message
from narrows_formats import bounded_json, named_file
from narrows_formats.suggestion import suggestion

_MAC = re.compile(r"(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}\Z")
_SPACE = re.compile(r"[ \t\r\n]*")
# Ports of v1model: their width, and the one that drops.
PORT_BITS, DROP_PORT = 9, 511
_TABLE_ENTRY = ("table", "match", "default_action", "action_name", "action_params", "priority")
# Kinds of match whose entries have a priority, and its largest: P4Runtime's field is an int32.
_PRIORITIZED = (p4i.MatchField.TERNARY, p4i.MatchField.RANGE, p4i.MatchField.OPTIONAL)
_MAX_PRIORITY = (1 << 31) - 1
_KEYS = {
    "target": (),
    "p4info": (),
    "bmv2_json": (),
    "table_entries": _TABLE_ENTRY,
    "clone_session_entries": ("clone_session_id", "replicas", "packet_length_bytes"),
    "multicast_group_entries": ("multicast_group_id", "replicas"),
}


_Message = TypeVar("_Message", bound=Message)


class BadEntries(Exception):
    """A file of entries that cannot be used; the message is complete."""


class _Wrong(Exception):
    """What is wrong with an entry, for `BadEntries` with its place."""


@dataclass(frozen=True)
class _Names:
    """What P4Info calls by a name: by its full name, or by its last part where that is of one only."""

    kind: str
    by_name: Mapping[str, Any]

    @classmethod
    def of(cls, kind: str, items: Iterable[Any]) -> _Names:
        found: dict[str, object] = {}
        last: dict[str, list[Any]] = {}
        for item in items:
            found[item.preamble.name] = item
            last.setdefault(item.preamble.name.rpartition(".")[2], []).append(item)
        short = {name: those[0] for name, those in last.items() if len(those) == 1}
        return cls(kind, {**short, **found})

    def __getitem__(self, name: object) -> Any:
        if not isinstance(name, str) or name not in self.by_name:
            full = sorted({item.preamble.name for item in self.by_name.values()})
            raise _Wrong(f"{self.kind} '{name}' is not in P4Info{suggestion(str(name), full)}")
        return self.by_name[name]


def read_p4info(path: Path) -> p4i.P4Info:
    """P4Info in text form.

    Raises:
        BadEntries: the file cannot be read, or is not P4Info.
    """
    return _parsed(path, _text(path), p4i.P4Info(), "P4Info as text")


def read_entries(path: Path, info: p4i.P4Info, ports: Mapping[int, str]) -> list[p4r.Update]:
    """The updates of a file, in its order, but what others refer to first.

    Args:
        path: the file; JSON if it ends in ``.json``.
        info: of the program.
        ports: what is at the ports to which entries may lead, by their numbers.

    Raises:
        BadEntries: the file is wrong.
    """
    text = _text(path)
    if path.suffix == ".json":
        updates = list(_Tutorial(path, text, info, ports).updates())
    else:
        request = _parsed(path, text, p4r.WriteRequest(), "a P4Runtime WriteRequest as text")
        updates = list(request.updates)
        tables, profiles = ({one.preamble.id for one in all_} for all_ in (info.tables, info.action_profiles))
        for number, update in enumerate(updates):
            try:
                _check_update(update, tables, profiles, ports)
            except _Wrong as error:
                raise BadEntries(f"{path}: updates[{number}]: {error}") from None
    if not updates:
        raise BadEntries(f"{path}: has no entries; allowed: one or more")
    return updates


def _text(path: Path) -> str:
    try:
        return named_file.read_text(path)
    except ValueError as error:
        raise BadEntries(f"{path}: {error}") from None


def _parsed(path: Path, text: str, message: _Message, what: str) -> _Message:
    try:
        text_format.Parse(text, message)
    except text_format.ParseError as error:
        # Without the text: the file may be one that only root can read.
        place = f":{error.GetLine()}:{error.GetColumn()}" if error.GetLine() else ""
        raise BadEntries(f"{path}{place}: is not {what}") from None
    return message


def _check_update(
    update: p4r.Update, tables: Collection[int], profiles: Collection[int], ports: Mapping[int, str]
) -> None:
    entity = update.entity
    if update.type == p4r.Update.UNSPECIFIED:
        raise _Wrong("has no type; allowed: INSERT, MODIFY, DELETE")
    if entity.HasField("table_entry") and entity.table_entry.table_id not in tables:
        raise _Wrong(f"table_id {entity.table_entry.table_id} is not in P4Info")
    for kind in ("action_profile_member", "action_profile_group"):
        if entity.HasField(kind) and (profile := getattr(entity, kind).action_profile_id) not in profiles:
            raise _Wrong(f"action_profile_id {profile} is not in P4Info")
    engine = entity.packet_replication_engine_entry
    for replica in (*engine.clone_session_entry.replicas, *engine.multicast_group_entry.replicas):
        number = int.from_bytes(replica.port, "big") if replica.port else replica.egress_port
        _check_port(number, ports)


def _check_port(number: int, ports: Mapping[int, str]) -> None:
    if number not in ports:
        given = ", ".join(f"{port} ({host})" for port, host in sorted(ports.items()))
        raise _Wrong(f"port {number}: no host is at it; allowed: {given} (ports of the program)")


class _Tutorial:
    """A file in the form of the P4 tutorials."""

    def __init__(self, path: Path, text: str, info: p4i.P4Info, ports: Mapping[int, str]) -> None:
        self._path, self._text, self._ports = path, text, ports
        self._tables = _Names.of("table", info.tables)
        self._actions = _Names.of("action", info.actions)

    def updates(self) -> Iterator[p4r.Update]:
        makers: dict[str, Callable[[dict[str, object]], p4r.Update]] = {
            "clone_session_entries": self._clone_session,
            "multicast_group_entries": self._multicast_group,
            "table_entries": self._table_entry,
        }
        lists = dict(self._lists())
        for key, make in makers.items():
            for at, entry in lists.get(key, ()):
                try:
                    if not isinstance(entry, dict):
                        raise _Wrong("is not an object")
                    if unknown := [name for name in entry if name not in _KEYS[key]]:
                        raise _Wrong(f"has '{unknown[0]}'; allowed: {', '.join(_KEYS[key])}")
                    yield make(entry)
                except _Wrong as error:
                    raise self._error(at, f"{key}: {error}") from None

    def _error(self, at: int, problem: str) -> BadEntries:
        return BadEntries(f"{self._path}:{self._text.count(chr(10), 0, at) + 1}: {problem}")

    def _lists(self) -> Iterator[tuple[str, list[tuple[int, Any]]]]:
        """Each list of the file by its name, every element with its place in the text."""
        decoder = json.JSONDecoder()
        try:
            whole = bounded_json.parse(self._text)
            if not isinstance(whole, dict):
                raise self._error(0, "is not an object; allowed: one with table_entries")
            at = self._after("{", 0)
            for key, value in whole.items():
                start = self._skip(at)
                _, end = decoder.raw_decode(self._text, start)
                if key not in _KEYS:
                    raise self._error(start, f"has '{key}'; allowed: {', '.join(_KEYS)}")
                at = self._skip(self._after(":", end))
                if _KEYS[key]:
                    yield key, self._elements(decoder, at, key, value)
                elif key == "target" and value != "bmv2":
                    raise self._error(
                        start, f"is for the target '{value}'; allowed: bmv2, whose programs are of v1model"
                    )
                _, end = decoder.raw_decode(self._text, at)
                at = self._after(",}", end)
        except bounded_json.NotJsonError as error:
            raise BadEntries(f"{self._path}{error.place}: {error}") from None

    def _elements(self, decoder: json.JSONDecoder, at: int, key: str, value: object) -> list[tuple[int, Any]]:
        if not isinstance(value, list):
            raise self._error(at, f"{key} is not a list")
        found, end = [], self._after("[", at)
        for _ in value:
            start = self._skip(end)
            element, end = decoder.raw_decode(self._text, start)
            found.append((start, element))
            end = self._after(",]", end)
        return found

    def _skip(self, at: int) -> int:
        match = _SPACE.match(self._text, at)
        return at if match is None else match.end()

    def _after(self, signs: str, at: int) -> int:
        """Behind one of these, which the decoder has seen there."""
        at = self._skip(at)
        return at + 1 if self._text[at : at + 1] in signs else at

    def _table_entry(self, given: dict[str, object]) -> p4r.Update:
        table = self._tables[given.get("table")]
        entry = p4r.TableEntry(table_id=table.preamble.id)
        match = given.get("match") or {}
        if not isinstance(match, dict):
            raise _Wrong("match is not an object")
        is_default = given.get("default_action") is True
        if is_default and match:
            raise _Wrong(f"{table.preamble.name}: is the default action, and has a match; allowed: one of them")
        fields = {field.name: field for field in table.match_fields}
        for name in match:
            if name not in fields:
                raise _Wrong(f"{table.preamble.name} has no key '{name}'{suggestion(name, fields)}")
        for name, field in fields.items():
            if name in match:
                _add_match(entry, field, match[name])
            elif field.match_type == p4i.MatchField.EXACT and not is_default:
                raise _Wrong(f"{table.preamble.name}: the key '{name}' is missing; it is matched exactly")
        self._add_priority(entry, table, given, is_default)
        self._add_action(entry, table, given)
        entry.is_default_action = is_default
        kind = p4r.Update.MODIFY if is_default else p4r.Update.INSERT
        return p4r.Update(type=kind, entity=p4r.Entity(table_entry=entry))

    def _add_priority(
        self, entry: p4r.TableEntry, table: p4i.Table, given: dict[str, object], is_default: bool
    ) -> None:
        needed = not is_default and any(field.match_type in _PRIORITIZED for field in table.match_fields)
        priority = given.get("priority", 0)
        if type(priority) is not int or not (1 <= priority <= _MAX_PRIORITY if needed else priority == 0):
            allowed = f"1 to {_MAX_PRIORITY}" if needed else "none, since no two of its entries match one packet"
            raise _Wrong(f"{table.preamble.name}: priority {priority}; allowed: {allowed}")
        entry.priority = priority

    def _add_action(self, entry: p4r.TableEntry, table: p4i.Table, given: dict[str, object]) -> None:
        if table.implementation_id:
            raise _Wrong(
                f"{table.preamble.name}: its actions are in an action profile, which this form does not have; allowed: "
                "a P4Runtime WriteRequest as text"
            )
        action = self._actions[given.get("action_name")]
        if action.preamble.id not in {ref.id for ref in table.action_refs}:
            raise _Wrong(f"{table.preamble.name} has no action '{action.preamble.name}'")
        params = given.get("action_params") or {}
        names = [param.name for param in action.params]
        if not isinstance(params, dict):
            raise _Wrong("action_params is not an object")
        if sorted(params) != sorted(names):
            have = ", ".join(params) or "none"
            raise _Wrong(f"{action.preamble.name}: has the parameters {have}; allowed: {', '.join(names) or 'none'}")
        call = entry.action.action
        call.action_id = action.preamble.id
        for param in action.params:
            value = _number(params[param.name], param.bitwidth, param.name)
            if param.bitwidth == PORT_BITS and "port" in param.name.lower() and value != DROP_PORT:
                _check_port(value, self._ports)
            call.params.add(param_id=param.id, value=_canonical(value))

    def _clone_session(self, given: dict[str, object]) -> p4r.Update:
        entity = p4r.Entity()
        session = entity.packet_replication_engine_entry.clone_session_entry
        session.session_id = _number(given.get("clone_session_id"), 32, "clone_session_id")
        session.packet_length_bytes = _number(given.get("packet_length_bytes", 0), 31, "packet_length_bytes")
        self._add_replicas(session.replicas, given)
        return p4r.Update(type=p4r.Update.INSERT, entity=entity)

    def _multicast_group(self, given: dict[str, object]) -> p4r.Update:
        entity = p4r.Entity()
        group = entity.packet_replication_engine_entry.multicast_group_entry
        group.multicast_group_id = _number(given.get("multicast_group_id"), 32, "multicast_group_id")
        self._add_replicas(group.replicas, given)
        return p4r.Update(type=p4r.Update.INSERT, entity=entity)

    def _add_replicas(self, replicas: Any, given: dict[str, object]) -> None:
        found = given.get("replicas")
        if not isinstance(found, list) or not all(isinstance(one, dict) and "egress_port" in one for one in found):
            raise _Wrong("replicas is not a list of objects with egress_port, and instance if it is not 0")
        for one in found:
            port = _number(one["egress_port"], PORT_BITS, "egress_port")
            _check_port(port, self._ports)
            replicas.add(port=_canonical(port), instance=_number(one.get("instance", 0), 16, "instance"))


def _add_match(entry: p4r.TableEntry, field: p4i.MatchField, given: object) -> None:
    """A key of an entry; one that matches anything is left out, as P4Runtime wants it."""
    kind, bits, name = field.match_type, field.bitwidth, field.name
    if kind in (p4i.MatchField.EXACT, p4i.MatchField.OPTIONAL):
        value = _canonical(_number(given, bits, name))
        if kind == p4i.MatchField.EXACT:
            entry.match.add(field_id=field.id).exact.value = value
        else:
            entry.match.add(field_id=field.id).optional.value = value
        return
    words = {
        p4i.MatchField.LPM: "address, length",
        p4i.MatchField.TERNARY: "value, mask",
        p4i.MatchField.RANGE: "low, high",
    }
    if kind not in words:
        raise _Wrong(f"key '{name}': is of a kind that such a file has no form for")
    if not isinstance(given, list) or len(given) != 2:
        raise _Wrong(f"key '{name}': is {given!r}; allowed: [{words[kind]}]")
    first = _number(given[0], bits, name)
    ones = (1 << bits) - 1
    if kind == p4i.MatchField.LPM:
        length = _number(given[1], 16, f"{name}: length")
        if length > bits:
            raise _Wrong(f"key '{name}': length {length}; allowed: 0 to {bits}")
        if length:
            lpm = entry.match.add(field_id=field.id).lpm
            lpm.value, lpm.prefix_len = _canonical(first & ones << bits - length & ones), length
        return
    second = _number(given[1], bits, name)
    if kind == p4i.MatchField.TERNARY:
        if second:
            ternary = entry.match.add(field_id=field.id).ternary
            ternary.value, ternary.mask = _canonical(first & second), _canonical(second)
    elif (first, second) != (0, ones):
        if first > second:
            raise _Wrong(f"key '{name}': from {first} to {second}; allowed: the lower one first")
        bounds = entry.match.add(field_id=field.id).range
        bounds.low, bounds.high = _canonical(first), _canonical(second)


def _number(given: object, bits: int, name: str) -> int:
    """A number, IP or Ethernet address of so many bits."""
    value = _value(given)
    if value is None or value < 0:
        raise _Wrong(f"'{name}' is {given!r}; allowed: a number, an IP address or an Ethernet address")
    if value >> bits:
        raise _Wrong(f"'{name}' is {given!r}, which does not fit into {bits} bits")
    return value


def _value(given: object) -> int | None:
    if isinstance(given, bool | int):
        return int(given)
    if not isinstance(given, str):
        return None
    if _MAC.match(given):
        return int(given.replace(":", ""), 16)
    with suppress(ValueError):
        return int(given, 0)
    with suppress(ValueError):
        return int(ip_address(given))
    return None


def _canonical(value: int) -> bytes:
    """As P4Runtime writes numbers: without leading zeros."""
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")
