# SPDX-License-Identifier: Apache-2.0
"""The whole control path of a run against the fake switch, from refusal to teardown."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any, TypeVar

import pytest
from fakeswitch.faults import Fault, stall
from fakeswitch.fixtures import (
    COLLECTOR_PORT,
    PIPE,
    RECEIVER_PORT,
    SECOND_SENDER_PORT,
    SENDER_PORT,
    fresh_counters,
    inventory,
    kind,
    make_experiment,
    make_inventory,
    switch,
)
from fakeswitch.server import FakeSwitch
from fakeswitch.traffic_manager import ALL_PIPES, TrafficManager
from narrows.errors import InputError, RunError
from narrows.experiment.model import Telemetry
from narrows.experiment.plan import Plan
from narrows.experiment.planning import make_plan
from narrows.hosts import base as hosts
from narrows.hosts.lab.machines import SshTestbed
from narrows.run.drop_accounting import LastReport, check
from narrows.run.observer import Observer
from narrows.switch.readings import FlowDrops, FlowTotals
from narrows.targets.base import Target
from narrows_tofino.bfrt.client import Operation
from narrows_tofino.bfrt.errors import ConnectionLost
from narrows_tofino.programming.audit import outstanding, read_audit
from narrows_tofino.restore import main as restore_main
from narrows_tofino.target import TofinoTarget
from narrows_tofino.testbed.inventory import Inventory
from narrows_tofino.testbed.session import SwitchSession

__all__ = ["fresh_counters", "inventory", "kind", "switch"]

T = TypeVar("T")
SENDERS = (SENDER_PORT, SECOND_SENDER_PORT)


def do(coroutine: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(coroutine)


@pytest.fixture
def target(inventory: Inventory, tmp_path: Path) -> TofinoTarget:
    return TofinoTarget(inventory, tmp_path / "audit.jsonl")


def traffic(switch: FakeSwitch, flow: int, port: int, packets: int, leave: int, **key: int) -> None:
    """Packets of one flow come to the bottleneck; some leave it again."""
    owner = switch.schema.part("flow_owner", "Register")
    add = switch.programs.add
    add(owner.name, flow, port // 128, owner.fields[0].name, 0x1000 + flow)
    switch.send_digest(pipe=port // 128, bottleneck=0, index=flow, **{"signature": 0x1000 + flow, **key})
    for _ in range(packets):
        switch.tm.offer(port, RECEIVER_PORT, 0, 1514)
    left = switch.tm.drain(RECEIVER_PORT, 0, leave)
    count(switch, flow, port, packets, left)


def count(switch: FakeSwitch, flow: int, port: int, arrived: int, left: int) -> None:
    """What the program counts of packets of one flow: registers of 32 bits and counters of 64."""
    add = switch.programs.add
    for name, pipe, number in (("flow_arrivals", port // 128, arrived), ("flow_departures", PIPE, left)):
        register = switch.schema.part(name, "Register")
        add(register.name, flow, pipe, register.fields[0].name, number)
    for name, pipe, number in (("arrival", port // 128, arrived), ("departure", PIPE, left)):
        counter = switch.schema.part(f"{name}_counter", "Counter")
        add(counter.name, flow, pipe, "$COUNTER_SPEC_PKTS", number, 64)
        add(counter.name, flow, pipe, "$COUNTER_SPEC_BYTES", 1514 * number, 64)
    total = switch.schema.part("bottleneck_departures", "Register")
    add(total.name, 0, PIPE, total.fields[0].name, left)


async def learned(target: TofinoTarget, flows: int) -> None:
    """Until the messages of so many new flows have come."""
    while len(target._ready().digests.take()) < flows:
        await asyncio.sleep(0.01)


@asynccontextmanager
async def configured(target: TofinoTarget) -> AsyncIterator[Plan]:
    """The target with an experiment's plan in force, stopped afterwards."""
    plan = target.bind_to_target(make_plan(make_experiment()))
    await target.start()
    await target.configure(plan)
    yield plan
    await target.stop()


