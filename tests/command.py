# SPDX-License-Identifier: Apache-2.0
"""``narrows`` within a test's process, which has imported it already: a process of its own takes a second to."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest


@dataclass(frozen=True)
class Ended:
    """How a command ended, by the names of `subprocess.CompletedProcess`."""

    returncode: object
    stdout: str
    stderr: str


Narrows = Callable[..., Ended]


@pytest.fixture
def narrows(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Narrows]:
    """The command by its arguments, in the test's directory and environment, on wide lines."""
    from narrows.cli import main

    monkeypatch.setenv("COLUMNS", "200")
    before = signal.getsignal(signal.SIGTERM)

    def run(*arguments: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["narrows", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return Ended(ended.value.code, said.out, said.err)

    yield run
    signal.signal(signal.SIGTERM, before)
