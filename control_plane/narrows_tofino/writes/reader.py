# SPDX-License-Identifier: Apache-2.0
"""What the planner knows of the switch: read from it, or assumed as the driver leaves it after start."""

from __future__ import annotations

from narrows_tofino.bfrt.client import ALL_PIPES, Client
from narrows_tofino.bfrt.values import Data, Entry, Key
from narrows_tofino.chip.model import PORTS_PER_PIPE, TOFINO1, Chip

# Queues and ports of a port group in the default map.
_GROUPS = {"tf1": (4, 8), "tf2": (8, 16)}
_DEFAULTS: dict[str, dict[str, Data]] = {
    "tf1": {
        "tm.port.dpg": {
            "icos_0": True,
            "guaranteed_cells": 40,
            "hysteresis_cells": 0,
            "pool_id": "IG_APP_POOL_0",
            "pool_max_cells": 305,
            "dynamic_baf": "80%",
        },
        "tm.mirror.dpg": {
            "guaranteed_cells": 40,
            "hysteresis_cells": 0,
            "pool_id": "IG_APP_POOL_0",
            "pool_max_cells": 160,
            "dynamic_baf": "DISABLE",
        },
        "tm.queue.buffer": {"guaranteed_cells": 20},
    },
    "tf2": {
        "tm.port.dpg": {
            "icos_0": True,
            "guaranteed_cells": 72,
            "hysteresis_cells": 0,
            "pool_id": "IG_APP_POOL_0",
            "pool_max_cells": 1103,
            "dynamic_baf": "80%",
        },
        "tm.mirror.dpg": {
            "guaranteed_cells": 72,
            "hysteresis_cells": 0,
            "pool_id": "IG_APP_POOL_0",
            "pool_max_cells": 1103,
            "dynamic_baf": "80%",
        },
        "tm.queue.buffer": {"guaranteed_cells": 36},
    },
}
_TOFINO2_INGRESS_CAP_CELLS = 256_000


class LiveReader:
    """Reads the switch. See `Reader`."""

    def __init__(self, client: Client) -> None:
        """Take a connected client."""
        self._client = client

    def entry(self, table: str, key: Key | None, pipe: int = ALL_PIPES) -> Entry | None:
        """See `Reader.entry`."""
        spec = self._client.schema.table(table)
        if key is None:
            return self._client.read_default(spec, pipe=pipe)
        return self._client.find(spec, key, pipe=pipe)

    def entries(self, table: str) -> list[Entry]:
        """See `Reader.entries`."""
        return self._client.read_all(self._client.schema.table(table))


class AssumedReader:
    """A switch as it is after bf_switchd has started: no ports, no entries, the driver's default limits.

    For dry runs and for refusals before anything is connected to. See `Reader`.
    """

    def __init__(self, chip: Chip, total_cells: int | None = None) -> None:
        """``total_cells`` where it is known; otherwise the size of the smaller parts of the generation."""
        self._chip = chip
        self._total_cells = total_cells or chip.default_cells

    def entry(self, table: str, key: Key | None, pipe: int = ALL_PIPES) -> Entry | None:
        """See `Reader.entry`."""
        name = table.removeprefix(f"{self._chip.prefix}.")
        if name in ("$PORT", "$mirror.cfg"):
            return None
        data = self._data(name, key)
        return Entry(key={} if key is None else key, data=data, is_default=key is None)

    def entries(self, table: str) -> list[Entry]:
        """See `Reader.entries`."""
        return []

    def _data(self, name: str, key: Key | None) -> Data:
        match name:
            case "tm.cfg":
                return self._configuration()
            case "tm.port.cfg":
                return self._port(_number(key, "dev_port"))
            case "tm.port.buffer" | "tm.pipe.cfg":
                return {"ig_limit_cells": self._total_cells, "eg_limit_cells": self._total_cells}
            case "tm.port.flowcontrol":
                return {"mode_tx": "NONE"}
            case "tm.queue.sched_cfg":
                # A port's queues are below one node of the port's own number.
                _, queues = _GROUPS[self._chip.prefix]
                return {"pg_l1_node": _number(key, "pg_queue") // queues}
            case "tm.l1_node.sched_cfg":
                return {"min_rate_enable": False, "max_rate_enable": False}
            case _:
                return _DEFAULTS[self._chip.prefix][name]

    def _configuration(self) -> Data:
        common: Data = {"cell_size_bytes": self._chip.cell_bytes, "total_cells": self._total_cells}
        if self._chip is TOFINO1:
            return common
        return {**common, "ig_buffer_limit_cells": _TOFINO2_INGRESS_CAP_CELLS, "ig_buffer_limit_enable": True}

    def _port(self, dev_port: int) -> Data:
        ports, queues = _GROUPS[self._chip.prefix]
        group, number = divmod(dev_port % PORTS_PER_PIPE, ports)
        return {
            "pg_id": group,
            "pg_port_nr": number,
            "port_queues_count": queues,
            "egress_qid_queues": [number * queues + queue % queues for queue in range(ports * queues)],
        }


def _number(key: Key | None, field: str) -> int:
    value = None if key is None else key.get(field)
    if not isinstance(value, int):
        raise KeyError(field)
    return value
