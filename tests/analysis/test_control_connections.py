# SPDX-License-Identifier: Apache-2.0
"""iperf3's control connections are not flows."""

from __future__ import annotations

import pytest
from narrows_analysis.records.five_tuple import FiveTuple
from narrows_analysis.summary.capture import Totals, control_connections

Connection = tuple[FiveTuple, Totals]


def connection(first: int, last: int, size: int, port: int = 5201, src: str = "10.0.0.1") -> Connection:
    return FiveTuple(6, src, "10.0.0.9", first, port), Totals(first, last, last, size)


DATA = connection(10, 100, 1_000_000)


@pytest.mark.parametrize(
    ("other", "is_control"),
    [
        (connection(5, 105, 4000), True),
        (connection(15, 105, 4000), False),  # begins after it
        (connection(5, 95, 4000), False),  # ends before it
        (connection(5, 105, 200_000), False),  # carries something
        (connection(5, 105, 4000, port=80), False),  # goes elsewhere
        (connection(5, 105, 4000, src="10.0.0.2"), False),  # comes from elsewhere
    ],
)
def test_control(other: Connection, is_control: bool) -> None:
    assert control_connections([other, DATA]) == ({0} if is_control else set())


def test_flows_alike_are_all_flows() -> None:
    assert control_connections([DATA, DATA, connection(0, 200, 900_000)]) == set()
