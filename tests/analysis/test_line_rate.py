# SPDX-License-Identifier: Apache-2.0
"""25, 50 and 100 Gbit/s through the softswitch in virtual time: the analysis equals an independent model exactly."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import line_rate
import numpy as np
import pandas as pd
import pytest
from line_rate import Departure, Packet
from narrows_analysis import SourceSettings, analyze_source
from narrows_analysis.aggregation.histogram import PRECISION_BITS
from narrows_formats.programs import COLLECTOR, SOFTSWITCH, find_binary

SWITCH = find_binary(SOFTSWITCH)
pytestmark = pytest.mark.needs(SOFTSWITCH, COLLECTOR)
LIMIT_BYTES = 500_000
DURATION_NS = 12_000_000
FLOWS = 40
INTERVAL_NS, QUEUE_INTERVAL_NS = 1_000_000, 100_000


@dataclass
class Trace:
    """A trace of known truth and what the analysis made of its reports."""

    rate_bps: int
    departures: list[Departure]
    dropped: list[Packet]
    out: Path
    summary: Any
    order: list[int]

    @property
    def origin_ns(self) -> int:
        return self.departures[0].packet.time_ns


@pytest.fixture(scope="module", params=[25, 50, 100], ids="{0}G".format)
def trace(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Trace:
    rate_bps = request.param * 1_000_000_000
    directory = tmp_path_factory.mktemp("line-rate")
    packets = line_rate.traffic(rate_bps, DURATION_NS, FLOWS, seed=request.param)
    line_rate.write_capture(directory / "in.pcap", packets)
    document = line_rate.configuration(rate_bps, LIMIT_BYTES, directory / "in.pcap")
    (directory / "replay.json").write_text(json.dumps(document))
    command = [SWITCH, "replay", "--config", directory / "replay.json", "--out", directory / "replayed"]
    subprocess.run([str(word) for word in command], check=True, capture_output=True)
    settings = SourceSettings(rate_bps=rate_bps, buffer_bytes=LIMIT_BYTES, interval_s=INTERVAL_NS / 1e9)
    summary: Any = analyze_source(directory / "replayed" / "reports.pcap", directory / "out", settings)
    departures, dropped = line_rate.fifo(packets, rate_bps, LIMIT_BYTES)
    # Drops after a flow's last departure are in no report.
    last = {departure.packet.flow: departure.packet.time_ns for departure in departures}
    dropped = [packet for packet in dropped if packet.time_ns < last[packet.flow]]
    sources = [f"10.0.{flow >> 8}.{flow & 255}" for flow in range(FLOWS)]
    order = [sources.index(flow["src"]) for flow in summary["flows"]]
    return Trace(rate_bps, departures, dropped, directory / "out", summary, order)


@pytest.mark.long
def test_no_report_is_missing_and_nothing_is_doubted(trace: Trace) -> None:
    assert trace.summary["telemetry"]["reports"] == len(trace.departures) > 20_000
    assert trace.summary["telemetry"]["lost"] == 0
    assert {warning["code"] for warning in trace.summary["warnings"]} <= {"unsaturated"}
    assert len(trace.dropped) > 1000 and sorted(trace.order) == list(range(FLOWS))


def test_every_flow_equals_the_truth(trace: Trace) -> None:
    for number, section in zip(trace.order, trace.summary["flows"], strict=True):
        mine = [departure for departure in trace.departures if departure.packet.flow == number]
        drops = sum(packet.flow == number for packet in trace.dropped)
        assert (section["departures"], section["drops"]) == (len(mine), drops)
        assert section["arrivals"] == len(mine) + drops
        assert section["loss_ratio"] == pytest.approx(drops / (len(mine) + drops))
        top, repeated, fresh = 0, 0, set()
        for departure in mine:
            repeated += departure.packet.offset < top
            top = max(top, departure.packet.offset + departure.packet.payload)
            fresh.add((departure.packet.offset, departure.packet.payload))
        assert section["bytes"] == sum(payload for _, payload in fresh)
        assert section["retransmit_ratio"] == pytest.approx(repeated / len(mine))
        start_s, end_s = mine[0].packet.time_ns - trace.origin_ns, mine[-1].time_ns - trace.origin_ns
        assert (section["start_s"], section["end_s"]) == pytest.approx((start_s / 1e9, end_s / 1e9), abs=1e-15)
        l2_bits = 8 * sum(departure.packet.length for departure in mine)
        assert section["throughput_bps"] == pytest.approx(l2_bits * 1e9 / (end_s - start_s), rel=1e-12)


def test_the_queue_equals_the_truth(trace: Trace) -> None:
    link = trace.summary["bottleneck"]
    delays = np.array([departure.time_ns - departure.packet.time_ns for departure in trace.departures])
    left = np.array([departure.left_bytes for departure in trace.departures])
    peak = max(d.found_bytes + (d.time_ns > d.packet.time_ns) * d.packet.length for d in trace.departures)
    assert link["drops"] == len(trace.dropped)
    assert link["loss_ratio"] == pytest.approx(len(trace.dropped) / (len(trace.dropped) + len(trace.departures)))
    for section, values, unit, maximum in (
        (link["queue_delay_s"], delays, 1e-9, delays.max()),
        (link["queue_bytes"], left, 1, peak),
    ):
        assert section["mean"] == pytest.approx(values.mean() * unit, rel=1e-14)
        assert section["max"] == pytest.approx(maximum * unit, rel=1e-14)
        for name, percent in (("p50", 50), ("p99", 99)):
            exact = np.percentile(values, percent, method="inverted_cdf") * unit
            assert section[name] == pytest.approx(exact, rel=2.0**-PRECISION_BITS)
    # Times are whole nanoseconds, and the shortest packet takes five.
    assert link["saturated_rate_bps"] == pytest.approx(trace.rate_bps, rel=5e-4)


def test_every_interval_equals_the_truth(trace: Trace) -> None:
    """Departures, bytes, delay and depth by departure; drops by the next arrival that got in of the same flow."""
    queue = pd.read_parquet(trace.out / "queue.parquet")
    times = np.array([departure.time_ns - trace.origin_ns for departure in trace.departures])
    lengths = np.array([departure.packet.length for departure in trace.departures])
    delays = np.array([departure.time_ns - departure.packet.time_ns for departure in trace.departures])
    bins = times // QUEUE_INTERVAL_NS
    n = len(queue)
    assert queue["departures"].tolist() == np.bincount(bins, minlength=n).tolist()
    bits = np.bincount(bins, weights=lengths * 8, minlength=n)
    np.testing.assert_allclose(queue["throughput_bps"] * QUEUE_INTERVAL_NS / 1e9, bits, rtol=1e-12)
    seen = queue["departures"] > 0
    mean = np.bincount(bins, weights=delays, minlength=n)[seen] / queue["departures"][seen]
    np.testing.assert_allclose(queue["delay_mean_s"][seen] * 1e9, mean, rtol=1e-12)
    assert queue["drops"].tolist() == np.bincount(shown_at(trace, None) // QUEUE_INTERVAL_NS, minlength=n).tolist()

    flows = pd.read_parquet(trace.out / "flows.parquet")
    for position, number in enumerate(trace.order):
        mine = flows[flows["flow"] == position]
        starts = np.round(mine["time_s"].to_numpy() * 1e9 / INTERVAL_NS).astype(int)
        own = np.array([departure.packet.flow == number for departure in trace.departures])
        counts = np.bincount(times[own] // INTERVAL_NS, minlength=starts.max() + 1)
        assert mine["departures"].tolist() == counts[starts].tolist() and counts.sum() == counts[starts].sum()
        drops = np.bincount(shown_at(trace, number) // INTERVAL_NS, minlength=starts.max() + 1)
        assert mine["drops"].tolist() == drops[starts].tolist()


def shown_at(trace: Trace, flow: int | None) -> np.ndarray:
    """For each drop (of a flow) the arrival of the next packet of its flow that got in, in ns from the origin."""
    found: list[np.ndarray] = []
    for number in range(FLOWS) if flow is None else [flow]:
        accepted = np.array([d.packet.time_ns for d in trace.departures if d.packet.flow == number])
        lost = np.array([packet.time_ns for packet in trace.dropped if packet.flow == number], dtype=np.int64)
        found.append(accepted[np.searchsorted(accepted, lost, side="left")] - trace.origin_ns)
    return np.concatenate(found)
