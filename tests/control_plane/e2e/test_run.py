# SPDX-License-Identifier: Apache-2.0
"""Real runs: namespaces, the softswitch, flows and the collector. Needs root and the built binaries."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import pytest
import yaml
from narrows.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK
from narrows.hosts.process import only_waits_for_children, start_time
from narrows.hosts.state import STATE_ROOT, RunState, existing_namespaces, namespace_pids
from narrows_analysis import load
from narrows_formats.programs import COLLECTOR, SOFTSWITCH

pytestmark = pytest.mark.needs("root", SOFTSWITCH, COLLECTOR)

NARROWS = [sys.executable, "-c", "from narrows.cli import main; main()"]
RATE_BPS = 20_000_000
RTT_S = 0.02
# By how much a machine that does other things may be slower.
BUSY = 5
# Until a process that is ready is given a processor, on a machine that does other things: less than a round trip of the
# long path, so that one more shows.
LATE_S = 0.4
EXPERIMENT: dict[str, Any] = {
    "name": "e2e",
    "bottleneck": {"rate": "20Mbit", "rtt": "20ms", "buffer": "1bdp"},
    "flows": [{"cca": "cubic", "count": 2, "duration": "5s"}, {"cca": "reno", "duration": "3s", "start": "1s"}],
}


def write(path: Path, **changes: Any) -> Path:
    file = path / "experiment.yaml"
    file.write_text(yaml.safe_dump({**EXPERIMENT, **changes}))
    return file


class Running:
    """A ``narrows run`` in the background, with the record of its run and of every process it ever started."""

    started: ClassVar[list[subprocess.Popen[bytes]]] = []

    def __init__(self, file: Path, out: Path, *options: str) -> None:
        self._printed = file.parent / f"{out.name}.printed"
        with self._printed.open("w") as printed:
            command = [*NARROWS, "run", str(file), "--out", str(out), *options]
            self.process = subprocess.Popen(command, stdout=printed, stderr=subprocess.STDOUT)
        Running.started.append(self.process)
        self.state = wait_for(self._load, 60)
        self.processes: dict[int, int] = {}

    def _load(self) -> RunState | None:
        states = (RunState.load(path) for path in STATE_ROOT.glob("*.json"))
        return next((state for state in states if state.owner_pid == self.process.pid), None)

    def observe(self) -> None:
        """Note the processes that are on record now."""
        with contextlib.suppress(OSError, ValueError):
            state = self._load()
            if state is not None:
                self.processes |= {int(pid): started for pid, started in state.processes.items()}

    def wait_for_traffic(self) -> None:
        wait_for(lambda: ": traffic (" in self._printed.read_text(), 90)
        time.sleep(1.5)
        self.observe()

    def live_page(self) -> str:
        """The address that it says its page is at."""
        found = wait_for(lambda: re.search(r"live view: (\S+)", self._printed.read_text()), 60)
        return str(found[1])

    def finish(self, seconds: float) -> str:
        """Wait for its end and return what it printed."""
        deadline = time.monotonic() + BUSY * seconds
        while self.process.poll() is None:
            assert time.monotonic() < deadline, self._printed.read_text()
            self.observe()
            time.sleep(0.1)
        return self._printed.read_text()

    def left_over(self) -> list[str]:
        """Namespaces, processes, links and records of the run that still exist."""
        found = [name for name in existing_namespaces() if self.state.run_id in name]
        # The first process of a PID namespace that has ended may wait until this machine's init reaps those in it.
        found += [
            f"process {pid}"
            for pid, started in self.processes.items()
            if start_time(pid) == started and not only_waits_for_children(pid)
        ]
        # A veth end whose namespace went away without it would be in this one.
        links = subprocess.run(["ip", "-brief", "link"], capture_output=True, text=True, check=True).stdout
        found += [line for line in links.splitlines() if line.startswith("port")]
        found += [str(path) for path in STATE_ROOT.glob(f"{self.state.run_id}*")]
        return found


@pytest.fixture(autouse=True)
def no_run_goes_on() -> Iterator[None]:
    """A test that fails takes its runs with it: they would disturb the next one's."""
    yield
    for process in Running.started:
        if process.poll() is None:
            process.terminate()
            process.wait(60)
    Running.started.clear()


