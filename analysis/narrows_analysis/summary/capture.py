# SPDX-License-Identifier: Apache-2.0
"""Reports without a run: a capture, or a telemetry directory by itself, becomes a directory that reads like a run's."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.parquet as pq
from narrows_formats import storage
from narrows_formats.files import COLLECTOR, FLOW_KEYS, REPORT_FILES, RUN
from narrows_formats.run_record import RunRecord
from narrows_formats.summary import Summary
from narrows_formats.units import NANOSECONDS

from narrows_analysis.aggregation.both_directions import measure_paths
from narrows_analysis.aggregation.engine import DEPTH_FOUND, aggregate_tables, duration_argument, store_reports
from narrows_analysis.aggregation.tables import Aggregation
from narrows_analysis.errors import AnalysisError
from narrows_analysis.records.flow_table import FlowTable, read_flow_table, reverse_keys
from narrows_analysis.records.reports import SkippedReports
from narrows_analysis.records.run_directory import Run, read_run
from narrows_analysis.summary.analyze import finish

FLOWS_INTERVAL_S = 0.1
QUEUE_INTERVAL_S = 1e-3
# What iperf3's control connections carry, at most: JSON of parameters and results.
CONTROL_BYTES = 1 << 16
CONTROL_SHARE = 0.1
# Intervals of the queue's series in one of the flows', where only the latter is given.
QUEUE_INTERVALS = 10


@dataclass(frozen=True)
class SourceSettings:
    """What the reports do not say; None leaves out what needs it.

    Rate in L2 bit/s, RTT without queue in seconds, buffer in bytes. `bottleneck` is the index that is analysed: the one
    with the most reports by default.
    """

    rate_bps: float | None = None
    rtt_s: float | None = None
    buffer_bytes: float | None = None
    mtu_frame_bytes: int | None = None
    bottleneck: int | None = None
    interval_s: float | None = None
    queue_interval_s: float | None = None
    time_unit_s: float | None = None
    depth_unit_bytes: int | None = None
    port: int | None = None
    from_reset: bool = False


def analyze_source(source: Path, out: Path, settings: SourceSettings | None = None) -> Summary:
    """Analyse a capture or a telemetry directory: every table of the engine, flows.parquet, queue.parquet,
    distributions.parquet, summary.json and the run.json that they refer to, in `out`.

    Memory does not grow with the length of the source. Flows are those that carry data, in the order of their arrival,
    grouped by source address.

    Raises:
        AnalysisError: the source cannot be read, holds no report or more than one run; nothing is written then.
    """
    settings = settings or SourceSettings()
    made = not out.exists()
    try:
        return _analyze(source, out, settings)
    except AnalysisError:
        if made:
            shutil.rmtree(out, ignore_errors=True)
        raise


def _analyze(source: Path, out: Path, settings: SourceSettings) -> Summary:
    skipped = SkippedReports()
    options = [*_options(settings), *_unreadable(source, skipped)]
    account = aggregate_tables(source, out, *options)
    index = _bottleneck(account, settings)
    if not _depth_left_reported(account["bottlenecks"][str(index)]):
        account = aggregate_tables(source, out, *options, DEPTH_FOUND)
    telemetry = out / "telemetry"
    telemetry.mkdir(exist_ok=True)
    keys = out / FLOW_KEYS if (out / FLOW_KEYS).exists() else source / FLOW_KEYS
    if keys.exists():
        shutil.copyfile(keys, telemetry / FLOW_KEYS)
        (out / FLOW_KEYS).unlink(missing_ok=True)
    storage.write_json(telemetry / COLLECTOR, _collector_account(source, account))
    flows, control = _flows(out, telemetry / FLOW_KEYS, index)
    document = _run_document(source, account, settings, index, flows, control)
    storage.write_json(out / RUN, document.as_json())
    run = read_run(out)
    table = read_flow_table(run)
    with _report_files(source, run, table, settings) as files:
        paths = measure_paths(run, table, (path for path in files if path.name not in skipped.unreadable_files))
    return finish(run, table, Aggregation(run, table, out, account), skipped, paths)


@contextmanager
def _report_files(source: Path, run: Run, table: FlowTable, settings: SourceSettings) -> Iterator[list[Path]]:
    """Files of reports for what is measured of both directions. Those of a capture are made if it has both, and
    removed afterwards."""
    if source.is_dir():
        yield sorted(source.glob(REPORT_FILES))
    elif not reverse_keys(run, table):
        yield []
    else:
        port = [] if settings.port is None else ["--port", str(settings.port)]
        with TemporaryDirectory(prefix=".reports-", dir=run.path) as directory:
            yield store_reports(source, Path(directory) / "telemetry", *port)


def _options(settings: SourceSettings) -> list[str]:
    flows_s = settings.interval_s
    queue_s = settings.queue_interval_s
    if queue_s is None:
        queue_s = QUEUE_INTERVAL_S if flows_s is None else min(QUEUE_INTERVAL_S, flows_s / QUEUE_INTERVALS)
    options = ["--interval", duration_argument(flows_s or FLOWS_INTERVAL_S)]
    options += ["--queue-interval", duration_argument(queue_s)]
    for name, value in (("time-unit-s", settings.time_unit_s), ("port", settings.port)):
        options += [] if value is None else [f"--{name}", str(value)]
    options += [] if settings.depth_unit_bytes is None else ["--depth-unit-bytes", str(settings.depth_unit_bytes)]
    return [*options, "--from-reset"] if settings.from_reset else options


def _depth_left_reported(bottleneck: dict[str, Any]) -> bool:
    """False for a target that leaves that field 0, such as Tofino: packets waited, yet none left one behind.

    What a packet finds waiting, the one before it leaves behind. On a link where each waited for its own turn only, it
    does not matter which of the two is shown.
    """
    return bool(bottleneck["depth"]["max"] or not bottleneck["depth_peak"])


def _unreadable(source: Path, skipped: SkippedReports) -> list[str]:
    """Report files that were not finished, as arguments to leave them out."""
    options = []
    for path in sorted(source.glob(REPORT_FILES)) if source.is_dir() else []:
        try:
            pq.read_schema(path)
        except (OSError, ValueError):
            skipped.unreadable_files.append(path.name)
            options += ["--skip", path.name]
    return options


def _bottleneck(account: dict[str, Any], settings: SourceSettings) -> int:
    reports = {int(index): entry["reports"] for index, entry in account["bottlenecks"].items()}
    if settings.bottleneck is None:
        return max(reports, key=lambda index: (reports[index], -index))
    if settings.bottleneck not in reports:
        known = ", ".join(str(index) for index in sorted(reports))
        raise AnalysisError(f"bottleneck {settings.bottleneck}: no report of it; there are reports of: {known}")
    return settings.bottleneck


def _collector_account(source: Path, account: dict[str, Any]) -> dict[str, Any]:
    """What a collector would have said of a capture; of a telemetry directory its collector has."""
    path = source / "collector.json"
    if path.exists():
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found
    return {name: account[name] for name in ("source", "frames", "other_traffic", "bad", "truncated_at", "bottlenecks")}


def _flows(tables: Path, keys_path: Path, index: int) -> tuple[list[dict[str, Any]], int]:
    """Flows with data, as run.json lists them; and how many connections are left out as iperf3's control."""
    keys: dict[tuple[int, int], dict[str, Any]] = {}
    if keys_path.exists():
        keys = {(row["flow"], row["signature"]): row for row in _rows(keys_path, index)}
    totals = _rows(tables / "flow_totals.parquet", index)
    # A flow whose counters nothing has confirmed stands in a damaged report only.
    totals = [row for row in totals if row["data_packets"] and row["departures"]]
    totals.sort(key=lambda row: row["first_arrival"])
    found = [(keys[row["flow"], row["signature"]], row) for row in totals if (row["flow"], row["signature"]) in keys]
    control = control_connections(found)
    known = [key for number, (key, _) in enumerate(found) if number not in control]
    flows = [
        {
            "group": key["src"], "cca": None, "src": key["src"], "dst": key["dst"], "src_port": key["src_port"] or None,
            "dst_port": key["dst_port"] or None, "flow": key["flow"], "signature": key["signature"],
        }
        for key in known
        if key["src"] and key["dst"]
    ]  # fmt: skip
    return flows, len(control)


