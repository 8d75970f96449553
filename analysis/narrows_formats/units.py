# SPDX-License-Identifier: Apache-2.0
"""Quantities as people write them (``100Mbit``, ``40ms``, ``1.5MB``, ``0.5bdp``) and the integers they stand for.

Rates are bits per second, sizes bytes, times nanoseconds. All arithmetic is exact: a quantity that is not a whole
number of its base unit is refused instead of rounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Literal

NANOSECONDS = 1_000_000_000
# Links that carry less have no IPv6, and none of its settings (RFC 8200, section 5).
MIN_IPV6_MTU = 1280
ETHERNET_HEADER_BYTES = 14
FULL_FRAME_BYTES = 1514  # Ethernet, without FCS

RATE_UNITS = {"bit": 1, "kbit": 10**3, "Mbit": 10**6, "Gbit": 10**9}
SIZE_UNITS = {
    "B": 1,
    "kB": 10**3,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
}
TIME_UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9}
PACKET_UNITS = ("packet", "packets", "pkt")
# Spellings of tc(8), whose kb are 1024 bytes.
TC_UNITS = {
    **{"k": "KiB", "kb": "KiB", "m": "MiB", "mb": "MiB", "g": "GiB", "gb": "GiB", "p": "packets", "pkts": "packets"},
    **{"sec": "s", "secs": "s", "msec": "ms", "msecs": "ms", "usec": "us", "usecs": "us"},
}
# What most write. tc's mbps, which has no capital, are bytes, as are MBps.
BITS_PER_SECOND = {f"{prefix}{end}": f"{prefix}bit" for prefix in ("k", "M", "G") for end in ("bps", "b/s")}

ALLOWED_RATE = "more than 0, as a number and bit, kbit, Mbit or Gbit (per second), such as 100Mbit"
ALLOWED_SIZE = "more than 0, as a number and B, kB, MB, GB, KiB, MiB or GiB, such as 1.5MB"
ALLOWED_TIME = "0 or more, as a number and ns, us, ms, s or min, such as 40ms"
ALLOWED_BUFFER = (
    "more than 0, as bytes (375kB), packets (250packets), queueing time at the set rate (30ms) "
    "or bandwidth-delay products (0.5bdp)"
)
ALLOWED_PROBABILITY = "a ratio from 0 to 1 (0.2) or a percentage (20%)"
ALLOWED_RATIO = "a ratio from 0 up to, but not including, 1 (0.001) or a percentage (0.1%)"

_QUANTITY = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE]([+-]?\d{1,4}))?)\s*([A-Za-z%]*(?:/s)?)\s*\Z")
# Quantities are below this in their base unit, and no exponent is greater: a computer's numbers end somewhere.
_LARGEST, _EXPONENT = 1 << 63, 40
# Of a number as it is written; more are refused before they are read, which takes time.
_LONGEST = 100


class UnitError(ValueError):
    """A quantity that cannot be read; ``str()`` says what is wrong, ``allowed`` what would have been right."""

    def __init__(self, problem: str, allowed: str) -> None:
        """Keep the problem and the allowed form apart, so that callers can put the value between them."""
        super().__init__(problem)
        self.allowed = allowed


def _unknown_unit(unit: str, known: Iterable[str], allowed: str) -> UnitError:
    """What to say of an unknown unit, with the known one that tc or a slip of case means by it, if any."""
    known = list(known)
    meant = (
        BITS_PER_SECOND.get(unit)
        or TC_UNITS.get(unit.casefold())
        or next((one for one in known if one.casefold() == unit.casefold()), None)
    )
    guess = f" (did you mean {meant}?)" if meant in known else ""
    return UnitError(f"has the unknown unit '{unit}'{guess}", allowed)


def _split(value: object, what: str, allowed: str) -> tuple[Fraction, str]:
    """Split ``100Mbit`` into 100 and ``Mbit``; a bare number has the unit ``""``."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise UnitError(f"is not {what}", allowed)
    match = _QUANTITY.match(str(value))
    if match is None or len(match[1]) > _LONGEST or abs(int(match[2] or 0)) > _EXPONENT:
        raise UnitError(f"is not {what}", allowed)
    return Fraction(match[1]), match[3]


def _of_rate(unit: str) -> str:
    """The unit of a rate as `RATE_UNITS` has it."""
    bare = unit.removesuffix("/s")
    return bare if bare in RATE_UNITS else unit


