# SPDX-License-Identifier: Apache-2.0
"""Parts of a run that die, hang or vanish, and ends at random moments. `make stress` runs it (NARROWS_STRESS=1)."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from narrows.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK
from narrows.hosts.state import all_runs, namespace_pids
from narrows_analysis import load
from narrows_formats.programs import COLLECTOR, SOFTSWITCH
from test_run import BUSY, NARROWS, Running, no_run_goes_on, wait_for, write

__all__ = ["no_run_goes_on"]
pytestmark = pytest.mark.needs("root", "stress", SOFTSWITCH, COLLECTOR)

LONG = [{"cca": "cubic", "duration": "40s"}]


def signalled(host: str, number: signal.Signals) -> Callable[[Running], None]:
    """Sends a signal to all processes of a host, once its part is there."""

    def found(running: Running) -> dict[int, bytes]:
        pids = namespace_pids(running.state.namespace(host))
        return {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids}

    def act(running: Running) -> None:
        wait_for(lambda: any(b"/serve.py" in line or b"collector" in line for line in found(running).values()), 20)
        for pid in found(running):
            os.kill(pid, number)

    return act


def without_namespace(running: Running) -> None:
    """The sender's interface and all behind it are gone."""
    name = running.state.namespace("sender0")
    subprocess.run(["ip", "-n", name, "link", "del", "eth0"], check=False)
    signalled("sender0", signal.SIGKILL)(running)
    subprocess.run(["ip", "netns", "del", name], check=True)


