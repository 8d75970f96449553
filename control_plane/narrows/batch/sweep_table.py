# SPDX-License-Identifier: Apache-2.0
"""sweep.parquet: the summaries of a sweep's runs as one tidy table, a row for every flow group of every run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from narrows_formats import files, storage

if TYPE_CHECKING:
    from narrows_formats.summary import BottleneckSummary, FairnessSummary, Summary


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
        **_of_link(summary["bottleneck"], summary["fairness"]),
        "reports_lost": summary["telemetry"]["lost"],
    }
    if len(summary["links"]) > 1:
        for link in summary["links"]:
            own = _of_link(link, link["fairness"])
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
            # Where `flows` itself is swept, that is not how many a group has.
            **swept,
        }
        for group in summary["groups"]
    ]


def _of_link(link: BottleneckSummary, fairness: FairnessSummary) -> dict[str, float | None]:
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
        "queue_bytes_mean": link["queue_bytes"]["mean"],
        "queue_delay_mean_s": link["queue_delay_s"]["mean"],
        "queue_delay_p99_s": link["queue_delay_s"]["p99"],
        "jain_index": fairness["jain_index"],
    }


def write(directory: Path, table: Sequence[dict[str, object]]) -> Path:
    """Write the table of a sweep's directory, in one step."""
    import pandas as pd

    path = directory / files.SWEEP_TABLE
    with storage.replacing(path) as file:
        pd.DataFrame(list(table)).to_parquet(file, index=False)
    return path
