# SPDX-License-Identifier: Apache-2.0
"""Compiles the test programs beside it into ``compiled/`` and records what they were compiled from.

``compile_programs.py`` needs p4c-bm2-ss. ``stale`` tells, without a compiler, whether the committed files belong to
the sources.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
COMPILED = FOLDER / "compiled"
RECORD = COMPILED / "digest.json"
PROGRAMS = ("conformance", "packet_io", "unsupported")


def artifacts(program: str) -> tuple[Path, Path]:
    """P4Info in text form and BMv2 JSON of a test program."""
    return COMPILED / f"{program}.p4info.txtpb", COMPILED / f"{program}.json"


def digests() -> dict[str, str]:
    """SHA-256 of each source and of what it was compiled to, by path relative to this folder."""
    files = [path for program in PROGRAMS for path in (FOLDER / f"{program}.p4", *artifacts(program))]
    return {str(path.relative_to(FOLDER)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def stale() -> list[str]:
    """Files that are not those that were last compiled; empty when all belong together."""
    recorded: dict[str, str] = json.loads(RECORD.read_text())
    found = digests()
    return sorted(name for name in found.keys() | recorded.keys() if found.get(name) != recorded.get(name))


def main() -> int:
    """Compile all; returns the exit code."""
    COMPILED.mkdir(exist_ok=True)
    for program in PROGRAMS:
        p4info, device_config = artifacts(program)
        # Inside the folder, so that no path of this machine gets into the output.
        command: list[str | Path] = [
            "p4c-bm2-ss",
            "--std",
            "p4-16",
            "-o",
            device_config,
            "--p4runtime-files",
            p4info,
            f"{program}.p4",
        ]
        if subprocess.run(command, cwd=FOLDER, check=False).returncode != 0:
            return 1
        # As p4src/build.py keeps them: indented, they would have more lines than their sources.
        device_config.write_text(json.dumps(json.loads(device_config.read_text()), separators=(",", ":")) + "\n")
    RECORD.write_text(json.dumps(digests(), indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
