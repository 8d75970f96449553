# SPDX-License-Identifier: Apache-2.0
"""A run in virtual time on a disk that becomes full: a guest writes to its memory first, so it learns that late."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from narrows.errors import EXIT_FAILED
from narrows_analysis import load
from test_in_a_guest import PATIENCE_S, start

pytestmark = pytest.mark.needs("root", "guest-kernel", "narrows-softswitch", "narrows-collector", "ip")

DISK_KIB = 2_300
# 16,513 frames of 1,514 B a second: half a million reports, which take more than the disk has beside its reserve.
TEXT = "name: full\nbottleneck: {rate: 200Mbit, buffer: 1bdp, rtt: 20ms}\nflows: [{cca: cubic, duration: 30s}]\n"


@pytest.mark.fault("disk full", "traffic", "virtual")
def test_a_disk_that_becomes_full_keeps_what_was_stored_before(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_KIB}k", "tmpfs", str(disk)], check=True)
    try:
        process = start(tmp_path, TEXT, options=["--out", str(disk / "result")])
        assert process.wait(PATIENCE_S) == EXIT_FAILED, (tmp_path / "said").read_text()
        said = (tmp_path / "said").read_text()
        assert "Traceback" not in said and "no space left" in said.lower()
        record = json.loads((disk / "result" / "run.json").read_text())
        assert record["status"] == "failed" and "no space left" in record["reason"].lower()
        assert [path.name for path in disk.iterdir()] == ["result"]
        run = load(disk / "result")
        reports = run.reports()
        # They are all there until the disk was full.
        assert len(reports) > 100_000
        assert reports["sequence"].diff().iloc[1:].eq(1).all()
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)