def wait_for(condition: Any, seconds: float) -> Any:
    deadline = time.monotonic() + BUSY * seconds
    while time.monotonic() < deadline:
        try:
            if value := condition():
                return value
        except (OSError, ValueError):
            pass
        time.sleep(0.02)
    raise AssertionError("waited too long")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], str]:
    """One complete run: its directory, its run.json and what it printed."""
    directory = tmp_path_factory.mktemp("run")
    out = directory / "result"
    running = Running(write(directory), out)
    printed = running.finish(120)
    assert running.process.returncode == EXIT_OK, printed
    assert len(running.processes) >= 8, "the first of all, switch, collector, receiver, two senders, two samplers"
    assert running.left_over() == []
    return out, json.loads((out / "run.json").read_text()), printed


@pytest.mark.long
def test_a_run_is_complete_and_says_what_it_was(finished: tuple[Path, dict[str, Any], str]) -> None:
    out, run, printed = finished
    assert run["status"] == "complete"
    assert run["links"][0]["rate_bps"] == RATE_BPS
    assert run["links"][0]["buffer_bytes"] == RATE_BPS * RTT_S / 8
    assert [(flow["cca"], flow["started_s"] >= flow["start_s"]) for flow in run["flows"]] == [
        ("cubic", True),
        ("cubic", True),
        ("reno", True),
    ]
    offloads = run["host"]["testbed"]["offloads"]
    assert len(offloads) == 8
    for interface in offloads.values():
        # The switch completes checksums, so that hosts need not copy what they send.
        assert {name for name, value in interface.items() if value == "on"} == {"tx-checksumming", "scatter-gather"}
    counters = run["host"]["testbed"]["kernel_counters"]
    # A sender sees no reordering: what the receiver got out of order was a loss.
    assert all("TcpExtTCPSACKReorder" not in of_host for of_host in counters.values())
    records = [json.loads((out / flow["record"]).read_text()) for flow in run["flows"]]
    assert [(one["congestion_control"], one["ending"]) for one in records] == [
        ("cubic", "time_over"),
        ("cubic", "time_over"),
        ("reno", "time_over"),
    ]
    again = sum(one["retransmits"] for one in records)
    # Flows end before the last retransmissions.
    senders = sum(one.get("TcpRetransSegs", 0) for name, one in counters.items() if name != "receiver")
    assert len(counters) == 3 and 0 < again <= senders < again + 500
    for name in ("experiment.yaml", "summary.json", "flows.parquet", "queue.parquet", "report.html"):
        assert (out / name).stat().st_size > 0
    assert not [path for path in (out, *out.rglob("*")) if path.stat().st_mode & 0o002], "others can write to it"
    made = sorted(path.name for path in (out / "hosts").iterdir())
    assert made == ["cubic-1.json", "cubic-2.json", "reno-1.json", "sockets.parquet"]
    assert run["clock_origin_source"] == "switch clock"
    # The switch's clock is this machine's monotonic one.
    calendar_ns = time.time_ns() - time.monotonic_ns()
    assert abs(run["clock_origin_unix_ns"] - run["clock_origin_ns"] - calendar_ns) < 10_000_000
    assert str(out / "report.html") in printed
    assert [path.name for path in out.parent.iterdir() if path.name.startswith(".")] == []


def test_the_identity_holds(finished: tuple[Path, dict[str, Any], str]) -> None:
    """Drops by telemetry equal the traffic manager's own counts, flow by flow and in sum, and there were some."""
    _, run, _ = finished
    assert run["drop_cross_check"]["bottleneck"]["problems"] == []
    assert run["drop_cross_check"]["bottleneck"]["holds"]
    assert (
        run["drop_cross_check"]["bottleneck"]["sum_of_flows"] == run["drop_cross_check"]["bottleneck"]["port_drops"] > 0
    )
    assert run["losses_elsewhere"] == []
    queue = next(queue for queue in run["traffic_manager"]["queues"] if queue["rate_bps"] == RATE_BPS)
    assert queue["dropped_packets"] == run["drop_cross_check"]["bottleneck"]["port_drops"]
    assert queue["peak_depth_bytes"] <= queue["limit_bytes"] == run["links"][0]["buffer_bytes"]


def test_the_bottleneck_is_what_was_asked(finished: tuple[Path, dict[str, Any], str]) -> None:
    out, _, _ = finished
    summary = json.loads((out / "summary.json").read_text())
    assert summary["telemetry"]["lost"] == 0
    assert summary["bottleneck"]["loss_ratio"] > 0
    goodput = sum(group["goodput_bps"] for group in summary["groups"])
    assert 0.7 * RATE_BPS < goodput < 1.1 * RATE_BPS
    assert all(RTT_S <= flow["rtt_s"]["min"] < RTT_S + 0.03 for flow in summary["flows"])


