# SPDX-License-Identifier: Apache-2.0
"""Experiments at the edges of every range: refused with field and what is allowed, or run in virtual time by the laws.

NARROWS_CASES sets how many; `make stress` runs some hundred.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import laws
import pytest
import yaml
from drawn import try_each
from hypothesis import given, settings
from hypothesis import strategies as st
from narrows.errors import InputError
from narrows.experiment.plan import Plan
from narrows.experiment.planning import make_plan
from narrows.experiment.sweep import load_series
from narrows_formats.units import parse_rate, parse_time
from test_in_a_guest import start

CASES = int(os.environ.get("NARROWS_CASES", "0"))
SEED = int(os.environ.get("NARROWS_SEED", "1"))
PATIENCE_S = 600.0
NEEDS = pytest.mark.needs("guest-kernel", "narrows-softswitch", "narrows-collector", "ip")
RATES = ["1kbit", "8kbit", "100kbit", "1Mbit", "9999991bit", "100Mbit", "1Gbit", "10Gbit", "100Gbit", "800Gbit"]
RTTS = ["0", "1ns", "1us", "80us", "1ms", "20ms", "100ms", "1s", "10s"]
BUFFERS = ["1B", "1packets", "2packets", "10packets", "20kB", "1MB", "1GB", "0.1bdp", "1bdp", "10bdp", "1us", "100ms"]
# What is refused is rarer than what is run.
MTUS = [1280, 1280, 1500, 1500, 1500, 9000, 9000, 575, 576, 1279, 9001]
COUNTS = [1, 1, 1, 2, 2, 8, 8, 100, 1000, 0]
MOST_PACKETS, LONGEST_S = 1500, 30
# Linux sends a SYN's answer again 5 times, the first time after a second and then after twice as long each time, and
# knows nothing of the connection after that (tcp_synack_retries).
HANDSHAKE_S = 63
# By TCP, or by the run, which waits a minute or more: six losses of a SYN in a row take longer, or eight of a segment.
GIVEN_UP = re.compile("flow [^ ]+: (Connection (reset by peer|timed out)|no end after [0-9]+ s)")
# A SYN is sent so often before its sender gives up (tcp_syn_retries).
SYNS = 7
# Ethernet, IPv4, and TCP with its options.
SYN_BYTES = 74


@st.composite
def experiments(draw: st.DrawFn) -> dict[str, Any]:
    """An experiment whose traffic is short, whatever its link: so many packets, and so many seconds, at most."""
    rate, mtu, count = draw(st.sampled_from(RATES)), draw(st.sampled_from(MTUS)), draw(st.sampled_from(COUNTS))
    rtt, loss = draw(st.sampled_from(RTTS)), draw(st.sampled_from([0, 0, 0, 0, 2**-32, 0.01, 0.01, 0.2, 0.2, 1e-10]))
    # A window is about 1 / sqrt(loss) packets; with few in it timeouts repair what is lost, of 0.2 s or more.
    window, round_s = (2, max(0.2, parse_time(rtt) / 1e9)) if loss > 0.1 else (10, max(0.01, parse_time(rtt) / 1e9))
    carried = LONGEST_S * parse_rate(rate) // (8 * (mtu + 14))
    packets = max(3, min(MOST_PACKETS, carried, round(window * LONGEST_S / round_s)))
    link: dict[str, Any] = {
        "rate": rate,
        "rtt": rtt,
        "buffer": draw(st.sampled_from(BUFFERS)),
        "rate_layer": draw(st.sampled_from(["l2", "l2", "l1"])),
        "loss": loss,
    }
    threshold = draw(st.sampled_from([None, None, None, "1B", "1packets", "5packets", "0.5bdp"]))
    if threshold is not None:
        link["ecn_threshold"] = threshold
    flow = {
        "cca": draw(st.sampled_from(["cubic", "reno", "bbr"])),
        "size": f"{max(1, packets * (mtu - 52) // max(1, count))}B",
        "count": count,
        "stagger": draw(st.sampled_from(["0", "10ms"])),
    }
    return {
        "name": "edge",
        "bottleneck": link,
        "flows": [flow],
        "mtu": mtu,
        "ip_version": draw(st.sampled_from([4, 4, 6])),
    }


def refusal(path: Path) -> tuple[str, Plan | None]:
    """Why an experiment is refused, or its plan."""
    try:
        return "", make_plan(load_series(path).points[0].experiment)
    except InputError as error:
        return str(error), None


def refused_well(message: str) -> bool:
    """Whether each line names a field, or what the machine lacks, and what is allowed or how to mend it."""
    return all(
        re.search(r"[a-z_]+(\.[a-z_0-9]+)*: ", line) and re.search("allowed: |fix: ", line)
        for line in message.splitlines()
    )


def may_be_given_up(plan: Plan, out: Path) -> bool:
    """Whether TCP or the run had cause to give connections up: too slow a link, or every try of a packet lost."""
    lost = json.loads((out / "summary.json").read_text())["bottleneck"]["total_loss_ratio"]
    # Each flow's SYN may be sent again before the first one is answered.
    carried = sum((flow.payload.size_of(0) or 0) + SYNS * SYN_BYTES for flow in plan.flows)
    slow = plan.bottleneck.longest_s(carried) > HANDSHAKE_S
    return slow or len(plan.flows) * lost**SYNS > 1e-3


def run(data: dict[str, Any], directory: Path) -> tuple[str, int]:
    """What became of an experiment ("refused" or "ran"), and packets."""
    file = directory / "checked.yaml"
    file.write_text(yaml.safe_dump(data))
    message, plan = refusal(file)
    if plan is None:
        assert refused_well(message), message
        return "refused", 0
    code = start(directory, yaml.safe_dump(data)).wait(PATIENCE_S)
    said = (directory / "said").read_text()
    if code == 2:
        refused = [line for line in said.splitlines() if line.startswith("narrows: ")]
        assert refused and refused_well("\n".join(refused)), said
        return "refused", 0
    if code == 1 and GIVEN_UP.search(said) and may_be_given_up(plan, directory / "out"):
        return "given up by TCP", 0
    assert code == 0, said
    return "ran", laws.check(directory / "out")


EDGES: dict[str, dict[str, Any]] = {
    "fast and short": {"rate": "800Gbit", "rtt": "0", "buffer": "1MB"},
    "one packet": {"rate": "9999991bit", "rtt": "1ms", "buffer": "1packets"},
    "long and lossy": {"rate": "1Mbit", "rtt": "10s", "buffer": "10packets", "loss": 0.01},
}


@pytest.mark.long
@NEEDS
@pytest.mark.parametrize("link", EDGES.values(), ids=EDGES)
def test_runs_at_the_edges_obey_the_laws(tmp_path: Path, link: dict[str, Any]) -> None:
    flow = {"cca": "cubic", "size": "60kB"}
    assert run({"name": "edge", "bottleneck": link, "flows": [flow]}, tmp_path)[0] == "ran"


@pytest.mark.long
@NEEDS
def test_counters_are_read_while_few_frames_are_on_a_long_path(tmp_path: Path) -> None:
    """Windows of 0.7 s: a read of all flows' counters is more commands than windows fit into its time limit."""
    link = {"rate": "100Mbit", "rtt": "10s", "buffer": "20kB"}
    flow = {"cca": "reno", "size": "2684B", "count": 100, "stagger": "10ms"}
    assert run({"name": "edge", "bottleneck": link, "flows": [flow], "mtu": 9000}, tmp_path)[0] == "ran"


@pytest.mark.long
@given(experiments())
@settings(max_examples=200, deadline=None, derandomize=True)
def test_what_is_refused_says_why(data: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, "edge.yaml")
        file.write_text(yaml.safe_dump(data))
        message, _ = refusal(file)
        assert refused_well(message), message


@NEEDS
@pytest.mark.needs("stress")
def test_hundreds_of_edges() -> None:
    ends: Counter[str] = Counter()

    def attempt(data: dict[str, Any]) -> None:
        with tempfile.TemporaryDirectory() as directory:
            end, packets = run(data, Path(directory))
        ends[end] += 1
        ends["packets"] += packets

    try_each(experiments(), CASES, SEED, attempt)
    print(f"cases: {ends.total() - ends['packets']}: {dict(ends)}")
    assert ends["ran"] > CASES / 20
