# SPDX-License-Identifier: Apache-2.0
"""What an AQM is in a plan, in base units. Guests import it: nothing here knows of files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

from narrows_formats.units import QueueDepth

# Of no packet: 32 bits.
NO_THRESHOLD = (1 << 32) - 1

# What several AQMs need of a switch.
DEPTH_AT_INGRESS = "the depth of the queue before a packet is queued"
DROPS_FOR_FREE = "drops behind the queue that cost the link no time"

# An action of the program, and its parameters.
Call = tuple[str, Mapping[str, int]]


class Buffer(Protocol):
    """How much may wait in a queue, of which one bound is 0 or None."""

    @property
    def byte_limit(self) -> int:
        """Bytes; 0: it is packets that count."""

    @property
    def limit_packets(self) -> int | None:
        """Packets of any size."""


@dataclass(frozen=True)
class LinkBasis:
    """What of a link an AQM may refer to: ``field`` is where it is written, its ``buffer`` as written."""

    field: str
    buffer: QueueDepth
    rate_bps: int
    rtt_ns: int
    frame_bytes: int

    def in_bytes(self, depth: QueueDepth) -> int:
        """A depth in bytes; packets are full-size frames."""
        return depth.in_bytes(self.rate_bps, self.rtt_ns, self.frame_bytes)


@dataclass(frozen=True)
class Aqm(ABC):
    """An AQM as a plan has it. Its fields are what run.json has as ``queue_management``."""

    # What it needs of a switch and of Narrows' program on it, beyond dropping what there is no room for.
    needs: ClassVar[str]
    # The P4 program has a part in it, not the traffic manager alone.
    by_program: ClassVar[bool] = True
    # A full queue drops its oldest packets.
    head_drop: ClassVar[bool] = False
    # The program drops in front of the queue, where the traffic manager counts nothing.
    drops_on_arrival: ClassVar[bool] = False

    @property
    @abstractmethod
    def kind(self) -> str:
        """Its name in files."""

    @property
    def marks(self) -> bool:
        """Whether it marks packets, so that hosts are to use ECN."""
        return False

    @property
    def period_ns(self) -> int:
        """From one update by the switch's timer to the next; 0: there are none."""
        return 0

    def entries(self, buffer: Buffer, frame_bytes: int) -> Iterator[tuple[str, Call]]:
        """The tables of the managing program (p4src/v1model/queue_management) that have an entry for a link.

        Args:
            buffer: of the link.
            frame_bytes: of a full-size frame.
        """
        yield from ()

    def scheduling(self, frame_bytes: int) -> Mapping[str, Mapping[str, int]]:
        """How several queues share the link: fields of the message `Management` (traffic_manager.proto)."""
        return {}


class UpdatedAqm(Aqm, ABC):
    """An AQM whose probability changes each ``tupdate``, whether packets come or not."""

    tupdate_ns: int

    @property
    def period_ns(self) -> int:
        """See `Aqm.period_ns`."""
        return self.tupdate_ns

    @property
    @abstractmethod
    def update(self) -> Call:
        """What the program does at those times."""
