# SPDX-License-Identifier: Apache-2.0
"""Senders on ports of several pipes: each pipe counts arrivals by itself, and departures are counted together."""

from __future__ import annotations

import asyncio
import random
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from fakeswitch.data_plane import COLLISION, DataPlane, Packet, Reported
from fakeswitch.fixtures import RECEIVER_PORT, fresh_counters, inventory_data, kind, machine, switch
from fakeswitch.server import FakeSwitch
from narrows.experiment.model import Experiment
from narrows.experiment.plan import Plan
from narrows.experiment.planning import make_plan
from narrows.switch.entries import mac_number
from narrows_tofino.target import TofinoTarget
from narrows_tofino.testbed.inventory import Inventory
from narrows_tofino.writes import entries
from narrows_tofino.writes.entries import index_shares

__all__ = ["fresh_counters", "kind", "switch"]

# One in each pipe.
SENDER_PORTS = (136, 264, 8, 392)
FLOWS = 1000


def inventory_of(switch: FakeSwitch, kind: str, pipes: int) -> Inventory:
    """A sender in each of some pipes."""
    data = inventory_data(switch.chip, switch.address, client=kind)
    ports = SENDER_PORTS[:pipes]
    data["ports"] = [port for port in data["ports"] if port["dev_port"] not in SENDER_PORTS]
    data["ports"] += [{"name": f"2{port // 128}/0", "dev_port": port, "speed": "100G"} for port in ports]
    data["senders"] = [machine(f"sender{n}", f"2{port // 128}/0", 10 + n) for n, port in enumerate(ports)]
    return Inventory.model_validate(data)


def experiment(groups: int, count: int = 1) -> Experiment:
    return Experiment.model_validate(
        {
            "name": "pipes",
            "bottleneck": {"rate": "10Gbit", "buffer": "1MB", "rtt": "10ms"},
            "flows": [{"cca": "cubic", "duration": "10s", "count": count}] * groups,
        }
    )


def packets_of(plan: Plan) -> list[Packet]:
    """A packet of each of many flows of all senders to the receiver, by ports that nothing orders."""
    ports = random.Random(17).sample(range(1024, 65536), FLOWS)
    (receiver,) = plan.receivers
    dst, mac = int(IPv4Address(receiver.address)), mac_number(receiver.mac)
    return [
        Packet(sender.port, mac, int(IPv4Address(sender.address)), dst, port)
        for number, port in enumerate(ports)
        for sender in [plan.senders[number % len(plan.senders)]]
    ]


@pytest.mark.parametrize("pipes", [1, 2, 4])
def test_flows_of_a_plan_have_indexes_of_their_own(pipes: int, switch: FakeSwitch, kind: str, tmp_path: Path) -> None:
    """1,200 flows, some of which would meet if ports only counted up; none does on its way through the pipes."""
    target = TofinoTarget(inventory_of(switch, kind, pipes), tmp_path / "audit.jsonl")
    plan = target.bind_to_target(make_plan(experiment(pipes, 1200 // pipes)))
    assert any(flow.port_overrides for flow in plan.flows)
    (receiver,) = plan.receivers
    dst, mac = int(IPv4Address(receiver.address)), mac_number(receiver.mac)

    async def reports() -> list[Reported]:
        await target.start()
        try:
            await target.configure(plan)
            plane, found = DataPlane(switch), []
            for flow in plan.flows:
                ends = int(IPv4Address(flow.src)), dst, flow.port_of(0), flow.dst_port
                found.append(plane.pass_through(Packet(plan.host(flow.sender).port, mac, *ends)))
            return found
        finally:
            await target.stop()

    found = asyncio.run(reports())
    assert not any(report.flags & COLLISION for report in found)
    assert len({report.index for report in found}) == 1200
    assert switch.schema.part("flow_arrivals", "Register").size == 1 << entries.INDEX_BITS


async def reports_of(switch: FakeSwitch, target: TofinoTarget, groups: int) -> tuple[list[Reported], list[str]]:
    """Second report of every flow, and what the target says was wrong."""
    plan = target.bind_to_target(make_plan(experiment(groups)))
    await target.start()
    try:
        await target.configure(plan)
        plane, packets = DataPlane(switch), packets_of(plan)
        for packet in packets:
            plane.pass_through(packet)
        found = [plane.pass_through(packet) for packet in packets]
        owned = len({(report.index, packet.port // 128) for packet, report in zip(packets, found, strict=True)})
        async with asyncio.timeout(10):
            while len(target._ready().digests.take()) < owned:
                await asyncio.sleep(0.01)
        totals = await target.flow_totals(range(0))
        assert totals == []
        return found, await target.unexpected_losses(plan)
    finally:
        await target.stop()


@pytest.mark.parametrize("pipes", [1, 2, 4])
def test_flows_of_several_pipes_have_counts_of_their_own(
    pipes: int, switch: FakeSwitch, kind: str, tmp_path: Path
) -> None:
    target = TofinoTarget(inventory_of(switch, kind, pipes), tmp_path / "audit.jsonl")
    found, wrong = asyncio.run(reports_of(switch, target, pipes))
    assert wrong == []
    # Flows share an index within a pipe only: both counts are of the same flows then, and all but one are flagged.
    assert all(report.departures == report.arrivals for report in found)
    owners: dict[int, set[int]] = {}
    for report in found:
        if not report.flags & COLLISION:
            owners.setdefault(report.index, set()).add(report.signature)
    assert all(len(signatures) == 1 for signatures in owners.values())
    # 1,000 flows over 32,768 indices, of which 15 meet another one; in two pipes twice 500 over a quarter of them, 30.
    assert sum(report.flags & COLLISION != 0 for report in found) < {1: 30, 2: 50, 4: 30}[pipes]


@pytest.mark.parametrize("pipes", [2, 4])
def test_without_shares_flows_meet_and_the_run_fails(
    pipes: int, switch: FakeSwitch, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the fakes must show of a program whose flow indices do not know pipes."""
    monkeypatch.setattr(entries, "index_shares", lambda _plan: dict.fromkeys(range(4), 0))
    target = TofinoTarget(inventory_of(switch, kind, pipes), tmp_path / "audit.jsonl")
    found, wrong = asyncio.run(reports_of(switch, target, pipes))
    rejected = [report for report in found if report.departures > report.arrivals and not report.flags]
    assert len(rejected) > 5
    assert any("flows of different pipes share flow index" in words for words in wrong)


def test_shares_are_quarters_where_there_are_several_pipes(switch: FakeSwitch, kind: str) -> None:
    def shares(pipes: int) -> list[int]:
        inventory = inventory_of(switch, kind, pipes)
        target = TofinoTarget(inventory, Path("unused"))
        found = index_shares(target.bind_to_target(make_plan(experiment(pipes))))
        assert sorted(found) == sorted(port // 128 for port in SENDER_PORTS[:pipes])
        return sorted(found.values())

    assert shares(1) == [0] and shares(2) == [0x80, 0xA0]
    assert shares(3) == [0x80, 0xA0, 0xC0] and shares(4) == [0x80, 0xA0, 0xC0, 0xE0]
    assert RECEIVER_PORT // 128 == 1
