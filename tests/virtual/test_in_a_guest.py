# SPDX-License-Identifier: Apache-2.0
"""Runs in virtual time from end to end, with whatever kernel is built; no root."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pytest
from narrows.hosts.process import start_time
from narrows.virtual import kernels
from narrows.virtual.guest_supervisor import children
from narrows_formats.programs import BINARIES_VARIABLE, COLLECTOR, SOFTSWITCH, find_binary

pytestmark = pytest.mark.needs("guest-kernel", "narrows-softswitch", "narrows-collector", "ip")

EXAMPLES = Path(__file__).parents[2] / "experiments" / "own-program"
SHORT = "name: short\nbottleneck: {rate: 10Mbit, buffer: 1bdp, rtt: 20ms}\nflows: [{cca: cubic, duration: 1s}]\n"
LONG = SHORT.replace("1s}", "1000s}")
PATIENCE_S = 240.0
# Index of the reverse direction, which the only link's follows.
ACKS = 1


def start(
    tmp_path: Path,
    text: str,
    before: str = "",
    programs: Path | None = None,
    options: Sequence[str] = (),
    virtual: bool = True,
) -> subprocess.Popen[str]:
    """`narrows run`; what it says is in ``tmp_path / "said"``.

    Args:
        tmp_path: takes all files.
        text: of the experiment.
        before: a statement in front of it.
        programs: directory of other programs than ours.
        options: of the command line.
        virtual: in virtual time, with whatever kernel there is.
    """
    file = tmp_path / "experiment.yaml"
    file.write_text(text)
    clock = ["--virtual", "--kernel", kernels.installed()[0].name] if virtual else []
    words = [sys.executable, "-c", f"{before}\nimport narrows.cli; narrows.cli.main()", "run", str(file), *clock]
    environment = {**os.environ, **({} if programs is None else {BINARIES_VARIABLE: str(programs)})}
    with (tmp_path / "said").open("w") as said:
        return subprocess.Popen(
            [*words, "--out", str(tmp_path / "out"), *options],
            stdout=said, stderr=subprocess.STDOUT, text=True, env=environment,
        )  # fmt: skip


def script(path: Path, text: str) -> Path:
    """A program of the shell's."""
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def until_traffic(process: subprocess.Popen[str], tmp_path: Path) -> int:
    """Wait until traffic flows; returns the process of the guest's kernel."""
    deadline = time.monotonic() + PATIENCE_S
    while "traffic" not in (tmp_path / "said").read_text():
        assert process.poll() is None and time.monotonic() < deadline, (tmp_path / "said").read_text()
        time.sleep(0.1)
    (supervisor,) = children(process.pid)
    (kernel,) = children(supervisor)
    return kernel


def test_a_run(tmp_path: Path) -> None:
    assert start(tmp_path, SHORT).wait(PATIENCE_S) == 0, (tmp_path / "said").read_text()
    out = tmp_path / "out"
    run, summary = (json.loads((out / name).read_text()) for name in ("run.json", "summary.json"))
    assert run["status"] == "complete" and run["drop_cross_check"]["bottleneck"]["holds"]
    assert summary["telemetry"]["lost"] == 0 and summary["telemetry"]["reports"] > 500
    assert summary["bottleneck"]["utilization"] > 0.9
    assert (out / "report.html").exists() and (out / "hosts" / "sockets.parquet").exists()
    guest = run["virtual_time"]
    about = kernels.remembered(kernels.installed()[0])
    assert about is not None
    assert (guest["release"], guest["config_sha256"]) == (about.release, about.config_sha256)
    assert guest["clock_step_ns"] == about.clock_step_ns > 0
    assert guest["failed_call_ns"] == about.failed_call_ns > 0
    # A hundred calls that fail, and two readings of the clock.
    assert about.flaws == [] and 100 <= about.starts_ns == guest["starts_ns"] < 1000
    assert run["programs"]["kernel image"] == about.image_sha256
    assert run["host"]["kernel"] == about.release != os.uname().release
    assert 1.0 < guest["virtual_s"] < 10.0
    assert 0.5 < guest["cpu_s"] < 1.1 * guest["wall_s"]
    hosts = guest["hosts"]
    assert "ideal" in hosts["processors"] and hosts["rate_bps"] == 1_000_000_000
    assert hosts["interrupts"] is None and hosts["offloads"] == []
    # Times of day are this machine's, not the guest's.
    assert run["started"] < run["ended"] and run["started"][:4] == time.strftime("%Y", time.gmtime())


