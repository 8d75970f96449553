# SPDX-License-Identifier: Apache-2.0
"""Every metric of a sweep's table, for figures and tidy rows: those of its page, and more that summaries have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pandas as pd

from narrows_analysis.sweep import LINKS, QUANTITIES, Quantity

# `per_group` are sums over a group's flows, or what its title says.
_FURTHER = (
    Quantity("share_of_run", "Share of goodput over the run", "%", 0.01, per_group=True, greatest=1),
    Quantity("loss_ratio", "Packets dropped", "%", 0.01, per_group=True, greatest=1),
    Quantity("drops", "Drops", "packets", 1.0, per_group=True),
    Quantity("aqm_drops", "Drops by queue management", "packets", 1.0, per_group=True),
    Quantity("policer_drops", "Drops by the policer", "packets", 1.0, per_group=True),
    Quantity("loss_emulation_drops", "Packets lost by emulation", "packets", 1.0, per_group=True),
    Quantity("ce_marks", "CE marks", "packets", 1.0, per_group=True),
    Quantity("retransmits", "Retransmissions", "packets", 1.0, per_group=True),
    Quantity("rtt_min_s", "Least RTT", "ms", 1e-3, per_group=True),
    Quantity("rtt_mean_s", "Mean RTT", "ms", 1e-3, per_group=True),
    Quantity("inflight_bytes_mean", "Mean bytes in flight, by flow,", "kB", 1e3, per_group=True),
    Quantity("fct_mean_s", "Mean completion time", "s", 1.0, per_group=True),
    Quantity("bottleneck_drops", "Drops at the link", "packets", 1.0),
    Quantity("bottleneck_aqm_drops", "Drops at the link by queue management", "packets", 1.0),
    Quantity("bottleneck_policer_drops", "Drops at the link by the policer", "packets", 1.0),
    Quantity("bottleneck_loss_emulation_drops", "Packets lost at the link by emulation", "packets", 1.0),
    Quantity("bottleneck_ce_marks", "CE marks at the link", "packets", 1.0),
    Quantity("queue_bytes_mean", "Mean queue depth", "kB", 1e3),
    Quantity("queue_bytes_p50", "Median queue depth", "kB", 1e3),
    Quantity("queue_bytes_p99", "Queue depth, 99th percentile", "kB", 1e3),
    Quantity("queue_bytes_max", "Greatest queue depth", "kB", 1e3),
    Quantity("standing_queue_bytes", "Standing queue", "kB", 1e3),
    Quantity("queue_delay_p50_s", "Median queue delay", "ms", 1e-3),
    Quantity("queue_delay_max_s", "Greatest queue delay", "ms", 1e-3),
    Quantity("jain_index_steady", "Jain's index after convergence", "", 1.0, greatest=1),
    Quantity("convergence_s", "Time to convergence", "s", 1.0),
    Quantity("oscillation_period_s", "Period of oscillation", "ms", 1e-3),
    Quantity("loss_synchronization", "Synchronization of losses", "", 1.0, greatest=1),
    Quantity("rate_synchronization", "Synchronization of rates", "", 1.0, least=-1, greatest=1),
    Quantity("reports_lost", "Reports lost", "", 1.0),
)
_KNOWN = {one.column: one for one in (*QUANTITIES, *_FURTHER)}
# What figures of a run are called, of which a sweep has means.
_AS_OF_A_RUN = {
    "goodput": "goodput_bps", "jain": "jain_index", "queue_depth": "queue_bytes_mean",
    "queue_delay": "queue_delay_mean_s", "low_latency_delay": "low_latency_delay_mean_s", "marks": "ce_marks",
    "loss": "loss_ratio", "rtt": "rtt_mean_s", "inflight": "inflight_bytes_mean",
}  # fmt: skip


def metrics(frame: pd.DataFrame) -> list[Quantity]:
    """Those that a sweep's table has values of; with several links those of a link for each (`links.NAME.COLUMN`)."""
    return list(_found(frame))


def _found(frame: pd.DataFrame) -> Iterator[Quantity]:
    columns = set(frame.columns)
    for own in _KNOWN.values():
        if own.column in columns and frame[own.column].notna().any():
            yield own
    for column in map(str, frame.columns):
        name, _, of_link = column.removeprefix(LINKS).rpartition(".")
        if column.startswith(LINKS) and of_link in _KNOWN and frame[column].notna().any():
            yield replace(_KNOWN[of_link], column=column, title=f"{_KNOWN[of_link].title}, {name}")


def column_of(metric: str) -> str:
    """The column of a metric, which may have the name of a run's figure: ``goodput``, ``links.cell.queue_delay``."""
    of, dot, own = metric.rpartition(".")
    return of + dot + _AS_OF_A_RUN.get(own, own)


def is_known(column: str) -> bool:
    """Whether tables of sweeps have such a column, though those of an earlier release may not."""
    return column.rpartition(".")[2] in _KNOWN


NAMES = tuple(_AS_OF_A_RUN)
