# SPDX-License-Identifier: Apache-2.0
"""The testbed as a lab writes it down: one Tofino switch, its ports, and a lab's machines on them (docs/testbed.md)."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Literal, Self

from narrows.errors import InputError
from narrows.field_types import Model
from narrows.hosts.lab.inventory import CollectorMachine, Lab, Machine, Nic, Ssh
from narrows_formats.validation import refuse
from pydantic import BeforeValidator, Field, PrivateAttr, StrictBool, StrictInt, field_validator, model_validator

from narrows_tofino.bfrt.client import DEFAULT_PORT, Endpoint, Tls
from narrows_tofino.chip.model import CHIPS, PORTS_PER_PIPE, Chip
from narrows_tofino.testbed.calibration import Calibration, calibration_path, load_calibration

SPEED_BPS = {f"{gigabits}G": gigabits * 10**9 for gigabits in (1, 10, 25, 40, 50, 100, 200, 400)}
FEC = {"none": "BF_FEC_TYP_NONE", "fc": "BF_FEC_TYP_FIRECODE", "rs": "BF_FEC_TYP_REED_SOLOMON"}
AUTO_NEGOTIATION = {"default": "PM_AN_DEFAULT", "on": "PM_AN_FORCE_ENABLE", "off": "PM_AN_FORCE_DISABLE"}
# The program that manages queues, as deploy/install-switch.sh installs it.
MANAGED_PROGRAM = "narrows_managed"
# A model and its driver share one machine's processors with everything that is connected to them.
MODEL_PATIENCE = 30
MAX_DEV_PORT = 4 * PORTS_PER_PIPE - 1
DevPort = Annotated[StrictInt, Field(ge=0, le=MAX_DEV_PORT)]
Vlan = Annotated[StrictInt, Field(ge=1, le=4094)]


def _switch_word(value: object) -> object:
    """YAML reads a bare ``on`` and ``off`` as booleans."""
    return {True: "on", False: "off"}.get(value, value) if isinstance(value, bool) else value


class Switch(Model):
    """The switch and how its BF Runtime server is reached.

    The server has neither passwords nor encryption, so it must listen on loopback only: ``address`` is a loopback
    address (Narrows runs on the switch), or ``tunnel`` forwards one over SSH, or ``tls`` names the certificates of a
    TLS proxy in front of it. ``insecure: true`` accepts a bare connection over a network you trust.

    ``model``: it is the SDE's model of a chip, with the driver that a chip has.
    """

    chip: Literal["tofino", "tofino2"]
    address: str = f"127.0.0.1:{DEFAULT_PORT}"
    program: str = "narrows"
    device: Annotated[StrictInt, Field(ge=0, le=7)] = 0
    client: Literal["auto", "sde", "own"] = "auto"
    tls: Tls | None = None
    tunnel: Ssh | None = None
    insecure: StrictBool = False
    shaper_clock_hz: Annotated[float, Field(gt=1e8, lt=1e10)] | None = None
    sde: str | None = None
    keep_ports: StrictBool = True
    model: StrictBool = False
    egress_pool: Literal["EG_APP_POOL_1", "EG_APP_POOL_2"] = "EG_APP_POOL_1"
    ingress_pool: Literal["IG_APP_POOL_1", "IG_APP_POOL_2", "IG_APP_POOL_3"] = "IG_APP_POOL_1"

    @model_validator(mode="after")
    def _protected(self) -> Self:
        host, separator, port = self.address.rpartition(":")
        if not separator or not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise refuse(f"address '{self.address}' is not host:port", f"host:port, such as 127.0.0.1:{DEFAULT_PORT}")
        if self.tls is None and not self.insecure and not is_loopback(host):
            raise refuse(
                f"address '{self.address}' is reached without protection: BF Runtime lets everyone in",
                "a loopback address (with tunnel for a remote switch), tls, or insecure: true on a network you trust",
            )
        return self

    @property
    def generation(self) -> Chip:
        """The chip's properties."""
        return CHIPS[self.chip]

    @property
    def manages_queues(self) -> bool:
        """Whether its program has AQMs."""
        return self.program == MANAGED_PROGRAM

    @property
    def patience(self) -> int:
        """How many times as long as a chip's may answers and links take."""
        return MODEL_PATIENCE if self.model else 1

    @property
    def clock_hz(self) -> float:
        """The clock of the shapers."""
        return self.shaper_clock_hz or self.generation.shaper_clock_hz


class Port(Model):
    """A front-panel port: ``dev_port`` is the chip's number for it (``$PORT_STR_INFO`` has it by name)."""

    name: str
    dev_port: DevPort
    speed: Literal["1G", "10G", "25G", "40G", "50G", "100G", "200G", "400G"]
    fec: Literal["none", "fc", "rs"] = "none"
    auto_negotiation: Annotated[Literal["default", "on", "off"], BeforeValidator(_switch_word)] = "default"

    @property
    def speed_bps(self) -> int:
        """Speed in bit/s, L1."""
        return SPEED_BPS[self.speed]


