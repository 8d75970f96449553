# SPDX-License-Identifier: Apache-2.0
"""A command whose output is no longer read keeps running, and ends as it would have."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

# A run of three rounds that says something in each and ends with a code of its own.
PROGRAM = """
import sys, typer
from rich.console import Console
import narrows.cli
def rounds(code: int) -> None:
    console = Console()
    for number in range(3):
        print("plain", number)
        console.print("x" * 100_000, highlight=False, soft_wrap=True)
        print("said", number, file=sys.stderr)
    open("done", "w").close()
    raise typer.Exit(code)
narrows.cli.app.command()(rounds)
narrows.cli.main()
"""


def ran(tmp_path: Path, code: int, stdout: int, stderr: int) -> int:
    command = [sys.executable, "-c", PROGRAM, "rounds", str(code)]
    return subprocess.run(command, stdout=stdout, stderr=stderr, cwd=tmp_path).returncode


@pytest.mark.parametrize("code", [0, 3])
def test_a_reader_that_is_gone_changes_no_exit_code(tmp_path: Path, code: int) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        assert ran(tmp_path, code, writer, writer) == code
    finally:
        os.close(writer)
    assert (tmp_path / "done").exists(), "it went on to its end"


@pytest.mark.parametrize("code", [0, 3])
@pytest.mark.fault("terminal closed", "end", "real", "virtual")
def test_a_terminal_that_was_closed_changes_no_exit_code(tmp_path: Path, code: int) -> None:
    terminal, shown = os.openpty()
    os.close(terminal)
    try:
        assert ran(tmp_path, code, shown, shown) == code
    finally:
        os.close(shown)
    assert (tmp_path / "done").exists(), "it went on to its end"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.fault("interrupted", "end", "real", "virtual")
def test_a_signal_after_the_end_changes_no_exit_code(tmp_path: Path, number: signal.Signals) -> None:
    # What modules hold goes after Python has given signals back to the system.
    late = f"""
import os, sys
class Late:
    def __del__(self, end=os.kill, process=os.getpid()):
        end(process, {int(number)})
sys.late = Late()
"""
    command = [sys.executable, "-c", late + PROGRAM, "rounds", "3"]
    assert subprocess.run(command, stdout=subprocess.DEVNULL, cwd=tmp_path).returncode == 3


def test_a_signal_before_the_command_line_is_there_ends_it_without_a_traceback() -> None:
    # What finds modules interrupts the first import of the command line's.
    early = """
import os, signal, sys
class Early:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Early())
from narrows.entry import main
main()
"""
    ended = subprocess.run([sys.executable, "-c", early, "--help"], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


def test_a_reader_that_stays_gets_everything_in_order(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, "rounds", "0"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "said 0\nsaid 1\nsaid 2\n")
    assert done.stdout.replace("\n", "") == "".join(f"plain {number}{'x' * 100_000}" for number in range(3))
