# SPDX-License-Identifier: Apache-2.0
"""WRED meters of a fake switch, as the driver keeps them: what is read is what fits into a meter's bits.

After pipe_mgr's functions that encode and decode a meter's entry, loop for loop.
"""

from __future__ import annotations

import math
import struct
from typing import Any

from fakeswitch.traffic_manager import Refused

TIME, LOW, HIGH, PROBABILITY = (
    "$WRED_SPEC_TIME_CONSTANT_NS",
    "$WRED_SPEC_MIN_THRESH_CELLS",
    "$WRED_SPEC_MAX_THRESH_CELLS",
    "$WRED_SPEC_MAX_PROBABILITY",
)
# What the driver sets a meter to of itself: the largest thresholds that it can be given, cut to 8 bits and an exponent.
NEVER = 0xFF << 24


def unset(clock_hz: float) -> dict[str, Any]:
    """What a meter holds that was never set."""
    return {TIME: _time(1e9 / clock_hz, clock_hz), LOW: NEVER, HIGH: NEVER, PROBABILITY: 0.0}


def kept(asked: dict[str, Any], clock_hz: float) -> dict[str, Any]:
    """What a meter with a clock of ``clock_hz`` holds of a specification.

    Raises:
        Refused: the driver refuses it.
    """
    percent = math.ceil(_float(_float(asked[PROBABILITY]) * 100))
    if percent == 0 or asked[PROBABILITY] > 1:
        raise Refused("INVALID_ARGUMENT", "Invalid arguments")
    low, high = asked[LOW], asked[HIGH]
    draws = percent / 100 * 255
    plain = high - low if percent == 100 else math.floor(255 / (draws / (high - low)) + low) - low
    exponent = _exponent(max(plain, low, high))
    scale = _scale(draws, percent)
    certain = plain
    if scale:
        certain = math.floor(255 / (draws * 2**scale / (high - low)) + low) - low
        exponent = _exponent(max(certain, low, high))
    low, high, certain = ((number >> exponent & 0xFF) << exponent for number in (low, high, certain))
    read = int(255.0 / certain * (high - low) / 2**scale * 100 / 255)
    return {TIME: _time(asked[TIME], clock_hz), LOW: low, HIGH: high, PROBABILITY: _float(min(read / 100, 1))}


def _time(constant_ns: float, clock_hz: float) -> float:
    """An exponent and 9 bits behind the binary point, in cycles."""
    cycles, exponent = constant_ns * clock_hz / 1e9, 0
    while cycles >= 2:
        cycles, exponent = cycles / 2, exponent + 1
    if exponent > 31:
        raise AssertionError("the driver would write beyond the field")
    mantissa = int((cycles - 1) * 512)
    return _float((mantissa / 512 + 1) * 2**exponent / clock_hz * 1e9)


def _exponent(largest: int) -> int:
    exponent = 0
    while largest > 255:
        largest, exponent = largest // 2, exponent + 1
    return exponent


def _scale(draws: float, percent: int) -> int:
    scale, reach = 0, 100
    while draws <= 255 and reach >= percent:
        draws *= 2
        if scale == 7:
            break
        scale += 1
        reach = 100 // 2**scale
    return scale - 1 if draws > 255 or reach <= percent else scale


def _float(number: float) -> float:
    return float(struct.unpack("f", struct.pack("f", number))[0])
