# SPDX-License-Identifier: Apache-2.0
"""Entries of a P4 program in the form of the P4 tutorials (``sX-runtime.json``).

It is JSON with ``table_entries``, ``clone_session_entries`` and ``multicast_group_entries``; tables, actions and fields
have the names that P4Info has.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from finsy.proto import p4i, p4r
from narrows_formats import bounded_json
from narrows_formats.suggestion import suggestion

from narrows.switch.entry_ports import PORT_BITS
from narrows.switch.entry_values import BadEntry, add_match, canonical, number

_SPACE = re.compile(r"[ \t\r\n]*")
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


class BadPlace(Exception):
    """What is wrong, and where in the text: behind so many characters."""

    def __init__(self, at: int, problem: str) -> None:
        """Both as the attribute ``at`` and the message have them."""
        super().__init__(problem)
        self.at = at


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
            raise BadEntry(f"{self.kind} '{name}' is not in P4Info{suggestion(str(name), full)}")
        return self.by_name[name]


class TutorialEntries:
    """A file in the form of the P4 tutorials, whose names are those of a program's P4Info."""

    def __init__(self, text: str, info: p4i.P4Info) -> None:
        """Nothing is read before `updates`."""
        self._text = text
        self._tables = _Names.of("table", info.tables)
        self._actions = _Names.of("action", info.actions)

    def updates(self) -> Iterator[tuple[int, p4r.Update]]:
        """All entries, each with its place in the text: what others refer to first.

        Raises:
            NotJsonError: it is not JSON.
            BadPlace: it is not such a file.
        """
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
                        raise BadEntry("is not an object")
                    if unknown := [name for name in entry if name not in _KEYS[key]]:
                        raise BadEntry(f"has '{unknown[0]}'; allowed: {', '.join(_KEYS[key])}")
                    yield at, make(entry)
                except BadEntry as error:
                    raise BadPlace(at, f"{key}: {error}") from None

    def _lists(self) -> Iterator[tuple[str, list[tuple[int, Any]]]]:
        """Each list of the file by its name, every element with its place in the text."""
        decoder = json.JSONDecoder()
        whole = bounded_json.parse(self._text)
        if not isinstance(whole, dict):
            raise BadPlace(0, "is not an object; allowed: one with table_entries")
        at = self._after("{", 0)
        for key, value in whole.items():
            start = self._skip(at)
            _, end = decoder.raw_decode(self._text, start)
            if key not in _KEYS:
                raise BadPlace(start, f"has '{key}'; allowed: {', '.join(_KEYS)}")
            at = self._skip(self._after(":", end))
            if _KEYS[key]:
                yield key, self._elements(decoder, at, key, value)
            elif key == "target" and value != "bmv2":
                raise BadPlace(start, f"is for the target '{value}'; allowed: bmv2, whose programs are of v1model")
            _, end = decoder.raw_decode(self._text, at)
            at = self._after(",}", end)

    def _elements(self, decoder: json.JSONDecoder, at: int, key: str, value: object) -> list[tuple[int, Any]]:
        if not isinstance(value, list):
            raise BadPlace(at, f"{key} is not a list")
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
            raise BadEntry("match is not an object")
        is_default = given.get("default_action") is True
        if is_default and match:
            raise BadEntry(f"{table.preamble.name}: is the default action, and has a match; allowed: one of them")
        fields = {field.name: field for field in table.match_fields}
        for name in match:
            if name not in fields:
                raise BadEntry(f"{table.preamble.name} has no key '{name}'{suggestion(name, fields)}")
        for name, field in fields.items():
            if name in match:
                add_match(entry, field, match[name])
            elif field.match_type == p4i.MatchField.EXACT and not is_default:
                raise BadEntry(f"{table.preamble.name}: the key '{name}' is missing; it is matched exactly")
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
            raise BadEntry(f"{table.preamble.name}: priority {priority}; allowed: {allowed}")
        entry.priority = priority

    def _add_action(self, entry: p4r.TableEntry, table: p4i.Table, given: dict[str, object]) -> None:
        if table.implementation_id:
            raise BadEntry(
                f"{table.preamble.name}: its actions are in an action profile, which this form does not have; allowed: "
                "a P4Runtime WriteRequest as text"
            )
        action = self._actions[given.get("action_name")]
        if action.preamble.id not in {ref.id for ref in table.action_refs}:
            raise BadEntry(f"{table.preamble.name} has no action '{action.preamble.name}'")
        params = given.get("action_params") or {}
        names = [param.name for param in action.params]
        if not isinstance(params, dict):
            raise BadEntry("action_params is not an object")
        if sorted(params) != sorted(names):
            have = ", ".join(params) or "none"
            raise BadEntry(f"{action.preamble.name}: has the parameters {have}; allowed: {', '.join(names) or 'none'}")
        call = entry.action.action
        call.action_id = action.preamble.id
        for param in action.params:
            value = number(params[param.name], param.bitwidth, param.name)
            call.params.add(param_id=param.id, value=canonical(value))

    def _clone_session(self, given: dict[str, object]) -> p4r.Update:
        entity = p4r.Entity()
        session = entity.packet_replication_engine_entry.clone_session_entry
        session.session_id = number(given.get("clone_session_id"), 32, "clone_session_id")
        session.packet_length_bytes = number(given.get("packet_length_bytes", 0), 31, "packet_length_bytes")
        self._add_replicas(session.replicas, given)
        return p4r.Update(type=p4r.Update.INSERT, entity=entity)

    def _multicast_group(self, given: dict[str, object]) -> p4r.Update:
        entity = p4r.Entity()
        group = entity.packet_replication_engine_entry.multicast_group_entry
        group.multicast_group_id = number(given.get("multicast_group_id"), 32, "multicast_group_id")
        self._add_replicas(group.replicas, given)
        return p4r.Update(type=p4r.Update.INSERT, entity=entity)

    def _add_replicas(self, replicas: Any, given: dict[str, object]) -> None:
        found = given.get("replicas")
        if not isinstance(found, list) or not all(isinstance(one, dict) and "egress_port" in one for one in found):
            raise BadEntry("replicas is not a list of objects with egress_port, and instance if it is not 0")
        for one in found:
            if unknown := [name for name in one if name not in _REPLICA]:
                raise BadEntry(f"a replica has '{unknown[0]}'; allowed: {', '.join(_REPLICA)}")
            port = number(one["egress_port"], PORT_BITS, "egress_port")
            replicas.add(port=canonical(port), instance=number(one.get("instance", 0), 16, "instance"))
