# SPDX-License-Identifier: Apache-2.0
"""Queueing theory against the bottleneck: what Poisson traffic has to wait, and how much of it is lost.

docs/physics.md has these numbers in a table. Expected values are formulas; tolerances are the confidence intervals of
what is measured (`poisson.estimate`).
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import page
import pytest
from narrows_formats.programs import SOFTSWITCH
from poisson import Stream, estimate, replay
from scipy import stats

pytestmark = pytest.mark.needs(SOFTSWITCH)
RATE_BPS, FRAME = 1_000_000_000, 1250
SERVICE_US = FRAME * 8 * 1e6 / RATE_BPS  # 10


@pytest.mark.parametrize("load", [0.3, 0.7, 0.9])
def test_m_d_1_waits_as_pollaczek_and_khinchine_say(tmp_path: Path, load: float) -> None:
    """Mean wait = load x service / (2 (1 - load)); a packet finds the link idle with probability 1 - load (PASTA)."""
    # The busier, the longer neighbours depend on each other.
    records = replay(tmp_path, [Stream(FRAME, load * RATE_BPS)], RATE_BPS, {0.3: 4, 0.7: 5, 0.9: 9}[load])
    waits = records["queue_delay"] / 1e3
    expected_us = load * SERVICE_US / (2 * (1 - load))
    mean = estimate(waits).shown(f"M/D/1, load {load}: mean wait, us", expected_us)
    assert mean.agrees(expected_us, sharp=0.12)
    assert estimate((waits == 0).astype(float)).agrees(1 - load)


def test_m_d_1_has_crommelins_distribution(tmp_path: Path) -> None:
    """P(wait <= t) = (1 - load) sum over k <= t/D of (x^k / k!) e^-x with x = load (k - t/D): C. D. Crommelin 1932."""
    load = 0.7
    waits = replay(tmp_path, [Stream(FRAME, load * RATE_BPS)], RATE_BPS, 5)["queue_delay"] / 1e3
    for services in (0.5, 1.0, 2.5, 5.0):
        terms = ((load * (k - services)) ** k / math.factorial(k) * math.exp(-load * (k - services))
                 for k in range(int(services) + 1))  # fmt: skip
        fraction, expected = estimate((waits <= services * SERVICE_US).astype(float)), (1 - load) * sum(terms)
        assert fraction.shown(f"M/D/1, load {load}: waits up to {services} service times", expected).agrees(expected)


def test_m_g_1_waits_as_pollaczek_and_khinchine_say(tmp_path: Path) -> None:
    """Two lengths: mean wait = sum of rate x service^2 / (2 (1 - load)), the same for both."""
    streams = [Stream(100, 0.1 * RATE_BPS), Stream(1514, 0.6 * RATE_BPS)]
    records = replay(tmp_path, streams, RATE_BPS, 4)
    services = [stream.frame_bytes * 8e6 / RATE_BPS for stream in streams]
    per_us = [stream.rate_bps / (8e6 * stream.frame_bytes) for stream in streams]
    expected = sum(rate * service**2 for rate, service in zip(per_us, services, strict=True)) / (2 * (1 - 0.7))
    for stream in streams:
        waits = records["queue_delay"][records["length"] == stream.frame_bytes] / 1e3
        mean = estimate(waits).shown(
            f"M/G/1, frames of 100 and 1,514 B: mean wait of {stream.frame_bytes} B, us", expected
        )
        assert mean.agrees(expected, sharp=0.1)


def blocked(load: float, places: int) -> float:
    """Fraction that M/D/1 with so many places, the one in service included, turns away.

    From the chain of what a departure leaves behind (D. Gross and C. M. Harris, Fundamentals of Queueing Theory, 4th
    ed., section 5.1.8): 1 - 1 / (p0 + load).
    """
    arriving = stats.poisson(load)
    chain = np.zeros((places, places))
    for state in range(places):
        for after in range(max(state - 1, 0), places - 1):
            chain[state, after] = arriving.pmf(after - max(state - 1, 0))
        chain[state, places - 1] = 1 - chain[state].sum()
    # pi (P - 1) = 0 with the sum 1 in place of one equation.
    system = np.vstack([(chain.T - np.eye(places))[:-1], np.ones(places)])
    return float(1 - 1 / (np.linalg.solve(system, np.eye(places)[-1])[0] + load))


@pytest.mark.parametrize(("load", "waiting"), [(0.9, 4), (1.2, 3)])
def test_m_d_1_k_loses_as_its_chain_says(tmp_path: Path, load: float, waiting: int) -> None:
    """The packet in service does not count as waiting: so many places, and one."""
    records = replay(tmp_path, [Stream(FRAME, load * RATE_BPS)], RATE_BPS, 12, limit_packets=waiting)
    arrivals, departures = records["arrivals"].astype(float), records["departures"].astype(float)
    lost = estimate(np.diff(arrivals - departures), np.diff(arrivals))
    expected = blocked(load, waiting + 1)
    assert lost.shown(f"M/D/1/{waiting + 1}, load {load}: lost", expected).agrees(expected)
    # One place more or less would be seen.
    assert not lost.agrees(blocked(load, waiting)) and not lost.agrees(blocked(load, waiting + 2))
    assert records["enqueue_depth"].max() == (waiting - 1) * FRAME


@pytest.mark.parametrize("loss", [0.001, 0.02, 0.5])
def test_emulated_losses_are_independent(tmp_path: Path, loss: float) -> None:
    """Losses in all, and losses that follow a loss, are binomial: within 4 standard deviations (once in 16,000)."""
    records = replay(tmp_path, [Stream(FRAME, 0.7 * RATE_BPS)], RATE_BPS, 3, loss=loss)
    lost = int(records["loss_drops"][-1])
    offered = lost + int(records["arrivals"][-1])
    deviation = math.sqrt(loss * (1 - loss) / offered)
    page.shows(f"emulated loss of {loss:g}: lost", loss, lost / offered, 4 * deviation, repeats=True)
    assert abs(lost / offered - loss) < 4 * deviation
    # Each run of n losses between two packets that came through has n - 1 losses behind a loss, of n that could be.
    runs = np.diff(records["loss_drops"].astype(np.int64))
    after, could = int((runs[runs > 0] - 1).sum()), int(runs.sum())
    assert abs(after - loss * could) < 4 * math.sqrt(could * loss * (1 - loss))
