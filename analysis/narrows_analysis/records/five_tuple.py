# SPDX-License-Identifier: Apache-2.0
"""A connection's addresses, in telemetry and in captures alike."""

from __future__ import annotations

from typing import NamedTuple


class FiveTuple(NamedTuple):
    """Whose packets a connection's are, in one direction."""

    protocol: int
    src: str
    dst: str
    src_port: int
    dst_port: int

    @property
    def reverse(self) -> FiveTuple:
        """The other direction."""
        return FiveTuple(self.protocol, self.dst, self.src, self.dst_port, self.src_port)
