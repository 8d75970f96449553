# SPDX-License-Identifier: Apache-2.0
"""Base RTTs by the delay line: what is written on the switch, and round trips by way of it.

A softswitch stands in for the Tofino's data plane. It gets the paths that were written on the fake switch.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import pytest
from fakeswitch.fixtures import RECEIVER_PORT, SECOND_SENDER_PORT, SENDER_PORT, inventory_data
from fakeswitch.server import FakeSwitch
from narrows.experiment.model import Experiment, Telemetry
from narrows.experiment.planning import make_plan
from narrows.hosts import base as hosts
from narrows.hosts import links
from narrows.hosts.lab.machines import machines_of
from narrows.hosts.process import Process, spawn
from narrows.switch.entries import passthrough_entries
from narrows.switch.p4runtime_entries import table_entries
from narrows.targets.soft.softswitch import Softswitch
from narrows_formats.programs import SOFTSWITCH
from narrows_tofino.binding import bind
from narrows_tofino.target import TofinoTarget
from narrows_tofino.testbed.inventory import Inventory

LINE_PORT = 160
LINE_MAC = "02:00:00:00:00:05"
# Namespace, dev_port, MAC and IP address of everything on a cable.
CABLES = {
    "alice": (SENDER_PORT, "02:00:00:00:00:01", "10.0.0.1"),
    "bob": (SECOND_SENDER_PORT, "02:00:00:00:00:02", "10.0.0.2"),
    "carol": (RECEIVER_PORT, "02:00:00:00:00:03", "10.0.0.3"),
    "line": (LINE_PORT, LINE_MAC, ""),
}
RTTS_MS = {"alice": 10, "bob": 35}
COUNT = 10


def experiment() -> Experiment:
    return Experiment.model_validate(
        {
            "name": "rtt",
            "bottleneck": {"rate": "10Gbit", "buffer": "1MB", "rtt": "10ms"},
            "flows": [{"cca": "cubic", "duration": "1s", "rtt": f"{rtt}ms"} for rtt in RTTS_MS.values()],
        }
    )


def line_data(address: str = "127.0.0.1:50052") -> dict[str, Any]:
    data = inventory_data("tofino", address)
    data["ports"].append({"name": "5/0", "dev_port": LINE_PORT, "speed": "100G"})
    data["delay"] = {"at": "line", "port": "5/0", "interface": "nic0", "mac": LINE_MAC}
    return data


def test_the_way_back_leads_through_the_line() -> None:
    inventory = Inventory.model_validate(line_data())
    plan = bind(make_plan(experiment()), inventory)
    assert [(path.ingress_port, path.egress_port, path.link) for path in plan.paths] == [
        (SENDER_PORT, RECEIVER_PORT, 0), (RECEIVER_PORT, LINE_PORT, None), (LINE_PORT, SENDER_PORT, None),
        (SECOND_SENDER_PORT, RECEIVER_PORT, 0), (RECEIVER_PORT, LINE_PORT, None), (LINE_PORT, SECOND_SENDER_PORT, None),
    ]  # fmt: skip
    assert LINE_PORT in [port.number for port in plan.ports]
    reported = experiment().model_copy(update={"telemetry": Telemetry(acks=True)})
    bound = bind(make_plan(reported), inventory)
    (reverse,) = bound.unlimited
    assert [path.link for path in bound.paths] == [0, reverse.index, None] * 2, "before the line, and once"
    assert machines_of(plan, inventory)["switch"].interface == "nic0"


@pytest.mark.parametrize(
    ("delay", "words"),
    [
        ({"at": "line"}, "lacks its place; allowed: port, interface and mac of the delay line's NIC"),
        ({"at": "receiver", "port": "5/0"}, "at: receiver has no NIC; allowed"),
        ({"at": "line", "port": "2/0", "interface": "nic0", "mac": LINE_MAC}, "shares a sender's port '2/0'"),
        ({"at": "line", "port": "1/0", "interface": "nic0", "mac": LINE_MAC}, "shares the receiver's port '1/0'"),
        ({"at": "line", "port": "9/0", "interface": "nic0", "mac": LINE_MAC}, "is on the unknown port '9/0'"),
    ],
)
def test_a_line_without_a_place_of_its_own_is_refused(delay: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        Inventory.model_validate({**line_data(), "delay": delay})


def test_what_the_line_lacks_is_named_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("narrows.targets.soft.softswitch.find_binary", lambda _: None)
    target = TofinoTarget(Inventory.model_validate(line_data()), tmp_path / "audit.jsonl")
    assert any("narrows-softswitch" in problem for problem in target.missing())
    without = TofinoTarget(Inventory.model_validate(inventory_data()), tmp_path / "audit.jsonl")
    assert without.missing() == []


class Namespaces(hosts.SharedFiles):
    """As much of a testbed as a softswitch needs: it runs in one namespace."""

    def __init__(self, directory: Path, host: str) -> None:
        self.state_dir = directory
        self._host = host

    async def spawn(
        self, host: str, arguments: Sequence[str], *, stdout: Path | None = None, stderr: Path | None = None
    ) -> Process:
        command = ["ip", "netns", "exec", namespace(self._host), *arguments]
        return await spawn(command, Path(arguments[0]).name, stdout=stdout, stderr=stderr)


def namespace(name: str) -> str:
    return f"nwdev-tofino-{os.getpid() % 10_000}d-{name}"


@pytest.fixture
def cables() -> Iterator[None]:
    with ExitStack() as stack:
        for name in (*CABLES, "tofino"):
            stack.enter_context(links.namespace(namespace(name)))
        for name, (port, mac, address) in CABLES.items():
            inside = namespace(name)
            links.add_cable(links.End(inside, "nic0"), links.End(namespace("tofino"), f"p{port}"), mac=mac)
            if address:
                links.run(["ip", "-n", inside, "address", "add", f"{address}/24", "dev", "nic0"])
            for other, (_, peer_mac, peer) in CABLES.items():
                if address and peer and other != name:
                    words = f"neighbour add {peer} lladdr {peer_mac} dev nic0"
                    links.run(["ip", "-n", inside, *words.split()])
        yield


def paths_on(switch: FakeSwitch) -> list[tuple[int, str, int]]:
    """Ingress port, destination and egress port of the entries that the program has."""
    found, table = [], switch.schema.table("cross_connect")
    names = [spec.name for spec in table.keys]
    for key, (_, values) in switch.programs.entries[table.name].items():
        mac = key[names.index("dst_mac")][0].to_bytes(6, "big").hex(":")
        found.append((key[names.index("ingress_port")][0], mac, values["port"]))
    return found


@pytest.mark.needs("root", "ping", SOFTSWITCH)
def test_each_sender_has_its_round_trip_time(cables: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("narrows_tofino.target.COUNTER_AGE_S", 0)
    switch = FakeSwitch("tofino")
    inventory = Inventory.model_validate(line_data(switch.address))
    target = TofinoTarget(inventory, tmp_path / "audit.jsonl")
    stand_in = Softswitch("tofino")

    async def run() -> None:
        plan = target.bind_to_target(make_plan(experiment()))
        before = switch.state()
        try:
            await target.start(cast(hosts.Testbed, Namespaces(tmp_path, "line")))
            await target.configure(plan)
            ports = {port: f"p{port}" for port, _, _ in CABLES.values()}
            await stand_in.start(cast(hosts.Testbed, Namespaces(tmp_path, "tofino")), ports, 1)
            await stand_in.session.push_pipeline()
            await stand_in.session.insert(table_entries(passthrough_entries(paths_on(switch)), stand_in.session.schema))
            # Both at once: frames for one sender do not wait for those for the other.
            measured = await asyncio.gather(*(round_trips_ms(name) for name in RTTS_MS))
            for asked, found in zip(RTTS_MS.values(), measured, strict=True):
                assert len(found) == COUNT and asked <= min(found) < asked + 3, found
            assert await target.unexpected_losses(plan) == []
            await target.queues()
        finally:
            await stand_in.stop()
            await target.stop()
        assert switch.state() == before

    try:
        asyncio.run(run())
    finally:
        switch.stop()


async def round_trips_ms(name: str) -> list[float]:
    """Round-trip times from a sender to the receiver."""
    command = ["ip", "netns", "exec", namespace(name), "ping", "-c", str(COUNT), "-i", "0.02", CABLES["carol"][2]]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    printed, _ = await process.communicate()
    return [float(one) for one in re.findall(r"time=([\d.]+) ms", printed.decode())]
