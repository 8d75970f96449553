# SPDX-License-Identifier: Apache-2.0
"""What a fake switch holds behind its server. Tests look at all of it, and change it."""

from __future__ import annotations

import functools
import threading
from types import MappingProxyType
from typing import Any

from narrows_tofino.bfrt.schema import Schema, Table

from fakeswitch.fixed_schema import fixed_schema
from fakeswitch.program_schema import default_actions, program_schema
from fakeswitch.tables import Programs
from fakeswitch.traffic_manager import ALL_PIPES, KINDS, Refused, TrafficManager


@functools.cache
def _made_for(architecture: str, prefix: str) -> tuple[tuple[bytes, bytes], Schema, MappingProxyType[str, str]]:
    """A program's and the driver's documents, what they say, and the program's default actions: read once, not for each
    switch."""
    documents = (program_schema(architecture), fixed_schema(prefix))
    return documents, Schema.parse(*documents), MappingProxyType(default_actions(architecture))


class Device:
    """One chip with our program: traffic manager and ports, mirror sessions, tables, registers and counters."""

    def __init__(self, chip: str, *, asic: bool, pipes: int, managed: bool) -> None:
        self.chip = chip
        self.kind = KINDS[chip]
        self.asic = asic
        # The driver gives a model of Tofino 1 a clock of its own.
        self.meter_hz = 1e9 if chip == "tofino2" else 1.22e9 if asic else 1.271e9
        self.pipes = pipes
        architecture = f"{chip}-managed" if managed else chip
        self.documents, self.schema, self.default_actions = _made_for(architecture, self.kind.prefix)
        self.tables_by_id = {table.id: table for table in self.schema.tables.values()}
        self.lock = threading.RLock()
        self.reset()

    def reset(self) -> None:
        """bf_switchd starts anew: nothing of what was set is left."""
        self.tm = TrafficManager(self.kind, self.pipes, self.asic)
        self.programs = Programs(self.pipes)
        self.mirrors: dict[int, dict[str, Any]] = {}
        self.statistics: dict[int, dict[str, int]] = {}

    def state(self) -> dict[str, Any]:
        """Everything that was set, comparable: settings (not counters), ports, mirror sessions, table entries."""
        with self.lock:
            return {
                "settings": self.tm.changed(),
                "ports": {port: dict(data) for port, data in self.tm.ports.items()},
                "mirrors": {sid: dict(data) for sid, data in self.mirrors.items()},
                "entries": {name: dict(entries) for name, entries in self.programs.entries.items() if entries},
            }  # fmt: skip

    def check_target(self, table: Table, api: str, pipe: int) -> None:
        """Whether a table has an operation for a pipe, or for all.

        Raises:
            Refused: it has not.
        """
        if api not in table.targets:
            raise Refused("UNIMPLEMENTED", "Operation not supported")
        wants = table.targets[api]
        if "pipe_id" not in wants:
            return
        if pipe == ALL_PIPES and "pipe_all" not in wants:
            raise Refused("INVALID_ARGUMENT", "a single pipe is needed Invalid arguments")
        if pipe != ALL_PIPES and pipe >= self.pipes:
            raise Refused("INVALID_ARGUMENT", "no such pipe Invalid arguments")

    def place(self, table: Table, pipe: int) -> int:
        """Tables of the whole device have one place, whatever pipe was asked for."""
        per_pipe = any("pipe_id" in wants for api, wants in table.targets.items() if api != "tableDefaultEntryGet")
        return pipe if per_pipe else ALL_PIPES


def short(table: Table) -> str:
    """Name of a traffic manager's table without its prefix."""
    return table.name.partition(".tm.")[2]
