# SPDX-License-Identifier: Apache-2.0
"""A switch that is connected: its client, the log and the journal of changes, and how it is given back."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from narrows.errors import RunError

from narrows_tofino.bfrt.client import Client, describe_key
from narrows_tofino.bfrt.errors import BfrtError
from narrows_tofino.programming.audit import AuditLog
from narrows_tofino.programming.programmer import Programmer, restore_all
from narrows_tofino.readings.counters import Counters
from narrows_tofino.readings.digests import Digests
from narrows_tofino.testbed.session import SwitchSession


@dataclass(frozen=True)
class OpenedSwitch:
    """One switch, by one session; ``audit_path`` is where ``audit`` logs every change of it."""

    session: SwitchSession
    audit_path: Path
    audit: AuditLog
    programmer: Programmer
    counters: Counters
    digests: Digests

    @classmethod
    def open(cls, session: SwitchSession, audit_path: Path, manages_queues: bool) -> OpenedSwitch:
        """Connect; ``manages_queues`` says whether the program does.

        Raises:
            RunError: it cannot be reached, runs another program or another chip, or belongs to another client.
        """
        client = session.open()
        audit = AuditLog(audit_path)
        programmer = Programmer(client, audit)
        return cls(session, audit_path, audit, programmer, Counters(client, manages_queues), Digests(client))

    @property
    def client(self) -> Client:
        """What tables are read by."""
        return self.programmer.client

    def close(self) -> None:
        """Restore what was found, and close the session.

        Raises:
            RunError: something could not be restored; the message says what, and how to.
        """
        try:
            problems = self._give_back()
        finally:
            self.audit.close()
            self.session.close()
        if problems:
            lines = "\n".join(f"  {problem}" for problem in problems)
            raise RunError(
                f"the switch could not be given back as it was found:\n{lines}\n"
                f"restore the rest with: python -I -m narrows_tofino.restore INVENTORY {self.audit_path}"
            )

    def _give_back(self) -> list[str]:
        """Undo everything; over a new session if the old one is gone. Returns what could not be undone."""
        journal = self.programmer.journal
        try:
            if self.client.alive():
                return self.programmer.undo()
            return restore_all(self.session.open(), journal, self.audit)[0] if journal else []
        except BfrtError as error:
            return [str(error), *(f"{change.table} [{describe_key(change.key)}]" for change in journal)]
