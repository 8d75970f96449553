# SPDX-License-Identifier: Apache-2.0
"""What the senders say of connections. Used for retransmissions and socket RTT only, and labelled so."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import cast

from narrows_formats.connection_record import ConnectionRecord, Response, VideoSession
from narrows_formats.kinds import kinds_of_flows
from narrows_formats.summary import DatagramSummary, DelayDistribution, ResponseSummary, VideoSummary
from narrows_formats.validation import problems
from pydantic import ValidationError

from narrows_analysis.errors import AnalysisError
from narrows_analysis.metrics.responses import distribution
from narrows_analysis.metrics.video import mean_bitrate, rebuffering_ratio, stalled, switches
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
        return _of(ConnectionRecord.model_validate(raw))
    except AnalysisError as error:
        return HostRecord(error=str(error))
    except ValidationError as error:
        return HostRecord(error="\n".join(f"{path}: {problem}" for problem in problems(error, ConnectionRecord)))


def _of(record: ConnectionRecord) -> HostRecord:
    own = kinds_of_flows().get(record.kind)
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
        datagrams=_datagrams(record),
        last_sent_s=record.last_sent_s,
        responses=None if record.responses is None else _responses(record.responses),
        video=record.video,
        viewed=None if record.video is None else _viewed(record, record.video),
        figures=None if own is None else own.summary(record.model_extra or {}),
        response_series=record.responses or (),
    )


def _viewed(record: ConnectionRecord, session: VideoSession) -> VideoSummary:
    bitrates = [one.bitrate_bps for one in record.responses or () if one.done_s is not None and one.bitrate_bps]
    stall_s, playing_s = stalled(session.stalls), session.playing_s
    return {
        "segments": len(bitrates),
        "bitrate_bps": mean_bitrate(bitrates),
        "switches": switches(bitrates),
        "startup_s": None if playing_s is None else playing_s - record.started_s,
        "stalls": len(session.stalls),
        "stall_s": stall_s,
        "stall_ratio": None if playing_s is None else rebuffering_ratio(stall_s, playing_s, record.ended_s),
    }


def _responses(found: Sequence[Response]) -> ResponseSummary:
    return {
        "requests": len(found),
        "completed": sum(one.done_s is not None for one in found),
        "first_byte_s": distribution([one.first_byte_s - one.due_s for one in found if one.first_byte_s is not None]),
        "time_s": distribution([one.done_s - one.due_s for one in found if one.done_s is not None]),
    }


def _datagrams(record: ConnectionRecord) -> DatagramSummary | None:
    """What both ends counted; a receiver that could not tell leaves what it knows open."""
    if record.packets_sent is None:
        return None
    arrived, is_probe = record.received, record.kind == "probe"
    if arrived is None:
        unknown = dict.fromkeys(("received", "lost", "duplicates", "reordered", "ce_marked", "delay_s", "rtt_s"))
        return cast("DatagramSummary", {"sent": record.packets_sent, **unknown})
    times = None if arrived.delay_s is None else cast("DelayDistribution", arrived.delay_s.model_dump())
    return {
        "sent": record.packets_sent,
        "received": arrived.packets,
        "lost": record.packets_sent - (arrived.packets - arrived.duplicates),
        "duplicates": arrived.duplicates,
        "reordered": arrived.reordered,
        "ce_marked": arrived.ce_marked,
        "delay_s": None if is_probe else times,
        "rtt_s": times if is_probe else None,
    }