def test_a_queue_that_can_hold_more_than_a_report_is_refused(target: TofinoTarget) -> None:
    # 2^32 ns at 1 Mbit/s are 536,870 bytes, of which a frame is in service.
    fits, longer = (make_plan(make_experiment(rate="1Mbit", buffer=f"{size}B")) for size in (535_000, 536_000))
    assert target.unsupported(target.bind_to_target(fits)) == []
    (refused,) = target.unsupported(target.bind_to_target(longer))
    said = "bottleneck.buffer: 536kB is a wait of 4.30011 s at 1Mbit, and reports hold less than 4.29497 s"
    assert refused.startswith(said)


def test_a_run_from_refusal_to_teardown(switch: FakeSwitch, target: TofinoTarget, tmp_path: Path) -> None:
    async def run() -> None:
        plan = target.bind_to_target(make_plan(make_experiment(loss="1%", ecn_threshold="200kB")))
        assert target.missing() == [] and target.unsupported(plan) == []
        before = switch.state()
        await target.start()
        made = await target.configure(plan)
        link = made.links["bottleneck"]
        assert abs(link.rate_bps / 10**10 - 1) < 0.001
        assert link.limit_bytes == made.program["tofino"]["bottleneck"]["depth"]["made_bytes"]
        assert any("never measured" in note and "fix: narrows calibrate" in note for note in made.notes)
        assert all(port.link_up for port in await target.ports())

        traffic(switch, 7, SENDER_PORT, 1000, 500)
        await learned(target, 1)
        (queue,) = await target.queues()
        limit = made.program["tofino"]["bottleneck"]["depth"]["made_packets"]
        assert queue.depth_packets == limit - 500 and queue.dequeued_packets == 500
        assert queue.dropped_packets == 1000 - limit
        assert queue.dequeued_bytes == 500 * 1514
        assert queue.dropped_bytes == (1000 - limit) * 1514
        assert queue.peak_depth_bytes == pytest.approx(link.limit_bytes, rel=0.002)
        (totals,) = await target.flow_totals([7])
        assert (totals.arrivals, totals.departures) == (1000, 500)
        assert [new.flow for new in await target.new_flows()] == [7] and await target.new_flows() == []
        assert await target.unexpected_losses(plan) == []
        assert await target.flow_drops(RECEIVER_PORT, 0) == []
        switch.tm.drain(RECEIVER_PORT, 0, limit)
        await target.stop()
        await target.stop()
        assert switch.state() == before
        assert switch.digest_acks == 0

    do(run())
    changes = read_audit(tmp_path / "audit.jsonl")
    zeroed = [change for change in changes if change.operation is Operation.CLEAR and change.phase == "done"]
    assert len(zeroed) == 12 + 3 and {change.phase for change in changes} == {"intent", "done", "undone"}
    done = [change for change in changes if change.phase == "done" and change not in zeroed]
    assert len([change for change in changes if change.phase == "undone"]) == len(done) > 130
    shaper = next(change for change in done if change.table.endswith("queue.sched_shaping"))
    assert shaper.old is not None and shaper.got is not None and shaper.asked["max_rate"] == 10_000_000
    assert (tmp_path / "audit.jsonl").stat().st_mode & 0o077 == 0


def test_a_rate_written_as_l1_is_l2_in_results(target: TofinoTarget) -> None:
    """IEEE 802.3: a frame of 1514 B and its FCS take 8 B of preamble and 12 B of gap besides."""

    async def run() -> None:
        plan = target.bind_to_target(make_plan(make_experiment(rate_layer="l1")))
        await target.start()
        made = (await target.configure(plan)).links["bottleneck"].rate_bps
        (queue,) = await target.queues()
        assert made == queue.rate_bps == pytest.approx(10**10 * 1514 / 1538, rel=0.001)
        await target.stop()

    do(run())


