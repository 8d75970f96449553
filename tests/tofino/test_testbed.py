# SPDX-License-Identifier: Apache-2.0
"""Machines over a real sshd: set-up, restoration, processes, the tunnel to the switch, and what doctor says."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fakeswitch.fixtures import inventory_data, make_experiment
from fakeswitch.server import FakeSwitch
from lab_machines import CLOCKS_APART_S, Machines
from narrows.errors import RunError
from narrows.experiment.plan import Plan
from narrows.experiment.planning import make_plan
from narrows.hosts.lab import remote_clock
from narrows.hosts.lab.inventory import Ssh
from narrows.hosts.lab.machines import SshTestbed
from narrows.hosts.lab.ssh import run as run_there
from narrows.hosts.lab.ssh import ssh_command
from narrows.hosts.process import Process
from narrows_tofino.binding import bind
from narrows_tofino.doctor import examine
from narrows_tofino.testbed.inventory import Inventory

pytestmark = [pytest.mark.needs("root", "sshd", "ssh"), pytest.mark.parallel_safe]

NAMES = ["alice", "bob", "carol"]
HERE = Path(__file__).resolve().parent
CONTROL_PLANE = HERE.parents[1] / "control_plane"


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    made = Machines(NAMES, tmp_path_factory.mktemp("machines"))
    try:
        made.create()
        yield made
    finally:
        made.remove()


@pytest.fixture(autouse=True)
def _ssh_from_the_hub(machines: Machines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ssh itself is the real one; it only has to start on the management network."""
    wrapper = tmp_path / "bin" / "ssh"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\nexec ip netns exec {machines.namespace("hub")} /usr/bin/ssh "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}:{Path('/usr/sbin')}:/usr/bin:/bin:/sbin")
    monkeypatch.setenv("PYTHONPATH", str(CONTROL_PLANE))


def lab_data(machines: Machines, **changes: Any) -> dict[str, Any]:
    data = inventory_data("tofino")
    for machine in (*data["senders"], data["receiver"]):
        machine["ssh"] = machines.ssh(machine["name"])
    data["collector"]["interface"] = "lo"
    data["delay"] = {"at": "none"}
    return {**data, **changes}


@pytest.fixture
def inventory(machines: Machines) -> Inventory:
    return Inventory.model_validate(lab_data(machines))


@pytest.fixture
def plan(inventory: Inventory) -> Plan:
    return bind(make_plan(make_experiment(ecn_threshold="100kB")), inventory)


def only_machines(testbed: SshTestbed) -> SshTestbed:
    """Without the collector, which is this machine and has no NIC to spare."""
    del testbed._machines["collector"]
    return testbed


@pytest.fixture
def testbed(plan: Plan, inventory: Inventory, tmp_path: Path) -> Iterator[SshTestbed]:
    made = only_machines(SshTestbed(plan, inventory, tmp_path, 1500))
    yield made
    made.remove()


def facts(machines: Machines, name: str) -> str:
    """Everything that set-up touches."""
    commands = (
        "ip -brief address show dev ens1f0; ip neighbour show dev ens1f0 nud permanent; "
        "ethtool -k ens1f0 | grep -E 'tcp-seg|generic-'; cat /sys/class/net/ens1f0/mtu; "
        "sysctl net.ipv4.tcp_rmem net.ipv4.tcp_wmem net.ipv4.tcp_no_metrics_save net.ipv4.tcp_ecn "
        "net.ipv4.ip_local_port_range"
    )
    return machines.inside(name, "sh", "-c", commands)


def test_what_an_inventory_does_not_say_of_ssh_is_by_its_configuration(tmp_path: Path) -> None:
    """As 'ssh box' works, which a message about a machine that is not reached asks for."""
    (tmp_path / "config").write_text("Host box\n    Port 2222\n    User narrows\n")
    for given, port in ((Ssh(host="box"), "2222"), (Ssh(host="box", port=22), "22")):
        words = ssh_command(given, ["-F", str(tmp_path / "config"), "-G"])
        said = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
        assert {f"port {port}", "user narrows"} <= set(said)


def test_host_keys_may_be_in_a_place_with_a_space(inventory: Inventory, machines: Machines, tmp_path: Path) -> None:
    place = tmp_path / "the lab's"
    place.mkdir()
    reached = machines.ssh("alice")
    (place / "known hosts").write_text(Path(reached["known_hosts"]).read_text())
    ssh = Ssh.model_validate({**reached, "known_hosts": place / "known hosts"})
    assert run_there(inventory.senders[0].model_copy(update={"ssh": ssh}), ["echo", "there"]) == "there\n"


