# SPDX-License-Identifier: Apache-2.0
"""The program's part of the schema: what the compiler made of our P4, or the same by hand until it has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

COMPILED = Path(__file__).resolve().parents[3] / "p4src" / "compiled"


def program_schema(architecture: str) -> bytes:
    """bf-rt.json of the program for ``tofino`` or ``tofino2``."""
    artifact = COMPILED / architecture / "bf-rt.json"
    return artifact.read_bytes() if artifact.exists() else json.dumps(_by_hand(architecture)).encode()


def _key(number: int, name: str, width: int, match: str) -> dict[str, Any]:
    return {
        "id": number, "name": name, "repeated": False, "annotations": [], "mandatory": False, "match_type": match,
        "type": {"type": "bytes", "width": width},
    }  # fmt: skip


def _action(number: int, name: str, *parameters: tuple[str, int]) -> dict[str, Any]:
    data = [
        {
            "id": position, "name": parameter, "repeated": False, "mandatory": True, "read_only": False,
            "annotations": [], "type": {"type": "bytes", "width": width},
        }
        for position, (parameter, width) in enumerate(parameters, start=1)
    ]  # fmt: skip
    return {"id": number, "name": name, "action_scope": "TableAndDefault", "annotations": [], "data": data}


def _table(number: int, name: str, size: int, keys: list[dict[str, Any]], *actions: dict[str, Any]) -> dict[str, Any]:
    if any(key["match_type"] == "Ternary" for key in keys):
        priority = _key(65537, "$MATCH_PRIORITY", 32, "Exact")
        keys = [*keys, {**priority, "type": {"type": "uint32"}}]
    return {
        "name": f"pipe.{name}", "id": number, "table_type": "MatchAction_Direct", "size": size, "annotations": [],
        "depends_on": [], "has_const_default_action": True, "key": keys, "action_specs": list(actions), "data": [],
        "supported_operations": [], "attributes": ["EntryScope"],
    }  # fmt: skip


def _register(number: int, name: str, size: int) -> dict[str, Any]:
    field = {
        "id": 1, "name": f"{name.rpartition('.')[0]}.{name.rpartition('.')[2]}.f1", "repeated": False,
        "annotations": [{"name": "$bfrt_field_class", "value": "register_data"}],
        "type": {"type": "bytes", "width": 32},
    }  # fmt: skip
    return {
        "name": f"pipe.{name}", "id": number, "table_type": "Register", "size": size,
        "key": [{**_key(65557, "$REGISTER_INDEX", 0, "Exact"), "mandatory": True, "type": {"type": "uint32"}}],
        "data": [{"mandatory": True, "read_only": False, "singleton": field}],
        "supported_operations": ["Sync"], "attributes": ["EntryScope"],
    }  # fmt: skip


def _counter(number: int, name: str, size: int, *units: str) -> dict[str, Any]:
    ids = {"BYTES": 65553, "PKTS": 65554}
    data = [
        {
            "mandatory": False, "read_only": False,
            "singleton": {
                "id": ids[unit], "name": f"$COUNTER_SPEC_{unit}", "repeated": False, "annotations": [],
                "type": {"type": "uint64", "default_value": 0},
            },
        }
        for unit in units
    ]  # fmt: skip
    return {
        "name": f"pipe.{name}", "id": number, "table_type": "Counter", "size": size,
        "key": [{**_key(65556, "$COUNTER_INDEX", 0, "Exact"), "mandatory": True, "type": {"type": "uint32"}}],
        "data": data, "supported_operations": ["Sync"], "attributes": [],
    }  # fmt: skip


def _by_hand(architecture: str) -> dict[str, Any]:
    queue_bits, session_bits = (7, 8) if architecture == "tofino2" else (5, 10)
    flows = 1 << 15
    bottleneck = [_key(1, "bottleneck", 6, "Exact")]
    ingress, egress = "NarrowsIngress", "NarrowsEgress"
    connect = f"{ingress}.cross_connect"
    before, behind, report = f"{ingress}.bottleneck", f"{egress}.bottleneck", f"{egress}.report"
    collector = (
        ("src_mac", 48), ("dst_mac", 48), ("src_ip", 32), ("dst_ip", 32),
        ("src_port", 16), ("dst_port", 16), ("length", 16),
    )  # fmt: skip
    observe = (("threshold", 32), ("mask", 32), ("shift", 8), ("epoch", 16), ("mirror", session_bits))
    digest = (
        ("bottleneck", 6), ("index", 15), ("signature", 32), ("is_ipv6", 1), ("src", 128),
        ("dst", 128), ("protocol", 8), ("src_port", 16), ("dst_port", 16),
    )  # fmt: skip
    tables = [
        _table(
            0x2100001, f"{connect}.cross_connect", 512,
            [
                _key(1, "ingress_port", 9, "Ternary"), _key(2, "dst_mac", 48, "Ternary"),
                _key(3, "is_ipv4", 1, "Ternary"), _key(4, "dst_ipv4", 32, "Ternary"),
                _key(5, "is_ipv6", 1, "Ternary"), _key(6, "dst_ipv6", 128, "Ternary"),
            ],
            _action(0x1100001, f"{connect}.wire", ("port", 9)),
            _action(0x1100002, f"{connect}.bottleneck", ("index", 6), ("port", 9), ("queue", queue_bits)),
            _action(0x1100003, f"{connect}.discard"),
        ),
        _table(0x2100002, f"{before}.loss", 64, bottleneck,
               _action(0x1100004, f"{before}.set_loss", ("threshold", 32))),
        _table(0x2100003, f"{behind}.bottleneck", 64, bottleneck, _action(0x1100005, f"{behind}.observe", *observe)),
        _table(0x2100004, f"{behind}.delay_bins", 128, [_key(1, "queue_delay", 32, "LPM")],
               _action(0x1100006, f"{behind}.set_bin", ("bin", 7))),
        _table(0x2100005, f"{report}.collector", 64, bottleneck,
               _action(0x1100007, f"{report}.encapsulate", *collector)),
        *(_register(0x5100001 + n, f"{before}.{name}.{inner}", flows) for n, (name, inner) in enumerate(
            (("flow_owner", "signatures"), ("flow_arrivals", "totals"), ("flow_loss_drops", "totals")))),
        _register(0x5100011, f"{behind}.flow_departures.totals", flows),
        _register(0x5100012, f"{behind}.bottleneck_departures.totals", 64),
        _register(0x5100013, f"{behind}.high_watermark.depths", 64),
        _counter(0x4100001, f"{before}.arrival_counter.flows", flows, "BYTES", "PKTS"),
        _counter(0x4100002, f"{before}.loss_counter.flows", flows, "BYTES", "PKTS"),
        _counter(0x4100003, f"{behind}.departure_counter.flows", flows, "BYTES", "PKTS"),
        _counter(0x4100004, f"{behind}.delay_histogram.bins", 64 * 128, "PKTS"),
    ]  # fmt: skip
    fields = [
        {"id": n, "name": name, "repeated": False, "annotations": [], "type": {"type": "bytes", "width": width}}
        for n, (name, width) in enumerate(digest, start=1)
    ]
    filters = [{"name": "pipe.NarrowsIngressDeparser.new_flow", "id": 0x6100001, "annotations": [], "fields": fields}]
    return {"schema_version": "1.0.0", "tables": tables, "learn_filters": filters}
