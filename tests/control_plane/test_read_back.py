# SPDX-License-Identifier: Apache-2.0
"""Each setting of docs/read-back.md, ignored by who should have made it: the run does not go on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from narrows.errors import RunError
from narrows.hosts import offloads
from narrows.hosts.links import End, add_cable, namespace, require_interface, run, set_offloads, set_sysctls
from narrows.hosts.read_back import require

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