@pytest.mark.parametrize(
    "number", [signal.SIGINT, *(pytest.param(each, marks=pytest.mark.long) for each in (signal.SIGTERM, signal.SIGHUP))]
)
@pytest.mark.fault("interrupted", "traffic", "real")
def test_interrupted_run_keeps_what_it_measured(tmp_path: Path, number: signal.Signals) -> None:
    out = tmp_path / "result"
    running = Running(write(tmp_path, flows=[{"cca": "cubic", "duration": "60s"}]), out)
    running.wait_for_traffic()
    running.process.send_signal(number)
    printed = running.finish(60)
    assert running.process.returncode == EXIT_INTERRUPTED, printed
    assert running.left_over() == []
    run = json.loads((out / "run.json").read_text())
    assert (run["status"], run["reason"]) == ("partial", f"interrupted by {number.name}")
    assert run["drop_cross_check"]["bottleneck"]["holds"], run["drop_cross_check"]["bottleneck"]
    assert json.loads((out / "summary.json").read_text())["telemetry"]["reports"] > 100


@pytest.mark.fault("interrupted", "set-up", "real")
def test_interrupted_before_traffic_keeps_nothing(tmp_path: Path) -> None:
    out = tmp_path / "result"
    running = Running(write(tmp_path), out)
    running.process.send_signal(signal.SIGINT)
    printed = running.finish(60)
    assert running.process.returncode == EXIT_INTERRUPTED, printed
    assert running.left_over() == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["experiment.yaml", "result.printed"]


@pytest.mark.long
@pytest.mark.fault("killed", "traffic", "real")
def test_clean_after_a_kill(tmp_path: Path) -> None:
    """SIGKILL leaves everything behind; clean removes it, and never touches another run."""
    flows = [{"cca": "cubic", "duration": "60s"}]
    killed = Running(write(tmp_path, flows=flows), tmp_path / "killed")
    killed.wait_for_traffic()
    alive = Running(write(tmp_path, flows=flows), tmp_path / "alive")
    alive.wait_for_traffic()
    try:
        killed.process.kill()
        killed.process.wait(10)
        assert killed.left_over() != []
        result = subprocess.run([*NARROWS, "clean"], capture_output=True, text=True)
        assert result.returncode == EXIT_OK, result.stderr
        assert f"removed namespace narrows-{killed.state.run_id}-switch" in result.stdout
        assert killed.left_over() == []
        assert f"skipped: run {alive.state.run_id} is still running" in result.stdout
        assert namespace_pids(alive.state.namespace("sender0"))
    finally:
        alive.process.send_signal(signal.SIGINT)
        alive.finish(60)
    assert alive.process.returncode == EXIT_INTERRUPTED
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "alive",
        "alive.printed",
        "experiment.yaml",
        "killed.printed",
    ]


@pytest.mark.long
def test_sweep_makes_a_directory_of_runs(tmp_path: Path) -> None:
    out = tmp_path / "sweep"
    file = write(tmp_path, flows=[{"cca": "cubic", "size": "1MB"}], sweep={"bottleneck.buffer": ["20packets", "50kB"]})
    result = subprocess.run([*NARROWS, "run", str(file), "--out", str(out)], capture_output=True, text=True)
    assert result.returncode == EXIT_OK, result.stdout + result.stderr
    runs = [json.loads(path.read_text()) for path in sorted(out.glob("*/run.json"))]
    assert [run["links"][0]["buffer_packets"] for run in runs] == [20, None]
    assert [run["links"][0]["buffer_bytes"] for run in runs] == [None, 50_000]
    assert all(run["flows"][0]["bytes_sent"] == 1_000_000 for run in runs)
    manifest = json.loads((out / "sweep.json").read_text())
    assert [run["parameters"]["bottleneck.buffer"] for run in manifest["runs"]] == ["20packets", "50kB"]
    assert "bottleneck.buffer" in (out / "report.html").read_text()
    table = pd.read_parquet(out / "sweep.parquet")
    assert list(table["bottleneck.buffer"]) == ["20packets", "50kB"]
    assert list(table["buffer_packets"].dropna()) == [20]
    assert list(table["buffer_bytes"].dropna()) == [50_000]
    assert (table["goodput_bps"] > 0).all()


