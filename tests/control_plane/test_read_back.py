# SPDX-License-Identifier: Apache-2.0
"""Each setting of docs/read-back.md, ignored by the program that should have made it: the run fails."""

from __future__ import annotations

import os
from collections.abc import Iterator
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest
from narrows.errors import RunError
from narrows.experiment.loader import validate
from narrows.experiment.planning import make_plan
from narrows.hosts import offloads, steering, uplink
from narrows.hosts.links import End, add_cable, namespace, require_interface, run, set_offloads, set_sysctls
from narrows.hosts.netns import NetnsTestbed
from narrows.hosts.read_back import require
from narrows.hosts.state import RunState

ONE_FLOW: dict[str, Any] = {
    "name": "x",
    "bottleneck": {"rate": "10Mbit", "rtt": "20ms", "buffer": "1bdp"},
    "flows": [{"cca": "reno", "duration": "1s"}],
}
MAC, ADDRESS = "02:4e:57:00:00:01", "198.18.0.1/15"


def test_all_that_differs_is_named() -> None:
    require("alice", {"mtu": 1500, "tcp_rmem": "4096 1 2"}, {"mtu": "1500", "tcp_rmem": "4096\t1\t2\n", "more": 1})
    with pytest.raises(RunError) as caught:
        require("alice", {"mtu": 1500, "ecn": "1", "rate": 5}, {"mtu": 9000, "ecn": "1"})
    assert str(caught.value).splitlines() == ["alice: mtu is 9000, not 1500", "alice: rate is not there, not 5"]


@pytest.fixture
def end() -> Iterator[End]:
    with namespace(f"one-{os.getpid()}") as one, namespace(f"other-{os.getpid()}") as other:
        made = End(one, "eth0")
        add_cable(made, End(other, "port1"), 1500, MAC)
        run(["ip", "-n", one, "address", "add", ADDRESS, "dev", "eth0"])
        yield made


@pytest.mark.needs("root", "ip", "tc")
@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("ip link set dev eth0 mtu 1400", "mtu is 1400, not 1500"),
        ("ip link set dev eth0 address 02:00:00:00:00:09", f"link address is 02:00:00:00:00:09, not {MAC}"),
        ("ip address add 198.18.0.9/15 dev eth0", f"address is {ADDRESS} 198.18.0.9/15, not {ADDRESS}"),
        ("tc qdisc add dev eth0 root pfifo", "qdisc is pfifo, not noqueue"),
        ("ip link set dev eth0 down", "state is DOWN, not UP"),
    ],
)
def test_an_interface_that_is_otherwise(end: End, command: str, named: str) -> None:
    require_interface(end, 1500, MAC, ADDRESS)
    run(["ip", "netns", "exec", end.namespace, *command.split()])
    with pytest.raises(RunError, match=f"{end.namespace}/eth0: {named}"):
        require_interface(end, 1500, MAC, ADDRESS)


