# SPDX-License-Identifier: Apache-2.0
"""What an inventory says of a lab's machines, whatever the switch between them is (docs/testbed.md)."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Interface, IPv6Interface
from pathlib import Path
from typing import Annotated, Literal, Self

from narrows_formats.validation import fields_at, refuse
from pydantic import BeforeValidator, Field, StrictBool, StrictInt, field_validator, model_validator

from narrows.experiment.loader import check, read_mapping
from narrows.experiment.plan import Plan
from narrows.field_types import Model, Name
from narrows.hosts.base import SWITCH

DELAY_LINE = "delay-line"
_MAC = re.compile(r"(?:[0-9a-f]{2}:){5}[0-9a-f]{2}\Z")


def _mac(value: object) -> str:
    text = str(value).lower()
    if _MAC.match(text) is None:
        raise refuse("is not a MAC address", "six pairs of hexadecimal digits, such as 02:00:00:00:00:01")
    return text


Mac = Annotated[str, BeforeValidator(_mac)]


class Ssh(Model):
    """How to reach a machine: what ``ssh`` takes, and what is left out by its own configuration.

    Keys come from the agent or ``identity``; passwords are not asked.
    """

    host: str
    user: str | None = None
    port: Annotated[StrictInt, Field(ge=1, le=65535)] | None = None
    identity: Path | None = None
    known_hosts: Path | None = None
    jump: str | None = None
    sudo: StrictBool = True

    @field_validator("host", "user", "jump")
    @classmethod
    def _no_option(cls, word: str | None) -> str | None:
        if word is not None and (word.startswith("-") or not word.strip()):
            raise refuse("would be an option of ssh", "a name or an address")
        return word


class Nic(Model):
    """A network interface of a machine that is reached by ``ssh``; without, of this one. ``name`` is for people."""

    name: str
    ssh: Ssh | None = None
    interface: str


class Machine(Nic):
    """A server, its NIC that faces the switch, and the switch port that NIC is cabled to."""

    name: Name
    port: str
    mac: Mac
    address: IPv4Interface | None = None
    address6: IPv6Interface | None = None


class CollectorMachine(Machine):
    """Where reports arrive: ``rings`` that its NIC's frames are dealt to, and the reports a second that it holds so.

    Each ring has a thread; ``benchmarks/run.py collecting`` measures what a machine holds. None: not measured.
    """

    rings: Annotated[StrictInt, Field(ge=1, le=32)] = 1
    reports_s: Annotated[StrictInt, Field(ge=1000)] | None = None


class Delay(Model):
    """Where the base RTT is made, by a delay on what the receiver sends back.

    ``receiver``: netem on each machine that sends to a host with a delay, which receivers do; it holds up to
    ``limit_packets``. ``line``, for one link: the switch sends it by way of
    the machine that Narrows runs on, whose NIC ``interface`` with the address ``mac`` is cabled to the switch's
    ``port``. ``switch``: frames go round the switch's ``port``, which has no cable. ``none``: the cables' own RTT is
    enough.
    """

    at: Literal["receiver", "line", "switch", "none"] = "receiver"
    limit_packets: Annotated[StrictInt, Field(ge=1000)] = 1_000_000
    port: str | None = None
    interface: str | None = None
    mac: Mac | None = None

    @model_validator(mode="after")
    def _line(self) -> Self:
        given = [self.port, self.interface, self.mac]
        if self.at == "line" and None in given:
            raise refuse("at: line lacks its place", "port, interface and mac of the delay line's NIC")
        if self.at == "switch" and self.port is None:
            raise refuse("at: switch lacks its place", "port, one without a cable")
        if self.at == "switch" and (self.interface is not None or self.mac is not None):
            raise refuse("at: switch has no NIC", "port alone")
        if self.at in ("receiver", "none") and given != [None] * 3:
            raise refuse(f"at: {self.at} has no NIC", "port, interface and mac with at: line")
        return self


class Lab(Model, ABC):
    """The machines of one testbed; its switch is a target's to add.

    It has one ``receiver``, or ``receivers`` for experiments whose flows end at several hosts. A target whose switch
    can collect its reports itself needs no ``collector``.
    """

    senders: Annotated[tuple[Machine, ...], Field(min_length=1)]
    receiver: Machine | None = None
    receivers: tuple[Machine, ...] = ()
    collector: CollectorMachine | None = None
    delay: Delay = Delay()

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read and check an inventory file.

        Raises:
            InputError: it cannot be read or is not valid; the message names file, field and what is allowed.
        """
        what = f"an inventory; allowed: a mapping with {', '.join(fields_at(cls, ()))}"
        return check(cls, read_mapping(path, what), str(path))

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.receiver is None) == (not self.receivers):
            problem = "has neither receiver nor receivers" if self.receiver is None else "has receiver and receivers"
            raise refuse(problem, "receiver with one machine, or receivers with a list of them")
        for attribute in ("name", "mac"):
            values = [getattr(machine, attribute) for machine in self.machines]
            twice = next((value for value in values if values.count(value) > 1), None)
            if twice is not None:
                raise refuse(f"two machines have the {attribute} '{twice}'", f"one {attribute} a machine")
        for attribute in ("address", "address6"):
            _refuse_unreachable(self.machines, attribute)
        for machine in self.machines:
            for receiver in self.all_receivers:
                if machine is not receiver and machine.port == receiver.port:
                    whose = "the receiver's" if self.receivers == () else f"{receiver.name}'s"
                    raise refuse(f"{machine.name} shares {whose} port '{machine.port}'", "a port of its own")
            if machine != self.collecting and machine.port == self.collecting.port:
                raise refuse(f"{machine.name} shares the collector's port '{machine.port}'", "a port of its own")
        if self.delay.port in [sender.port for sender in self.senders]:
            raise refuse(f"the delay line shares a sender's port '{self.delay.port}'", "a port of its own")
        if self.collector is not None and self.collector.ssh is not None:
            raise refuse(f"{self.collector.name}: reports are collected where Narrows runs", "a collector without ssh")
        return self

    @property
    def machines(self) -> tuple[Machine, ...]:
        """Senders, receivers, collector, and the delay line's NIC where there is one."""
        line = self.delay_line
        return (*self.senders, *self.all_receivers, self.collecting, *(() if line is None else (line,)))

    @property
    def collecting(self) -> CollectorMachine:
        """Where reports are collected."""
        if self.collector is None:
            raise refuse("has no collector", "collector, the machine that takes the reports")
        return self.collector

    def switch_nics(self, plan: Plan) -> Mapping[str, Nic]:
        """NICs that a software switch has in a bound plan; the machine of the first, `SWITCH`, is where it runs."""
        line = self.delay_line
        return {} if line is None else {SWITCH: line}

    def nic_settings(self, host: str) -> Mapping[str, str]:
        """What host.sh is to set on a NIC that is not an end host's, beside its MTU, and what it is to read back as."""
        return {}

    def needs(self, host: str) -> tuple[str, ...]:
        """What host.sh is to look for on the machine of a NIC that is not an end host's."""
        return ()

    @property
    def all_receivers(self) -> tuple[Machine, ...]:
        """The receivers, also where there is one only."""
        return self.receivers if self.receiver is None else (self.receiver,)

    @property
    def delay_line(self) -> Machine | None:
        """This machine as the delay line, with the NIC that it has for that."""
        delay = self.delay
        if delay.port is None or delay.interface is None or delay.mac is None:
            return None
        return Machine(name=DELAY_LINE, port=delay.port, interface=delay.interface, mac=delay.mac)

    @abstractmethod
    def speed_bps(self, machine: Nic) -> int:
        """Speed of the link between a machine and the switch in bit/s, L1."""


def _refuse_unreachable(machines: Sequence[Machine], attribute: str) -> None:
    """Refuse addresses by which machines do not reach each other: no router is between them."""
    seen: list[tuple[str, IPv4Interface | IPv6Interface]] = []
    for machine in machines:
        address: IPv4Interface | IPv6Interface | None = getattr(machine, attribute)
        if address is None:
            continue
        for name, other in seen:
            if address.ip == other.ip:
                raise refuse(f"two machines have the {attribute} '{address.ip}'", f"one {attribute} a machine")
            if address.ip not in other.network or other.ip not in address.network:
                raise refuse(
                    f"{machine.name}'s {attribute} {address} is not of the network of {name}'s, {other}",
                    "addresses of one network, each with its prefix length",
                )
        seen.append((machine.name, address))
