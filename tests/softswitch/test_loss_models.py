# SPDX-License-Identifier: Apache-2.0
"""Loss with memory, as the compiled program makes it in the softswitch: which packets of many are lost."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from harness import BINARY, COMPILED, CROSS_CONNECT
from narrows.experiment.impairments import GilbertElliott

LOSS = "NarrowsIngress.bottleneck."
CERTAIN = 1 << 32
# A frame of 100 bytes each 800 ns, out of a port that limits nothing: when a frame leaves says which it is.
RATE, FRAME, GAP_NS = 1_000_000_000, 100, 800
FIXED_HEADER, RECORD_HEADER, SNAP = 24, 16, 14


def entry(table: str, match: dict[str, Any], action: str, params: dict[str, int]) -> dict[str, Any]:
    ranked = {"priority": 1} if table == CROSS_CONNECT or "position" in match else {}
    return {"table": table, "match": match, "action": action, "params": params, **ranked}


def passed(directory: Path, packets: int, entries: list[dict[str, Any]], seed: int = 1) -> npt.NDArray[np.int64]:
    """The numbers of the packets that were not lost."""
    through = entry(
        CROSS_CONNECT,
        {"ingress_port": 1},
        "NarrowsIngress.cross_connect.bottleneck",
        {"index": 3, "port": 2, "queue": 0},
    )
    generator = {
        "arrivals": "constant", "rate_bps": RATE, "frame_bytes": FRAME, "flows": 1, "stop_ns": packets * GAP_NS - 1,
    }  # fmt: skip
    config = {
        "program": str(COMPILED / "narrows.json"),
        "seed": seed,
        "ports": [1, 2],
        "entries": [through, *entries],
        "queues": [{"port": 2}],
        "inputs": [{"port": 1, "generator": generator}],
        "outputs": [{"port": 2, "pcap": "left.pcap", "snap_bytes": SNAP}],
    }
    (directory / "config.json").write_text(json.dumps(config))
    command = [str(BINARY), "replay", "--config", str(directory / "config.json"), "--out", str(directory / "out")]
    found = subprocess.run(command, check=False, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    record = np.dtype([("s", "<u4"), ("ns", "<u4"), ("rest", f"V{RECORD_HEADER - 8 + SNAP}")])
    left = np.fromfile(directory / "out" / "left.pcap", record, offset=FIXED_HEADER)
    times = left["s"].astype(np.int64) * 1_000_000_000 + left["ns"]
    first = times[0] % GAP_NS
    assert np.all((times - first) % GAP_NS == 0)
    numbers: npt.NDArray[np.int64] = (times - first) // GAP_NS
    return numbers


def bursts_of(model: GilbertElliott) -> list[dict[str, Any]]:
    """The entries of a model for bottleneck 3."""
    return [
        entry(f"{LOSS}loss", {"bottleneck": 3}, f"{LOSS}set_loss_model", {"model": 1}),
        *(
            entry(
                f"{LOSS}states.loss_states",
                {"bottleneck": 3, "is_bad": is_bad},
                f"{LOSS}states.set_chances",
                {"loss": round(loss * CERTAIN), "leave": round(leave * CERTAIN)},
            )
            for is_bad, loss, leave in ((0, model.loss_in_good, model.p), (1, model.loss_in_bad, model.r))
        ),
    ]


def runs_of_losses(numbers: npt.NDArray[np.int64], packets: int) -> npt.NDArray[np.int64]:
    """Lengths of the runs of packets that are missing."""
    gaps = np.diff(np.concatenate(([-1], numbers, [packets]))) - 1
    return gaps[gaps > 0]


@pytest.mark.needs("narrows-softswitch")
def test_bursts_are_as_long_and_as_frequent_as_theory_says(tmp_path: Path) -> None:
    """Gilbert 1960: p / (p + r) of all packets are lost, in runs of 1 / r on average; within 4 standard errors."""
    packets, model = 1_000_000, GilbertElliott(0.01, 0.19, 0.0, 1.0)
    runs = runs_of_losses(passed(tmp_path, packets, bursts_of(model)), packets)
    burst_error = (1 - model.r) ** 0.5 / len(runs) ** 0.5
    assert runs.mean() == pytest.approx(1 / model.r, rel=4 * burst_error)
    # The state is correlated over 1 / (p + r) packets.
    independent = packets * (model.p + model.r) / (2 - model.p - model.r)
    error = ((1 - model.mean_loss) / model.mean_loss / independent) ** 0.5
    assert runs.sum() / packets == pytest.approx(model.mean_loss, rel=4 * error)
    # Geometric: a run of one is as frequent as the bad state is left at once.
    assert (runs == 1).mean() == pytest.approx(model.r, rel=4 * ((1 - model.r) / model.r / len(runs)) ** 0.5)


@pytest.mark.needs("stress", "narrows-softswitch")
def test_ten_million_packets_are_within_one_percent_of_theory(tmp_path: Path) -> None:
    """Standard errors are a sixth of that, and less."""
    packets, model = 10_000_000, GilbertElliott(0.05, 0.3, 0.0, 1.0)
    runs = runs_of_losses(passed(tmp_path, packets, bursts_of(model)), packets)
    assert runs.mean() == pytest.approx(1 / model.r, rel=0.01)
    assert runs.sum() / packets == pytest.approx(model.mean_loss, rel=0.01)


@pytest.mark.needs("narrows-softswitch")
def test_a_certain_chance_is_certain(tmp_path: Path) -> None:
    """Good and bad in turn, from the good one on: every second packet is lost."""
    numbers = passed(tmp_path, 1000, bursts_of(GilbertElliott(1.0, 1.0, 0.0, 1.0)))
    assert list(numbers) == list(range(0, 1000, 2))


@pytest.mark.needs("narrows-softswitch")
@pytest.mark.parametrize("loops", [True, False])
def test_a_pattern_is_lost_to_the_packet(tmp_path: Path, loops: bool) -> None:
    runs, length, packets = [(0, 0), (3, 4), (9, 9)], 10, 1005
    entries = [
        entry(f"{LOSS}loss", {"bottleneck": 3}, f"{LOSS}set_loss_model", {"model": 2}),
        entry(
            f"{LOSS}pattern.loss_pattern",
            {"bottleneck": 3},
            f"{LOSS}pattern.set_length",
            {"packets": length if loops else 0},
        ),
        *(
            entry(
                f"{LOSS}pattern.lost_positions",
                {"bottleneck": 3, "position": f"{run[0]}..{run[1]}"},
                f"{LOSS}pattern.lose",
                {},
            )
            for run in runs
        ),
    ]
    lost = {at for first, last in runs for at in range(first, last + 1)}
    expected = [number for number in range(packets) if (number % length if loops else number) not in lost]
    assert list(passed(tmp_path, packets, entries)) == expected