@pytest.mark.needs("root", "ip")
@pytest.mark.parametrize("name", ["net.ipv4.tcp_ecn", "net.ipv4.tcp_no_metrics_save", "net.ipv4.tcp_rmem"])
def test_a_kernel_setting_that_is_not_taken(end: End, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {"net.ipv4.tcp_rmem": "4096 131072 70000000"}.get(name, "1" if name.endswith("save") else "0")
    set_sysctls(end.namespace, {name: asked})
    set_sysctls(end.namespace, {name: {"0": "1", "1": "0"}.get(asked, "4096 131072 80000000")})

    def ignore(*_: Any, **__: Any) -> int:
        return 0

    monkeypatch.setattr(Path, "write_text", ignore)
    with pytest.raises(RunError, match=f"{end.namespace}: {name} is .*, not {asked}"):
        set_sysctls(end.namespace, {name: asked})


@pytest.mark.needs("root", "ip")
def test_an_offload_that_is_not_turned_off(end: End, monkeypatch: pytest.MonkeyPatch) -> None:
    set_offloads(end, {"gro"})
    reads = {one.read for one in offloads.OFFLOADS.values()}
    ask = offloads._ask

    def ignore_changes(kernel: Any, interface: str, request: int, value: int = 0) -> int:
        return ask(kernel, interface, request, value) if request in reads else value

    monkeypatch.setattr(offloads, "_ask", ignore_changes)
    with pytest.raises(RunError, match="generic-receive-offload cannot be turned off"):
        set_offloads(end)


@pytest.mark.needs("root", "ip")
def test_a_processor_that_is_not_taken(end: End, monkeypatch: pytest.MonkeyPatch) -> None:
    steering.steer(end.namespace, {end.interface: 0})
    with pytest.raises(RunError, match="rps_cpus"):
        steering.steer(end.namespace, {"eth7": 0})
    monkeypatch.setattr(steering, "STEER", 'echo "$1 0"')
    with pytest.raises(RunError, match=f"{end.namespace}/{end.interface}: rps_cpus is 0, not 1"):
        steering.steer(end.namespace, {end.interface: 0})


@pytest.mark.needs("root", "ip")
@pytest.mark.parametrize(("rate", "steered"), [("999Mbit", False), ("1Gbit", True)])
def test_interfaces_have_processors_of_their_own_at_high_rates(rate: str, steered: bool) -> None:
    bottleneck = {"rate": rate, "buffer": "1bdp", "rtt": "10ms"}
    plan = make_plan(validate({**ONE_FLOW, "bottleneck": bottleneck}, "x"))
    state = RunState.create()
    try:
        testbed = NetnsTestbed(plan, state, 1500)
        testbed.create()
        allowed = sorted(os.sched_getaffinity(0))
        number = len(allowed)
        ends = {f"{host.name}/eth0": allowed[host.port % number] for host in plan.hosts}
        ends |= {f"switch/port{host.port}": allowed[(host.port + 1) % number] for host in plan.hosts}
        # On one processor nothing can overtake anything.
        expected = ends if steered and os.cpu_count() != 1 else {}
        assert testbed.describe().get("receive_processors", {}) == expected
    finally:
        state.destroy()


@pytest.mark.parametrize(
    ("processor", "mask"), [(0, "1"), (5, "20"), (31, "80000000"), (32, "1,00000000"), (70, "40,00000000,00000000")]
)
def test_processors_as_the_kernel_reads_them(processor: int, mask: str) -> None:
    """https://docs.kernel.org/core-api/kernel-api.html, bitmap_parse: words of 32 bits, separated by commas."""
    assert steering._mask(processor) == mask


def test_the_congestion_control_of_programs_that_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    program = {"name": "web", "client": ["true"], "cca": "reno"}
    plan = make_plan(validate({**ONE_FLOW, "flows": [program]}, "x"))
    testbed = NetnsTestbed.__new__(NetnsTestbed)
    testbed._plan, testbed._ccas = plan, {}
    for taken in ("reno", "cubic"):
        monkeypatch.setattr(testbed, "_ip", lambda *_, taken=taken: f"198.18.0.0/15 dev eth0 congctl {taken} src x")
        if taken == "reno":
            testbed._set_default_cca(plan.senders[0])
        else:
            with pytest.raises(RunError, match="sender0: congctl is cubic, not reno"):
                testbed._set_default_cca(plan.senders[0])


def test_a_way_out_that_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The default route of hosts that reach this machine's network, `narrows shell --nat`."""
    shown = {"route": ""}
    for name in ("set_offloads", "set_sysctls", "wait_for_carrier", "_translate"):
        monkeypatch.setattr(uplink, name, lambda *_: None)
    monkeypatch.setattr(uplink, "run", lambda words, *_: shown["route"] if "show" in words else "")
    monkeypatch.setattr(uplink, "_free_network", lambda _: IPv4Network("203.0.113.0/30"))
    monkeypatch.setattr(uplink, "_forward", lambda *_: [])
    state = RunState("a", 1, 1, root=tmp_path)
    monkeypatch.setattr(state, "save", lambda: None)
    (host,) = make_plan(validate(ONE_FLOW, "x")).senders
    shown["route"] = f"default via {host.address} dev eth0 congctl cubic"
    uplink.connect(state, host, [host], "eth0")
    shown["route"] = "default via 198.18.0.99 dev eth0 congctl cubic"
    with pytest.raises(
        RunError, match=f"default route is default via 198.18.0.99 dev eth0, not default via {host.address}"
    ):
        uplink.connect(state, host, [host], "eth0")
