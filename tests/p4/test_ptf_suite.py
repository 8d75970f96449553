# SPDX-License-Identifier: Apache-2.0
"""The data-plane suite's own promises that need no switch: its list of faults, its reference, and its leftovers."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from narrows.hosts.links import remove_namespace

REPOSITORY = Path(__file__).resolve().parents[2]
SUITE = REPOSITORY / "ptf-tests"
sys.path.insert(0, str(SUITE))

import expected  # noqa: E402
import frames  # noqa: E402
import lab  # noqa: E402
from mutations import MUTATIONS  # noqa: E402


def case_names() -> set[str]:
    """Module and class of every case."""
    return {
        f"{path.stem}.{name}"
        for path in (SUITE / "cases").glob("*.py")
        for name in re.findall(r"^class (\w+)\(.*?(?:\n\n\n|\Z)", path.read_text(), re.MULTILINE | re.DOTALL)
    }


def test_every_fault_still_fits_the_sources_and_names_a_case() -> None:
    cases = case_names()
    assert len(MUTATIONS) >= 15
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS)
    for mutation in MUTATIONS:
        source = (REPOSITORY / "p4src" / mutation.file).read_text()
        assert source.count(mutation.old) == 1, mutation.name
        assert mutation.case in cases, mutation.name


def test_the_readme_lists_the_faults() -> None:
    listed = re.findall(r"^\| (.+) \| `(\w+\.\w+)` \|$", (SUITE / "README.md").read_text(), re.MULTILINE)
    assert listed == [(mutation.name, mutation.case) for mutation in MUTATIONS]


def test_the_reference_knows_published_values() -> None:
    """Bins by hand, and a worked example of the Internet checksum."""
    assert [expected.delay_bin(delay) for delay in (0, 3, 4, 7, 8, 9, 10, 15, 16, 2**32 - 1)] == [
        *(0, 3, 4, 7, 8, 8, 9, 11, 12, 123)
    ]
    header = bytes.fromhex("45000073000040004011b861c0a80001c0a800c7")
    assert expected.ipv4_checksum(header) == 0xB861


@pytest.mark.parametrize("ecn", range(4))
def test_the_references_marks_have_a_right_checksum(ecn: int) -> None:
    frame = frames.ipv4(ecn=ecn)
    marked = expected.congestion_marked(frame)
    assert expected.ones_complement_sum(expected.ipv4_header(marked)) == 0xFFFF
    assert marked[15] & 3 == (3 if ecn in (1, 2) else ecn)
    assert expected.congestion_marked(marked) == marked


def test_an_unknown_target_is_refused() -> None:
    command = [sys.executable, str(SUITE / "run.py"), "--target", "abacus"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "choose from" in done.stderr and "soft" in done.stderr


def own_namespaces(pid: int) -> list[str]:
    """Namespaces of a run."""
    return [path.name for path in Path("/run/netns").glob(f"{lab.PREFIX}{pid}-*")]


@pytest.mark.needs("root")
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_nothing(stop: signal.Signals, tmp_path: Path) -> None:
    command = [sys.executable, str(SUITE / "run.py"), "--target", "soft", "--case", "queueing"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as run:
        deadline = time.monotonic() + 20
        children: list[str] = []
        while len(children) < 2 and time.monotonic() < deadline:
            time.sleep(0.1)
            for name in own_namespaces(run.pid):
                listed = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=False)
                children = listed.stdout.split()
        assert len(children) >= 2, "switch and suite did not start"
        run.send_signal(stop)
        _, errors = run.communicate(timeout=20)
    assert run.returncode == 130
    assert "interrupted" in errors
    assert own_namespaces(run.pid) == []
    assert not [pid for pid in children if Path(f"/proc/{pid}").exists()]


@pytest.mark.needs("root")
def test_the_next_run_removes_what_a_killed_one_left() -> None:
    # No process has this id: it is above what Linux gives out.
    dead = f"{lab.PREFIX}{2**22 + 1}-soft"
    subprocess.run(["ip", "netns", "add", dead], check=True)
    try:
        assert dead in lab.leftovers()
        remove_namespace(dead)
        assert dead not in lab.leftovers()
        assert not (Path("/run/netns") / dead).exists()
    finally:
        subprocess.run(["ip", "netns", "delete", dead], check=False, capture_output=True)
