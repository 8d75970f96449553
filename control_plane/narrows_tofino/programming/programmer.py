# SPDX-License-Identifier: Apache-2.0
"""Carries out planned writes in their order, reads each back, and can take all of them back.

BF Runtime has no transaction over the traffic manager's tables, so all-or-nothing is made here: every write remembers
what was there before, and whatever fails, everything written so far is restored in reverse order.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from narrows.errors import RunError

from narrows_tofino.bfrt.client import Client, Operation, describe, describe_key
from narrows_tofino.bfrt.errors import BfrtError, SwitchRefused
from narrows_tofino.bfrt.schema import Table
from narrows_tofino.bfrt.values import Data, Entry, Key, Value
from narrows_tofino.programming.audit import AuditError, AuditLog, Change, EntryName, Phase
from narrows_tofino.readings.counters import counting_table
from narrows_tofino.writes.planned import PlannedWrite

# The program's tables; those of the driver may have actions, too.
MATCH_ACTION = "MatchAction_Direct"
# What the driver says of a queue without a port.
_NOT_READY = "Not ready"


class ReadBackError(RunError):
    """The switch accepted a write and then shows something else."""


class Programmer:
    """Writes to a switch. Not safe for use from several threads at once."""

    def __init__(self, client: Client, audit: AuditLog) -> None:
        """Take a connected client and the log of its changes; nothing is written yet."""
        self.client = client
        self.journal: list[Change] = []
        self._audit = audit
        self._planned: list[PlannedWrite] = []

    def apply(self, writes: Sequence[PlannedWrite]) -> None:
        """Carry out all writes, or none.

        Raises:
            RunError: the switch refuses a write, reads back something else, or is gone. Everything that these writes
                had changed has been restored; what could not be is named, with the log to restore it from.
        """
        mark = len(self.journal)
        planned = len(self._planned)
        try:
            for table, batch in self._batches(writes):
                self._carry_out(table, batch)
                self._planned += batch
        except BaseException as error:
            del self._planned[planned:]
            problems = self.undo(mark)
            if isinstance(error, RunError) and problems:
                raise RunError(f"{error}\n{self._left_over(problems)}") from error
            raise

    def clear(self, writes: Sequence[PlannedWrite]) -> None:
        """Zero counts. That is in the audit log and cannot be taken back.

        Raises:
            RunError: the switch refuses.
        """
        schema = self.client.schema
        for write in writes:
            table = counting_table(schema, write.table) if write.key is None else schema.table(write.table)
            change = Change(Operation.CLEAR, table.name, write.key, write.pipe, None, write.data, None, None)
            self._audit.record(replace(change, phase="intent"))
            if write.key is None:
                self.client.clear(table)
            else:
                self.client.write(Operation.MODIFY, table, write.key, write.data, pipe=write.pipe)
            self._audit.record(change)

    def keep(self, mark: int, end: int) -> None:
        """Leave the changes from ``mark`` to ``end`` as they are for good: teardown does not take them back."""
        self._audit.record(*(replace(change, phase="kept") for change in self.journal[mark:end]))
        del self.journal[mark:end]

    def undo(self, mark: int = 0) -> list[str]:
        """Restore what the changes since ``mark`` found, last one first; returns what could not be restored, and why.

        An entry that was changed by another client since is left as it is, and named.
        """
        problems, left = restore_all(self.client, self.journal[mark:], self._audit)
        self.journal[mark:] = left
        if mark == 0:
            self._planned.clear()
        return problems

    def drift(self) -> list[str]:
        """Entries that no longer read as they did when they were written, in words."""
        return [words for _, words in self._drifted()]

    def reapply(self) -> list[str]:
        """Write again what has drifted, in the order of the first time; returns what had.

        Raises:
            RunError: a write is refused or reads back differently.
        """
        drifted = self._drifted()
        for write, _ in drifted:
            self._again(write)
        return [words for _, words in drifted]

    def rewrite(self, write: PlannedWrite) -> None:
        """Give an entry that was written other values; teardown goes back to what was there before the first ones.

        Raises:
            RunError: the write is refused or reads back differently.
        """
        place = max(
            number
            for number, one in enumerate(self._planned)
            if (one.table, one.pipe, one.key) == (write.table, write.pipe, write.key)
        )
        self._planned[place] = write
        self._again(write)

    def _again(self, write: PlannedWrite) -> None:
        table = self.client.schema.table(write.table)
        name = Change(write.operation, table.name, write.key, write.pipe, None, {}, None, None).entry
        first = next((change for change in self.journal if change.entry == name), None)
        self._carry_out(table, [write], first)

    def _drifted(self) -> list[tuple[PlannedWrite, str]]:
        last = {(write.table, write.pipe, describe_key(write.key)): write for write in self._planned}
        found: list[tuple[PlannedWrite, str]] = []
        for table, batch in self._batches(last.values()):
            for write, now in zip(batch, self._find_each(table, batch), strict=True):
                problem = _mismatch(write, now)
                if problem:
                    found.append((write, f"{describe(table, write.key, write.pipe)}: {problem}"))
        return found

    def _batches(self, writes: Iterable[PlannedWrite]) -> Iterator[tuple[Table, list[PlannedWrite]]]:
        """Consecutive writes to one table; one by one where an entry may depend on another."""
        for (name, _), group in itertools.groupby(writes, key=lambda write: (write.table, write.pipe)):
            table = self.client.schema.table(name)
            batch = list(group)
            apart = _apart(table, [write.key for write in batch])
            yield from [(table, batch)] if apart else ((table, [write]) for write in batch)

    def _find_each(self, table: Table, batch: Sequence[PlannedWrite]) -> list[Entry | None]:
        return _find_each(self.client, table, [write.key for write in batch], batch[0].pipe)

    def _carry_out(self, table: Table, batch: Sequence[PlannedWrite], first: Change | None = None) -> None:
        """Write and read back. With ``first``, the only entry's first change, this takes its place.

        Teardown then goes back to what was there before the first one, not to what came in between, and in its turn.
        """
        found = self._find_each(table, batch)
        changes = [_intent(table, write, now, first) for write, now in zip(batch, found, strict=True)]
        taken_back = [] if first is None else [replace(first, phase="undone")]
        self._audit.record(*taken_back, *changes)
        try:
            for change in changes:
                data = None if change.operation is Operation.DELETE else change.asked
                self.client.write(change.operation, table, change.key, data, change.action, pipe=change.pipe)
            got = self._find_each(table, batch)
        except BaseException:
            # Without an answer it may or may not have been carried out: teardown will look.
            self._done(changes, [None] * len(batch), first)
            raise
        self._done(changes, got, first)
        for write, entry in zip(batch, got, strict=True):
            problem = _mismatch(write, entry)
            if problem:
                raise ReadBackError(
                    f"{describe(table, write.key, write.pipe)} was written, but {problem}: "
                    "the switch is not set as asked"
                )

    def _done(self, changes: Sequence[Change], got: Sequence[Entry | None], first: Change | None) -> None:
        done = [
            replace(change, got=entry, phase="kept" if change.phase == "kept" else "done")
            for change, entry in zip(changes, got, strict=True)
        ]
        for change in done:
            if change.phase == "done":
                self._keep(change, first)
        # Of an entry that is written again and again, what each write came to need not outlive the machine: its intent
        # does, and tells what was there first.
        self._audit.record(*done, durable=first is None)

    def _keep(self, change: Change, first: Change | None) -> None:
        if first is None:
            self.journal.append(change)
            return
        place = self.journal.index(first)
        later = [one for one in self.journal[place + 1 :] if one.entry != change.entry]
        self.journal[place:] = [change, *later]

    def _left_over(self, problems: Iterable[str]) -> str:
        lines = "\n".join(f"  {problem}" for problem in problems)
        return (
            f"not restored:\n{lines}\nteardown tries once more; what it cannot do, this does: "
            f"python -I -m narrows_tofino.restore INVENTORY {self._audit.path}"
        )


def restore_all(client: Client, changes: Sequence[Change], audit: AuditLog) -> tuple[list[str], list[Change]]:
    """Bring entries back, the last change first. One failure stops no other.

    Returns:
        What could not be brought back and why, and those of the changes that may be tried again.
    """
    problems: list[str] = []
    left: list[Change] = []
    reset = _was_reset(client, changes)
    for _, group in itertools.groupby(reversed(changes), key=lambda change: (change.table, change.pipe)):
        batch = list(group)
        ahead = _read_ahead(client, batch)
        for change in batch:
            try:
                problem = restore(client, change, audit, reset, ahead)
            except (BfrtError, AuditError) as error:
                problem = f"{change.table} [{describe_key(change.key)}]: {error}"
                left.insert(0, change)
            if problem:
                problems.append(problem)
    return problems, left


def _read_ahead(client: Client, batch: Sequence[Change]) -> dict[EntryName, Entry | None]:
    """The entries that changes of one table are about, read together where possible; none if that fails."""
    table = client.schema.table(batch[0].table)
    keys = [change.key for change in batch]
    if not _apart(table, keys):
        return {}
    try:
        found = _find_each(client, table, keys, batch[0].pipe)
    except BfrtError:
        return {}
    return {change.entry: now for change, now in zip(batch, found, strict=True)}


def _was_reset(client: Client, changes: Sequence[Change]) -> bool:
    """Whether the switch has restarted since: none of the entries that were added is left."""
    added = [change for change in changes if change.operation is Operation.INSERT and change.got is not None]
    try:
        return bool(added) and all(
            _find(client, client.schema.table(change.table), change.key, change.pipe) is None
            for change in (added[0], added[len(added) // 2], added[-1])
        )
    except BfrtError:
        return False


def restore(
    client: Client, change: Change, audit: AuditLog, reset: bool, ahead: Mapping[EntryName, Entry | None]
) -> str | None:
    """Bring one entry back to what a change found; returns why not, or None.

    ``ahead`` are entries that have been read just now.

    After a ``reset`` an entry that is neither as it was found nor as we left it is as the driver starts with it, and
    stays so.

    Raises:
        BfrtError: the switch refuses or does not answer.
    """
    table = client.schema.table(change.table)
    try:
        now = ahead[change.entry] if change.entry in ahead else _find(client, table, change.key, change.pipe)
    except SwitchRefused as error:
        if not all(one.message.endswith(_NOT_READY) for one in error.refusals):
            raise
        # The queue belongs to no port any more: the switch has restarted, or the port was deleted.
        audit.record(_undoing(change, change.operation, None, None))
        return None
    if _same(now, change.old, change.asked):
        # Already as it was: the write had no effect, or the switch has restarted.
        audit.record(_undoing(change, change.operation, now, now))
        return None
    # A write that was never answered: what it left is unknown.
    unknown = change.got is None and change.operation is not Operation.DELETE
    if not unknown and not _same(now, change.got, change.asked):
        if reset:
            audit.record(_undoing(change, change.operation, now, now))
            return None
        return f"{describe(table, change.key, change.pipe)}: another client has changed it since; left as it is"
    if change.old is None:
        operation = Operation.DELETE
        client.write(operation, table, change.key, pipe=change.pipe)
    else:
        operation = Operation.INSERT if now is None else Operation.MODIFY
        fields = None if operation is Operation.INSERT or table.actions else frozenset(change.asked)
        data = _writable(table, change.old, fields)
        client.write(operation, table, change.key, data, change.old.action, pipe=change.pipe)
    got = _find(client, table, change.key, change.pipe)
    audit.record(_undoing(change, operation, now, got))
    if not _same(got, change.old, change.asked):
        return f"{describe(table, change.key, change.pipe)}: written back, but it does not read as before"
    return None


def _intent(table: Table, write: PlannedWrite, now: Entry | None, first: Change | None) -> Change:
    """What a write is to be: an entry that is there ``now`` is modified. ``first`` was the entry's first change."""
    modified = write.operation is Operation.INSERT and now is not None
    operation = Operation.MODIFY if modified else write.operation
    old = now if first is None else first.old
    phase: Phase = "kept" if write.stays else "intent"
    return Change(operation, table.name, write.key, write.pipe, write.action, write.data, old, None, phase)


