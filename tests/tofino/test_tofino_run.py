# SPDX-License-Identifier: Apache-2.0
"""``narrows run --target tofino`` as a lab calls it: machines over sshd, the switch through a tunnel, the command line.

The switch is a fake that forwards nothing; the machines' cables meet in a bridge past it. So TCP flows, no report
comes, and a run has to say so, and to leave switch and machines as they were.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import pandas as pd
import pytest
import yaml
from fakeswitch.fixtures import inventory_data
from lab_machines import Machines
from narrows.errors import EXIT_BAD_INPUT, EXIT_FAILED, EXIT_INTERRUPTED
from narrows.hosts.state import all_runs
from narrows_formats.programs import COLLECTOR
from narrows_tofino.programming.audit import outstanding, read_audit
from narrows_tofino.testbed.calibration import calibration_path
from test_calibration import measured

pytestmark = [pytest.mark.needs("root", "sshd", "ssh", COLLECTOR), pytest.mark.parallel_safe]

HOSTS = ["alice", "bob", "carol", "dave"]
SWITCH = "switch"
# Between two readings of the senders' sockets: the default of `telemetry.sockets`.
SOCKETS_INTERVAL_S = 0.1
HERE = Path(__file__).resolve().parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{HERE.parents[1] / 'control_plane'}:{HERE}"}
NARROWS = [sys.executable, "-c", "from narrows.cli import main; main()"]
# What set-up touches on a machine. The kernel makes a new link-local address whenever a link comes up.
FACTS = (
    "ip -brief address show dev ens1f0 scope global; ip -brief link show dev ens1f0; "
    "ip neighbour show dev ens1f0 nud permanent; "
    "ethtool -k ens1f0 | grep -E 'tcp-seg|generic-'; cat /sys/class/net/ens1f0/mtu; "
    "sysctl net.ipv4.tcp_rmem net.ipv4.tcp_wmem net.ipv4.tcp_no_metrics_save net.ipv4.tcp_ecn "
    "net.ipv4.ip_local_port_range; ss -Htlnp | grep -v sshd || true"
)


class Asked(Protocol):
    """A switch in a namespace that has BF Runtime on its loopback only, and what is set on it."""

    @property
    def address(self) -> str: ...

    def ask(self, command: str = "state") -> str: ...


class Switch:
    """The fake one. See `Asked`."""

    def __init__(self, machines: Machines, chip: str) -> None:
        command = ["ip", "netns", "exec", machines.namespace(SWITCH), sys.executable, "-m", "fakeswitch.serve", chip]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
        )
        self.address = self._line()

    def ask(self, command: str = "state") -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        return self._line()

    def stop(self) -> None:
        self._process.communicate("")

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


class Lab:
    """One testbed, and how everything on it was before the test."""

    def __init__(self, machines: Machines, switch: Asked, chip: str, directory: Path) -> None:
        self.machines, self.switch, self.directory = machines, switch, directory
        self.out = directory / "results" / "run"
        self.audit = directory / "results" / "run.audit.jsonl"
        self.data = inventory_data(chip, switch.address, tunnel=machines.ssh(SWITCH))
        self.data["delay"] = {"at": "none"}
        for machine in (*self.data["senders"], self.data["receiver"]):
            machine["ssh"] = machines.ssh(machine["name"])
        self.pid = 0
        self._before = self._state()

    def start(self, *options: str, **experiment: Any) -> subprocess.Popen[str]:
        """``narrows run`` on the collector's machine."""
        (self.directory / "results").mkdir()
        (self.directory / "lab.yaml").write_text(yaml.safe_dump(self.data))
        (self.directory / "experiment.yaml").write_text(
            yaml.safe_dump(
                {
                    "name": "tofino",
                    "bottleneck": {"rate": "10Gbit", "buffer": "1MB", "rtt": "1ms"},
                    "flows": [{"cca": "cubic", "duration": "1s"}, {"cca": "reno", "duration": "1s"}],
                    **experiment,
                }
            )
        )
        inside = ["ip", "netns", "exec", self.machines.namespace("dave"), *NARROWS]
        command = [*inside, "run", "experiment.yaml", "--target", "tofino", "--inventory", "lab.yaml"]
        command += ["--out", str(self.out), *options]
        # ip execs what it starts, so that this is Narrows' pid.
        process = subprocess.Popen(
            command,
            cwd=self.directory,
            env={**ENVIRONMENT, "COLUMNS": "200"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.pid = process.pid
        return process

    def run(self, *options: str, **experiment: Any) -> tuple[int, str]:
        """``narrows run`` to its end: exit code and what it printed."""
        process = self.start(*options, **experiment)
        printed, _ = process.communicate(timeout=120)
        return process.returncode, printed

    def record(self) -> dict[str, Any]:
        """run.json."""
        record: dict[str, Any] = json.loads((self.out / "run.json").read_text())
        return record

    def summary(self) -> dict[str, Any]:
        """summary.json."""
        summary: dict[str, Any] = json.loads((self.out / "summary.json").read_text())
        return summary

    def assert_restored(self) -> None:
        assert self._state() == self._before
        assert not [run for run in all_runs() if run.owner_pid == self.pid]
        if self.audit.exists():
            assert outstanding(read_audit(self.audit)) == []

    def assert_no_credentials(self, printed: str) -> None:
        """How machines and switch are reached is nowhere in what a run leaves, and no key at all."""
        files = [path for path in self.out.parent.rglob("*") if path.is_file()]
        assert self.audit in files and len(files) > 5
        for text in (printed.encode(), *(path.read_bytes() for path in files)):
            for secret in (str(self.machines.directory), "PRIVATE KEY", "192.0.2.", "known_hosts"):
                assert secret.encode() not in text

    def assert_nothing_was_made(self) -> None:
        assert list((self.directory / "results").iterdir()) == []
        self.assert_restored()

    def _state(self) -> dict[str, Any]:
        hosts = {name: self.machines.inside(name, "sh", "-c", FACTS) for name in HOSTS}
        return {**hosts, SWITCH: self.switch.ask()}


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    made = Machines([*HOSTS, SWITCH], tmp_path_factory.mktemp("machines"))
    try:
        made.create()
        yield made
    finally:
        made.remove()


@pytest.fixture
def chip() -> str:
    return "tofino"


@pytest.fixture
def lab(machines: Machines, chip: str, tmp_path: Path) -> Iterator[Lab]:
    switch = Switch(machines, chip)
    try:
        yield Lab(machines, switch, chip, tmp_path)
    finally:
        switch.stop()


@pytest.mark.long
@pytest.mark.parametrize("chip", ["tofino", "tofino2"])
def test_a_run_without_telemetry_fails_clearly_and_leaves_everything_as_it_was(lab: Lab, chip: str) -> None:
    code, printed = lab.run()
    assert code == EXIT_FAILED, printed
    assert "failed run: no telemetry report arrived" in printed and "Traceback" not in printed
    lab.assert_restored()
    record = lab.record()
    assert (record["status"], record["reason"]) == ("failed", "no telemetry report arrived")
    assert (record["clock_origin_ns"], record["clock_origin_source"]) == (None, None)
    assert record["target_profile"]["name"] == chip
    assert record["switch"]["program"]["tofino"]["bottleneck"]["depth"]["cells"] > 0
    assert record["host"]["testbed"]["machines"]["sender1"]["name"] == "bob"
    # The flows went past the switch, from the machines that the inventory names.
    assert [flow["src"] for flow in record["flows"]] == ["10.0.0.1", "10.0.0.2"]
    assert all(flow["bytes_sent"] > 0 for flow in record["flows"])
    lab.assert_no_credentials(printed)
    # Their sockets are read, at times of the experiment: to one reading, as each may wait for the processor between its
    # time and what it reads, and a flow between noting its end and closing its socket.
    sockets = pd.read_parquet(lab.out / "hosts" / "sockets.parquet")
    assert set(sockets["flow"]) == {0, 1}
    ended_s = max(flow["ended_s"] for flow in record["flows"])
    assert sockets["time_s"].between(-SOCKETS_INTERVAL_S, ended_s + SOCKETS_INTERVAL_S).all()
    # All that was written on the switch is recorded, and was taken back.
    changes = read_audit(lab.audit)
    assert any(change.table.endswith("tm.queue.sched_shaping") for change in changes)
    assert lab.audit.stat().st_mode & 0o077 == 0


WORKLOAD = {
    "flows": 5,
    "sizes": {"pareto": {"shape": 1.2, "smallest": "10kB", "largest": "300kB"}},
    "gaps": {"lognormal": {"median": "100ms", "sigma": 0.5}},
}


@pytest.mark.long
def test_trains_and_workloads_run_on_the_machines_at_their_times(lab: Lab) -> None:
    train = {"name": "train", "cca": "cubic", "size": "200kB", "repeat": 3, "gap": "100ms", "start": "3s"}
    code, printed = lab.run(flows=[train, {"name": "web", "cca": "reno", "workload": WORKLOAD, "start": "3s"}])
    assert code == EXIT_FAILED and "failed run: no telemetry report arrived" in printed, printed
    lab.assert_restored()
    flows = lab.record()["flows"]
    assert [flow["group"] for flow in flows] == ["train"] * 3 + ["web"] * 5
    assert all(flow["bytes_sent"] == flow["size_bytes"] for flow in flows)
    assert all(earlier["ended_s"] + 0.1 <= later["started_s"] for earlier, later in pairwise(flows[:3]))
    # On the experiment's clock, though every machine has one of its own.
    assert all(0 <= flow["started_s"] - flow["start_s"] < 1 for flow in (flows[0], *flows[3:]))


@pytest.mark.long
def test_a_rate_that_varies_is_recorded_as_it_was_made(lab: Lab) -> None:
    calibration = measured("tofino", rate_step_ns=100_000_000)
    calibration.write(calibration_path(lab.directory / "lab.yaml"))
    steps = [{"at": "0s", "rate": "10Gbit"}, {"at": "300ms", "rate": "5Gbit"}, {"at": "700ms", "rate": "8Gbit"}]
    code, printed = lab.run(bottleneck={"rate": {"steps": steps}, "buffer": "1MB", "rtt": "1ms"})
    assert code == EXIT_FAILED and "failed run: no telemetry report arrived" in printed, printed
    assert "bottleneck.rate: its steps are timed by software" in printed
    lab.assert_restored()
    (link,) = lab.record()["links"]
    assert link["rate_schedule"]["start_ns"] == [0, 300_000_000, 700_000_000]
    applied = link["rate_steps_applied"]
    assert (applied["timed_by"], applied["finest_step_ns"]) == ("software", 100_000_000)
    assert applied["planned_ns"] == link["rate_schedule"]["start_ns"][1:]
    times = zip(applied["planned_ns"], applied["begun_ns"], applied["achieved_ns"], strict=True)
    assert all(planned <= begun < achieved for planned, begun, achieved in times)
    assert applied["rate_bps"] == pytest.approx([5e9, 8e9], rel=5e-3)


@pytest.mark.long
def test_the_delay_line_lives_as_long_as_the_run(lab: Lab) -> None:
    """The cables' bridge does not lead anything through it; `test_delay_line.py` does."""
    mac = "02:00:00:00:00:05"
    lab.machines.add_nic("dave", "ens2f0", mac)
    try:
        lab.data["ports"].append({"name": "5/0", "dev_port": 160, "speed": "100G"})
        lab.data["delay"] = {"at": "line", "port": "5/0", "interface": "ens2f0", "mac": mac}
        process = lab.start(flows=[{"cca": "cubic", "duration": "3s"}])
        wait_until(lambda: "1@ens2f0" in lab.machines.inside("dave", "ps", "axww"))
        printed, _ = process.communicate(timeout=120)
        assert process.returncode == EXIT_FAILED and "failed run: no telemetry report arrived" in printed, printed
        assert "1@ens2f0" not in lab.machines.inside("dave", "ps", "axww")
        assert lab.record()["host"]["testbed"]["machines"]["switch"]["name"] == "delay-line"
        lab.assert_restored()
    finally:
        lab.machines.remove_nic("dave", "ens2f0")


@pytest.mark.long
@pytest.mark.needs("no-netem")
def test_a_receiver_without_netem_is_named_before_anything_is_changed(lab: Lab) -> None:
    lab.data["delay"] = {"at": "receiver"}
    code, printed = lab.run()
    assert code == EXIT_BAD_INPUT, printed
    assert "carol: " in printed and "no delays: the kernel lacks sch_prio, sch_netem or cls_u32; fix: " in printed
    lab.assert_nothing_was_made()


@pytest.mark.long
def test_a_train_ends_with_the_group_that_it_lasts_until(lab: Lab) -> None:
    train = {"name": "train", "cca": "cubic", "size": "100kB", "repeat": 1000, "gap": "50ms", "until": "bulk"}
    code, printed = lab.run(flows=[{"name": "bulk", "cca": "reno", "duration": "2s"}, train])
    assert code == EXIT_FAILED and "failed run: no telemetry report arrived" in printed, printed
    lab.assert_restored()
    bulk, *trains = lab.record()["flows"]
    assert 5 < len(trains) < 100
    assert bulk["ended_s"] < trains[-1]["ended_s"] < bulk["ended_s"] + 2


@pytest.mark.long
def test_a_switch_that_cannot_be_reached_is_noticed_before_any_machine_is_touched(lab: Lab) -> None:
    lab.data["switch"]["address"] = "127.0.0.1:9"
    visits = [lab.machines.visits(name) for name in HOSTS[:3]]
    code, printed = lab.run()
    assert code == EXIT_FAILED and "switch 127.0.0.1:" in printed and "Traceback" not in printed, printed
    # One visit each: the questions that change nothing.
    assert [lab.machines.visits(name) for name in HOSTS[:3]] == [before + 1 for before in visits]
    lab.assert_nothing_was_made()


@pytest.mark.long
def test_an_interrupted_run_is_partial_and_leaves_everything_as_it_was(lab: Lab) -> None:
    process = lab.start(flows=[{"cca": "cubic", "duration": "60s"}])
    wait_until(lambda: "python3" in lab.machines.inside("alice", "ss", "-Htnp"))
    process.send_signal(signal.SIGINT)
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == EXIT_INTERRUPTED, printed
    assert "partial run: interrupted by SIGINT" in printed and "Traceback" not in printed
    assert lab.record()["status"] == "partial"
    lab.assert_restored()


@pytest.mark.long
def test_an_interruption_while_the_switch_is_set_up_leaves_nothing(lab: Lab) -> None:
    process = lab.start()
    wait_until(lab.audit.exists)
    process.send_signal(signal.SIGTERM)
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == EXIT_INTERRUPTED, printed
    assert not lab.out.exists() and "Traceback" not in printed
    lab.assert_restored()


@pytest.mark.long
def test_a_switch_that_refuses_fails_the_run_and_nothing_is_left(lab: Lab) -> None:
    lab.switch.ask("fail cross_connect")
    code, printed = lab.run()
    assert code == EXIT_FAILED, printed
    assert "cross_connect" in printed and "Traceback" not in printed
    # Only the log of what was changed and taken back.
    assert list(lab.audit.parent.iterdir()) == [lab.audit]
    lab.assert_restored()


def test_machines_are_asked_before_anything_is_changed(lab: Lab) -> None:
    lab.data["senders"][1]["ssh"]["port"] = 2222
    lab.data["receiver"]["interface"] = "ens9"
    code, printed = lab.run(flows=[{"cca": "cubic", "duration": "1s"}, {"cca": "reno", "duration": "1s"}])
    assert code == EXIT_BAD_INPUT, printed
    assert "bob: no ssh to 192.0.2.2" in printed and "carol: " in printed and "no interface ens9" in printed
    lab.assert_nothing_was_made()


@pytest.mark.long
def test_a_congestion_control_is_looked_for_where_it_is_used(lab: Lab) -> None:
    code, printed = lab.run(flows=[{"cca": "cubic", "duration": "1s"}, {"cca": "nosuch", "duration": "1s"}])
    assert code == EXIT_BAD_INPUT, printed
    assert "bob: " in printed and "no congestion control 'nosuch'" in printed and "alice: " not in printed
    lab.assert_nothing_was_made()


@pytest.mark.long
@pytest.mark.parametrize(
    ("experiment", "says"),
    [
        ({"flows": [{"cca": "cubic", "duration": "1s"}] * 3}, "3 groups need as many senders, the inventory has 2"),
        ({"bottleneck": {"rate": "10Gbit", "buffer": "1GB", "rtt": "1ms"}}, "allowed: up to"),
    ],
)
def test_what_does_not_fit_the_testbed_is_refused(lab: Lab, experiment: dict[str, Any], says: str) -> None:
    code, printed = lab.run(**experiment)
    assert code == EXIT_BAD_INPUT, printed
    assert says in printed and "experiment.yaml:" in printed
    lab.assert_nothing_was_made()


def wait_until(condition: Callable[[], object], within_s: float = 120) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
