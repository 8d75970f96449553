# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from narrows_formats.units import (
    QueueDepth,
    UnitError,
    about_time,
    bdp_bytes,
    format_rate,
    format_size,
    format_time,
    parse_rate,
    parse_ratio,
    parse_size,
    parse_time,
)

MBIT = 10**6
MS = 10**6


@pytest.mark.parametrize(
    ("text", "bps"),
    [("100Mbit", 100 * MBIT), ("1Gbit", 10**9), ("1.5Mbit", 1_500_000), ("64 kbit/s", 64_000), ("1bit", 1)],
)
def test_a_rate_is_read_in_bits_per_second(text: str, bps: int) -> None:
    assert parse_rate(text) == bps


@pytest.mark.parametrize(
    ("text", "size"), [("1B", 1), ("1kB", 1000), ("1KB", 1000), ("1KiB", 1024), ("1.5MB", 1500000)]
)
def test_a_size_is_read_in_bytes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [("40ms", 40 * MS), ("0s", 0), (0, 0), ("1.5s", 1500 * MS), ("250us", 250_000), ("5min", 300 * 10**9)],
)
def test_a_time_is_read_in_nanoseconds(text: object, nanoseconds: int) -> None:
    assert parse_time(text) == nanoseconds


@pytest.mark.parametrize(("value", "ratio"), [(0, 0.0), ("0.1%", 0.001), (0.25, 0.25), ("99%", 0.99), (1e-6, 1e-6)])
def test_a_ratio_may_be_in_percent(value: object, ratio: float) -> None:
    assert parse_ratio(value) == ratio


@pytest.mark.parametrize(
    ("parse", "value", "problem"),
    [
        (parse_rate, "fast", "is not a rate"),
        (parse_rate, "100", "has no unit"),
        (parse_rate, 100, "has no unit"),
        (parse_rate, "100mbit", "unknown unit 'mbit'"),
        (parse_rate, "-1Mbit", "is not more than 0"),
        (parse_rate, "0Mbit", "is not more than 0"),
        (parse_rate, "0.5bit", "is not a whole number of bits per second"),
        (parse_rate, True, "is not a rate"),
        (parse_rate, None, "is not a rate"),
        (parse_rate, "1e19bit", "is 2^63 bits per second or more"),
        # What takes minutes to work out, or has no floating-point number.
        (parse_rate, "1e400bit", "is not a rate"),
        (parse_rate, "1e99999999bit", "is not a rate"),
        (parse_rate, f"{'1' * 5000}bit", "is not a rate"),
        (parse_time, "40ms/s", "unknown unit 'ms/s'"),
        (parse_size, "5MB/s", "unknown unit 'MB/s'"),
        (QueueDepth.parse, "1bdp/s", "unknown unit 'bdp/s'"),
        (parse_size, "1.5B", "is not a whole number of bytes"),
        (parse_size, "0B", "is not more than 0"),
        (parse_time, "-1s", "is negative"),
        (parse_time, "1 hour", "unknown unit 'hour'"),
        (parse_ratio, 1, "is outside 0..1"),
        (parse_ratio, -0.1, "is outside 0..1"),
        (parse_ratio, "1ms", "unknown unit 'ms'"),
        (QueueDepth.parse, 0, "is not more than 0"),
        (QueueDepth.parse, "-1bdp", "is not more than 0"),
        (QueueDepth.parse, "1.5packets", "is not a whole number of packets"),
        (QueueDepth.parse, "10", "has no unit"),
        (QueueDepth.parse, "1pint", "unknown unit 'pint'"),
    ],
)
def test_what_is_no_quantity_is_refused_with_what_is_allowed(
    parse: Callable[[object], object], value: object, problem: str
) -> None:
    with pytest.raises(UnitError) as caught:
        parse(value)
    assert problem in str(caught.value)
    assert caught.value.allowed


@pytest.mark.parametrize(
    ("text", "size"),
    [("375kB", 375_000), ("250packets", 378_500), ("30ms", 375_000), ("0.5bdp", 250_000), ("1bdp", 500_000)],
)
def test_queue_depth_in_bytes(text: str, size: int) -> None:
    """100 Mbit/s, 40 ms and frames of 1514 B: one BDP is 500 kB, and 30 ms are 375 kB."""
    assert QueueDepth.parse(text).in_bytes(100 * MBIT, 40 * MS, 1514) == size


def test_bdp_is_exact() -> None:
    assert bdp_bytes(3, 1) * 8 * 10**9 == 3


@given(st.integers(1, 10**12))
def test_rate_round_trip(bps: int) -> None:
    assert parse_rate(format_rate(bps)) == bps


@given(st.integers(1, 10**15))
def test_size_round_trip(size: int) -> None:
    assert parse_size(format_size(size)) == size


@given(st.integers(0, 10**15))
def test_time_round_trip(nanoseconds: int) -> None:
    assert parse_time(format_time(nanoseconds)) == nanoseconds


@pytest.mark.parametrize("text", ["0.25bdp", "250packets", "1.234567ms", "1.5MB", "32bdp", "1.75bdp"])
def test_queue_depth_round_trip(text: str) -> None:
    assert QueueDepth.parse(str(QueueDepth.parse(text))) == QueueDepth.parse(text)


def test_formatting_is_readable() -> None:
    assert [format_rate(n) for n in (100 * MBIT, 1_500_000, 999)] == ["100Mbit", "1.5Mbit", "999bit"]
    assert [format_time(n) for n in (0, 40 * MS, 1_500_000_000)] == ["0s", "40ms", "1.5s"]
    # 490.000009 ms, as the usual distance of lines in a trace of measured times is.
    assert [about_time(n) for n in (0, 999, 490_000_009, 1_234_567, 999_999_999)] == [
        "0s", "999ns", "490ms", "1.23ms", "1s",
    ]  # fmt: skip
