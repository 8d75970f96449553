# SPDX-License-Identifier: Apache-2.0
"""The models of queue management against values worked out by hand from the RFCs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from models import blue, codel, dualpi2, fair, head_drop, pie, red
from models.link import CE, ECT_0, ECT_1, NOT_ECT, Arrival, Fate, Outcome, Waiting, run

MS = 1_000_000
# A packet of 1500 bytes takes 1 ms.
RATE = 12_000_000
SIZE = 1500
NEVER, ALWAYS = (1 << 32) - 1, 0


def which(outcomes: Sequence[Outcome], fate: Fate) -> list[int]:
    return [number for number, outcome in enumerate(outcomes) if outcome.fate is fate]


def overload(packets: int, ecn: int = NOT_ECT) -> list[Arrival]:
    """Twice what the link carries: without drops packet n leaves at n ms, n/2 ms after it came."""
    return [Arrival(number * MS // 2, 0, SIZE, ecn) for number in range(packets)]


def test_the_link_keeps_fractions_of_a_nanosecond() -> None:
    """8 bits at 3 Gbit/s take 8/3 ns: packets begin at 0, 2.67 and 5.33 ns, which are over at the next whole ones."""
    outcomes = run(codel.CoDel(), [Arrival(0, 0, 1)] * 3, 3_000_000_000)
    assert [outcome.time_ns for outcome in outcomes] == [0, 3, 6]


def test_a_full_queue_drops_at_its_tail() -> None:
    outcomes = run(codel.CoDel(limit=2), [Arrival(0, 0, SIZE)] * 4, RATE)
    assert which(outcomes, Fate.TAIL_DROP) == [3]


# The delay is 5 ms at 10 ms, so the first drop is at 110 ms; then after 100 ms, 100/sqrt(2), 100/sqrt(3), 100/sqrt(4):
# at 210, 280.71, 338.45 and 388.45 ms, by the departures at the next whole milliseconds.
DROPS_AT_MS = [110, 210, 281, 339, 389]


def test_codel_drops_at_the_times_of_its_law() -> None:
    """Each drop brings all packets behind it forward by one."""
    outcomes = run(codel.CoDel(), overload(420), RATE)
    assert which(outcomes, Fate.AQM_DROP)[:5] == [at + before for before, at in enumerate(DROPS_AT_MS)]
    assert [outcomes[number].time_ns // MS for number in which(outcomes, Fate.AQM_DROP)[:5]] == DROPS_AT_MS


def test_codel_marks_what_it_would_drop() -> None:
    outcomes = run(codel.CoDel(ecn=True), overload(420, ECT_0), RATE)
    assert which(outcomes, Fate.MARKED)[:5] == DROPS_AT_MS
    assert which(outcomes, Fate.AQM_DROP) == []


def test_codel_leaves_one_packet_alone() -> None:
    """At 120 kbit/s a packet takes 100 ms: a queue of one is above the target for ever, and is none to be cut."""
    arrivals = [Arrival(number * 100 * MS, 0, SIZE) for number in range(50)]
    assert which(run(codel.CoDel(), arrivals, RATE // 100), Fate.AQM_DROP) == []


def test_blue_changes_its_probability_once_in_a_freeze_time() -> None:
    """Once ten packets wait, each second arrival is lost, a millisecond after the one before.

    A change comes with the first loss that is more than 100 ms after the last one, 101 ms: at 100 to 101 ms, and eight
    times more until 950 ms. Some 10 ms later the link falls idle, too soon for a change; then a packet comes alone.
    """
    queue = blue.Blue(lambda: NEVER, limit=10 * SIZE, increment=1000, decrement=10, freeze=100 * MS)
    offered = [*overload(1900), Arrival(1210 * MS, 0, SIZE)]
    losses = which(run(queue, offered, RATE), Fate.TAIL_DROP)
    assert {later - first for first, later in itertools.pairwise(losses)} == {2}
    assert queue.probability == 9 * 1000 - 10


def test_blue_marks_or_drops_what_it_picks() -> None:
    for ecn, fate in ((True, Fate.MARKED), (False, Fate.AQM_DROP)):
        queue = blue.Blue(lambda: ALWAYS, limit=10 * SIZE, increment=1, decrement=1, freeze=MS, ecn=ecn)
        queue.probability = 1
        assert {outcome.fate for outcome in run(queue, overload(5, ECT_0), RATE)} == {fate}


def test_linux_root_follows_the_exact_one() -> None:
    """A Newton step squares the error: 1.5 / 200^2 at 100, beside 16 bits of precision."""
    root = codel.LinuxRoot()
    root.set(1, fresh=True)
    for number in range(2, 101):
        root.set(number, fresh=False)
    assert root.of(100 * MS) == pytest.approx(10 * MS, rel=1e-3)


def test_pie_scales_its_gains_by_the_probability() -> None:
    """RFC 8033, 4.2: gains / 2048 below 1e-6, / 128 below 1e-4, with alpha 0.125 and beta 1.25 for each second.

    Scaled gains are whole parts of 2^-56, some 4400 for alpha and 44000 for beta: right to 1e-4.
    """
    queue = pie.Pie(lambda: NEVER)
    queue._delay = 30 * MS
    queue.update(0)
    first = (0.125 * 0.015 + 1.25 * 0.030) / 2048
    assert queue.probability / pie.CERTAIN == pytest.approx(first, rel=1e-4)
    queue.update(0)
    assert queue.probability / pie.CERTAIN == pytest.approx(first + 0.125 * 0.015 / 128, rel=1e-4)


@pytest.mark.parametrize(("draw", "every"), [(ALWAYS, 4), (NEVER, 34)])
def test_pie_keeps_its_drops_apart(draw: int, every: int) -> None:
    """At p = 1/4 none before a sum of 0.85, and one at 8.5 whatever is drawn."""
    queue = pie.Pie(lambda: draw)
    # A hair more than a quarter: sums of rounded numbers reach their bounds.
    queue.probability, queue.burst, queue._delay = pie.CERTAIN // 4 + 1, 0, 15 * MS
    queue._queue.bytes = 100 * SIZE
    assert [number for number in range(1, 103) if _picks(queue)] == list(range(every, 103, every))


def _picks(queue: pie.Pie) -> bool:
    fates: list[Fate] = []
    queue.drop = lambda _packet, fate, _now: fates.append(fate)
    queue.enqueue(Waiting(0, Arrival(0, 0, SIZE)), 0)
    return fates == [Fate.AQM_DROP]


def test_pie_allows_bursts() -> None:
    """The allowance of 150 ms is ten updates of 15 ms."""
    outcomes = run(pie.Pie(lambda: ALWAYS), overload(2000), RATE)
    drops = which(outcomes, Fate.AQM_DROP)
    assert drops and outcomes[drops[0]].time_ns >= 150 * MS


def test_dualpi2_has_the_gains_of_its_rfc() -> None:
    """Alpha 0.16 Hz, beta 3.2 Hz (41 and 819 of 256): the head waits 31 ms, 16 ms above the target."""
    queue = dualpi2.DualPi2(lambda: NEVER)
    queue.enqueue(Waiting(0, Arrival(0, 0, SIZE)), 0)
    queue.update(31 * MS)
    assert queue.probability / dualpi2.CERTAIN == pytest.approx(41 / 256 * 0.016 + 819 / 256 * 0.031, rel=1e-3)


def test_dualpi2_shares_the_link_ten_to_ninety() -> None:
    queue = dualpi2.DualPi2(lambda: NEVER)
    arrivals = [Arrival(0, flow, SIZE, ecn) for _ in range(200) for flow, ecn in ((0, NOT_ECT), (1, ECT_1))]
    outcomes = run(queue, arrivals, RATE)
    # The first packet met an idle link; while both wait every tenth is classic.
    early = [arrivals[number].flow for number, outcome in enumerate(outcomes) if 0 < outcome.time_ns <= 100 * MS]
    assert early.count(0) == 10 and early.count(1) == 90


@pytest.mark.parametrize(
    ("probability", "ecn", "draws", "fate"),
    [
        # C: two draws have to be within p, as its square asks; L: one within twice p.
        (0.25, NOT_ECT, [0.2, 0.2], Fate.AQM_DROP),
        (0.25, NOT_ECT, [0.2, 0.3], Fate.SENT),
        (0.25, ECT_0, [0.2, 0.2], Fate.MARKED),
        (0.25, ECT_1, [0.49], Fate.MARKED),
        (0.25, CE, [0.51], Fate.SENT),
        # Overload, 2 p > 1: ECN is not heeded, and L drops by the classic law.
        (0.6, ECT_0, [0.5, 0.5], Fate.AQM_DROP),
        (0.6, ECT_1, [0.5, 0.5], Fate.AQM_DROP),
        (0.6, ECT_1, [0.5, 0.7], Fate.MARKED),
    ],
)
def test_dualpi2_couples_two_laws(probability: float, ecn: int, draws: list[float], fate: Fate) -> None:
    left = [int(draw * dualpi2.CERTAIN) for draw in draws]
    queue = dualpi2.DualPi2(lambda: left.pop(0))
    for number in range(4):
        queue.enqueue(Waiting(number, Arrival(0, 0, SIZE, ecn)), 0)
    queue.probability = int(probability * dualpi2.CERTAIN)
    fates: list[Fate] = []

    def dropped(packet: Waiting, fate: Fate, now: int) -> None:
        fates.append(fate)
        queue.probability = 0
        left.extend([dualpi2.CERTAIN] * 2)

    queue.drop = dropped
    packet = queue.dequeue(0)
    assert packet is not None
    assert (fates or [Fate.MARKED if packet.marked else Fate.SENT]) == [fate]


def test_dualpi2_marks_above_its_step() -> None:
    """The third packet of a burst waits 2 ms, above 1 ms; the second exactly 1 ms, which is not above."""
    outcomes = run(dualpi2.DualPi2(lambda: NEVER), [Arrival(0, 0, SIZE, ECT_1)] * 3, RATE)
    assert [outcome.fate for outcome in outcomes] == [Fate.SENT, Fate.SENT, Fate.MARKED]


def red_queue(draw: int, average: int = 0, weight_log: int = 32) -> red.Red:
    """RED between 10 and 30 kB, 1/2 at the upper one; with 2^-32 as weight a set average stays."""
    queue = red.Red(lambda: draw, 10**6, 10_000, 30_000, 1 << 31, weight_log, SIZE, RATE)
    queue._average = average << weight_log
    return queue


def test_red_averages_what_waits_at_arrivals() -> None:
    """With weight 1/2: 0 at an idle link, then 0, (0 + 1500) / 2 and (750 + 3000) / 2."""
    queue = red_queue(NEVER, weight_log=1)
    averages = []
    for number in range(4):
        queue.enqueue(Waiting(number, Arrival(0, 0, SIZE)), 0)
        averages.append(queue.average)
        if number == 0:
            queue.dequeue(0)
    assert averages == [0, 0, 750, 1875]


def test_red_forgets_in_idle_times() -> None:
    """3 ms are three packets of 1 ms: 1600 / 2^3; half a packet more is 1600 / 2^3.5; a second leaves nothing."""
    for idle_ns, left in ((3 * MS, 200), (7 * MS // 2, 141), (1000 * MS, 0)):
        queue = red_queue(NEVER, 1600, weight_log=1)
        queue.enqueue(Waiting(0, Arrival(0, 0, SIZE)), idle_ns)
        assert queue.average == left


@pytest.mark.parametrize(
    ("average", "draw", "picked"),
    [
        # Half way p is 1/4. Whatever is drawn: the first packet has n = 0, and 1 - n p is none left at n = 4.
        (20_000, NEVER, [5, 9, 13]),
        # A draw of 0.3 is above 1/4 and below (1/4) / (3/4): the second one, and then each has n = 1.
        (20_000, int(0.3 * (1 << 32)), [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]),
        (30_001, NEVER, list(range(1, 14))),
        (9_999, ALWAYS, []),
    ],
)
def test_red_spreads_its_drops(average: int, draw: int, picked: list[int]) -> None:
    queue = red_queue(draw, average)
    fates: list[int] = []
    queue.drop = lambda packet, _fate, _now: fates.append(packet.number)
    queue._idle_from = None
    for number in range(1, 14):
        queue.enqueue(Waiting(number, Arrival(0, 0, SIZE)), 0)
    assert fates == picked


@pytest.mark.parametrize(
    ("average", "settings", "fates"),
    [
        # Not-ECT and ECT(0); the draw hits between the bounds, and above the upper one none is needed.
        (20_000, {}, [Fate.AQM_DROP, Fate.AQM_DROP]),
        (20_000, {"ecn": True}, [Fate.AQM_DROP, Fate.MARKED]),
        (20_000, {"ecn": True, "harddrop": True}, [Fate.AQM_DROP, Fate.MARKED]),
        (20_000, {"ecn": True, "nodrop": True}, [Fate.SENT, Fate.MARKED]),
        (40_000, {"ecn": True}, [Fate.AQM_DROP, Fate.MARKED]),
        (40_000, {"ecn": True, "harddrop": True, "nodrop": True}, [Fate.AQM_DROP, Fate.AQM_DROP]),
    ],
)
def test_red_marks_drops_or_spares(average: int, settings: dict[str, bool], fates: list[Fate]) -> None:
    """tc-red(8): ecn, harddrop and nodrop."""
    queue = red.Red(lambda: ALWAYS, 10**6, 10_000, 30_000, 1 << 31, 32, SIZE, RATE, **settings)
    queue._average, queue._idle_from = average << 32, None
    found: list[Fate] = []
    queue.drop = lambda _packet, fate, _now: found.append(fate)
    for number, ecn in enumerate((NOT_ECT, ECT_0)):
        packet = Waiting(number, Arrival(0, 0, SIZE, ecn))
        queue.enqueue(packet, 0)
        if len(found) == number:
            found.append(Fate.MARKED if packet.marked else Fate.SENT)
    assert found == fates


def order(queue: fair.Fair, arrivals: Sequence[Arrival]) -> list[int]:
    """Flows in the order in which their packets leave, the first of which met an idle link."""
    outcomes = run(queue, arrivals, RATE)
    sent = [number for number in range(len(arrivals)) if outcomes[number].fate is not Fate.TAIL_DROP]
    return [arrivals[number].flow for number in sorted(sent, key=lambda number: outcomes[number].time_ns)]


def test_fair_queues_share_by_bytes_and_new_ones_go_first() -> None:
    """RFC 8290, 4.2, with a quantum of 1000: flow 1 sends two packets of 500 for each one of flow 0's 1000.

    Flow 2 comes at 2.9 ms, when both others are old, and is served before them once.
    """
    arrivals = [Arrival(0, flow, size) for _ in range(4) for flow, size in ((0, 1000), (1, 500), (1, 500))]
    late = Arrival(29 * MS // 10, 2, 100)
    # A packet of 1000 bytes takes 0.667 ms, two of 500 as long: at 2.9 ms the one that began at 2.67 ms is under way.
    assert order(fair.Fair(queues=4, quantum=1000), [*arrivals, late]) == [0, 1, 1, 0, 1, 1, 0, 2, 1, 1, 0, 1, 1]


def test_an_emptied_queue_is_new_again_only_after_its_turn_among_the_old() -> None:
    """RFC 8290, 4.2: a flow that has a packet whenever its queue ran empty does not go before the others each time.

    Flow 0 sends two packets a turn. Flow 1's first is sent at 2 ms; its second comes when the next turn of flow 0 has
    begun, which first comes to its end.
    """
    arrivals = [*(Arrival(0, 0, SIZE) for _ in range(6)), Arrival(1, 1, 100), Arrival(5 * MS // 2, 1, 100)]
    assert order(fair.Fair(queues=2, quantum=2 * SIZE), arrivals) == [0, 0, 1, 0, 0, 1, 0, 0]


def test_a_full_link_takes_from_the_longest_queue() -> None:
    """RFC 8290, 4.1: half of its packets, 64 at most; the longest is that of most bytes, not of most packets."""
    short = [Arrival(0, 0, 100) for _ in range(10)]
    for big, dropped in ((4, 2), (200, 64)):
        arrivals = [*short, *(Arrival(0, 1, SIZE) for _ in range(big))]
        # The first packet of all is on the link, and no longer in a queue.
        outcomes = run(fair.Fair(queues=2, limit=len(arrivals) - 2), arrivals, RATE)
        assert which(outcomes, Fate.TAIL_DROP) == list(range(10, 10 + dropped))


def test_each_fair_queue_has_its_own_codel() -> None:
    """Flow 0 offers as much as the link carries and flow 1 a tenth: only the first has a queue that stands."""
    arrivals = [Arrival(number * MS, 0, SIZE, ECT_0) for number in range(2000)]
    arrivals += [Arrival(number * 10 * MS, 1, SIZE, ECT_0) for number in range(200)]
    arrivals.sort(key=lambda one: one.time_ns)
    outcomes = run(fair.fq_codel(queues=2), arrivals, RATE)
    marked = {arrivals[number].flow for number in which(outcomes, Fate.MARKED)}
    assert marked == {0}
    assert which(outcomes, Fate.AQM_DROP) == []


def test_one_fair_queue_with_codel_is_codel() -> None:
    alone = run(codel.CoDel(ecn=True, limit=10**6), overload(2000, ECT_0), RATE)
    assert run(fair.fq_codel(queues=1, limit=10**6), overload(2000, ECT_0), RATE) == alone


def test_backlog_of_other_queues_counts_only_where_it_is_asked_for() -> None:
    """A flow of one packet at a time beside a long one has no backlog of its own: nothing of it is dropped."""
    # 40 flows with a packet every 80 ms each are twice what the link carries; each has at most its own few.
    arrivals = [Arrival(number * MS // 2, number % 40, SIZE) for number in range(800)]
    alone = run(fair.fq_codel(queues=64), arrivals, RATE)
    whole = run(fair.fq_codel(queues=64, whole_backlog=True), arrivals, RATE)
    assert len(which(whole, Fate.AQM_DROP)) > len(which(alone, Fate.AQM_DROP))


def test_a_full_head_drop_queue_loses_its_oldest() -> None:
    """Room for three of 1500 bytes behind the one on the link: of six that come at once the second and third go."""
    outcomes = run(head_drop.HeadDrop(3 * SIZE), [Arrival(0, 0, SIZE)] * 6, RATE)
    assert which(outcomes, Fate.TAIL_DROP) == [1, 2]
    # A small one makes a whole packet go, and one that never fits makes none go.
    arrivals = [Arrival(0, 0, SIZE)] * 4 + [Arrival(0, 0, 100), Arrival(0, 0, 4 * SIZE)]
    assert which(run(head_drop.HeadDrop(3 * SIZE), arrivals, RATE), Fate.TAIL_DROP) == [1, 5]
