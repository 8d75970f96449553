# SPDX-License-Identifier: Apache-2.0
"""The fixed-function part of a switch's schema, written down from what the tables are documented to hold.

Only tables that Narrows reads or writes are here, with all of their fields. Ids, names, types, choices and targets are
the interface; texts are left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

BAF = ("1.5%", "3%", "6%", "11%", "20%", "33%", "50%", "66%", "80%", "DISABLE")
IG_POOLS = tuple(f"IG_APP_POOL_{n}" for n in range(4))
EG_POOLS = tuple(f"EG_APP_POOL_{n}" for n in range(4))
OTHER_POOLS = (
    "IG_SKID_POOL",
    "IG_EG_NEGATIVE_MIRROR_POOL",
    "EG_PRE_FIFO",
    "IG_EG_GUARANTEED_MIN",
    "EG_UNICAST_CUT_THROUGH",
    "EG_MULTICAST_CUT_THROUGH",
)
PRIORITIES = ("LOW", *(str(n) for n in range(8)), "HIGH")
FEC = ("BF_FEC_TYP_NONE", "BF_FEC_TYP_FIRECODE", "BF_FEC_TYP_REED_SOLOMON", "BF_FEC_TYP_FC", "BF_FEC_TYP_RS")
PORT_SPEEDS = tuple(
    f"BF_SPEED_{s}"
    for s in ("NONE", "1G", "10G", "25G", "40G", "40G_NB", "40G_NON_BREAKABLE", "50G", "100G", "200G", "400G")
)
SCHEDULING_SPEEDS = {
    "tf1": tuple(
        f"BF_SPEED_{s}" for s in ("NONE", "1G", "10G", "25G", "40G", "40G_NB", "40G_NON_BREAKABLE", "50G", "100G")
    ),
    "tf2": tuple(
        f"BF_SPEED_{s}"
        for s in (
            "NONE", "1G", "10G", "25G", "40G", "40G_R2", "40G_NB", "40G_NON_BREAKABLE",
            "50G", "50G_CONS", "100G", "200G", "400G",
        )
    ),
}  # fmt: skip
L1_SPEEDS = tuple(f"BF_SPEED_{s}" for s in ("NONE", "50G", "100G", "200G", "400G"))
LOOPBACK = tuple(
    f"BF_LPBK_{m}" for m in ("NONE", "MAC_NEAR", "MAC_FAR", "PCS_NEAR", "SERDES_NEAR", "SERDES_FAR", "PIPE")
)
AN = ("PM_AN_DEFAULT", "PM_AN_FORCE_ENABLE", "PM_AN_FORCE_DISABLE")
DIRECTIONS = ("PM_PORT_DIR_DEFAULT", "PM_PORT_DIR_TX_ONLY", "PM_PORT_DIR_RX_ONLY")

STATISTICS = (
    (1, "$FramesReceivedOK"), (2, "$FramesReceivedAll"), (3, "$FramesReceivedwithFCSError"),
    (4, "$FrameswithanyError"), (6, "$OctetsReceived"), (20, "$FramesDroppedBufferFull"),
    (33, "$FramesTransmittedOK"), (34, "$FramesTransmittedAll"), (35, "$FramesTransmittedwithError"),
    (37, "$OctetsTransmittedTotal"),
)  # fmt: skip

DEV = ("dev_id",)
PIPE = ("dev_id", "pipe_id")
ANY = ("dev_id", "pipe_id", "pipe_all")


def field(number: int, name: str, type: str, *, ro: bool = False, clear: bool = False, many: bool = False,
          choices: tuple[str, ...] = ()) -> dict[str, Any]:  # fmt: skip
    """One data field in bf-rt.json form; ``type`` of a byte string is ``bytes:WIDTH``."""
    kind: dict[str, Any] = {"type": type}
    if type.startswith("bytes:"):
        kind = {"type": "bytes", "width": int(type.partition(":")[2])}
    if choices:
        kind["choices"] = list(choices)
    singleton: dict[str, Any] = {"id": number, "name": name, "repeated": many, "type": kind}
    if clear:
        singleton["annotations"] = [{"name": "clear_only", "value": "true"}]
    return {"mandatory": False, "read_only": ro, "singleton": singleton}


def key(number: int, name: str, type: str, choices: tuple[str, ...] = ()) -> dict[str, Any]:
    """One exact key field."""
    kind: dict[str, Any] = {"type": type}
    if choices:
        kind["choices"] = list(choices)
    return {
        "id": number, "name": name, "repeated": False, "annotations": [], "mandatory": True,
        "match_type": "Exact", "type": kind,
    }  # fmt: skip


def table(name: str, number: int, type: str, size: int, keys: list[dict[str, Any]], data: list[dict[str, Any]],
          apis: Mapping[str, tuple[str, ...]] | None = None,
          actions: list[tuple[int, str, list[dict[str, Any]]]] | None = None) -> dict[str, Any]:  # fmt: skip
    """One table."""
    found: dict[str, Any] = {
        "name": name, "id": number, "table_type": type, "size": size, "key": keys, "data": data,
        "supported_operations": [], "attributes": [],
    }  # fmt: skip
    if apis is not None:
        found["supported_apis"] = {api: {"target_attributes": list(targets)} for api, targets in apis.items()}
    if actions is not None:
        found["action_specs"] = [
            {"id": ident, "name": action, "data": fields, "annotations": []} for ident, action, fields in actions
        ]
    return found


DEV_PORT = [key(1, "dev_port", "uint32")]
PG_QUEUE = [key(1, "pg_id", "uint8"), key(2, "pg_queue", "uint8")]
L1_NODE = [key(1, "pg_id", "uint8"), key(2, "pg_l1_node", "uint8")]
PORT_APIS = {"tableEntryGet": DEV, "tableEntryMod": DEV, "tableClear": DEV}
QUEUE_APIS = {"tableEntryGet": PIPE, "tableEntryMod": PIPE, "tableClear": ANY}
DEFAULT_APIS = {
    "tableDefaultEntryGet": PIPE, "tableDefaultEntrySet": PIPE, "tableDefaultEntryReset": ANY, "tableClear": ANY,
}  # fmt: skip
PIPE_COUNTER_APIS = {
    "tableDefaultEntryGet": PIPE, "tableDefaultEntrySet": ANY, "tableDefaultEntryReset": ANY, "tableClear": ANY,
}  # fmt: skip


def dpg_fields() -> list[dict[str, Any]]:
    return [
        field(1, "icos_ppg_map", "uint8", ro=True, many=True),
        *(field(2 + n, f"icos_{n}", "bool", ro=True) for n in range(8)),
        field(10, "guaranteed_cells", "uint32"),
        field(11, "hysteresis_cells", "uint32"),
        field(12, "pool_id", "string", choices=IG_POOLS),
        field(13, "pool_max_cells", "uint32"),
        field(14, "dynamic_baf", "string", choices=BAF),
    ]


def numbered(fields: list[tuple[str, str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """Fields whose ids are simply their places."""
    return [field(number, name, type, **more) for number, (name, type, more) in enumerate(fields, start=1)]


def fixed_schema(prefix: str) -> bytes:
    """The driver's document: the tables of all its parts in one."""
    tables = [*_traffic_manager(prefix), _mirror(prefix), *_ports(prefix), _device(prefix)]
    return json.dumps({"schema_version": "1.0.0", "tables": tables}).encode()