def magnitude(value: object) -> tuple[str, Fraction] | None:
    """What kind of quantity ``value`` is, and how much of it: numbers of one kind can share an axis.

    Kinds are the base units bit/s, bytes and s, and the units packets, bdp, % and none. None for a value that is
    not a number, or has an unknown unit.
    """
    try:
        number, unit = _split(value, "a number", "a number")
    except UnitError:
        return None
    unit = _of_rate(unit)
    for kind, units, base in (("bit/s", RATE_UNITS, 1), ("bytes", SIZE_UNITS, 1), ("s", TIME_UNITS, NANOSECONDS)):
        if unit in units:
            return kind, number * units[unit] / base
    if unit in PACKET_UNITS:
        return "packets", number
    return (unit, number) if unit in ("", "bdp", "%") else None


def _whole(number: Fraction, base_unit: str, allowed: str) -> int:
    if number.denominator != 1:
        raise UnitError(f"is not a whole number of {base_unit}", allowed)
    if abs(number) >= _LARGEST:
        raise UnitError(f"is 2^63 {base_unit} or more", allowed)
    return int(number)


def _positive(value: object, units: dict[str, int], what: str, base_unit: str, allowed: str) -> int:
    number = _scaled(value, units, what, base_unit, allowed)
    if number <= 0:
        raise UnitError("is not more than 0", allowed)
    return number


def _scaled(value: object, units: dict[str, int], what: str, base_unit: str, allowed: str) -> int:
    number, unit = _split(value, what, allowed)
    unit = _of_rate(unit) if units is RATE_UNITS else unit
    if unit == "" and number == 0:
        return 0
    if unit == "":
        raise UnitError("has no unit", allowed)
    if unit not in units:
        raise _unknown_unit(unit, units, allowed)
    return _whole(number * units[unit], base_unit, allowed)


def parse_rate(value: object) -> int:
    """Bits per second from ``100Mbit`` (``100Mbit/s`` is the same); must be at least 1.

    Raises:
        UnitError: not a rate, or not more than 0.
    """
    return _positive(value, RATE_UNITS, "a rate", "bits per second", ALLOWED_RATE)


def parse_rate_or_none(value: object) -> int:
    """Bits per second as `parse_rate` reads them, or 0 of ``0bit``: nothing passes.

    Raises:
        UnitError: not a rate, or negative.
    """
    allowed = f"0bit, or {ALLOWED_RATE}"
    rate = _scaled(value, RATE_UNITS, "a rate", "bits per second", allowed)
    if rate < 0:
        raise UnitError("is negative", allowed)
    return rate


def parse_size(value: object) -> int:
    """Bytes from ``1.5MB``; must be at least 1.

    Raises:
        UnitError: not a size, or not more than 0.
    """
    return _positive(value, SIZE_UNITS, "a size", "bytes", ALLOWED_SIZE)


def parse_time(value: object) -> int:
    """Nanoseconds from ``40ms``; 0 is allowed, negative times are not.

    Raises:
        UnitError: not a time, or negative.
    """
    time = _scaled(value, TIME_UNITS, "a time", "nanoseconds", ALLOWED_TIME)
    if time < 0:
        raise UnitError("is negative", ALLOWED_TIME)
    return time


def parse_ratio(value: object) -> float:
    """A ratio in [0, 1) from ``0.001`` or ``0.1%``.

    Raises:
        UnitError: not a ratio, or outside [0, 1).
    """
    ratio = _fraction(value, "a ratio", ALLOWED_RATIO)
    if ratio == 1:
        raise UnitError("is outside 0..1", ALLOWED_RATIO)
    return ratio


def parse_probability(value: object) -> float:
    """A ratio in [0, 1]: certainty too, as ``1`` or ``100%``.

    Raises:
        UnitError: not a ratio, or outside [0, 1].
    """
    return _fraction(value, "a probability", ALLOWED_PROBABILITY)


def _fraction(value: object, what: str, allowed: str) -> float:
    number, unit = _split(value, what, allowed)
    if unit not in ("", "%"):
        raise UnitError(f"has the unknown unit '{unit}'", allowed)
    fraction = float(number / 100) if unit == "%" else float(number)
    if not 0 <= fraction <= 1:
        raise UnitError("is outside 0..1", allowed)
    return fraction


