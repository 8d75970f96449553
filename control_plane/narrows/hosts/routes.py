# SPDX-License-Identifier: Apache-2.0
"""What the routes of a namespace say of TCP: initial window, least retransmission timeout, ECN."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from narrows.experiment.plan import Host, Plan
from narrows.hosts.read_back import require

MILLISECOND = 1_000_000


def ecn_setting(plan: Plan) -> str:
    """``net.ipv4.tcp_ecn`` of all hosts: asked for, not taken, or taken where the other side's route asks for it."""
    wanted = {plan.uses_ecn(flow) for flow in plan.flows if flow.has_tcp}
    if len(wanted) == 2:
        return "2"
    return "1" if wanted == {True} or (not wanted and plan.marks_ecn) else "0"


def metrics(plan: Plan, host: Host) -> dict[str, dict[str, str]]:
    """What a host's routes to others are to have, by address of the other and the name that `ip` has for it."""
    found: dict[str, dict[str, str]] = {}
    mixed = ecn_setting(plan) == "2"
    for flow in plan.flows:
        if not flow.has_tcp or host.name not in (flow.sender, flow.receiver):
            continue
        sends = host.name == flow.sender
        asked: dict[str, str] = {}
        if sends and flow.tcp.initial_window is not None:
            asked["initcwnd"] = str(flow.tcp.initial_window)
        if sends and flow.tcp.rto_min_ns is not None:
            asked["rto_min"] = f"{flow.tcp.rto_min_ns // MILLISECOND}ms"
        if mixed and plan.uses_ecn(flow):
            # Either side may be the one that connects.
            asked["features"] = "ecn"
        if asked:
            found.setdefault(flow.dst if sends else flow.src, {}).update(asked)
    return found


def require_metrics(where: str, asked: Mapping[str, str], shown: str) -> None:
    """Compare what a route is to have with what ``ip -json route show`` says of it.

    Raises:
        RunError: something differs.
    """
    routes: list[dict[str, Any]] = json.loads(shown) or [{}]
    (kept, *_) = routes[0].get("metrics") or [{}]
    found = {
        "initcwnd": kept.get("initcwnd"),
        "rto_min": f"{kept.get('rto_min')}ms",
        "features": "ecn" if "ecn" in kept else "none",
        "congctl": kept.get("congestion"),
    }
    require(where, asked, {name: found[name] for name in asked})
