# SPDX-License-Identifier: Apache-2.0
"""RED by a meter of Tofino (the extern Wred): its settings, and what the driver makes of them.

A meter has both thresholds and the slope between them as multiples, of 8 bits, of one power of two, and draws numbers
of 8 bits. The driver takes probabilities in whole percents, rounds all else down silently, and reads back what it made.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log1p

from narrows.queues.red import Red
from narrows_formats.units import NANOSECONDS

from narrows_tofino.chip.depth import depth_units

MANTISSA_BITS = 8
# The probability of a draw can be divided by up to 2^7.
MAX_SCALE = 7
# Of a time constant: 9 bits behind the binary point.
TIME_PRECISION = 2**-9
# Beyond what an exponent of 5 bits can say at the slowest clock of a part, less a margin.
MAX_TIME_CONSTANT_NS = 3 * NANOSECONDS


@dataclass(frozen=True)
class Wred:
    """A meter's settings: nothing is picked below ``min_cells``, all from ``max_cells`` on, ``percent`` just below.

    The average follows the depth with ``time_constant_ns``.
    """

    time_constant_ns: float
    min_cells: int
    max_cells: int
    percent: int

    @property
    def made(self) -> MadeWred:
        """What the driver makes of it."""
        # Of a slope only the depth is kept at which it would reach certainty: divided draws bring that closer.
        scale = max(shift for shift in range(MAX_SCALE + 1) if self.percent << shift <= 100)
        certain = (self.max_cells - self.min_cells) * 100 // (self.percent << scale)
        unit = 1 << max(0, max(certain, self.max_cells).bit_length() - MANTISSA_BITS)
        low, high, certain = (cells // unit * unit for cells in (self.min_cells, self.max_cells, certain))
        probability = min((high - low) / certain / (1 << scale), 1.0) if certain else 1.0
        return MadeWred(low, high, probability, certain // unit)


@dataclass(frozen=True)
class MadeWred:
    """What a meter has: thresholds, and the probability just below the upper one.

    The slope is of ``steps`` to certainty, which the driver's floats may make one less: a part of the probability.
    """

    min_cells: int
    max_cells: int
    probability: float
    steps: int


def wred(red: Red, frame_bytes: int, cell_bytes: int) -> Wred:
    """The settings that come closest to an AQM of bytes and packets, for full-size frames.

    The meter's average goes by time, RED's by packets: at the link's rate, packet by packet, they are one.
    """
    packet_ns = red.avpkt_bytes * 8 * NANOSECONDS / red.bandwidth_bps
    return Wred(
        time_constant_ns=-packet_ns / log1p(-(2**-red.weight)),
        min_cells=depth_units(red.min_depth, frame_bytes, cell_bytes),
        max_cells=depth_units(red.max_depth, frame_bytes, cell_bytes),
        percent=round(red.probability * 100),
    )
