# SPDX-License-Identifier: Apache-2.0
"""Looks at every piece of a testbed and says how to mend what is wrong. Changes nothing."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from narrows.errors import NarrowsError, RunError
from narrows.hosts.diagnosis import Diagnosis
from narrows.hosts.lab import examination
from narrows.hosts.lab.examination import Link
from narrows.hosts.lab.inventory import Machine
from narrows.targets.soft.softswitch import missing_parts
from narrows_formats.programs import COLLECTOR, SOFTSWITCH, find_binary, missing_binary

from narrows_tofino.bfrt.client import ALL_PIPES, Client
from narrows_tofino.bfrt.errors import SwitchRefused
from narrows_tofino.readings.counters import Counters
from narrows_tofino.readings.links import ANY, likeliest_cause
from narrows_tofino.testbed.inventory import Inventory, Port
from narrows_tofino.testbed.session import SwitchSession
from narrows_tofino.writes.planned import number, text
from narrows_tofino.writes.reader import LiveReader

PROBE_S = 1.0


def examine(inventory: Inventory, ccas: Sequence[str] = ()) -> list[Diagnosis]:
    """Everything a run on this testbed depends on.

    Args:
        inventory: the testbed.
        ccas: congestion controls that senders must have.
    """
    about_switch, added = _switch(inventory)
    with ThreadPoolExecutor(len(inventory.machines)) as pool:
        machines = list(
            pool.map(lambda one: list(examination.machine(inventory, one, _link(one, added), ccas)), inventory.machines)
        )
    found = [finding for group in machines for finding in group]
    found.append(Diagnosis("collector program", COLLECTOR, "" if find_binary(COLLECTOR) else missing_binary(COLLECTOR)))
    if inventory.delay_line is not None:
        found.append(Diagnosis("delay line program", SOFTSWITCH, "; ".join(missing_parts())))
    return [*found, *_exposure(inventory), *about_switch]


def _link(machine: Machine, added: Mapping[str, bool]) -> Link:
    """The cable of a machine. ``added``: whether the switch has a port already; those not in it are not known."""
    down = {
        None: f"it is not known whether the switch has port {machine.port} yet",
        False: f"as long as the switch has no port {machine.port}",
    }.get(added.get(machine.port), "")
    return Link(f"port {machine.port}", down)


def _exposure(inventory: Inventory) -> Iterator[Diagnosis]:
    """Whether anyone on the network can program the switch: with a tunnel, its port must not answer directly."""
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
    """Findings about the switch, and for each port by name whether it has it already; missing ones are not known."""
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
    entry = reader.entry(table := f"{chip.prefix}.tm.cfg", None)
    if entry is None:
        raise RunError(f"{table} has no entry, so that the size of the chip's memory is not known")
    cells = number(entry, "total_cells")
    yield Diagnosis("switch: chip", f"{chip.name}, {cells} cells of {number(entry, 'cell_size_bytes')} B")
    Counters(client, inventory.switch.manages_queues)
    left = len(reader.entries("cross_connect"))
    yield Diagnosis("switch: program", "tables found" + (f", {left} paths of an earlier run" if left else ""))


def _ports(inventory: Inventory, reader: LiveReader, added: dict[str, bool]) -> Iterator[Diagnosis]:
    """Names, speeds and links; ``added`` takes which ports are there."""
    for port in inventory.ports:
        subject = f"switch: port {port.name}"
        dev_port, note = _dev_port(reader, port)
        found = reader.entry("$PORT", {"$DEV_PORT": port.dev_port}, ALL_PIPES)
        added[port.name] = found is not None
        if dev_port is None:
            yield Diagnosis(subject, "", f"the switch has no front-panel port {port.name}; fix: name in the inventory")
        elif dev_port != port.dev_port:
            problem = f"front-panel port {port.name} is dev_port {dev_port}; fix: dev_port or name in the inventory"
            yield Diagnosis(subject, "", problem)
        elif found is None:
            yield Diagnosis(subject, f"not there yet; a run adds it at {port.speed}{note}")
        else:
            speed = text(found, "$SPEED").removeprefix("BF_SPEED_")
            problem = ""
            if speed != port.speed:
                problem = f"runs at {speed}, the inventory says {port.speed}; fix: correct it, or delete the port"
            elif not found.data.get("$PORT_UP"):
                cause = likeliest_cause(found.data)
                problem = f"link is down; {f'likeliest: {cause}' if cause else f'fix: check {ANY}'}"
            yield Diagnosis(subject, f"{speed}, up{note}", problem)


def _dev_port(reader: LiveReader, port: Port) -> tuple[int | None, str]:
    """The chip's number for a front-panel port, None where there is none, and a note where that cannot be known.

    The driver knows the front panel, whether a port was added or not: from the board's platform library.
    """
    try:
        named = reader.entry("$PORT_STR_INFO", {"$PORT_NAME": port.name})
    except SwitchRefused as error:
        if error.codes != {"UNIMPLEMENTED"}:
            raise
        return port.dev_port, "; its name is not checked: bf_switchd has no platform library of the board"
    return None if named is None else number(named, "$DEV_PORT"), ""
