# SPDX-License-Identifier: Apache-2.0
"""The links of a test run: a network namespace of its own in which every switch port has a veth pair to the tester."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from narrows.hosts import links

PREFIX = "narrows-ptf-"
# Room for the largest frame (9216 B) inside a report of full length.
MTU = 9500


@dataclass(frozen=True)
class Lab:
    """Interfaces by switch port, and the namespace that they are in; None where they are the machine's own."""

    namespace: str | None
    switch: Mapping[int, str]
    tester: Mapping[int, str]


@contextlib.contextmanager
def built(name: str, tester_ports: Sequence[int], cables: Sequence[tuple[int, int]]) -> Iterator[Lab]:
    """Build the namespace and remove it, with all that is in it, at the end.

    Args:
        name: what the namespace is for; becomes part of its name.
        tester_ports: switch ports whose other end the tester holds.
        cables: pairs of switch ports that are connected to each other.

    Raises:
        RunError: the kernel refused; nothing is left behind.
    """
    with links.namespace(f"{PREFIX}{os.getpid()}-{name}") as namespace:
        switch = {port: f"switch{port}" for port in (*tester_ports, *(port for cable in cables for port in cable))}
        tester = {port: f"tester{port}" for port in tester_ports}
        pairs = [(switch[port], tester[port]) for port in tester_ports]
        pairs += [(switch[one], switch[other]) for one, other in cables]
        for one_end, other_end in pairs:
            links.add_cable(links.End(namespace, one_end), links.End(namespace, other_end), MTU)
            for end in (one_end, other_end):
                # Tags belong to the frame.
                links.run(["ip", "netns", "exec", namespace, "ethtool", "-K", end, "rxvlan", "off", "txvlan", "off"])
        yield Lab(namespace, switch, tester)


def leftovers() -> list[str]:
    """Namespaces of test runs that were killed: their process is gone."""
    folder = Path("/run/netns")
    names = sorted(path.name for path in folder.glob(f"{PREFIX}*")) if folder.exists() else []
    return [name for name in names if not Path(f"/proc/{name.removeprefix(PREFIX).split('-')[0]}").exists()]
