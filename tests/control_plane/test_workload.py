# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
import math
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from narrows.errors import InputError
from narrows.experiment.lines import with_line
from narrows.experiment.loader import load
from narrows.experiment.planning import make_plan
from narrows.experiment.sweep import load_series
from narrows.flows.cdf import interpolate
from narrows.flows.workload import Gaps, Pareto, Sizes, Workload, WorkloadGroup
from narrows.traffic.tcp import specify

PARETO: dict[str, Any] = {"pareto": {"shape": 1.2, "smallest": "1kB", "largest": "10MB"}}
LOGNORMAL: dict[str, Any] = {"lognormal": {"median": "50ms", "sigma": 1.0}}
WORKLOAD: dict[str, Any] = {"flows": 400, "sizes": PARETO, "gaps": LOGNORMAL}
BASE: dict[str, Any] = {"name": "test", "bottleneck": {"rate": "100Mbit", "rtt": "40ms", "buffer": "1bdp"}}


def write(path: Path, *flows: dict[str, Any], **changes: Any) -> Path:
    file = path / "experiment.yaml"
    file.write_text(yaml.safe_dump({**BASE, "flows": list(flows), **changes}))
    return file


def workload(**changes: Any) -> Workload:
    return Workload.model_validate({**WORKLOAD, **changes})


def arrivals(drawn: Workload, seed: int) -> list[tuple[int, int]]:
    """Start in nanoseconds and size of each flow."""
    payload = drawn.payload(seed)
    return list(zip(payload.arrivals_ns, payload.sizes, strict=True))


def test_a_seed_fixes_the_flows() -> None:
    assert arrivals(workload(), 7) == arrivals(workload(), 7) != arrivals(workload(), 8)
    assert arrivals(workload(seed=7), 1) == arrivals(workload(seed=7), 2) == arrivals(workload(), 7)


def test_groups_can_share_a_workload() -> None:
    whole = arrivals(workload(seed=3), 0)
    parts = [arrivals(workload(seed=3, every=3, offset=offset), 0) for offset in range(3)]
    assert sorted(flow for part in parts for flow in part) == whole
    assert parts[1] == whole[1::3]


@given(st.floats(0, 1, exclude_max=True))
def test_pareto_stays_in_its_bounds(fraction: float) -> None:
    size = Pareto.model_validate(PARETO["pareto"]).quantile(fraction)
    assert 1000 <= size <= 10_000_000 * (1 + 1e-9)


def test_distributions_are_what_they_say() -> None:
    flows = arrivals(workload(flows=20_000), 1)
    sizes = sorted(size for _, size in flows)
    # Median of a Pareto distribution of exponent a: smallest x 2^(1/a); the bound is far away.
    assert sizes[10_000] == pytest.approx(1000 * 2 ** (1 / 1.2), rel=0.03)
    assert sum(size > 10_000 for size in sizes) / 20_000 == pytest.approx(10**-1.2, rel=0.1)
    gaps = sorted(second - first for (first, _), (second, _) in itertools.pairwise(flows))
    assert gaps[10_000] == pytest.approx(50e6, rel=0.04)
    assert gaps[round(0.8413 * 20_000)] == pytest.approx(50e6 * 2.71828, rel=0.06)


def test_a_distribution_is_interpolated_between_its_points() -> None:
    points = ((100.0, 0.5), (1000.0, 1.0))
    assert [interpolate(points, fraction) for fraction in (0.1, 0.5, 0.75, 1.0)] == [100, 100, 550, 1000]
    assert Sizes(cdf=points).draw(0.75) == 550
    assert Gaps(cdf=((0.1, 1.0),)).draw(0.3) == 100_000_000


def test_gaps_of_a_poisson_process_are_exponential() -> None:
    """Kolmogorov and Smirnov: n gaps of the distribution differ by more than 1.95 / sqrt(n) once in a thousand."""
    number, mean_s = 4000, 0.05
    flows = arrivals(workload(flows=number + 1, gaps={"exponential": {"mean": "50ms"}}), 5)
    gaps_s = sorted((second - first) / 1e9 for (first, _), (second, _) in itertools.pairwise(flows))
    expected = [1 - math.exp(-gap / mean_s) for gap in gaps_s]
    greatest = max(max(n / number - f, f - (n - 1) / number) for n, f in enumerate(expected, 1))
    assert greatest < 1.95 / math.sqrt(number)


def test_a_distribution_may_be_in_percent_and_may_jump() -> None:
    jump = ((1000, 20), (1000, 60), (3000, 60), (5000, 100))
    sizes = Sizes.model_validate({"cdf": jump})
    assert sizes.cdf == ((1000, 0.2), (1000, 0.6), (3000, 0.6), (5000, 1))
    # 60 % are of 1000 bytes, none between that and 3000, and the rest even up to 5000.
    assert [sizes.draw(fraction) for fraction in (0.01, 0.3, 0.6, 0.8, 1.0)] == [1000, 1000, 1000, 4000, 5000]
    assert sizes.draw(0.6000001) == 3000


def test_a_pair_that_is_wrong_is_named() -> None:
    with pytest.raises(ValueError, match="is not a cumulative distribution: pair 3 has a smaller value than the pair"):
        Sizes.model_validate({"cdf": [[1, 0.1], [20, 0.5], [3, 1]]})


