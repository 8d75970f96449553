# SPDX-License-Identifier: Apache-2.0
"""The wires of a test run: a network namespace of its own in which every switch port has a veth pair to the tester."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PREFIX = "narrows-ptf-"
# Room for the largest frame (9216 B) inside a report of full length.
MTU = 9500
# What a wire has not: nothing may be merged, split, or left for hardware to fill in.
OFFLOADS = ("gro", "gso", "tso", "tx", "rx", "sg", "rxvlan", "txvlan")


@dataclass(frozen=True)
class Lab:
    """Interfaces by switch port, and the namespace that they are in; None where they are the machine's own."""

    namespace: str | None
    switch: Mapping[int, str]
    tester: Mapping[int, str]


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


def _inside(namespace: str, *command: str) -> None:
    subprocess.run(["ip", "netns", "exec", namespace, *command], check=True, capture_output=True, text=True)


def _veth(namespace: str, ends: tuple[str, str]) -> None:
    _ip("-n", namespace, "link", "add", "name", ends[0], "mtu", str(MTU), "type", "veth", "peer", "name", ends[1])
    for end in ends:
        _ip("-n", namespace, "link", "set", "dev", end, "mtu", str(MTU), "up")
        # One feature after the other: kernels differ in which of them can be changed at all.
        for feature in OFFLOADS:
            subprocess.run(
                ["ip", "netns", "exec", namespace, "ethtool", "-K", end, feature, "off"],
                check=False,
                capture_output=True,
            )


@contextlib.contextmanager
def built(name: str, tester_ports: Sequence[int], cables: Sequence[tuple[int, int]]) -> Iterator[Lab]:
    """Build the namespace and remove it, with all that is in it, at the end.

    Args:
        name: what the namespace is for; becomes part of its name.
        tester_ports: switch ports whose other end the tester holds.
        cables: pairs of switch ports that are connected to each other.

    Raises:
        RuntimeError: the kernel refused; nothing is left behind.
    """
    namespace = f"{PREFIX}{os.getpid()}-{name}"
    try:
        _ip("netns", "add", namespace)
        # Frames of the host's own, such as IPv6 router solicitations, would be counted as the tester's.
        for scope in ("default", "all"):
            _inside(namespace, "sysctl", "-qw", f"net.ipv6.conf.{scope}.disable_ipv6=1")
        _ip("-n", namespace, "link", "set", "dev", "lo", "up")
        switch = {port: f"switch{port}" for port in (*tester_ports, *(port for cable in cables for port in cable))}
        tester = {port: f"tester{port}" for port in tester_ports}
        for port in tester_ports:
            _veth(namespace, (switch[port], tester[port]))
        for one, other in cables:
            _veth(namespace, (switch[one], switch[other]))
        yield Lab(namespace, switch, tester)
    except subprocess.CalledProcessError as error:
        raise RuntimeError(f"{' '.join(error.cmd)}: {error.stderr.strip()}") from error
    finally:
        subprocess.run(["ip", "netns", "delete", namespace], check=False, capture_output=True)


def leftovers() -> list[str]:
    """Namespaces of test runs that were killed: their process is gone."""
    folder = Path("/run/netns")
    names = sorted(path.name for path in folder.glob(f"{PREFIX}*")) if folder.exists() else []
    return [name for name in names if not Path(f"/proc/{name.removeprefix(PREFIX).split('-')[0]}").exists()]


def remove(namespace: str) -> None:
    """Remove a namespace that a killed run left, and end the processes in it."""
    listed = subprocess.run(["ip", "netns", "pids", namespace], check=False, capture_output=True, text=True)
    for pid in listed.stdout.split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), 9)
    subprocess.run(["ip", "netns", "delete", namespace], check=False, capture_output=True)
