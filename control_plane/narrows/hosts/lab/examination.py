# SPDX-License-Identifier: Apache-2.0
"""Looks at the machines of a lab and says how to mend what is wrong there. Changes nothing."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass

from narrows import python
from narrows.errors import NarrowsError
from narrows.hosts.diagnosis import Diagnosis
from narrows.hosts.lab.inventory import Lab, Machine, Nic
from narrows.hosts.lab.preflight import PYTHON
from narrows.hosts.lab.ssh import HOST_SCRIPT, run

TOOLS = ("ip", "ethtool", "ss", "tc", "sysctl", python.ELSEWHERE)
OFFLOADS = ("tso", "gso", "gro", "lro")
CLOCK_GOOD = ("Normal", "yes")


@dataclass(frozen=True)
class Link:
    """What is at the other end of a NIC's cable, and why it may be down; empty if it may not."""

    name: str
    may_be_down: str = ""


def found_at(one: Nic) -> Generator[Diagnosis, None, dict[str, str] | None]:
    """Access, tools and the interface; returns the machine's description, None where there is no more to be said."""
    name = one.name
    try:
        lines = run(one, ["sh", "-s", "--", "describe", one.interface], text=HOST_SCRIPT.read_text())
    except NarrowsError as error:
        yield Diagnosis(f"{name}: access", "", str(error))
        return None
    facts = dict(line.split("=", 1) for line in lines.splitlines() if "=" in line)
    yield Diagnosis(f"{name}: access", f"root, kernel {facts.get('kernel', 'unknown')}")
    needed = TOOLS[:-1] if one.ssh is None else TOOLS
    lacking = [tool for tool in needed if facts.get(f"tool.{tool}") != "yes"]
    yield Diagnosis(
        f"{name}: tools", ", ".join(needed), f"{', '.join(lacking)} missing; fix: install them" if lacking else ""
    )
    if facts.get("interface") == "yes":
        return facts
    yield Diagnosis(f"{name}: interface", "", f"no {one.interface}; fix: name the NIC in the inventory")
    return None


def machine(lab: Lab, one: Machine, link: Link, ccas: Sequence[str] = ()) -> Iterator[Diagnosis]:
    """What a run needs of a server.

    Args:
        lab: its lab.
        one: the server.
        link: its cable.
        ccas: congestion controls that senders must have.
    """
    name = one.name
    facts = yield from found_at(one)
    if facts is None:
        return
    mac = facts.get("mac", "")
    yield Diagnosis(
        f"{name}: MAC address",
        mac,
        "" if mac == one.mac else f"{one.interface} has {mac}; fix: mac in the inventory says {one.mac}",
    )
    yield from nic(one, facts, link, lab.speed_bps(one))
    available = facts.get("ccas", "").split()
    if one in lab.senders:
        absent = [cca for cca in ccas if cca not in available]
        yield Diagnosis(
            f"{name}: CCAs",
            ", ".join(available),
            f"{', '.join(absent)} not loaded; fix: modprobe tcp_NAME, or a kernel that has it" if absent else "",
        )
    yield from _python(one, facts)
    if one in lab.all_receivers and lab.delay.at == "receiver":
        yield Diagnosis(
            f"{name}: base RTT",
            "netem",
            ""
            if facts.get("netem") == "yes"
            else "the kernel lacks sch_prio, sch_netem or cls_u32; fix: install the package kernel-modules-extra or "
            "linux-modules-extra, or delay.at in the inventory: line, or none",
        )
    clock = facts.get("clock", "")
    yield Diagnosis(
        f"{name}: clock",
        clock or "unknown",
        "" if clock in CLOCK_GOOD else "not synchronised; fix: run chrony (hosts' logs carry its time, reports do not)",
    )
    yield earlier_run(one, facts)


def _python(one: Nic, facts: Mapping[str, str]) -> Iterator[Diagnosis]:
    found = facts.get("python", "0.0")
    if one.ssh is not None and facts.get("tool.python3") == "yes":
        old = tuple(map(int, found.split("."))) < tuple(map(int, PYTHON.split(".")))
        yield Diagnosis(
            f"{one.name}: Python", found, f"{found} is too old; fix: install {PYTHON} or later" if old else ""
        )


def nic(one: Nic, facts: Mapping[str, str], link: Link, speed_bps: int) -> Iterator[Diagnosis]:
    """Link, speed and offloads of a NIC, of the machine's description."""
    name = one.name
    up = facts.get("carrier") == "1"
    yield Diagnosis(
        f"{name}: link",
        "up" if up else f"down{_words(link.may_be_down)}",
        ""
        if up or link.may_be_down
        else f"no carrier on {one.interface}; fix: cable, 'ip link set {one.interface} up', FEC",
    )
    speed = facts.get("speed", "unknown")
    wanted = speed_bps // 10**6
    known = speed.isdigit()
    yield Diagnosis(
        f"{name}: speed",
        f"{speed} Mbit/s" if known else "unknown",
        f"the NIC runs at {speed} Mbit/s, {link.name} at {wanted}; fix: one of them"
        if known and up and int(speed) != wanted
        else "",
    )
    stuck = [short for short in OFFLOADS if facts.get(f"offload.{short}", "").startswith("on [fixed]")]
    yield Diagnosis(
        f"{name}: offloads",
        "can be turned off",
        f"{', '.join(stuck)} cannot be turned off; fix: use another NIC or driver" if stuck else "",
    )


def earlier_run(one: Nic, facts: Mapping[str, str]) -> Diagnosis:
    """Whether something is left of a run whose guard was killed with it."""
    return Diagnosis(
        f"{one.name}: earlier run",
        "nothing left",
        f"a killed run left its settings; fix: the next run does, or deploy/host.sh restore {one.interface}"
        if facts.get("applied") == "yes"
        else "",
    )


def _words(reason: str) -> str:
    return f"; {reason}" if reason.startswith("it ") else f", {reason}" if reason else ""