def _traffic_manager(prefix: str) -> list[dict[str, Any]]:
    two = prefix == "tf2"
    base = 0xFF050000
    queues = 4608 if two else 2304
    shaping = [
        field(1, "unit", "string", choices=("PPS", "BPS")),
        field(2, "provisioning", "string", choices=("UPPER", "LOWER", "MIN_ERROR")),
    ]
    configuration = [
        field(1, "timestamp_shift_bits", "uint8"),
        field(2, "cell_size_bytes", "uint32", ro=True),
        field(3, "total_cells", "uint32", ro=True),
    ]
    port_buffer = [("ct_enable", "bool", {"ro": True}), ("uc_ct_limit_cells", "uint8", {})]
    port_buffer += [("ig_limit_cells", "uint32", {})]
    port_buffer += [] if two else [("ig_hysteresis_cells", "uint32", {})]
    port_buffer += [(name, "uint32", {}) for name in ("eg_limit_cells", "eg_hysteresis_cells", "skid_limit_cells")]
    pipe_cfg: list[tuple[str, str, dict[str, Any]]] = [("mirror_drop_enable", "bool", {})] if two else []
    pipe_cfg += [("mirror_drop_pg_id", "uint8", {}), ("mirror_drop_pg_queue", "uint8", {})]
    pipe_cfg += [("mirror_drop_dev_port", "uint32", {"ro": True}), ("mirror_drop_queue_nr", "uint8", {"ro": True})]
    pipe_cfg += [("eg_limit_cells", "uint32", {}), ("eg_hysteresis_cells", "uint32", {})]
    sched = [
        field(2, "min_rate_enable", "bool"),
        field(1, "min_priority", "string", choices=PRIORITIES),
        field(5, "max_rate_enable", "bool"),
        field(4, "max_priority", "string", choices=PRIORITIES),
        field(3, "dwrr_weight", "uint16"),
    ]
    if two:
        configuration += [field(4, "ig_buffer_limit_cells", "uint32"), field(5, "ig_buffer_limit_enable", "bool")]
        pipe_cfg += [("queue_depth_report_mode", "string", {"choices": ("ANY", "COLOR")})]
        sched += [
            field(6, "advanced_flow_control", "string", choices=("CREDIT", "XOFF")),
            field(7, "scheduling_enable", "bool"),
            field(8, "scheduling_speed", "string", ro=True, choices=L1_SPEEDS),
            field(9, "pg_l1_node", "uint8"),
        ]
    else:
        sched += [field(6, "scheduling_enable", "bool")]
    pipe_sched = [field(1, "packet_ifg_compensation", "uint8")]
    pipe_sched += [field(2, "advanced_flow_control_enable", "bool")] if two else []
    port_counter = numbered(
        [
            ("drop_count_packets", "uint64", {}),
            ("usage_cells", "uint64", {"ro": True}),
            ("watermark_cells", "uint64", {"clear": True}),
        ]
    )
    dpg_counter = numbered(
        [
            ("drop_count_packets", "uint64", {}),
            ("guaranteed_min_usage_cells", "uint64", {"ro": True}),
            ("shared_pool_usage_cells", "uint64", {"ro": True}),
            ("watermark_cells", "uint64", {"clear": True}),
        ]
    )
    pipe_counter = numbered(
        [
            ("total_buffer_full_drop_packets", "uint64", {"clear": True}),
            ("discard_queue_usage_cells", "uint64", {"ro": True}),
            *(
                (name, "uint64", {"clear": True})
                for name in (
                    "discard_queue_watermark_cells", "total_cells", "total_packets", "uc_ct_packets", "mc_ct_packets",
                    "ig_no_dest_drop_packets", "ig_buf_full_drop_packets", "eg_total_drop_packets",
                    "mc_queue_drop_packets", *(f"mc_input_fifo_{n}_drop_packets" for n in range(4)),
                )
            ),
        ]
    )  # fmt: skip
    port_cfg = numbered(
        [
            ("pg_id", "uint8", {"ro": True}),
            ("pg_port_nr", "uint8", {"ro": True}),
            ("port_queues_count", "uint8", {"ro": True}),
            ("ingress_qid_map", "uint8", {"ro": True, "many": True}),
            ("egress_qid_queues", "uint8", {"ro": True, "many": True}),
            ("copy_to_cpu", "bool", {"ro": True}),
            ("mirror_drop_destination", "bool", {"ro": True}),
            ("mirror_drop_pg_queue", "uint8", {"ro": True}),
            ("pkt_extraction_credits", "uint32", {"ro": True}),
        ]
    )
    pool_key = [key(1, "pool", "string", (*IG_POOLS, *EG_POOLS, *OTHER_POOLS))]
    app_pool_key = [key(1, "pool", "string", (*IG_POOLS, *EG_POOLS))]
    default_device = {"tableDefaultEntrySet": DEV, "tableDefaultEntryReset": DEV, "tableDefaultEntryGet": DEV}

    def make(name: str, low: int, kind: str, size: int, keys: Any, data: Any, apis: Any, actions: Any = None) -> Any:
        return table(f"{prefix}.tm.{name}", base | low, kind, size, keys, data, apis, actions)

    return [
        make("cfg", 0x81, "TmCfg", 1, [], configuration, default_device),
        make("pool.cfg", 0x02, "TmPoolCfg", 14, pool_key, [field(1, "size_cells", "uint32")],
             {"tableEntryMod": DEV, "tableEntryGet": DEV}),
        make("port.cfg", 0x10, "TmPortCfg", 288, DEV_PORT, port_cfg, {"tableEntryGet": DEV}),
        make("port.buffer", 0x13, "TmPortBuffer", 288, DEV_PORT, numbered(port_buffer), PORT_APIS),
        make("port.flowcontrol", 0x14, "TmPortFlowcontrol", 288, DEV_PORT, numbered([
            ("mode_tx", "string", {"choices": ("NONE", "PFC", "PAUSE")}),
            ("mode_rx", "string", {"choices": ("NONE", "PFC", "PAUSE"), "ro": True}),
            ("cos_to_icos", "uint8", {"many": True}),
        ]), PORT_APIS),
        make("port.dpg", 0x15, "TmPortDpg", 288, DEV_PORT, dpg_fields(), PORT_APIS),
        make("mirror.dpg", 0x71, "TmMirrorDpg", 4, [], dpg_fields(), DEFAULT_APIS),
        make("queue.buffer", 0x24, "TmQueueBuffer", queues, PG_QUEUE, [
            field(1, "guaranteed_cells", "uint32"),
            field(2, "hysteresis_cells", "uint32"),
            field(3, "tail_drop_enable", "bool"),
        ], {"tableDefaultEntryGet": DEV, **QUEUE_APIS}, [
            (1, "shared_pool", [
                field(4, "pool_id", "string", choices=EG_POOLS),
                field(5, "pool_max_cells", "uint32"),
                field(6, "dynamic_baf", "string", choices=BAF),
            ]),
            (2, "buffer_only", []),
        ]),
        make("queue.sched_cfg", 0x25, "TmQueueSchedCfg", queues, PG_QUEUE, sched, QUEUE_APIS),
        make("queue.sched_shaping", 0x26, "TmQueueSchedShaping", queues, PG_QUEUE, [
            *shaping,
            field(3, "min_rate", "uint32"),
            field(4, "min_burst_size", "uint32"),
            field(5, "max_rate", "uint32"),
            field(6, "max_burst_size", "uint32"),
        ], QUEUE_APIS),
        *([make("l1_node.sched_cfg", 0x61, "TmL1NodeSchedCfg", 1152, L1_NODE, [
            field(6, "min_rate_enable", "bool"),
            field(5, "min_priority", "string", choices=PRIORITIES),
            field(8, "max_rate_enable", "bool"),
            field(7, "max_priority", "string", choices=PRIORITIES),
            field(4, "dwrr_weight", "uint16"),
            field(3, "priority_propagation", "bool"),
            field(1, "queues_count", "uint8", ro=True),
            field(2, "pg_queues", "uint8", ro=True, many=True),
        ], QUEUE_APIS, [
            (1, "in_use", [field(10, "scheduling_enable", "bool"), field(9, "dev_port", "uint32")]),
            (2, "free", [field(11, "dev_port", "uint32", ro=True)]),
        ])] if two else []),
        make("port.sched_cfg", 0x16, "TmPortSchedCfg", 288, DEV_PORT, [
            field(1, "max_rate_enable", "bool"),
            *([field(2, "l1_nodes_count", "uint8", ro=True), field(3, "l1_nodes", "uint8", ro=True, many=True)]
              if two else []),
            field(4 if two else 2, "scheduling_speed", "string", choices=SCHEDULING_SPEEDS[prefix]),
        ], PORT_APIS),
        make("port.sched_shaping", 0x17, "TmPortSchedShaping", 288, DEV_PORT, [
            *shaping, field(3, "max_rate", "uint32"), field(4, "max_burst_size", "uint32"),
        ], PORT_APIS),
        make("pipe.cfg", 0x50, "TmPipeCfg", 4, [], numbered(pipe_cfg), DEFAULT_APIS),
        make("pipe.sched_cfg", 0x52, "TmPipeSchedCfg", 4, [], pipe_sched, DEFAULT_APIS),
        make("counter.ig_port", 0x41, "TmCounterIgPort", 288, DEV_PORT, port_counter, PORT_APIS),
        make("counter.eg_port", 0x42, "TmCounterEgPort", 288, DEV_PORT, port_counter, PORT_APIS),
        make("counter.queue", 0x43, "TmCounterQueue", queues // 4, PG_QUEUE, port_counter,
             {"tableEntryMod": ANY, "tableEntryGet": PIPE, "tableClear": ANY}),
        make("counter.pool", 0x44, "TmCounterPool", 8, app_pool_key, numbered([
            ("usage_cells", "uint64", {"ro": True}), ("watermark_cells", "uint64", {"clear": True}),
        ]), PORT_APIS),
        make("counter.pipe", 0x45, "TmCounterPipe", 1, [], pipe_counter, PIPE_COUNTER_APIS),
        make("counter.dpg", 0x46, "TmCounterPortDpg", 288, DEV_PORT, dpg_counter, PORT_APIS),
        make("counter.mirror_dpg", 0x47, "TmCounterMirrorPortDpg", 1, [], dpg_counter, PIPE_COUNTER_APIS),
    ]  # fmt: skip


