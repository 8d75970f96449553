# SPDX-License-Identifier: Apache-2.0
"""narrows-collector as the engine of the analysis: one streaming pass over reports to tables of sums and extremes."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypedDict

from narrows_formats.files import REPORT_FILES
from narrows_formats.programs import COLLECTOR, find_binary, missing_binary
from narrows_formats.units import NANOSECONDS

from narrows_analysis.errors import AnalysisError, NoReports

ACCOUNT = "aggregate.json"
# What the collector says of a capture of other packets. Reports are in Ethernet frames.
NOTHING_REPORTED = re.compile(
    r"no reports to UDP port \d+ \(\d+ frames, 0 of them bad reports|link type \d+, only 1 \(Ethernet\) is known"
)
PREFIX = "error: "
# Shows the depth that packets found: for targets that do not report what they leave behind.
DEPTH_FOUND = "--depth-found"


def duration_argument(seconds: float) -> str:
    """A length of time as the engine takes it."""
    return f"{round(seconds * NANOSECONDS)}ns"


class Spread(TypedDict):
    """A distribution; others of its fields are not read."""

    max: int


class LinkAccount(TypedDict):
    """What aggregate.json has of a link, in time units, depth units and bytes; others of its fields are not read."""

    reports: int
    lost: int
    duplicates: int
    late: int
    implausible: int
    departures: int
    bytes: int
    squared_bytes: int
    last_timestamp: int
    implausible_times: int
    clock_steps: int
    sample_shift: int
    saturated_bytes: int
    saturated_units: int
    depth_peak: int
    delay_sum: int
    depth_sum: int
    delay: Spread
    depth: Spread


# Of a link without reports.
UNREPORTED_LINK: LinkAccount = {
    "reports": 0, "lost": 0, "duplicates": 0, "late": 0, "implausible": 0, "departures": 0, "bytes": 0,
    "squared_bytes": 0, "last_timestamp": 0, "implausible_times": 0, "clock_steps": 0, "sample_shift": 0,
    "saturated_bytes": 0, "saturated_units": 0, "depth_peak": 0, "delay_sum": 0, "depth_sum": 0,
    "delay": {"max": 0}, "depth": {"max": 0},
}  # fmt: skip


class Account(TypedDict):
    """aggregate.json; others of its fields are not read. Links by their indices, as text."""

    source: str
    interval_s: float
    queue_interval_s: float
    time_unit_s: float
    origin: int
    frames: int
    other_traffic: int
    bad: dict[str, int]
    truncated_at: int | None
    implausible_counters: int
    counter_resets: int
    carried_in: int
    bottlenecks: dict[str, LinkAccount]


@contextmanager
def aggregating(source: Path, out: Path, *options: str) -> Iterator[Callable[[], Account]]:
    """Aggregate `source` (a capture, a telemetry directory or a run) into tables in `out`, beside what is done inside.

    Args:
        source: where the reports are.
        out: directory for the tables.
        options: further arguments of ``narrows-collector aggregate``.

    Yields:
        What waits for the engine and answers aggregate.json.

    Raises:
        AnalysisError: narrows-collector is not built, or it refuses the source; the message is its own.
    """

    def account() -> Account:
        finish()
        found: Account = json.loads((out / ACCOUNT).read_text(encoding="utf-8"))
        return found

    with _running("aggregate", str(source), "--out", str(out), *options) as finish:
        yield account


def aggregate_tables(source: Path, out: Path, *options: str) -> Account:
    """As `aggregating`, with nothing beside it; answer aggregate.json."""
    with aggregating(source, out, *options) as account:
        return account()


def store_reports(capture: Path, out: Path, *options: str) -> list[Path]:
    """Write the reports of a capture as a collector would have; answer their files, in order.

    Args:
        capture: pcap or pcapng.
        out: directory for the files; it must not exist.
        options: further arguments of ``narrows-collector convert``.

    Raises:
        AnalysisError: as `aggregating`.
    """
    with _running("convert", str(capture), "--out", str(out), *options) as finish:
        finish()
    return sorted(out.glob(REPORT_FILES))


@contextmanager
def _running(*arguments: str) -> Iterator[Callable[[], None]]:
    """The program at work, which does not outlive the context; what is yielded waits for it, and says if it failed."""
    program = find_binary(COLLECTOR)
    if program is None:
        raise AnalysisError(missing_binary(COLLECTOR))
    command = [str(program), *arguments]

    def finish() -> None:
        _, said = process.communicate()
        if process.returncode:
            last = said.strip().splitlines()[-1:] or [f"narrows-collector ended with code {process.returncode}"]
            message = last[0].removeprefix(PREFIX)
            raise NoReports(message) if NOTHING_REPORTED.search(message) else AnalysisError(message)

    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield finish
        finally:
            process.kill()
