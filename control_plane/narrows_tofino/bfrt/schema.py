# SPDX-License-Identifier: Apache-2.0
"""The tables of a switch as its own bf-rt.json describes them.

Ids are never written down in Narrows: they differ between chips, drivers and compilations, so every table, field and
action is found by name in what the switch serves.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from narrows_tofino.bfrt.errors import SchemaError

_INTEGER_BITS = {"uint8": 8, "uint16": 16, "uint32": 32, "uint64": 64, "int8": 8, "int16": 16, "int32": 32, "int64": 64}


@dataclass(frozen=True)
class Field:
    """A key or data field. ``bits`` is its width for integers and byte strings, 0 for all else."""

    id: int
    name: str
    type: str
    bits: int
    match: str = "Exact"
    choices: tuple[str, ...] = ()
    mandatory: bool = False
    read_only: bool = False
    repeated: bool = False
    clear_only: bool = False

    @property
    def bytes(self) -> int:
        """Bytes of an integer on the wire."""
        return (self.bits + 7) // 8

    @property
    def is_integer(self) -> bool:
        """Whether the value travels as a big-endian byte string."""
        return self.bits > 0


@dataclass(frozen=True)
class Action:
    """An action and its own data fields; the table's common fields are not repeated here."""

    id: int
    name: str
    fields: tuple[Field, ...]


@dataclass(frozen=True)
class Table:
    """A table; ``targets`` names, for fixed-function tables, what each operation needs to know (device, pipe)."""

    id: int
    name: str
    type: str
    size: int
    keys: tuple[Field, ...]
    fields: tuple[Field, ...]
    actions: tuple[Action, ...]
    operations: tuple[str, ...]
    targets: Mapping[str, tuple[str, ...]]

    def key(self, name: str) -> Field:
        """The key field of that name.

        Raises:
            SchemaError: there is none.
        """
        return _named(self.keys, name, f"{self.name}: no key field")

    def action(self, name: str) -> Action:
        """The action whose name is, or ends in, ``name``.

        Raises:
            SchemaError: there is none.
        """
        for action in self.actions:
            if action.name == name or action.name.endswith(f".{name}"):
                return action
        known = ", ".join(action.name for action in self.actions) or "none"
        raise SchemaError(f"{self.name}: no action '{name}'; it has: {known}")

    def data(self, action: str | None) -> tuple[Field, ...]:
        """Data fields that an entry with this action has; without an action, the common ones."""
        return self.fields if action is None else self.action(action).fields + self.fields

    def field(self, name: str, action: str | None = None) -> Field:
        """The data field of that name.

        Raises:
            SchemaError: there is none with this action.
        """
        where = self.name if action is None else f"{self.name} {action}"
        return _named(self.data(action), name, f"{where}: no data field")


@dataclass(frozen=True)
class Digest:
    """A message that the data plane sends to the control plane."""

    id: int
    name: str
    fields: tuple[Field, ...]