def test_machines_are_set_up_read_back_and_put_back(testbed: SshTestbed, machines: Machines) -> None:
    before = {name: facts(machines, name) for name in NAMES}
    testbed.create()
    alice = facts(machines, "alice")
    assert "10.0.0.1/24" in alice and "10.0.0.3 lladdr 02:00:00:00:00:03 PERMANENT" in alice
    assert "tcp-segmentation-offload: off" in alice and "generic-segmentation-offload: off" in alice
    assert "tcp_ecn = 1" in alice and "67108864" in alice
    described = json.loads(json.dumps(testbed.describe()))
    assert described["machines"]["sender0"]["offload.tso"] == "off"
    assert described["machines"]["sender0"]["name"] == "alice"
    words = json.dumps(described)
    assert "identity" not in words and "192.0.2" not in words
    testbed.remove()
    assert {name: facts(machines, name) for name in NAMES} == before


@pytest.mark.long
def test_a_second_run_on_the_same_machines_is_refused(
    testbed: SshTestbed, plan: Plan, inventory: Inventory, machines: Machines, tmp_path: Path
) -> None:
    """It changes nothing, neither when it begins nor when it gives up."""
    testbed.create()
    busy = {name: facts(machines, name) for name in NAMES}
    second = only_machines(SshTestbed(plan, inventory, tmp_path, 9000))
    with pytest.raises(RunError, match="is in use by another run"):
        second.create()
    second.remove()
    assert {name: facts(machines, name) for name in NAMES} == busy
    testbed.remove()
    second.create()
    second.remove()


UNREAD = """
import socket
receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
receiver.bind(("127.0.0.1", 0))
for _ in range(100):
    receiver.sendto(bytes(1000), receiver.getsockname())
"""


def test_what_the_kernel_drops_before_a_socket_is_counted(testbed: SshTestbed, machines: Machines) -> None:
    _, before = testbed.received("receiver")
    machines.inside("carol", "python3", "-I", "-c", UNREAD)
    _, now = testbed.received("receiver")
    assert 90 < now["kernel (Udp.RcvbufErrors)"] - before["kernel (Udp.RcvbufErrors)"] < 100
    assert {"kernel (backlog)", "kernel (TcpExt.TCPBacklogDrop)", "kernel (TcpExt.RcvPruned)"} <= now.keys()
    testbed.create()
    described = json.loads(json.dumps(testbed.describe()))["machines"]["receiver"]
    assert "kernel" in described and not [name for name in described if name.startswith("kernel.")]


def test_a_machine_that_fails_leaves_no_other_changed(
    plan: Plan, inventory: Inventory, machines: Machines, tmp_path: Path
) -> None:
    before = {name: facts(machines, name) for name in NAMES}
    broken = replace(plan, flows=tuple(replace(flow, cca="vegas2") for flow in plan.flows))
    with pytest.raises(RunError, match=r"alice: .*the kernel has no congestion control 'vegas2'; fix: install"):
        only_machines(SshTestbed(broken, inventory, tmp_path, 1500)).create()
    assert {name: facts(machines, name) for name in NAMES} == before


def test_a_killed_run_s_settings_are_put_back_by_the_next(
    plan: Plan, inventory: Inventory, machines: Machines, tmp_path: Path
) -> None:
    before = {name: facts(machines, name) for name in NAMES}
    killed = only_machines(SshTestbed(plan, inventory, tmp_path, 1400))
    killed._token = ""  # as from a shell: nothing holds the machines
    killed._everywhere(list(killed._machines), killed._apply)
    assert {name: facts(machines, name) for name in NAMES} != before
    second = only_machines(SshTestbed(plan, inventory, tmp_path, 1450))
    second.create()
    second.remove()
    assert {name: facts(machines, name) for name in NAMES} == before


def test_a_killed_run_s_machines_put_themselves_back(testbed: SshTestbed, machines: Machines) -> None:
    """What the kernel does to a process that is killed: the guards' pipes end. No command comes any more."""
    before = {name: facts(machines, name) for name in NAMES}
    testbed.create()
    assert {name: facts(machines, name) for name in NAMES} != before
    for guard in testbed._guards:
        assert guard._process is not None and guard._process.stdin is not None
        guard._process.stdin.close()
    deadline = time.monotonic() + 10
    while {name: facts(machines, name) for name in NAMES} != before:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    # What was on its way to a machine then changes nothing there.
    with pytest.raises(RunError, match="ens1f0: the run that asked for this has ended"):
        testbed._apply("sender0")
    assert facts(machines, "alice") == before["alice"]
    with pytest.raises(RunError, match="alice, bob, carol: what the run had set was put back before its end"):
        testbed.remove()