def _mirror(prefix: str) -> dict[str, Any]:
    two = prefix == "tf2"
    coalescing = [
        field(1, "$internal_header", "bytes:128"),
        field(2, "$internal_header_length", "uint32"),
        field(3, "$timeout_usec", "uint32"),
        field(4, "$extract_len", "uint32"),
    ]
    if two:
        coalescing.append(field(5, "$session_coal_mode", "bool"))
    flags = (
        "$session_priority", "$hash_cfg_flag", "$hash_cfg_flag_p", "$icos_cfg_flag",
        "$dod_cfg_flag", "$c2c_cfg_flag", "$mc_cfg_flag", "$epipe_cfg_flag",
    )  # fmt: skip
    plain: list[tuple[str, str, tuple[str, ...]]] = [("$session_enable", "bool", ())]
    plain += [(name, "bool", ()) for name in flags] if two else []
    plain += [
        ("$direction", "string", ("INGRESS", "EGRESS", "BOTH")),
        ("$ucast_egress_port", "uint32", ()),
        ("$ucast_egress_port_valid", "bool", ()),
        ("$egress_port_queue", "uint32", ()),
        ("$ingress_cos", "uint32", ()),
        ("$packet_color", "string", ("GREEN", "YELLOW", "RED")),
        ("$level1_mcast_hash", "uint32", ()),
        ("$level2_mcast_hash", "uint32", ()),
        ("$mcast_grp_a", "uint16", ()),
        ("$mcast_grp_a_valid", "bool", ()),
        ("$mcast_grp_b", "uint16", ()),
        ("$mcast_grp_b_valid", "bool", ()),
        ("$mcast_l1_xid", "uint16", ()),
        ("$mcast_l2_xid", "uint16", ()),
        ("$mcast_rid", "uint16", ()),
        ("$icos_for_copy_to_cpu", "uint32", ()),
        ("$copy_to_cpu", "bool", ()),
        ("$max_pkt_len", "uint16", ()),
    ]
    first = 6 if two else 5
    data = [field(first + n, name, kind, choices=choices) for n, (name, kind, choices) in enumerate(plain)]
    return table(
        "$mirror.cfg", 0xFF040001, "MirrorCfg", 256 if two else 1024, [key(1, "$sid", "uint16")], data,
        actions=[(1, "$coalescing", coalescing), (2, "$normal", [])],
    )  # fmt: skip