class Schema:
    """All tables and digests of a switch, looked up by name or by a unique part of it."""

    def __init__(self, tables: Iterable[Table], digests: Iterable[Digest]) -> None:
        """Index tables and digests by name, and digests by id."""
        self.tables = {table.name: table for table in tables}
        self.digests = {digest.name: digest for digest in digests}
        self._digests_by_id = {digest.id: digest for digest in self.digests.values()}

    @classmethod
    def parse(cls, *documents: bytes | str) -> Schema:
        """Read bf-rt.json documents: the program's and the driver's.

        Raises:
            SchemaError: not JSON, or not a bf-rt.json.
        """
        tables: list[Table] = []
        digests: list[Digest] = []
        for text in documents:
            try:
                document = json.loads(text)
            except ValueError as error:
                raise SchemaError(f"the schema of the switch is not JSON: {error}") from error
            try:
                tables += [_table(raw) for raw in document.get("tables", ())]
                digests += [_digest(raw) for raw in document.get("learn_filters", ())]
            except (KeyError, TypeError, AttributeError) as error:
                raise SchemaError(f"the schema of the switch cannot be read: {error!r}") from error
        return cls(tables, digests)

    def table(self, name: str) -> Table:
        """The table called ``name``, or the only one whose name ends in ``.name``.

        Raises:
            SchemaError: none, or more than one.
        """
        if name in self.tables:
            return self.tables[name]
        return self._only([table for table in self.tables.values() if table.name.endswith(f".{name}")], name)

    def part(self, name: str, type: str) -> Table:
        """The only table of a type with ``name`` as one of its dotted parts: ``flow_arrivals`` finds
        ``pipe.NarrowsIngress.bottleneck.flow_arrivals.totals``.

        Raises:
            SchemaError: none, or more than one.
        """
        found = [table for table in self.tables.values() if table.type == type and name in table.name.split(".")]
        return self._only(found, f"{name} ({type})")

    def _only(self, found: list[Table], name: str) -> Table:
        if len(found) == 1:
            return found[0]
        if found:
            raise SchemaError(f"'{name}' is ambiguous on this switch: {', '.join(table.name for table in found)}")
        raise SchemaError(f"the switch serves no table '{name}': is the Narrows program loaded?")

    def digest_by_id(self, digest_id: int) -> Digest:
        """The digest with an id that the switch sent.

        Raises:
            SchemaError: unknown id.
        """
        try:
            return self._digests_by_id[digest_id]
        except KeyError:
            raise SchemaError(f"the switch sent the unknown digest id {digest_id:#x}") from None


def _named(fields: Iterable[Field], name: str, problem: str) -> Field:
    known = tuple(fields)
    for field in known:
        if field.name == name:
            return field
    raise SchemaError(f"{problem} '{name}'; it has: {', '.join(field.name for field in known) or 'none'}")


def _field(raw: dict[str, Any], **more: Any) -> Field:
    kind = raw.get("type") or {"type": "container"}
    name = kind["type"]
    bits = int(kind["width"]) if name == "bytes" else _INTEGER_BITS.get(name, 0)
    return Field(
        id=int(raw["id"]),
        name=str(raw["name"]),
        type=name,
        bits=bits,
        choices=tuple(kind.get("choices", ())),
        repeated=bool(raw.get("repeated", False)),
        clear_only=any(note.get("name") == "clear_only" for note in raw.get("annotations", ())),
        **more,
    )


def _data(raws: Iterable[dict[str, Any]]) -> tuple[Field, ...]:
    """Data fields; an action's may stand bare, a table's stand in a ``singleton`` (or a ``oneof`` of choices)."""
    fields: list[Field] = []
    for raw in raws:
        alternatives = [raw["singleton"]] if "singleton" in raw else raw.get("oneof", raw.get("choices", [raw]))
        fields += [
            _field(one, mandatory=bool(raw.get("mandatory", False)), read_only=bool(raw.get("read_only", False)))
            for one in alternatives
        ]
    return tuple(fields)


def _table(raw: dict[str, Any]) -> Table:
    return Table(
        id=int(raw["id"]),
        name=str(raw["name"]),
        type=str(raw["table_type"]),
        size=int(raw.get("size", 0)),
        keys=tuple(
            _field(key, match=str(key.get("match_type", "Exact")), mandatory=bool(key.get("mandatory", False)))
            for key in raw.get("key", ())
        ),
        fields=_data(raw.get("data", ())),
        actions=tuple(
            Action(int(action["id"]), str(action["name"]), _data(action.get("data", ())))
            for action in raw.get("action_specs", ())
        ),
        operations=tuple(raw.get("supported_operations", ())),
        targets={name: tuple(api.get("target_attributes", ())) for name, api in raw.get("supported_apis", {}).items()},
    )


def _digest(raw: dict[str, Any]) -> Digest:
    return Digest(int(raw["id"]), str(raw["name"]), _data(raw.get("fields", ())))
