# SPDX-License-Identifier: Apache-2.0
"""Writes requirements/*.txt: each Python package that set-up installs, with its version and the digests of its files.

``make lock``, with network. Versions that are there stay where pyproject.toml allows; ``--upgrade`` takes the newest.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLACE = ROOT / "requirements"
# Purposes of scripts/setup.sh, each after those that it includes, and the extras that they need.
PURPOSES = {"run": "build", "ptf": "build,ptf", "docs": "build,docs", "test": "dev"}
SHELL = ROOT / "tests" / "softswitch" / "clients" / "p4runtime-shell.txt"
HEAD = "# Made by `make lock`; see scripts/lock.py.\n"
# Builds our own package, and installs all the others.
TOOLS = "setuptools>=77\nuv\n"


def compiled(requirements: str, *options: str, seed: str = "") -> dict[str, str]:
    """The blocks of a lock file by the names of their packages.

    Args:
        requirements: as in a requirements file.
        options: further ones of ``uv pip compile``.
        seed: a lock file, whose versions are kept where they fit.
    """
    out = PLACE / ".compiled"
    out.write_text(seed, encoding="utf-8")
    words = [str(Path(sys.executable).with_name("uv")), "pip", "compile", "--quiet", "--universal", "--no-header"]
    words += [
        "--no-annotate",
        "--no-emit-index-url",
        "--no-emit-find-links",
        "--python-version",
        "3.11",
        "-o",
        str(out),
    ]
    try:
        subprocess.run([*words, *options, "-"], input=requirements, cwd=ROOT, text=True, check=True)
        # Of the project itself (``.``) nothing is downloaded.
        text = re.sub(r"^\.\n", "", out.read_text(encoding="utf-8"), flags=re.MULTILINE)
    finally:
        out.unlink()
    blocks: dict[str, str] = {}
    for block in re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)[1:]:
        name = re.match(r"[\w.-]+", block)[0]  # type: ignore[index]
        blocks[name] = blocks.get(name, "") + block
    return blocks


def main(options: list[str]) -> None:
    """Write all of them."""
    PLACE.mkdir(exist_ok=True)
    shell = PLACE / "p4runtime-shell.txt"
    before = "".join(path.read_text(encoding="utf-8") for path in sorted(PLACE.glob("*.txt")) if path != shell)
    everything = compiled(f".[dev]\n{TOOLS}", "--generate-hashes", *options, seed=before)
    pinned = PLACE / ".pinned"
    pinned.write_text("".join(re.sub(r" \\\n.*", "\n", block, flags=re.DOTALL) for block in everything.values()))
    try:
        needed = {
            purpose: compiled(f".[{extras}]\n{TOOLS}", "--constraint", str(pinned)).keys()
            for purpose, extras in PURPOSES.items()
        }
    finally:
        pinned.unlink()
    # Each is in one file: what two purposes have in common, of which neither includes the other, is in the first.
    own = {"run": needed["run"] | (needed["ptf"] & needed["docs"])}
    own |= {purpose: needed[purpose] - own["run"] for purpose in ("ptf", "docs")}
    own["test"] = needed["test"] - own["run"] - own["ptf"] - own["docs"]
    for purpose, names in own.items():
        text = "".join(block for name, block in everything.items() if name in names)
        (PLACE / f"{purpose}.txt").write_text(HEAD + text, encoding="utf-8")
    known = shell.read_text(encoding="utf-8") if shell.exists() else ""
    blocks = compiled(SHELL.read_text(encoding="utf-8"), "--generate-hashes", *options, seed=known)
    shell.write_text(HEAD + "".join(blocks.values()), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
