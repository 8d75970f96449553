# SPDX-License-Identifier: Apache-2.0
"""What a run gives to other programs: captured links as pcapng, results on standard output and nothing else there."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from narrows.virtual import kernels
from narrows_formats.programs import COLLECTOR
from scapy.utils import RawPcapNgReader

pytestmark = pytest.mark.needs("guest-kernel", "narrows-softswitch", COLLECTOR, "ip")
# Frames of 1250 bytes, which 8 Mbit/s carry in 1.25 ms, a quarter more of them than that.
FRAME, PER_FRAME_NS, BUFFER = 1250, 1_250_000, 30_000
TEXT = """\
name: captured
links:
  access: {rate: 100Mbit, buffer: 1bdp, rtt: 20ms}
  core: {rate: 8Mbit, buffer: 30000B, rtt: 20ms, capture: true}
flows: [{udp: {rate: 10Mbit, payload: 1208B}, duration: 1s, path: [access, core]}]
"""


def run(place: Path, *options: str) -> subprocess.CompletedProcess[str]:
    (place / "x.yaml").write_text(TEXT)
    command = (
        Path(sys.executable).with_name("narrows"),
        "run",
        "x.yaml",
        "--virtual",
        "--kernel",
        kernels.installed()[0].name,
    )
    return subprocess.run((*command, *options), cwd=place, capture_output=True, text=True, timeout=240, check=False)


def packets(path: Path) -> list[tuple[str, int, int, str]]:
    """Interface, time (ns), length and comment of each, as scapy reads them."""
    found = []
    with RawPcapNgReader(str(path)) as reader:
        read: Any = reader
        for _, meta in read:
            time_ns = ((meta.tshigh << 32) + meta.tslow) * 10**9 // meta.tsresol
            comment = b"; ".join(getattr(meta, "comments", None) or [getattr(meta, "comment", None) or b""]).decode()
            found.append((meta.ifname.decode(), time_ns, meta.wirelen, comment))
    return found


@pytest.mark.long
def test_json_is_all_of_standard_output_and_a_captured_link_is_a_file(tmp_path: Path) -> None:
    made = run(tmp_path, "--json", "--out", "out")
    assert made.returncode == 0, made.stderr
    (outcome,) = json.loads(made.stdout)
    assert outcome["status"] == "complete" and outcome["reason"] is None
    assert outcome["summary"] == json.loads((tmp_path / "out" / "summary.json").read_text())
    assert "analysing" in made.stderr and "summary" not in made.stderr

    assert [path.name for path in (tmp_path / "out" / "captures").iterdir()] == ["core.pcapng"]
    found = packets(tmp_path / "out" / "captures" / "core.pcapng")
    before, behind = ([one for one in found if one[0] == f"core {side}"] for side in ("in", "out"))
    assert len(before) == len(behind) == len(found) / 2 > 700
    assert {length for _, _, length, _ in found} == {FRAME}
    waited = [out[1] - into[1] for into, out in zip(before, behind, strict=True)]
    # The queue, and the frame in service.
    assert min(waited) >= 0 and BUFFER * 8 * 125 - 2 * PER_FRAME_NS < max(waited) <= BUFFER * 8 * 125 + PER_FRAME_NS
    # From the first drop on the link is never idle.
    first = next(number for number, (_, _, _, comment) in enumerate(before) if "dropped by the queue" in comment)
    gaps = [after[1] - one[1] for one, after in zip(behind[first:], behind[first + 1 :], strict=False)]
    assert len(gaps) > 500 and {abs(gap - PER_FRAME_NS) <= 1 for gap in gaps} == {True}
    named = [re.match(r"(\d+) dropped by the queue", comment) for _, _, _, comment in before]
    drops = sum(int(one[1]) for one in named if one)
    (flow,) = outcome["summary"]["flows"]
    assert 0 < drops <= flow["drops"] <= drops + 2 and len(behind) == flow["departures"]

    subprocess.run(
        [Path(sys.executable).with_name("narrows"), "export", "out", "--csv", "tables"],
        cwd=tmp_path, check=True, capture_output=True,
    )  # fmt: skip
    table = pd.read_csv(tmp_path / "tables" / "drops.csv")
    assert len(table) == flow["drops"] and set(table["link"]) == {"core"} and set(table["cause"]) == {"full queue"}
    assert set(table["name"]) == {flow["name"]} and set(table["packet_bytes"]) == {FRAME}


@pytest.mark.long
def test_quiet_is_without_progress_and_an_error_is_on_standard_error(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    made = run(tmp_path, "--json", "--out", "out")
    assert (made.returncode, made.stdout) == (2, "") and "exists already" in made.stderr
    made = run(tmp_path, "--quiet", "--out", "again")
    assert made.returncode == 0 and made.stderr == ""
    assert str(Path("again") / "report.html") in made.stdout and "analysing" not in made.stdout
