# SPDX-License-Identifier: Apache-2.0
"""What a network namespace's kernel has counted of TCP and UDP: the names and figures of `nstat`."""

from __future__ import annotations

from pathlib import Path

# Of the thread, since that is what enters a namespace.
FILES = (Path("/proc/thread-self/net/snmp"), Path("/proc/thread-self/net/netstat"))
OF_UDP6 = Path("/proc/thread-self/net/snmp6")
GROUPS = ("Tcp", "TcpExt", "Udp")
# What the kernel is set to, and what is open now.
NO_COUNTERS = ("RtoAlgorithm", "RtoMin", "RtoMax", "MaxConn", "CurrEstab")


def parse(text: str) -> dict[str, int]:
    """Counters that are not zero, as ``TcpRetransSegs`` and ``TcpExtTCPTimeouts``, from a file of the kernel.

    A group has two lines: its name and those of its counters, then its name and their values.
    """
    lines = [line.split() for line in text.splitlines()]
    found: dict[str, int] = {}
    for names, values in zip(lines[::2], lines[1::2], strict=True):
        group = names[0].rstrip(":")
        if group in GROUPS:
            counted = zip(names[1:], map(int, values[1:]), strict=True)
            found |= {group + name: value for name, value in counted if value and name not in NO_COUNTERS}
    return found


def parse_udp6(text: str) -> dict[str, int]:
    """Those of UDP over IPv6, from a file with one counter on each line."""
    counted = ((name, int(value)) for name, value in map(str.split, text.splitlines()))
    return {name: value for name, value in counted if value and name.startswith("Udp6")}


def read() -> dict[str, int]:
    """Those of the namespace that this thread is in."""
    found = {name: value for path in FILES for name, value in parse(path.read_text()).items()}
    # A kernel without IPv6 has no such file.
    return found | (parse_udp6(OF_UDP6.read_text()) if OF_UDP6.exists() else {})
