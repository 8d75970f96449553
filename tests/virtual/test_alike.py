# SPDX-License-Identifier: Apache-2.0
"""Runs that a driver controls: one seed and one policy are one episode, byte for byte, however it is made."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from narrows.gym import CongestionControl, Links
from narrows_formats.programs import COLLECTOR

pytestmark = pytest.mark.needs("guest-kernel", "external-kernel", "narrows-softswitch", COLLECTOR, "ip")
# Half a BDP, and a policy that fills it: packets are lost, after each of which a nanosecond moves all that follows.
LINKS = Links(rate_bps=(20e6, 20e6), rtt_s=(0.02, 0.02), buffer_bdp=(0.5, 0.5))
RIVALS = [{"name": "cubic", "cca": "cubic", "duration": "30s"}]
Episode = tuple[str, dict[str, bytes]]


def episode(place: Path, thinks_s: Callable[[int], float] = lambda _: 0.0) -> Episode:
    """What an episode says at each step, and its tables; before each step its policy takes some time."""
    environment = CongestionControl(
        render_mode="report", results=place, episode_s=1.0, links=LINKS, rivals=RIVALS, sees_queue=True
    )
    draw = np.random.default_rng(1)
    said: list[Any] = [environment.reset(seed=1)]
    over = False
    while not over:
        time.sleep(thinks_s(len(said)))
        said.append(environment.step(draw.uniform(-0.1, 0.3, 1).astype(np.float32)))
        over = said[-1][3]
    assert environment.render() == place / "episode-0" / "report.html"
    return repr(said), {path.name: path.read_bytes() for path in sorted(place.glob("episode-0/**/*.parquet"))}


def alike(episodes: list[Episode]) -> None:
    (said, tables), *others = episodes
    assert "'loss_ratio': 0.0" in said and "telemetry" not in tables and len(tables["drops.parquet"]) > 1000
    for other_said, other_tables in others:
        assert other_said == said
        assert other_tables.keys() == tables.keys()
        assert [name for name, table in tables.items() if other_tables[name] != table] == []


@pytest.mark.long
def test_a_policy_that_thinks_is_the_same_run(tmp_path: Path) -> None:
    alike([episode(tmp_path / "at-once"), episode(tmp_path / "thinks", lambda _: 0.05)])


@pytest.mark.long
def test_a_policy_that_sleeps_a_minute_is_the_same_run(tmp_path: Path) -> None:
    alike([episode(tmp_path / "at-once"), episode(tmp_path / "sleeps", lambda step: 60.0 if step == 20 else 0.0)])


@pytest.mark.long
def test_eight_side_by_side_are_the_same_run(tmp_path: Path) -> None:
    with ProcessPoolExecutor(8, get_context("spawn")) as pool:
        found = [*pool.map(episode, [tmp_path / f"{number}" for number in range(8)])]
    alike([*found, episode(tmp_path / "alone")])