@pytest.mark.long
def test_a_queue_of_twelve_seconds(tmp_path: Path) -> None:
    """Depth over rate is the wait, for every packet, beyond 2^32 ns as below: up to 1000 x 1514 x 8 / 10^6 = 12.1 s."""
    settings = "{rate: 1Mbit, buffer: 1000packets, rtt: 100ms}"
    text = f"name: slow\nbottleneck: {settings}\nflows: [{{cca: cubic, duration: 40s}}]\n"
    assert start(tmp_path, text).wait(PATIENCE_S) == 0, (tmp_path / "said").read_text()
    out = tmp_path / "out"
    reports = pd.concat(pd.read_parquet(file) for file in sorted((out / "telemetry").glob("reports-*.parquet")))
    data = reports[reports["bottleneck"] == 0]
    ahead_ns, frame_ns = data["enqueue_depth"].astype("int64") * 8000, 1514 * 8000
    in_service_ns = data["queue_delay"].astype("int64") - ahead_ns
    assert in_service_ns.between(0, frame_ns).all()
    assert data["queue_delay"].max() > 11e9
    delay = json.loads((out / "summary.json").read_text())["bottleneck"]["queue_delay_s"]
    assert delay["max"] == pytest.approx(float(data["queue_delay"].max()) / 1e9, abs=1e-9)


@pytest.mark.long
def test_a_sweep_side_by_side(tmp_path: Path) -> None:
    process = start(tmp_path, SHORT + "sweep: {bottleneck.buffer: [1bdp, 2bdp]}\n", options=("--jobs", "2"))
    assert process.wait(PATIENCE_S) == 0, (tmp_path / "said").read_text()
    runs = json.loads((tmp_path / "out" / "sweep.json").read_text())["runs"]
    assert [run["status"] for run in runs] == ["complete"] * 2


@pytest.mark.long
def test_the_page_has_all_runs_of_a_sweep(tmp_path: Path) -> None:
    sweep = "sweep: {bottleneck.buffer: [1bdp, 2bdp]}\n"
    process = start(tmp_path, SHORT.replace("1s}", "4s}") + sweep, options=("--jobs", "2", "--live"))
    while not (url := re.search(r"http://\S+/", (tmp_path / "said").read_text())):
        assert process.poll() is None, (tmp_path / "said").read_text()
        time.sleep(0.05)
    with urllib.request.urlopen(f"{url[0]}events", timeout=PATIENCE_S) as stream:
        events = [json.loads(line[6:]) for line in stream if line.startswith(b"data: ")]
    assert process.wait(PATIENCE_S) == 0, (tmp_path / "said").read_text()
    names = [f"[{number}/2] 000{number}-buffer={number}bdp" for number in (1, 2)]
    assert next(event["titles"] for event in events if event["kind"] == "runs") == names
    for number, name in enumerate(names):
        mine = [event for event in events if event.get("run") == number]
        assert [event["title"] for event in mine if event["kind"] == "run"] == [name]
        assert [event["status"] for event in mine if event["kind"] == "ended"] == ["complete"]
        # At the bottleneck's rate once the flow has filled it.
        rates = [
            event["links"][0]["rate_bps"] for event in mine if event["kind"] == "snapshot" and 2 < event["time_s"] < 3.5
        ]
        assert rates == pytest.approx([10e6] * len(rates), rel=0.02) and len(rates) >= 2
    assert events[-1]["kind"] == "end"


