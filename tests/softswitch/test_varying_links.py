# SPDX-License-Identifier: Apache-2.0
"""Links that vary, through the whole switch in virtual time, against arithmetic with fractions that knows no queue."""

from __future__ import annotations

import json
import subprocess
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from harness import BINARY, COMPILED, replay
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

FRAME = 1514
MILLISECOND = 1_000_000
# Offered at 1 Gbit/s: a frame each 12,112 ns.
OFFERED = 1_000_000_000


def offered(
    directory: Path, queue: dict[str, Any], stop_ns: int, frame: int = FRAME
) -> tuple[dict[str, Any], list[int]]:
    """The summary, and when each frame left port 2, which `queue` is about."""
    generator = {"arrivals": "constant", "rate_bps": OFFERED, "frame_bytes": frame, "flows": 3, "stop_ns": stop_ns}
    summary, left = replay(directory, queue, {"generator": generator})
    return summary, [time for time, _ in left]


def arrivals(stop_ns: int, frame: int = FRAME) -> list[int]:
    """When the generator's frames come in."""
    gap = Fraction(frame * 8 * 10**9, OFFERED)
    return [int(number * gap) for number in range(int(stop_ns / gap) + 1) if int(number * gap) < stop_ns]


def passed(steps: list[tuple[int, int]], period: int, arrived: list[int]) -> list[int]:
    """When frames have passed a link whose rate goes through the steps again and again, as the integral says."""
    times, finish = [], Fraction(0)
    for arrival in arrived:
        now, left = max(finish, Fraction(arrival)), Fraction(FRAME * 8)
        while left:
            turn, within = divmod(now, period)
            number = max(index for index, (start, _) in enumerate(steps) if start <= within)
            end = steps[number + 1][0] if number + 1 < len(steps) else period
            rate, room = Fraction(steps[number][1], 10**9), turn * period + end - now
            taken = min(left, rate * room)
            now, left = (now + taken / rate, left - taken) if taken == left else (now + room, left - taken)
        finish = now
        times.append(int(finish))
    return times


@pytest.mark.long
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lengths=st.lists(st.integers(1_000, 300_000), min_size=1, max_size=6),
    rates=st.lists(st.one_of(st.just(0), st.integers(10**8, 10**11)), min_size=5, max_size=5),
)
def test_a_rate_in_steps_passes_its_integral(tmp_path: Path, lengths: list[int], rates: list[int]) -> None:
    starts = [sum(lengths[:number]) for number in range(len(lengths))]
    # Something passes in every period.
    steps = list(zip(starts, [10**9, *rates], strict=False))
    period = sum(lengths)
    queue = {"rate_steps": {"steps": steps, "period_ns": period}, "delay_ns": 0}
    summary, left = offered(tmp_path, queue, 2 * MILLISECOND)
    assert left == passed(steps, period, arrivals(2 * MILLISECOND))
    assert summary["queues"][0]["enqueued_packets"] == len(left)


def delivered(stamps: list[int], arrived: list[int], frame: int) -> list[int]:
    """Mahimahi's link: each opportunity carries 1,504 bytes of IP packets and four bytes more each; times in ns."""
    times: list[int] = []
    left, begun, turn = 0, 0, 0
    while True:
        for stamp in stamps:
            now = (turn * stamps[-1] + stamp) * MILLISECOND
            room = 1504
            while room:
                if not left:
                    if begun == len(arrived):
                        return times
                    # In the same millisecond is too late.
                    if arrived[begun] // MILLISECOND >= now // MILLISECOND:
                        break
                    begun, left = begun + 1, frame - 14 + 4
                sent = min(left, room)
                room, left = room - sent, left - sent
                if not left:
                    times.append(now)
        turn += 1


@pytest.mark.parametrize("frame", [60, 576, FRAME, 4000])
@pytest.mark.parametrize("stamps", [[1], [0, 1, 2, 3], [0, 0, 3, 3, 3, 7], [5, 40]])
def test_a_trace_of_mahimahi_passes_as_mahimahi_says(tmp_path: Path, stamps: list[int], frame: int) -> None:
    (tmp_path / "trace").write_text("".join(f"{stamp}\n" for stamp in stamps))
    _, left = offered(tmp_path, {"mahimahi": {"file": "trace"}}, MILLISECOND, frame)
    assert left == delivered(stamps, arrivals(MILLISECOND, frame), frame)


def test_an_outage_holds_what_waits(tmp_path: Path) -> None:
    steps = [[0, OFFERED], [500_000, 0], [700_500_000, OFFERED]]
    _, left = offered(tmp_path, {"rate_steps": {"steps": steps}}, MILLISECOND)
    gap = Fraction(FRAME * 8 * 10**9, OFFERED)
    outage = 700_000_000
    expected = [int((number + 1) * gap) for number in range(len(left))]
    assert left == [time if time <= 500_000 else time + outage for time in expected]


def test_drops_and_copies_balance(tmp_path: Path) -> None:
    """Arrivals less departures are tail drops; what is doubled is counted apart, by flow."""
    queue = {
        "rate_bps": OFFERED // 2,
        "limit_packets": 20,
        "delay_ns": 100_000,
        "variation": {"jitter": {"normal_ns": 30_000}, "reorder": True, "duplicate": 0.1, "seed": 5},
    }
    summary, left = offered(tmp_path, queue, 20 * MILLISECOND)
    found = summary["queues"][0]
    assert summary["inputs"][0]["packets"] == found["enqueued_packets"] + found["dropped_packets"]
    assert found["duplicated_packets"] == sum(flow["packets"] for flow in found["flow_duplicates"]) > 0
    assert found["dropped_packets"] == sum(flow["packets"] for flow in found["flow_drops"]) > 0
    assert len(left) == found["dequeued_packets"] + found["duplicated_packets"]
    again, same = offered(tmp_path, queue, 20 * MILLISECOND)
    assert (again, same) == (summary, left)


@pytest.mark.parametrize(
    ("queue", "message"),
    [
        ({"rate_steps": {"steps": [[1, 5]]}}, "queues[0]: rate_steps: step 0 starts at 1 ns: the first one"),
        ({"rate_steps": {"steps": [[0, 5], [9, 5]], "period_ns": 9}}, "rate_steps: period_ns 9: it must be longer"),
        ({"delay_steps": {"steps": [[0, 10**12]]}}, "delay_steps: step 0: delay_ns 1000000000000: allowed are 0 to"),
        ({"mahimahi": {"file": "none"}}, "none: No such file"),
        ({"mahimahi": {"file": "bad"}}, 'line 2: "x": allowed are milliseconds'),
        ({"variation": {"duplicate": 1.5}}, "queues[0]: variation: duplicate 1.5: allowed are 0 to 1"),
        ({"loss": {"pattern": {"runs": [1, 2]}}}, "unknown field `loss`"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, queue: dict[str, Any], message: str) -> None:
    (tmp_path / "bad").write_text("1\nx\n")
    config = {"program": str(COMPILED / "narrows.json"), "ports": [2], "queues": [{"port": 2, **queue}], "inputs": []}
    (tmp_path / "config.json").write_text(json.dumps(config))
    command = [str(BINARY), "replay", "--config", str(tmp_path / "config.json"), "--out", str(tmp_path / "out")]
    found = subprocess.run(command, check=False, capture_output=True, text=True)
    assert found.returncode == 2 and message in found.stderr, found.stderr
    assert not (tmp_path / "out").exists()
