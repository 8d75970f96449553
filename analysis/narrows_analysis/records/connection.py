# SPDX-License-Identifier: Apache-2.0
"""What the senders say of connections. Used for retransmissions and socket RTT only, and labelled so."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

from narrows_formats.connection_record import ConnectionRecord
from narrows_formats.kinds import record_of
from narrows_formats.validation import problems
from pydantic import ValidationError

from narrows_analysis.errors import AnalysisError
from narrows_analysis.records import iperf3
from narrows_analysis.records.host_record import HostRecord
from narrows_analysis.records.json_files import read_json

SOURCE = "the hosts (flow records, TCP_INFO)"
RECORD_SOURCES = frozenset({SOURCE, iperf3.SOURCE})


def read_host_record(run_dir: Path, name: str | None, start_s: float) -> HostRecord:
    """Read the record of a connection, or iperf3's result where iperf3 made it, whose times count from ``start_s``.

    A missing or broken file gives a record with `error` set; without a name there is nothing to say.
    """
    if name is None:
        return HostRecord()
    path = run_dir / name
    try:
        raw = read_json(run_dir, name)
        # Of runs before 0.3.0.
        if "end" in raw or "start" in raw or "error" in raw:
            return iperf3.parse(raw, name, start_s)
        model = record_of(raw.get("kind"))
        return _of(model.model_validate(raw))
    except AnalysisError as error:
        return HostRecord(error=str(error))
    except ValidationError as error:
        return HostRecord(error="\n".join(f"{path}: {problem}" for problem in problems(error, model)))


def _of(record: ConnectionRecord) -> HostRecord:
    rtts = [(one.time_s, one.rtt_s) for one in record.samples if one.rtt_s is not None]
    return HostRecord(
        source=SOURCE,
        retransmits=record.retransmits,
        rtt_min_s=record.rtt_min_s,
        rtt_mean_s=fmean(rtt for _, rtt in rtts) if rtts else None,
        rtt_series=tuple(rtts),
        cwnd_series=tuple((one.time_s, float(one.cwnd_bytes)) for one in record.samples if one.cwnd_bytes is not None),
        cca=record.congestion_control,
        local_port=record.src_port,
        remote_port=record.dst_port,
        record=record,
    )
