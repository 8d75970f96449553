# SPDX-License-Identifier: Apache-2.0
"""Records of the P4 program's digest of new flows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address


@dataclass(frozen=True)
class NewFlow:
    """A flow that a switch has announced: its index and signature at a bottleneck, and its 5-tuple.

    Fields are named as the columns of telemetry/learned_flows.parquet.
    """

    bottleneck: int
    flow: int
    signature: int
    ip_version: int
    src: str
    dst: str
    protocol: int
    src_port: int
    dst_port: int

    @classmethod
    def of(cls, record: Mapping[str, int]) -> NewFlow:
        """A record as a switch sends it: addresses are 128 bits wide, IPv4 in the low ones."""
        kind = IPv6Address if record["is_ipv6"] else IPv4Address
        return cls(
            bottleneck=record["bottleneck"],
            flow=record["index"],
            signature=record["signature"],
            ip_version=6 if record["is_ipv6"] else 4,
            src=str(kind(record["src"])),
            dst=str(kind(record["dst"])),
            protocol=record["protocol"],
            src_port=record["src_port"],
            dst_port=record["dst_port"],
        )
