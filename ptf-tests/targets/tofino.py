# SPDX-License-Identifier: Apache-2.0
"""Tofino through BF Runtime: a switch on which the program runs already, and the SDE's model, which is started here."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import yaml
from lab import Lab
from narrows_tofino.bfrt.client import Client, Endpoint, Operation
from narrows_tofino.bfrt.connect import connect
from narrows_tofino.bfrt.values import Data
from narrows_tofino.chip.model import TOFINO1
from narrows_tofino.testbed.inventory import FEC, MANAGED_PROGRAM

from targets.base import Parameters, namespace_links
from targets.tofino_model import Model, missing_programs
from targets.tofino_switch import LOOPBACK, PORTS, TofinoSwitch, chip_of, tofino_profile

PROGRAM = "narrows"
# A digest that was sent before the last case ended has arrived by then.
LATE_DIGESTS_S = 0.2
# Channel 0 of one connector of pipe 0 after the other (Tofino 1), every other one (Tofino 2).
MODEL_PORTS = {port: 8 + 4 * number for number, port in enumerate(PORTS)}


def connect_switch(client: Client, parameters: Parameters, late_digests_s: float = LATE_DIGESTS_S) -> TofinoSwitch:
    """A switch with the generation, ports and kind that ``parameters`` say."""
    pairs = (pair.partition(":") for pair in parameters["ports"].split(","))
    ports = {int(port): int(dev_port) for port, _, dev_port in pairs}
    return TofinoSwitch(client, chip_of(parameters["chip"]), ports, parameters["model"] == "yes", late_digests_s)


def port_parameter(ports: Mapping[int, int]) -> str:
    """Ports in the form that `connect_switch` reads."""
    return ",".join(f"{port}:{dev_port}" for port, dev_port in sorted(ports.items()))


class LabFile:
    """A switch and the interfaces at its ports, from a YAML file.

    ``chip``, ``address`` of BF Runtime, ``program`` where it is the one with queue management, and ``ports``: for each
    of 1 to 9 ``dev_port`` and ``interface``; for 10 and 11, which a cable joins (or which are one port in loopback),
    ``dev_port`` alone. A port with ``speed`` (25G) and, as it may be, ``fec`` (none, fc, rs) is added to the switch
    where it is not there.
    """

    def __init__(self, path: Path) -> None:
        """Read the file.

        Raises:
            ValueError: it is not what a testbed is described by.
        """
        try:
            data = yaml.safe_load(path.read_text())
            self.chip = chip_of(str(data["chip"]))
            self.address = str(data["address"])
            self.program = str(data.get("program", PROGRAM))
            self.entries: dict[int, Mapping[str, str | int]] = {port: data["ports"][port] for port in PORTS}
            self.ports = {port: int(entry["dev_port"]) for port, entry in self.entries.items()}
            self.interfaces = {port: str(self.entries[port]["interface"]) for port in PORTS if port not in LOOPBACK}
        except OSError as error:
            raise ValueError(f"{path}: {error.strerror}") from None
        except (yaml.YAMLError, KeyError, TypeError) as error:
            raise ValueError(f"{path}: chip, address and ports 1 to 11 are needed: {error}") from None

    def add_ports(self, client: Client) -> None:
        """Add the ports that are described by a speed and are not there."""
        table = client.schema.table("$PORT")
        for entry in self.entries.values():
            key = {"$DEV_PORT": int(entry["dev_port"])}
            if "speed" in entry and client.find(table, key) is None:
                data: Data = {
                    "$SPEED": f"BF_SPEED_{entry['speed']}",
                    "$FEC": FEC[str(entry.get("fec", "none"))],
                    "$PORT_ENABLE": True,
                }
                client.write(Operation.INSERT, table, key, data)


class Chip:
    """A switch that runs already; there is nothing to end. See `targets.base.Running`."""

    def __init__(self, testbed: LabFile) -> None:
        """Say how it is reached."""
        self.parameters: Parameters = {
            "address": testbed.address,
            "chip": testbed.chip.name,
            "ports": port_parameter(testbed.ports),
            "model": "no",
            "program": testbed.program,
        }

    def alive(self) -> bool:
        """The suite's own session tells."""
        return True

    def stop(self) -> None:
        """Leave it running."""


class TofinoTarget:
    """A real switch with the program on it, described by a testbed file."""

    name = "tofino"
    profile = tofino_profile(TOFINO1, model=False)

    def __init__(self, testbed: Path | None = None) -> None:
        """``testbed``: its file; needed to run."""
        self._path = testbed

    def missing(self) -> str | None:
        """Why this machine cannot run it."""
        return "no testbed is given (--testbed FILE)" if self._path is None else None

    @contextlib.contextmanager
    def links(self) -> Iterator[Lab]:
        """The tester's interfaces as they are.

        Raises:
            RuntimeError: the testbed's file is wrong.
        """
        yield Lab(None, {}, self._testbed().interfaces)

    def _testbed(self) -> LabFile:
        assert self._path is not None
        try:
            return LabFile(self._path)
        except ValueError as error:
            raise RuntimeError(str(error)) from None

    def start(self, namespace: str | None, interfaces: Mapping[int, str], directory: Path, seed: int) -> Chip:
        """Add its ports; the switch runs already.

        Raises:
            RuntimeError: it cannot be reached.
        """
        testbed = self._testbed()
        client = connect(Endpoint(testbed.address, testbed.program))
        try:
            testbed.add_ports(client)
        finally:
            client.close()
        return Chip(testbed)

    def connect(self, parameters: Parameters, compiled: Path) -> TofinoSwitch:
        """Connect to the switch; the program that it runs was loaded by its owner."""
        return connect_switch(connect(Endpoint(parameters["address"], parameters["program"])), parameters)


class TofinoModelTarget:
    """The SDE's model and driver, with the committed program."""

    name = "tofino-model"

    def __init__(self, chip: str = TOFINO1.name, managed: bool = False) -> None:
        """``chip``: the generation to model; ``managed``: with the program that manages queues."""
        self._chip = chip_of(chip)
        self._program = MANAGED_PROGRAM if managed else PROGRAM
        self.profile = tofino_profile(self._chip, model=True, managed=managed)

    def missing(self) -> str | None:
        """Why this machine cannot run it."""
        return missing_programs()

    def links(self) -> AbstractContextManager[Lab]:
        """A namespace in which a cable from the switch to itself is its loopback port."""
        return namespace_links(self.name, self.profile, (LOOPBACK,))

    def start(self, namespace: str | None, interfaces: Mapping[int, str], directory: Path, seed: int) -> Model:
        """Start model and driver.

        Raises:
            RuntimeError: one of them did not come up.
        """
        assert namespace is not None
        by_device = {MODEL_PORTS[port]: interface for port, interface in interfaces.items()}
        model = Model(namespace, self._chip, self._program, by_device, directory)
        model.parameters = {**model.parameters, "ports": port_parameter(MODEL_PORTS), "program": self._program}
        return model

    def connect(self, parameters: Parameters, compiled: Path) -> TofinoSwitch:
        """Connect to the running driver, which waits for its model."""
        endpoint = Endpoint(parameters["address"], parameters["program"], timeout_s=self.profile.patience_s)
        return connect_switch(connect(endpoint), parameters)
