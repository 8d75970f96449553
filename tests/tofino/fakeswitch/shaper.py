# SPDX-License-Identifier: Apache-2.0
"""The driver's arithmetic of shapers (tm_tofino_hw_intf.c, tm_tof2_hw_intf.c), for many rates at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Whole = NDArray[np.uint64]
EXPONENTS = 15


@dataclass(frozen=True)
class Arithmetic:
    """What differs between generations.

    Its members are the driver's clock, the largest mantissa, whether the nearest rate is taken or the next higher one,
    and how wide a burst's mantissa is.
    """

    clock_hz: int
    top: int
    nearest: bool
    burst_bits: int

    def burst(self, size: int) -> int:
        """What is programmed for a burst of ``size`` bytes."""
        shift = max(0, size.bit_length() - self.burst_bits)
        mantissa = size >> shift
        if self.burst_bits == 4 and size >= 65_536:
            # The conversion yields a mantissa that is too wide for its register.
            mantissa, shift = (size >> 12) & 0xF, 12
        return mantissa << shift

    def programmed(self, kbps: Whole, burst: int) -> tuple[Whole, Whole]:
        """Mantissas and exponents for rates in kbit/s, with a burst as it was programmed; mantissa 0: out of range."""
        rate = kbps * np.uint64(1000)
        value = (rate * np.uint64(80) // np.uint64(8)).astype(np.float32) / np.float32(self.clock_hz)
        out_of_range = (rate == 0) | (value > self.top)
        value[out_of_range] = 1
        exponent = np.zeros_like(rate)
        while (low := (value < 1) & (exponent <= EXPONENTS)).any():
            value[low] *= np.float32(2)
            exponent[low] += np.uint64(1)
        out_of_range |= exponent > EXPONENTS
        while (rough := (value < (self.top + 1) // 2) & (np.trunc(value) != value) & (exponent < EXPONENTS)).any():
            value[rough] *= np.float32(2)
            exponent[rough] += np.uint64(1)
        mantissa = value.astype(np.uint64)
        up = (np.trunc(value) != value) & (mantissa < self.top)
        if self.nearest:
            up &= self._off(mantissa + np.uint64(1), exponent, rate) < self._off(mantissa, exponent, rate)
        mantissa[up] += np.uint64(1)
        if burst:
            self._refine(mantissa, exponent, rate, burst)
        mantissa[out_of_range] = 0
        exponent[out_of_range] = 0
        return mantissa, exponent

    def read_back(self, mantissa: Whole, exponent: Whole) -> Whole:
        """What the driver computes of a mantissa and an exponent, in bit/s."""
        product = (mantissa * np.uint64(8)).astype(np.float32) * np.float32(self.clock_hz)
        whole: Whole = product.astype(np.uint64) // np.uint64(80) // (np.uint64(1) << exponent)
        return whole

    def _refine(self, mantissa: Whole, exponent: Whole, rate: Whole, burst: int) -> None:
        refined = exponent != 0
        while (small := refined & (mantissa > burst) & (exponent != 0)).any():
            mantissa[small] >>= np.uint64(1)
            exponent[small] -= np.uint64(1)
        while (slow := refined & (mantissa < min(burst, self.top)) & (self.read_back(mantissa, exponent) < rate)).any():
            below = self._off(mantissa, exponent, rate)
            mantissa[slow] += np.uint64(1)
            over = slow & (self.read_back(mantissa, exponent) >= rate)
            mantissa[over & (below < self._off(mantissa, exponent, rate))] -= np.uint64(1)
            refined &= ~over

    def _off(self, mantissa: Whole, exponent: Whole, rate: Whole) -> NDArray[np.int64]:
        return np.abs(self.read_back(mantissa, exponent).astype(np.int64) - rate.astype(np.int64))