FAULTS = {
    "collector killed": signalled("collector", signal.SIGKILL),
    "client killed": signalled("sender0", signal.SIGKILL),
    "server killed": signalled("receiver", signal.SIGKILL),
    "client hangs": signalled("sender0", signal.SIGSTOP),
    "collector hangs": signalled("collector", signal.SIGSTOP),
    "host lost": without_namespace,
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.fault("collector, sender or receiver killed", "traffic", "real")
@pytest.mark.fault("collector or sender stopped", "traffic", "real")
@pytest.mark.fault("a host's network gone", "traffic", "real")
def test_a_part_that_is_lost_is_named_and_nothing_stays(tmp_path: Path, fault: str) -> None:
    """The run fails or is partial, never complete; the record says why; nothing is left behind."""
    out = tmp_path / "result"
    running = Running(write(tmp_path, flows=[{"cca": "cubic", "duration": "12s"}]), out)
    running.wait_for_traffic()
    time.sleep(2)
    FAULTS[fault](running)
    printed = running.finish(120)
    assert running.process.returncode == EXIT_FAILED, printed
    assert running.left_over() == []
    assert "Traceback" not in printed
    assert out.exists(), printed
    record: dict[str, Any] = json.loads((out / "run.json").read_text())
    assert record["status"] != "complete" and record["reason"], record
    # What left unreported is not taken for dropped.
    for flow in record["drop_cross_check"]["bottleneck"]["flows_with_drops"]:
        assert flow["in_last_report"] + flow["after_last_report"] == flow["counted_by_switch"]
    # Whatever died, what it had stored is readable: at 20 Mbit/s there are 1,650 full frames a second.
    assert len(load(out).reports()) > 800
    print(f"cases: 1 {fault}: {record['status']}: {record['reason']}")


@pytest.mark.fault("switch stopped for a while", "traffic", "real")
def test_a_switch_that_stands_still_for_a_while_fails_the_run(tmp_path: Path) -> None:
    """For five of ten seconds; then it goes on, and everything else ends as it should."""
    out = tmp_path / "result"
    running = Running(write(tmp_path, flows=[{"cca": "cubic", "duration": "10s"}]), out)
    running.wait_for_traffic()
    (switch,) = namespace_pids(running.state.namespace("switch"))
    os.kill(switch, signal.SIGSTOP)
    time.sleep(5)
    os.kill(switch, signal.SIGCONT)
    printed = running.finish(60)
    assert running.process.returncode == EXIT_FAILED, printed
    assert running.left_over() == [] and "Traceback" not in printed
    reason = json.loads((out / "run.json").read_text())["reason"]
    found = re.search(r"the switch did not answer for ([\d.]+) s of traffic", reason)
    assert found is not None and 4 < float(found[1]) < 7, reason


@pytest.mark.fault("collector, sender or receiver killed", "traffic", "real")
def test_a_server_that_refuses_is_reported(tmp_path: Path) -> None:
    """It is gone before a flow begins; the other flow was measured to its end."""
    out = tmp_path / "result"
    flows = [{"cca": "cubic", "duration": "1s"}, {"cca": "reno", "start": "20s", "duration": "3s"}]
    running = Running(write(tmp_path, flows=flows), out)
    running.wait_for_traffic()
    signalled("receiver", signal.SIGKILL)(running)
    printed = running.finish(60)
    assert running.process.returncode == EXIT_FAILED, printed
    assert running.left_over() == []
    record = json.loads((out / "run.json").read_text())
    assert record["status"] == "failed" and "ended with exit code -9" in record["reason"], record["reason"]
    assert record["drop_cross_check"]["bottleneck"]["holds"]
    print(f"cases: 1 server gone: {record['reason']}")


@pytest.mark.parametrize("seed", range(int(os.environ.get("NARROWS_KILLS", "10"))))
@pytest.mark.fault("interrupted", "any moment", "real")
@pytest.mark.fault("killed", "any moment", "real")
def test_the_end_at_a_random_moment_leaves_nothing(tmp_path: Path, seed: int) -> None:
    """SIGINT, SIGTERM and SIGKILL, from the first moment on; after SIGKILL `narrows clean` and another run."""
    chance = random.Random(seed)
    number = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)[seed % 3]
    out = tmp_path / "result"
    running = Running(write(tmp_path, flows=LONG), out)
    moment = time.monotonic() + chance.uniform(0, 8)
    while time.monotonic() < moment:
        running.observe()
        time.sleep(0.05)
    running.process.send_signal(number)
    printed = running.finish(60)
    for path in tmp_path.rglob("reports-*.parquet"):
        assert pq.read_metadata(path).num_rows > 0, "what is on the disk reads"
    if number == signal.SIGKILL:
        assert running.process.returncode == -signal.SIGKILL
        cleaned = subprocess.run([*NARROWS, "clean"], capture_output=True, text=True, check=False)
        assert cleaned.returncode == EXIT_OK, cleaned.stderr
    elif "packets were lost, or late" not in printed:  # of a busy machine's run that is the verdict
        assert running.process.returncode == EXIT_INTERRUPTED, printed
    assert running.left_over() == []
    assert "Traceback" not in printed
    if out.exists():
        record = json.loads((out / "run.json").read_text())
        assert f"interrupted by {number.name}" in record["reason"] and record["drop_cross_check"]["bottleneck"]["holds"]
        assert record["status"] == ("partial" if running.process.returncode == EXIT_INTERRUPTED else "failed")
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".unfinished")]


@pytest.mark.fault("all its processes killed", "traffic", "real")
def test_everything_killed_then_cleaned_and_run_again(tmp_path: Path) -> None:
    """All processes of a run at once, as when memory is short: what is left is named and removed."""
    file, out = write(tmp_path, flows=[{"cca": "cubic", "duration": "3s"}]), tmp_path / "result"
    running = Running(file, out)
    running.wait_for_traffic()
    for pid in (running.process.pid, *running.processes):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    running.finish(10)
    assert [name for name in running.left_over() if "namespace" in name or "-" in name]
    cleaned = subprocess.run([*NARROWS, "clean"], capture_output=True, text=True, check=False)
    assert cleaned.returncode == EXIT_OK and running.state.run_id in cleaned.stdout, cleaned
    assert running.left_over() == [] and not out.exists()
    again = Running(file, out)
    assert "report" in again.finish(60)
    assert json.loads((out / "run.json").read_text())["status"] == "complete"
    print("cases: 1 everything killed")


