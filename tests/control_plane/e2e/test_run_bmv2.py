# SPDX-License-Identifier: Apache-2.0
"""Real runs on BMv2. Needs root, the built binaries and simple_switch_grpc."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import finsy
import narrows_analysis
import pandas as pd
import pytest
import yaml
from narrows.errors import EXIT_FAILED, EXIT_OK
from narrows.hosts.links import call_inside, links
from narrows.hosts.state import STATE_ROOT, RunState, existing_namespaces, namespace_pids
from narrows.targets.bmv2.simple_switch import EXECUTABLE
from narrows_formats.programs import COLLECTOR, SOFTSWITCH
from needs import python_for_all

pytestmark = pytest.mark.needs("bmv2", "root", SOFTSWITCH, COLLECTOR)

ROOT = Path(__file__).parents[3]
NARROWS = [sys.executable, "-c", "from narrows.cli import main; main()"]
PACKETS_S = 991
RATE_BPS = PACKETS_S * 8 * 1514
RTT_S = 0.02
FLOWS = [{"cca": "cubic", "duration": "5s"}, {"cca": "bbr", "duration": "5s", "rtt": "30ms"}]


def start(directory: Path, **changes: Any) -> subprocess.Popen[str]:
    """``narrows run --target bmv2`` in the background; results in ``directory``/result."""
    bottleneck = {"rate": "12Mbit", "rtt": "20ms", "buffer": "1bdp", **changes}
    file = directory / "experiment.yaml"
    file.write_text(yaml.safe_dump({"name": "bmv2", "bottleneck": bottleneck, "flows": FLOWS}))
    return start_file(file)


def start_file(file: Path) -> subprocess.Popen[str]:
    """The same of an experiment file; results in its directory."""
    directory = file.parent
    command = [*NARROWS, "run", str(file), "--target", "bmv2", "--out", str(directory / "result")]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def state_of(process: subprocess.Popen[str]) -> RunState | None:
    for path in STATE_ROOT.glob("*.json"):
        try:
            state = RunState.load(path)
        except (OSError, ValueError):
            continue
        if state.owner_pid == process.pid:
            return state
    return None


def wait_for(condition: Callable[[], Any], seconds: float = 60) -> Any:
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.05)
    return value


def in_traffic(process: subprocess.Popen[str]) -> RunState:
    """Wait until packets of the experiment pass BMv2."""
    state: RunState = wait_for(lambda: state_of(process))
    switch = state.namespace("switch")
    wait_for(lambda: switch in existing_namespaces())
    wait_for(lambda: "bmv3" in links(switch) and links(switch)["bmv3"].rx_packets > 200)
    return state


def left_over(state: RunState) -> list[str]:
    found = [name for name in existing_namespaces() if state.run_id in name]
    found += [str(path) for path in STATE_ROOT.glob(f"{state.run_id}*")]
    names = subprocess.run(["ip", "-brief", "link"], capture_output=True, text=True, check=True).stdout
    return found + [line for line in names.splitlines() if line.startswith(("port", "line", "bmv"))]


def test_a_run_on_bmv2_measures_and_leaves_nothing(tmp_path: Path) -> None:
    process = start(tmp_path)
    state = in_traffic(process)
    listening = subprocess.run(["ss", "-Htln", "sport = :9090"], capture_output=True, text=True, check=True).stdout
    assert "0.0.0.0:9090" not in listening, "Thrift is to be heard in the switch's namespace only"
    printed, _ = process.communicate(timeout=120)
    assert process.returncode == EXIT_OK, printed
    assert left_over(state) == []
    assert f"{PACKETS_S} packets/s are" in printed
    out = tmp_path / "result"
    run = json.loads((out / "run.json").read_text())
    assert (run["status"], run["losses_elsewhere"]) == ("complete", [])
    assert (run["target_profile"]["time_unit_s"], run["target_profile"]["depth_unit"]) == (1e-6, "packets")
    bottleneck = run["links"][0]
    assert (bottleneck["rate_packets_s"], bottleneck["rate_bps"]) == (PACKETS_S, RATE_BPS)
    assert (bottleneck["buffer_packets"], bottleneck["buffer_bytes"]) == (19, None)
    # Arrivals, departures and drops close to the packet, from the senders' interfaces to the receiver's.
    assert run["drop_cross_check"]["bottleneck"]["problems"] == []
    assert [balance["lost"] for balance in run["balances"]] == [0, 0, 0]
    entered, left = run["balances"][0]["left"], run["balances"][1]["entered"]
    assert entered - left == run["drop_cross_check"]["bottleneck"]["sum_of_flows"] > 0
    assert (out / "report.html").stat().st_size > 0
    summary = json.loads((out / "summary.json").read_text())
    assert summary["telemetry"]["lost"] == 0
    assert summary["telemetry"]["reports"] == left
    assert sum(flow["drops"] for flow in summary["flows"]) <= entered - left
    assert {warning["code"] for warning in summary["warnings"]}.isdisjoint({"drops_disagree", "lost_elsewhere"})
    # The shaper's rate, the queue's limit and the delay line's RTTs are what was set.
    assert 0.5 * RATE_BPS < sum(group["goodput_bps"] for group in summary["groups"]) < RATE_BPS
    reports = pd.concat(pd.read_parquet(path) for path in sorted(out.glob("telemetry/reports-*.parquet")))
    assert reports["enqueue_depth"].max() == 18, "the 20th packet finds 19 and is dropped"
    assert all(
        rtt <= flow["rtt_s"]["min"] < rtt + 0.05 for rtt, flow in zip((RTT_S, 0.03), summary["flows"], strict=True)
    )


@pytest.fixture
def example() -> Iterator[Path]:
    """The examples of own programs, where the user of a controller can read them: pytest's directories are closed."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        yield Path(shutil.copytree(ROOT / "experiments" / "own-program", Path(directory) / "example"))


