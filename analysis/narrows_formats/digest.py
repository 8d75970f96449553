# SPDX-License-Identifier: Apache-2.0
"""Records of the P4 program's digest of new flows, as a switch sends them."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address
from typing import Any


def address(record: dict[str, Any], name: str) -> str:
    """An address of a record as text; 128 bits wide in the digest, IPv4 in the low ones."""
    kind = IPv6Address if record["is_ipv6"] else IPv4Address
    return str(kind(record[name]))
