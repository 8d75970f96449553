# SPDX-License-Identifier: Apache-2.0
"""Bounds come before the work: numbers that would take hours or gigabytes are refused at once."""

from __future__ import annotations

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
    assert len(flow.arrivals) == 1000


@pytest.mark.parametrize("word", ["64.41e400", "1e999999999", "1E-999999999", "9" * 101])
def test_a_number_of_a_trace_is_not_written_out(word: str) -> None:
    with soon(), pytest.raises(TraceError, match="too large, or too fine"):
        number(word, "line 1")
    assert number("64.41e4", "line 1") == 644_100


def test_processors_are_not_counted_to_infinity() -> None:
    with soon(), pytest.raises(ValueError, match="has a processor that no machine has"):
        _processors("0-99999999")
    assert _processors("2,4-7,8191") == "2,4-7,8191"