def test_a_distribution_can_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "sizes.txt").write_text("# bytes fraction\n100 0.5\n\n1000 1  # all\n")
    flow = {"cca": "cubic", "workload": {**WORKLOAD, "sizes": {"cdf": "sizes.txt"}}}
    point = load_series(write(tmp_path, flow)).points[0].experiment
    (group,) = point.flows
    assert isinstance(group, WorkloadGroup)
    assert group.workload.sizes.cdf == ((100, 0.5), (1000, 1))
    # The resolved experiment needs the file no more.
    (tmp_path / "sizes.txt").unlink()
    (tmp_path / "again.yaml").write_text(yaml.safe_dump(point.as_yaml_data()))
    assert load(tmp_path / "again.yaml") == point


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read: No such file or directory"),
        ("100 0.5\n1000\n", "sizes.txt:2: is not two numbers"),
        ("100 0.5\n1000 0.9\n", "sizes.txt:2: is the last pair, and its fraction is neither 1 nor 100 (percent)"),
        ("# bytes\n1000 0.5\n\n100 1\n", "sizes.txt:4: has a smaller value than the pair before it"),
        ("1000 50\n2000 20\n3000 100\n", "sizes.txt:2: has a smaller fraction than the pair before it"),
        ("1000 0.5\nnan 1\n", "sizes.txt:2: has a value or a fraction that is negative, or no number"),
        ("1000 0.5\ninf 1\n", "sizes.txt:2: has a value or a fraction that is negative, or no number"),
        ("-1 0.5\n10 1\n", "sizes.txt:1: has a value or a fraction that is negative, or no number"),
        ("# nothing\n", "sizes.txt:1: has no pair"),
    ],
)
def test_a_bad_file_is_refused(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / "sizes.txt").write_text(content)
    flow = {"cca": "cubic", "workload": {**WORKLOAD, "sizes": {"cdf": "sizes.txt"}}}
    with pytest.raises(InputError) as caught:
        load(write(tmp_path, flow))
    assert message in str(caught.value)
    assert "flows.0.workload.sizes.cdf: " in str(caught.value)
    assert re.match(r".*/experiment\.yaml:\d+: flows", with_line(str(caught.value)))
    assert "pairs of value and fraction" in str(caught.value)


@pytest.mark.parametrize(
    ("flow", "message"),
    [
        ({"workload": WORKLOAD, "duration": "5s"}, "workload beside duration or size"),
        ({"workload": {**WORKLOAD, "offset": 1}}, "plays no flow"),
        ({"workload": {**WORKLOAD, "sizes": {}}}, "exactly one distribution"),
        ({"workload": {**WORKLOAD, "sizes": {**PARETO, "cdf": [[1, 1]]}}}, "exactly one distribution"),
        ({"duration": "5s", "until": "a"}, "until without size"),
        ({"size": "1MB", "until": "a"}, "lasts until 'a'"),
        ({"size": "1MB", "until": "cubic"}, "lasts until 'cubic'"),
    ],
)
def test_contradictions_are_refused(tmp_path: Path, flow: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load(write(tmp_path, {"cca": "cubic", **flow}))


def test_sized_flows_and_workloads_are_planned(tmp_path: Path) -> None:
    web = {"cca": "cubic", "workload": WORKLOAD, "start": "1s"}
    train = {"cca": "bbr", "size": "1MB", "repeat": 5, "until": "bulk"}
    bulk = {"cca": "bbr", "name": "bulk", "duration": "5s", "count": 3, "stagger": "2s"}
    plan = make_plan(load(write(tmp_path, web, train, bulk)))
    played, sized, *others = plan.flows
    assert (played.payload.repeat, len(played.payload.arrivals_ns), sized.payload.until) == (400, 400, "bulk")
    assert [flow.start_ns for flow in others] == [0, 2_000_000_000, 4_000_000_000]
    assert plan.end_ns is None
    assert [flow.payload.is_finite for flow in plan.flows] == [True, True, False, False, False]
    flows = specify(played, ecn=False).connections
    assert flows[0].start_s == 1.0
    assert flows[399].src_port == played.src_port + 399


def test_a_sweep_reaches_all_groups(tmp_path: Path) -> None:
    flow = {"duration": "5s", "cca": "cubic"}
    series = load_series(write(tmp_path, flow, {**flow, "name": "b"}, sweep={"flows.*.cca": ["bbr", "reno"]}))
    assert [[group.cca for group in p.experiment.flows] for p in series.points] == [["bbr"] * 2, ["reno"] * 2]


STEEP: dict[str, Any] = {"pareto": {**PARETO["pareto"], "shape": math.inf}}
WIDE: dict[str, Any] = {"lognormal": {"median": "1ms", "sigma": 1000}}


@pytest.mark.parametrize(
    ("field", "drawn"),
    [
        ("gaps.lognormal.sigma: '1000' is too large; allowed: 10", {"gaps": WIDE}),
        ("sizes.pareto.shape: 'inf' is of the wrong kind; allowed: a finite number", {"sizes": STEEP}),
    ],
)
def test_a_distribution_beyond_numbers_is_refused(tmp_path: Path, field: str, drawn: dict[str, Any]) -> None:
    file = write(tmp_path, {"cca": "cubic", "workload": {**WORKLOAD, **drawn}})
    with pytest.raises(InputError, match=re.escape(f"flows.0.workload.{field}")):
        load(file)