@pytest.mark.long
@pytest.mark.fault("a sweep or study killed, and started again", "any moment", "virtual")
def test_a_killed_sweep_goes_on(tmp_path: Path) -> None:
    text = SHORT + "sweep: {bottleneck.buffer: [1bdp, 2bdp, 3bdp, 4bdp, 5bdp]}\n"

    def complete() -> dict[str, int]:
        return {path.parent.name: path.stat().st_ino for path in (tmp_path / "out").glob("[!.]*/run.json")}

    process = start(tmp_path, text, options=("--jobs", "2"))
    deadline = time.monotonic() + PATIENCE_S
    while not complete():
        assert process.poll() is None and time.monotonic() < deadline, (tmp_path / "said").read_text()
        time.sleep(0.02)
    process.kill()
    process.wait()
    time.sleep(1)  # the workers end with their parent
    kept = complete()
    assert 0 < len(kept) < 5
    process = start(tmp_path, text, options=("--jobs", "2"))
    assert process.wait(PATIENCE_S) == 0, (tmp_path / "said").read_text()
    said = (tmp_path / "said").read_text()
    assert f"{5 - len(kept)} runs" in said and f", {len(kept)} complete already" in said
    assert len(complete()) == 5 and {name: complete()[name] for name in kept} == kept
    runs = json.loads((tmp_path / "out" / "sweep.json").read_text())["runs"]
    assert [run["directory"] for run in runs] == sorted(complete())
    files = {path.name for path in (tmp_path / "out").iterdir()} - set(complete())
    assert files == {"intervals.csv", "report.html", "sweep.json", "sweep.parquet"}
    assert not any(str(tmp_path) in path.read_text() for path in kernels.runs().glob("*.json"))


@pytest.mark.long
def test_a_sweep_on_a_cluster(tmp_path: Path) -> None:
    distributed = importlib.import_module("distributed")
    text = SHORT + "sweep: {bottleneck.buffer: [1bdp, 2bdp]}\n"
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0", host="127.0.0.1"
    ) as cluster:
        process = start(tmp_path, text, options=("--cluster", cluster.scheduler_address))
        assert process.wait(PATIENCE_S) == 0, (tmp_path / "said").read_text()
    assert "2 runs, 2 at once" in (tmp_path / "said").read_text()
    for run in json.loads((tmp_path / "out" / "sweep.json").read_text())["runs"]:
        summary = json.loads((tmp_path / "out" / run["directory"] / "summary.json").read_text())
        assert run["status"] == "complete" and summary["bottleneck"]["utilization"] > 0.9
    assert (tmp_path / "out" / "report.html").exists()


@pytest.mark.needs("bmv2")
def test_a_run_on_bmv2(tmp_path: Path) -> None:
    text = "name: fast\nbottleneck: {rate: 1Gbit, buffer: 1bdp, rtt: 5ms}\nflows: [{cca: cubic, size: 8MB}]\n"
    assert start(tmp_path, text, options=("--target", "bmv2")).wait(PATIENCE_S) == 0, (tmp_path / "said").read_text()
    run = json.loads((tmp_path / "out" / "run.json").read_text())
    problems = run["drop_cross_check"]["bottleneck"]["problems"]
    assert (run["status"], run["losses_elsewhere"], problems) == ("complete", [], [])
    assert [balance["lost"] for balance in run["balances"]] == [0, 0, 0]
    reports = pd.read_parquet(tmp_path / "out" / "telemetry" / "reports-00000.parquet")
    # It shapes packets: one leaves every 12.112 us while others wait, eight times as many as it can forward as time
    # passes. Its clock counts microseconds.
    gaps_us = reports["timestamp"].astype("int64").diff()[reports["enqueue_depth"] > 0]
    assert len(gaps_us) > 3000 and gaps_us.between(11, 14).all()
    assert abs(gaps_us.mean() - 1e6 / run["links"][0]["rate_packets_s"]) < 0.01


