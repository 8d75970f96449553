# SPDX-License-Identifier: Apache-2.0
"""Looks at every piece of a testbed and says how to mend what is wrong. Changes nothing."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass

from narrows_formats.programs import COLLECTOR, SOFTSWITCH, find_binary, missing_binary

from narrows.errors import NarrowsError
from narrows.hosts.lab.inventory import Machine
from narrows.hosts.lab.machines import HOST_SCRIPT
from narrows.hosts.lab.preflight import PYTHON
from narrows.hosts.lab.ssh import run
from narrows.targets.soft.softswitch import missing_parts
from narrows.targets.tofino.bfrt.client import ALL_PIPES, Client
from narrows.targets.tofino.readings.counters import Counters
from narrows.targets.tofino.testbed.inventory import SPEED_BPS, Inventory
from narrows.targets.tofino.testbed.session import SwitchSession
from narrows.targets.tofino.writes.planned import number, text
from narrows.targets.tofino.writes.reader import LiveReader

TOOLS = ("ip", "ethtool", "ss", "tc", "sysctl", "python3")
OFFLOADS = ("tso", "gso", "gro", "lro")
PROBE_S = 1.0
CLOCK_GOOD = ("Normal", "yes")


@dataclass(frozen=True)
class Diagnosis:
    """One thing looked at; ``problem`` says what is wrong and how to fix it, empty when nothing is."""

    subject: str
    found: str
    problem: str = ""


def examine(inventory: Inventory, ccas: Sequence[str] = ()) -> list[Diagnosis]:
    """Everything a run on this testbed depends on.

    Args:
        inventory: the testbed.
        ccas: congestion controls that senders must have.
    """
    about_switch, added = _switch(inventory)
    with ThreadPoolExecutor(len(inventory.machines)) as pool:
        machines = list(
            pool.map(lambda one: list(_machine(inventory, one, added.get(one.port), ccas)), inventory.machines)
        )
    found = [finding for group in machines for finding in group]
    found.append(Diagnosis("collector program", COLLECTOR, "" if find_binary(COLLECTOR) else missing_binary(COLLECTOR)))
    if inventory.delay_line is not None:
        found.append(Diagnosis("delay line program", SOFTSWITCH, "; ".join(missing_parts())))
    return [*found, *_exposure(inventory), *about_switch]


def _machine(inventory: Inventory, machine: Machine, added: bool | None, ccas: Sequence[str]) -> Iterator[Diagnosis]:
    """``added``: whether the switch has the machine's port already; None if that is not known."""
    name = machine.name
    try:
        lines = run(machine, ["sh", "-s", "--", "describe", machine.interface], text=HOST_SCRIPT.read_text())
    except NarrowsError as error:
        yield Diagnosis(f"{name}: access", "", str(error))
        return
    facts = dict(line.split("=", 1) for line in lines.splitlines() if "=" in line)
    yield Diagnosis(f"{name}: access", f"root, kernel {facts.get('kernel', 'unknown')}")
    needed = TOOLS[:-1] if machine.ssh is None else TOOLS
    lacking = [tool for tool in needed if facts.get(f"tool.{tool}") != "yes"]
    yield Diagnosis(
        f"{name}: tools", ", ".join(needed), f"{', '.join(lacking)} missing; fix: install them" if lacking else ""
    )
    if facts.get("interface") != "yes":
        yield Diagnosis(f"{name}: interface", "", f"no {machine.interface}; fix: name the NIC in the inventory")
        return
    yield from _nic(inventory, machine, added, facts)
    available = facts.get("ccas", "").split()
    if machine in inventory.senders:
        absent = [cca for cca in ccas if cca not in available]
        yield Diagnosis(
            f"{name}: CCAs",
            ", ".join(available),
            f"{', '.join(absent)} not loaded; fix: modprobe tcp_NAME, or a kernel that has it" if absent else "",
        )
    yield from _python(name, machine, facts)
    if machine in inventory.all_receivers and inventory.delay.at == "receiver":
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
    left = facts.get("applied") == "yes"
    yield Diagnosis(
        f"{name}: earlier run",
        "nothing left",
        f"a killed run left its settings; fix: the next run does, or deploy/host.sh restore {machine.interface}"
        if left
        else "",
    )


def _python(name: str, machine: Machine, facts: dict[str, str]) -> Iterator[Diagnosis]:
    found = facts.get("python", "0.0")
    if machine.ssh is not None and facts.get("tool.python3") == "yes":
        old = tuple(map(int, found.split("."))) < tuple(map(int, PYTHON.split(".")))
        yield Diagnosis(f"{name}: Python", found, f"{found} is too old; fix: install {PYTHON} or later" if old else "")


