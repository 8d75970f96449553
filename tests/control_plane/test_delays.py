# SPDX-License-Identifier: Apache-2.0
"""Where RTTs are made: delays of hosts that add up to them, against a search through all delays there can be."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from narrows.experiment.delays import NoDelays, Pair, host_delays, spread

NAMES = "abcd"
MOST = 6
PAIRS = st.dictionaries(
    st.sampled_from([(one, other) for one in NAMES for other in NAMES if one != other]),
    st.integers(0, MOST),
    min_size=1,
    max_size=6,
)


def solutions(rtts: dict[Pair, int]) -> list[dict[str, int]]:
    """All whole delays that make the RTTs: none of them is greater than the greatest RTT."""
    hosts = sorted({host for pair in rtts for host in pair})
    found = (dict(zip(hosts, delays, strict=True)) for delays in product(range(MOST + 1), repeat=len(hosts)))
    return [one for one in found if all(one[a] + one[b] == rtt for (a, b), rtt in rtts.items())]


@settings(deadline=None)
@given(PAIRS)
def test_delays_add_up_and_are_refused_only_where_there_are_none(rtts: dict[Pair, int]) -> None:
    possible = solutions(rtts)
    try:
        found = host_delays(rtts)
    except NoDelays as error:
        assert not possible, possible[0]
        assert error.pair in rtts or error.pair[::-1] in rtts
        return
    assert found in possible
    again = spread(found, rtts)
    assert again in possible
    # Spread out, the least delay is as great as it can be in each case, to the half of a nanosecond that is rounded.
    assert min(again.values()) >= min(found.values())


@given(st.lists(st.integers(0, 10**10), min_size=1, max_size=20))
def test_receivers_that_nothing_else_asks_for_have_none(rtts: list[int]) -> None:
    found = host_delays({(f"sender{n}", "receiver"): rtt for n, rtt in enumerate(rtts)})
    assert found == {"receiver": 0} | {f"sender{n}": rtt for n, rtt in enumerate(rtts)}
    half = min(rtts) // 2
    assert spread(found, [(f"sender{n}", "receiver") for n in range(len(rtts))]) == {"receiver": half} | {
        f"sender{n}": rtt - half for n, rtt in enumerate(rtts)
    }


def test_what_cannot_be_made_is_named() -> None:
    """a + x = 10 and a + y = 20 fix y - x = 10; b + x = b + y contradicts it."""
    rtts = {("a", "x"): 10, ("a", "y"): 20, ("b", "x"): 30, ("b", "y"): 30}
    with pytest.raises(NoDelays):
        host_delays(rtts)
    assert host_delays({**rtts, ("b", "y"): 40}) == {"a": 10, "x": 0, "y": 10, "b": 30}


def test_a_ring_of_three_has_one_solution() -> None:
    """a + b = 4, b + c = 6, c + a = 8: twice the sum is 18, so that c = 5, a = 3 and b = 1."""
    rtts = {("a", "b"): 4, ("b", "c"): 6, ("c", "a"): 8}
    assert host_delays(rtts) == {"a": 3, "b": 1, "c": 5} == spread(host_delays(rtts), rtts)
    # 4 + 6 + 9 is odd: half a nanosecond.
    with pytest.raises(NoDelays):
        host_delays({**rtts, ("c", "a"): 9})
