# SPDX-License-Identifier: Apache-2.0
"""The interface to a switch that speaks BF Runtime."""

from __future__ import annotations

import enum
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypeVar

from narrows.field_types import Model
from narrows_formats.validation import refuse
from pydantic import model_validator

from narrows_tofino.bfrt.errors import SwitchRefused
from narrows_tofino.bfrt.schema import Schema, Table
from narrows_tofino.bfrt.values import Data, DigestMessage, Entry, Key, KeyValue, Lpm, Ternary

ALL_PIPES = 0xFFFF
DEFAULT_PORT = 50052
# Whole tables have tens of thousands of entries: how many times as long their reading may take.
WHOLE_TABLE_FACTOR = 10
# The switch is busy with a reconfiguration and has done nothing: the same request may be sent again.
_BUSY = ("UNAVAILABLE", "In use")
_BUSY_WAIT_S = 0.2
_Answer = TypeVar("_Answer")


class Operation(enum.StrEnum):
    """What a write does with an entry. ``CLEAR`` zeroes counts, of one entry or of a whole table."""

    INSERT = "insert"
    MODIFY = "modify"
    DELETE = "delete"
    CLEAR = "clear"


class Tls(Model):
    """PEM files for TLS to the switch; ``certificate`` and ``key`` are the client's own, for mutual TLS."""

    ca: Path
    certificate: Path | None = None
    key: Path | None = None
    server_name: str | None = None

    @model_validator(mode="after")
    def _pair(self) -> Self:
        if (self.certificate is None) != (self.key is None):
            raise refuse("has one of certificate and key", "both, or neither")
        return self


@dataclass(frozen=True)
class Endpoint:
    """Where BF Runtime listens, and which program on which device is meant. ``timeout_s`` bounds every answer.

    ``listed`` is the address in the inventory where ``address`` is the near end of a tunnel to it.
    """

    address: str
    program: str
    device: int = 0
    client_id: int = 1
    tls: Tls | None = None
    timeout_s: float = 10.0
    listed: str = ""

    @property
    def name(self) -> str:
        """What messages call the switch."""
        return self.listed or self.address


@dataclass(frozen=True)
class Write:
    """What `Client.write` is asked for."""

    operation: Operation
    table: Table
    key: Key | None
    data: Data | None
    action: str | None
    pipe: int

    def __str__(self) -> str:
        """For messages."""
        return f"{self.operation} of {describe(self.table, self.key, self.pipe)}"


class Client(ABC):
    """A subscribed client that owns the program on the switch.

    ``pipe`` is a logical pipe or `ALL_PIPES`. All methods raise `SwitchRefused` when the switch says no,
    `ConnectionLost` when it does not answer in time or at all, and `SchemaError` when names or values do not fit.
    """

    schema: Schema
    kind: str

    @abstractmethod
    def read(self, table: Table, key: Key, *, pipe: int = ALL_PIPES) -> Entry:
        """Read one entry, from hardware where the table has any."""

    @abstractmethod
    def read_all(self, table: Table, *, pipe: int = ALL_PIPES, from_hw: bool = True) -> list[Entry]:
        """Read every entry of a table, the default entry left out; without ``from_hw`` the driver's copy of it."""

    @abstractmethod
    def read_default(self, table: Table, *, pipe: int = ALL_PIPES) -> Entry:
        """Read the default entry: the only one of a table without key."""

    def write(
        self,
        operation: Operation,
        table: Table,
        key: Key | None,
        data: Data | None = None,
        action: str | None = None,
        *,
        pipe: int = ALL_PIPES,
    ) -> None:
        """Write one entry; a key of None means the default entry. Counters of a modified entry keep their values."""
        self._apply(Write(operation, table, key, data, action, pipe))

    @abstractmethod
    def _apply(self, write: Write) -> None:
        """See `write`."""

    @abstractmethod
    def clear(self, table: Table) -> None:
        """Delete all entries of a table, or zero all of a register or counter, in all pipes."""

    @abstractmethod
    def execute(self, table: Table, operation: str, *, pipe: int = ALL_PIPES) -> None:
        """Run a table operation such as ``Sync`` and wait until it is done."""

    @abstractmethod
    def digests(self, timeout_s: float) -> list[DigestMessage]:
        """Digests that have arrived; waits up to ``timeout_s`` for the first one."""

    @abstractmethod
    def alive(self) -> bool:
        """Whether the stream that keeps the session is still open."""

    @abstractmethod
    def close(self) -> None:
        """End the session; safe to call twice."""

    def find(self, table: Table, key: Key, *, pipe: int = ALL_PIPES) -> Entry | None:
        """The entry with this key, None where there is none."""
        try:
            return self.read(table, key, pipe=pipe)
        except SwitchRefused as error:
            if error.codes == {"NOT_FOUND"}:
                return None
            raise

    def find_each(self, table: Table, keys: Sequence[Key], *, pipe: int = ALL_PIPES) -> list[Entry | None]:
        """The entries with these keys, in their order, None where there is none.

        All of the table are read, in one answer: each answer takes 40 ms through an ssh tunnel. It comes in two parts,
        of which sshd sends the second when the first was acknowledged (Nagle, RFC 896), which kernels delay (RFC 1122,
        4.2.3.2).
        """
        held = {_exactly(entry.key): entry for entry in self.read_all(table, pipe=pipe)}
        return [held.get(_exactly(key)) for key in keys]


def _exactly(key: Key) -> frozenset[tuple[str, KeyValue]]:
    """A key without the fields that match everything, which a planned one need not name."""
    return frozenset((name, value) for name, value in key.items() if not _matches_all(value))


def _matches_all(value: KeyValue) -> bool:
    return (isinstance(value, Ternary) and value.mask == 0) or (isinstance(value, Lpm) and value.prefix_len == 0)


def while_in_use(timeout_s: float, call: Callable[[], _Answer]) -> _Answer:
    """Call the switch; while it says that it is in use, ask again until the timeout.

    Raises:
        SwitchRefused: it says no, or is still in use.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return call()
        except SwitchRefused as error:
            busy = all(one.code == _BUSY[0] and one.message.endswith(_BUSY[1]) for one in error.refusals)
            if not busy or time.monotonic() + _BUSY_WAIT_S > deadline:
                raise
            time.sleep(_BUSY_WAIT_S)


def describe(table: Table, key: Key | None, pipe: int) -> str:
    """How messages and the audit log name an entry."""
    where = "all pipes" if pipe == ALL_PIPES else f"pipe {pipe}"
    return f"{table.name} [{describe_key(key)}] ({where})"


def describe_key(key: Key | None) -> str:
    """A key on one line; parts that match everything are left out."""
    if key is None:
        return "default entry"
    parts = []
    for name, value in key.items():
        if isinstance(value, Ternary):
            if value.mask:
                parts.append(f"{name}={value.value:#x}&{value.mask:#x}")
        elif isinstance(value, Lpm):
            parts.append(f"{name}={value.value:#x}/{value.prefix_len}")
        else:
            parts.append(f"{name}={value}")
    return ", ".join(parts)