def test_a_collector_that_was_not_measured_is_reported(switch: FakeSwitch, kind: str, tmp_path: Path) -> None:
    data = make_inventory(switch.chip, switch.address, client=kind).model_dump()

    async def notes() -> list[str]:
        target = TofinoTarget(Inventory.model_validate(data), tmp_path / "audit.jsonl")
        await target.start()
        experiment = make_experiment().model_copy(update={"telemetry": Telemetry(sample="auto")})
        made = await target.configure(target.bind_to_target(make_plan(experiment)))
        await target.stop()
        assert "telemetry.sample: 1, for 825,627 packets/s of 1514 B" in made.notes
        return [note for note in made.notes if "never measured" in note and "reports a second" in note]

    assert do(notes()) == []
    del data["collector"]["reports_s"]
    (note,) = do(notes())
    assert "reports a second dave holds was never measured, and this run makes up to 825,627; fix: bench" in note


@pytest.mark.parametrize(
    ("at", "rtt", "warned"), [("none", "10ms", True), ("none", "0s", False), ("receiver", "10ms", False)]
)
def test_an_rtt_that_nothing_makes_is_reported(
    switch: FakeSwitch, tmp_path: Path, at: str, rtt: str, warned: bool
) -> None:
    data = make_inventory(switch.chip, switch.address).model_dump()
    data["delay"] = {"at": at}

    async def notes() -> tuple[str, ...]:
        target = TofinoTarget(Inventory.model_validate(data), tmp_path / "audit.jsonl")
        await target.start()
        made = await target.configure(target.bind_to_target(make_plan(make_experiment(rtt=rtt))))
        await target.stop()
        return made.notes

    assert any("nothing makes the experiment's rtt" in note for note in do(notes())) == warned


def test_drops_in_the_wrong_place_are_reported(switch: FakeSwitch, target: TofinoTarget) -> None:
    async def run() -> list[str]:
        plan = target.bind_to_target(make_plan(make_experiment()))
        await target.start()
        await target.configure(plan)
        # Someone takes the ingress pool away.
        switch.tm.settings["port.dpg", (SENDER_PORT,), 0xFFFF]["pool_max_cells"] = 100
        traffic(switch, 7, SENDER_PORT, 600, 0)
        found = await target.unexpected_losses(plan)
        with pytest.raises(RunError, match="another client has changed it since"):
            await target.stop()
        return found

    found = do(run())
    assert any("dropped at ingress of port 136" in words for words in found)
    assert any("by the ingress limit of port 136" in words for words in found)
    assert any("in pipe 1 by the limits of ingress" in words for words in found)
    assert any("a setting was changed during the run" in words and "tm.port.dpg" in words for words in found)


def test_whole_memory_full_is_reported(switch: FakeSwitch, target: TofinoTarget) -> None:
    async def run() -> list[str]:
        plan = target.bind_to_target(make_plan(make_experiment()))
        await target.start()
        await target.configure(plan)
        switch.tm.counters["pipe", (), 2, "total_buffer_full_drop_packets"] += 3
        found = await target.unexpected_losses(plan)
        await target.stop()
        return found

    assert do(run()) == ["3 packets dropped in pipe 2 because the switch's whole memory was in use"]


def test_drops_of_a_queue_that_was_never_full_are_reported(switch: FakeSwitch, target: TofinoTarget) -> None:
    """The limit in the chip may be another one than reads back: a full queue's watermark shows it."""

    async def run() -> None:
        async with configured(target) as plan:
            key = ("queue.buffer", (0, 0), PIPE)
            asked = switch.tm.settings[key]["pool_max_cells"]
            switch.tm.settings[key]["pool_max_cells"] = 3000
            traffic(switch, 7, SENDER_PORT, 600, 0)
            switch.tm.settings[key]["pool_max_cells"] = asked
            (found,) = await target.unexpected_losses(plan)
            assert "packets dropped at port 128, but its queue was never full: deepest" in found
            switch.tm.drain(RECEIVER_PORT, 0, 600)

    do(run())


