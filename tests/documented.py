# SPDX-License-Identifier: Apache-2.0
"""The commands that README and docs show."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMAND = re.compile(r"(?:sudo )?(?:(?:\.venv/bin/)?narrows [a-z-]|make [a-z]|scripts/\S+)[^,#]*")
NAMED = re.compile(r"(?:sudo )?(?:\.venv/bin/)?narrows [a-z-]")
PLACEHOLDER = re.compile(r"\b[A-Z]{3,}\b|\.\.\.|\[|…")
# Run to their ends as they are written: what takes neither root nor long, on files that test_documentation.py has.
QUICK = (
    "new", "runs", "schema", "check", "plan", "report", "analyze", "compare", "export", "kernel list", "--version",
)  # fmt: skip


def commands() -> tuple[list[str], list[str]]:
    """Lines of code blocks that are commands, as written; and what else names one, with placeholders or in text."""
    whole, named = set(), set()
    for page in PAGES:
        fence = None
        for line in page.read_text().splitlines():
            if line.startswith("```"):
                fence = None if fence is not None else line.removeprefix("```")
                continue
            text = line.split("  #")[0].strip()
            in_code = fence in ("", "sh") or (fence is None and line.startswith("    "))
            if in_code and COMMAND.fullmatch(text) and not PLACEHOLDER.search(text):
                whole.add(text)
            elif fence == "sh" and NAMED.match(text):
                named.add(text)
            elif fence is None:
                named |= {words for words in re.findall(r"`([^`]+)`", line) if NAMED.match(words)}
    return sorted(whole), sorted(named)


COMMANDS, MENTIONED = commands()
NARROWS = [command for command in COMMANDS if re.match(r"(sudo )?(\.venv/bin/)?narrows ", command)]


def arguments(command: str) -> list[str]:
    """The words behind ``narrows``."""
    words = shlex.split(command)
    return words[words.index(next(word for word in words if word.endswith("narrows"))) + 1 :]