MEDIA = tuple(f"BF_MEDIA_TYPE_{name}" for name in ("COPPER", "OPTICAL", "UNKNOWN"))


def _ports(prefix: str) -> list[dict[str, Any]]:
    loopback = LOOPBACK if prefix == "tf2" else LOOPBACK[:-1]
    data = [
        field(1, "$SPEED", "string", choices=PORT_SPEEDS),
        field(2, "$FEC", "string", choices=FEC),
        field(3, "$N_LANES", "uint32"),
        field(4, "$PORT_ENABLE", "bool"),
        field(5, "$AUTO_NEGOTIATION", "string", choices=AN),
        field(6, "$LOOPBACK_MODE", "string", choices=loopback),
        field(7, "$TX_MTU", "uint32"),
        field(8, "$RX_MTU", "uint32"),
        field(9, "$TX_PFC_EN_MAP", "uint32"),
        field(10, "$RX_PFC_EN_MAP", "uint32"),
        field(11, "$TX_PAUSE_FRAME_EN", "bool"),
        field(12, "$RX_PAUSE_FRAME_EN", "bool"),
        field(13, "$CUT_THROUGH_EN", "bool"),
        field(14, "$PORT_DIR", "string", choices=DIRECTIONS),
        field(15, "$MEDIA_TYPE", "string", choices=MEDIA, ro=True),
        field(16, "$SDS_TX_ATTN", "uint32"),
        field(17, "$SDS_TX_PRE", "int32"),
        field(18, "$SDS_TX_PRE2", "int32"),
        field(19, "$SDS_TX_POST", "int32"),
        field(20, "$SDS_TX_POST2", "int32"),
        field(21, "$IS_VALID", "bool", ro=True),
        field(22, "$IS_INTERNAL", "bool", ro=True),
        field(23, "$CONN_ID", "uint32", ro=True),
        field(24, "$CHNL_ID", "uint32", ro=True),
        field(25, "$PORT_UP", "bool", ro=True),
        field(26, "$PORT_NAME", "string", ro=True),
        field(27, "$RX_PRSR_PRI_THRESH", "uint32"),
        field(28, "$TIMESTAMP_1588_DELTA_TX", "uint16"),
        *([field(29, "$TIMESTAMP_1588_DELTA_RX", "uint16")] if prefix == "tf1" else []),
        field(30, "$TIMESTAMP_1588_VALID", "bool", ro=True),
        field(31, "$TIMESTAMP_1588_VALUE", "uint64", ro=True),
        field(32, "$TIMESTAMP_1588_ID", "uint32", ro=True),
        field(33, "$PLL_OVRCLK", "float"),
    ]
    names = [field(1, "$DEV_PORT", "uint32", ro=True)]
    statistics = [field(number, name, "uint64") for number, name in STATISTICS]
    return [
        table("$PORT_STAT", 0xFF010002, "PortStat", 256, [key(1, "$DEV_PORT", "uint32")], statistics),
        table("$PORT", 0xFF010001, "PortConfigure", 256, [key(1, "$DEV_PORT", "uint32")], data),
        table("$PORT_STR_INFO", 0xFF010005, "PortStrInfo", 256, [key(1, "$PORT_NAME", "string")], names),
    ]


def _device(prefix: str) -> dict[str, Any]:
    data = numbered(
        [
            ("sku", "string", {"ro": True}),
            ("num_pipes", "uint32", {"ro": True}),
            ("num_stages", "uint32", {"ro": True}),
            ("num_max_ports", "uint32", {"ro": True}),
            ("num_front_ports", "uint32", {"ro": True}),
            ("pcie_cpu_port", "uint32", {"ro": True}),
        ]
    )
    apis = {"tableDefaultEntrySet": DEV, "tableDefaultEntryGet": DEV, "tableDefaultEntryReset": DEV}
    return table(f"{prefix}.dev.device_configuration", 0xFF060001, "DevConfigure", 1, [], data, apis)
