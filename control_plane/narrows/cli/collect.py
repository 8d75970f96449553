# SPDX-License-Identifier: Apache-2.0
"""``narrows collect``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from narrows.cli.collector_command import options, run_collector


def collect(
    interface: Annotated[str, typer.Option(help="Interface on which reports arrive.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Directory for the telemetry; must not exist yet.", show_default=False)],
    port: Annotated[int | None, typer.Option(help="UDP destination port of the reports.", show_default="5500")] = None,
    switch: Annotated[
        str | None,
        typer.Option(
            help="ADDRESS:PORT that the switch sends reports from; those of others are counted as bad.",
            show_default="any",
        ),
    ] = None,
    bottleneck_count: Annotated[
        int | None,
        typer.Option(help="Reports of bottlenecks from this index on are counted as bad.", show_default="64"),
    ] = None,
    ring_mib: Annotated[
        int | None, typer.Option(help="Size of the kernel's receive rings in MiB, all together.", show_default="64")
    ] = None,
    rings: Annotated[
        int | None, typer.Option(help="Rings, each read by a thread of its own.", show_default="1")
    ] = None,
    rotate_rows: Annotated[
        int | None, typer.Option(help="Rows after which a new file is begun.", show_default="16777216")
    ] = None,
    rotate_mib: Annotated[
        int | None,
        typer.Option(help="MiB after which a new file is begun; a row group is not divided.", show_default="512"),
    ] = None,
    rotate_seconds: Annotated[
        int | None,
        typer.Option(help="Seconds after which a new file is begun: what a crash can cost.", show_default="60"),
    ] = None,
    row_group: Annotated[int | None, typer.Option(help="Rows in a row group.", show_default="262144")] = None,
    metrics: Annotated[
        str | None, typer.Option(help="Serve totals to Prometheus at HOST:PORT or unix:PATH.", show_default=False)
    ] = None,
    metrics_flows: Annotated[
        int | None,
        typer.Option(help="Flows of a link with metrics of their own; all later ones share one.", show_default="1000"),
    ] = None,
    postcards: Annotated[
        str | None,
        typer.Option("--int", help="Send every report as an INT postcard over UDP to HOST:PORT.", show_default=False),
    ] = None,
    node_id: Annotated[int | None, typer.Option(help="Of --int: the switch's node ID.", show_default="1")] = None,
    arrow: Annotated[
        str | None,
        typer.Option(help="Send all rows as an Arrow IPC stream over TCP to HOST:PORT.", show_default=False),
    ] = None,
    time_unit_s: Annotated[
        str | None,
        typer.Option(help="Of --metrics and --int: seconds in a time unit of the switch.", show_default="1e-09"),
    ] = None,
    depth_unit_bytes: Annotated[
        int | None,
        typer.Option(help="Of --metrics and --int: bytes in a depth unit; without it no depth.", show_default=False),
    ] = None,
    empty_queue_delay: Annotated[
        int | None,
        typer.Option(
            help="Of --metrics and --int: time units that reports give as delay while nothing waits.", show_default="0"
        ),
    ] = None,
) -> None:
    """Store telemetry reports that arrive on an interface.

    As Parquet, until Ctrl-C or SIGTERM.
    """
    chosen = options(
        interface=interface,
        out=out,
        port=port,
        switch=switch,
        bottleneck_count=bottleneck_count,
        ring_mib=ring_mib,
        rings=rings,
        rotate_rows=rotate_rows,
        rotate_mib=rotate_mib,
        rotate_seconds=rotate_seconds,
        row_group=row_group,
        metrics=metrics,
        metrics_flows=metrics_flows,
        int=postcards,
        node_id=node_id,
        arrow=arrow,
        time_unit_s=time_unit_s,
        depth_unit_bytes=depth_unit_bytes,
        empty_queue_delay=empty_queue_delay,
    )
    raise typer.Exit(run_collector(["collect", *chosen], out))
