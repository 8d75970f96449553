# SPDX-License-Identifier: Apache-2.0
"""Measures of both directions that are made batch by batch, against those of all reports at once."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from narrows_analysis.aggregation.both_directions import EchoTimes, Outstanding
from narrows_analysis.metrics import rtt

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
