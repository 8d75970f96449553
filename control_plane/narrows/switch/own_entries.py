# SPDX-License-Identifier: Apache-2.0
"""Entries of a user's P4 program from a file: in the form of the P4 tutorials, or as P4Runtime's text protobuf.

The second is a ``WriteRequest``. Every error names the file, and the line of the entry. What only a switch knows, such
as how large its tables are, is not checked here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from finsy.proto import p4i, p4r
from google.protobuf import text_format
from google.protobuf.message import Message
from narrows_formats import bounded_json, named_file

from narrows.experiment.plan import FIRST_DEVICE
from narrows.switch.entry_ports import NamedPort, ports_of
from narrows.switch.tutorial_entries import BadPlace, TutorialEntries

# What the structure of text protobuf is made of; comments and strings come first, since they may have the rest in them.
_TOKEN = re.compile(r"""#[^\n]*|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[{}<>]|\w+""")


_Message = TypeVar("_Message", bound=Message)


class BadEntries(Exception):
    """A file of entries that cannot be used; the message is complete."""


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
        found = _in_tutorial_form(path, text, info)
    else:
        found = list(_in_text_form(path, text, device_id))
    if not found:
        raise BadEntries(f"{path}: has no entries; allowed: one or more")
    places, updates = zip(*found, strict=True)
    return Entries(path, text, updates, places)


def _in_tutorial_form(path: Path, text: str, info: p4i.P4Info) -> list[tuple[int, p4r.Update]]:
    try:
        return list(TutorialEntries(text, info).updates())
    except bounded_json.NotJsonError as error:
        raise BadEntries(f"{path}{error.place}: {error}") from None
    except BadPlace as error:
        raise BadEntries(f"{path}:{_line(text, error.at)}: {error}") from None


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
