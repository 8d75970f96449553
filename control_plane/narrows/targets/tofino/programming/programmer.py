# SPDX-License-Identifier: Apache-2.0
"""Carries out planned writes one by one, reads each back, and can take all of them back.

BF Runtime has no transaction over the traffic manager's tables, so all-or-nothing is made here: every write remembers
what was there before, and whatever fails, everything written so far is restored in reverse order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from narrows.errors import RunError
from narrows.targets.tofino.bfrt.client import Client, Operation, describe, describe_key
from narrows.targets.tofino.bfrt.errors import BfrtError, SwitchRefused
from narrows.targets.tofino.bfrt.schema import Table
from narrows.targets.tofino.bfrt.values import Data, Entry, Key, Value
from narrows.targets.tofino.programming.audit import AuditError, AuditLog, Change, Phase
from narrows.targets.tofino.readings.counters import counting_table
from narrows.targets.tofino.writes.planned import PlannedWrite

# What the driver says of a queue without a port.
_NOT_READY = "Not ready"

Progress = Callable[[str], None]


class ReadBackError(RunError):
    """The switch accepted a write and then shows something else."""


class Programmer:
    """The one that writes to a switch. Not safe for use from several threads at once."""

    def __init__(self, client: Client, audit: AuditLog, progress: Progress = lambda _: None) -> None:
        """``progress`` is told of every write before it is made."""
        self.client = client
        self.journal: list[Change] = []
        self._audit = audit
        self._progress = progress
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
            for number, write in enumerate(writes, start=1):
                self._progress(f"{number}/{len(writes)} {write}")
                self._carry_out(write)
                self._planned.append(write)
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
            self._progress(str(write))
            table = counting_table(schema, write.table) if write.key is None else schema.table(write.table)
            change = Change(Operation.CLEAR, table.name, write.key, write.pipe, None, write.data, None, None)
            self._audit.record(replace(change, phase="intent"))
            if write.key is None:
                self.client.clear(table)
            else:
                self.client.write(Operation.MODIFY, table, write.key, write.data, pipe=write.pipe)
            self._audit.record(change)

    def keep(self, mark: int) -> None:
        """Leave the changes since ``mark`` as they are for good: teardown does not take them back."""
        for change in self.journal[mark:]:
            self._audit.record(replace(change, phase="kept"))
        del self.journal[mark:]

    def undo(self, mark: int = 0) -> list[str]:
        """Restore what the changes since ``mark`` found, last one first; returns what could not be restored, and why.

        An entry that somebody else has changed since is left as it is, and named.
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
        for write, words in drifted:
            self._progress(f"again: {words}")
            table = self.client.schema.table(write.table)
            name = Change(write.operation, table.name, write.key, write.pipe, None, {}, None, None).entry
            first = next((change for change in self.journal if change.entry == name), None)
            if first is not None:
                self._audit.record(replace(first, phase="undone"))
            self._carry_out(write, first)
        return [words for _, words in drifted]

    def _drifted(self) -> list[tuple[PlannedWrite, str]]:
        last = {(write.table, write.pipe, describe_key(write.key)): write for write in self._planned}
        found: list[tuple[PlannedWrite, str]] = []
        for write in last.values():
            table = self.client.schema.table(write.table)
            now = _find(self.client, table, write.key, write.pipe)
            problem = _mismatch(write, now)
            if problem:
                found.append((write, f"{describe(table, write.key, write.pipe)}: {problem}"))
        return found

    def _carry_out(self, write: PlannedWrite, first: Change | None = None) -> None:
        """Write and read back. With ``first``, the entry's first change, this takes its place.

        Teardown then goes back to what was there before the first one, not to what came in between, and in its turn.
        """
        table = self.client.schema.table(write.table)
        now = _find(self.client, table, write.key, write.pipe)
        old = now if first is None else first.old
        operation = write.operation
        if operation is Operation.INSERT and now is not None:
            operation = Operation.MODIFY
        data = None if operation is Operation.DELETE else write.data

        def record(got: Entry | None, phase: Phase) -> None:
            change = Change(operation, table.name, write.key, write.pipe, write.action, write.data, old, got, phase)
            if phase == "done":
                self._keep(change, first)
            self._audit.record(change)

        record(None, "intent")
        try:
            self.client.write(operation, table, write.key, data, write.action, pipe=write.pipe)
            got = _find(self.client, table, write.key, write.pipe)
        except BfrtError:
            # Without an answer it may or may not have been carried out: teardown will look.
            record(None, "done")
            raise
        record(got, "done")
        problem = _mismatch(write, got)
        if problem:
            raise ReadBackError(
                f"{describe(table, write.key, write.pipe)} was written, but {problem}: the switch is not set as asked"
            )

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
            f"python -m narrows.targets.tofino.restore INVENTORY {self._audit.path}"
        )


