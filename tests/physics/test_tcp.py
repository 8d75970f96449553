# SPDX-License-Identifier: Apache-2.0
"""What theory says of TCP against real senders in virtual time; docs/physics.md has these numbers in a table."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import page
import pandas as pd
import pytest
from test_in_a_guest import PATIENCE_S, start
from windows import Cubic, Reno, expected, simulate

pytestmark = pytest.mark.needs("guest-kernel", "narrows-softswitch", "narrows-collector", "ip")
MSS, FRAME = 1448, 1514
# Standard deviations that a mean may be off by: one run in a thousand is farther.
SIGMAS = 3.3
# Without loss by the queue, and with bursts as they leave the host.
PATH = "buffer: 2000packets"
IDEAL = "hosts: {jitter: 0s}\ntelemetry: {sockets: 0}\n"


@dataclass(frozen=True)
class Measured:
    """A run's summary and its reports, in the order of departures."""

    summary: Any
    reports: pd.DataFrame


def measure(directory: Path, text: str) -> Measured:
    """Run an experiment in virtual time."""
    assert start(directory, text).wait(PATIENCE_S) == 0, (directory / "said").read_text()
    files = sorted((directory / "out" / "telemetry").glob("reports-*.parquet"))
    reports = pd.concat([pd.read_parquet(file) for file in files]).sort_values("sequence", kind="stable")
    return Measured(json.loads((directory / "out" / "summary.json").read_text()), reports)


def constant(found: Measured, rtt_s: float, after_s: float, until_s: float, exponent: float) -> float:
    """Mean window x loss ratio ^ exponent at the switch: what was sent in a round-trip time, slow start left out."""
    time_s = (found.reports["timestamp"] - found.reports["timestamp"].iloc[0]) / 1e9
    steady = found.reports[(time_s >= after_s) & (time_s < until_s)]
    counted = steady[["arrivals", "loss_drops"]].astype(int)
    arrivals, losses = counted.iloc[-1] - counted.iloc[0]
    window = (arrivals + losses) * rtt_s / (until_s - after_s)
    return float(window * (losses / (arrivals + losses)) ** exponent)


def test_the_model_of_reno_has_the_constants_of_theory() -> None:
    """Independent losses: 1.31 / sqrt(p) for small p (T. J. Ott, J. H. B. Kemperman, M. Mathis 1996)."""
    seen = simulate(Reno(), 2e-5, 200_000, np.random.default_rng(1))
    assert seen.constant(0.5) == pytest.approx(1.31, rel=SIGMAS * 0.5 / math.sqrt(seen.losses) + 0.01)


@pytest.mark.long
def test_renos_window_follows_the_square_root_of_loss(tmp_path: Path) -> None:
    """Mathis: window = constant / sqrt(p). The tolerance is what chance does to a run of so many rounds."""
    rtt_s, loss, after_s, until_s = 0.1, 0.005, 10, 120
    text = f"name: reno\nbottleneck: {{rate: 1Gbit, {PATH}, rtt: {rtt_s * 1e3:g}ms, loss: {loss}}}\n"
    found = measure(tmp_path, f"{text}flows: [{{cca: reno, duration: {until_s}s}}]\n{IDEAL}")
    theory, deviation = expected(Reno, loss, round((until_s - after_s) / rtt_s), 0.5)
    measured = constant(found, rtt_s, after_s, until_s, 0.5)
    page.shows("Reno: window x sqrt(p)", theory, measured, SIGMAS * deviation, repeats=False)
    assert measured == pytest.approx(theory, abs=SIGMAS * deviation)


