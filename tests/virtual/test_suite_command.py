# SPDX-License-Identifier: Apache-2.0
"""``narrows suite run``: every outcome that a run can have, and what goes on where runs are complete already."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from narrows.virtual import kernels
from test_in_a_guest import PATIENCE_S

pytestmark = pytest.mark.needs("guest-kernel", "narrows-softswitch", "narrows-collector", "ip")

# A link of one bandwidth-delay product, which is never above it; neither algorithm has BBR's phases.
LINK = {"rate": "10Mbit", "buffer": "1bdp", "rtt": "20ms"}
CASES = {
    "kept": ({"ccas": ["reno"]}, ["bottleneck.queue_delay_s.max <= 21ms"]),
    "missed": ({}, ["bottleneck.queue_delay_s.max > 21ms"]),
    "unseen": ({}, ["senders.tested.phase.begin_s.count[DRAIN] == 1"]),
    "absent": ({"given": ["bottleneck.loss_emulation_drops > 0"]}, ["bottleneck.utilization > 0"]),
}


def suite(place: Path) -> Path:
    place.mkdir()
    document = {"title": "T", "url": "https://x.org/{section}", "sections": {"1": "One"}}
    cases = {name: {"tests": ["t#1"], "says": "x", "rule": "y", **more} for name, (more, _) in CASES.items()}
    text = {"title": "t", "ccas": ["reno"], "documents": {"t": document}, "cases": cases}
    (place / "suite.yaml").write_text(yaml.safe_dump(text))
    for name, (_, expect) in CASES.items():
        flow = {"name": "tested", "cca": "reno", "duration": "1s"}
        experiment = {"name": name, "bottleneck": LINK, "flows": [flow], "expect": expect}
        (place / f"{name}.yaml").write_text(yaml.safe_dump(experiment))
    return place


def run(tmp_path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    words = ["suite", "run", str(tmp_path / "mine"), "--kernel", kernels.installed()[0].name]
    words += ["--out", str(tmp_path / "out"), "--junit", str(tmp_path / "junit.xml"), *options]
    command = [sys.executable, "-c", "import narrows.cli; narrows.cli.main()", *words]
    return subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S * 6,
        env={**os.environ, "COLUMNS": "80"},
    )


@pytest.mark.long
def test_a_matrix_of_two_congestion_controls_and_what_goes_on(tmp_path: Path) -> None:
    suite(tmp_path / "mine")
    kernel = kernels.installed()[0].name
    first = run(tmp_path, "--cca", "reno", "--cca", "cubic", "--json")
    assert first.returncode == 1, first.stderr
    assert "7 runs to make" in first.stderr
    found = {(cell["case"], cell["sender"]): cell["outcome"] for cell in json.loads(first.stdout)["cells"]}
    both = {"kept": ("pass", "not applicable"), "missed": ("fail",) * 2, "unseen": ("not observable",) * 2}
    both["absent"] = ("undecided",) * 2
    senders = (f"reno@{kernel}", f"cubic@{kernel}")
    assert found == {
        (case, sender): one for case, those in both.items() for sender, one in zip(senders, those, strict=True)
    }
    for name in ("report.html", "matrix.json", "badge.svg", f"reno@{kernel}/kept/summary.json"):
        assert (tmp_path / "out" / name).is_file(), name
    shutil.rmtree(tmp_path / "out" / f"cubic@{kernel}" / "missed")
    again = run(tmp_path, "--cca", "reno", "--cca", "cubic", "--json")
    assert "1 runs to make" in again.stderr
    assert json.loads(again.stdout)["cells"] == json.loads(first.stdout)["cells"]


SERVER = """\
import socket, sys
listening = socket.create_server((sys.argv[1], int(sys.argv[2])))
while True:
    taken, _ = listening.accept()
    try:
        while True:
            taken.sendall(bytes(1 << 16))
    except OSError:
        pass
"""
CLIENT = """\
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as opened:
    while opened.recv(1 << 16):
        pass
"""


@pytest.mark.long
def test_a_program_is_tested_as_a_congestion_control_is(tmp_path: Path) -> None:
    """TCP of its own, that fills the link: what is of the queue is judged, and what is of its socket is not there."""
    suite(tmp_path / "mine")
    program = tmp_path / "tcp.yaml"

    def write(client: str) -> None:
        codes = {"client": client, "server": SERVER}
        program.write_text(
            yaml.safe_dump({role: ["python3", "-c", code, "{server}", "{port}"] for role, code in codes.items()})
        )

    write(CLIENT)
    ended = run(tmp_path, "--program", str(program), "--json")
    assert ended.returncode == 1, ended.stderr
    matrix = json.loads(ended.stdout)
    assert [one["name"] for one in matrix["senders"]] == [f"tcp@{kernels.installed()[0].name}"]
    assert {cell["case"]: cell["outcome"] for cell in matrix["cells"]} == {
        "kept": "not applicable", "missed": "fail", "unseen": "not observable", "absent": "undecided",
    }  # fmt: skip
    # One that ends after a tenth of its second is not judged by what happened without it.
    shutil.rmtree(tmp_path / "out")
    write(CLIENT.replace("while opened.recv(1 << 16)", "if opened.recv(1 << 16)"))
    early = json.loads(run(tmp_path, "--program", str(program), "--json", "--case", "missed").stdout)
    (cell,) = early["cells"]
    assert cell["outcome"] == "undecided" and "tested-1's client ended after 0.0" in cell["reason"]
    twice = run(tmp_path, "--program", str(program), "--program", str(program))
    assert twice.returncode == 2 and "two senders are called 'tcp'" in twice.stderr


def test_what_no_kernel_has_is_refused_before_any_run(tmp_path: Path) -> None:
    suite(tmp_path / "mine")
    refused = run(tmp_path, "--cca", "nonesuch")
    assert refused.returncode == 2
    assert "--cca nonesuch: no kernel that is asked for has it; allowed: reno" in refused.stderr
    unknown = run(tmp_path, "--case", "keept")
    assert unknown.returncode == 2
    assert "has no case 'keept', did you mean 'kept'?" in unknown.stderr
    (tmp_path / "mine.yaml").write_text("client: [nonesuch]\n")
    program = run(tmp_path, "--program", str(tmp_path / "mine.yaml"))
    assert program.returncode == 2
    said = f"mine@{kernels.installed()[0].name}/absent: flows.0.client: 'nonesuch' is not there"
    assert said in program.stderr
    assert not (tmp_path / "out").exists()
