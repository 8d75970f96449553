# SPDX-License-Identifier: Apache-2.0
"""Prose of pages for readers: proselint's checks (proselint.json), and words that scripts/words.txt does not want.

Usage: .venv/bin/python scripts/prose.py; exit code 1 where something is found. Studies and the changelog are left out:
they say what was.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY", "CODE_OF_CONDUCT")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "tutorials").glob("*.md")),
    *(ROOT / name / "README.md" for name in ("softswitch", "benchmarks", "ptf-tests", "deploy", "bmv2")),
]
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)


def words() -> dict[str, str]:
    """Words that are not wanted, and what to write."""
    lines = (ROOT / "scripts" / "words.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split(" -> ", 1) for line in lines if line and not line.startswith("#"))


def unwanted(text: str) -> Iterator[tuple[int, str]]:
    """Line and message of each word in a page that is not wanted; code is not prose."""
    # As many lines as before, so that numbers stay.
    prose = CODE.sub(lambda code: re.sub(r"[^\n]", " ", code[0]), text)
    for word, better in words().items():
        pattern = r"\s+".join(map(re.escape, word.split()))
        for found in re.finditer(rf"\b{pattern}\b", prose, re.IGNORECASE):
            yield prose.count("\n", 0, found.start()) + 1, f"'{word}'; better: {better}"


def main() -> int:
    """Returns the exit code."""
    lines = [
        f"{page.relative_to(ROOT)}:{line}: {message}"
        for page in PAGES
        for line, message in unwanted(page.read_text(encoding="utf-8"))
    ]
    print("".join(f"{line}\n" for line in lines), end="")
    proselint = Path(sys.executable).with_name("proselint")
    command = [proselint, "check", "--config", ROOT / "proselint.json", *PAGES]
    return 1 if subprocess.run(command, check=False).returncode or lines else 0


if __name__ == "__main__":
    sys.exit(main())
