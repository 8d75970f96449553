# SPDX-License-Identifier: Apache-2.0
"""``narrows run --metrics``: the page on made-up counters, and a real run that a real Prometheus reads."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from narrows.cli import app
from narrows.errors import InputError
from narrows.experiment.loader import load
from narrows.experiment.planning import make_plan
from narrows.live.metrics import MetricsPage
from narrows.switch.readings import QueueStats
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

NARROWS = Path(sys.executable).with_name("narrows")
NOBODY = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
EXPERIMENT = {
    "name": "scraped",
    "bottleneck": {"rate": "20Mbit", "buffer": "0.5bdp", "rtt": "20ms"},
    "flows": [{"cca": "bbr", "duration": "3s"}, {"cca": "cubic", "duration": "3s"}],
}
DASHBOARD = json.loads((Path(__file__).resolve().parents[2] / "deploy/grafana-dashboard.json").read_text())
QUEUE = QueueStats(
    port=1, queue=0, rate_bps=20_000_000, limit_bytes=50_000, limit_packets=0, delay_ns=0, epoch=1,
    enqueued_packets=11, enqueued_bytes=15_000, dequeued_packets=10, dequeued_bytes=14_000, dropped_packets=3,
    dropped_bytes=4_000, depth_packets=1, depth_bytes=1_000, peak_depth_bytes=2_000,
)  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The experiment."""
    path = tmp_path / "experiment.yaml"
    path.write_text(yaml.safe_dump(EXPERIMENT))
    return path


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_another_site_whose_name_resolves_to_this_machine_is_refused() -> None:
    with MetricsPage("127.0.0.1:0") as page:
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(urllib.request.Request(page.url, headers={"Host": "attacker.example"}))
        with urllib.request.urlopen(urllib.request.Request(page.url, headers={"Host": "localhost"})) as answer:
            assert answer.status == 200


def test_the_page_has_what_the_switch_says_and_nothing_else(file: Path) -> None:
    with MetricsPage("127.0.0.1:0") as page:

        def samples() -> dict[str, float]:
            with urllib.request.urlopen(page.url) as answer:
                families = text_string_to_metric_families(answer.read().decode())
            found = [sample for family in families for sample in family.samples]
            assert all(sample.labels == {"bottleneck": "0", "link": "bottleneck"} for sample in found)
            return {sample.name.removeprefix("narrows_"): sample.value for sample in found}

        assert samples() == {}
        page.begin(make_plan(load(file)), None)
        assert samples() == {"link_info": 1}
        page.queues({"bottleneck": QUEUE})
        everything = samples()
        assert everything.pop("queue_dequeued_bytes_total") == 14_000 and len(everything) == 10
        page.queues({"bottleneck": replace(QUEUE, depth_bytes=None, dropped_packets=None)})
        assert set(everything) - set(samples()) == {"queue_depth_bytes", "queue_drops_packets_total"}
        page.begin(make_plan(load(file)), None)
        assert samples() == {"link_info": 1}


@pytest.mark.parametrize("address", ["nowhere", ":1", "127.0.0.1:", "127.0.0.1:65536", "192.0.2.1:9464"])
def test_an_address_that_cannot_be_had_is_refused(address: str) -> None:
    with pytest.raises(InputError, match=r"--metrics-address .*allowed: "):
        MetricsPage(address)


def test_virtual_time_is_refused(file: Path) -> None:
    result = CliRunner().invoke(app, ["run", str(file), "--virtual", "--metrics"])
    assert isinstance(result.exception, InputError)
    assert "--metrics: Prometheus cannot follow a clock that jumps" in str(result.exception)


@pytest.fixture
def prometheus(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """A Prometheus: the address that it reads every half a second, and the URL of its queries."""
    target, own = (f"127.0.0.1:{_free_port()}" for _ in range(2))
    directory = Path(f"/var/tmp/narrows-prometheus-{os.getpid()}")
    directory.mkdir()
    shutil.chown(directory, 65534, 65534)
    settings = {
        "global": {"scrape_interval": "500ms"},
        "scrape_configs": [{"job_name": "narrows", "static_configs": [{"targets": [target]}]}],
    }
    (directory / "prometheus.yml").write_text(yaml.safe_dump(settings))
    options = (f"--config.file={directory}/prometheus.yml", f"--storage.tsdb.path={directory}/data")
    command = [*NOBODY, "prometheus", *options, f"--web.listen-address={own}"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield target, f"http://{own}/api/v1/query"
    finally:
        process.terminate()
        process.wait(20)
        shutil.rmtree(directory)


def _ask(url: str, query: str) -> list[dict[str, Any]]:
    with urllib.request.urlopen(f"{url}?{urllib.parse.urlencode({'query': query})}", timeout=10) as answer:
        found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
    return found


@pytest.mark.needs("root", "narrows-softswitch", "narrows-collector", "iperf3", "prometheus")
def test_prometheus_has_the_summary_to_the_packet(file: Path, tmp_path: Path, prometheus: tuple[str, str]) -> None:
    target, url = prometheus
    out = tmp_path / "results"
    command = (NARROWS, "run", str(file), "--metrics-address", target, "--out", str(out))
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    assert f"metrics: http://{target}/metrics" in ended.stderr
    summary = json.loads((out / "summary.json").read_text())
    time.sleep(0.1)

    def last(name: str, selector: str = "") -> dict[str, int]:
        found = _ask(url, f"last_over_time(narrows_{name}{{{selector}}}[5m])")
        return {sample["metric"].get("src", ""): int(sample["value"][1]) for sample in found}

    expected = {name: {flow["src"]: flow[name] for flow in summary["flows"]}
                for name in ("arrivals", "departures", "drops")}  # fmt: skip
    assert last("flow_arrivals_packets_total") == expected["arrivals"]
    assert last("flow_departures_packets_total") == expected["departures"]
    assert last("flow_drops_packets_total", 'cause="tail"') == expected["drops"]
    assert sum(expected["drops"].values()) == last("queue_drops_packets_total")[""] > 0
    assert last("reports_total")[""] == last("link_queue_delay_seconds_count")[""] == summary["telemetry"]["reports"]
    assert last("reports_lost_total") == {"": 0}
    assert last("queue_rate_bits_per_second") == {"": 20_000_000}
    for panel in DASHBOARD["panels"]:
        for shown in panel["targets"]:
            assert shown["datasource"] == panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
            query = shown["expr"].replace("$__rate_interval", "5s").replace("$link", ".*")
            # A subquery over the whole run.
            assert _ask(url, f"max_over_time(({query})[1m:500ms])"), f"{panel['title']}: {query}"
    (delay,) = _ask(url, "last_over_time(narrows_link_queue_delay_seconds_sum[5m])")
    mean = float(delay["value"][1]) / summary["telemetry"]["reports"]
    assert mean == pytest.approx(summary["bottleneck"]["queue_delay_s"]["mean"], rel=1e-9)
