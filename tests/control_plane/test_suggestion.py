# SPDX-License-Identifier: Apache-2.0
"""Hints name what was meant, and nothing where that is unclear."""

from __future__ import annotations

import pytest
from narrows_formats.suggestion import slips, suggestion

FIELDS = ("cca", "count", "duration", "gap", "name", "repeat", "rtt", "size", "stagger", "start", "until", "workload")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("duratoin", "duration"), ("durations", "duration"), ("Duration", "duration"), ("strat", "start"),
        ("worklods", "workload"), ("cc", "cca"), ("rt", "rtt"), ("unitl", "until"),
    ],
)  # fmt: skip
def test_a_slip_is_answered_with_what_was_meant(written: str, meant: str) -> None:
    assert suggestion(written, FIELDS).startswith(f", did you mean '{meant}'? allowed: cca, ")


@pytest.mark.parametrize("written", ["direction", "rate", "", "delay", "x", "time", "a" * 1_000_000])
def test_another_word_is_not(written: str) -> None:
    assert suggestion(written, FIELDS).startswith("; allowed: cca, ")


def test_another_digit_is_another_thing() -> None:
    assert suggestion("bbr2", ["bbr", "cubic"]) == "; allowed: bbr, cubic"
    assert suggestion("10Mbit", ["100Mbit"]) == "; allowed: 100Mbit"
    assert suggestion("x", []) == "; allowed: "


def test_slips_are_counted_as_in_the_literature() -> None:
    """Damerau's four kinds, and the standard example of the edit distance."""
    assert [slips("start", word) for word in ("start", "stat", "staart", "stort", "satrt")] == [0, 1, 1, 1, 1]
    assert slips("kitten", "sitting") == 3