@pytest.mark.parametrize("part", [SOFTSWITCH, COLLECTOR])
@pytest.mark.fault("out of memory", "traffic", "real")
def test_a_part_that_gets_no_more_memory_ends_the_run(tmp_path: Path, part: str) -> None:
    """Its next allocation fails: the run says so. If it needed none until the end, nothing is missing."""
    out = tmp_path / "result"
    running = Running(write(tmp_path, flows=[{"cca": "cubic", "duration": "12s"}]), out)
    sender = running.state.namespace("sender0")
    wait_for(lambda: any("/serve.py" in Path(f"/proc/{pid}/cmdline").read_text() for pid in namespace_pids(sender)), 60)
    (pid,) = namespace_pids(running.state.namespace("switch" if part == SOFTSWITCH else "collector"))
    resource.prlimit(pid, resource.RLIMIT_AS, (1 << 20, 1 << 20))
    printed = running.finish(120)
    assert running.left_over() == []
    assert "Traceback" not in printed
    record = json.loads((out / "run.json").read_text())
    if running.process.returncode == EXIT_FAILED:
        assert record["status"] != "complete"
        assert "ended with exit code" in record["reason"]
    else:
        assert (running.process.returncode, record["status"]) == (EXIT_OK, "complete")
        assert record["drop_cross_check"]["bottleneck"]["holds"] and "0 lost" in printed
    print(f"cases: 1 no memory for {part}: {record['status']}: {record['reason']}")


@pytest.fixture
def disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A small file system of its own."""
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={request.param}k", "tmpfs", str(place)], check=True)
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.parametrize("disk", [48, 800], indirect=True)
@pytest.mark.fault("disk full", "set-up", "real")
def test_a_disk_without_room_for_a_run_is_noticed_before_it(tmp_path: Path, disk: Path) -> None:
    """Said in a sentence, nothing left, not even what fitted."""
    file = write(tmp_path, flows=[{"cca": "cubic", "duration": "4s"}])
    # It may be over before its record is seen.
    command = [*NARROWS, "run", str(file), "--out", str(disk / "result")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    printed, _ = process.communicate(timeout=BUSY * 90)
    assert process.returncode == EXIT_FAILED, printed
    assert process.pid not in {state.owner_pid for state in all_runs()} and not list(disk.iterdir())
    assert "Traceback" not in printed and "No space left on device" in printed
    print(f"cases: 1 full disk: {printed.splitlines()[-1]}")


@pytest.mark.parametrize("disk", [12_000], indirect=True)
@pytest.mark.fault("disk full", "traffic", "real")
def test_a_disk_that_becomes_full_fails_the_run_and_keeps_what_was_stored(tmp_path: Path, disk: Path) -> None:
    """Something else fills it while traffic flows: reports until then are analysed, run.json says what happened."""
    link = {"rate": "200Mbit", "rtt": "20ms", "buffer": "1bdp"}
    running = Running(write(tmp_path, bottleneck=link, flows=[{"cca": "cubic", "duration": "8s"}]), disk / "result")
    running.wait_for_traffic()
    time.sleep(2)
    with contextlib.suppress(OSError), (disk / "others").open("wb") as others:
        while True:
            others.write(bytes(1 << 12))
    printed = running.finish(120)
    assert running.process.returncode == EXIT_FAILED, printed
    assert running.left_over() == [] and "Traceback" not in printed
    record = json.loads((disk / "result" / "run.json").read_text())
    assert record["status"] == "failed" and "no space left" in record["reason"].lower(), record["reason"]
    run = load(disk / "result")
    # A link of 200 Mbit/s has 16,500 full frames a second, of which a busy machine passes fewer on.
    assert len(run.reports()) > 2_000
    assert run.summary["flows"][0]["goodput_bps"] > 0
    print(f"cases: 1 disk that becomes full: {len(run.reports())} reports kept")