@pytest.mark.long
def test_a_machine_that_a_run_elsewhere_has_is_not_touched(
    testbed: SshTestbed, plan: Plan, inventory: Inventory, machines: Machines, tmp_path: Path
) -> None:
    """Runs that are started on different machines do not see each other's locks; the machines' guards do."""
    testbed.create()
    busy = {name: facts(machines, name) for name in NAMES}
    (tmp_path / "elsewhere").mkdir()
    other = only_machines(SshTestbed(plan, inventory, tmp_path / "elsewhere", 9000))
    with pytest.raises(RunError, match=r"alice: it cannot be reserved for the run: .* is in use by another run"):
        other.create()
    assert {name: facts(machines, name) for name in NAMES} == busy


def test_delays_are_made_or_the_lack_is_named(plan: Plan, machines: Machines, tmp_path: Path) -> None:
    inventory = Inventory.model_validate(lab_data(machines, delay={"at": "receiver"}))
    testbed = only_machines(SshTestbed(plan, inventory, tmp_path, 1500))
    before = facts(machines, "carol")
    try:
        testbed.create()
    except RunError as error:
        assert "carol" in str(error) and "fix: a kernel with sch_prio and sch_netem" in str(error)
    else:
        qdiscs = machines.inside("carol", "tc", "qdisc", "show", "dev", "ens1f0")
        assert qdiscs.count("delay 10") == 2
        testbed.remove()
    assert facts(machines, "carol") == before


@pytest.mark.parametrize(("name", "value"), [("mtu", "1400"), ("offload.gro", "on"), ("sysctl.tcp_ecn", "2")])
def test_a_machine_that_ignores_a_setting_fails_the_set_up(
    testbed: SshTestbed, machines: Machines, name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = facts(machines, "alice")
    really = SshTestbed._facts
    monkeypatch.setattr(SshTestbed, "_facts", lambda self, host: {**really(self, host), name: value})
    with pytest.raises(RunError, match=f"alice: {name} is {value}, not "):
        testbed.create()
    assert facts(machines, "alice") == before


@pytest.mark.long
def test_processes_run_there_and_heed_signals(testbed: SshTestbed, machines: Machines, tmp_path: Path) -> None:
    testbed.create()
    out = tmp_path / "out"

    async def body() -> None:
        process = await testbed.spawn("sender0", ["sh", "-c", "echo at $(hostname -I); exit 7"], stdout=out)
        assert await process.wait() == 7
        server = await testbed.spawn("receiver", ["iperf3", "--server", "--bind", "10.0.0.3"], stdout=out)
        assert await asyncio.wait_for(transfer(testbed, tmp_path), 30) > 0
        assert await server.stop(5.0, signal.SIGTERM) != 0
        assert "iperf3" not in machines.inside("carol", "ss", "-ltnp")

    asyncio.run(body())


async def transfer(testbed: SshTestbed, directory: Path) -> int:
    """One second of TCP from a sender to the receiver, over the NICs' addresses; returns the bytes."""
    result = directory / "iperf3.json"
    for _ in range(20):
        command = ["iperf3", "--client", "10.0.0.3", "--bind", "10.0.0.1", "--time", "1", "--json"]
        client: Process = await testbed.spawn("sender0", command, stdout=result)
        await client.wait()
        # The server may not listen yet.
        if "sum_sent" in (end := json.loads(result.read_text() or "{}").get("end", {})):
            return int(end["sum_sent"]["bytes"])
        await asyncio.sleep(0.2)
    raise AssertionError(result.read_text())


def test_clocks_of_machines_are_known(testbed: SshTestbed) -> None:
    for number, host in ((1, "sender0"), (3, "receiver")):
        apart = CLOCKS_APART_S * number if Path("/proc/self/ns/time").exists() else 0
        measured = asyncio.run(testbed.clock_offset_s(host))
        assert measured == pytest.approx(apart, abs=0.05)
        # All who ask have the same, so that what they tell of one flow agrees.
        assert asyncio.run(testbed.clock_offset_s(host)) == measured


def test_a_machine_whose_clock_cannot_be_read_is_named(inventory: Inventory) -> None:
    lost = inventory.senders[0].model_copy(update={"ssh": Ssh(host="192.0.2.77")})
    with pytest.raises(RunError, match="alice: its clock cannot be read: "):
        remote_clock.offset_s(lost)


def test_a_process_ends_with_the_connection(testbed: SshTestbed, machines: Machines) -> None:
    async def body() -> None:
        process = await testbed.spawn("sender0", ["sleep", "987"])
        await wait_until(lambda: "987" in machines.inside("alice", "ps", "axww"))
        process._process.kill()
        await wait_until(lambda: "sleep 987" not in machines.inside("alice", "ps", "axww").replace("sh -c", ""))

    asyncio.run(body())


async def wait_until(condition: Any) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.1)


