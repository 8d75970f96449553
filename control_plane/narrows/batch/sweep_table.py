# SPDX-License-Identifier: Apache-2.0
"""sweep.parquet: the summaries of a sweep's runs as one tidy table, a row for every flow group of every run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from narrows_formats import files, storage

if TYPE_CHECKING:
    from narrows_formats.summary import BottleneckSummary, DynamicsSummary, FairnessSummary, FlowSummary, Summary

# What the queue and what is before it did to packets: counts of a link, of a flow, and, added up, of a group.
_Count = Literal["drops", "aqm_drops", "policer_drops", "loss_emulation_drops", "ce_marks"]
_COUNTS: tuple[_Count, ...] = get_args(_Count)
_Figure = Literal["mean", "p50", "p99", "max"]
_FIGURES: tuple[_Figure, ...] = get_args(_Figure)


def rows(
    directory: str, parameters: Mapping[str, object], repetition: int, status: str, summary: Summary
) -> list[dict[str, object]]:
    """The rows of one run: swept fields under their dotted names, then the run's and the group's results (SI units).

    With several links their results have columns of their own, `links.NAME.` before the name of the one link's.
    """
    # As text, because a field may be swept over values of several kinds (20packets, 50kB, 1).
    swept = {field: str(value) for field, value in parameters.items()}
    run = {
        "directory": directory,
        "repetition": repetition,
        "status": status,
        **swept,
        **_of_link(summary["bottleneck"], summary["fairness"], summary["dynamics"]),
        "reports_lost": summary["telemetry"]["lost"],
    }
    if len(summary["links"]) > 1:
        for link in summary["links"]:
            own = _of_link(link, link["fairness"], link["dynamics"])
            run |= {f"links.{link['name']}.{column}": value for column, value in own.items()}
    return [
        {
            **run,
            "group": group["name"],
            "cca": group["cca"],
            "flows": group["flows"],
            "goodput_bps": group["goodput_bps"],
            "share": group["share"],
            "share_of_run": group.get("share_of_run"),
            "loss_ratio": group["loss_ratio"],
            **_of_flows([flow for flow in summary["flows"] if flow["group"] == group["name"]]),
            # Where `flows` itself is swept, that is not how many a group has.
            **swept,
        }
        for group in summary["groups"]
    ]


def _of_flows(flows: Sequence[FlowSummary]) -> dict[str, float | None]:
    """Counts of all flows, and means over them; None where one flow's is not known."""
    counts = {name: _sum(flow[name] for flow in flows) for name in _COUNTS}
    return counts | {
        "retransmits": _sum(flow["host_retransmits"] for flow in flows),
        "rtt_min_s": _least(flow["rtt_s"]["min"] for flow in flows),
        "rtt_mean_s": _mean(flow["rtt_s"]["mean"] for flow in flows),
        "inflight_bytes_mean": _mean(flow["inflight_bytes"]["mean"] for flow in flows),
        "fct_mean_s": _mean(flow["fct_s"] for flow in flows),
    }


def _known(values: Iterable[float | int | None]) -> list[float]:
    """All of them, or none if one is not known."""
    found = list(values)
    known = [one for one in found if one is not None]
    return known if len(known) == len(found) else []


def _sum(values: Iterable[float | int | None]) -> float | None:
    known = _known(values)
    return sum(known) if known else None


def _mean(values: Iterable[float | int | None]) -> float | None:
    known = _known(values)
    return sum(known) / len(known) if known else None


def _least(values: Iterable[float | int | None]) -> float | None:
    return min(_known(values), default=None)


def _of_link(link: BottleneckSummary, fairness: FairnessSummary, dynamics: DynamicsSummary) -> dict[str, float | None]:
    of_queues = {
        f"{queue['name'].replace(' ', '_')}_delay_{figure}_s": queue["queue_delay_s"][figure]
        for queue in link.get("queues", ())  # Runs of earlier releases have none.
        for figure in ("mean", "p99")
    }
    return of_queues | {
        "rate_bps": link["rate_bps"],
        "buffer_bytes": link["buffer_bytes"],
        "buffer_packets": link.get("buffer_packets"),  # Runs of earlier releases have none.
        "utilization": link["utilization"],
        "bottleneck_loss_ratio": link["loss_ratio"],
        "bottleneck_total_loss_ratio": link.get("total_loss_ratio"),
        **{f"bottleneck_{name}": link[name] for name in _COUNTS},
        **{f"queue_bytes_{figure}": link["queue_bytes"][figure] for figure in _FIGURES},
        **{f"queue_delay_{figure}_s": link["queue_delay_s"][figure] for figure in _FIGURES},
        "standing_queue_bytes": link["standing_queue_bytes"],
        "jain_index": fairness["jain_index"],
        "jain_index_steady": fairness["jain_index_steady"],
        "convergence_s": fairness["convergence_s"],
        "oscillation_period_s": dynamics["oscillation_period_s"],
        "loss_synchronization": dynamics["loss_synchronization"],
        "rate_synchronization": dynamics["rate_synchronization"],
    }


def write(directory: Path, table: Sequence[dict[str, object]]) -> Path:
    """Write the table of a sweep's directory, in one step."""
    import pandas as pd

    path = directory / files.SWEEP_TABLE
    with storage.replacing(path) as file:
        pd.DataFrame(list(table)).to_parquet(file, index=False)
    return path
