# SPDX-License-Identifier: Apache-2.0
"""Numbers as people read them."""

from __future__ import annotations

import math
from collections.abc import Callable

THIN_SPACE = "\u2009"
# Of a mean: what sums of floating-point numbers leave of an interval without any width.
ROUNDING = 1e-12
MISSING = "\u2013"


def _scaled(value: float, unit: str, steps: tuple[tuple[float, str], ...]) -> str:
    for factor, prefix in steps:
        if abs(value) >= factor:
            return f"{significant(value / factor)} {prefix}{unit}"
    return f"{significant(value)} {unit}"


def significant(value: float, digits: int = 4) -> str:
    """`value` with at most `digits` significant digits, plain notation, thousands apart."""
    if value == 0:
        return "0"
    decimals = max(0, digits - 1 - _exponent(value))
    text = f"{value:,.{decimals}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return text.replace(",", THIN_SPACE)


def depth(size_bytes: float | None, packets: float | None) -> str:
    """A depth in packets, where these are what counts, or in bytes."""
    return size(size_bytes) if packets is None else f"{significant(packets)} packet{'' if packets == 1 else 's'}"


def with_half_width(value: float, half: float) -> str:
    """A mean and half the width of its interval, which says how many digits of it are known: two of the half's, and
    at most four of the mean's."""
    if half <= ROUNDING * abs(value):
        return f"{significant(value)} \N{PLUS-MINUS SIGN}0"
    decimals = _decimals(value, half)
    shown = f"{half:,.{decimals}f}"
    if not float(shown.replace(",", "")):
        shown = significant(half, 2)
    return f"{value:z,.{decimals}f} \N{PLUS-MINUS SIGN}{shown}".replace(",", THIN_SPACE)


def with_interval(value: float, low: float, high: float) -> str:
    """A mean and its interval: half its width, or both ends of one that a limit of the quantity cuts short."""
    if high - low <= ROUNDING * abs(value) or math.isclose(high - value, value - low, rel_tol=1e-6, abs_tol=1e-12):
        return with_half_width(value, (high - low) / 2)
    decimals = _decimals(value, (high - low) / 2)
    shown = (f"{one:z,.{decimals}f}".replace(",", THIN_SPACE) for one in (value, low, high))
    return "{} ({} to {})".format(*shown)


def _decimals(value: float, half: float) -> int:
    """Of a mean whose interval is so wide: two digits of the half's, and at most four of the mean's."""
    known = 1 - _exponent(half)
    return max(0, min(known, 3 - _exponent(value)) if value else known)


def _exponent(value: float) -> int:
    return int(f"{abs(value):e}".partition("e")[2])


def rate(bps: float | None) -> str:
    """A rate in bit/s."""
    if bps is None:
        return MISSING
    return _scaled(bps, "bit/s", ((1e9, "G"), (1e6, "M"), (1e3, "k")))


def size(count: float | None) -> str:
    """Bytes, in decimal multiples."""
    if count is None:
        return MISSING
    return _scaled(count, "B", ((1e9, "G"), (1e6, "M"), (1e3, "k")))


def duration(seconds: float | None) -> str:
    """A time span."""
    if seconds is None:
        return MISSING
    if abs(seconds) >= 1 or seconds == 0:
        return f"{significant(seconds)} s"
    if abs(seconds) >= 1e-3:
        return f"{significant(seconds * 1e3)} ms"
    return f"{significant(seconds * 1e6)} µs"


def percent(ratio: float | None, digits: int = 3) -> str:
    """A ratio of 0..1 in percent."""
    return MISSING if ratio is None else f"{significant(ratio * 100, digits)} %"


def count(value: float | None) -> str:
    """A whole number."""
    return MISSING if value is None else f"{value:,.0f}".replace(",", THIN_SPACE)


def index(value: float | None) -> str:
    """A fairness index."""
    return MISSING if value is None else f"{value:.3f}"


# Of each kind of value in tables (`narrows_formats.flow_rows.UNITS`).
TEXTS: dict[str, Callable[[float | None], str]] = {
    "rate": rate, "ratio": percent, "count": count, "duration": duration, "size": size,
}  # fmt: skip
