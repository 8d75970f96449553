# SPDX-License-Identifier: Apache-2.0
"""Behaviour of the traffic manager and the ports behind the fixed tables, with all the traps that are known."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fakeswitch.shaper import Arithmetic, Whole

# What the SDE's model answers for a register that it does not have.
UNMODELLED = 0x0BADD3FF

ALL_PIPES = 0xFFFF
BAF = {"1.5%": 0.015, "3%": 0.03, "6%": 0.06, "11%": 0.11, "20%": 0.2, "33%": 0.33, "50%": 0.5, "66%": 0.66,
       "80%": 0.8, "DISABLE": 0.0}  # fmt: skip
PROFILES = 32
# The driver keeps a weight as it is; a chip may have fewer bits for it.
WEIGHTS = 0xFFFF
# What adding a port sets, apart from its queues.
OF_ADDED_PORTS = ("port.sched_shaping", "port.sched_cfg", "port.flowcontrol")
LANES = {"1G": 1, "10G": 1, "25G": 1, "40G": 4, "50G": 2, "100G": 4}
# Cells of a frame that a port of a speed may send while the rest still comes, in cut-through.
CUT_THROUGH = {"1G": 4, "10G": 4, "25G": 4, "40G": 8, "50G": 8, "100G": 15, "200G": 127, "400G": 127}
IN_MEMORY_BYTES = 18
# Of 32 nodes of a port group each of its 8 ports has every eighth here; the driver gives a port the first of its own.
L1_NODES_APART = 8


class Refused(Exception):
    """An error of the driver: name of a google.rpc code and a text."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def front_panel(port: int) -> str:
    """Name of a port: pipe 1 has the first cages, as in the switches that are sold; eight lanes a cage."""
    first = {1: 1, 2: 16, 0: 32, 3: 48}[port // 128]
    return f"{first + port % 128 // 8}/{port % 8}"


@dataclass(frozen=True)
class Kind:
    """What a generation has."""

    prefix: str
    cell: int
    total: int
    ports_per_group: int
    queues_per_port: int
    groups: int
    guaranteed: int
    dpg: tuple[int, int]
    ingress_pool: int
    egress_pool: int
    mirror_static: int | None
    shaper: Arithmetic
    lanes: dict[str, int]


KINDS = {
    "tofino": Kind("tf1", 80, 280 * 1024, 4, 8, 18, 20, (40, 305), 89_260, 33_869, 160,
                   Arithmetic(1_220_000_000, 1023, True, 4), LANES),
    "tofino2": Kind("tf2", 176, 384 * 1024, 8, 16, 9, 36, (72, 1103), 80_579, 50_195, None,
                    Arithmetic(1_000_000_000, 4095, False, 8), {**LANES, "200G": 4, "400G": 8}),
}  # fmt: skip


@dataclass
class TrafficManager:
    """Settings, memory and counters. ``asic``: shapers read back what the hardware has, not what was asked for."""

    kind: Kind
    pipes: int = 4
    asic: bool = True
    links: bool = True
    ports: dict[int, dict[str, Any]] = field(default_factory=dict)
    settings: dict[tuple[str, tuple[Any, ...], int], dict[str, Any]] = field(default_factory=dict)
    counters: dict[tuple[Any, ...], int] = field(default_factory=lambda: defaultdict(int))
    # By port, of the speed that it had last: deleting a port leaves it.
    cut_through: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    unmapped: set[tuple[int, int, int]] = field(default_factory=set)
    profiles: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    waiting: dict[tuple[int, int], deque[tuple[int, tuple[tuple[Any, ...], ...]]]] = field(
        default_factory=lambda: defaultdict(deque)
    )
    used: dict[tuple[Any, ...], int] = field(default_factory=lambda: defaultdict(int))
    # What no document says of a chip: bytes that a shaper counts beside the frame, cells that a queue goes beyond its
    # limit, time that an empty queue takes, and counters of the input's pipe that move when a queue drops.
    shaper_bytes: int = 0
    overshoot_cells: int = 0
    latency_ns: int = 0
    moving: tuple[str, ...] = ()

    # Ports

    def add_port(self, port: int, data: dict[str, Any]) -> None:
        if port in self.ports:
            # The driver takes it for a change of what is there.
            self.modify_port(port, data)
            return
        if port >= self.pipes * 128 or port % 128 >= 72:
            raise Refused("INVALID_ARGUMENT", "Table Add failed Invalid arguments")
        if "$SPEED" not in data or "$FEC" not in data:
            raise Refused("INVALID_ARGUMENT", "Table Add failed Invalid arguments")
        speed = str(data["$SPEED"]).removeprefix("BF_SPEED_")
        if speed not in self.kind.lanes:
            raise Refused("INVALID_ARGUMENT", "Table Add failed Invalid arguments")
        self.ports[port] = {
            "$N_LANES": self.kind.lanes[speed], "$PORT_ENABLE": False, "$AUTO_NEGOTIATION": "PM_AN_DEFAULT",
            "$LOOPBACK_MODE": "BF_LPBK_NONE", "$TX_MTU": 10240, "$RX_MTU": 10240, "$TX_PFC_EN_MAP": 0,
            "$RX_PFC_EN_MAP": 0, "$TX_PAUSE_FRAME_EN": False, "$RX_PAUSE_FRAME_EN": False, "$CUT_THROUGH_EN": False,
            "$PORT_DIR": "PM_PORT_DIR_DEFAULT", "$RX_PRSR_PRI_THRESH": 0, "$PLL_OVRCLK": 0.0,
            "$TIMESTAMP_1588_DELTA_TX": 0,
            **dict.fromkeys(("$SDS_TX_ATTN", "$SDS_TX_PRE", "$SDS_TX_PRE2", "$SDS_TX_POST", "$SDS_TX_POST2"), 0),
            **({"$TIMESTAMP_1588_DELTA_RX": 0} if self.kind.prefix == "tf1" else {}), **data,
        }  # fmt: skip
        self._reset_port(port)

    def modify_port(self, port: int, data: dict[str, Any]) -> None:
        if port not in self.ports:
            return
        before = self.ports[port]["$SPEED"]
        self.ports[port].update(data)
        if self.ports[port]["$SPEED"] != before:
            self._reset_port(port)

    def delete_port(self, port: int) -> None:
        if port not in self.ports:
            return
        for queue in range(self.kind.queues_per_port):
            self._queue("queue.buffer", port, queue)["guaranteed_cells"] = 0
        del self.ports[port]

    def port(self, port: int) -> dict[str, Any]:
        if port not in self.ports:
            raise Refused("NOT_FOUND", "Object not found")
        data = dict(self.ports[port])
        # Without a platform's library the driver numbers connectors itself.
        local, connector = port % 128, port // 128 * 16 + port % 128 // 4 + 1
        name = front_panel(port) if self.asic else f"{connector}/{local % 4}"
        data.update({"$IS_VALID": True, "$IS_INTERNAL": False, "$CONN_ID": connector, "$CHNL_ID": local % 4,
                     "$PORT_UP": bool(self.links and data["$PORT_ENABLE"]), "$PORT_NAME": name,
                     "$MEDIA_TYPE": "BF_MEDIA_TYPE_UNKNOWN", "$TIMESTAMP_1588_VALID": False,
                     "$TIMESTAMP_1588_VALUE": 0, "$TIMESTAMP_1588_ID": 0})  # fmt: skip
        return data

    def speed_bps(self, port: int) -> int:
        return int(str(self.ports[port]["$SPEED"]).removeprefix("BF_SPEED_").removesuffix("G")) * 10**9

    def _reset_port(self, port: int) -> None:
        """What adding a port, or changing its speed, does to everything that was set before."""
        kbps = self.speed_bps(port) // 1000
        for queue in range(self.kind.queues_per_port):
            self._queue("queue.buffer", port, queue)["guaranteed_cells"] = self.kind.guaranteed
            shaping = self._queue("queue.sched_shaping", port, queue)
            shaping.update({"max_rate": kbps, "min_rate": 0})
        self._at("port.sched_shaping", (port,)).update({"max_rate": kbps, "max_burst_size": 9216})
        self._at("port.flowcontrol", (port,)).update({"mode_tx": "NONE", "mode_rx": "NONE"})
        self._at("port.sched_cfg", (port,))["scheduling_speed"] = self.ports[port]["$SPEED"]
        self.cut_through[port] = CUT_THROUGH[self.ports[port]["$SPEED"].removeprefix("BF_SPEED_")]
        self._at("port.buffer", (port,))["uc_ct_limit_cells"] = self.cut_through[port]

    # Settings

    def group(self, port: int) -> tuple[int, int, int]:
        """Pipe, port group and first queue of a port."""
        group, number = divmod(port % 128, self.kind.ports_per_group)
        return port // 128, group, number * self.kind.queues_per_port

    def _queue(self, table: str, port: int, queue: int) -> dict[str, Any]:
        pipe, group, first = self.group(port)
        return self._at(table, (group, first + queue), pipe)

    def _port_of(self, group: int, queue: int, pipe: int) -> int:
        limit = self.kind.ports_per_group * self.kind.queues_per_port
        if group >= self.kind.groups or queue >= limit:
            raise Refused("INVALID_ARGUMENT", "Invalid arguments")
        port = pipe * 128 + group * self.kind.ports_per_group + queue // self.kind.queues_per_port
        if (group, queue, pipe) in self.unmapped:
            raise Refused("UNAVAILABLE", "Not ready")
        return port

    def _at(self, table: str, key: tuple[Any, ...], pipe: int = ALL_PIPES) -> dict[str, Any]:
        place = (table, key, pipe)
        if place not in self.settings:
            self.settings[place] = self._default(table, key)
        return self.settings[place]

    def _default(self, table: str, key: tuple[Any, ...]) -> dict[str, Any]:
        kind = self.kind
        more: dict[str, Any]
        dpg: dict[str, Any] = {
               "icos_ppg_map": [0] * 8, **{f"icos_{n}": True for n in range(8)}, "guaranteed_cells": kind.dpg[0],
               "hysteresis_cells": 0, "pool_id": "IG_APP_POOL_0", "pool_max_cells": kind.dpg[1],
               "dynamic_baf": "80%"}  # fmt: skip
        match table:
            case "cfg":
                cap: dict[str, Any] = {"ig_buffer_limit_cells": 256_000, "ig_buffer_limit_enable": True}
                more = cap if kind.prefix == "tf2" else {}
                return {"timestamp_shift_bits": 0, "cell_size_bytes": kind.cell, "total_cells": kind.total, **more}
            case "pool.cfg":
                sizes = {"EG_APP_POOL_0": kind.egress_pool, "IG_APP_POOL_0": kind.ingress_pool,
                         "EG_APP_POOL_3": 12_288, "IG_EG_NEGATIVE_MIRROR_POOL": 1460}  # fmt: skip
                return {"size_cells": sizes.get(key[0], 0)}
            case "queue.buffer":
                return {"action": "shared_pool", "guaranteed_cells": 0, "hysteresis_cells": 32,
                        "tail_drop_enable": True, "pool_id": "EG_APP_POOL_0",
                        "pool_max_cells": 13, "dynamic_baf": "80%"}  # fmt: skip
            case "queue.sched_shaping":
                return {"unit": "BPS", "provisioning": "UPPER", "min_rate": 0, "min_burst_size": 16384,
                        "max_rate": 0, "max_burst_size": 16384}  # fmt: skip
            case "queue.sched_cfg":
                more = {
                    "advanced_flow_control": "CREDIT",
                    "scheduling_speed": "BF_SPEED_100G",
                    "pg_l1_node": key[1] // kind.queues_per_port,
                }
                return {"min_rate_enable": False, "min_priority": "LOW", "max_rate_enable": False,
                        "max_priority": "LOW",
                        "dwrr_weight": 1023, "scheduling_enable": True,
                        **(more if kind.prefix == "tf2" else {})}  # fmt: skip
            case "l1_node.sched_cfg":
                return {"action": "in_use", "min_rate_enable": False, "min_priority": "LOW", "max_rate_enable": False,
                        "max_priority": "LOW", "dwrr_weight": 0, "priority_propagation": False, "queues_count": 0,
                        "pg_queues": [], "scheduling_enable": True, "dev_port": key[1]}  # fmt: skip
            case "port.sched_cfg":
                speed = self.ports[key[0]]["$SPEED"] if key[0] in self.ports else "BF_SPEED_10G"
                return {"max_rate_enable": False, "scheduling_speed": speed}
            case "port.sched_shaping":
                return {"unit": "BPS", "provisioning": "UPPER", "max_rate": 0, "max_burst_size": 9216}
            case "port.buffer":
                return {"ct_enable": False, "uc_ct_limit_cells": self.cut_through[key[0]],
                        "ig_limit_cells": kind.total,
                        "eg_limit_cells": kind.total, "eg_hysteresis_cells": 32, "skid_limit_cells": 0,
                        **({} if kind.prefix == "tf2" else {"ig_hysteresis_cells": 32})}  # fmt: skip
            case "port.flowcontrol":
                mode = "NONE" if key[0] in self.ports else "PFC"
                return {"mode_tx": mode, "mode_rx": mode, "cos_to_icos": list(range(8))}
            case "port.dpg":
                return dpg
            case "mirror.dpg":
                static = {"pool_max_cells": kind.mirror_static, "dynamic_baf": "DISABLE"}
                return {**dpg, **(static if kind.mirror_static is not None else {})}
            case "pipe.cfg":
                more = {"mirror_drop_enable": True, "queue_depth_report_mode": "COLOR"} if kind.prefix == "tf2" else {}
                return {"mirror_drop_pg_id": 0, "mirror_drop_pg_queue": 0, "mirror_drop_dev_port": 0,
                        "mirror_drop_queue_nr": 0, "eg_limit_cells": kind.total, "eg_hysteresis_cells": 0,
                        **more}  # fmt: skip
            case "pipe.sched_cfg":
                more = {"advanced_flow_control_enable": False} if kind.prefix == "tf2" else {}
                return {"packet_ifg_compensation": 20, **more}
        raise Refused("UNIMPLEMENTED", f"{table} Object not implemented")

    def changed(self) -> dict[tuple[str, tuple[Any, ...], int], dict[str, Any]]:
        """Settings that are not the driver's defaults; what adding a port sets only while the port exists."""
        found = {}
        for (table, key, pipe), data in self.settings.items():
            if table.startswith("queue."):
                port = pipe * 128 + key[0] * self.kind.ports_per_group + key[1] // self.kind.queues_per_port
            else:
                port = key[0] if table in OF_ADDED_PORTS else None
            if data != self._default(table, key) and (port is None or port in self.ports):
                found[table, key, pipe] = dict(data)
        return found

    def check(self, table: str, key: tuple[Any, ...], pipe: int) -> None:
        """Whether an entry exists at all."""
        if table.startswith(("queue.", "counter.queue")):
            self._port_of(key[0], key[1], pipe)
        elif table.startswith(("port.", "counter.ig_port", "counter.eg_port", "counter.dpg")) and (
            key[0] >= self.pipes * 128 or key[0] % 128 >= 72
        ):
            raise Refused("INVALID_ARGUMENT", "Invalid arguments")

    def read(self, table: str, key: tuple[Any, ...], pipe: int) -> dict[str, Any]:
        self.check(table, key, pipe)
        if table == "port.cfg":
            _, group, first = self.group(key[0])
            count = self.kind.queues_per_port
            return {"pg_id": group, "pg_port_nr": first // count, "port_queues_count": count,
                    "ingress_qid_map": [n % count for n in range(count * self.kind.ports_per_group)],
                    "egress_qid_queues": [first + n % count for n in range(count * self.kind.ports_per_group)],
                    "copy_to_cpu": False,
                    "mirror_drop_destination": False, "mirror_drop_pg_queue": 0,
                    "pkt_extraction_credits": 0}  # fmt: skip
        if table.startswith("counter."):
            found = self._read_counter(table.removeprefix("counter."), key, pipe)
            return found if self.asic else dict.fromkeys(found, UNMODELLED)
        data = dict(self._at(table, key, pipe))
        if self.asic and table in ("queue.sched_shaping", "port.sched_shaping"):
            data["max_rate"] = self._read_back(data["max_rate"], data["max_burst_size"])
            data["max_burst_size"] = self.kind.shaper.burst(data["max_burst_size"])
        return data

    def modify(self, table: str, key: tuple[Any, ...], pipe: int, data: dict[str, Any]) -> None:
        self.check(table, key, pipe)
        if table.startswith("counter."):
            for name, value in data.items():
                self.counters[(table.removeprefix("counter."), key, pipe, name)] = value
            return
        if table == "pool.cfg" and data.get("size_cells", 0) > self.kind.total:
            raise Refused("INVALID_ARGUMENT", "Table Entry modify failed Invalid arguments")
        if table == "queue.buffer":
            data = {**data, "action": data.get("action", "shared_pool")}
            if data["action"] == "buffer_only":
                # A limit of nothing above what is guaranteed, which reads back as such.
                data |= {"action": "shared_pool", "pool_max_cells": 0}
            if "hysteresis_cells" in data:
                # The chip has it in units of eight cells, at least four of them; what was asked for is read back.
                profiles = self.profiles[pipe] | {max(data["hysteresis_cells"] // 8, 4)}
                if len(profiles) > PROFILES:
                    raise Refused("RESOURCE_EXHAUSTED", "Table Entry modify failed Not enough space")
                self.profiles[pipe] = profiles
        if table == "queue.sched_cfg":
            # The driver has one number for two names, and reads back the first of them.
            same = {"0": "LOW", "HIGH": "7"}
            data = {name: same.get(value, value) if "priority" in name else value for name, value in data.items()}
            if "dwrr_weight" in data:
                data["dwrr_weight"] &= WEIGHTS
            if "pg_l1_node" in data and data["pg_l1_node"] % L1_NODES_APART != key[1] // self.kind.queues_per_port:
                raise Refused("INVALID_ARGUMENT", "Table Entry modify failed Invalid arguments")
        self._at(table, key, pipe).update(data)

    # Rates

    def shaper_bps(self, kbps: int, burst: int) -> float:
        """What a shaper makes of a rate; 0 out of range."""
        mantissa, exponent = self._programmed(kbps, burst)
        return float(mantissa[0]) * self.kind.shaper.clock_hz / 10 / (1 << int(exponent[0]))

    def _read_back(self, kbps: int, burst: int) -> int:
        return int(self.kind.shaper.read_back(*self._programmed(kbps, burst))[0]) // 1000

    def _programmed(self, kbps: int, burst: int) -> tuple[Whole, Whole]:
        return self.kind.shaper.programmed(np.array([kbps], dtype=np.uint64), self.kind.shaper.burst(burst))

    def packet_ns(self, port: int, queue: int, frame: int) -> float:
        """Time that a queue's shaper gives a packet."""
        pipe, group, first = self.group(port)
        shaping = self._at("queue.sched_shaping", (group, first + queue), pipe)
        gap = self._at("pipe.sched_cfg", (), pipe)["packet_ifg_compensation"]
        return float(
            (frame + self.shaper_bytes + gap) * 8e9 / self.shaper_bps(shaping["max_rate"], shaping["max_burst_size"])
        )

    # Memory

    def cells(self, frame: int) -> int:
        return -(-(frame + IN_MEMORY_BYTES) // self.kind.cell)

    def offer(self, in_port: int, port: int, queue: int, frame: int) -> bool:
        """One packet comes to the traffic manager; False if any of the limits drops it."""
        need = self.cells(frame)
        pipe, group, first = self.group(port)
        place = (group, first + queue)
        dpg, buffer = self._at("port.dpg", (in_port,)), self._at("queue.buffer", place, pipe)
        used = self.used
        ingress, mine = used["dpg", in_port], used["queue", port, queue]
        ig_pool, eg_pool = dpg["pool_id"], buffer["pool_id"]
        total = used["total",]
        cap = self._at("cfg", ())
        drops: list[tuple[Any, ...]] = []
        if total + need > self.kind.total:
            drops = [("pipe", (), in_port // 128, "total_buffer_full_drop_packets")]
        elif ingress + need > self._limit(dpg, used["pool", ig_pool]) or (
            cap.get("ig_buffer_limit_enable") and total + need > cap["ig_buffer_limit_cells"]
        ):
            drops = [("dpg", (in_port,), ALL_PIPES, "drop_count_packets"),
                     ("ig_port", (in_port,), ALL_PIPES, "drop_count_packets"),
                     ("pipe", (), in_port // 128, "ig_buf_full_drop_packets")]  # fmt: skip
        elif (
            self._port_used(port) + need > self._at("port.buffer", (port,))["eg_limit_cells"] + self.overshoot_cells
        ) or (
            mine + need > self._limit(buffer, used["pool", eg_pool]) + self.overshoot_cells
            and buffer["tail_drop_enable"]
        ):
            drops = [*(("pipe", (), in_port // 128, name) for name in self.moving),
                     ("queue", place, pipe, "drop_count_packets"),
                     ("eg_port", (port,), ALL_PIPES, "drop_count_packets"),
                     ("pipe", (), pipe, "eg_total_drop_packets")]  # fmt: skip
        if drops:
            for counter in drops:
                self.counters[counter] += 1
            return False
        holders = (("queue", port, queue), ("dpg", in_port), ("pool", ig_pool), ("pool", eg_pool), ("total",))
        self.waiting[port, queue].append((need, holders))
        for holder in holders:
            used[holder] += need
        for counter, value in (
            (("queue", place, pipe, "watermark_cells"), used["queue", port, queue]),
            (("eg_port", (port,), ALL_PIPES, "watermark_cells"), self._port_used(port)),
            (("dpg", (in_port,), ALL_PIPES, "watermark_cells"), used["dpg", in_port]),
            (("pool", (eg_pool,), ALL_PIPES, "watermark_cells"), used["pool", eg_pool]),
        ):
            self.counters[counter] = max(self.counters[counter], value)
        return True

    def drain(self, port: int, queue: int, packets: int) -> int:
        """Packets leave a queue; returns how many did."""
        line = self.waiting[port, queue]
        gone = min(packets, len(line))
        for _ in range(gone):
            need, holders = line.popleft()
            for holder in holders:
                self.used[holder] -= need
        return gone

    def _port_used(self, port: int) -> int:
        return sum(self.used["queue", port, queue] for queue in range(self.kind.queues_per_port))

    def _limit(self, entry: dict[str, Any], pool_used: int) -> int:
        size = self._at("pool.cfg", (entry["pool_id"],))["size_cells"]
        if size == 0:
            return int(entry["guaranteed_cells"])
        free = max(0, size - pool_used)
        dynamic = int(BAF[entry["dynamic_baf"]] * free)
        return int(entry["guaranteed_cells"] + min(max(entry["pool_max_cells"], dynamic), size))

    def _read_counter(self, name: str, key: tuple[Any, ...], pipe: int) -> dict[str, Any]:
        where = pipe if name in ("queue", "pipe", "mirror_dpg") else ALL_PIPES
        used = self.used

        def stored(field_name: str) -> int:
            return self.counters[(name, key, where, field_name)]

        if name == "pipe":
            names = ("total_buffer_full_drop_packets", "discard_queue_watermark_cells", "total_cells", "total_packets",
                     "uc_ct_packets", "mc_ct_packets", "ig_no_dest_drop_packets", "ig_buf_full_drop_packets",
                     "eg_total_drop_packets", "mc_queue_drop_packets",
                     *(f"mc_input_fifo_{n}_drop_packets" for n in range(4)))  # fmt: skip
            return {"discard_queue_usage_cells": 0, **{one: stored(one) for one in names}}
        if name == "pool":
            return {"usage_cells": used["pool", key[0]], "watermark_cells": stored("watermark_cells")}
        common = {"drop_count_packets": stored("drop_count_packets"), "watermark_cells": stored("watermark_cells")}
        if name in ("dpg", "mirror_dpg"):
            usage = used["dpg", key[0]] if key else 0
            return {**common, "guaranteed_min_usage_cells": 0, "shared_pool_usage_cells": usage}
        if name == "queue":
            port = self._port_of(key[0], key[1], pipe)
            return {**common, "usage_cells": used["queue", port, key[1] % self.kind.queues_per_port]}
        usage = used["dpg", key[0]] if name == "ig_port" else self._port_used(key[0])
        return {**common, "usage_cells": usage}
