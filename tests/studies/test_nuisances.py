# SPDX-License-Identifier: Apache-2.0
"""Runs of a study differ in seed and in what is not controlled, by setting and by repetition."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from narrows.experiment.loader import validate
from narrows.experiment.planning import make_plan
from narrows_studies.running.catalogue import find_study, study_points
from narrows_studies.running.nuisances import CARDS, MODERATIONS_US, seed_of, varied
from own_studies import STUDIES

FRAME_NS = 1514 * 8 * 10**9 / 1e9  # on the link of a host, of 1 Gbit/s; not at the bottleneck, of 100 Mbit/s
DATA: dict[str, Any] = {
    "name": "x",
    "bottleneck": {"rate": "100Mbit", "rtt": "100ms", "buffer": "1bdp"},
    "flows": [
        {"name": "long", "cca": "bbr", "duration": "9s", "rtt": "160ms"},
        {"name": "short", "cca": "cubic", "duration": "9s", "rtt": "20ms", "start": "3s"},
    ],
}


@pytest.mark.long
@pytest.mark.parametrize("study", STUDIES.values(), ids=STUDIES)
def test_no_two_runs_have_a_seed_in_common(study: Any) -> None:
    """Two buffers that never fill would be one run, counted twice."""
    for quick in (True, False):
        seeds = Counter(point.point.experiment.seed for point in study_points(study, quick))
        assert set(seeds.values()) == {1}


def test_a_run_has_its_seed_whatever_else_is_run() -> None:
    one = seed_of("a/b", {"x": "1", "y": "2"}, 1)
    assert one == seed_of("a/b", {"y": "2", "x": "1"}, 1)
    assert len({one, seed_of("a/b", {"x": "1", "y": "2"}, 2), seed_of("a/b", {"x": "1", "y": "3"}, 1)}) == 3
    assert 0 <= one < 2**32


def test_what_varies_and_how_far() -> None:
    experiment = validate(DATA, "here")
    runs = [varied(experiment, seed) for seed in range(1, 201)]
    rtts = [run.all_links["bottleneck"].rtt / 100e6 for run in runs]
    assert all(0.99 <= rtt <= 1.01 for rtt in rtts)
    # Of 200 uniform draws none being in the outer tenth on either side has a chance of 0.95 ** 200.
    assert min(rtts) < 0.991 and max(rtts) > 1.009
    for run, rtt in zip(runs, rtts, strict=True):
        # RTTs keep their proportions.
        assert run.flows[0].rtt == pytest.approx(160e6 * rtt, abs=2)
        assert run.flows[1].rtt == pytest.approx(20e6 * rtt, abs=2)
        assert 0 <= run.flows[0].start < 100e6 and 3e9 <= run.flows[1].start < 3.1e9
        assert run.hosts is not None and run.hosts.jitter is not None
        assert 0.5 * FRAME_NS - 1 <= run.hosts.jitter <= 1.5 * FRAME_NS + 1
        # What is written to the run's directory is the run.
        assert validate(yaml.safe_load(yaml.safe_dump(run.as_yaml_data())), "there") == run
    assert {run.hosts.rx_usecs for run in runs if run.hosts} == {value or None for value in MODERATIONS_US}
    assert len({run.flows[0].start for run in runs}) == 200
    # A buffer in BDP follows the RTT.
    plan = make_plan(runs[0])
    assert plan.bottleneck.limit_bytes == pytest.approx(100e6 / 8 * runs[0].all_links["bottleneck"].rtt / 1e9, abs=1)


def test_what_an_experiment_says_of_its_hosts_stays() -> None:
    data = {**DATA, "hosts": {"rx_usecs": 7}}
    assert {varied(validate(data, "here"), seed).hosts.rx_usecs for seed in range(9)} == {7}  # type: ignore[union-attr]


def test_hosts_that_cannot_vary_do_not() -> None:
    """In real time hosts have cards of their own; all else varies alike."""
    experiment = validate(DATA, "here")
    real, guest = varied(experiment, 5, ()), varied(experiment, 5)
    assert real.hosts is None
    assert (real.bottleneck, real.flows) == (guest.bottleneck, guest.flows)
    only = varied(experiment, 5, CARDS[:1]).hosts
    assert only is not None and only.rx_usecs is None and guest.hosts is not None and only.jitter == guest.hosts.jitter


def test_a_point_is_known_by_what_is_published() -> None:
    points = [one for one in study_points(find_study("zeynali2024"), quick=True) if one.experiment == "rtt-long-first"]
    assert {one.parameters["flows.short.rtt"] for one in points} == {"10ms", "80ms"}
    assert not any(Path(one.directory).name.count("us") for one in points)
