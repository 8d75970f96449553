# SPDX-License-Identifier: Apache-2.0
"""The link that is the kernel's htb with a queue management of Linux in it, each with tc's defaults.

htb takes a packet out of its queue when the link is free for it, tbf one packet earlier: management that decides at
dequeue would see a wait that is too short.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from types import SimpleNamespace
from typing import Any

import pandas as pd
from bridged import bridged
from narrows_formats.units import NANOSECONDS
from passage import Place
from pyroute2.netlink import nla
from pyroute2.netlink.rtnl import tcmsg
from pyroute2.netlink.rtnl.tcmsg import sched_template

# Kernel options of the kinds, as `NEEDS` of other links.
NEEDS = {
    kind: f"CONFIG_NET_SCH_{option}=y"
    for kind, option in (
        ("pfifo", "FIFO"), ("codel", "CODEL"), ("pie", "PIE"), ("red", "RED"), ("fq_codel", "FQ_CODEL"),
        ("dualpi2", "DUALPI2"),
    )
}  # fmt: skip
READING_S = 0.005
# The qdiscs that htb charges for a burst of two frames: as many as a link sends back to back after an idle time.
BURST_FRAMES = 2
# Of RED, which has no defaults: Floyd's rules (tc-red(8)), from the link's rate.
RED_MIN_S, RED_MAX_S, RED_PROBABILITY, RED_PACKET = 0.005, 0.015, 0.1, 1000
PERCENT_BITS = 32
COLUMNS = ("marks", "delay_c_s", "delay_l_s", "probability")


class RedStatistics(nla):  # type: ignore[misc]
    """struct tc_red_xstats (linux/pkt_sched.h)."""

    fields = (("early", "I"), ("pdrop", "I"), ("other", "I"), ("ecn_mark", "I"))


class PieStatistics(nla):  # type: ignore[misc]
    """struct tc_pie_xstats."""

    fields = (
        ("prob", "Q"), ("delay", "I"), ("avg_dq_rate", "I"), ("dq_rate_estimating", "I"), ("packets_in", "I"),
        ("dropped", "I"), ("overlimit", "I"), ("maxq", "I"), ("ecn_mark", "I"),
    )  # fmt: skip


class DualPi2Statistics(nla):  # type: ignore[misc]
    """struct tc_dualpi2_xstats; delays are microseconds."""

    fields = (
        ("prob", "I"), ("delay_c", "I"), ("delay_l", "I"), ("packets_in_c", "I"), ("packets_in_l", "I"),
        ("maxq", "I"), ("ecn_mark", "I"), ("step_marks", "I"), ("credit", "i"),
    )  # fmt: skip


def add_to_netlink() -> None:
    """Teach netlink's library the statistics of the kinds that it does not know."""
    for kind, statistics in (("red", RedStatistics), ("pie", PieStatistics), ("dualpi2", DualPi2Statistics)):
        names = {name: getattr(sched_template, name) for name in vars(sched_template) if not name.startswith("_")}
        tcmsg.plugins[kind] = SimpleNamespace(**{**names, "stats": statistics})


def words(kind: str, rate_bps: int, limit_bytes: int, ecn: bool) -> str:
    """The management in tc's words: its defaults, and ECN where that can be chosen."""
    if kind == "pfifo":
        return f"bfifo limit {limit_bytes}"
    if kind == "red":
        low, high = (int(rate_bps / 8 * seconds) for seconds in (RED_MIN_S, RED_MAX_S))
        burst = max((2 * low + high) // (3 * RED_PACKET), low // RED_PACKET + 1)
        asked = f"min {low} max {high} burst {burst} avpkt {RED_PACKET} bandwidth {rate_bps}bit"
        return f"red limit {limit_bytes} {asked} probability {RED_PROBABILITY}" + " ecn" * ecn
    if kind == "dualpi2":
        # Older tc does not know it, but takes it without parameters. It always marks.
        return kind
    return f"{kind} {'ecn' if ecn else 'noecn'}"


def link(place: Place, kind: str, ecn: bool) -> AbstractAsyncContextManager[Callable[[], pd.DataFrame]]:
    """See `passage.Link`; the queue is what was read of the management, with its marks so far.

    Raises:
        RunError: it cannot be made.
    """
    add_to_netlink()
    bottleneck = place.plan.bottleneck
    rate, burst = f"{bottleneck.rate_bps}bit", BURST_FRAMES * place.plan.frame_bytes
    managed = words(kind, bottleneck.rate_bps, bottleneck.limit_bytes, ecn)
    commands = [
        "qdisc add DEV root handle 1: htb default 1",
        f"class add DEV parent 1: classid 1:1 htb rate {rate} ceil {rate} burst {burst} cburst {burst} quantum 60000",
        f"qdisc add DEV parent 1:1 handle 10: {managed}",
    ]
    return bridged(place, commands, managed.split()[0], READING_S, COLUMNS, _read)


def _read(qdisc: Any) -> Sequence[float]:
    found = qdisc.get_attr("TCA_XSTATS")
    if found is None:
        return 0, 0.0, 0.0, 0.0
    names = {name for name, *_ in found.fields}
    micro = NANOSECONDS // 1000
    delays = [found[name] / micro if name in names else 0.0 for name in ("delay_c", "delay_l")]
    probability = found["prob"] / (1 << PERCENT_BITS) if "delay_c" in names else 0.0
    return found["ecn_mark"], *delays, probability
