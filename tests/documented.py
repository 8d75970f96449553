# SPDX-License-Identifier: Apache-2.0
"""The commands that README, the folders' READMEs, docs and `narrows COMMAND --help` show."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from script_modules import load_script

ROOT = Path(__file__).parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted(ROOT.glob("[a-z]*/README.md")),
    *sorted((ROOT / "softswitch").glob("*/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
# The page that only the site has.
OPTIONS: str = load_script(ROOT / "scripts" / "commands.py").page()
COMMAND = re.compile(r"(?:sudo )?(?:(?:\.venv/bin/)?narrows [a-z-]|make [a-z]|scripts/\S+)(?:[^,#]|,(?=\S))*")
NAMED = re.compile(r"(?:sudo )?(?:\.venv/bin/)?narrows [a-z-]")
# Programs other than `narrows`: Python of this checkout, and the binaries with their subcommands.
PROGRAM = re.compile(
    r"(?:sudo )?(?:(?:\.venv/bin/)?python )?"
    r"(?P<name>-m narrows_\w+\.\w+|(?:benchmarks|ptf-tests|scripts|p4src)/\w+\.py"
    r"|narrows-(?:softswitch|collector) (?!is )[a-z]+)"
    r"(?P<words>(?: .*)?)"
)
# Of pytest and cargo: what they run.
TESTS = re.compile(
    r"(?:\.venv/bin/python -m )?pytest (?P<paths>tests/\S+)|cargo (?:test|bench) (?P<crates>-p .*?)(?: --test \w+)?"
)
PLACEHOLDER = re.compile(r"\b[A-Z]{3,}\b(?!=)|\.\.\.|\[|…")
# Run to their ends as they are written: what takes neither root nor long, on files that test_documentation.py has.
QUICK = (
    "new", "runs", "schema", "check", "plan", "report", "pack", "analyze", "compare", "export", "kernel list",
    "--version",
)  # fmt: skip


def lines() -> list[tuple[str, bool]]:
    """Lines of code blocks, without their comments, and code in the text; with whether it is a line of its own."""
    found = []
    for text in (OPTIONS, *(page.read_text() for page in PAGES)):
        fence = None
        for line in text.splitlines():
            if line.startswith("```"):
                fence = None if fence is not None else line.removeprefix("```")
                continue
            if fence in ("", "sh") or (fence is None and line.startswith("    ")):
                found.append((line.split("  #")[0].strip(), True))
            if fence is None:
                found += [(words, False) for words in re.findall(r"`([^`]+)`", line)]
    return found


LINES = lines()
COMMANDS = sorted({text for text, alone in LINES if alone and COMMAND.fullmatch(text) and not PLACEHOLDER.search(text)})
# With placeholders, or in the text.
MENTIONED = sorted({text for text, _ in LINES if NAMED.match(text)} - {*COMMANDS})
NARROWS = [command for command in COMMANDS if re.match(r"(sudo )?(\.venv/bin/)?narrows ", command)]
PROGRAMS = sorted({text for text, _ in LINES if PROGRAM.fullmatch(text)})
WHOLE_PROGRAMS = sorted(
    {text for text, alone in LINES if alone and PROGRAM.fullmatch(text) and not PLACEHOLDER.search(text)}
)
RUNNERS = sorted({text for text, _ in LINES if TESTS.fullmatch(text)})


def arguments(command: str) -> list[str]:
    """The words behind ``narrows``."""
    words = shlex.split(command)
    return words[words.index(next(word for word in words if word.endswith("narrows"))) + 1 :]
