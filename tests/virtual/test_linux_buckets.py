# SPDX-License-Identifier: Apache-2.0
"""The policer and the shaper with a burst next to Linux's `tc ... action police` and tbf, in a guest.

Linux stamps what comes to them and what leaves; what came there is replayed through the softswitch. Both keep exact
accounts, but for what these bounds say:

- a tbf's packet waits for a timer, which no guest sets for less than 500 ns. Its account is of the time that has
  passed, so that a packet does not pass its delay on;
- Linux rounds what a packet costs down to a nanosecond, so that it is ahead by less than one for each packet. Here
  bytes of most rates take whole nanoseconds;
- tc counts the burst of a policer in ticks of 64 ns, of which those here are multiples;
- tbf counts the packet that waits for tokens as one of its queue, the softswitch does not. They are alike in what they
  drop where packets have one length.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from harness import replay, write_frames
from narrows import python
from narrows.virtual import kernels
from narrows.virtual.cores import core
from narrows.virtual.guest import Guest
from narrows.virtual.kernels import Kernel
from needs import POLICE
from test_launches import READINGS_NS, SHORTEST_TIMER_NS

pytestmark = pytest.mark.needs("guest-kernel", "narrows-softswitch", "ip", "tc")

INIT = Path(__file__).with_name("linux_buckets_guest.py")
MEMORY_BYTES = 512 << 20
BURSTS, MOST_OF_A_BURST = 400, 10
LEAST, MOST = 60, 1514
SILENCE_EVERY = 20
MBIT = 1_000_000
BYTE = 8_000_000_000  # bits of one, times nanoseconds of a second
BUCKETS = [(8 * MBIT, 30_000), (8 * MBIT, 1_600), (100 * MBIT, 3_200)]
Frames = list[tuple[int, int]]  # each a time in ns and a length in bytes


def train(rate_bps: int, load: float, length: int | None = None) -> Frames:
    """Bursts with gaps between them, the rate's ``load`` in sum; after some the buckets are full. Gaps, and lengths."""
    draw = random.Random(69)
    found = []
    for number in range(BURSTS):
        lengths = [length or draw.randint(LEAST, MOST) for _ in range(draw.randint(1, MOST_OF_A_BURST))]
        silence = 0.1e9 if number % SILENCE_EVERY == 0 else 0
        gap_ns = round(draw.uniform(0, 2) * sum(lengths) * BYTE / rate_bps / load + silence)
        found += [(0 if place else gap_ns, each) for place, each in enumerate(lengths)]
    return found


async def said(kernel: Kernel, directory: Path) -> dict[str, Frames]:
    """What the guest says."""
    with core() as cpu:
        init = python.in_guest(str(INIT))
        async with await Guest.start(kernel, MEMORY_BYTES, init, cpu, directory) as guest:
            async for line in guest.lines():
                found: dict[str, Frames] = json.loads(line)
                return found
    raise AssertionError(guest.stderr_tail())


def both(
    directory: Path, kernel: Kernel, commands: list[str], queue: Mapping[str, Any], frames: Frames
) -> tuple[int, Frames, Frames]:
    """How many frames came, and those that left Linux and the softswitch."""
    (directory / "task.json").write_text(json.dumps({"commands": commands, "train": frames}))
    found = asyncio.run(said(kernel, directory))
    began_ns = found["came"][0][0]
    came, linux = ([(time_ns - began_ns, length) for time_ns, length in found[which]] for which in ("came", "left"))
    assert [length for _, length in came] == [length for _, length in frames]
    write_frames(directory / "came.pcap", came)
    _, ours = replay(directory, queue, {"pcap": "came.pcap"})
    return len(came), linux, ours


@pytest.mark.needs("police-kernel")
@pytest.mark.parametrize(("rate_bps", "burst_bytes"), BUCKETS)
def test_what_exceeds_a_rate_is_what_linux_drops(tmp_path: Path, rate_bps: int, burst_bytes: int) -> None:
    police = f"police rate {rate_bps}bit burst {burst_bytes} conform-exceed drop/ok"
    commands = [
        "qdisc add DEV root handle 1: htb",  # a place for filters; without classes it holds nothing back
        f"filter add DEV parent 1: protocol all prio 1 basic action {police}",
    ]
    queue = {"rate_bps": "unlimited", "policer": {"rate_bps": rate_bps, "burst_bytes": burst_bytes}}
    kernel = next(each for each in kernels.installed() if POLICE in kernels.configuration(each))
    came, linux, ours = both(tmp_path, kernel, commands, queue, train(rate_bps, 4))
    assert ours == linux
    assert came / 10 < len(ours) < came * 9 / 10


@pytest.mark.parametrize(("rate_bps", "burst_bytes"), [*BUCKETS, (33_333_336, 30_000)])
def test_what_exceeds_a_burst_leaves_when_it_leaves_tbf(tmp_path: Path, rate_bps: int, burst_bytes: int) -> None:
    commands = [f"qdisc add DEV root tbf rate {rate_bps}bit burst {burst_bytes} limit 100000000"]
    queue = {"rate_bps": rate_bps, "burst_bytes": burst_bytes, "limit_bytes": 0}
    came, linux, ours = both(tmp_path, kernels.installed()[0], commands, queue, train(rate_bps, 0.9))
    assert [length for _, length in ours] == [length for _, length in linux] and len(ours) == came
    late_ns = [theirs - own for (theirs, _), (own, _) in zip(linux, ours, strict=True)]
    ahead_ns = came if BYTE % rate_bps else 0
    assert -ahead_ns <= min(late_ns) and max(late_ns) < SHORTEST_TIMER_NS + READINGS_NS


def test_a_full_tbf_drops_what_the_queue_drops(tmp_path: Path) -> None:
    rate_bps, length, holds = 8 * MBIT, 1_000, 7
    commands = [f"qdisc add DEV root tbf rate {rate_bps}bit burst 3200 limit {holds * length}"]
    queue = {"rate_bps": rate_bps, "burst_bytes": 3_200, "limit_bytes": (holds - 1) * length}
    came, linux, ours = both(tmp_path, kernels.installed()[0], commands, queue, train(rate_bps, 1.2, length))
    assert len(ours) == len(linux) and came / 2 < len(ours) < came
    late_ns = [theirs - own for (theirs, _), (own, _) in zip(linux, ours, strict=True)]
    assert min(late_ns) >= 0 and max(late_ns) < SHORTEST_TIMER_NS + READINGS_NS
