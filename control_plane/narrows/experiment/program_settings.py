# SPDX-License-Identifier: Apache-2.0
"""A user's own P4 program, as an experiment file names it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Annotated, Self

from narrows_formats.validation import refuse
from pydantic import BeforeValidator, Field, StrictInt, StrictStr, model_validator

from narrows.experiment.p4_compiler import COMPILER
from narrows.experiment.plan import DEFAULT_CPU_PORT, MAX_PORT, WatchedCell
from narrows.field_types import Model, Size

# Queues of a port in v1model, and the least that the softswitch's may send in their turns, in bytes.
PRIORITIES, MIN_QUANTUM = 8, 64
_CELL = re.compile(r"(?P<register>[^\[\]\s]+)\[(?P<index>\d+)\]\Z")
_FIELD = re.compile(r"[^\[\]\s.]+(?:\.[^\[\]\s.]+)+\Z")
_MAC = re.compile(r"(?:[0-9a-f]{2}:){5}[0-9a-f]{2}\Z")
# Of an Ethernet address: one of a group, not of a host.
_MULTICAST = 1


def _read_mac(value: object) -> object:
    text = str(value).lower()
    if not _MAC.match(text) or int(text[:2], 16) & _MULTICAST:
        raise refuse("is not a host's Ethernet address", "six pairs of hexadecimal digits, such as 08:00:00:00:01:11")
    return text


def _read_ip(value: object) -> object:
    for kind in (IPv4Address, IPv6Address):
        try:
            return str(kind(str(value)))
        except ValueError:
            continue
    raise refuse("is not an IP address", "one such as 10.0.1.1 or 2001:db8::1")


class HostPlace(Model):
    """The port of the program that a host is at, and the addresses that entries know it by."""

    port: Annotated[StrictInt, Field(ge=0, le=MAX_PORT)] = Field(description="Port of the switch.")
    ip: Annotated[str, BeforeValidator(_read_ip)] | None = Field(
        default=None, description="Address of the host; of all hosts that reach each other or of none."
    )
    mac: Annotated[str, BeforeValidator(_read_mac)] | None = Field(
        default=None, description="Ethernet address of the host."
    )


def _read_watched(value: object) -> object:
    if not isinstance(value, str) or not (_CELL.match(value) or _FIELD.match(value)):
        raise refuse(
            "is neither a cell of a register nor a field of metadata",
            "REGISTER[INDEX], such as my_register[0], or HEADER.FIELD, such as scalars.metadata_t.x",
        )
    return value


def read_watched(names: Sequence[str]) -> tuple[tuple[WatchedCell, ...], tuple[str, ...]]:
    """The cells (`my_register[0]`) and the fields (`scalars.metadata_t.x`) among names that were checked before."""
    cells = (found for name in names if (found := _CELL.match(name)) is not None)
    fields = tuple(name for name in names if _FIELD.match(name))
    return tuple(WatchedCell(found["register"], int(found["index"])) for found in cells), fields


def _read_place(value: object) -> object:
    return {"port": value} if type(value) is int else value


class ProgramSettings(Model):
    """A P4 program for v1model, compiled by p4c."""

    p4: str | None = Field(
        default=None,
        description=f"Source of the program, which `{COMPILER}` compiles if it is on PATH; in place of `json` and "
        "`p4info`.",
    )
    compiled: str | None = Field(
        default=None, alias="json", description="The compiled program, which p4c writes with `-o`."
    )
    p4info: str | None = Field(
        default=None, description="Its P4Info as text, which p4c writes with `--p4runtime-files`."
    )
    entries: str | None = Field(
        default=None,
        description="Its table entries, clone sessions and multicast groups: a `.json` file in the form of the P4 "
        "tutorials (`sX-runtime.json`), or P4Runtime's `WriteRequest` as text protobuf.",
    )
    ports: dict[str, Annotated[HostPlace, BeforeValidator(_read_place)]] = Field(
        default_factory=dict,
        description="Ports of the switch by the names of the hosts that are at them: a number, or a mapping with "
        "`port`, `ip` and `mac`; and of links of other programs, before or behind its own on a path. Others are at the "
        "next free ports.",
    )
    watch: tuple[Annotated[str, BeforeValidator(_read_watched)], ...] = Field(
        default=(),
        description="Cells of its registers (`my_register[0]`) that are read as often as `telemetry.sockets` says: "
        "`registers` of a loaded run has them over time. And fields of its metadata (`scalars.metadata_t.x`), which "
        "the reports have as columns: what they have when a packet leaves egress.",
    )

    controller: tuple[StrictStr, ...] = Field(
        default=(),
        description="The program's controller: a command that runs next to the experiment as an ordinary user, without "
        "a shell. `P4RUNTIME_ADDRESS` in its environment is where it becomes the primary client of the switch.",
    )
    cwd: StrictStr | None = Field(
        default=None,
        description="With `controller`: its working directory, relative to this file. Without it, that of this file.",
    )
    cpu_port: Annotated[StrictInt, Field(ge=0, le=MAX_PORT)] = Field(
        default=DEFAULT_CPU_PORT,
        description="With `controller`: the port by which the program sends packets to it and gets packets from it "
        "(P4Runtime's packet-in and packet-out).",
    )
    quanta: tuple[Size, ...] = Field(
        default=(),
        max_length=PRIORITIES,
        description="Deficit round robin between the queues of a port, in place of strict priority: what each may send "
        "in its turn, from priority 0 up; the last one is also that of the priorities above. 64 bytes or more.",
    )

    @model_validator(mode="after")
    def _turns_are_long_enough(self) -> Self:
        if any(quantum < MIN_QUANTUM for quantum in self.quanta):
            raise refuse("has a quantum that is too small", f"{MIN_QUANTUM} bytes or more")
        return self

    @model_validator(mode="after")
    def _one_program(self) -> Self:
        if self.compiled is None or self.p4info is None:
            raise refuse("names no whole program", "json and p4info, or p4")
        return self

    @model_validator(mode="after")
    def _places_differ(self) -> Self:
        for what in ("port", "ip", "mac"):
            given = [getattr(place, what) for place in self.ports.values()]
            twice = next((value for value in given if value is not None and given.count(value) > 1), None)
            if twice is not None:
                raise refuse(f"has two hosts with {what} {twice}", "one for each host")
        return self


@dataclass(frozen=True)
class NamedProgram:
    """A user's program: where an experiment has it first, what it says, and the links that are ports of it."""

    field: str
    settings: ProgramSettings
    links: tuple[str, ...]