def test_silenced_senders_speak_again_after_the_run(testbed: SshTestbed, machines: Machines) -> None:
    testbed.create()
    testbed.take_senders_down()
    assert "state DOWN" in machines.inside("alice", "ip", "link", "show", "ens1f0")
    testbed.remove()
    assert "LOWER_UP" in machines.inside("alice", "ip", "link", "show", "ens1f0")


def test_doctor_names_every_fault_and_its_cure(machines: Machines, inventory: Inventory) -> None:
    fake = FakeSwitch("tofino")
    try:
        data = lab_data(machines)
        data["switch"]["address"] = fake.address
        data["receiver"]["mac"] = "02:00:00:00:00:99"
        data["senders"][1]["ssh"]["host"] = "192.0.2.77"
        fake.tm.add_port(128, {"$SPEED": "BF_SPEED_40G", "$FEC": "BF_FEC_TYP_NONE", "$PORT_ENABLE": True})
        before = fake.state()
        found = {one.subject: one for one in examine(Inventory.model_validate(data), ["cubic", "vegas2"])}
        assert "no ssh to 192.0.2.77" in found["bob: access"].problem and "fix:" in found["bob: access"].problem
        assert "fix: mac in the inventory" in found["carol: MAC address"].problem
        assert "vegas2 not loaded; fix: modprobe" in found["alice: CCAs"].problem
        assert found["alice: link"].problem == found["alice: offloads"].problem == ""
        assert "alice: earlier run" in found and found["alice: earlier run"].problem == ""
        assert found["switch: BF Runtime"].problem == "" and "286720 cells of 80 B" in found["switch: chip"].found
        assert "runs at 40G, the inventory says 100G; fix:" in found["switch: port 1/0"].problem
        assert "a run adds it at 100G" in found["switch: port 2/0"].found
        assert all("fix" in one.problem for one in found.values() if one.problem)
        assert fake.state() == before
    finally:
        fake.stop()


def test_a_switch_that_is_off_is_named(inventory: Inventory) -> None:
    quick = Inventory.model_validate({**inventory.model_dump(exclude_none=True)})
    found = {one.subject: one for one in examine(quick)}
    assert "systemctl status narrows-switchd" in found["switch: BF Runtime"].problem


@pytest.mark.long
def test_the_switch_is_reached_through_a_tunnel(machines: Machines, tmp_path: Path) -> None:
    """The fake runs behind an sshd; only its loopback has it."""
    serve = (
        "import sys, time; from fakeswitch.server import FakeSwitch; "
        "fake = FakeSwitch('tofino'); print(fake.address, flush=True); sys.stdin.read(); fake.stop()"
    )
    command = ["ip", "netns", "exec", machines.namespace("carol"), sys.executable, "-c", serve]
    environment = {"PYTHONPATH": f"{CONTROL_PLANE}:{HERE}", "PATH": "/usr/sbin:/usr/bin:/bin"}
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        data = lab_data(machines)
        data["switch"].update(address=address, tunnel=machines.ssh("carol"))
        path = tmp_path / "inventory.json"
        path.write_text(json.dumps(data))
        visit = (
            "import sys; from pathlib import Path; "
            "from narrows_tofino.testbed.inventory import Inventory; "
            "from narrows.hosts.lab.tunnel import Tunnel; "
            "from narrows_tofino.bfrt.connect import connect; "
            "inventory = Inventory.load(Path(sys.argv[1])); "
            "tunnel = Tunnel(inventory.switch.tunnel, inventory.switch.address); "
            "client = connect(inventory.endpoint(tunnel.open()), ('own',)); "
            "print(client.read(client.schema.table('tm.pool.cfg'), {'pool': 'EG_APP_POOL_3'}).data['size_cells']); "
            "client.close(); tunnel.close()"
        )
        inside = ["ip", "netns", "exec", machines.namespace("hub"), sys.executable, "-c", visit, str(path)]
        result = subprocess.run(inside, capture_output=True, text=True, env=environment, timeout=60)
        assert result.stdout.strip() == "12288", result.stderr
        data["switch"]["tunnel"]["identity"] = "/nonexistent"
        path.write_text(json.dumps(data))
        result = subprocess.run(inside, capture_output=True, text=True, env=environment, timeout=60)
        assert "no tunnel to the switch by ssh to 192.0.2.3: " in result.stderr
    finally:
        server.communicate("")
