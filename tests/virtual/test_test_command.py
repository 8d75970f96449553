# SPDX-License-Identifier: Apache-2.0
"""``narrows test`` in virtual time: green, red, and refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from narrows.virtual import kernels
from needs import CHANGED_KERNEL
from test_in_a_guest import PATIENCE_S

pytestmark = pytest.mark.needs("guest-kernel", "narrows-softswitch", "narrows-collector", "ip")

GUARD = Path(__file__).parents[2] / "experiments" / "guard" / "cubic.yaml"
# A link of one bandwidth-delay product: never above it, and busy all the time but for the first round trips.
TEXT = """\
name: guard
bottleneck: {rate: 10Mbit, buffer: 1bdp, rtt: 20ms}
flows: [{cca: cubic, duration: 2s}]
expect:
  - bottleneck.queue_delay_s.max <= 21ms
  - bottleneck.utilization > 90%
  - telemetry.lost == 0
"""


def narrows(tmp_path: Path, text: str, *options: str, kernel: str | None = None) -> subprocess.CompletedProcess[str]:
    file = tmp_path / "guard.yaml"
    file.write_text(text)
    chosen = kernel or kernels.installed()[0].name
    words = ["test", str(file), "--virtual", "--kernel", chosen, "--out", str(tmp_path / "out")]
    command = [sys.executable, "-c", "import narrows.cli; narrows.cli.main()", *words, *options]
    return subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=PATIENCE_S, env={**os.environ, "COLUMNS": "80"}
    )


@pytest.mark.long
def test_green_and_red(tmp_path: Path) -> None:
    (tmp_path / "green").mkdir()
    green = narrows(tmp_path / "green", TEXT, "--junit", str(tmp_path / "junit.xml"))
    assert green.returncode == 0, green.stderr
    assert [line.split(": ")[1].split()[0] for line in green.stdout.splitlines()[:3]] == ["pass"] * 3
    (suite,) = ET.parse(tmp_path / "junit.xml").getroot().findall("testsuite")
    assert (suite.get("tests"), suite.get("failures")) == ("3", "0")
    (tmp_path / "red").mkdir()
    red = narrows(tmp_path / "red", TEXT.replace("> 90%", "< 90%"), "--json", "--quiet")
    assert (red.returncode, red.stderr) == (1, "") and green.stderr
    (found,) = json.loads(red.stdout)
    assert [one["passed"] for one in found["expectations"]] == [True, False, True]


def test_a_file_that_expects_nothing_is_refused(tmp_path: Path) -> None:
    refused = narrows(tmp_path, TEXT.partition("expect")[0])
    assert refused.returncode == 2
    assert "has no expect" in refused.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.long
@pytest.mark.needs("default-kernel", "changed-kernel")
@pytest.mark.parametrize(("kernel", "failures", "code"), [(kernels.DEFAULT, [], 0), (CHANGED_KERNEL, ["< 90%"], 1)])
def test_a_constant_that_is_changed_in_the_kernel_turns_it_red(
    tmp_path: Path, kernel: str, failures: list[str], code: int
) -> None:
    """CUBIC's factor after a loss is 0.7, or 0.88; the file says what follows from each."""
    junit = tmp_path / "junit.xml"
    done = narrows(tmp_path, GUARD.read_text(), "--junit", str(junit), kernel=kernel)
    assert done.returncode == code, done.stderr
    cases = ET.parse(junit).getroot().findall("testsuite/testcase")
    assert [case.get("name", "").partition(" ")[2] for case in cases if case.find("failure") is not None] == failures