@pytest.mark.needs("stress")
def test_cubics_window_follows_loss_and_rtt(tmp_path: Path) -> None:
    """RFC 9438, section 5.1: window = constant x (RTT / p)^(3/4), where that is above Reno's."""
    rtt_s, loss, after_s, until_s = 0.5, 0.002, 10, 400
    text = f"name: cubic\nbottleneck: {{rate: 1Gbit, {PATH}, rtt: {rtt_s * 1e3:g}ms, loss: {loss}}}\n"
    found = measure(tmp_path, f"{text}flows: [{{cca: cubic, duration: {until_s}s}}]\n{IDEAL}")
    theory, deviation = (
        value / rtt_s**0.75 for value in expected(lambda: Cubic(rtt_s), loss, round((until_s - after_s) / rtt_s), 0.75)
    )
    measured = constant(found, rtt_s, after_s, until_s, 0.75) / rtt_s**0.75
    page.shows("CUBIC: window x (p / RTT)^(3/4), s^(-3/4)", theory, measured, SIGMAS * deviation, repeats=False)
    assert measured == pytest.approx(theory, abs=SIGMAS * deviation)


@pytest.mark.long
def test_short_flows_take_the_rounds_of_slow_start(tmp_path: Path) -> None:
    """Ten segments at first (RFC 6928), twice as many each round: 10 (2^r - 1) segments take r rounds.

    One more is for the handshake; the last window's frames follow each other at the link's rate.
    """
    rtt_s, rate_bps = 0.1, 1_000_000_000
    flows = ", ".join(f"{{cca: reno, name: r{r}, size: {MSS * 10 * (2**r - 1)}B, start: {r}s}}" for r in (1, 2, 3, 4))
    text = f"name: short\nbottleneck: {{rate: {rate_bps}bit, {PATH}, rtt: 100ms}}\nflows: [{flows}]\n{IDEAL}"
    found = measure(tmp_path, text).summary
    for rounds, flow in enumerate(found["flows"], 1):
        # From SYN to the start of the last frame; what each host takes is below 10 us a round.
        least = rounds * rtt_s + (10 * 2 ** (rounds - 1) - 1) * FRAME * 8 / rate_bps
        # Windows follow acknowledgements, which lie as far apart as frames: not twice the last window.
        most = least + 2 * 10 * 2 ** (rounds - 1) * FRAME * 8 / rate_bps
        name = f"slow start, {10 * (2**rounds - 1)} segments: FCT, s"
        page.shows(name, least, flow["fct_s"], most - least, repeats=False)
        assert least <= flow["fct_s"] < most, flow["name"]


@pytest.mark.long
@pytest.mark.parametrize(("layer", "overhead"), [("l2", 0), ("l1", 24)])
def test_goodput_is_the_rate_without_headers(tmp_path: Path, layer: str, overhead: int) -> None:
    """A full link carries rate x payload / (frame + what the layer counts beside it) of payload.

    L1 counts preamble, frame check sequence and gap (IEEE 802.3: 8 + 4 + 12 bytes).
    """
    rate_bps, skipped = 10_000_000, 500
    text = f"name: full\nbottleneck: {{rate: 10Mbit, rate_layer: {layer}, buffer: 200packets, rtt: 10ms}}\n"
    reports = measure(tmp_path, f"{text}flows: [{{cca: cubic, duration: 3s}}]\n{IDEAL}").reports
    # While every packet has to wait; between whole nanoseconds.
    busy = reports.iloc[skipped:-skipped]
    assert len(busy) > 1000 and busy["queue_delay"].min() > 0
    elapsed_s = (busy["timestamp"].iloc[-1] - busy["timestamp"].iloc[0]) / 1e9
    goodput = busy["payload_length"].iloc[:-1].astype(int).sum() * 8 / elapsed_s
    # Where one write of the sender ends there is a shorter segment, with as long a header.
    assert (busy["payload_length"] == MSS).mean() > 0.98
    theory = rate_bps * MSS / (FRAME + overhead)
    name = f"goodput of 10 Mbit/s in {layer.upper()}, Mbit/s"
    page.shows(name, theory / 1e6, goodput / 1e6, theory / 1e9, repeats=False)
    assert goodput == pytest.approx(theory, rel=1e-3)
