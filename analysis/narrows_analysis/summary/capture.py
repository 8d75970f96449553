# SPDX-License-Identifier: Apache-2.0
"""Reports without a run: what the engine found in them becomes a directory that reads like a run's."""

from __future__ import annotations

import itertools
import shutil
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pyarrow.parquet as pq
from narrows_formats import storage
from narrows_formats.files import COLLECTOR, FLOW_KEYS, REPORT_FILES, RUN, TELEMETRY
from narrows_formats.flow_names import flow_name
from narrows_formats.run_record import RunRecord
from narrows_formats.summary import Summary
from narrows_formats.units import NANOSECONDS

from narrows_analysis.aggregation.both_directions import measure_paths
from narrows_analysis.aggregation.engine import DEPTH_FOUND, Account, LinkAccount, aggregate_tables, store_reports
from narrows_analysis.aggregation.tables import Aggregation
from narrows_analysis.errors import AnalysisError
from narrows_analysis.records.five_tuple import FiveTuple
from narrows_analysis.records.flow_table import FlowTable, Key, read_flow_table, read_keys, reverse_keys
from narrows_analysis.records.json_files import read_json
from narrows_analysis.records.reports import SkippedReports
from narrows_analysis.records.run_directory import Run, read_run
from narrows_analysis.summary.analyze import finish
from narrows_analysis.summary.source_settings import SourceSettings

# What iperf3's control connections carry, at most: JSON of parameters and results.
CONTROL_BYTES = 1 << 16
CONTROL_SHARE = 0.1


def summarise(
    source: Path, out: Path, settings: SourceSettings, account: Account, unreadable: Sequence[str],
    options: Sequence[str],
) -> Summary:  # fmt: skip
    """Make a directory that reads like a run's of what the engine found.

    Args:
        source: where the reports are.
        out: where the engine's tables are; the rest goes there too.
        settings: what the reports do not say.
        account: the engine's aggregate.json.
        unreadable: names of report files that were left out.
        options: the engine's.

    Raises:
        AnalysisError: there is no report of the bottleneck that is asked for.
    """
    skipped = SkippedReports(unreadable_files=list(unreadable))
    index = _bottleneck(account, settings)
    if not _depth_left_reported(account["bottlenecks"][str(index)]):
        account = aggregate_tables(source, out, *options, DEPTH_FOUND)
    telemetry = out / TELEMETRY
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
    found = Aggregation(run, table, out, account)
    return finish(run, [(run, table, found)], skipped, {run.bottleneck.name: paths})


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
            yield store_reports(source, Path(directory) / TELEMETRY, *port)


def _depth_left_reported(bottleneck: LinkAccount) -> bool:
    """False for a target that leaves that field 0, such as Tofino: packets waited, yet none left one behind.

    What a packet finds waiting, the one before it leaves behind. On a link where each waited for its own turn only, it
    does not matter which of the two is shown.
    """
    return bool(bottleneck["depth"]["max"] or not bottleneck["depth_peak"])


def _bottleneck(account: Account, settings: SourceSettings) -> int:
    reports = {int(index): entry["reports"] for index, entry in account["bottlenecks"].items()}
    if settings.bottleneck is None:
        return max(reports, key=lambda index: (reports[index], -index))
    if settings.bottleneck not in reports:
        known = ", ".join(str(index) for index in sorted(reports))
        raise AnalysisError(f"bottleneck {settings.bottleneck}: no report of it; there are reports of: {known}")
    return settings.bottleneck


def _collector_account(source: Path, account: Account) -> Mapping[str, object]:
    """What a collector would have said of a capture; of a telemetry directory its collector has."""
    path = source / COLLECTOR
    if path.exists():
        return read_json(source, COLLECTOR)
    names = ("source", "frames", "other_traffic", "bad", "truncated_at", "bottlenecks")
    return {name: value for name, value in account.items() if name in names}


class Totals(NamedTuple):
    """What flow_totals.parquet has of a flow."""

    first_arrival: int
    last_timestamp: int
    last_data_timestamp: int
    new_bytes: int


def _flows(tables: Path, keys_path: Path, index: int) -> tuple[list[dict[str, object]], int]:
    """Flows with data, as run.json lists them; and how many connections are left out as iperf3's control."""
    rows = read_keys(keys_path) if keys_path.exists() else []
    keys = {row.key: row.connection for row in rows if row.bottleneck == index}
    totals = sorted(_totals(tables / "flow_totals.parquet", index), key=lambda row: row[1].first_arrival)
    found = [(key, keys[key], row) for key, row in totals if key in keys]
    control = control_connections([(connection, row) for _, connection, row in found])
    counted: dict[str, itertools.count[int]] = defaultdict(partial(itertools.count, 1))
    flows: list[dict[str, object]] = [
        {
            "name": flow_name(one.src, next(counted[one.src])),
            "group": one.src, "cca": None, "src": one.src, "dst": one.dst, "src_port": one.src_port or None,
            "dst_port": one.dst_port or None, "flow": flow, "signature": signature,
        }
        for number, ((flow, signature), one, _) in enumerate(found)
        if number not in control and one.src and one.dst
    ]  # fmt: skip
    return flows, len(control)


def control_connections(found: Sequence[tuple[FiveTuple, Totals]]) -> set[int]:
    """Positions, in a list of (5-tuple, totals), of iperf3's control connections.

    Such a one goes to the port of the connection that it is about, begins before and ends after it, and carries little
    itself, parameters and results.
    """
    positions: defaultdict[FiveTuple, list[int]] = defaultdict(list)
    for number, (connection, _) in enumerate(found):
        positions[connection._replace(src_port=0)].append(number)
    control = set()
    for together in positions.values():
        for one, other in itertools.permutations(together, 2):
            speaks, carries = found[one][1], found[other][1]
            around = (
                speaks.first_arrival < carries.first_arrival and speaks.last_timestamp > carries.last_data_timestamp
            )
            small = speaks.new_bytes < CONTROL_BYTES and speaks.new_bytes < CONTROL_SHARE * carries.new_bytes
            if around and small:
                control.add(one)
    return control


def _totals(path: Path, index: int) -> Iterator[tuple[Key, Totals]]:
    """Flows with data at a link; one whose counters nothing has confirmed is in a damaged report only."""
    columns = ["bottleneck", "flow", "signature", "data_packets", "departures", *Totals._fields]
    for row in pq.read_table(path, columns=columns).to_pylist():
        if row["bottleneck"] == index and row["data_packets"] and row["departures"]:
            yield (row["flow"], row["signature"]), Totals(*(row[name] for name in Totals._fields))


def _run_document(
    source: Path, account: Account, settings: SourceSettings, index: int, flows: Sequence[Mapping[str, object]],
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
        "links": [{
            "index": index, "rate_bps": settings.rate_bps, "rtt_s": settings.rtt_s,
            "buffer_bytes": settings.buffer_bytes, "mtu_frame_bytes": settings.mtu_frame_bytes,
        }],
        "flows": flows,
        "control_connections": control,
        "clock_origin_ns": round(account["origin"] * unit_s * NANOSECONDS),
    })  # fmt: skip