class Inventory(Lab):
    """One testbed.

    ``loopback`` names ports without a cable, each of which can be the queue of a link whose packets cross another one
    behind it. ``vlans`` are of machines by name: several senders can be at one port, behind an ordinary switch whose
    link to this one is a trunk.
    """

    switch: Switch
    collector: CollectorMachine
    ports: Annotated[tuple[Port, ...], Field(min_length=3)]
    loopback: tuple[str, ...] = ()
    vlans: dict[str, Vlan] = Field(default_factory=dict)
    _calibration: Calibration | None = PrivateAttr(None)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read and check an inventory file, and the calibration beside it where there is one.

        Raises:
            InputError: as `Lab.load`; or likewise of the calibration, or it is of another chip.
        """
        inventory = super().load(path)
        return inventory.calibrated(load_calibration(calibration_path(path), inventory.switch.chip))

    @property
    def calibration(self) -> Calibration | None:
        """What was measured of the switch; None where nothing was."""
        return self._calibration

    @property
    def latency_ns(self) -> int:
        """What reports give as queue delay while nothing waits; 0 where it was not measured."""
        return 0 if self._calibration is None else self._calibration.latency_ns

    def calibrated(self, calibration: Calibration | None) -> Self:
        """The same testbed with what was measured of its switch."""
        other = self.model_copy()
        other._calibration = calibration
        return other

    @field_validator("ports")
    @classmethod
    def _distinct(cls, ports: tuple[Port, ...]) -> tuple[Port, ...]:
        for attribute in ("name", "dev_port"):
            values = [getattr(port, attribute) for port in ports]
            twice = next((value for value in values if values.count(value) > 1), None)
            if twice is not None:
                raise refuse(f"has {attribute} '{twice}' twice", "each port once")
        return ports

    @model_validator(mode="after")
    def _cabled(self) -> Self:
        names = [port.name for port in self.ports]
        for name in self.loopback:
            if name not in names:
                raise refuse(f"loopback: '{name}' is not a port", ", ".join(names))
            if self.loopback.count(name) > 1:
                raise refuse(f"loopback: has port '{name}' twice", "each port once")
        uncabled = self.loopback if self.delay.at != "switch" else (*self.loopback, str(self.delay.port))
        if self.delay.at == "switch" and self.delay.port not in names:
            raise refuse(f"delay: '{self.delay.port}' is not a port", ", ".join(names))
        if len(set(uncabled)) < len(uncabled):
            raise refuse(f"delay: '{self.delay.port}' is among those of loopback", "a port of its own")
        for machine in self.machines:
            if machine.port in uncabled:
                raise refuse(f"{machine.name} is on the loopback port '{machine.port}'", "a port without a machine")
            if machine.port not in names:
                raise refuse(f"{machine.name} is on the unknown port '{machine.port}'", ", ".join(names))
        for port in self.ports:
            if port.speed not in self.switch.generation.speeds:
                allowed = ", ".join(self.switch.generation.speeds)
                raise refuse(f"port {port.name} cannot run at {port.speed} on {self.switch.chip}", allowed)
        return self

    @model_validator(mode="after")
    def _separate(self) -> Self:
        """All hosts have a VLAN or none has: a tag more or less would change the length of a frame on its way."""
        if not self.vlans:
            return self
        hosts = {machine.name: machine for machine in (*self.senders, *self.all_receivers)}
        for name in self.vlans:
            if name not in hosts:
                raise refuse(f"vlans: '{name}' is neither a sender nor a receiver", ", ".join(hosts))
        for name in hosts:
            if name not in self.vlans:
                raise refuse(f"vlans: {name} has none", "one for each sender and receiver, or no vlans")
        places: dict[tuple[str, int], str] = {}
        for name, vlan in self.vlans.items():
            other = places.setdefault((hosts[name].port, vlan), name)
            if other != name:
                raise refuse(
                    f"vlans: {other} and {name} have {vlan} at port '{hosts[name].port}'",
                    "a VLAN for each host of a port",
                )
        return self

    @property
    def base_delay_port(self) -> Port | None:
        """The port that frames go round until their base RTT is over, where the switch makes base RTTs."""
        return next((port for port in self.ports if port.name == self.delay.port and self.delay.at == "switch"), None)

    def in_loopback(self, port: Port) -> bool:
        """Whether frames that leave a port come in again there."""
        return port in self.loopback_ports or port == self.base_delay_port

    @property
    def loopback_ports(self) -> tuple[Port, ...]:
        """The ports that may be loopback ports, in the order of ``loopback``."""
        by_name = {port.name: port for port in self.ports}
        return tuple(by_name[name] for name in self.loopback)

    def port_of(self, machine: Machine) -> Port:
        """The switch port a machine is cabled to."""
        return next(port for port in self.ports if port.name == machine.port)

    def speed_bps(self, machine: Nic) -> int:
        """See `Lab.speed_bps`: as the switch's port is set."""
        assert isinstance(machine, Machine)
        return self.port_of(machine).speed_bps

    def port(self, dev_port: int) -> Port:
        """The port with a chip's number.

        Raises:
            InputError: the inventory has none.
        """
        for port in self.ports:
            if port.dev_port == dev_port:
                return port
        raise InputError(f"inventory: no port has dev_port {dev_port}")

    def endpoint(self, address: str | None = None) -> Endpoint:
        """Where to connect; ``address`` replaces the switch's when a tunnel stands in between."""
        return Endpoint(
            address=address or self.switch.address,
            program=self.switch.program,
            device=self.switch.device,
            tls=self.switch.tls,
            timeout_s=Endpoint.timeout_s * self.switch.patience,
            listed=self.switch.address,
        )


def is_loopback(host: str) -> bool:
    """Whether a host name or address can only mean this machine."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