@pytest.mark.fault("switch killed", "traffic", "real")
def test_a_switch_that_dies_fails_the_run(tmp_path: Path) -> None:
    out = tmp_path / "result"
    running = Running(write(tmp_path, flows=[{"cca": "cubic", "duration": "60s"}]), out)
    running.wait_for_traffic()
    (switch,) = namespace_pids(running.state.namespace("switch"))
    os.kill(switch, signal.SIGKILL)
    printed = running.finish(60)
    assert running.process.returncode == EXIT_FAILED, printed
    assert running.left_over() == []
    run = json.loads((out / "run.json").read_text())
    assert run["status"] == "failed"
    assert "the softswitch ended with exit code -9" in run["reason"]


@pytest.mark.long
def test_ipv6_loss_and_sampling(tmp_path: Path) -> None:
    """Settings of the program that the other runs leave at their defaults."""
    out = tmp_path / "result"
    bottleneck = {**EXPERIMENT["bottleneck"], "loss": "1%"}
    flows = [{"cca": "cubic", "duration": "4s"}]
    file = write(tmp_path, bottleneck=bottleneck, flows=flows, ip_version=6, telemetry={"sample": 4})
    result = subprocess.run([*NARROWS, "run", str(file), "--out", str(out)], capture_output=True, text=True)
    assert result.returncode == EXIT_OK, result.stdout + result.stderr
    run = json.loads((out / "run.json").read_text())
    assert run["flows"][0]["src"] == "2001:2::3"
    assert run["drop_cross_check"]["bottleneck"]["sum_of_flows"] == run["drop_cross_check"]["bottleneck"]["port_drops"]
    summary = json.loads((out / "summary.json").read_text())
    assert summary["telemetry"]["sample"] == 4
    assert summary["telemetry"]["lost"] == 0
    assert 0.004 < summary["flows"][0]["loss_emulation_drops"] / summary["flows"][0]["arrivals"] < 0.02


@pytest.mark.long
def test_flows_start_on_time_on_a_long_slow_path(tmp_path: Path) -> None:
    """A connection takes its handshake and nothing more: the SYN is there at once, data a round trip later."""
    out, rtt_s, rate_bps = tmp_path / "result", 0.5, 10_000_000
    flows = [{"cca": "cubic", "count": 3, "stagger": "1s", "duration": "5s"}]
    running = Running(
        write(tmp_path, bottleneck={"rate": "10Mbit", "rtt": "500ms", "buffer": "1bdp"}, flows=flows), out
    )
    printed = running.finish(90)
    assert running.process.returncode == EXIT_OK, printed
    found = load(out)
    reports = found.reports()
    # What a SYN may wait for: until the last one the first flow's window is at most 80 segments (10, doubled each round
    # trip from the first one's end on), and the second's 20.
    waiting_s = 100 * 1514 * 8 / rate_bps
    for number, flow in enumerate(found.run.flows):
        start_s = float(number)
        assert flow.late_s < LATE_S and flow.ended_s == pytest.approx(start_s + 5, abs=LATE_S)
        own = reports[reports["flow"] == number]
        assert start_s <= own["arrival_s"].min() < start_s + LATE_S
        data_s = own.loc[own["payload_bytes"] > 0, "arrival_s"].min()
        assert start_s + rtt_s <= data_s < start_s + waiting_s + rtt_s + LATE_S


@pytest.mark.long
def test_idle_rtt_is_the_one_that_was_set(tmp_path: Path) -> None:
    """Before its flow starts, the path answers within 1 ms of the set RTT."""
    out = tmp_path / "result"
    flows = [{"cca": "cubic", "duration": "1s", "start": "5s", "rtt": "33ms"}]
    running = Running(write(tmp_path, flows=flows), out)
    sender = running.state.namespace("sender0")
    running.wait_for_traffic()
    command = ["ip", "netns", "exec", sender, "ping", "-c", "20", "-i", "0.1", "198.18.0.1"]
    answers = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    times = [float(text) for text in re.findall(r"time=([0-9.]+) ms", answers)]
    printed = running.finish(60)
    assert running.process.returncode == EXIT_OK, printed
    assert len(times) == 20
    # No answer is early; those of a busy machine may be late, all of them hardly.
    assert 33 <= min(times) < 34, times