def test_a_program_of_a_users_is_measured_by_what_leaves_it(example: Path) -> None:
    file = example / "cubic-and-bbr.yaml"
    text = file.read_text().replace("20s", "4s").replace("20Mbit", "12Mbit")
    file.write_text(text.replace("    entries:", '    watch: ["next_signals[3]"]\n    entries:'))
    process = start_file(file)
    state = wait_for(lambda: state_of(process))
    printed, _ = process.communicate(timeout=120)
    assert process.returncode == EXIT_OK, printed
    assert left_over(state) == []
    out = example / "result"
    record, summary = (json.loads((out / name).read_text()) for name in ("run.json", "summary.json"))
    assert (record["status"], record["losses_elsewhere"], record["drop_cross_check"]) == ("complete", [], {})
    assert record["links"][0]["rate_packets_s"] == PACKETS_S
    codes = {warning["code"] for warning in summary["warnings"]}
    assert codes & {"queue_unreported", "depth_estimated", "drops_disagree", "lost_elsewhere"} == {"queue_unreported"}
    link = summary["bottleneck"]
    assert 0.95 < link["utilization"] <= 1.02
    # 12 Mbit/s for 4 s, of frames that carry 1448 B of 1514 B.
    assert 0.9 * 12e6 * 1448 / 1514 < sum(flow["goodput_bps"] for flow in summary["flows"]) < RATE_BPS
    assert all(0.02 <= flow["rtt_s"]["min"] < 0.07 for flow in summary["flows"])
    # What only BMv2 knows.
    unknown = ("drops", "loss_ratio", "ce_marks", "standing_queue_bytes", "saturated_rate_bps", "drops_after_reports")
    assert [link[name] for name in unknown] == [None] * len(unknown)
    assert {*link["queue_delay_s"].values(), *link["queue_bytes"].values()} == {None}
    assert all(flow[name] is None for flow in summary["flows"] for name in ("arrivals", "drops", "ce_marks"))
    data = narrows_analysis.load(str(out))
    assert {"queue_delay_s", "enqueue_depth_bytes", "ce_marked", "arrivals"}.isdisjoint(data.reports().columns)
    assert data.queue[["depth_mean_bytes", "delay_max_s", "drops", "ce_marks"]].isna().all(axis=None)
    assert data.flows[["queue_delay_mean_s", "drops", "ce_marks", "loss_ratio"]].isna().all(axis=None)
    # BBR's queue is above the program's target of 5 ms: it signals, 50 ms after it has begun to.
    assert data.registers["value"].max() > 50_000 and set(data.registers["register"]) == {"next_signals[3]"}


@pytest.mark.needs("python-for-all")
def test_a_controller_takes_over_bmv2(example: Path) -> None:
    file = example / "learning.yaml"
    controller = f"[env, PYTHONPATH={Path(finsy.__file__).parents[1]}, {python_for_all()}"
    file.write_text(file.read_text().replace("[python3", controller).replace("20s", "2s").replace("20Mbit", "12Mbit"))
    process = start_file(file)
    printed, _ = process.communicate(timeout=120)
    assert process.returncode == EXIT_OK, printed
    learned = (example / "result" / "hosts" / "controller" / "stdout").read_text().splitlines()
    assert sorted(line.split()[-1] for line in learned) == ["1", "2", "3"]
    summary = json.loads((example / "result" / "summary.json").read_text())
    assert all(flow["goodput_bps"] > 0 for flow in summary["flows"])
    assert summary["bottleneck"]["utilization"] > 0.8


def test_packets_that_never_reach_the_program_are_reported(tmp_path: Path) -> None:
    """Seven frames that BMv2's interface counts and its program does not stand in for those that libpcap loses."""
    process = start(tmp_path)
    state = in_traffic(process)

    def send() -> None:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
            raw.bind(("line3", 0))
            for _ in range(7):
                raw.send(b"\x02\x00\x00\x00\x00\x99" + b"\x02\x00\x00\x00\x00\x98" + b"\x88\xb5" + bytes(46))

    call_inside(state.namespace("switch"), send)
    printed, _ = process.communicate(timeout=120)
    assert process.returncode == EXIT_OK, printed
    said = "packets lost between the senders' interfaces and the program, uncounted by the switch"
    assert "warning: 7 of " in printed and said in " ".join(printed.split())
    run = json.loads((tmp_path / "result" / "run.json").read_text())
    assert [balance["lost"] for balance in run["balances"]] == [7, 0, 0]
    summary = json.loads((tmp_path / "result" / "summary.json").read_text())
    assert "lost_elsewhere" in {warning["code"] for warning in summary["warnings"]}


@pytest.mark.parametrize(("program", "name"), [(EXECUTABLE, "BMv2"), (SOFTSWITCH, "delay line")])
@pytest.mark.fault("BMv2 or its delay line killed", "traffic", "real")
def test_a_part_that_dies_fails_the_run(tmp_path: Path, program: str, name: str) -> None:
    process = start(tmp_path)
    state = in_traffic(process)
    for pid in namespace_pids(state.namespace("switch")):
        if Path(f"/proc/{pid}/exe").readlink().name.startswith(program):
            os.kill(pid, 9)
    printed, _ = process.communicate(timeout=120)
    assert process.returncode == EXIT_FAILED, printed
    assert left_over(state) == []
    run = json.loads((tmp_path / "result" / "run.json").read_text())
    assert run["status"] == "failed"
    assert f"{name} ended with exit code -9" in run["reason"]
