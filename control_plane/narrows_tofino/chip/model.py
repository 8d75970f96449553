# SPDX-License-Identifier: Apache-2.0
"""What differs between Tofino 1 and 2. Sizes that the switch can tell itself (cells, pools) are read from it."""

from __future__ import annotations

from dataclasses import dataclass

# A dev_port is pipe * 128 + port in the pipe.
PORTS_PER_PIPE = 128


@dataclass(frozen=True)
class Chip:
    """One generation.

    The shaper adds ``mantissa / 2**exponent`` bytes to a bucket every 80 of its clocks; the bucket's size is
    ``mantissa << exponent``. ``hysteresis_floor_cells`` is what the driver raises any smaller hysteresis to;
    ``static_limit_bits`` is the width of the queue limit's register. ``mirror_sessions`` is the largest session id
    that is ours to use. With ``l1_nodes`` queues are below nodes of that kind, and these below their port.
    """

    name: str
    prefix: str
    architecture: str
    cell_bytes: int
    default_cells: int
    shaper_clock_hz: float
    other_clocks_hz: tuple[float, ...]
    shaper_rounds_up: bool
    rate_mantissa_bits: int
    burst_mantissa_bits: int
    max_burst_bytes: int
    hysteresis_floor_cells: int
    static_limit_bits: int
    mirror_sessions: int
    mirror_length_step: int
    mirror_length_counts_fcs: bool
    max_mirror_length: int
    speeds: tuple[str, ...]
    reserve_cells: int
    l1_nodes: bool


RATE_EXPONENT_MAX = 15
SHAPER_PERIOD_CLOCKS = 80

TOFINO1 = Chip(
    name="tofino",
    prefix="tf1",
    architecture="tna",
    cell_bytes=80,
    default_cells=260 * 1024,
    # Parts sold as 1.25 GHz; the driver computes with 1.22 GHz. Other parts: inventory, switch.shaper_clock_hz.
    shaper_clock_hz=1.22e9,
    other_clocks_hz=(1.0e9, 1.05e9, 1.1e9, 1.3125e9),
    shaper_rounds_up=False,
    rate_mantissa_bits=10,
    burst_mantissa_bits=4,
    # The driver's conversion of anything larger loses bits of the mantissa.
    max_burst_bytes=65_535,
    hysteresis_floor_cells=32,
    static_limit_bits=19,
    mirror_sessions=1014,
    mirror_length_step=1,
    mirror_length_counts_fcs=False,
    max_mirror_length=63 * 240,
    speeds=("1G", "10G", "25G", "40G", "50G", "100G"),
    reserve_cells=8192,
    l1_nodes=False,
)

TOFINO2 = Chip(
    name="tofino2",
    prefix="tf2",
    architecture="t2na",
    cell_bytes=176,
    default_cells=384 * 1024,
    shaper_clock_hz=1.0e9,
    other_clocks_hz=(),
    shaper_rounds_up=True,
    rate_mantissa_bits=12,
    burst_mantissa_bits=8,
    max_burst_bytes=255 << 15,
    hysteresis_floor_cells=32,
    static_limit_bits=19,
    mirror_sessions=255,
    mirror_length_step=4,
    mirror_length_counts_fcs=True,
    max_mirror_length=16_380,
    speeds=("1G", "10G", "25G", "40G", "50G", "100G", "200G", "400G"),
    reserve_cells=16_384,
    l1_nodes=True,
)

CHIPS = {chip.name: chip for chip in (TOFINO1, TOFINO2)}


def pipe_of(dev_port: int) -> int:
    """The pipe a port belongs to."""
    return dev_port // PORTS_PER_PIPE