@pytest.mark.needs("bmv2")
def test_a_program_of_a_users_on_bmv2(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES, tmp_path, dirs_exist_ok=True)
    text = (EXAMPLES / "cubic-and-bbr.yaml").read_text().replace("20s", "2s")
    # BMv2 keeps the program in a file of /tmp, which the results' place must leave to the guest.
    out = Path("/tmp") / f"narrows-{os.getpid()}-users-program"
    try:
        process = start(tmp_path, text, options=("--target", "bmv2", "--out", str(out)))
        assert process.wait(PATIENCE_S) == 0, (tmp_path / "said").read_text()
        summary = json.loads((out / "summary.json").read_text())
    finally:
        shutil.rmtree(out, ignore_errors=True)
    assert summary["bottleneck"]["utilization"] > 0.9 and summary["bottleneck"]["drops"] is None
    # In virtual time no packet is late: a flow's shortest RTT is the base RTT, and less than a frame's time of 0.6 ms.
    assert all(0.02 <= flow["rtt_s"]["min"] < 0.022 for flow in summary["flows"])


@pytest.mark.long
@pytest.mark.needs("repeatable-kernel")
def test_two_runs_with_one_seed_are_equal(tmp_path: Path) -> None:
    flows = "flows: [{cca: bbr, duration: 1s}, {cca: cubic, duration: 1s}]"
    text = f"name: twice\nbottleneck: {{rate: 10Mbit, buffer: 1bdp, rtt: 20ms}}\nseed: 3\n{flows}\n"
    written = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        assert start(tmp_path / name, text).wait(PATIENCE_S) == 0, (tmp_path / name / "said").read_text()
        out = tmp_path / name / "out"
        reports, sockets = out / "telemetry" / "reports-00000.parquet", out / "hosts" / "sockets.parquet"
        written.append((reports.read_bytes(), sockets.read_bytes()))
    assert written[0] == written[1]


@pytest.mark.long
def test_a_card_that_holds_frames_has_them_acknowledged_in_bursts(tmp_path: Path) -> None:
    card = "telemetry: {acks: true}\nhosts: {rx_usecs: 10000, rx_frames: 64, offloads: [gro]}\n"
    assert start(tmp_path, SHORT + card).wait(PATIENCE_S) == 0, (tmp_path / "said").read_text()
    reports = pd.read_parquet(tmp_path / "out" / "telemetry" / "reports-00000.parquet")
    times_ns = reports["timestamp"][reports["bottleneck"] == ACKS].astype("int64").sort_values()
    # Without a model of the NIC each comes when its packet has, a millisecond and more after the one before.
    gaps_ns = times_ns.diff().dropna()
    assert (gaps_ns < 100_000).mean() > 0.7
    assert gaps_ns[gaps_ns >= 100_000].quantile(0.1) > 10_000_000
    run = json.loads((tmp_path / "out" / "run.json").read_text())
    assert run["virtual_time"]["hosts"]["interrupts"] == {"usecs": 10000, "frames": 64}


@pytest.mark.long
def test_a_card_that_joins_segments_has_them_acknowledged_together(tmp_path: Path) -> None:
    text = "name: fast\nbottleneck: {rate: 1Gbit, buffer: 1bdp, rtt: 10ms}\nflows: [{cca: cubic, size: 30MB}]\n"
    acknowledgements, packets = {}, {}
    for name, offloads in (("apart", ""), ("joined", ", offloads: [lro]")):
        (tmp_path / name).mkdir()
        card = f"telemetry: {{acks: true}}\nhosts: {{rx_usecs: 200{offloads}}}\n"
        process = start(tmp_path / name, text + card)
        assert process.wait(PATIENCE_S) == 0, (tmp_path / name / "said").read_text()
        out = tmp_path / name / "out"
        reports = pd.read_parquet(out / "telemetry" / "reports-00000.parquet")
        back = reports["bottleneck"] == ACKS
        acknowledgements[name], packets[name] = int(back.sum()), int((~back).sum())
        summary = json.loads((out / "summary.json").read_text())
        assert summary["flows"][0]["fct_s"] > 0
    # 200 us hold 16 segments at the bottleneck's rate: one answer to all of them, instead of several.
    assert packets["joined"] == pytest.approx(packets["apart"], rel=0.05)
    assert packets["apart"] < 8 * acknowledgements["apart"]
    assert packets["joined"] > 14 * acknowledgements["joined"]


