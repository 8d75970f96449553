# SPDX-License-Identifier: Apache-2.0
"""From a queue depth in bytes of frames to cells of the traffic manager, and what that depth really is."""

from __future__ import annotations

from dataclasses import dataclass

from narrows.errors import InputError
from narrows_formats.units import NANOSECONDS, format_rate, format_size, format_time

from narrows_tofino.chip.model import Chip

# What a packet carries through the traffic manager beside its frame: the bridged headers of p4src/tofino and the FCS.
IN_MEMORY_OVERHEAD_BYTES = 14 + 4
# Below this many cells drops come in clumps that are a large part of the queue.
FAITHFUL_CELLS = 100
# Cells by which every limit that is not the bottleneck queue's exceeds it, so that the queue is the first to drop.
HEADROOM_CELLS = 1024


@dataclass(frozen=True)
class Depth:
    """The static tail-drop limit of a queue: ``guaranteed_cells`` of its own and ``pool_cells`` from the pool.

    ``bytes`` and ``packets`` are what that limit holds in full-size frames of ``frame_bytes``.
    """

    asked_bytes: int
    frame_bytes: int
    cells_per_frame: int
    cells: int
    guaranteed_cells: int
    hysteresis_cells: int
    cell_bytes: int

    @property
    def pool_cells(self) -> int:
        """Cells the queue may take from its pool."""
        return self.cells - self.guaranteed_cells

    @property
    def packets(self) -> int:
        """Full-size frames that fit."""
        return self.cells // self.cells_per_frame

    @property
    def bytes(self) -> int:
        """Bytes of full-size frames that fit."""
        return self.cells * self.frame_bytes // self.cells_per_frame

    @property
    def hysteresis_bytes(self) -> int:
        """Once it has dropped, the queue drops on until it has drained by this many bytes of full-size frames."""
        return self.hysteresis_cells * self.frame_bytes // self.cells_per_frame

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why this queue is not quite a FIFO with tail drop."""
        if self.cells >= FAITHFUL_CELLS:
            return ()
        return (
            f"the queue is {self.cells} cells deep and drops until it has drained by {self.hysteresis_cells}: "
            f"below {FAITHFUL_CELLS} cells this is not a faithful tail drop",
        )


def cells_per_frame(chip_cell_bytes: int, frame_bytes: int) -> int:
    """Cells that one frame takes; a packet that is one byte over a cell takes the whole next one."""
    return -(-(frame_bytes + IN_MEMORY_OVERHEAD_BYTES) // chip_cell_bytes)


def capacity_cells(chip: Chip, total_cells: int) -> int:
    """Cells that all bottlenecks of a switch may take together.

    The rest, ``chip.reserve_cells``, is for acknowledgements, reports and whatever else passes. Cells guaranteed to
    idle queues are counted as free: a testbed's other queues are idle, and the run checks that nothing was dropped
    for want of memory.
    """
    return min(total_cells - chip.reserve_cells - HEADROOM_CELLS, (1 << chip.static_limit_bits) - 1)


def depth_for(
    chip: Chip,
    cell_bytes: int,
    limit_bytes: int,
    frame_bytes: int,
    guaranteed_cells: int,
    available_cells: int,
    rate_bps: int,
    field: str = "bottleneck",
) -> Depth:
    """The limit that holds ``limit_bytes`` of full-size frames.

    Args:
        chip: Tofino generation.
        cell_bytes: size of a cell, as the switch says.
        limit_bytes: depth asked for, in bytes of frames.
        frame_bytes: full-size frame.
        guaranteed_cells: what the queue has of its own.
        available_cells: what is left for it.
        rate_bps: the link's rate, to name the largest depth in time.
        field: where an experiment has the link, for messages.

    Raises:
        InputError: deeper than what is left, or too shallow for the hysteresis; the message names the limit, and what
            it is in bytes, in time, and as the fastest rate that this depth in time would fit at.
    """
    per_frame = cells_per_frame(cell_bytes, frame_bytes)
    cells = limit_bytes * per_frame // frame_bytes
    hysteresis = chip.hysteresis_floor_cells
    least = hysteresis + 2 * per_frame
    if cells < least:
        raise InputError(
            f"{field}.buffer: {format_size(limit_bytes)} is {cells} cells of {cell_bytes} B on {chip.name}, whose "
            f"queues stop dropping {hysteresis} cells below their limit; allowed: "
            f"{format_size(-(-least * frame_bytes // per_frame))} or more"
        )
    if cells > available_cells:
        most = available_cells * frame_bytes // per_frame // 1000 * 1000
        delay_ns = limit_bytes * 8 * NANOSECONDS // rate_bps
        most_ns = most * 8 * NANOSECONDS // rate_bps
        fits = rate_bps * most // limit_bytes
        raise InputError(
            f"{field}.buffer: {format_size(limit_bytes)} takes {cells} cells of {cell_bytes} B, and {chip.name} has "
            f"{available_cells} for it; allowed: up to {format_size(most)}, which is {format_time(_round(most_ns))} at "
            f"{format_rate(rate_bps)}; {format_time(_round(delay_ns))} of queue (or that BDP) fits up to "
            f"{format_rate(_round(fits))}"
        )
    return Depth(limit_bytes, frame_bytes, per_frame, cells, min(guaranteed_cells, cells), hysteresis, cell_bytes)


def depth_units(bytes_of_frames: int, frame_bytes: int, cell_bytes: int) -> int:
    """The least depth in cells, the unit of the program's depths, that is not below one in bytes of full-size frames.

    Rounded down, a threshold of a few bytes would be 0, which an empty queue reaches.
    """
    return -(-bytes_of_frames * cells_per_frame(cell_bytes, frame_bytes) // frame_bytes)


def about_size(size: int) -> str:
    """A size in bytes to three significant digits, for people."""
    return format_size(_round(size))


def _round(number: int) -> int:
    """Rounded down to three significant digits."""
    digits = len(str(number))
    step = int(10 ** max(0, digits - 3))
    return number // step * step