@dataclass(frozen=True)
class QueueDepth:
    """A depth of the bottleneck's queue as written; bytes only once rate, RTT and frame size are known."""

    value: Fraction
    unit: Literal["bytes", "packets", "time", "bdp"]

    @classmethod
    def parse(cls, value: object) -> QueueDepth:
        """Read ``375kB``, ``250packets``, ``30ms`` or ``0.5bdp``.

        Raises:
            UnitError: none of these, or not more than 0.
        """
        number, unit = _split(value, "a queue depth", ALLOWED_BUFFER)
        if number <= 0:
            raise UnitError("is not more than 0", ALLOWED_BUFFER)
        if unit == "":
            raise UnitError("has no unit", ALLOWED_BUFFER)
        if unit.lower() == "bdp":
            return cls(number, "bdp")
        if unit in PACKET_UNITS:
            return cls(Fraction(_whole(number, "packets", ALLOWED_BUFFER)), "packets")
        if unit in SIZE_UNITS:
            return cls(Fraction(_whole(number * SIZE_UNITS[unit], "bytes", ALLOWED_BUFFER)), "bytes")
        if unit in TIME_UNITS:
            return cls(Fraction(_whole(number * TIME_UNITS[unit], "nanoseconds", ALLOWED_BUFFER)), "time")
        raise _unknown_unit(unit, (*PACKET_UNITS, *SIZE_UNITS, *TIME_UNITS), ALLOWED_BUFFER)

    def in_bytes(self, rate_bps: int, rtt_ns: int, frame_bytes: int) -> int:
        """Bytes of this depth, rounded to the nearest byte.

        Args:
            rate_bps: L2 rate of the bottleneck.
            rtt_ns: base round-trip time, for BDPs.
            frame_bytes: full-size Ethernet frame, for packets.
        """
        match self.unit:
            case "bytes":
                return int(self.value)
            case "packets":
                return int(self.value) * frame_bytes
            case "time":
                return round(self.value * rate_bps / (8 * NANOSECONDS))
            case "bdp":
                return round(self.value * bdp_bytes(rate_bps, rtt_ns))

    def __str__(self) -> str:
        """Write the depth so that `parse` reads it back."""
        match self.unit:
            case "bytes":
                return format_size(int(self.value))
            case "packets":
                return f"{int(self.value)}packets"
            case "time":
                return format_time(int(self.value))
            case "bdp":
                return f"{_decimal(self.value)}bdp"


def bdp_bytes(rate_bps: int, rtt_ns: int) -> Fraction:
    """Bandwidth-delay product in bytes, exact."""
    return Fraction(rate_bps * rtt_ns, 8 * NANOSECONDS)


def _decimal(number: Fraction) -> str:
    text = format(Decimal(number.numerator) / Decimal(number.denominator), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _format(number: int, units: dict[str, int]) -> str:
    """Write with the largest unit that gives at least 1 and at most three decimals; always exact."""
    best = next(iter(units))
    for unit, factor in units.items():
        if number >= factor and (number * 1000) % factor == 0:
            best = unit
    return _decimal(Fraction(number, units[best])) + best


def format_rate(bps: int) -> str:
    """``100000000`` as ``100Mbit``; `parse_rate` reads it back to the same number."""
    return _format(bps, RATE_UNITS)


def format_size(size: int) -> str:
    """``1500000`` as ``1.5MB`` (decimal units only); `parse_size` reads it back to the same number."""
    return _format(size, {unit: SIZE_UNITS[unit] for unit in ("B", "kB", "MB", "GB")})


def format_time(nanoseconds: int) -> str:
    """``40000000`` as ``40ms``; `parse_time` reads it back to the same number."""
    if nanoseconds == 0:
        return "0s"
    return _format(nanoseconds, {unit: TIME_UNITS[unit] for unit in ("ns", "us", "ms", "s")})


def about_time(nanoseconds: int) -> str:
    """A time to three significant digits, for readers: ``490000009`` as ``490ms``."""
    return format_time(round(nanoseconds, 3 - len(str(nanoseconds))) if nanoseconds >= 1000 else nanoseconds)


def duration_in_words(seconds: float) -> str:
    """A time that is only about right: ``50 s``, ``12 min``, ``3 h 20 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