def _nic(inventory: Inventory, machine: Machine, added: bool | None, facts: dict[str, str]) -> Iterator[Diagnosis]:
    name, port = machine.name, inventory.port_of(machine)
    mac = facts.get("mac", "")
    yield Diagnosis(
        f"{name}: MAC address",
        mac,
        "" if mac == machine.mac else f"{machine.interface} has {mac}; fix: mac in the inventory says {machine.mac}",
    )
    up = facts.get("carrier") == "1"
    down = f"down, as long as the switch has no port {port.name}"
    if added is None:
        down = f"down; it is not known whether the switch has port {port.name} yet"
    yield Diagnosis(
        f"{name}: link",
        "up" if up else down,
        ""
        if up or not added
        else f"no carrier on {machine.interface}; fix: cable, 'ip link set {machine.interface} up', FEC",
    )
    speed = facts.get("speed", "unknown")
    wanted = SPEED_BPS[port.speed] // 10**6
    known = speed.isdigit()
    yield Diagnosis(
        f"{name}: speed",
        f"{speed} Mbit/s" if known else "unknown",
        f"the NIC runs at {speed} Mbit/s, port {port.name} at {wanted}; fix: one of them"
        if known and up and int(speed) != wanted
        else "",
    )
    stuck = [short for short in OFFLOADS if facts.get(f"offload.{short}", "").startswith("on [fixed]")]
    yield Diagnosis(
        f"{name}: offloads",
        "can be turned off",
        f"{', '.join(stuck)} cannot be turned off; fix: use another NIC or driver" if stuck else "",
    )


def _exposure(inventory: Inventory) -> Iterator[Diagnosis]:
    """Whether strangers can program the switch: with a tunnel, its port must not answer directly."""
    switch = inventory.switch
    if switch.tunnel is None:
        yield Diagnosis(
            "switch: protection",
            "TLS" if switch.tls is not None else "loopback",
            "BF Runtime is reached over the network without protection; fix: tunnel or tls in the inventory"
            if switch.insecure
            else "",
        )
        return
    port = int(switch.address.rpartition(":")[2])
    try:
        with socket.create_connection((switch.tunnel.host, port), PROBE_S):
            problem = (
                f"BF Runtime answers on {switch.tunnel.host}:{port} to everyone; fix: start bf_switchd with "
                "--server-listen-local-only (deploy/systemd/narrows-switchd.service does)"
            )
    except OSError:
        problem = ""
    yield Diagnosis("switch: protection", "SSH tunnel, port closed", problem)


def _switch(inventory: Inventory) -> tuple[list[Diagnosis], dict[str, bool]]:
    """What is to be said of the switch, and which ports, by name, it has already; those not in it are not known."""
    found: list[Diagnosis] = []
    added: dict[str, bool] = {}
    with closing(SwitchSession(inventory)) as session:
        try:
            client = session.open()
        except NarrowsError as error:
            problem = str(error)
            if "fix:" not in problem:
                problem += (
                    f"; fix: is bf_switchd running with program '{inventory.switch.program}' "
                    "(systemctl status narrows-switchd on the switch)?"
                )
            return [Diagnosis("switch: BF Runtime", "", problem)], added
        found.append(Diagnosis("switch: BF Runtime", f"program '{inventory.switch.program}', client {client.kind}"))
        try:
            found += _program(inventory, client)
            found += _ports(inventory, LiveReader(client), added)
        except NarrowsError as error:
            found.append(Diagnosis("switch: tables", "", str(error)))
    return [*found, _calibration(inventory)], added


def _calibration(inventory: Inventory) -> Diagnosis:
    calibration = inventory.calibration
    if calibration is None:
        return Diagnosis("switch: calibration", "none; 'narrows calibrate' measures rate, depth and latency once")
    return Diagnosis("switch: calibration", f"of {calibration.date}, driver {calibration.driver or 'not named'}")


def _program(inventory: Inventory, client: Client) -> Iterator[Diagnosis]:
    chip = inventory.switch.generation
    reader = LiveReader(client)
    entry = reader.entry(f"{chip.prefix}.tm.cfg", None)
    assert entry is not None
    cells = number(entry, "total_cells")
    yield Diagnosis("switch: chip", f"{chip.name}, {cells} cells of {number(entry, 'cell_size_bytes')} B")
    Counters(client)
    left = len(reader.entries("cross_connect"))
    yield Diagnosis("switch: program", "tables found" + (f", {left} paths of an earlier run" if left else ""))


def _ports(inventory: Inventory, reader: LiveReader, added: dict[str, bool]) -> Iterator[Diagnosis]:
    """Names, speeds and links; ``added`` is told which ports are there."""
    for port in inventory.ports:
        subject = f"switch: port {port.name}"
        # The driver knows the front panel, whether a port was added or not.
        named = reader.entry("$PORT_STR_INFO", {"$PORT_NAME": port.name})
        if named is None:
            yield Diagnosis(subject, "", f"the switch has no front-panel port {port.name}; fix: name in the inventory")
            continue
        dev_port = number(named, "$DEV_PORT")
        found = reader.entry("$PORT", {"$DEV_PORT": port.dev_port}, ALL_PIPES)
        added[port.name] = found is not None
        if dev_port != port.dev_port:
            problem = f"front-panel port {port.name} is dev_port {dev_port}; fix: dev_port or name in the inventory"
            yield Diagnosis(subject, "", problem)
        elif found is None:
            yield Diagnosis(subject, f"not there yet; a run adds it at {port.speed}")
        else:
            speed = text(found, "$SPEED").removeprefix("BF_SPEED_")
            problem = ""
            if speed != port.speed:
                problem = f"runs at {speed}, the inventory says {port.speed}; fix: correct it, or delete the port"
            elif not found.data.get("$PORT_UP"):
                problem = "link is down; fix: cable, speed, FEC and auto-negotiation of both ends"
            yield Diagnosis(subject, f"{speed}, up", problem)
