# SPDX-License-Identifier: Apache-2.0
"""The audit log: one JSON line for every change to the switch, enough to undo it from the file alone."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from narrows.errors import InputError, RunError

from narrows_tofino.bfrt.client import Operation
from narrows_tofino.bfrt.values import Data, Entry, Key, KeyValue, Lpm, Ternary

Phase = Literal["intent", "done", "undone", "kept"]
# Table, pipe and key of an entry.
EntryName = tuple[str, int, str]


class AuditError(RunError):
    """A change cannot be recorded, and so is not made."""


@dataclass(frozen=True)
class Change:
    """One write: what was there, what was asked for, what is there now.

    ``old`` is None where there was no entry, ``got`` None where there is none any more. ``phase`` is ``intent`` before
    the write is made, ``done`` when it has been read back, ``undone`` when teardown has taken it
    back, ``kept`` when it is to stay.
    """

    operation: Operation
    table: str
    key: Key | None
    pipe: int
    action: str | None
    asked: Data
    old: Entry | None
    got: Entry | None
    phase: Phase = "done"

    @property
    def entry(self) -> EntryName:
        """Which entry of the switch this is about."""
        return (self.table, self.pipe, json.dumps(_key(self.key), sort_keys=True))

    def as_json(self) -> dict[str, Any]:
        """The change as it stands in the log."""
        return {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "operation": str(self.operation),
            "table": self.table,
            "pipe": self.pipe,
            "key": _key(self.key),
            "action": self.action,
            "old": _entry(self.old),
            "asked": dict(self.asked),
            "got": _entry(self.got),
            "phase": self.phase,
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Change:
        """Read a line of the log."""
        key = _read_key(raw["key"])
        return cls(
            operation=Operation(raw["operation"]),
            table=raw["table"],
            key=key,
            pipe=raw["pipe"],
            action=raw["action"],
            asked=raw["asked"],
            old=_read_entry(raw["old"], key),
            got=_read_entry(raw["got"], key),
            phase=raw["phase"],
        )


class AuditLog:
    """Appends to a file that only its owner may read; what is durable is on disk before anything else is done."""

    def __init__(self, path: Path) -> None:
        """Open or create the log.

        Raises:
            InputError: the file cannot be written.
        """
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Where results are, a user may have put a link for root to write through.
            self._descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            if size := os.fstat(self._descriptor).st_size:
                # What comes next is a line of its own.
                os.ftruncate(self._descriptor, len(_whole_lines(os.pread(self._descriptor, size, 0))))
        except OSError as error:
            raise InputError(f"{path}: the audit log cannot be written: {error.strerror}") from None

    def record(self, *changes: Change, durable: bool = True) -> None:
        """Add a line for each, all of them or none; one that is not ``durable`` outlives this process only.

        Raises:
            AuditError: not all of them are on disk.
        """
        lines = "".join(json.dumps(change.as_json()) + "\n" for change in changes).encode()
        before = os.fstat(self._descriptor).st_size
        try:
            while lines:
                lines = lines[os.write(self._descriptor, lines) :]
            if durable:
                os.fsync(self._descriptor)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._descriptor, before)
            raise AuditError(f"{self.path}: the audit log cannot be written: {error.strerror}") from None

    def close(self) -> None:
        """Close the file; safe to call twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def read_audit(path: Path) -> list[Change]:
    """All changes in a log, in order.

    A last line that does not end was being written when the machine stopped. It says nothing that is needed: a change
    is made once its intent is on disk, and is outstanding until its undoing is.

    Raises:
        InputError: no such file, or a line that is not of an audit log.
    """
    changes: list[Change] = []
    try:
        log = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    lines, rest = _whole_lines(log).splitlines(), log[len(_whole_lines(log)) :]
    if not rest.startswith(b"{"):
        lines += rest.splitlines()
    for number, line in enumerate(lines, start=1):
        try:
            changes.append(Change.from_json(json.loads(line)))
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path}:{number}: not a line of an audit log: {error!r}") from None
    return changes


def _whole_lines(log: bytes) -> bytes:
    return log[: log.rfind(b"\n") + 1]


def outstanding(changes: Iterable[Change]) -> list[Change]:
    """Changes that no later line takes back, in order; of one that was begun and not finished, its intent."""
    left: dict[int, Change] = {}
    lines: defaultdict[EntryName, list[int]] = defaultdict(list)
    for number, change in enumerate(changes):
        # Counts that were zeroed are not brought back.
        if change.operation is Operation.CLEAR:
            continue
        same = lines[change.entry]
        settled = change.phase in ("undone", "kept")
        if same and (settled or left[same[-1]].phase == "intent"):
            del left[same.pop()]
        if not settled:
            left[number] = change
            same.append(number)
    return list(left.values())


def _key(key: Key | None) -> dict[str, object] | None:
    if key is None:
        return None
    written: dict[str, object] = {}
    for name, value in key.items():
        if isinstance(value, Ternary):
            written[name] = {"value": value.value, "mask": value.mask}
        elif isinstance(value, Lpm):
            written[name] = {"value": value.value, "prefix_len": value.prefix_len}
        else:
            written[name] = value
    return written


def _read_key(raw: Mapping[str, Any] | None) -> Key | None:
    if raw is None:
        return None
    key: dict[str, KeyValue] = {}
    for name, value in raw.items():
        if isinstance(value, dict):
            key[name] = Lpm(**value) if "prefix_len" in value else Ternary(**value)
        else:
            key[name] = value
    return key


def _entry(entry: Entry | None) -> dict[str, object] | None:
    return None if entry is None else {"action": entry.action, "data": dict(entry.data)}


def _read_entry(raw: Mapping[str, Any] | None, key: Key | None) -> Entry | None:
    if raw is None:
        return None
    return Entry(key={} if key is None else key, data=raw["data"], action=raw["action"], is_default=key is None)
