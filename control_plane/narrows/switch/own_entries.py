# SPDX-License-Identifier: Apache-2.0
"""Entries of a user's P4 program from a file: in the form of the P4 tutorials, or as P4Runtime's text protobuf.

The first is JSON with ``table_entries``, ``clone_session_entries`` and ``multicast_group_entries``; tables, actions and
fields have the names that P4Info has. The second is a ``WriteRequest``. Every error names the file, and the line of the
entry. What only a switch knows, such as how large its tables are, is not checked here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
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

from narrows.experiment.plan import FIRST_DEVICE
from narrows.switch.entry_ports import PORT_BITS, NamedPort, ports_of

_MAC = re.compile(r"(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}\Z")
_SPACE = re.compile(r"[ \t\r\n]*")
# What the structure of text protobuf is made of; comments and strings come first, since they may have the rest in them.
_TOKEN = re.compile(r"""#[^\n]*|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[{}<>]|\w+""")
_REPLICA = ("egress_port", "instance")
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


@dataclass(frozen=True)
class Entries:
    """The updates of a file in the order in which they are made, and where each begins in its text."""

    path: Path
    text: str
    updates: tuple[p4r.Update, ...]
    places: tuple[int, ...]

    def where(self, number: int) -> str:
        """File and line of the update with this number, from 0 on."""
        return f"{self.path}:{_line(self.text, self.places[number])}"

    def require_ports(self, info: p4i.P4Info, ports: Mapping[int, str]) -> None:
        """Whether something is at each port to which they lead.

        Args:
            info: of the program.
            ports: what is at the ports to which entries may lead, by their numbers.

        Raises:
            BadEntries: nothing is at one of them.
        """
        for where, port in self._elsewhere(info, ports):
            if port.is_certain:
                given = ", ".join(f"{number} ({what})" for number, what in sorted(ports.items()))
                raise BadEntries(
                    f"{where}: port {port.number}: no host is at it; allowed: {given} (ports of the program)"
                )

    def notes(self, info: p4i.P4Info, ports: Mapping[int, str]) -> Iterator[str]:
        """Parameters that may be ports at which nothing is, in one line each; arguments as `require_ports`."""
        found: dict[str, list[tuple[str, int]]] = {}
        for where, port in self._elsewhere(info, ports):
            found.setdefault(port.of, []).append((where, port.number))
        for of, places in found.items():
            where, number = places[0]
            others = len({other for _, other in places}) - 1
            more = f" (and so with {others} other numbers)" if others else ""
            yield f"{where}: parameter {of} = {number}: if that is a port, no host is at it{more}"

    def _elsewhere(self, info: p4i.P4Info, ports: Mapping[int, str]) -> Iterator[tuple[str, NamedPort]]:
        for number, update in enumerate(self.updates):
            for port in ports_of(update, info):
                if port.number not in ports:
                    yield self.where(number), port


def read_entries(path: Path, info: p4i.P4Info, device_id: int = FIRST_DEVICE) -> Entries:
    """The updates of a file, in its order, but what others refer to first.

    Args:
        path: the file; JSON if it ends in ``.json``.
        info: of the program.
        device_id: of the part of the switch that runs it.

    Raises:
        BadEntries: the file is wrong.
    """
    text = _text(path)
    if path.suffix == ".json":
        found = list(_Tutorial(path, text, info).updates())
    else:
        found = list(_in_text_form(path, text, device_id))
    if not found:
        raise BadEntries(f"{path}: has no entries; allowed: one or more")
    places, updates = zip(*found, strict=True)
    return Entries(path, text, updates, places)


def _in_text_form(path: Path, text: str, device_id: int) -> Iterator[tuple[int, p4r.Update]]:
    """The updates of a ``WriteRequest`` as text, each with its place."""
    request = _parsed(path, text, p4r.WriteRequest(), "a P4Runtime WriteRequest as text")
    fields, places = _structure(text)
    for field, value in request.ListFields():
        where = f"{path}:{_line(text, fields[field.name])}"
        if field.name == "device_id" and value != device_id:
            raise BadEntries(f"{where}: device_id {value}; allowed: {device_id}, or none")
        if field.name not in ("device_id", "updates"):
            raise BadEntries(f"{where}: has {field.name}, which is that of Narrows; allowed: updates, device_id")
    return zip(places, request.updates, strict=True)


def _structure(text: str) -> tuple[dict[str, int], list[int]]:
    """Where the fields of a message as text begin, of several of a name the first one; and where those do that are
    messages."""
    fields: dict[str, int] = {}
    messages, depth, name = [], 0, -1
    for token in _TOKEN.finditer(text):
        if token[0] in "{<":
            if depth == 0:
                # In a list only the first one is behind the name.
                messages.append(token.start() if name < 0 else name)
                name = -1
            depth += 1
        elif token[0] in "}>":
            depth -= 1
        elif depth == 0 and token[0][0] not in "#\"'":
            name = token.start()
            fields.setdefault(token[0], name)
    return fields, messages


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


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


class _Tutorial:
    """A file in the form of the P4 tutorials."""

    def __init__(self, path: Path, text: str, info: p4i.P4Info) -> None:
        self._path, self._text = path, text
        self._tables = _Names.of("table", info.tables)
        self._actions = _Names.of("action", info.actions)

    def updates(self) -> Iterator[tuple[int, p4r.Update]]:
        """All entries, each with its place in the text."""
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
                    yield at, make(entry)
                except _Wrong as error:
                    raise self._error(at, f"{key}: {error}") from None

    def _error(self, at: int, problem: str) -> BadEntries:
        return BadEntries(f"{self._path}:{_line(self._text, at)}: {problem}")

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
            if unknown := [name for name in one if name not in _REPLICA]:
                raise _Wrong(f"a replica has '{unknown[0]}'; allowed: {', '.join(_REPLICA)}")
            port = _number(one["egress_port"], PORT_BITS, "egress_port")
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
