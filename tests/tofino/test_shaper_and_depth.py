# SPDX-License-Identifier: Apache-2.0
"""Rates and depths: against a second, independent computation, against documented results, and at their limits."""

from __future__ import annotations

import numpy as np
import pytest
from fakeswitch.traffic_manager import KINDS
from hypothesis import example, given
from hypothesis import strategies as st
from narrows.errors import InputError
from narrows_tofino.chip.depth import capacity_cells, cells_per_frame, depth_for, depth_units
from narrows_tofino.chip.model import CHIPS, TOFINO1, TOFINO2, Chip
from narrows_tofino.chip.shaper import (
    RATE_TOLERANCE,
    burst_for,
    max_rate_bps,
    overhead_for,
    quantise_burst,
    quantise_rate,
    shape,
)
from numpy.typing import NDArray

GBIT = 10**9
NO_OVERHEAD = overhead_for("l2", 1514, None)


@pytest.mark.parametrize(
    ("rate", "made"),
    [(25 * GBIT, 25.010e9), (40 * GBIT, 40.016e9), (100 * GBIT, 100.040e9)],
)
def test_tofino1_makes_the_rates_that_are_documented(rate: int, made: float) -> None:
    assert _made_bps(TOFINO1, rate // 1000) == pytest.approx(made, rel=1e-6)


@pytest.mark.parametrize("rate", [100_000_000 * n for n in (1, 7, 33, 250, 999, 1000)])
def test_tofino2_makes_multiples_of_100_mbit_exactly(rate: int) -> None:
    assert _made_bps(TOFINO2, rate // 1000) == rate


@given(st.sampled_from(sorted(CHIPS)), st.integers(1000, 124_000_000))
@example("tofino", 3811)  # nearer to 2^9 at the next smaller exponent, which the driver does not try
@example("tofino2", 12497)  # above the largest mantissa, which is not rounded up
def test_rates_are_the_nearest_ones_that_a_mantissa_has(name: str, kbps: int) -> None:
    chip = CHIPS[name]
    half = 1 << chip.rate_mantissa_bits - 1
    step = 1 / half if chip.shaper_rounds_up else 0.5 / half
    # From an exponent of 15 on a mantissa has fewer bits.
    step = max(step, chip.shaper_clock_hz / 10 / 2**15 / (kbps * 1000))
    assert abs(_made_bps(chip, kbps) / (kbps * 1000) - 1) <= step * 1.01


# All round ones: whole multiples of 1 Mbit/s up to 1 Gbit/s, of 100 Mbit/s up to what a port has, and these in frames.
ROUND_KBPS = np.unique(
    np.concatenate([np.arange(1, 1000) * 1000, np.arange(1, 4000) * 100_000, np.arange(1, 4000) * 101_189]).astype(
        np.uint64
    )
)


@pytest.mark.parametrize("name", CHIPS)
@pytest.mark.parametrize("burst", [3328, 4096, 16_384])
def test_round_rates_are_programmed_and_read_back_as_the_driver_does(name: str, burst: int) -> None:
    _agree_with_the_driver(name, ROUND_KBPS, burst)


@pytest.mark.parametrize("count", [20_000, pytest.param(1_000_000, marks=pytest.mark.long, id="million")])
@pytest.mark.parametrize("name", CHIPS)
def test_random_rates_are_programmed_and_read_back_as_the_driver_does(name: str, count: int) -> None:
    fastest = 124_900_000 if name == "tofino" else 409_600_000
    draw = np.random.default_rng(73)
    # Half of them evenly, where one kbit/s is less than single precision has, half at every order of magnitude.
    even = draw.integers(1, fastest, count // 2, endpoint=True)
    orders = np.exp(draw.uniform(0, np.log(fastest), count - count // 2))
    _agree_with_the_driver(name, np.concatenate([even, orders]).astype(np.uint64), 16_384)


@given(st.sampled_from(sorted(CHIPS)), st.integers(10**6, 98 * GBIT))
def test_every_rate_from_1_mbit_on_is_within_tolerance(name: str, rate: int) -> None:
    chip = CHIPS[name]
    shaping = shape(chip, rate, 1514, NO_OVERHEAD, 100 * GBIT, chip.shaper_clock_hz)
    assert abs(shaping.error) <= RATE_TOLERANCE
    assert shaping.rate_kbps <= 2**32 - 1


def test_above_its_maximum_tofino1_would_program_zero_so_it_is_refused() -> None:
    assert _made_bps(TOFINO1, 125_000_000) == 0
    assert max_rate_bps(TOFINO1, TOFINO1.shaper_clock_hz) == pytest.approx(124.806e9)
    with pytest.raises(InputError, match=r"the shaper of tofino goes up to 124.806Gbit; allowed: up to 124.806Gbit"):
        shape(TOFINO1, 125 * GBIT, 1514, NO_OVERHEAD, 400 * GBIT, TOFINO1.shaper_clock_hz)


def test_l2_at_the_port_s_speed_is_refused_with_what_fits() -> None:
    with pytest.raises(InputError, match=r"the port runs at 100Gbit .L1., which is 98.439Gbit in frames of 1514 B"):
        shape(TOFINO2, 100 * GBIT, 1514, NO_OVERHEAD, 100 * GBIT, TOFINO2.shaper_clock_hz)


@pytest.mark.parametrize("chip", [TOFINO1, TOFINO2])
def test_l1_at_the_port_s_speed_is_the_port_s_speed(chip: Chip) -> None:
    shaping = shape(chip, 100 * GBIT, 1514, overhead_for("l1", 1514, None), 100 * GBIT, chip.shaper_clock_hz)
    assert shaping.realised_bps == 100 * GBIT


def test_a_rate_that_cannot_be_made_is_refused_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"the nearest rate of the shaper is 7\.446 kbit/s, 6\.\d\d% off"):
        shape(TOFINO1, 7000, 1514, NO_OVERHEAD, 100 * GBIT, TOFINO1.shaper_clock_hz)


@pytest.mark.parametrize(("frame", "bytes_"), [(400, 1024), (590, 1280), (1514, 3328), (9014, 18432)])
def test_bursts_of_tofino1_hold_two_frames_and_stay_below_64_kib(frame: int, bytes_: int) -> None:
    burst = burst_for(TOFINO1, frame)
    assert burst == bytes_
    assert burst <= 65_535
    assert quantise_burst(TOFINO1, burst) == burst >= max(2 * (frame + 24), 1024)


def test_bursts_are_rounded_down_as_documented() -> None:
    assert [quantise_burst(TOFINO1, size) for size in (9000, 18000, 1600)] == [8192, 16384, 1536]


def test_a_burst_of_64_kib_is_broken_on_tofino1_and_never_asked_for() -> None:
    assert KINDS["tofino"].shaper.burst(65_536) == 0
    with pytest.raises(InputError, match="do not fit a burst of tofino"):
        burst_for(TOFINO1, 40_000)


def test_the_uncertainty_is_that_of_the_bytes_a_frame() -> None:
    assert overhead_for("l2", 1514, None).ifg_compensation == 0
    assert overhead_for("l2", 1514, None).uncertainty == pytest.approx(18 / 1532)
    assert overhead_for("l2", 1514, 0).uncertainty == 0 and overhead_for("l2", 1514, 0).factor == 1
    for counted_bytes in (4, 14, 18):
        counted = overhead_for("l2", 1514, counted_bytes)
        assert counted.factor == pytest.approx((1514 + counted_bytes) / 1514) and counted.uncertainty == 0
    # With all that is on the wire made up for by the gap it is exact for every size of frame.
    assert [overhead_for("l1", 1514, one).ifg_compensation for one in (None, 0, 4, 18)] == [20, 24, 20, 6]
    counted = overhead_for("l2", 1514, 4)
    shaping = shape(TOFINO2, GBIT, 1514, counted, 100 * GBIT, TOFINO2.shaper_clock_hz)
    assert shaping.rate_kbps == 1_002_642
    assert shaping.realised_bps == pytest.approx(GBIT, rel=5e-4)


def test_a_depth_holds_what_was_asked_for_in_full_frames() -> None:
    depth = depth_for(TOFINO1, 80, 151_400, 1514, 20, 250_000, GBIT)
    # 1514 B and what travels with them take 20 cells of 80 B: 1892 cells would hold 94 packets only.
    assert (depth.cells, depth.packets, depth.bytes) == (2000, 100, 151_400)
    assert (depth.guaranteed_cells, depth.pool_cells, depth.hysteresis_cells) == (20, 1980, 32)
    assert depth.warnings == ()


@pytest.mark.parametrize("chip", CHIPS.values())
@pytest.mark.parametrize("size", [1, 75, 76, 1514, 1515, 3028, 3029, 30_000, 30_280, 30_281, 100_000])
def test_a_threshold_in_cells_is_reached_by_as_many_frames_as_one_in_bytes(chip: Chip, size: int) -> None:
    """One of a byte is not reached by an empty queue, nor one of a frame and a byte by a single frame."""
    cells, each = depth_units(size, 1514, chip.cell_bytes), cells_per_frame(chip.cell_bytes, 1514)
    assert -(-cells // each) == -(-size // 1514)


def test_10_kb_fit_both_generations_with_a_warning_on_tofino2() -> None:
    assert depth_for(TOFINO1, 80, 10_000, 1514, 20, 250_000, GBIT).warnings == ()
    shallow = depth_for(TOFINO2, 176, 10_000, 1514, 36, 250_000, GBIT)
    assert shallow.cells == 59 and "not a faithful tail drop" in shallow.warnings[0]


def test_too_shallow_for_the_hysteresis_is_refused_with_the_least() -> None:
    with pytest.raises(InputError, match=r"stop dropping 32 cells below their limit; allowed: 5\.451kB or more"):
        depth_for(TOFINO1, 80, 3028, 1514, 20, 250_000, GBIT)


def test_too_deep_is_refused_with_the_largest_depth_time_and_rate() -> None:
    available = capacity_cells(TOFINO1, 260 * 1024)
    # 40 ms at 10 Gbit/s.
    with pytest.raises(InputError) as refused:
        depth_for(TOFINO1, 80, 50_000_000, 1514, 20, available, 10 * GBIT)
    words = str(refused.value)
    assert "allowed: up to 19.456MB" in words and "15.5ms at 10Gbit" in words and "40ms of queue" in words
    assert "fits up to 3.89Gbit" in words
    largest = depth_for(TOFINO1, 80, 19_456_000, 1514, 20, available, 10 * GBIT)
    assert available - 20 <= largest.cells <= available


def test_static_limits_fit_their_register() -> None:
    for name, chip in CHIPS.items():
        assert capacity_cells(chip, KINDS[name].total) < 1 << 19
        assert capacity_cells(chip, 1 << 20) == (1 << 19) - 1


def _made_bps(chip: Chip, kbps: int) -> float:
    return quantise_rate(chip, kbps, chip.shaper_clock_hz, 16_384).bps(chip.shaper_clock_hz)


def _agree_with_the_driver(name: str, kbps: NDArray[np.uint64], burst: int) -> None:
    """Mantissa, exponent and what is read back are the driver's for each rate."""
    chip, driver = CHIPS[name], KINDS[name].shaper
    assert driver.burst(burst) == quantise_burst(chip, burst)
    mantissas, exponents = driver.programmed(kbps, burst)
    ours = [quantise_rate(chip, int(rate), chip.shaper_clock_hz, burst) for rate in kbps]
    assert [(one.mantissa, one.exponent) for one in ours] == list(
        zip(mantissas.tolist(), exponents.tolist(), strict=True)
    )
    read_back = driver.read_back(mantissas, exponents).tolist()
    assert [one.driver_bps(chip.shaper_clock_hz) for one in ours] == read_back
