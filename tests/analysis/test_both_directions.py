# SPDX-License-Identifier: Apache-2.0
"""Measures of both directions that are made batch by batch, against those of all reports at once."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from narrows_analysis.aggregation.both_directions import AckSpacing, EchoTimes, Outstanding
from narrows_analysis.metrics import rtt
from narrows_analysis.metrics.acks import compressed_groups

PACKETS = 400
SEGMENT = 1448
WRAP = 1 << 32


def flow(seed: int) -> dict[str, np.ndarray]:
    """Reports of a flow: data arrive, wait and depart in order, one in ten is sent again; acknowledgements follow."""
    random = np.random.default_rng(seed)
    arrival = np.cumsum(random.integers(100, 2000, PACKETS))
    departure = np.maximum.accumulate(arrival + random.integers(0, 5000, PACKETS))
    number = np.arange(PACKETS)
    again = np.flatnonzero(random.random(PACKETS) < 0.1)
    number[again] = np.maximum(number[again] - random.integers(1, 9, len(again)), 0)
    end = WRAP - 100_000 + (number + 1) * SEGMENT
    ack_time = departure + 7000
    return {
        "arrival": arrival, "departure": departure, "end": end % WRAP, "ack_time": ack_time,
        "ack": np.maximum.accumulate(end) % WRAP, "value": arrival // 1000 + 1, "sequence": (end - SEGMENT) % WRAP,
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("batches", [1, 2, 7, 40])
def test_inflight_does_not_depend_on_the_batches(seed: int, batches: int) -> None:
    """A batch ends between reports in the order of departures; queues hold back what arrived before it ended."""
    all_, sender_rtt = flow(seed), 3000
    whole = Outstanding()
    edges = np.linspace(0, all_["ack_time"].max() + 1, batches + 1)
    for low, high in pairwise(edges):
        data = (all_["departure"] >= low) & (all_["departure"] < high)
        back = (all_["ack_time"] >= low) & (all_["ack_time"] < high)
        whole.add(
            all_["arrival"][data], all_["end"][data], all_["ack_time"][back], all_["ack"][back], sender_rtt
        )  # fmt: skip
    whole.finish(sender_rtt)
    _, expected = rtt.inflight(
        all_["arrival"], all_["sequence"], np.full(PACKETS, SEGMENT), all_["ack_time"], all_["ack"], sender_rtt
    )
    # Before the first acknowledgement nothing is known of what is in flight.
    assert PACKETS < whole.size.count <= 2 * PACKETS
    assert whole.size.greatest == expected.max()
    assert whole.size.least == expected[-1] == 0
    known = expected[len(expected) - whole.size.count :]
    assert whole.size.mean == pytest.approx(known.mean(), rel=0.01)


@pytest.mark.parametrize("batches", [1, 3, 40])
def test_echoes_do_not_depend_on_the_batches(batches: int) -> None:
    """Each timestamp of data is echoed by its acknowledgement, and by later ones that do not count."""
    all_ = flow(9)
    echoes = EchoTimes()
    edges = np.linspace(0, all_["ack_time"].max() + 1, batches + 1)
    for low, high in pairwise(edges):
        data = (all_["departure"] >= low) & (all_["departure"] < high)
        back = (all_["ack_time"] >= low) & (all_["ack_time"] < high)
        echoes.add(all_["arrival"][data], all_["value"][data], all_["ack_time"][back], all_["value"][back])
    _, expected = rtt.rtt_from_timestamps(all_["arrival"], all_["value"], all_["ack_time"], all_["value"])
    assert echoes.rtt.count == len(expected) > 100
    assert (echoes.rtt.least, echoes.rtt.greatest) == (expected.min(), expected.max())
    assert echoes.rtt.mean == pytest.approx(expected.mean())


@pytest.mark.parametrize("batches", [1, 3])
def test_what_acknowledges_only_has_no_echo_of_its_own(batches: int) -> None:
    """Its timestamp comes back with what the other end sends next, and data in the same tick have the same one."""
    time, value, answered = np.array([0, 900, 2000]), np.array([5, 5, 6]), np.array([False, True, True])
    echo_time, echo = np.array([1000, 22_000]), np.array([5, 6])
    echoes = EchoTimes()
    for packets, backs in ((slice(0, 1), slice(0, 0)), (slice(1, 2), slice(0, 1)), (slice(2, 3), slice(1, 2))):
        if batches > 1:
            echoes.add(time[packets], value[packets], echo_time[backs], echo[backs], answered[packets])
    if batches == 1:
        echoes.add(time, value, echo_time, echo, answered)
    assert (echoes.rtt.count, echoes.rtt.least) == (1, 20_000)


# Acknowledgements of two segments each, at 20 Mbit/s, and how long one takes there itself; in ns.
APART, ACK = 1_211_200, 26_400


def acknowledgements(wait: int = 0) -> dict[str, np.ndarray]:
    """Twenty of them, `APART` from each other; the queue holds data of `wait` ns when the sixth arrives."""
    arrival = np.arange(20) * APART
    departure = arrival.copy()
    free = int(arrival[5]) + wait
    for number in range(5, 20):
        departure[number] = max(int(arrival[number]), free)
        free = int(departure[number]) + ACK
    return {
        "timestamp": departure, "queue_delay": departure - arrival, "departures": np.arange(1, 21),
        "payload_length": np.zeros(20, np.int64),
    }  # fmt: skip


def spacing(rows: dict[str, np.ndarray], batches: int = 1) -> AckSpacing:
    found = AckSpacing()
    for part in np.array_split(np.arange(len(rows["timestamp"])), batches):
        found.add({name: values[part] for name, values in rows.items()})
    return found


@pytest.mark.parametrize("batches", [1, 3, 20, 40])
def test_acknowledgements_that_wait_for_data_leave_close_together(batches: int) -> None:
    """With a queue of 4.5 spacings numbers 5 to 9 leave from 9.5 spacings on, one behind the other; 10 finds it empty.

    Of the 18 groups those from 5, 6 and 7 leave in two acknowledgements' time, that from 8 in less than half a spacing,
    and that from 9 in 11 - 9.5 spacings less 4 acknowledgements' time, 1.41, which is less than 0.75 times 2. The one
    before them is spread, from 4 to 9.5 spacings.
    """
    found = spacing(acknowledgements(round(4.5 * APART)), batches)
    assert (found.compressed, found.groups) == (5, 18)
    assert found.ratio == 5 / 18


@pytest.mark.parametrize("wait", [0, ACK])
def test_an_empty_queue_compresses_none(wait: int) -> None:
    assert spacing(acknowledgements(wait)).ratio == 0


def test_what_counts_as_compressed_allows_for_the_clock() -> None:
    """8 units became 5, which is less than 6; of a clock of one unit it may have been 7 that became 6."""
    assert compressed_groups([0, 4, 8], [10, 12, 15]).tolist() == [True]
    assert compressed_groups([0, 4, 8], [10, 12, 15], resolution=1).tolist() == [False]
    assert compressed_groups([0, 4], [10, 12]).tolist() == []


def test_groups_that_data_or_missing_reports_interrupt_are_none() -> None:
    rows = acknowledgements(round(4.5 * APART))
    # Three groups hold number 7.
    rows["payload_length"][7] = SEGMENT
    assert spacing(rows).groups == 18 - 3
    every_second = {name: values[::2] for name, values in acknowledgements().items()}
    assert spacing(every_second).ratio is None
