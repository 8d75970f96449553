# SPDX-License-Identifier: Apache-2.0
"""Where ECN does not do what an experiment expects of it: an L4S queue that is empty, marks that change nothing."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any

from narrows_analysis.records.run_directory import FlowSpec, Run
from narrows_analysis.summary.link_analysis import LinkAnalysis

# The ECN field (RFC 3168, RFC 9331).
NOT_ECT, ECT_1, ECT_0, CE = range(4)
# What a label of the kernel's algorithms says of one that ignores marks; later versions heed them.
DEAF = "BBRv1"
# Flows that a warning names.
MAX_NAMED = 3


def empty_l4s_queue(link: LinkAnalysis) -> str:
    """What to say of DualPI2 whose low-latency queue no packet entered; empty where one did."""
    run = link.run
    if link.dual_queue is None or not run.data_flows:
        return ""
    fields = link.dual_queue.arrival_ecn
    if fields[:, [ECT_1, CE]].any():
        return ""
    classic = [flow.name for flow, sent in zip(run.flows, fields[:, ECT_0], strict=False) if sent]
    more = ["..."] if len(classic) > MAX_NAMED else []
    who = f"{', '.join([*classic[:MAX_NAMED], *more])}: ECT(0)" if classic else "no flow used ECN"
    return (
        f"No packet entered the low-latency queue of DualPI2, which takes those with ECT(1) or CE ({who}). In Linux, "
        "DCTCP, and CUBIC and Reno with ECN, send ECT(0) and wait in the classic queue; TCP Prague and UDP flows with "
        "'ecn: ect1' send ECT(1)."
    )


def ignored_marks(run: Run, marks: Mapping[str, int]) -> str:
    """What to say of flows that the queue marked and that do not respond to it; ``marks`` are counts by flow's name."""
    why = {flow.name: _does_not_respond(flow, run.raw) for flow in run.flows[: run.data_flows]}
    deaf = {name: why[name] for name, count in marks.items() if count and why.get(name)}
    if not deaf:
        return ""
    more = ["..."] if len(deaf) > MAX_NAMED else []
    listed = ", ".join([*(f"{name} ({reason})" for name, reason in list(deaf.items())[:MAX_NAMED]), *more])
    return (
        f"{sum(marks[name] for name in deaf):,} packets were marked of flows that do not respond to marks: {listed}. A "
        "mark in place of a drop does not slow them, and leaves the packet in the queue."
    )


def _does_not_respond(flow: FlowSpec, raw: Mapping[str, Any]) -> str:
    """Why a flow does not respond to marks, where that is known."""
    if flow.protocol == socket.IPPROTO_UDP and flow.cca is None and not flow.by_addresses:
        return "UDP at a set rate"
    guest = raw.get("virtual_time")
    versions = guest.get("cca_versions") if isinstance(guest, dict) else None
    label = versions.get(flow.cca) if isinstance(versions, dict) else None
    return DEAF if label == DEAF else ""
