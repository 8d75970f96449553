# SPDX-License-Identifier: Apache-2.0
"""NADA against RFC 8698: its formulas at values done by hand, and its equilibrium on an ideal link."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

import pytest
from narrows.onhost.nada import Receiver, Report, Sender, warped

PAYLOAD = 1000
LEAST, MOST = 150e3, 1.5e6


def feed(receiver: Receiver, packets: Sequence[tuple[int, float, float, bool]]) -> list[Report]:
    """The reports on packets, each with number, time sent, one-way delay and mark."""
    taken = [receiver.take(number, sent, sent + delay, PAYLOAD, marked) for number, sent, delay, marked in packets]
    return [report for report in taken if report is not None]


def test_a_long_queue_counts_for_less_where_losses_are_recent() -> None:
    """Equation 1: 100 ms is 50 ms above QTH; 50 ms x exp(-0.5 x 1) = 30.3 ms."""
    assert warped(0.1, False) == 0.1 and warped(0.04, True) == 0.04
    assert warped(0.1, True) == pytest.approx(0.05 * math.exp(-0.5))


def test_the_first_report_is_at_once_and_the_next_a_tenth_of_a_second_later() -> None:
    """1000 B each 20 ms are 400 kbit/s, of which a window of 500 ms has seen 120 ms: the first 6 of 25 packets."""
    reports = feed(Receiver(), [(n, 0.02 * n, 0.05, False) for n in range(6)])
    assert [report.received_bps for report in reports] == pytest.approx([8000 / 0.5, 6 * 8000 / 0.5])
    assert [(report.signal_s, report.ramp_up) for report in reports] == [(0.0, True), (0.0, True)]


def test_queueing_delay_is_what_is_above_the_least_and_no_clock_matters() -> None:
    for offset in (0.0, -1e4, 1e4):
        packets = [(n, 0.026 * n, offset + 0.05 + (0.009 if n else 0.0), False) for n in range(21)]
        reports = feed(Receiver(), packets)
        # One in four has a report. The least of 15 samples is the delay without a queue until 15 have had one.
        assert [round(report.signal_s, 6) for report in reports] == [0, 0, 0, 0, 0.009, 0.009]
        assert all(report.ramp_up for report in reports), "9 ms are no build-up"
    late = [(n, 0.026 * n, 0.05 + (0.011 if n == 3 else 0.0), False) for n in range(31)]
    # One sample above QEPS ends the ramp-up as long as it is in the window.
    assert [report.ramp_up for report in feed(Receiver(), late)] == [True] + 5 * [False] + 2 * [True]


def test_losses_and_marks_count_by_the_square_of_their_ratio() -> None:
    """One of six is lost: its ratio is smoothed by 0.1 to 1/60; 10 ms x (1/60 / 0.01)^2 = 27.8 ms."""
    lost = [(n, 0.02 * n, 0.05, False) for n in range(6) if n != 3]
    assert feed(Receiver(), lost)[-1].signal_s == pytest.approx(0.010 * (1 / 60 / 0.01) ** 2 * 36 / 25, rel=0.5)
    marked = [(n, 0.02 * n, 0.05, n == 3) for n in range(6)]
    # One of the five since the first report.
    assert feed(Receiver(), marked)[-1].signal_s == pytest.approx(0.002 * (0.1 / 5 / 0.01) ** 2)
    assert not feed(Receiver(), lost)[-1].ramp_up and feed(Receiver(), marked)[-1].ramp_up


def test_the_rate_ramps_up_to_what_arrives_and_a_bounded_part_more() -> None:
    """Equation 3 with 80 ms: 50 / (80 + 100 + 120) = 1/6; never less than before, never above the most."""
    sender = Sender(LEAST, MOST)
    sender.take(Report(0.0, 600e3, True), 0.08, 1.0)
    assert sender.rate_bps == pytest.approx(700e3)
    sender.take(Report(0.0, 100e3, True), 0.08, 1.1)
    assert sender.rate_bps == pytest.approx(700e3)
    sender.take(Report(0.0, 2e6, True), 0.08, 1.2)
    assert sender.rate_bps == MOST


def test_the_rate_follows_the_signal_and_its_change() -> None:
    """Equations 5 to 7 at 1 Mbit/s, where 15 ms are the equilibrium, and 25 ms come after 0: 0.5 x (100/500 x 10/500
    + 2 x 25/500) of the rate less; then, unchanged, the first part alone."""
    sender = Sender(LEAST, MOST)
    sender.take(Report(0.0, 1e6 / 1.15625, True), 0.1, 1.0)
    assert sender.rate_bps == pytest.approx(1e6)
    sender.take(Report(0.025, 1e6, False), 0.1, 1.1)
    assert sender.rate_bps == pytest.approx(1e6 * (1 - 0.5 * (0.2 * 0.02 + 0.1)))
    rate = sender.rate_bps
    sender.take(Report(0.025, 1e6, False), 0.1, 1.2)
    assert sender.rate_bps == pytest.approx(rate * (1 - 0.5 * 0.2 * (0.025 - 0.015e6 / rate) / 0.5))
    sender.take(Report(10.0, 1e6, False), 0.1, 1.3)
    assert sender.rate_bps == LEAST


@pytest.mark.parametrize(("flows", "capacity_bps"), [(1, 1e6), (2, 1e6), (3, 3.5e6)])
def test_the_equilibrium_on_an_ideal_link(flows: int, capacity_bps: float) -> None:
    """Where the rate is still, the signal is XREF x RMAX / r (equation 5), and the signal is the queueing delay: equal
    rates, and 15 ms of queue at 1 Mbit/s each. Rates that differ come together with a time constant of
    TAU^2 / KAPPA / (XREF x RMAX / r): 17 to 43 s here."""
    one_way_s, length_s = 0.05, 300.0
    senders, receivers = [Sender(LEAST, MOST) for _ in range(flows)], [Receiver() for _ in range(flows)]
    for n, sender in enumerate(senders):
        sender.rate_bps = LEAST * (n + 1)
    numbers, free_s = [0] * flows, 0.0
    rates: list[list[float]] = [[] for _ in range(flows)]
    queues: list[float] = []
    # When, of which flow, and a report with the time at which what it answers was sent; without one a packet is due.
    due: list[tuple[float, int, tuple[Report, float] | None]] = [(0.001 * n, n, None) for n in range(flows)]
    while due and due[0][0] < length_s:
        now_s, n, said = heapq.heappop(due)
        if said is not None:
            senders[n].take(said[0], now_s - said[1], now_s)
            continue
        begins_s = max(now_s, free_s)
        free_s = begins_s + 8 * PAYLOAD / capacity_bps
        if now_s > length_s - 30:
            queues.append(begins_s - now_s)
            rates[n].append(senders[n].rate_bps)
        report = receivers[n].take(numbers[n], now_s, free_s + one_way_s, PAYLOAD, False)
        numbers[n] += 1
        if report is not None:
            heapq.heappush(due, (free_s + 2 * one_way_s, n, (report, now_s)))
        heapq.heappush(due, (now_s + 8 * PAYLOAD / senders[n].rate_bps, n, None))
    share = capacity_bps / flows
    assert [sum(one) / len(one) for one in rates] == pytest.approx([share] * flows, rel=0.05)
    assert sum(queues) / len(queues) == pytest.approx(0.010 * MOST / share, rel=0.15)