def test_a_queue_that_was_deeper_than_set_is_reported(switch: FakeSwitch, target: TofinoTarget) -> None:
    """A register that was cut off, or a limit that is not in force, may as well make a queue deeper."""

    async def run() -> None:
        async with configured(target) as plan:
            key = ("queue.buffer", (0, 0), PIPE)
            asked = switch.tm.settings[key]["pool_max_cells"]
            switch.tm.settings[key]["pool_max_cells"] = asked + 900
            traffic(switch, 7, SENDER_PORT, 1000, 0)
            switch.tm.settings[key]["pool_max_cells"] = asked
            (found,) = await target.unexpected_losses(plan)
            assert found.startswith("the queue of port 128 was deeper than set: deepest ")
            switch.tm.drain(RECEIVER_PORT, 0, 1000)

    do(run())


def test_a_pool_that_was_full_is_reported(switch: FakeSwitch, target: TofinoTarget) -> None:
    async def run() -> None:
        async with configured(target) as plan:
            size = switch.tm.settings["pool.cfg", ("IG_APP_POOL_1",), 0xFFFF]["size_cells"]
            switch.tm.counters["pool", ("IG_APP_POOL_1",), 0xFFFF, "watermark_cells"] = size
            assert await target.unexpected_losses(plan) == [
                f"IG_APP_POOL_1 was full ({size} cells) before the bottleneck's queue was"
            ]

    do(run())


@pytest.mark.long
def test_an_interrupted_set_up_ends_before_the_switch_is_given_back(switch: FakeSwitch, target: TofinoTarget) -> None:
    """A thread cannot be stopped: what it still writes must not come after the restoration."""

    async def run() -> None:
        plan = target.bind_to_target(make_plan(make_experiment()))
        before = switch.state()
        await target.start()
        stalled = Fault("write", stall(0.5), table="queue.buffer")
        switch.faults.append(stalled)
        setting_up = asyncio.create_task(target.configure(plan))
        while not stalled.seen:
            await asyncio.sleep(0.01)
        setting_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await setting_up
        # It has come to its end, entries of the program included.
        assert switch.state()["entries"]
        await target.stop()
        assert switch.state() == before

    do(run())


def test_target_and_testbed_are_what_the_runner_takes(inventory: Inventory, tmp_path: Path) -> None:
    """The type checker compares them with the protocols."""
    target: Target = TofinoTarget(inventory, tmp_path / "audit.jsonl")
    plan = TofinoTarget(inventory, tmp_path / "audit.jsonl").bind_to_target(make_plan(make_experiment()))
    testbed: hosts.Testbed = SshTestbed(plan, inventory, tmp_path, 1500)
    assert target.profile.depth_unit == "cells" and testbed.attachments == ()
    assert target.hosts_are_machines and target.switch_is_running


