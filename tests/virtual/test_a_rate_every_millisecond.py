# SPDX-License-Identifier: Apache-2.0
"""A link of 10 Gbit/s whose rate changes every millisecond, for a second (`make stress`: for a minute): every packet
that waited leaves when the integral of the rate says, nothing is lost, and no change makes an epoch."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.dataset as ds
import pytest
from narrows_formats.programs import COLLECTOR
from test_in_a_guest import start

pytestmark = pytest.mark.needs("guest-kernel", "narrows-softswitch", COLLECTOR, "ip")
IntArray = npt.NDArray[np.int64]
MS = 1_000_000
STRESS = bool(os.environ.get("NARROWS_STRESS"))
SECONDS = 60 if STRESS else 1
PATIENCE_S = 1800.0 if STRESS else 240.0


def carried(mbits: IntArray, time_ns: IntArray) -> IntArray:
    """The integral of the rate (Mbit/s, one for each millisecond) up to a time, in thousandths of a bit: exact."""
    steps = np.minimum(time_ns // MS, len(mbits) - 1)
    before = np.concatenate([[0], np.cumsum(mbits * MS)])
    return np.asarray(before[steps] + mbits[steps] * (time_ns - steps * MS))


@pytest.mark.long
def test_every_packet_leaves_when_the_integral_says(tmp_path: Path) -> None:
    draw = random.Random(10)
    # One millisecond in twenty is an outage; the last rate holds after the flows' end.
    mbits = [draw.choice([0, *[draw.randint(1_000, 10_000)] * 19]) for _ in range(1000 * SECONDS)] + [10_000]
    (tmp_path / "trace.csv").write_text("".join(f"{at},{rate}\n" for at, rate in enumerate(mbits)))
    trace = "file: trace.csv, format: csv, columns: {time: 1, rate: 2}, unit: Mbit, time_unit: ms, holds: from"
    text = f"name: fast\nbottleneck: {{rate: {{trace: {{{trace}, loop: false}}}}, buffer: 2MB, rtt: 2ms}}\n"
    text += f"flows: [{{cca: cubic, count: 2, duration: {SECONDS}s}}]\nmtu: 9000\n"
    assert start(tmp_path, text).wait(PATIENCE_S) == 0, (tmp_path / "said").read_text()

    record = json.loads((tmp_path / "out/run.json").read_text())
    telemetry = json.loads((tmp_path / "out/summary.json").read_text())["telemetry"]
    assert record["drop_cross_check"]["bottleneck"]["holds"] and telemetry["lost"] == 0
    files = sorted(map(str, (tmp_path / "out/telemetry").glob("reports-*.parquet")))
    names = ["timestamp", "queue_delay", "packet_length", "epoch"]
    reports = ds.dataset(files).to_table(columns=names, filter=ds.field("bottleneck") == 0)
    left, delay, length, epoch = (reports[name].to_numpy().astype(np.int64) for name in names)
    assert len(np.unique(epoch)) == 1 and epoch[0] != 0
    left -= record["clock_origin_ns"]
    rates = np.array(mbits, dtype=np.int64)
    taken, came = 8000 * length, carried(rates, left - delay)
    # The clock of a link that serves in turn: free after each = work so far + the most that it stood still before.
    work = np.cumsum(taken)
    begun = work - taken + np.maximum.accumulate(came - (work - taken))
    waited = begun > came
    assert waited.sum() > 50_000 * SECONDS
    # The stamp is the nanosecond that has begun.
    assert (carried(rates, left[waited]) <= begun[waited]).all()
    assert (begun[waited] < carried(rates, left[waited] + 1)).all()