def restore_all(client: Client, changes: Sequence[Change], audit: AuditLog) -> tuple[list[str], list[Change]]:
    """Bring entries back, the last change first. One failure stops no other.

    Returns:
        What could not be brought back and why, and those of the changes that may be tried again.
    """
    problems: list[str] = []
    left: list[Change] = []
    reset = _was_reset(client, changes)
    for change in reversed(changes):
        try:
            problem = restore(client, change, audit, reset)
        except (BfrtError, AuditError) as error:
            problem = f"{change.table} [{describe_key(change.key)}]: {error}"
            left.insert(0, change)
        if problem:
            problems.append(problem)
    return problems, left


def _was_reset(client: Client, changes: Sequence[Change]) -> bool:
    """Whether the switch has restarted since: nothing is there any more of what was added."""
    added = [change for change in changes if change.operation is Operation.INSERT and change.got is not None]
    try:
        return bool(added) and all(
            _find(client, client.schema.table(change.table), change.key, change.pipe) is None
            for change in (added[0], added[len(added) // 2], added[-1])
        )
    except BfrtError:
        return False


def restore(client: Client, change: Change, audit: AuditLog, reset: bool = False) -> str | None:
    """Bring one entry back to what a change found; returns why not, or None.

    After a ``reset`` an entry that is neither as it was found nor as we left it is as the driver starts with it, and
    stays so.

    Raises:
        BfrtError: the switch refuses or does not answer.
    """
    table = client.schema.table(change.table)
    try:
        now = _find(client, table, change.key, change.pipe)
    except SwitchRefused as error:
        if not all(one.message.endswith(_NOT_READY) for one in error.refusals):
            raise
        # The queue belongs to no port any more: the switch has restarted, or somebody has deleted the port.
        audit.record(_undoing(change, change.operation, None, None))
        return None
    if _same(now, change.old, change.asked):
        # Already as it was: the write had no effect, or the switch has restarted.
        audit.record(_undoing(change, change.operation, now, now))
        return None
    # A write that was never answered: nobody knows what it left.
    unknown = change.got is None and change.operation is not Operation.DELETE
    if not unknown and not _same(now, change.got, change.asked):
        if reset:
            audit.record(_undoing(change, change.operation, now, now))
            return None
        return f"{describe(table, change.key, change.pipe)}: somebody else has changed it since; left as it is"
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


def _undoing(change: Change, operation: Operation, old: Entry | None, got: Entry | None) -> Change:
    asked: Data = {} if change.old is None else change.old.data
    return Change(operation, change.table, change.key, change.pipe, change.action, asked, old, got, "undone")


def _find(client: Client, table: Table, key: Key | None, pipe: int) -> Entry | None:
    if key is None:
        return client.read_default(table, pipe=pipe)
    return client.find(table, key, pipe=pipe)


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
        allowed: tuple[Value, ...] = write.expect.get(name, (value,))
        if got.data.get(name) not in allowed:
            return f"{name} reads {got.data.get(name)!r} instead of {value!r}"
    return None
