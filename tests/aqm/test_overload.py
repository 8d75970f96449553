# SPDX-License-Identifier: Apache-2.0
"""DualPI2 under unresponsive traffic, more of it than the link carries: what RFC 9332, section 4.2, bounds.

At twice the link's rate the drop probability p^2 has to be 1/2. Around that the delay follows
q'' + 9.1 q' + 28 q = noise: alpha is 0.16 each 16 ms, beta 3.2, and a second's drops answer to p by 2 p x (rate / link)
= 2.8. Random drops of a stream of 2 x 2000 packets/s, 1000 /s by their variance, make that waver by 7.3 ms around the
target of 15 ms; without management 10 s of it would end in 10 s of delay.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import mean

import pytest
from models.link import CE, ECT_1, NOT_ECT, NS, Arrival
from switch import Left, through_switch
from test_switch import pi2

pytestmark = pytest.mark.needs("narrows-softswitch")

MS = 1_000_000
# 2000 packets/s.
RATE, SIZE = 20_000_000, 1250
SERVICE_NS = SIZE * 8 * NS // RATE
SECONDS, SETTLED = 10, 2
TARGET_MS, WAVERS_MS = 15, 7.3
CLASSIC, LOW = 1, 2


def offered(classic: float, low: float) -> list[Arrival]:
    """Constant streams of Not-ECT and ECT(1), as multiples of the link's rate, no two packets at one time."""
    streams = [(CLASSIC, classic, NOT_ECT, 0), (LOW, low, ECT_1, SERVICE_NS // 7)]
    made = [
        Arrival(1000 + phase + int(number * SERVICE_NS / load), flow, SIZE, ecn)
        for flow, load, ecn, phase in streams
        for number in range(int(load * RATE * SECONDS / (SIZE * 8)))
    ]
    return sorted(made, key=lambda packet: packet.time_ns)


class Outcome:
    """What became of a stream, from two seconds on."""

    def __init__(self, flow: int, arrivals: Sequence[Arrival], left: Sequence[Left]) -> None:
        late = {number for number, one in enumerate(arrivals) if one.flow == flow and one.time_ns > SETTLED * NS}
        sent = [packet for packet in left if packet.number in late]
        waited = sorted((one.time_ns - arrivals[one.number].time_ns - SERVICE_NS) / MS for one in sent)
        self.lost = 1 - len(sent) / len(late)
        self.marked = sum(packet.ecn == CE for packet in sent) / len(sent)
        self.mean_ms, self.p99_ms, self.most_ms = mean(waited), waited[len(waited) * 99 // 100], waited[-1]


def through(directory: Path, classic: float, low: float) -> tuple[list[Arrival], list[Left]]:
    arrivals = offered(classic, low)
    law, _ = pi2(low_latency=True)
    return arrivals, through_switch(directory, law, arrivals, RATE)


@pytest.mark.parametrize("load", [1.2, 2.0])
@pytest.mark.parametrize("flow", [CLASSIC, LOW])
def test_overload_of_one_queue_keeps_its_delay(tmp_path: Path, flow: int, load: float) -> None:
    """Either queue: what is too much is dropped, the delay stays at the target; and all that L sends is marked.

    At a load of 1.2 p^2 is 1/6 in C, and in L, which loses nothing up to p = 1/2, in turns 0 and 1/4.
    """
    arrivals, left = through(tmp_path, *((load, 0) if flow == CLASSIC else (0, load)))
    found = Outcome(flow, arrivals, left)
    # A window of 8 s may end 5 deviations fuller than it began, or emptier.
    assert found.lost == pytest.approx(1 - 1 / load, abs=5 * WAVERS_MS / 8000)
    assert found.mean_ms == pytest.approx(TARGET_MS, abs=WAVERS_MS)
    assert found.p99_ms < TARGET_MS + 5 * WAVERS_MS
    assert found.marked == (1 if flow == LOW else 0)


def test_a_flooded_classic_queue_does_not_delay_the_other(tmp_path: Path) -> None:
    """C offers all of the link and L a tenth: C loses p^2 = 1/10, L is marked with 2 p = 0.63 and loses nothing.

    It waits for a classic packet in service, 0.5 ms, and at each tenth for one that the scheduler owes C.
    """
    arrivals, left = through(tmp_path, 1, 0.1)
    classic, low = Outcome(CLASSIC, arrivals, left), Outcome(LOW, arrivals, left)
    assert low.lost == 0
    assert low.most_ms < 1
    assert classic.lost == pytest.approx(0.1, abs=0.02)
    assert low.marked == pytest.approx(2 * 0.1**0.5, abs=0.1)
    assert classic.mean_ms == pytest.approx(TARGET_MS, abs=WAVERS_MS)


def test_both_queues_share_the_fate_of_an_overload(tmp_path: Path) -> None:
    """Both offer all of the link: L has no advantage, each loses half (RFC 9332, section 4.2.3)."""
    arrivals, left = through(tmp_path, 1, 1)
    classic, low = Outcome(CLASSIC, arrivals, left), Outcome(LOW, arrivals, left)
    assert classic.lost == pytest.approx(0.5, abs=0.03)
    assert low.lost == pytest.approx(0.5, abs=0.03)
    assert classic.p99_ms < TARGET_MS + 5 * WAVERS_MS
    assert low.p99_ms < TARGET_MS


def test_a_flooded_low_latency_queue_does_not_starve_the_classic_one(tmp_path: Path) -> None:
    """L offers 1.5 of the link, C a tenth, which it is granted: of 1.6 in all each loses 3/8, and C waits no longer."""
    arrivals, left = through(tmp_path, 0.1, 1.5)
    classic, low = Outcome(CLASSIC, arrivals, left), Outcome(LOW, arrivals, left)
    assert classic.lost == pytest.approx(3 / 8, abs=0.1)
    assert low.lost == pytest.approx(3 / 8, abs=0.03)
    assert classic.p99_ms < TARGET_MS + 5 * WAVERS_MS
    assert low.p99_ms < TARGET_MS + 5 * WAVERS_MS
