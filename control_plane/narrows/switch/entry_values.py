# SPDX-License-Identifier: Apache-2.0
"""Keys and numbers of an entry as files write them, and as P4Runtime has them."""

from __future__ import annotations

import re
from contextlib import suppress
from ipaddress import ip_address

from finsy.proto import p4i, p4r

MAC_BITS = 48
_MAC = re.compile(r"(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}\Z")


class BadEntry(Exception):
    """What is wrong with an entry."""


def add_match(entry: p4r.TableEntry, field: p4i.MatchField, given: object) -> None:
    """Add a key to an entry; one that matches anything is left out, as P4Runtime wants it.

    Args:
        entry: which gets it.
        field: the table's, by P4Info.
        given: a value, or a pair of them: address and length, value and mask, or the lowest and the highest one.

    Raises:
        BadEntry: it is not a key of this kind.
    """
    kind, bits, name = field.match_type, field.bitwidth, field.name
    if kind in (p4i.MatchField.EXACT, p4i.MatchField.OPTIONAL):
        value = canonical(number(given, bits, name))
        if kind == p4i.MatchField.EXACT:
            entry.match.add(field_id=field.id).exact.value = value
        else:
            entry.match.add(field_id=field.id).optional.value = value
        return
    words = {
        p4i.MatchField.LPM: "address, length",
        p4i.MatchField.TERNARY: "value, mask",
        p4i.MatchField.RANGE: "low, high",
    }
    if kind not in words:
        raise BadEntry(f"key '{name}': is of a kind that such a file has no form for")
    if not isinstance(given, list) or len(given) != 2:
        raise BadEntry(f"key '{name}': is {given!r}; allowed: [{words[kind]}]")
    first = number(given[0], bits, name)
    ones = (1 << bits) - 1
    if kind == p4i.MatchField.LPM:
        length = number(given[1], 16, f"{name}: length")
        if length > bits:
            raise BadEntry(f"key '{name}': length {length}; allowed: 0 to {bits}")
        if length:
            lpm = entry.match.add(field_id=field.id).lpm
            lpm.value, lpm.prefix_len = canonical(first & ones << bits - length & ones), length
        return
    second = number(given[1], bits, name)
    if kind == p4i.MatchField.TERNARY:
        if second:
            ternary = entry.match.add(field_id=field.id).ternary
            ternary.value, ternary.mask = canonical(first & second), canonical(second)
    elif (first, second) != (0, ones):
        if first > second:
            raise BadEntry(f"key '{name}': from {first} to {second}; allowed: the lower one first")
        bounds = entry.match.add(field_id=field.id).range
        bounds.low, bounds.high = canonical(first), canonical(second)


def number(given: object, bits: int, name: str) -> int:
    """A number of at most so many bits, or an IP or Ethernet address of exactly so many; ``true`` is one of one bit.

    Raises:
        BadEntry: it is something else, or does not fit.
    """
    value, exactly = _value(given)
    if value is None or value < 0:
        raise BadEntry(f"'{name}' is {given!r}; allowed: a number, an IP address or an Ethernet address")
    if value >> bits:
        raise BadEntry(f"'{name}' is {given!r}, which does not fit into {bits} bits")
    if exactly not in (None, bits):
        # As the tutorials have it: an IP address where an Ethernet address belongs is a mistake.
        raise BadEntry(
            f"'{name}' is {given!r}, which has {exactly} bit{'' if exactly == 1 else 's'}; allowed: what has {bits}"
        )
    return value


def _value(given: object) -> tuple[int | None, int | None]:
    """What is given as a number, and the bits that it has to have; None where there is none, or any will do."""
    if isinstance(given, bool):
        return int(given), 1
    if isinstance(given, int):
        return given, None
    if not isinstance(given, str):
        return None, None
    if _MAC.match(given):
        return int(given.replace(":", ""), 16), MAC_BITS
    with suppress(ValueError):
        return int(given, 0), None
    with suppress(ValueError):
        address = ip_address(given)
        return int(address), address.max_prefixlen
    return None, None


def canonical(value: int) -> bytes:
    """As P4Runtime writes numbers: without leading zeros."""
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")
