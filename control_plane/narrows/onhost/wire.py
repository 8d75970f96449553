# SPDX-License-Identifier: Apache-2.0
"""Messages between this program and what runs on hosts: dataclasses, each a JSON object with its class's name.

To a host goes a `Specification`, then `Command`s, a line each; from it come `Event`s, a line each. Times are seconds
since the experiment's start, which a file gives on the host's own monotonic clock (`wait_for_origin`). Only the
standard library of Python 3.8 is used, so that it runs on any host.
"""

from __future__ import annotations

import importlib
import json
import time
from dataclasses import dataclass
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypeVar

    # An object of hosts/NAME.json: `narrows_formats.connection_record` is its model.
    Record = dict[str, Any]
    _Class = TypeVar("_Class", bound=type[Any])

# Mappings of a message have names of environment variables, which cannot have such a name.
CLASS = "=class"
POLL_S = 0.005
_classes: dict[str, type[Any]] = {}


def message(own: _Class) -> _Class:
    """A dataclass whose objects can be sent; no other has its name."""
    _classes[own.__name__] = own
    return own


def dumps(value: object) -> str:
    """A message, or anything that is made of messages and of what JSON has, as JSON on one line."""
    return json.dumps(value, default=_fields)


def loads(text: str | bytes) -> Any:
    """What was sent.

    Raises:
        ValueError: the text is no JSON.
        KeyError: it has a message of a class that was not imported.
    """
    return json.loads(text, object_hook=_made)


def _fields(own: object) -> Mapping[str, object]:
    return {CLASS: type(own).__name__, **vars(own)}


def _made(fields: dict[str, Any]) -> object:
    name = fields.pop(CLASS, None)
    return fields if name is None else _classes[name](**fields)


def sibling(name: str) -> Any:
    """A module of this directory, which is in no package on hosts."""
    return importlib.import_module(f"{__package__}.{name}" if __package__ else name)


def wait_for_origin(file: Path, is_stopped: Callable[[], bool]) -> float | None:
    """The experiment's start on this host's monotonic clock, once a file has it; None: it was stopped before."""
    text = ""
    while not text.endswith("\n"):
        if is_stopped():
            return None
        time.sleep(POLL_S)
        if file.exists():
            text = file.read_text(encoding="utf-8")
    return float(text)


@dataclass
class FlowSpecification:
    """A flow for a host to make; with ``held`` its times count from when a `Release` says."""

    name: str
    held: bool


@message
@dataclass
class Specification:
    """Flows for a process of a host: those whose ports it opens, and those that begin there.

    ``batch_bytes`` is what a receiving socket reads at a time, 0: whatever there is. ``origin`` and ``commands`` name
    the file of the experiment's start and the pipe of commands, if there are any.
    """

    host: str
    batch_bytes: int
    receive: list[FlowSpecification]
    send: list[FlowSpecification]
    origin: str
    commands: str | None


@dataclass(frozen=True)
class Command:
    """A change to a flow while it runs."""

    flow: str


@message
@dataclass(frozen=True)
class Release(Command):
    """A flow that was held back begins: its times count from this one."""

    at_s: float


@message
@dataclass(frozen=True)
class Finish(Command):
    """A flow that lasts for a time ends at this one."""

    at_s: float


@message
@dataclass(frozen=True)
class Steer(Command):
    """A flow's window in segments and pacing rate in bytes/s are set, those that are given, at a time or at once."""

    window: int | None
    rate: int | None
    at_s: float | None


@message
@dataclass(frozen=True)
class Apply(Command):
    """The flow's application does what an event says, from now on: `narrows.onhost.application.Change`."""

    event: int
    sends: bool | None
    bps: float | None


@dataclass(frozen=True)
class Event:
    """What became of a flow."""

    flow: str


@message
@dataclass(frozen=True)
class Started(Event):
    """A connection of it began."""

    number: int
    started_s: float


@message
@dataclass(frozen=True)
class Ended(Event):
    """A connection of it ended."""

    number: int
    ended_s: float
    record: Record


@message
@dataclass(frozen=True)
class Received(Event):
    """What its receiving side has counted, which is ``received`` of its record."""

    received: Record


@message
@dataclass(frozen=True)
class Steered(Event):
    """The answer to `Steer`: when that was, the socket's tcp_info in hexadecimal digits, None if the flow is not under
    way, and why its kernel refused, if it did."""

    at_s: float
    tcp_info: str | None
    refused: str | None


@message
@dataclass(frozen=True)
class Failure(Event):
    """It has failed."""

    why: str


@message
@dataclass(frozen=True)
class Done(Event):
    """All of it has ended as it should."""
