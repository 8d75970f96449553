# SPDX-License-Identifier: Apache-2.0
"""The payload of a flow: what is its kind's own in a plan, frozen, in base units.

Every kind has one or more classes of `Payload`; all else that needs to know something of a flow asks this interface.
They are in the modules that make the flows on hosts, which take only the standard library: so does a plan.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import ClassVar

DATA_PORTS = range(10_000, 40_000)
"""Ports that connections are made from."""
UNSENT_BYTES = 16_384
"""What a socket may hold unsent when its application pauses, which still leaves: few segments."""


@dataclass(frozen=True)
class Datagrams:
    """Datagrams of ``payload`` bytes each, ``gap_ns`` apart, for ``active_ns`` in all."""

    payload: int
    gap_ns: float
    active_ns: int

    @property
    def count(self) -> float:
        """How many are sent."""
        return self.active_ns / self.gap_ns


@dataclass(frozen=True)
class Tcp:
    """What a flow's TCP is set to besides its congestion control; None: as the kernel has it.

    ``rate_bps`` paces its payload. ``initial_window`` is in segments. ``ecn`` None: if a link marks. Options are name,
    number and value.
    """

    rate_bps: int | None = None
    initial_window: int | None = None
    rto_min_ns: int | None = None
    hystart: bool | None = None
    ecn: bool | None = None
    notsent_lowat: int | None = None
    options: tuple[tuple[str, int, int], ...] = ()
    receiver_options: tuple[tuple[str, int, int], ...] = ()
    sysctls: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Payload:
    """What a flow sends. Its class variables say what such flows are to everything else."""

    kind: ClassVar[str]
    """What results and messages call it."""
    made_by: ClassVar[str] = "tcp"
    """The module here whose sockets or processes make such flows, several kinds together."""
    protocol: ClassVar[int | None] = socket.IPPROTO_TCP
    """IP protocol; None: any."""
    lasts: ClassVar[bool] = False
    """Whether it sends until its duration is over, so that it may be stopped before."""
    acknowledged: ClassVar[bool] = True
    """Whether something comes back."""
    competes: ClassVar[bool] = True
    """Whether it competes with other flows for the links that it crosses; else it measures them."""
    receiver_initiates: ClassVar[bool] = False
    """Whether its connections are made from the host that receives its data."""
    match_by_host_pair: ClassVar[str | None] = None
    """Whose packets they are, where the flow is all that is sent between its two addresses; None: its ports count."""
    is_program: ClassVar[bool] = False
    """Whether programs of a user make it."""
    notsent_lowat: ClassVar[int | None] = None
    """Unsent bytes that its socket may hold where its settings do not say; None: as many as the kernel lets it."""
    ends_the_run: ClassVar[bool] = False
    """Whether no other flow goes on once it has ended."""

    @classmethod
    def has_tcp(cls) -> bool:
        """Whether such flows are TCP, or may be."""
        return cls.protocol in (socket.IPPROTO_TCP, None)

    @property
    def sender_opens(self) -> bool:
        """Whether its sender opens its connections."""
        return not self.receiver_initiates

    def ends(self, src: str, dst: str) -> tuple[str, str]:
        """Source and destination as results have them, of a flow between these addresses."""
        return src, dst

    @property
    def repeat(self) -> int:
        """Connections that results tell apart."""
        return 1

    @property
    def connections(self) -> int:
        """Connections at most, each with a port of its own where it begins."""
        return self.repeat

    @property
    def at_once(self) -> int:
        """Connections that may begin in one instant."""
        return 1

    @property
    def until(self) -> str | None:
        """The group with whose end no further connection starts."""
        return None

    @property
    def is_finite(self) -> bool:
        """Whether each of its connections has a size, with which it ends; else it has a duration."""
        return bool(self.sizes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Bytes of the connections of a finite flow, one entry if they are equal."""
        return ()

    def size_of(self, number: int) -> int | None:
        """Bytes of a connection; None: it lasts for a time."""
        return self.sizes[number if len(self.sizes) > 1 else 0] if self.sizes else None

    @property
    def total_bytes(self) -> int:
        """Bytes of all connections of a finite flow."""
        return sum(self.sizes) if len(self.sizes) > 1 else sum(self.sizes) * self.repeat

    @property
    def arrivals_ns(self) -> tuple[int, ...]:
        """When each connection starts, after the flow's start; empty: one starts when the one before has ended."""
        return ()

    @property
    def pause_ns(self) -> int:
        """Between the end of a connection and the start of the next."""
        return 0

    @property
    def waits_ns(self) -> int:
        """Between the starts of the first and the last connection at least."""
        return self.arrivals_ns[-1] if self.arrivals_ns else 0

    @property
    def asked_bytes(self) -> int:
        """Bytes that may be asked for up to the end of its duration, and arrive after it."""
        return 0

    @property
    def datagrams(self) -> Datagrams | None:
        """The datagrams that it is made of, whatever becomes of them; None: of what links let through."""
        return None

    @property
    def directories(self) -> tuple[str, ...]:
        """Directories of this machine that a user's programs are in, and the one that they work in."""
        return ()

    @property
    def own(self) -> object:
        """What the hosts need of it besides, as JSON can have it; times in seconds since the flow's start."""
        return None

    @property
    def server_ports(self) -> tuple[int, ...]:
        """Ports that a user has given to servers of this flow."""
        return ()