def _undoing(change: Change, operation: Operation, old: Entry | None, got: Entry | None) -> Change:
    asked: Data = {} if change.old is None else change.old.data
    return Change(operation, change.table, change.key, change.pipe, change.action, asked, old, got, "undone")


def _find(client: Client, table: Table, key: Key | None, pipe: int) -> Entry | None:
    if key is None:
        return client.read_default(table, pipe=pipe)
    return client.find(table, key, pipe=pipe)


def _apart(table: Table, keys: Sequence[Key | None]) -> bool:
    """Whether entries are independent of each other: different keys of a match-action table, not of the driver's."""
    different = {describe_key(key) for key in keys if key is not None}
    return table.type == MATCH_ACTION and len(different) == len(keys)


def _find_each(client: Client, table: Table, keys: Sequence[Key | None], pipe: int) -> list[Entry | None]:
    if len(keys) == 1:
        return [_find(client, table, keys[0], pipe)]
    return client.find_each(table, [key for key in keys if key is not None], pipe=pipe)


def _writable(table: Table, entry: Entry, fields: frozenset[str] | None) -> Data:
    """What of an entry can be written back: ``fields`` of it, or all."""
    specs = table.data(entry.action)
    return {
        spec.name: entry.data[spec.name]
        for spec in specs
        if spec.name in entry.data and not spec.read_only and (fields is None or spec.name in fields)
    }


