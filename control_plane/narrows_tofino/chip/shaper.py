# SPDX-License-Identifier: Apache-2.0
"""Which rates and bursts the queue shaper can really make, and what to ask for to get the nearest one.

The arithmetic follows the driver, single precision included, so that what is reported is what the driver programs.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass

from narrows.errors import InputError
from narrows_formats.units import format_rate, parse_rate

from narrows_tofino.chip.model import RATE_EXPONENT_MAX, SHAPER_PERIOD_CLOCKS, Chip

# How far the shaper may be from the rate asked for; beyond that an experiment is refused.
RATE_TOLERANCE = 0.005
FCS_BYTES = 4
PREAMBLE_AND_GAP_BYTES = 20
BITS = 8
# What the shaper may count beside the frame: the header that the program carries through the queue, and the FCS.
UNKNOWN_BYTES = 14 + FCS_BYTES


@dataclass(frozen=True)
class ShaperRate:
    """A rate as the shaper has it: ``mantissa`` / 2**``exponent`` bytes every 80 clocks."""

    mantissa: int
    exponent: int

    def bps(self, clock_hz: float) -> float:
        """What the chip makes of it, in bit/s."""
        return self.mantissa * BITS * clock_hz / SHAPER_PERIOD_CLOCKS / (1 << self.exponent)

    def driver_bps(self, clock_hz: float) -> int:
        """What the driver takes it for (bf_tm_rate_mant_exp_form_to_rate): single precision, then whole numbers."""
        return int(_single(self.mantissa * BITS * _single(clock_hz))) // SHAPER_PERIOD_CLOCKS >> self.exponent

    def next(self) -> ShaperRate:
        """The next higher rate of the same exponent."""
        return ShaperRate(self.mantissa + 1, self.exponent)


NO_RATE = ShaperRate(0, 0)


@dataclass(frozen=True)
class Overhead:
    """How a rate of frames becomes a rate of the shaper's bytes.

    The shaper adds ``ifg_compensation`` bytes to every packet. What it counts of a packet beside its frame is not
    documented: where it has not been measured, ``uncertainty`` is how far off the rate may be.
    """

    layer: str
    ifg_compensation: int
    factor: float
    uncertainty: float
    note: str


@dataclass(frozen=True)
class Shaping:
    """What is written to a queue's shaper (``rate_kbps``, ``burst_bytes``) and what comes of it (``realised_bps``).

    ``shaper_bps`` is the rate in the shaper's own bytes, which the driver reads back as ``read_kbps``; ``realised_bps``
    is the rate in the layer that was asked for.
    """

    asked_bps: int
    rate_kbps: int
    burst_bytes: int
    shaper_bps: float
    read_kbps: int
    realised_bps: float
    overhead: Overhead

    @property
    def error(self) -> float:
        """Relative deviation from what was asked for, by quantisation alone."""
        return self.realised_bps / self.asked_bps - 1


def max_rate_bps(chip: Chip, clock_hz: float) -> float:
    """The fastest rate the shaper can make, in its own bytes."""
    return ShaperRate((1 << chip.rate_mantissa_bits) - 1, 0).bps(clock_hz)


def quantise_rate(chip: Chip, kbps: int, clock_hz: float, burst_bytes: int) -> ShaperRate:
    """The rate that the driver programs for ``kbps``; NO_RATE above the chip's maximum.

    With provisioning MIN_ERROR Tofino 1 takes the nearest rate; Tofino 2 ignores provisioning and rounds up. The
    bucket must hold a whole mantissa: with a smaller one the driver gives up precision. Step by step as in the driver
    (bf_tm_rate_to_mant_exp_form_adv of tm_tofino_hw_intf.c and tm_tof2_hw_intf.c), whose roundings are kept.
    """
    top = (1 << chip.rate_mantissa_bits) - 1
    asked = kbps * 1000
    per_period = _single(_single(asked * SHAPER_PERIOD_CLOCKS // BITS) / _single(clock_hz))
    if asked == 0 or per_period > top:
        return NO_RATE
    exponent = 0
    while per_period < 1 and exponent <= RATE_EXPONENT_MAX:
        per_period *= 2
        exponent += 1
    if exponent > RATE_EXPONENT_MAX:
        return NO_RATE
    while per_period < (top + 1) / 2 and not per_period.is_integer() and exponent < RATE_EXPONENT_MAX:
        per_period *= 2
        exponent += 1
    made = ShaperRate(math.floor(per_period), exponent)
    if not per_period.is_integer() and made.mantissa < top:
        above = made.next()
        if chip.shaper_rounds_up or abs(above.driver_bps(clock_hz) - asked) < abs(made.driver_bps(clock_hz) - asked):
            made = above
    if not burst_bytes or not made.exponent:
        return made
    while burst_bytes < made.mantissa and made.exponent:
        made = ShaperRate(made.mantissa >> 1, made.exponent - 1)
    # What it takes for too slow, perhaps by rounding alone, it makes faster, unless that is further off.
    while made.mantissa < min(burst_bytes, top) and (short := asked - made.driver_bps(clock_hz)) > 0:
        above = made.next()
        over = above.driver_bps(clock_hz) - asked
        if over >= 0:
            return made if short < over else above
        made = above
    return made


def quantise_burst(chip: Chip, size: int) -> int:
    """The burst in bytes that the driver programs for ``size``: rounded down."""
    shift = max(0, size.bit_length() - chip.burst_mantissa_bits)
    return size >> shift << shift


def burst_for(chip: Chip, frame_bytes: int) -> int:
    """The smallest burst that holds two frames with their gap, and any mantissa, so that no precision is lost.

    Raises:
        InputError: the chip has no burst of that size.
    """
    wanted = max(2 * (frame_bytes + FCS_BYTES + PREAMBLE_AND_GAP_BYTES), 1 << chip.rate_mantissa_bits)
    shift = max(0, wanted.bit_length() - chip.burst_mantissa_bits)
    burst = -(-wanted >> shift) << shift
    if burst > chip.max_burst_bytes:
        raise InputError(
            f"mtu: two frames of {frame_bytes} B do not fit a burst of {chip.name}; allowed: {chip.max_burst_bytes} B"
        )
    return burst


def overhead_for(layer: str, frame_bytes: int, shaper_bytes: int | None) -> Overhead:
    """What makes the shaper's rate mean frames without FCS (``l2``) or everything on the wire (``l1``).

    Args:
        layer: ``l2`` or ``l1``.
        frame_bytes: the frame, without FCS, for which a correction by a factor is exact.
        shaper_bytes: what the shaper counts of a packet beside the frame, None if it was not measured.
    """
    if layer == "l1":
        on_wire = FCS_BYTES + PREAMBLE_AND_GAP_BYTES
        if shaper_bytes is None:
            share = UNKNOWN_BYTES / (frame_bytes + on_wire)
            return Overhead(layer, PREAMBLE_AND_GAP_BYTES, 1.0, share, "L1: 20 B of preamble and gap a packet")
        note = f"L1: {on_wire} B of FCS, preamble and gap a packet, {shaper_bytes} B of which the shaper counts itself"
        return Overhead(layer, on_wire - shaper_bytes, 1.0, 0.0, note)
    if shaper_bytes is None:
        share = UNKNOWN_BYTES / (frame_bytes + UNKNOWN_BYTES)
        return Overhead(layer, 0, 1.0, share, "L2: no preamble and gap counted")
    note = f"L2: {shaper_bytes} B that the shaper counts a packet are made up for at {frame_bytes} B frames"
    factor = (frame_bytes + shaper_bytes) / frame_bytes
    return Overhead(layer, 0, factor, 0.0, note if shaper_bytes else "L2: the shaper counts the frame and nothing else")


def shape(
    chip: Chip,
    rate_bps: int,
    frame_bytes: int,
    overhead: Overhead,
    port_speed_bps: int,
    clock_hz: float,
    field: str = "bottleneck",
) -> Shaping:
    """The writes for a link of ``rate_bps``.

    Args:
        chip: Tofino generation.
        rate_bps: in the layer that ``overhead`` was made for.
        frame_bytes: full-size frame without FCS.
        overhead: from `overhead_for`.
        port_speed_bps: speed of the egress port.
        clock_hz: the shaper's clock.
        field: where an experiment has the link, for messages.

    Raises:
        InputError: faster than port or chip, or the nearest rate is further off than `RATE_TOLERANCE`; the message
            names the nearest rate that can be had.
    """
    on_wire = frame_bytes + FCS_BYTES + PREAMBLE_AND_GAP_BYTES
    wire_factor = on_wire / frame_bytes if overhead.layer == "l2" else 1.0
    port_limit = port_speed_bps / wire_factor
    chip_limit = max_rate_bps(chip, clock_hz) / overhead.factor
    limit = min(port_limit, chip_limit)
    if rate_bps > limit:
        what = (
            f"the shaper of {chip.name} goes up to {_readable(chip_limit)}"
            if chip_limit < port_limit
            else f"the port runs at {format_rate(port_speed_bps)} (L1), which is {_readable(port_limit)} "
            f"in frames of {frame_bytes} B"
        )
        raise InputError(
            f"{field}.rate: {format_rate(rate_bps)} is too much: {what}; allowed: up to {_readable(limit)}"
        )
    burst = burst_for(chip, frame_bytes)
    kbps = max(1, round(rate_bps * overhead.factor / 1000))
    rate = quantise_rate(chip, kbps, clock_hz, quantise_burst(chip, burst))
    shaper = rate.bps(clock_hz)
    # A shaper set to the port's own speed or a little more never holds anything back: the port does.
    realised = min(shaper / overhead.factor, port_limit)
    if abs(realised / rate_bps - 1) > RATE_TOLERANCE:
        raise InputError(
            f"{field}.rate: {format_rate(rate_bps)} cannot be made: the nearest rate of the shaper is "
            f"{realised / 1000:.3f} kbit/s, {abs(realised / rate_bps - 1):.2%} off; allowed: up to {RATE_TOLERANCE:.1%}"
        )
    return Shaping(rate_bps, kbps, burst, shaper, rate.driver_bps(clock_hz) // 1000, realised, overhead)


def _single(value: float) -> float:
    """Rounded to IEEE single precision, which is what the driver computes in."""
    return float(struct.unpack("f", struct.pack("f", value))[0])


def _readable(bps: float) -> str:
    """A rate rounded down to a whole Mbit/s (kbit/s below 10 Mbit/s)."""
    step = 1_000_000 if bps >= 10_000_000 else 1000
    return format_rate(parse_rate(f"{int(bps) // step * step}bit"))