@pytest.mark.long
def test_what_the_switch_holds_lies_together(tmp_path: Path) -> None:
    """Pages that do not are a mapping each on the machine, which allows 65,530 a process: 30,000 here."""
    text = "name: fast\nbottleneck: {rate: 10Gbit, buffer: 1bdp, rtt: 20ms}\nmtu: 9000\n"
    process = start(tmp_path, text + "flows: [{cca: cubic, size: 150MB}]\n")
    kernel, greatest = until_traffic(process, tmp_path), 0
    while process.poll() is None:
        for child in children(kernel):
            with contextlib.suppress(OSError):
                greatest = max(greatest, Path(f"/proc/{child}/maps").read_text().count("\n"))
        time.sleep(0.1)
    assert process.wait() == 0, (tmp_path / "said").read_text()
    assert 1_000 < greatest < 10_000


@pytest.mark.long
@pytest.mark.fault("interrupted", "traffic", "virtual")
def test_a_signal_keeps_what_was_measured(tmp_path: Path) -> None:
    process = start(tmp_path, LONG)
    kernel = until_traffic(process, tmp_path)
    time.sleep(2)
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 130
    assert json.loads((tmp_path / "out" / "run.json").read_text())["reason"] == "interrupted by SIGTERM"
    assert start_time(kernel) is None


# As soon as the guest says that it is up, whose time passes for a while before it measures.
AT_ONCE = """
import os, pickle, signal
from dataclasses import replace
from narrows.virtual.conversation import Conversation
from narrows.virtual.measurement import VirtualMeasurement
from narrows.virtual.messages import Up
pass_on, task = Conversation._pass_on, VirtualMeasurement._task
class Late:
    def __init__(self, data):
        self.data = data
    def __reduce__(self):
        wait = "[__import__('time').sleep(0.001) for _ in range(20000)] and __import__('pickle').loads(data)"
        return eval, (wait, {{"data": self.data}})
def late(self):
    made = task(self)
    return replace(made, target=pickle.dumps(Late(made.target)))
def at_once(self, message):
    if message == Up():
        os.kill(os.getpid(), signal.{})
    pass_on(self, message)
Conversation._pass_on, VirtualMeasurement._task = at_once, late
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.fault("interrupted", "set-up", "virtual")
def test_a_signal_that_comes_before_the_measurement_ends_it(tmp_path: Path, number: signal.Signals) -> None:
    process = start(tmp_path, LONG, before=AT_ONCE.format(number.name))
    assert process.wait(PATIENCE_S) == 130, (tmp_path / "said").read_text()
    said = (tmp_path / "said").read_text()
    assert "Traceback" not in said and f"{number.name}: stopping" in said
    assert not (tmp_path / "out").exists()


@pytest.mark.long
@pytest.mark.fault("out of memory", "set-up", "virtual")
def test_a_guest_without_enough_memory_is_a_failed_run(tmp_path: Path) -> None:
    """Its kernel and Python have room, the switch's rings have none: a process is killed, or room made without end."""
    # A third of the processor time after which a guest is given up shows the same.
    before = (
        "from narrows.virtual import guest_memory, watch\n"
        "guest_memory.memory_bytes, watch.STILL_CPU_S = lambda plan: 72 << 20, 20.0"
    )
    process = start(tmp_path, SHORT.replace("10Mbit", "300Mbit").replace("1bdp", "4MB"), before=before)
    assert process.wait(PATIENCE_S) == 1, (tmp_path / "said").read_text()
    said = (tmp_path / "said").read_text()
    assert "the guest's memory of 72 MB was full, and its kernel " in said and "Traceback" not in said
    # Which process is killed, and whether anything was measured then, is the kernel's choice.
    record = tmp_path / "out" / "run.json"
    assert {path.name for path in tmp_path.iterdir()} - {"out"} == {"experiment.yaml", "said"}
    assert not record.parent.exists() or json.loads(record.read_text())["status"] == "failed"


