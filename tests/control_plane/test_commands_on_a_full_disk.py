# SPDX-License-Identifier: Apache-2.0
"""What a command writes may not fit on the disk: one message, exit code 1, and what was there before."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from narrows_analysis import analyze_run, write_report
from narrows_formats.file_digest import file_digest

SEED = sorted((Path(__file__).parents[1] / "formats").glob("*/run"))[-1]
NARROWS = Path(sys.executable).with_name("narrows")
SIZE_MB = 8

pytestmark = pytest.mark.needs("root", "mount", "narrows-collector")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small one with two runs."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE_MB}m", "none", disk], check=True)
    try:
        for name in ("a", "b"):
            shutil.copytree(SEED, disk / name)
            analyze_run(disk / name)
            write_report(disk / name)
        yield disk
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


@pytest.mark.parametrize(
    "command", ["report a", "analyze a", "pack a --out a.tar.gz", "new x.yaml", "compare a b --out c"]
)
def test_what_does_not_fit_is_one_message(disk: Path, command: str) -> None:
    # Nothing of it is left, not even what an empty directory takes.
    with pytest.raises(OSError, match="No space"), (disk / "fill").open("wb", buffering=0) as fill:
        while True:
            fill.write(b"x" * 4096)
    before = {path: file_digest(path) for path in disk.rglob("*") if path.is_file()}
    done = subprocess.run([NARROWS, *command.split()], cwd=disk, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1, done.stderr
    (said,) = done.stderr.splitlines()
    assert said.startswith("narrows: ") and said.endswith("cannot be written: No space left on device")
    assert {path: file_digest(path) for path in disk.rglob("*") if path.is_file()} == before
