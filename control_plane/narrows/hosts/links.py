# SPDX-License-Identifier: Apache-2.0
"""Links in network namespaces: veth pairs that leave packets as they are, their counters, and calls from inside."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from narrows.errors import RunError
from narrows.hosts.offloads import turn_offloads
from narrows.hosts.read_back import require

NAMESPACES = Path("/run/netns")
CLONE_NEWNET = 0x40000000
CARRIER_WAIT_S = 5.0

# Nothing in a namespace speaks of its own accord.
QUIET = {"net.ipv6.conf.all.disable_ipv6": "1", "net.ipv6.conf.default.disable_ipv6": "1"}

Answer = TypeVar("Answer")


class End(NamedTuple):
    """One end of a link."""

    namespace: str
    interface: str


@dataclass(frozen=True)
class Link:
    """An interface as the kernel counts it; ``lost`` are packets that the kernel says it dropped or found faulty."""

    mtu: int
    up: bool
    rx_packets: int
    rx_bytes: int
    rx_lost: int
    tx_packets: int
    tx_bytes: int
    tx_lost: int


def run(command: Sequence[str], text: str | None = None) -> str:
    """Run a set-up command and return its output.

    Raises:
        RunError: it fails; the message has what it said.
    """
    result = subprocess.run(command, input=text, capture_output=True, text=True)
    if result.returncode != 0:
        raise RunError(f"'{' '.join(command)}' failed: {result.stderr.strip() or result.stdout.strip()}")
    return result.stdout


def set_sysctls(namespace: str, settings: Mapping[str, str]) -> None:
    """Set kernel settings of a namespace (``net.ipv4.tcp_ecn`` and the like), and read them back.

    Raises:
        RunError: there is none of a name, it takes no such value, or it reads back differently.
    """

    found: dict[str, str] = {}

    def inside() -> None:
        for name, asked in settings.items():
            file = Path("/proc/sys", *name.split("."))
            try:
                file.write_text(asked)
                found[name] = file.read_text()
            except OSError as error:
                raise RunError(f"{namespace}: {name} cannot be set to {asked}: {error.strerror}") from error

    call_inside(namespace, inside)
    require(namespace, settings, found)


def set_offloads(end: End, on: Collection[str] = ()) -> dict[str, str]:
    """See `narrows.hosts.offloads.turn_offloads`."""
    try:
        return call_inside(end.namespace, partial(turn_offloads, end.interface, on))
    except RunError as error:
        raise RunError(f"{end.namespace}: {error}") from error


@contextmanager
def namespace(name: str) -> Iterator[str]:
    """A network namespace while the block runs: its loopback is up, and nothing in it speaks IPv6 of its own accord.

    What still runs in it at the end is killed.

    Raises:
        RunError: the kernel refuses; nothing is left behind.
    """
    run(["ip", "netns", "add", name])
    try:
        set_sysctls(name, QUIET)
        run(["ip", "-n", name, "link", "set", "lo", "up"])
        yield name
    finally:
        remove_namespace(name)


def remove_namespace(name: str) -> None:
    """Kill what runs in a namespace, and remove it; no error if there is none."""
    listed = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True)
    for pid in listed.stdout.split():
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    subprocess.run(["ip", "netns", "delete", name], capture_output=True)


def add_cable(one: End, other: End, mtu: int = 1500, mac: str | None = None) -> None:
    """Make a veth pair, offloads off and up; ``mac`` is the address of its first end, the kernel's choice if None.

    Raises:
        RunError: the kernel refuses, an offload cannot be turned off, or the link does not come up.
    """
    address = "" if mac is None else f"address {mac}"
    pair = f"link add name {one.interface} {address} mtu {mtu} type veth peer name {other.interface} mtu {mtu} netns"
    run(["ip", "-n", one.namespace, *pair.split(), other.namespace])
    for end in (one, other):
        set_offloads(end)
    for end in (one, other):
        run(["ip", "-n", end.namespace, "link", "set", end.interface, "up"])
    wait_for_carrier(one, other)


def wait_for_carrier(*ends: End) -> None:
    """The kernel notices a carrier up to a second later, and drops what is sent before.

    Raises:
        RunError: a link is not up after five seconds.
    """
    deadline = time.monotonic() + CARRIER_WAIT_S
    for end in ends:
        while not is_up(run(["ip", "-n", end.namespace, "-brief", *show_state(end.interface).split()])):
            if time.monotonic() > deadline:
                raise RunError(f"the link {end.interface} in {end.namespace} does not come up")
            time.sleep(0.01)


def show_state(interface: str) -> str:
    """What asks ``ip -brief`` for a link's state, for `is_up`.

    Asked for one link, newer kernels look at once; a list of all has what they know already.
    """
    return f"link show dev {interface}"


def is_up(line: str) -> bool:
    """Whether what `show_state` asked for is a link with a carrier."""
    return line.split()[1:2] == ["UP"]


def links(namespace: str) -> dict[str, Link]:
    """All interfaces of a namespace by name."""
    found = {}
    for entry in json.loads(run(["ip", "-n", namespace, "-s", "-j", "link", "show"])):
        rx, tx = entry["stats64"]["rx"], entry["stats64"]["tx"]
        found[entry["ifname"]] = Link(
            mtu=entry["mtu"],
            up=entry["operstate"] == "UP",
            rx_packets=rx["packets"],
            rx_bytes=rx["bytes"],
            rx_lost=rx["dropped"] + rx["errors"],
            tx_packets=tx["packets"],
            tx_bytes=tx["bytes"],
            tx_lost=tx["dropped"] + tx["errors"],
        )
    return found


def not_sent(namespace: str) -> dict[str, int]:
    """Packets that each interface of a namespace was given and did not send, dropped or faulty.

    Without a process, as for `links`: those take long in a guest.
    """
    # proc(5), /proc/net/dev: two lines of heads, then 8 numbers of what was received, and of what was sent
    # bytes, packets, errors, dropped and so on.
    lines = call_inside(namespace, Path("/proc/thread-self/net/dev").read_text).splitlines()[2:]
    rows = {name.strip(): counts.split() for name, _, counts in (line.partition(":") for line in lines)}
    return {name: int(counts[10]) + int(counts[11]) for name, counts in rows.items()}


def require_interface(end: End, mtu: int, mac: str | None = None, address: str | None = None) -> None:
    """Read back what an interface that is up was made as; nothing paces or delays what it sends.

    Raises:
        RunError: something of it is otherwise.
    """
    shown = json.loads(run(["ip", "-n", end.namespace, "-j", "address", "show", "dev", end.interface]))[0]
    addresses = [f"{one['local']}/{one['prefixlen']}" for one in shown["addr_info"] if one.get("scope") != "link"]
    found = {
        "mtu": shown["mtu"],
        "state": shown["operstate"],
        "qdisc": shown["qdisc"],
        "link address": shown["address"],
        "address": " ".join(addresses),
    }
    asked = {"mtu": mtu, "state": "UP", "qdisc": "noqueue"}
    asked |= {} if mac is None else {"link address": mac}
    asked |= {} if address is None else {"address": address}
    require(f"{end.namespace}/{end.interface}", asked, found)


def call_inside(namespace: str, function: Callable[[], Answer]) -> Answer:
    """Call a function inside a network namespace. Sockets that it opens stay there, wherever they are used later.

    Raises:
        RunError: the namespace cannot be entered.
    """

    def inside() -> Answer:
        library = ctypes.CDLL(None, use_errno=True)
        try:
            handle = os.open(NAMESPACES / namespace, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise RunError(f"namespace {namespace} cannot be entered: {error.strerror}") from error
        try:
            if library.setns(handle, CLONE_NEWNET) != 0:
                raise RunError(f"namespace {namespace} cannot be entered: {os.strerror(ctypes.get_errno())}")
        finally:
            os.close(handle)
        return function()

    # A thread has a network namespace of its own, and this one ends here: no later call has to leave that namespace.
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(inside).result()