HUNGRY = """name: hungry
bottleneck: {rate: 10Mbit, buffer: 1bdp, rtt: 20ms}
flows:
  - {cca: cubic, duration: 4s}
  - {client: [python3, -c, "import time; time.sleep(2); kept = [b'x' * (1 << 24) + bytes([n]) for n in range(250)]"]}
"""


@pytest.mark.long
@pytest.mark.fault("out of memory", "traffic", "virtual")
def test_a_program_that_takes_all_memory_of_a_guest_is_named(tmp_path: Path) -> None:
    assert start(tmp_path, HUNGRY).wait(PATIENCE_S) == 1, (tmp_path / "said").read_text()
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert record["status"] == "failed"
    assert re.search(r"the guest's memory of \d+ MB was full, and its kernel killed 'python3", record["reason"])


@pytest.mark.long
@pytest.mark.fault("guest killed", "traffic", "virtual")
def test_a_killed_guest_is_a_failed_run(tmp_path: Path) -> None:
    process = start(tmp_path, LONG)
    kernel = until_traffic(process, tmp_path)
    inside = children(kernel)
    os.kill(kernel, signal.SIGKILL)
    assert process.wait(PATIENCE_S) == 1
    assert (tmp_path / "said").read_text().strip().endswith("the guest was ended by SIGKILL")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["experiment.yaml", "said"]
    assert inside and all(start_time(pid) is None for pid in inside)


@pytest.mark.long
@pytest.mark.fault("a guest's time stops", "traffic", "virtual")
def test_a_guest_whose_time_stands_still_is_ended(tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    collector = find_binary(COLLECTOR)
    assert collector is not None
    (programs / COLLECTOR).symlink_to(collector)
    script(programs / SOFTSWITCH, "while :; do :; done")
    soon = "import narrows.virtual.watch as watch; watch.STILL_CPU_S = 6.0"
    process = start(tmp_path, SHORT, soon, programs)
    assert process.wait(PATIENCE_S) == 1
    said = (tmp_path / "said").read_text()
    assert re.search(r"the guest's time stood still at \d+\.\d+ s while it computed for \d+ s .* narrows-softswi", said)


@pytest.mark.long
@pytest.mark.fault("guest does not boot", "set-up", "virtual")
def test_a_guest_that_never_comes_up_is_ended(tmp_path: Path) -> None:
    spin = script(tmp_path / "spin", "while :; do :; done")
    before = (
        "from narrows.virtual import guard, guest, watch; guard.SOON_S = watch.STILL_CPU_S = 6.0; "
        f"words = guest.command_line; guest.command_line = lambda kernel, memory, _: words(kernel, memory, ['{spin}'])"
    )
    process = start(tmp_path, SHORT, before)
    assert process.wait(PATIENCE_S) == 1
    said = (tmp_path / "said").read_text()
    assert re.search(r"the guest's time stood still at \d+\.\d+ s while it computed for \d+ s .* spin", said), said


@pytest.mark.long
@pytest.mark.fault("killed", "traffic", "virtual")
def test_a_killed_narrows_takes_its_guest_with_it(tmp_path: Path) -> None:
    process = start(tmp_path, LONG)
    kernel = until_traffic(process, tmp_path)
    (supervisor,) = children(process.pid)
    inside = children(kernel)
    process.kill()
    process.wait()
    deadline = time.monotonic() + 20
    while any(start_time(pid) is not None for pid in (supervisor, kernel, *inside)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
