# SPDX-License-Identifier: Apache-2.0
"""Text of others reaches a terminal as text: it neither moves the cursor nor sets colours, titles or directions."""

from __future__ import annotations

import ast
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from narrows.cli.run import show
from narrows.plain_text import plain, say
from narrows.run.progress import RunProgress
from narrows.run.runner import Outcome
from narrows.terminal import Terminal
from rich.color import ColorSystem
from rich.table import Table

REPOSITORY = Path(__file__).resolve().parents[2]
NARROWS = Path(sys.executable).with_name("narrows")
# Clears the screen, sets the window's title, and shows what follows backwards.
HOSTILE = "a\x1b[2J\x1b]0;owned\x1b\\\u202eb\x9b31m"
SHOWN = "a\\x1b[2J\\x1b]0;owned\\x1b\\\\u202eb\\x9b31m"
# What may print by itself, and why.
ALLOWED = {
    "control_plane/narrows/plain_text.py": "the one place for lines",
    "control_plane/narrows/terminal.py": "the one place for tables and styles",
    "control_plane/narrows/cli/machine_readable.py": "JSON has no control characters",
    "control_plane/narrows/cli/shell.py": "what a user's own command says, to a pipe",
    "control_plane/narrows/hosts/lab/relay.py": "an error of ours",
}
# What our own processes tell each other, a line each.
ON_HOSTS = {"socket_sampler.py", "udp_host.py"}


@pytest.mark.parametrize("text", ["", "plain", "two\nlines\tand a tab", "é 漢字 👩‍👩‍👧 ±"])
def test_text_stays_as_it_is(text: str) -> None:
    assert plain(text) == text


def test_control_characters_are_written_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert plain(HOSTILE) == SHOWN
    assert plain("\r\0\x7f\x85") == "\\r\\x00\\x7f\\x85"
    say(HOSTILE)
    say(HOSTILE, error=True)
    assert capsys.readouterr() == (f"{SHOWN}\n", f"{SHOWN}\n")


def terminal() -> tuple[Terminal, io.StringIO]:
    """One of 200 columns without colours, and what it was given."""
    console = Terminal()
    console.file, console.width = (given := io.StringIO()), 200
    return console, given


def assert_only_text(written: str) -> None:
    assert all(character.isprintable() or character == "\n" for character in written), written


def test_a_terminal_shows_text_as_text() -> None:
    console, given = terminal()
    table = Table("[bold]", HOSTILE, title=HOSTILE, caption="bbr[v2]")
    table.add_row("bbr[v2]", HOSTILE)
    console.print(table)
    console.print(f"{HOSTILE} bbr[v2] :smile:", style="red")
    written = given.getvalue()
    assert written.count(SHOWN) == 4
    assert_only_text(written)
    assert written.count("bbr[v2]") == 3 and "[bold]" in written and ":smile:" in written


def test_progress_shows_text_as_text() -> None:
    console, given = terminal()
    with RunProgress(console, f"{HOSTILE} [v2]") as progress:
        progress.phase("traffic [x]")
        console.print(progress._render())
    assert given.getvalue().count(f"{SHOWN} [v2]: traffic [x]") == 2
    assert_only_text(given.getvalue())


def test_styles_are_kept() -> None:
    console, given = terminal()
    console._color_system = ColorSystem.STANDARD
    console.print("red", style="red")
    assert given.getvalue() == "\x1b[31mred\x1b[0m\n"


def test_names_and_errors_of_others(tmp_path: Path) -> None:
    """A run's name and status, and a field of an experiment."""
    run = tmp_path / "bbr[v2]\x1b[2J"
    run.mkdir()
    (run / "run.json").write_text(json.dumps({"status": HOSTILE, "started": "[red]"}))
    listed = subprocess.run([NARROWS, "runs", tmp_path], capture_output=True, text=True, timeout=60, check=True).stdout
    assert "bbr[v2]\\x1b[2J" in listed and SHOWN in listed and "[red]" in listed and "\x1b" not in listed
    (tmp_path / "x.yaml").write_text(json.dumps({HOSTILE: 1}))
    refused = subprocess.run([NARROWS, "check", tmp_path / "x.yaml"], capture_output=True, text=True, timeout=60)
    assert refused.returncode == 2 and SHOWN in refused.stderr and "\x1b" not in refused.stderr


def prints(source: str) -> list[str]:
    """What prints by itself."""
    names = {"print", "Console", "echo", "secho", "out_console"}
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            own = isinstance(node.func, ast.Attribute) and called == "print"  # of a console
            if called in names and not own:
                found.append(f"line {node.lineno}: {called}")
        elif (
            isinstance(node, ast.Attribute)
            and node.attr in ("stdout", "stderr")
            and (isinstance(node.value, ast.Name) and node.value.id == "sys")
        ):
            found.append(f"line {node.lineno}: sys.{node.attr}")
    return found


def test_one_place_prints() -> None:
    assert prints("print(1)") and prints("Console()") and prints("typer.echo(1)") and prints("sys.stdout.write('')")
    found = {}
    for folder in ("control_plane", "studies", "analysis"):
        for path in sorted((REPOSITORY / folder).rglob("*.py")):
            if (
                path.name not in ON_HOSTS
                and path.parent.name != "onhost"
                and (lines := prints(path.read_text(encoding="utf-8")))
            ):
                found[str(path.relative_to(REPOSITORY))] = lines
    assert found.keys() - ALLOWED.keys() == set(), found


def test_a_warning_among_the_notes_of_a_run_is_called_nothing_else(tmp_path: Path) -> None:
    console, given = terminal()
    show(Outcome("complete", "", tmp_path, None, ("warning: port 1: 2 of 3 packets left late", "one thread")), console)
    assert given.getvalue().splitlines()[:2] == ["warning: port 1: 2 of 3 packets left late", "note: one thread"]