def test_a_tunnel_that_is_not_there_is_a_connection_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Giving back counts on it: it names what is left undone when the switch cannot be reached again."""
    (tmp_path / "ssh").write_text("#!/bin/sh\necho no route >&2\nexit 255\n")
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    session = SwitchSession(make_inventory("tofino", tunnel={"host": "switch.lab"}))
    with pytest.raises(ConnectionLost, match=r"no tunnel to the switch by ssh to switch\.lab: no route"):
        session.open()
    session.close()


@pytest.mark.long
def test_per_pipe_values_are_added(switch: FakeSwitch, target: TofinoTarget) -> None:
    async def run() -> None:
        async with configured(target):
            for number in range(600):
                traffic(switch, number % 30, SENDERS[number % 2], 1, 1)
            few = await target.flow_totals([0, 1])
            many = await target.flow_totals(range(1024))
            assert few == many[:2]
            assert sum(one.arrivals for one in many) == 600 == sum(one.departures for one in many)

    do(run())


@pytest.mark.long
@pytest.mark.parametrize("switch", ["tofino"], indirect=True)
def test_ten_minutes_at_100_gbit_with_counters_that_wrap(switch: FakeSwitch, target: TofinoTarget) -> None:
    """One flow offers half as much again as the link carries: 2^31 drops are passed, and 2^32 departures."""
    seconds, step, departing, dropping = 600, 5, 8_127_000, 4_128_000

    async def run() -> None:
        await target.start()
        await target.configure(target.bind_to_target(make_plan(make_experiment(rate="98Gbit", buffer="1MB"))))
        gone = 0
        for _ in range(0, seconds, step):
            count(switch, 7, SENDER_PORT, step * (departing + dropping), step * departing)
            gone += step * departing
            (queue,) = await target.queues()
            assert queue.dequeued_packets == gone
        (totals,) = await target.flow_totals([7])
        assert (totals.arrivals, totals.departures) == (seconds * (departing + dropping), seconds * departing)
        assert gone > 1 << 32 and totals.arrivals - totals.departures > 1 << 31
        # The reports carry 32 bits; what they say agrees with the counters.
        last = LastReport(7, totals.arrivals % (1 << 32), totals.departures % (1 << 32))
        drops = [FlowDrops(7, totals.arrivals - totals.departures, 0)]
        assert check({7: last}, [totals], drops, None).holds
        days = [FlowTotals(7, totals.arrivals * 100, totals.departures * 100)]
        last = LastReport(7, days[0].arrivals % (1 << 32), days[0].departures % (1 << 32))
        drops = [FlowDrops(7, days[0].arrivals - days[0].departures, 0)]
        assert check({7: last}, days, drops, None).holds
        await target.stop()

    do(run())


def test_flows_of_two_pipes_at_one_index_fail_the_run(switch: FakeSwitch, target: TofinoTarget) -> None:
    async def run() -> None:
        async with configured(target) as plan:
            traffic(switch, 7, SENDER_PORT, 10, 10)
            traffic(switch, 7, SENDER_PORT, 10, 10)
            await learned(target, 2)
            assert await target.unexpected_losses(plan) == []
            traffic(switch, 7, SECOND_SENDER_PORT, 10, 10, signature=0x4711)
            await learned(target, 3)
            (found,) = await target.unexpected_losses(plan)
            assert (
                "2 flows of different pipes share flow index 7 of bottleneck 0" in found and "fix: the program" in found
            )

    do(run())


@pytest.mark.parametrize("switch", ["tofino"], indirect=True)
def test_what_is_lost_between_the_switch_and_the_receiver_is_reported(
    switch: FakeSwitch, target: TofinoTarget, inventory: Inventory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nic = {"frames": 100, "NIC (rx_discards_phy)": 7, "NIC (rx_crc_errors_phy)": 0, "kernel (backlog)": 1}

    def received(_: SshTestbed, host: str) -> tuple[int, dict[str, int]]:
        assert host == "receiver"
        return nic["frames"], {name: count for name, count in nic.items() if name != "frames"}

    monkeypatch.setattr(SshTestbed, "received", received)
    names = [spec.name for spec in switch.schema.table("$PORT_STAT").fields]

    def transmitted(frames: int) -> None:
        switch.statistics[RECEIVER_PORT] = {**dict.fromkeys(names, 0), "$FramesTransmittedOK": frames}

    async def run() -> None:
        plan = target.bind_to_target(make_plan(make_experiment()))
        transmitted(40)
        await target.start(SshTestbed(plan, inventory, tmp_path, 1500))
        await target.configure(plan)
        nic["frames"] += 1000
        transmitted(1040)
        assert [one.lost for one in await target.packet_conservation(plan)] == [0]
        transmitted(1045)
        nic["NIC (rx_discards_phy)"] += 3
        nic["kernel (backlog)"] += 2
        cable, discards, backlog = await target.packet_conservation(plan)
        assert (cable.place, cable.entered, cable.lost) == ("between the switch and carol's NIC", 1005, 5)
        assert (discards.place, discards.lost) == ("in carol's NIC (rx_discards_phy)", 3)
        assert (backlog.place, backlog.lost) == ("in carol's kernel (backlog)", 2)
        await target.stop()

    do(run())


@pytest.mark.parametrize("switch", ["tofino"], indirect=True)
def test_reports_that_the_switch_drops_are_told_by_place(
    switch: FakeSwitch, target: TofinoTarget, tmp_path: Path
) -> None:
    """What an earlier run has lost is not this one's; the mirror of another pipe makes none of its reports."""
    mirror, port = (("mirror_dpg", (), PIPE), ("eg_port", (COLLECTOR_PORT,), ALL_PIPES))

    def drop(where: tuple[str, tuple[int, ...], int], packets: int) -> None:
        switch.tm.counters[*where, "drop_count_packets"] += packets

    async def run() -> None:
        drop(mirror, 100)
        await target.start()
        plan = target.bind_to_target(make_plan(make_experiment()))
        await target.configure(plan)
        drop(mirror, 3)
        drop(("mirror_dpg", (), PIPE + 1), 50)
        drop(port, 2)
        places = {"in the mirror buffer of pipe 1": 3, f"at port {COLLECTOR_PORT}, the collector's": 2}
        assert await target.lost_reports(plan) == places
        assert await target.unexpected_losses(plan) == []
        await target.stop()

    do(run())


