# SPDX-License-Identifier: Apache-2.0
"""``narrows run --target soft --inventory`` as a lab calls it: a Linux machine's NICs as ports, machines over sshd.

Machines are network namespaces, cables veth pairs: everything else is what a lab has, to the last report.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from difflib import ndiff
from pathlib import Path
from typing import Any

import pytest
import yaml
from lab_machines import Machines
from narrows.errors import EXIT_BAD_INPUT, EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK
from narrows_formats.programs import COLLECTOR, SOFTSWITCH

pytestmark = pytest.mark.needs("root", "sshd", "ssh", COLLECTOR, SOFTSWITCH)

ENDS = ["alice", "bob", "carol"]
BOX, DESK = "box", "desk"
NICS = {"alice": "left", "bob": "left2", "carol": "right"}
QUEUES = 4
ENVIRONMENT = {
    **os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2] / "control_plane"), "COLUMNS": "200"
}  # fmt: skip
NARROWS = [sys.executable, "-c", "from narrows.cli import main; main()"]
DEMO = Path(__file__).resolve().parents[2] / "experiments" / "demo.yaml"
# What set-up touches, what runs, and what is in places for files.
FACTS = (
    "for nic in $(ls /sys/class/net | grep -v -E '^(lo|mgmt0)$'); do ip -brief address show dev $nic scope global; "
    "ip -brief link show dev $nic; ip neighbour show dev $nic nud permanent; "
    "ethtool -k $nic | grep -E 'tcp-seg|generic-'; cat /sys/class/net/$nic/mtu; ls /sys/class/net/$nic/queues; "
    "sysctl net.ipv6.conf.$nic.disable_ipv6; done; sysctl net.ipv4.tcp_rmem net.ipv4.tcp_wmem "
    "net.ipv4.tcp_no_metrics_save net.ipv4.tcp_ecn net.ipv4.ip_local_port_range; ls -a /run/narrows-host/$("
    "readlink /proc/self/ns/net | tr -dc 0-9) 2>&1 | wc -l; ss -Htlnp | grep -v sshd || true"
)


def inside_pids(machines: Machines, name: str) -> list[str]:
    """What runs in a namespace, but for its ssh server and this look at it."""
    pids = subprocess.run(
        ["ip", "netns", "pids", machines.namespace(name)], capture_output=True, text=True, check=True
    ).stdout.split()
    found = []
    for pid in pids:
        try:
            found.append(Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip())
        except OSError:
            continue
    return [words for words in found if words and not words.startswith(("/usr/sbin/sshd", "sshd", "unshare"))]


class Lab:
    """A testbed, the desk that Narrows is run at (the switch's own machine, or another one), and how all was before."""

    def __init__(self, machines: Machines, desk: str, directory: Path) -> None:
        self.machines, self.desk, self.directory = machines, desk, directory
        self.out = directory / "results" / "run"
        self.data: dict[str, Any] = {
            "switch": {
                "ports": [{"name": nic, "interface": nic, "speed": "10G"} for nic in NICS.values()],
                **({} if desk == BOX else {"ssh": machines.ssh(BOX)}),
            },
            "senders": [self._machine("alice", 1), self._machine("bob", 2)],
            "receiver": self._machine("carol", 3),
        }
        self._started: list[subprocess.Popen[str]] = []
        self._before = self._state()

    def _machine(self, name: str, number: int) -> dict[str, Any]:
        return {
            "name": name,
            "ssh": self.machines.ssh(name),
            "port": NICS[name],
            "interface": "ens1f0",
            "mac": self.machines.mac(name),
            "address": f"10.0.0.{number}/24",
            "address6": f"2001:db8::{number}/64",
        }

    def start(self, *arguments: str, experiment: Path = DEMO) -> subprocess.Popen[str]:
        self.out.parent.mkdir(exist_ok=True)
        return self.narrows("run", str(experiment), *arguments)

    def narrows(self, *arguments: str) -> subprocess.Popen[str]:
        """A command with the lab's inventory, at its desk."""
        (self.directory / "lab.yaml").write_text(yaml.safe_dump(self.data))
        words = [*NARROWS, *arguments, "--target", "soft", "--inventory", "lab.yaml"]
        process = subprocess.Popen(
            ["ip", "netns", "exec", self.machines.namespace(self.desk), *words],
            cwd=self.directory, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        self._started.append(process)
        return process

    def end(self) -> None:
        """What a failed test left running."""
        for process in self._started:
            if process.poll() is None:
                process.kill()
                process.communicate()

    def run(self, *arguments: str, **options: Any) -> tuple[int, str]:
        process = self.start("--out", str(self.out), *arguments, **options)
        printed, _ = process.communicate(timeout=600)
        return process.returncode, printed

    def record(self) -> dict[str, Any]:
        record: dict[str, Any] = json.loads((self.out / "run.json").read_text())
        return record

    def summary(self) -> dict[str, Any]:
        summary: dict[str, Any] = json.loads((self.out / "summary.json").read_text())
        return summary

    def _state(self) -> dict[str, str]:
        facts = {name: self.machines.inside(name, "sh", "-c", FACTS) for name in [*ENDS, BOX]}
        running = {f"{name} runs": "\n".join(inside_pids(self.machines, name)) for name in facts}
        return {**facts, **running, "left": "\n".join(sorted(map(str, Path("/var/tmp").glob("narrows-*"))))}

    def differences(self) -> list[str]:
        before, now = (
            [f"{name}: {line}" for name, facts in state.items() for line in facts.splitlines()]
            for state in (self._before, self._state())
        )
        return [line for line in ndiff(before, now) if line[0] in "+-"]

    def assert_restored(self, within_s: float = 0.0) -> None:
        deadline = time.monotonic() + within_s
        while (found := self.differences()) and time.monotonic() < deadline:
            time.sleep(0.2)
        assert found == []


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    made = Machines([*ENDS, BOX, DESK], tmp_path_factory.mktemp("machines"), bridged=False)
    try:
        made.create()
        for name, nic in NICS.items():
            made.wire(name, "ens1f0", BOX, nic, QUEUES)
        yield made
    finally:
        made.remove()


# The switch by ssh from the desk is the longer way to the same: all of it in `make stress`.
@pytest.fixture(params=[BOX, pytest.param(DESK, marks=pytest.mark.needs("stress"))])
def lab(request: pytest.FixtureRequest, machines: Machines, tmp_path: Path) -> Iterator[Lab]:
    made = Lab(machines, request.param, tmp_path)
    yield made
    made.end()


SHORT = ["--set", "flows.0.duration=3s", "--set", "flows.1.duration=3s"]


@pytest.mark.long
def test_the_demo_runs_between_machines_and_leaves_them_as_they_were(lab: Lab) -> None:
    code, printed = lab.run(*SHORT)
    assert code == EXIT_OK, printed
    lab.assert_restored()
    record, summary = lab.record(), lab.summary()
    assert record["status"] == "complete" and record["target_profile"]["name"] == "soft"
    assert [flow["src"] for flow in record["flows"]] == ["10.0.0.1", "10.0.0.2"]
    # Every report is here, and says the same as the switch's own counters.
    assert summary["telemetry"]["lost"] == 0
    assert summary["telemetry"]["reports"] >= sum(flow["departures"] for flow in summary["flows"]) > 1000
    assert record["drop_cross_check"]["bottleneck"]["holds"]
    assert all(balance["lost"] == 0 for balance in record["balances"])
    # 100 Mbit/s of full frames, less what TCP takes to fill it, and what a busy machine takes of the hosts' time.
    assert 0.1 < summary["bottleneck"]["utilization"] <= 1.0001
    # The RTT is the switch's: 40 ms, and what machines and cables of one machine take.
    assert all(0.040 <= flow["rtt_s"]["min"] < 0.045 for flow in summary["flows"])
    described = record["host"]["testbed"]["machines"]
    assert described["switch"]["queues"] == "1" and described["switch"]["quiet"] == "yes"
    assert {one["name"] for one in described.values()} >= {"alice", "bob", "carol", "switch (left)", "switch (right)"}


# More than the link carries, from one host: what comes of it is arithmetic.
OFFERED_BPS, RATE_BPS, QUEUE_S, FRAME, HEADERS = 12_500_000, 10_000_000, 0.02, 1514, 42
PAYLOAD = FRAME - HEADERS
STEADY = {
    "name": "steady",
    "bottleneck": {"rate": f"{RATE_BPS}bit", "buffer": "20ms", "rtt": "10ms"},
    "flows": [
        {
            "name": "cbr",
            "udp": {"rate": f"{OFFERED_BPS * PAYLOAD // FRAME}bit", "payload": f"{PAYLOAD}B"},
            "duration": "4s",
        }
    ],
}


@pytest.mark.long
def test_what_is_measured_is_what_a_local_run_measures(machines: Machines, tmp_path: Path) -> None:
    """And both are what theory says: of a constant bit rate what exceeds the link is lost, and a full queue delays."""
    experiment = tmp_path / "steady.yaml"
    experiment.write_text(yaml.safe_dump(STEADY))
    lab = Lab(machines, DESK, tmp_path)
    code, printed = lab.run(experiment=experiment)
    assert code == EXIT_OK, printed
    lab.assert_restored()
    here = [*NARROWS, "run", str(experiment), "--out", str(tmp_path / "here")]
    local = subprocess.run(here, env=ENVIRONMENT, capture_output=True, text=True, timeout=300, check=False)
    assert local.returncode == EXIT_OK, local.stdout + local.stderr
    frame_s = FRAME * 8 / RATE_BPS
    for summary in (lab.summary(), json.loads((tmp_path / "here" / "summary.json").read_text())):
        bottleneck, (flow,) = summary["bottleneck"], summary["flows"]
        assert summary["telemetry"]["lost"] == 0
        # While a packet waits, the link carries its rate; how much of the time, and by how much it is exceeded, is the
        # sender's, which a busy machine holds up.
        assert bottleneck["saturated_rate_bps"] == pytest.approx(RATE_BPS, rel=1e-3)
        # Times have whole nanoseconds.
        carried = round((flow["end_s"] - flow["start_s"]) / frame_s, 3) + 1
        assert 0 < flow["departures"] <= carried
        # What the queue dropped is what the hosts miss.
        datagrams = flow["datagrams"]
        assert (datagrams["sent"], datagrams["received"]) == (flow["arrivals"], flow["departures"])
        assert bottleneck["loss_ratio"] == pytest.approx(datagrams["lost"] / datagrams["sent"])
        assert bottleneck["loss_ratio"] >= 1 - carried / datagrams["sent"]
        assert bottleneck["queue_delay_s"]["p50"] == pytest.approx(QUEUE_S, abs=2 * frame_s)
    # The machines' clocks are hours apart.
    assert lab.summary()["flows"][0]["datagrams"]["delay_s"] is None
    assert flow["datagrams"]["delay_s"]["p50"] == pytest.approx(QUEUE_S, rel=0.5)


@pytest.mark.long
def test_an_interrupted_run_is_partial_and_leaves_everything_as_it_was(lab: Lab) -> None:
    process = lab.start("--out", str(lab.out))
    while "python3" not in lab.machines.inside("alice", "ss", "-Htnp"):
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    printed, _ = process.communicate(timeout=300)
    assert process.returncode == EXIT_INTERRUPTED, printed
    assert "partial run: interrupted by SIGINT" in printed and "Traceback" not in printed
    assert lab.summary()["telemetry"]["reports"] > 0
    lab.assert_restored()


@pytest.mark.long
@pytest.mark.parametrize("where", ["alice", "switch (left)"])
def test_a_machine_that_is_given_up_during_a_run_fails_it(lab: Lab, where: str) -> None:
    """The connection of its guard ends, and no other: settings are back while traffic flows on."""
    process = lab.start("--out", str(lab.out), *SHORT)
    while "python3" not in lab.machines.inside("alice", "ss", "-Htnp"):
        assert process.poll() is None
        time.sleep(0.1)
    # The last words of ssh's command, or of the guard itself at this machine.
    interface, ssh = ("left", lab.desk != BOX) if where != "alice" else ("ens1f0", True)
    at = lab.machines.ssh(BOX if where != "alice" else "alice")["host"]
    commands = {
        int(pid): Path(f"/proc/{pid}/cmdline").read_text()
        for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    }
    (guard,) = (
        pid
        for pid, words in commands.items()
        if f"guard{' ' if ssh else chr(0)}{interface}{' ' if ssh else chr(0)}" in words and (at in words) == ssh
    )
    os.kill(guard, signal.SIGKILL)
    printed, _ = process.communicate(timeout=300)
    assert process.returncode == EXIT_FAILED, printed
    # On a busy machine there may be other reasons as well.
    assert f"{where}: what the run had set was put back before its end, as the" in " ".join(printed.split()), printed
    lab.assert_restored(20.0)


LONGEST_S = 12.0


def killed(lab: Lab, moment_s: float) -> None:
    """A run that is killed at a moment; its machines are given the time that ``host.sh`` needs."""
    process = lab.start("--out", str(lab.out))
    time.sleep(moment_s)
    process.kill()
    process.communicate()
    lab.assert_restored(100.0)
    # The record of it, and unfinished results: no business of the machines.
    subprocess.run([*NARROWS, "clean"], env=ENVIRONMENT, capture_output=True, check=True)


@pytest.mark.long
@pytest.mark.parametrize("part", [0, 1])
def test_machines_are_as_they_were_after_a_kill_at_any_moment(lab: Lab, part: int) -> None:
    """In the first half, while the testbed is made, and in the second, while traffic flows: all by themselves."""
    killed(lab, random.uniform(part, part + 1) * LONGEST_S / 2)


@pytest.mark.needs("stress")
@pytest.mark.parametrize("number", range(20))
def test_machines_are_as_they_were_after_many_kills(lab: Lab, number: int) -> None:
    killed(lab, random.uniform(number, number + 1) * LONGEST_S / 20)


def test_doctor_finds_the_lab_in_order_and_changes_nothing(lab: Lab) -> None:
    printed, _ = lab.narrows("doctor", "--json").communicate(timeout=300)
    found = {one["subject"]: one for one in json.loads(printed)}
    # These machines are one, and who keeps its clock is its own business.
    wrong = {subject: one["problem"] for subject, one in found.items() if one["problem"]}
    assert not [subject for subject in wrong if not subject.endswith(": clock")], wrong
    assert found["switch (left): receive queues"]["found"] == f"{QUEUES}; a run sets 1"
    assert {"carol: link", "switch (right): use", "switch: processors", "switch program"} <= set(found)
    lab.assert_restored()


def test_a_nic_that_is_in_use_never_becomes_a_port(lab: Lab) -> None:
    lab.machines.inside(BOX, "ip", "address", "add", "203.0.113.1/24", "dev", "right")
    try:
        code, printed = lab.run(*SHORT)
        assert code == EXIT_BAD_INPUT, printed
        assert "switch (right): " in printed and "right has the address 203.0.113.1/24; fix: a NIC that" in printed
    finally:
        lab.machines.inside(BOX, "ip", "address", "del", "203.0.113.1/24", "dev", "right")
    assert not lab.out.exists()
    lab.assert_restored()


def test_a_nic_with_another_mac_address_is_not_used(lab: Lab) -> None:
    """Frames for the address in the inventory would never come to it, and a flow of nothing would be measured."""
    lab.data["senders"][1]["mac"] = "02:00:00:00:00:77"
    code, printed = lab.run(*SHORT)
    assert code == EXIT_BAD_INPUT, printed
    own = lab.machines.mac("bob")
    assert f"ens1f0 has the MAC address {own}, not 02:00:00:00:00:77; fix: mac in the inventory" in printed
    assert not lab.out.exists()
    lab.assert_restored()


def test_processors_that_the_switch_may_not_have_fail_the_run(lab: Lab) -> None:
    lab.data["switch"]["cores"] = "0,4000"
    code, printed = lab.run(*SHORT)
    assert code == EXIT_FAILED, printed
    assert "it may run on processors 0, not 0,4000 (cores in the inventory)" in printed
    lab.assert_restored()


@pytest.mark.long
def test_the_switch_runs_on_its_processors(lab: Lab) -> None:
    lab.data["switch"] |= {"cores": "0", "interrupts": "1"}
    process = lab.start("--out", str(lab.out), *SHORT)
    while (allowed := processors_of_the_switch(lab)) is None:
        assert process.poll() is None, process.communicate()
        time.sleep(0.1)
    printed, _ = process.communicate(timeout=300)
    assert process.returncode == EXIT_OK, printed
    assert allowed == "0"


def processors_of_the_switch(lab: Lab) -> str | None:
    """Processors that the softswitch may run on; None before there is one."""
    listed = ["ip", "netns", "pids", lab.machines.namespace(BOX)]
    for pid in subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split():
        with contextlib.suppress(OSError):
            # The kernel keeps 15 characters of a name.
            if Path(f"/proc/{pid}/comm").read_text().strip() == SOFTSWITCH[:15]:
                status = Path(f"/proc/{pid}/status").read_text().splitlines()
                return next(line.split()[1] for line in status if line.startswith("Cpus_allowed_list"))
    return None
