# SPDX-License-Identifier: Apache-2.0
"""Bounds come before the work: numbers that would take hours or gigabytes are refused at once."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from narrows.errors import InputError
from narrows.experiment.loader import load
from narrows.experiment.planning import make_plan
from narrows.experiment.traces.base import TraceError, number
from narrows.targets.soft.inventory import _processors
from narrows.targets.soft.target import SoftTarget

pytestmark = pytest.mark.parallel_safe
LINK = "bottleneck: {rate: 10Mbit, rtt: 20ms, buffer: 1bdp}"
DRAWN = "sizes: {pareto: {smallest: 1kB, largest: 1MB, shape: 1.5}}, gaps: {exponential: {mean: 1ms}}"
MOST_S = 10.0


@contextmanager
def soon() -> Iterator[None]:
    began = time.process_time()
    yield
    assert time.process_time() - began < MOST_S


@pytest.mark.parametrize(
    ("group", "message"),
    [
        (f"workload: {{flows: 1000000000, {DRAWN}}}", "allowed: 1000000 or less"),
        (f"workload: {{flows: 1000000, {DRAWN}}}", "makes 1000000 connections; allowed: up to 30000"),
        (f"workload: {{flows: 60002, every: 2, {DRAWN}}}", "makes 30001 connections; allowed: up to 30000"),
        ("duration: 1s, count: 1000000000", "makes 1000000000 connections; allowed: up to 30000"),
        ("size: 1kB, count: 40000, repeat: 40000", "makes 1600000000 connections; allowed: up to 30000"),
    ],
)
def test_flows_without_number_are_refused_at_once(tmp_path: Path, group: str, message: str) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(f"name: x\n{LINK}\nflows: [{{cca: cubic, {group}}}]\nexpect: ['cubic.goodput > 1Mbit']\n")
    with soon(), pytest.raises(InputError, match=message):
        make_plan(load(file))


def test_a_group_that_plays_part_of_a_large_workload_is_made(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(f"name: x\n{LINK}\nflows: [{{cca: cubic, workload: {{flows: 1000000, every: 1000, {DRAWN}}}}}]\n")
    with soon():
        (flow,) = make_plan(load(file)).flows
    assert len(flow.payload.arrivals_ns) == 1000


@pytest.mark.parametrize("word", ["64.41e400", "1e999999999", "1E-999999999", "9" * 101])
def test_a_number_of_a_trace_is_not_written_out(word: str) -> None:
    with soon(), pytest.raises(TraceError, match="too large, or too fine"):
        number(word, "line 1")
    assert number("64.41e4", "line 1") == 644_100


def test_processors_are_not_counted_to_infinity() -> None:
    with soon(), pytest.raises(ValueError, match="has a processor that no machine has"):
        _processors("0-99999999")
    assert _processors("2,4-7,8191") == "2,4-7,8191"


# In a process of its own, whose limits stay lowered.
LIMITED = """
import resource, sys
from narrows.hosts.machine import few_open_files
soft, hard = map(int, sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
print(few_open_files(), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


@pytest.mark.parametrize(
    ("soft", "hard", "said"),
    [
        (64, 64, "['only 64 files may be open at once, and runs take up to 1024; fix: a higher ulimit -Hn'] 64\n"),
        (64, 2048, "[] 2048\n"),
    ],
)
def test_a_run_has_the_open_files_that_it_takes(soft: int, hard: int, said: str) -> None:
    command = [sys.executable, "-c", LIMITED, str(soft), str(hard)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == said


@pytest.mark.parametrize("name", ["switch", "collector"])
def test_a_host_has_a_name_of_its_own(tmp_path: Path, name: str) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(f"name: x\n{LINK}\nflows: [{{cca: cubic, duration: 1s, from: {name}}}]\n")
    with pytest.raises(InputError, match=f"'{name}' is the {name}'s; allowed: two hosts with names of their own"):
        make_plan(load(file))


def test_packets_of_all_links_are_not_those_of_the_first(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    link = "{rate: 10Gbit, rtt: 10ms, buffer: 1bdp}"
    file.write_text(f"name: x\nlinks: {{a: {link}, b: {link}}}\nflows: [{{cca: cubic, duration: 1s, path: [a, b]}}]\n")
    (note,) = SoftTarget().real_time_notes(make_plan(load(file)))
    # 2 x 10 Gbit/s in frames of 1,514 B.
    assert note.startswith(
        f"links.a.rate, links.b.rate: {20_000_000_000 // (8 * 1514):,} full-size packets/s together;"
    )
