# SPDX-License-Identifier: Apache-2.0
"""Congestion control as an environment of Gymnasium and PettingZoo."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium
import narrows.gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from narrows import api
from narrows.api.tcp_info import tcp_info
from narrows.controllers import Decision, drive
from narrows.errors import InputError
from narrows.gym import CongestionControl, Learned, Links, ParallelCongestionControl
from narrows_formats.programs import COLLECTOR
from pettingzoo.test import parallel_api_test

GUEST = pytest.mark.needs("guest-kernel", "external-kernel", "narrows-softswitch", COLLECTOR, "ip")
ONE_LINK = Links(rate_bps=(20e6, 20e6), rtt_s=(0.02, 0.02), buffer_bdp=(1.0, 1.0))
SHORT: dict[str, Any] = {"episode_s": 0.5, "links": ONE_LINK}


def played(environment: gymnasium.Env[Any, Any], seed: int, actions: int) -> list[Any]:
    """Everything that an episode says, with some actions that a seed draws."""
    draw = np.random.default_rng(seed)
    found: list[Any] = [environment.reset(seed=seed)]
    for _ in range(actions):
        found.append(environment.step(draw.uniform(-0.5, 0.5, 1).astype(np.float32)))
        if found[-1][3]:
            break
    return found


@GUEST
@pytest.mark.long
def test_gymnasiums_checker_finds_nothing() -> None:
    environment = gymnasium.make(narrows.gym.NAME, **SHORT).unwrapped
    check_env(environment, skip_render_check=True)
    environment.close()


@GUEST
@pytest.mark.long
def test_pettingzoos_checker_finds_nothing() -> None:
    environment = ParallelCongestionControl(2, **SHORT)
    parallel_api_test(environment, num_cycles=10)
    environment.close()


@GUEST
@pytest.mark.long
def test_environments_side_by_side_are_each_as_it_is_alone() -> None:
    """Gymnasium gives the first one the seed, and each other one the next."""
    options: dict[str, Any] = {"episode_s": 1.0}
    side_by_side = narrows.gym.make_vec(2, **options)
    steps = [side_by_side.reset(seed=3)[0]]
    steps += [side_by_side.step(np.full((2, 1), 0.1, np.float32))[0] for _ in range(3)]
    side_by_side.close()
    alone = CongestionControl(**options)
    for number, seed in enumerate((3, 4)):
        own = [alone.reset(seed=seed)[0]]
        own += [alone.step(np.full(1, 0.1, np.float32))[0] for _ in range(3)]
        assert [step[number].tobytes() for step in steps] == [step.tobytes() for step in own]
    alone.close()
    assert not np.array_equal(steps[-1][0], steps[-1][1])


@pytest.mark.long
@GUEST
def test_a_seed_draws_the_link_and_the_episode_is_reported(tmp_path: Path) -> None:
    environment = CongestionControl(
        render_mode="report", observation="orca", action="window", reward="orca", results=tmp_path, episode_s=0.5
    )
    first, second, other = (played(environment, seed, 4) for seed in (3, 3, 4))
    links = [episode[0][1]["link"] for episode in (first, second, other)]
    assert links[0] == links[1] != links[2]
    # In the first steps nothing is lost: what is seen differs by nanoseconds of the host's clock.
    for one, again in zip(first[1:], second[1:], strict=True):
        assert one[0] == pytest.approx(again[0], rel=1e-3, abs=1e-3) and one[1] == pytest.approx(again[1], rel=1e-3)
    page = environment.render()
    assert page == tmp_path / "episode-2" / "report.html" and page.exists()


@pytest.mark.long
@GUEST
def test_a_faster_agent_gets_more(tmp_path: Path) -> None:
    environment = CongestionControl(step=0.02, sees_queue=True, **SHORT)
    rewards = {}
    for action in (-0.1, 0.1):
        environment.reset(seed=1)
        total, over = 0.0, False
        while not over:
            _, reward, _, over, info = environment.step(np.array([action], np.float32))
            total += reward
        rewards[action] = total
        assert set(info) == {"link", "time_s", "agent", "queue_bytes"}
    environment.close()
    assert rewards[0.1] > rewards[-0.1]


@GUEST
def test_actions_that_cannot_be_are_refused_and_change_nothing() -> None:
    environment = CongestionControl(**SHORT)
    with pytest.raises(gymnasium.error.ResetNeeded):
        environment.step(np.zeros(1, np.float32))
    environment.reset(seed=1)
    for action, said in (
        (np.array([np.nan]), "allowed: from"),
        (np.array([1e9]), "allowed: from"),
        (np.zeros(2), r"has the shape \(2,\); allowed: \(1,\)"),
    ):
        with pytest.raises(InputError, match=said):
            environment.step(action.astype(np.float32))
    environment.step(np.zeros(1, np.float32))
    environment.close()
    environment.close()


def test_a_policy_decides_as_it_does_in_the_environment(tmp_path: Path) -> None:
    """The observation is of the last step, the action is applied to the window of that moment, and nothing else is."""
    window, packets = 20, 5
    seen: list[Any] = []

    def policy(observation: Any) -> Any:
        seen.append(observation)
        return np.array([0.5], np.float32)

    def reading(at_ms: int, delivered: int) -> api.TcpInfo:
        fields = {8: 200_000, 16: 1448, 68: 20_000, 72: 0, 80: window, 148: 20_000, 192: delivered}
        data = bytearray(232)
        for offset, value in fields.items():
            data[offset : offset + 4] = value.to_bytes(4, "little")
        return tcp_info(at_ms * 1_000_000, bytes(data))

    learned = Learned(policy, "orca", "window")
    step = api.Interval(reading(0, 0), reading(20, packets))
    # 4 to the power of a half.
    assert learned.on_step(0.02, step) == Decision(cwnd=2 * window)
    # Of the most and the least seen until now, which are these; five of twenty were delivered, in one least RTT.
    assert seen[0] == pytest.approx([1, 0, 1, packets / window, 1, 1, 1])
    for action, said in (([2.0], "action of the policy .*: allowed: from"), ([0.0, 0.0], "has the shape")):
        with pytest.raises(InputError, match=said):
            Learned(lambda _: np.array(action), "orca", "window").on_step(0.02, step)  # noqa: B023
    with pytest.raises(InputError, match="action 'dance': allowed: rate, window"):
        Learned(policy, action="dance")


@GUEST
def test_a_policy_drives_a_flow_of_a_run(tmp_path: Path) -> None:
    flows = [{"name": "agent", "cca": "external", "duration": "1s"}]
    link = {"rate": "20Mbit", "buffer": "1bdp", "rtt": "20ms"}
    with api.testbed({"name": "x", "bottleneck": link, "flows": flows}, virtual=True, out=tmp_path / "out") as bed:
        drive(bed, {"agent-1": Learned(lambda _: np.array([0.1], np.float32), "orca", "window")})
    events = [event["what"] for event in json.loads((tmp_path / "out" / "run.json").read_text())["events"]]
    # From the ten segments that it begins with, by a factor of 4 to the power of 0.1 each round trip.
    assert events[:2] == ["agent-1: cwnd 11", "agent-1: cwnd 12"] and len(events) > 20


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"observation": "vision"}, "observation 'vision': allowed: aurora, orca, or a callable"),
        ({"reward": "fame"}, "reward 'fame': allowed"),
        ({"action": "dance"}, "action 'dance': allowed: rate, window"),
        ({"episode_s": 0}, "episode_s 0: allowed: seconds above 0"),
        ({"step": float("nan")}, "step nan: allowed"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        CongestionControl(**options)


def test_links_are_drawn_from_their_ranges() -> None:
    links = Links(rate_bps=(1e6, 1e8), rtt_s=(0.001, 0.1), buffer_bdp=(0.5, 2), loss=(0.0, 0.1))
    drawn = [links.draw(np.random.default_rng(seed)) for seed in range(200)]
    rates = [int(str(link["rate"]).removesuffix("bit")) for link in drawn]
    # Of a log-uniform range a half lies below its geometric mean.
    assert all(1e6 <= rate <= 1e8 for rate in rates) and 70 < sum(rate < 1e7 for rate in rates) < 130
    assert all(0 <= float(str(link["loss"])) <= 0.1 for link in drawn)
    with pytest.raises(InputError, match="links: rate_bps 2 to 1: allowed: a range"):
        Links(rate_bps=(2.0, 1.0))