@pytest.mark.long
def test_ports_that_were_added_stay_unless_they_are_not_to(switch: FakeSwitch, kind: str, tmp_path: Path) -> None:
    """A sweep would train its links again with every run."""

    async def run(target: TofinoTarget) -> None:
        await target.start()
        await target.configure(target.bind_to_target(make_plan(make_experiment())))
        await target.stop()

    log = tmp_path / "audit.jsonl"
    keeping = make_inventory(switch.chip, switch.address, client=kind, keep_ports=True)
    before = switch.state()
    do(run(TofinoTarget(keeping, log)))
    kept = switch.state()
    # As if they had been added by hand, and nothing else.
    fresh = TrafficManager(switch.kind, switch.pipes)
    for port, data in kept["ports"].items():
        fresh.add_port(port, dict(data))
    assert sorted(kept["ports"]) == [128, 136, 144, 264]
    assert {**kept, "settings": {}} == {**before, "ports": fresh.ports}
    # Rates are given back as they read, which is what the shaper makes of them.
    for place, setting in kept["settings"].items():
        wanted = fresh.changed()[place]
        for rate in ("max_rate", "max_burst_size") if "max_rate" in setting else ():
            assert setting.pop(rate) == pytest.approx(wanted.pop(rate), rel=1e-3)
        assert setting == wanted
    assert kept["settings"].keys() == fresh.changed().keys()
    kept = switch.state()
    assert outstanding(read_audit(log)) == []
    switch.requests.clear()
    do(run(TofinoTarget(keeping, log)))
    assert "$PORT" not in [table for operation, table in switch.requests if operation in ("insert", "modify", "delete")]
    assert switch.state() == kept
    other = keeping.model_copy(update={"ports": tuple(p.model_copy(update={"fec": "none"}) for p in keeping.ports)})
    with pytest.raises(InputError, match=r"port 1/0 .* has BF_FEC_TYP_REED_SOLOMON, not BF_FEC_TYP_NONE; correct the"):
        do(run(TofinoTarget(other, log)))


@pytest.mark.long
def test_readings_with_many_flows_stay_short_and_the_last_one_is_complete(
    switch: FakeSwitch, target: TofinoTarget
) -> None:
    async def run() -> None:
        await target.start()
        await target.configure(target.bind_to_target(make_plan(make_experiment())))
        for number in range(600):
            traffic(switch, number, SENDERS[number % 2], 2, 2)
        await learned(target, 600)
        switch.requests.clear()
        (under_way,) = await target.queues()
        assert (under_way.dequeued_packets, under_way.dequeued_bytes, under_way.dropped_bytes) == (1200, None, None)
        assert len(switch.requests) <= 6
        # Nothing has left since: all bytes are read, in bulk.
        switch.requests.clear()
        (last,) = await target.queues()
        assert last.dequeued_bytes == last.enqueued_bytes == 1200 * 1514
        assert len(switch.requests) <= 12 and "Sync" in [operation for operation, _ in switch.requests]
        await target.stop()

    do(run())


