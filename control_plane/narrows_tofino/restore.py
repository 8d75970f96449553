# SPDX-License-Identifier: Apache-2.0
"""Gives a switch back after a run that could not do it itself: ``python -I -m narrows_tofino.restore``.

Reads the run's audit log and takes back every change that no later line undoes. Entries that were changed
since are skipped and named. Exit code 0 when everything is back, 1 otherwise, 2 for bad input.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import closing
from pathlib import Path

from narrows.errors import EXIT_FAILED, EXIT_OK, NarrowsError
from narrows.plain_text import say

from narrows_tofino.programming.audit import AuditLog, outstanding, read_audit
from narrows_tofino.programming.programmer import restore_all
from narrows_tofino.testbed.inventory import Inventory
from narrows_tofino.testbed.session import SwitchSession


def restore_from(inventory: Inventory, log: Path) -> tuple[int, list[str]]:
    """Take back what a log says is outstanding; returns how many changes there were, and what could not be undone.

    Raises:
        NarrowsError: the log cannot be read, or the switch cannot be reached.
    """
    changes = outstanding(read_audit(log))
    if not changes:
        return 0, []
    audit = AuditLog(log)
    try:
        with closing(SwitchSession(inventory)) as session:
            return len(changes), restore_all(session.open(), changes, audit)[0]
    finally:
        audit.close()


def main(arguments: list[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    parser = argparse.ArgumentParser(prog="narrows_tofino.restore", description=__doc__)
    parser.add_argument("inventory", type=Path, help="inventory file of the testbed")
    parser.add_argument("audit", type=Path, help="audit log of the run")
    chosen = parser.parse_args(arguments)
    try:
        count, problems = restore_from(Inventory.load(chosen.inventory), chosen.audit)
    except NarrowsError as error:
        say(error, error=True)
        return error.exit_code
    for problem in problems:
        say(problem, error=True)
    say(f"{count - len(problems)} of {count} changes taken back")
    return EXIT_FAILED if problems else EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
