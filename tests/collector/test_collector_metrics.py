# SPDX-License-Identifier: Apache-2.0
"""What the collector serves to Prometheus, against the truth of a generated capture."""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from helpers import BINARY, collector
from narrows.run.collector_figures import figures_at
from prometheus_client.parser import text_string_to_metric_families

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]
LE = "le"


def scrape(path: Path) -> Samples:
    """Every sample by name and labels."""
    samples = [sample for family in text_string_to_metric_families(figures_at(path)) for sample in family.samples]
    found = {(sample.name, frozenset(sample.labels.items())): sample.value for sample in samples}
    assert len(found) == len(samples), "a sample is there twice"
    return found


@contextmanager
def collecting(capture: Path, directory: Path, reports: int, *options: str) -> Iterator[Samples]:
    """A collector that has taken the capture in from a pipe."""
    pipe, metrics = directory / "pipe", directory / "metrics"
    os.mkfifo(pipe)
    files = ("--pipe", str(pipe), "--out", str(directory / "out"))
    command = [str(BINARY), "collect", *files, "--metrics", f"unix:{metrics}", "--depth-unit-bytes", "1", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == b"ready\n"
            assert not scrape(metrics)
            with pipe.open("wb") as file:
                file.write(capture.read_bytes())
                file.flush()
                end = time.monotonic() + 30
                while (samples := scrape(metrics)).get(of("narrows_reports_total", bottleneck="0"), 0) < reports - 300:
                    assert time.monotonic() < end, "reports do not arrive"
                    time.sleep(0.1)
                # Rows reach observers within a second of their reception.
                while _total(samples, "narrows_flow_departures_packets_total") < reports:
                    assert time.monotonic() < end, "flows do not arrive"
                    time.sleep(0.1)
                    samples = scrape(metrics)
                yield samples
        finally:
            process.terminate()
            assert process.wait(60) == 0


def of(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    """The key of a sample."""
    return name, frozenset(labels.items())


def _total(samples: Samples, name: str, **labels: str) -> float:
    return sum(value for key, value in samples.items() if key[0] == name and labels.items() <= dict(key[1]).items())


def _generated(directory: Path, *options: str) -> tuple[Path, dict[str, Any]]:
    capture, truth = directory / "trace.pcap", directory / "truth.json"
    assert collector("generate", *options, "--truth", truth, capture).returncode == 0
    result: dict[str, Any] = json.loads(truth.read_text())["bottlenecks"][0]
    return capture, result


# A collector is started for each.
LOADS = max(1, int(os.environ.get("NARROWS_CASES", "25")) // 5)


@pytest.mark.parametrize("number", range(LOADS))
def test_values_are_the_truth_to_the_packet(tmp_path: Path, number: int) -> None:
    chance = random.Random(number)
    reports = chance.randint(5_000, 40_000)
    load = ["--flows", str(chance.randint(2, 50)), "--rate-bps", str(chance.choice([10**8, 10**9]))]
    load += ["--buffer-bytes", str(chance.choice([20_000, 60_000])), "--ecn-threshold-bytes", "10000"]
    options = ("--reports", str(reports), "--loss-one-in", str(chance.randint(10, 50)), *load)
    capture, truth = _generated(tmp_path, *options)
    with collecting(capture, tmp_path, reports) as samples:
        pass
    drops = 0
    for flow in truth["flows"]:
        index = str(flow["flow"])
        values = {
            name: _total(samples, f"narrows_flow_{name}_total", flow=index)
            for name in ("departures_packets", "marks_packets", "reported_bytes")
        }
        lost = {cause: _total(samples, "narrows_flow_drops_packets_total", flow=index, cause=cause)
                for cause in ("tail", "loss")}  # fmt: skip
        assert values["marks_packets"] == flow["ce_marks"] and values["reported_bytes"] == flow["bytes"]
        assert values["departures_packets"] == flow["departures"]
        assert lost == {"tail": flow["drops"], "loss": flow["loss_drops"]}
        arrivals = _total(samples, "narrows_flow_arrivals_packets_total", flow=index)
        assert arrivals == flow["departures"] + flow["drops"]
        drops += flow["drops"]
    assert drops > 100 and truth["delay_max"] > 0
    assert any(key[0] == "narrows_flow_arrivals_packets_total" and ("dst_port", "5201") in key[1] for key in samples)
    name = "narrows_link_queue_delay_seconds"
    assert samples[of(f"{name}_count", bottleneck="0")] == truth["departures"]
    assert 0 <= samples[of("narrows_link_queue_depth_bytes", bottleneck="0")] <= truth["depth_max"]
    assert samples[of(f"{name}_sum", bottleneck="0")] == pytest.approx(truth["delay_sum"] * 1e-9)
    buckets = sorted(
        (float(dict(labels)[LE]), value) for (sample, labels), value in samples.items() if sample == f"{name}_bucket"
    )
    assert [value for _, value in buckets] == sorted(value for _, value in buckets)
    # The greatest delay lies in the last bucket that grows.
    full = next(edge for edge, value in buckets if value == truth["departures"])
    below = max(edge for edge, _ in buckets if edge < full)
    assert below < truth["delay_max"] * 1e-9 <= full < float("inf")


def test_sixty_thousand_flows_are_a_thousand_and_the_others(tmp_path: Path) -> None:
    capture, truth = _generated(tmp_path, "--reports", "120000", "--flows", "60000", "--loss-one-in", "50")
    with collecting(capture, tmp_path, 120000) as samples:
        pass
    seen = sum(1 for flow in truth["flows"] if flow["departures"])
    assert samples[of("narrows_link_flows", bottleneck="0")] == seen > 40000
    name = "narrows_flow_departures_packets_total"
    assert sum(1 for key in samples if key[0] == name) == 1001
    assert _total(samples, name) == 120000
    lost = sum(flow["loss_drops"] for flow in truth["flows"])
    assert _total(samples, "narrows_flow_drops_packets_total", cause="loss") == lost > 0
    # Eleven counters of a flow, seven of them of drops by cause, and what does not grow with flows.
    assert len(samples) < 11 * 1001 + 150


def test_an_address_that_is_taken_is_refused(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    os.mkfifo(tmp_path / "pipe")
    where = f"unix:{tmp_path}/taken"
    result = collector("collect", "--pipe", tmp_path / "pipe", "--out", tmp_path / "out", "--metrics", where)
    assert result.returncode == 2
    assert "--metrics unix:" in result.stderr and "in use" in result.stderr
    assert not (tmp_path / "out").exists()