def control_connections(found: Sequence[tuple[dict[str, Any], dict[str, Any]]]) -> set[int]:
    """Positions, in a list of (5-tuple, totals), of connections by which iperf3 only speaks about others.

    Such a one goes to the port of the connection that it is about, begins before and ends after it, and carries little
    itself, parameters and results.
    """
    positions: dict[tuple[Any, ...], list[int]] = {}
    for number, (key, _) in enumerate(found):
        positions.setdefault((key["protocol"], key["src"], key["dst"], key["dst_port"]), []).append(number)
    control = set()
    for together in positions.values():
        for one, other in itertools.permutations(together, 2):
            speaks, carries = found[one][1], found[other][1]
            around = (
                speaks["first_arrival"] < carries["first_arrival"]
                and speaks["last_timestamp"] > carries["last_data_timestamp"]
            )
            small = speaks["new_bytes"] < CONTROL_BYTES and speaks["new_bytes"] < CONTROL_SHARE * carries["new_bytes"]
            if around and small:
                control.add(one)
    return control


def _rows(path: Path, index: int) -> list[dict[str, Any]]:
    with pq.ParquetFile(path) as file:
        columns = [name for name in file.schema_arrow.names if not name.startswith("delay_")]
    table = pq.read_table(path, columns=columns)
    return [row for row in table.to_pylist() if row["bottleneck"] == index]


def _run_document(
    source: Path, account: dict[str, Any], settings: SourceSettings, index: int, flows: list[dict[str, Any]],
    control: int,
) -> RunRecord:  # fmt: skip
    unit_s = account["time_unit_s"]
    return RunRecord.model_validate({
        "status": "complete",
        "source": str(source),
        "target_profile": {
            "name": "capture" if source.is_file() else "telemetry", "time_unit_s": unit_s, "timestamp_bits": 48,
            "depth_unit": "bytes" if (settings.depth_unit_bytes or 1) == 1 else "units",
            "depth_unit_bytes": settings.depth_unit_bytes or 1,
        },
        "bottleneck": {
            "index": index, "rate_bps": settings.rate_bps, "rtt_s": settings.rtt_s,
            "buffer_bytes": settings.buffer_bytes, "mtu_frame_bytes": settings.mtu_frame_bytes,
        },
        "flows": flows,
        "control_connections": control,
        "clock_origin_ns": round(account["origin"] * unit_s * NANOSECONDS),
    })  # fmt: skip
