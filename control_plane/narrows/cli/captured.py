# SPDX-License-Identifier: Apache-2.0
"""What ``narrows analyze`` makes of captures of packets, which have no telemetry reports."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from narrows_formats import files, storage
from rich.table import Table

from narrows.cli.table import NOT_KNOWN, scaled
from narrows.errors import InputError

if TYPE_CHECKING:
    from narrows_analysis.interchange.either_side import Captured

MAX_ROWS = 40
COLUMNS = ("flow", "packets", "goodput\nMbit/s", "lost", "lost\n%", "delay\nmean ms", "delay\n99 % ms", "RTT\nmin ms",
           "sent\nagain %")  # fmt: skip


def analyze_packets(front: Path, behind: Path | None, out: Path) -> None:
    """Write capture.json into the new directory ``out``, and show it as a table.

    Raises:
        InputError: a capture cannot be read, or the two do not go together.
    """
    import narrows_analysis

    from narrows.run.results import give_to_user
    from narrows.terminal import Terminal

    try:
        found = narrows_analysis.analyze_captures(front, behind)
    except narrows_analysis.AnalysisError as error:
        raise InputError(str(error)) from error
    out.mkdir(parents=True)
    storage.write_json(out / files.CAPTURE, found)
    give_to_user(out)
    console = Terminal()
    console.print(_table(found, out.name))
    if found["reason"] is not None:
        console.print(f"{found['reason']}: --behind FILE is the other side", soft_wrap=True)
    if found["not_read"]:
        console.print(f"{found['not_read']} frames are not IP, or were cut too short")
    edges = sum(flow["at_edges"] or 0 for flow in found["flows"])
    if edges:
        console.print(f"{edges} packets are at a time that only one capture has: not counted as lost")
    console.print(f"captures: {out / files.CAPTURE}", soft_wrap=True)


def _table(found: Captured, title: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="dim")
    for column in COLUMNS:
        table.add_column(column, justify="left" if column == "flow" else "right", no_wrap=True)
    for flow in found["flows"][:MAX_ROWS]:
        delay, rtt = flow["delay_s"], flow["rtt_s"]
        ends = (_end(flow["src"], flow["src_port"]), _end(flow["dst"], flow["dst_port"]))
        delays = (None, None) if delay is None else (delay["mean"], delay["p99"])
        times = (*delays, None if rtt is None else rtt["min"])
        table.add_row(
            " >\n".join(ends), str(flow["packets"]), scaled(flow["goodput_bps"], 1e-6),
            NOT_KNOWN if flow["lost"] is None else str(flow["lost"]), scaled(flow["loss_ratio"], 100),
            *(scaled(time_s, 1e3) for time_s in times), scaled(flow["retransmit_ratio"], 100),
        )  # fmt: skip
    if len(found["flows"]) > MAX_ROWS:
        table.caption = f"{len(found['flows']) - MAX_ROWS} more in {files.CAPTURE}"
    return table


def _end(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
