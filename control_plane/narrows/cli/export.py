# SPDX-License-Identifier: Apache-2.0
"""``narrows export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from narrows.cli import completion
from narrows.errors import InputError
from narrows.plain_text import say


def export(
    run: Annotated[
        Path, typer.Argument(help="A run's directory.", show_default=False, autocompletion=completion.results)
    ],
    csv: Annotated[
        Path | None, typer.Option(help="A new directory for tables as CSV: flows, time series, every report.")
    ] = None,
    pcapng: Annotated[
        Path | None, typer.Option(help="A new file of the packets in front of and behind each queue.")
    ] = None,
    arrow: Annotated[
        str | None, typer.Option(help="A new file for every report as an Arrow IPC stream, or HOST:PORT over TCP.")
    ] = None,
    postcards: Annotated[
        str | None, typer.Option("--int", help="HOST:PORT over UDP: every report as an INT postcard.")
    ] = None,
    node_id: Annotated[int, typer.Option(min=0, max=(1 << 32) - 1, help="Of --int: the switch's node ID.")] = 1,
) -> None:
    """Export a run for other programs.

    CSV for R, MATLAB and spreadsheets; pcapng for Wireshark, tshark and tcptrace; Arrow for programs of one's own; INT
    for INT collectors.
    """
    if csv is None and pcapng is None and arrow is None and postcards is None:
        raise InputError("no format; allowed: --csv DIRECTORY, --pcapng FILE, --arrow FILE|HOST:PORT, --int HOST:PORT")
    monitor = None if postcards is None else receiver(postcards)
    if postcards is not None and monitor is None:
        raise InputError(f"--int: '{postcards}' is not an address; allowed: HOST:PORT, such as 127.0.0.1:9000")
    from narrows_analysis.errors import AnalysisError
    from narrows_analysis.interchange.arrow_stream import send_arrow, write_arrow
    from narrows_analysis.interchange.csv_tables import write_csv
    from narrows_analysis.interchange.packets import write_packets
    from narrows_analysis.interchange.postcards import send_postcards
    from narrows_analysis.run_data import RunData

    from narrows.run.results import give_to_user

    try:
        data = RunData(run)
        if csv is not None:
            say(f"{csv}: {', '.join(write_csv(data, csv))}")
            give_to_user(csv)
        if pcapng is not None:
            found = write_packets(data.run, pcapng)
            give_to_user(pcapng)
            causes = ", ".join(f"{drops} by {cause}" for cause, drops in found.drops.items())
            drops = f"{found.drops.total()} drops{causes and ': '}{causes}"
            say(f"{pcapng}: {found.packets} packets; the comments name {drops}")
            if found.unknown:
                say(f"{pcapng}: {found.unknown} packets of flows without addresses in flow_keys.parquet are left out")
        if arrow is not None:
            address = receiver(arrow)
            if address is None:
                reports = write_arrow(data, Path(arrow))
                give_to_user(Path(arrow))
            else:
                reports = send_arrow(data, *address)
            say(f"{arrow}: {reports} reports")
        if monitor is not None:
            sent = send_postcards(data.run, *monitor, node_id)
            say(f"{postcards}: {sent.postcards} postcards, {sent.dropped} with the dropped bit: {sent.drops} drops")
    except AnalysisError as error:
        raise InputError(str(error)) from error


def receiver(text: str) -> tuple[str, int] | None:
    """Host and port of HOST:PORT, an IPv6 address in brackets; None if it is not written so."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        return None
    return host.removeprefix("[").removesuffix("]"), int(port)