def test_the_live_view_has_the_rate_of_each_flow(switch: FakeSwitch, target: TofinoTarget) -> None:
    async def run() -> None:
        async with configured(target) as plan:
            observer = Observer(plan, target)
            await observer.start(at_once=False)
            (queue,) = await target.queues()
            first = await observer.sample({"bottleneck": queue}, {}, 0.0, 2)
            assert [flow.rate_bps for flow in first.flows] == [None, None]
            for number, flow in enumerate(plan.flows):
                key = {"src": int(IPv4Address(flow.src)), "dst": int(IPv4Address(flow.dst)), "protocol": 6}
                traffic(switch, number, SENDERS[number], 100, 100 - 50 * number, **key, src_port=flow.src_port,
                        dst_port=flow.dst_port)  # fmt: skip
            await learned(target, 2)
            (queue,) = await target.queues()
            second = await observer.sample({"bottleneck": queue}, {}, 0.5, 2)
            assert [flow.rate_bps for flow in second.flows] == [100 * 1514 * 8 / 0.5, 50 * 1514 * 8 / 0.5]
            assert second.links[0].rate_bps == 150 * 1514 * 8 / 0.5
            assert [new.flow for new in observer.learned] == [0, 1]

    do(run())


def test_counters_of_an_earlier_run_are_zeroed(switch: FakeSwitch, target: TofinoTarget) -> None:
    async def run() -> None:
        count(switch, 5, SENDER_PORT, 77, 70)
        await target.start()
        await target.configure(target.bind_to_target(make_plan(make_experiment())))
        (totals,) = await target.flow_totals([5])
        assert totals.arrivals == 0
        await target.stop()

    do(run())


def test_a_link_that_stays_down_is_named_and_nothing_is_left(
    switch: FakeSwitch, target: TofinoTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("narrows_tofino.phases.configured.LINK_WAIT_S", 0.3)

    async def run() -> None:
        before = switch.state()
        switch.tm.links = False
        await target.start()
        said = r"no link on port 1/0, 2/0, 3/0, 17/0 after 0.3 s; fix: check cable"
        with pytest.raises(RunError, match=said + r"(?s:.*)\nport 17/0, likeliest: FEC is none"):
            await target.configure(target.bind_to_target(make_plan(make_experiment())))
        assert switch.state() == before
        await target.stop()

    do(run())


def test_ports_stay_where_the_link_is_late_so_that_it_is_trained_by_the_next_run(
    switch: FakeSwitch, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("narrows_tofino.phases.configured.LINK_WAIT_S", 0.3)
    keeping = make_inventory(switch.chip, switch.address, client=kind, keep_ports=True)

    async def run() -> None:
        for _ in range(2):
            target = TofinoTarget(keeping, tmp_path / "audit.jsonl")
            await target.start()
            with pytest.raises(
                RunError, match=r"after 0.3 s; the ports stay, and go on training for the next run; fix"
            ):
                await target.configure(target.bind_to_target(make_plan(make_experiment())))
            await target.stop()

    switch.tm.links = False
    do(run())
    assert sorted(switch.tm.ports) == [128, 136, 144, 264]
    changes = [operation for operation, table in switch.requests if table == "$PORT" and operation != "read"]
    assert changes == ["insert"] * 4


def test_another_generation_is_reported(switch: FakeSwitch, kind: str, tmp_path: Path) -> None:
    other = {"tofino": "tofino2", "tofino2": "tofino"}[switch.chip]
    target = TofinoTarget(make_inventory(other, switch.address, client=kind), tmp_path / "audit.jsonl")
    with pytest.raises(RunError, match=f"the switch is not a {other}"):
        do(target.start())


def test_a_killed_run_is_restored_from_its_audit_log(
    switch: FakeSwitch, target: TofinoTarget, inventory: Inventory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = switch.state()

    async def killed() -> None:
        await target.start()
        await target.configure(target.bind_to_target(make_plan(make_experiment())))
        switch.end_sessions()

    do(killed())
    assert switch.state() != before
    path = tmp_path / "inventory.yaml"
    path.write_text(json.dumps(inventory.model_dump(mode="json", exclude_none=True)))
    assert restore_main([str(path), str(tmp_path / "audit.jsonl")]) == 0
    assert switch.state() == before
    assert "changes taken back" in capsys.readouterr().out
    assert restore_main([str(path), str(tmp_path / "audit.jsonl")]) == 0
    assert "0 of 0" in capsys.readouterr().out