def _same(one: Entry | None, other: Entry | None, fields: Iterable[str]) -> bool:
    """Whether two readings agree in action and in the fields that a change was about."""
    if one is None or other is None:
        return one is other
    return one.action == other.action and all(one.data.get(field) == other.data.get(field) for field in fields)


def _mismatch(write: PlannedWrite, got: Entry | None) -> str | None:
    """How an entry differs from what was asked for; None if it does not."""
    if write.operation is Operation.DELETE:
        return None if got is None else "it is still there"
    if got is None:
        return "there is no such entry"
    if write.action is not None and got.action is not None and got.action.rpartition(".")[2] != write.action:
        return f"its action reads {got.action} instead of {write.action}"
    for name, value in write.data.items():
        found = got.data.get(name)
        if (bounds := write.within.get(name)) is not None:
            least, most = bounds
            if not isinstance(found, int | float) or not least <= found <= most:
                return f"{name} reads {found!r} instead of {least!r} to {most!r}"
            continue
        allowed: tuple[Value, ...] = write.expect.get(name, (value,))
        if found not in allowed:
            meaning = write.telling.get(name, {}).get(found) if isinstance(found, int) else None
            return f"{name} reads {found!r} instead of {value!r}" + (f" ({meaning})" if meaning else "")
    return None
