# SPDX-License-Identifier: Apache-2.0
"""Several links on a testbed: what is refused, what is planned, and a parking lot from packet to reading and back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import IPv4Address
from math import ceil
from pathlib import Path
from typing import Any

import pytest
import yaml
from fakeswitch.data_plane import DataPlane, Packet, Reported
from fakeswitch.faults import Fault, refuse
from fakeswitch.fixtures import fresh_counters, inventory_data, kind, switch
from fakeswitch.parking_lot import (
    FRAME,
    LOOPBACKS,
    RATES_BPS,
    RECEIVERS,
    SENDERS,
    parking_lot,
    parking_lot_data,
    parking_lot_inventory,
)
from fakeswitch.server import FakeSwitch
from narrows.cli import app
from narrows.errors import InputError, RunError
from narrows.experiment.model import Experiment
from narrows.experiment.plan import Plan
from narrows.experiment.planning import make_plan
from narrows.hosts.lab.machines import SshTestbed
from narrows.switch.entries import mac_number
from narrows_tofino.binding import bind
from narrows_tofino.chip.depth import HEADROOM_CELLS
from narrows_tofino.planner import plan as plan_writes
from narrows_tofino.planner import plan_switch
from narrows_tofino.programming.audit import outstanding, read_audit
from narrows_tofino.sampling import report_load
from narrows_tofino.target import TofinoTarget
from narrows_tofino.testbed.inventory import Inventory
from narrows_tofino.writes.entries import index_shares
from narrows_tofino.writes.reader import AssumedReader
from test_dry_run import arrived, planned
from typer.testing import CliRunner

__all__ = ["fresh_counters", "kind", "switch"]

GOLDEN = Path(__file__).parent / "golden"
DEMO = Path(__file__).resolve().parents[2] / "experiments" / "demo.yaml"
QUEUES = {"left": LOOPBACKS[0], "mid": LOOPBACKS[1], "right": RECEIVERS[0]}


def bound(**links: dict[str, Any]) -> Plan:
    return bind(make_plan(parking_lot(**links)), parking_lot_inventory())


def refusal(inventory: Inventory, experiment: Experiment) -> str:
    with pytest.raises(InputError) as refused:
        plan_writes(experiment, inventory)
    return str(refused.value)


# The plan


@pytest.mark.parametrize("chip", ["tofino", "tofino2"])
def test_the_plan_of_one_link_is_what_it_was_before_there_were_several(chip: str, tmp_path: Path) -> None:
    """The file was printed by the last commit that knew one bottleneck only."""
    lab = tmp_path / "lab.yaml"
    lab.write_text(yaml.safe_dump(inventory_data(chip)))
    result = CliRunner().invoke(app, ["plan", str(DEMO), "--target", "tofino", "--inventory", str(lab)])
    assert result.exit_code == 0
    assert result.output == (GOLDEN / f"demo-{chip}.txt").read_text()


def test_links_are_queues_of_loopback_ports_and_of_the_last_receivers() -> None:
    plan = bound()
    assert {link.name: link.port for link in plan.links} == QUEUES
    assert plan.loopbacks == LOOPBACKS
    index = {link.name: link.index for link in plan.links}
    ways = {(path.ingress_port, path.dst_mac): (path.egress_port, path.link) for path in plan.paths}
    long, left, mid, right = plan.flows
    last, first, middle = (plan.host(flow.receiver) for flow in (long, left, mid))
    assert [host.port for host in (last, first, middle)] == list(RECEIVERS)
    assert ways == {
        (SENDERS[0], last.mac): (QUEUES["left"], index["left"]),
        (QUEUES["left"], last.mac): (QUEUES["mid"], index["mid"]),
        (QUEUES["mid"], last.mac): (QUEUES["right"], index["right"]),
        (SENDERS[1], first.mac): (QUEUES["left"], index["left"]),
        (QUEUES["left"], first.mac): (first.port, None),
        (SENDERS[2], middle.mac): (QUEUES["mid"], index["mid"]),
        (QUEUES["mid"], middle.mac): (middle.port, None),
        (SENDERS[3], last.mac): (QUEUES["right"], index["right"]),
        **{(plan.host(flow.receiver).port, plan.host(flow.sender).mac): (plan.host(flow.sender).port, None)
           for flow in (long, left, mid, right)},
    }  # fmt: skip
    # Every pipe that packets for a link come in by has indices of its own, those of loopback ports among them.
    assert sorted(index_shares(plan)) == [0, 1, 2, 3]


def test_memory_holds_all_queues_at_once_and_no_ingress_limit_is_in_the_way() -> None:
    inventory = parking_lot_inventory()
    made = plan_switch(inventory, bound(mid={"buffer": "3MB"}), AssumedReader(inventory.switch.generation))
    depths = {one.link.name: one.depth for one in made.manager.bottlenecks}
    # 1514 B and 18 B more are 20 cells of 80 B.
    assert {name: depth.cells for name, depth in depths.items()} == {
        "left": 10**6 * 20 // FRAME, "mid": 3 * 10**6 * 20 // FRAME, "right": 10**6 * 20 // FRAME,
    }  # fmt: skip
    held = sum(depth.cells + HEADROOM_CELLS for depth in depths.values())
    by_table: dict[str, list[Any]] = {}
    for write in made.writes:
        by_table.setdefault(write.table.removeprefix("tf1."), []).append(write)
    assert {write.key["pool"]: write.data["size_cells"] for write in by_table["tm.pool.cfg"]} == {
        "EG_APP_POOL_1": held - 3 * 20, "IG_APP_POOL_1": held,
    }  # fmt: skip
    inputs = {write.key["dev_port"]: write.data["pool_max_cells"] for write in by_table["tm.port.dpg"]}
    assert inputs == dict.fromkeys((*SENDERS, *LOOPBACKS), held)
    assert {(w.pipe, w.key["pg_id"]): w.data["pool_max_cells"] + 20 for w in by_table["tm.queue.buffer"]} == {
        (port // 128, port % 128 // 4): depths[name].cells for name, port in QUEUES.items()
    }
    assert {(w.pipe, w.key["pg_id"]): w.data["max_rate"] * 1000 for w in by_table["tm.queue.sched_shaping"]} == {
        (port // 128, port % 128 // 4): RATES_BPS[name] for name, port in QUEUES.items()
    }
    assert {write.pipe for write in by_table["tm.pipe.sched_cfg"]} == {1, 2}
    assert {write.pipe for write in by_table["tm.mirror.dpg"]} == {1, 2}
    assert len(made.watermarks) == 2 + 3


def test_thresholds_are_those_of_each_link() -> None:
    plan = bound(left={"ecn_threshold": "500kB"}, right={"ecn_threshold": "100kB"})
    inventory = parking_lot_inventory()
    made = plan_switch(inventory, plan, AssumedReader(inventory.switch.generation))
    found = {write.key["bottleneck"]: write.data["threshold"] for write in made.writes
             if write.key is not None and write.action == "observe"}  # fmt: skip
    by_name = {link.name: found[link.index] for link in plan.links}
    assert by_name == {"left": ceil(500_000 * 20 / FRAME), "mid": 0xFFFFFFFF, "right": ceil(100_000 * 20 / FRAME)}


def test_the_collector_is_to_hold_the_reports_of_all_links() -> None:
    assert report_load(bound()).reports_s == pytest.approx(sum(RATES_BPS.values()) / 8 / FRAME)


def test_two_directions_meet_at_the_ports_of_their_receivers() -> None:
    """A slow reverse link is the queue of the sender's port, and each machine holds what is for a host with a delay."""
    link = {"rate": "10Gbit", "buffer": "1MB", "rtt": "10ms", "reverse": {"rate": "100Mbit", "buffer": "100kB"}}
    flows = [{"cca": "cubic", "duration": "1s"}]
    experiment = Experiment.model_validate({"name": "two", "bottleneck": link, "flows": flows})
    inventory = parking_lot_inventory()
    plan = bind(make_plan(experiment), inventory)
    assert [(one.name, one.port) for one in plan.links] == [
        ("bottleneck", RECEIVERS[0]), ("bottleneck.reverse", SENDERS[0]),
    ]  # fmt: skip
    assert plan.loopbacks == ()
    # No more acknowledgements than data, nor than fit: 66 B each at 100 Mbit/s.
    assert report_load(plan).packets_s == pytest.approx(10e9 / 8 / FRAME + 100e6 / 8 / 66)
    testbed = SshTestbed(plan, inventory, Path("unused"), 1500)
    receiver, sender = plan.flows[0].receiver, plan.flows[0].sender
    assert f"delay={plan.host(sender).address}/10000000" in testbed.settings(receiver)
    assert not [word for word in testbed.settings(sender) if word.startswith("delay=")]


def test_who_sends_and_receives_is_a_sender_that_holds_what_its_peers_wait_for() -> None:
    link = {"rate": "10Gbit", "buffer": "1MB", "rtt": "10ms", "reverse": {"rate": "5Gbit", "buffer": "1MB"}}
    up = {"cca": "cubic", "duration": "1s", "from": "a", "to": "b"}
    down = {"cca": "cubic", "duration": "1s", "from": "b", "to": "a", "direction": "reverse"}
    experiment = Experiment.model_validate({"name": "two", "bottleneck": link, "flows": [up, down]})
    inventory = parking_lot_inventory()
    plan = bind(make_plan(experiment), inventory)
    assert [(host.name, host.port) for host in plan.end_hosts] == [("a", SENDERS[0]), ("b", SENDERS[1])]
    testbed = SshTestbed(plan, inventory, Path("unused"), 1500)
    held = {
        name: [int(word.rpartition("/")[2]) for word in testbed.settings(name) if word.startswith("delay=1")]
        for name in ("a", "b")
    }
    # One of them holds what is for the other, so that both flows have their RTT.
    assert sum(sum(delays) for delays in held.values()) == 10_000_000


# Refusals


def without_loopback(data: dict[str, Any]) -> None:
    data["loopback"] = data["loopback"][:1]


def two_receivers(data: dict[str, Any]) -> None:
    data["receivers"] = data["receivers"][:2]


def delay_line(data: dict[str, Any]) -> None:
    data["ports"].append({"name": "line", "dev_port": 168, "speed": "100G"})
    data["delay"] = {"at": "line", "port": "line", "interface": "nic0", "mac": "02:00:00:00:00:99"}


def senders_at_one_port(data: dict[str, Any]) -> None:
    data["senders"][3]["port"] = data["senders"][0]["port"]


REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    (
        without_loopback,
        {},
        "links: left, mid need 2 loopback ports, the inventory names 1 (loopback); allowed: up to 1 such links",
    ),
    (two_receivers, {}, "are 3 receivers, the inventory has 2; allowed: up to 2"),
    (delay_line, {}, "links: the testbed's delay line (delay.at: line) holds what comes back from one link"),
    (senders_at_one_port, {}, "would take two routes from port p136, which hosts share; allowed: hosts with ports of"),
    (None, {"mid": {"delay": "1ms"}}, "links.mid.delay: Tofino's program holds acknowledgements only"),
    (None, {"mid": {"burst": "15kB"}}, "links.mid.burst: a Tofino's shapers have bursts of their own"),
    (None, {"mid": {"policer": {"rate": "5Mbit", "burst": "15kB"}}}, "links.mid.policer: Tofino's program has none"),
    (None, {"mid": {"aggregation": {"period": "5ms"}}}, "links.mid.aggregation: Tofino's program cannot hold packets"),
    (None, {"mid": {"aggregation": {"frames": 8}}}, "links.mid.aggregation: Tofino's program cannot hold packets"),
    (None, {"mid": {"ack_filter": "aggressive"}}, "links.mid.ack_filter: a Tofino's traffic manager lets nothing"),
    (None, {"mid": {"framing": {"overhead": 4}}}, "links.mid.framing: a Tofino's shapers count Ethernet frames"),
    (None, {"mid": {"rate_layer": "l1"}}, "links.right.rate_layer: is l2, and mid with l1 is in the same pipe (1)"),
    (None, {"mid": {"rate": "200Gbit"}}, "links.mid.rate: 200Gbit is too much: "),
    (None, {"mid": {"buffer": "19MB"}}, "links.mid.buffer: 19MB takes "),
    (None, {"left": {"buffer": "9MB"}, "mid": {"buffer": "9500kB"}}, "links.right.buffer: 1MB takes 13210 cells"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "links", "words"), REFUSED, ids=[words[:40] for *_, words in REFUSED])
def test_what_the_testbed_lacks_is_named(change: Any, links: dict[str, Any], words: str) -> None:
    data = parking_lot_data()
    if change is not None:
        change(data)
    assert words in refusal(Inventory.model_validate(data), parking_lot(**links))


def test_a_link_needs_the_port_of_its_host_for_itself() -> None:
    """Two senders behind one port: what comes back to one of them over a slow link would queue with the other's."""
    data = inventory_data()
    data["senders"][1]["port"] = data["senders"][0]["port"]
    link = {"rate": "1Gbit", "buffer": "1MB", "rtt": "1ms"}
    links = {"one": {**link, "reverse": {"rate": "10Mbit", "buffer": "1MB"}}, "other": link}
    flows = [{"cca": "cubic", "duration": "1s", "path": [name], "to": "end"} for name in links]
    experiment = Experiment.model_validate({"name": "shared", "links": links, "flows": flows})
    data["ports"] += [{"name": f"2{n}/0", "dev_port": 168 + 8 * n, "speed": "100G"} for n in range(2)]
    data["loopback"] = ["20/0", "21/0"]
    words = "links.one.reverse: is the queue of port 2/0, which sender0 and sender1 share; allowed: a port of its own"
    assert words in refusal(Inventory.model_validate(data), experiment)


INVENTORIES: list[tuple[Any, str]] = [
    (lambda d: d.update(loopback=["nowhere"]), "loopback: 'nowhere' is not a port; allowed: p136"),
    (lambda d: d.update(loopback=["p152", "p152"]), "loopback: has port 'p152' twice"),
    (
        lambda d: d.update(loopback=["p128"]),
        "receiver0 is on the loopback port 'p128'; allowed: a port with",
    ),
    (lambda d: d.update(receivers=[]), "has neither receiver nor receivers; allowed: receiver with one machine, or"),
    (lambda d: d.update(receiver=d["receivers"][0]), "has receiver and receivers; allowed: "),
    (lambda d: d["receivers"][1].update(port="p128"), "receiver0 shares receiver1's port 'p128'"),
]


@pytest.mark.parametrize(("change", "words"), INVENTORIES, ids=[words[:30] for _, words in INVENTORIES])
def test_an_inventory_that_contradicts_itself_is_refused(change: Any, words: str) -> None:
    data = parking_lot_data()
    change(data)
    with pytest.raises(ValueError, match="Inventory") as refused:
        Inventory.model_validate(data)
    assert words in str(refused.value)


# On the fake switch


@pytest.fixture
def target(switch: FakeSwitch, kind: str, tmp_path: Path) -> TofinoTarget:
    return TofinoTarget(parking_lot_inventory(switch.chip, switch.address, client=kind), tmp_path / "audit.jsonl")


@asynccontextmanager
async def configured(target: TofinoTarget) -> AsyncIterator[Plan]:
    plan = target.bind_to_target(make_plan(parking_lot()))
    assert target.unsupported(plan) == []
    await target.start()
    await target.configure(plan)
    yield plan
    await target.stop()


async def learned(target: TofinoTarget, flows: int) -> None:
    async with asyncio.timeout(10):
        while len(target._ready().digests.take()) < flows:
            await asyncio.sleep(0.01)


def packet_of(plan: Plan, number: int) -> Packet:
    """A packet of a flow's data, at the port of its sender."""
    flow = plan.flows[number]
    source, sink = plan.host(flow.sender), plan.host(flow.receiver)
    addresses = (int(IPv4Address(flow.src)), int(IPv4Address(flow.dst)))
    return Packet(source.port, mac_number(sink.mac), *addresses, flow.src_port, flow.dst_port)


def test_a_parking_lot_from_packet_to_reading_and_back(
    switch: FakeSwitch, target: TofinoTarget, tmp_path: Path
) -> None:
    """100 packets across all links and 10, 20, 30 across each; the middle one holds some, and drops what it cannot."""
    before = switch.state()

    async def run() -> None:
        async with configured(target) as plan:
            written = list(switch.written)
            wanted = [planned(write, switch.schema) for write in plan_writes(parking_lot(), target._inventory)]
            assert [arrived(update, pipe) for update, pipe in written] == wanted
            assert {port: switch.tm.ports[port]["$LOOPBACK_MODE"] for port in LOOPBACKS} == dict.fromkeys(
                LOOPBACKS, "BF_LPBK_MAC_NEAR"
            )
            plane = DataPlane(switch)
            crossing: list[list[Reported]] = []
            for _ in range(100):
                reports, left_by = plane.travel(packet_of(plan, 0), FRAME)
                assert left_by == RECEIVERS[0]
                crossing.append(reports)
            assert [len(reports) for reports in crossing] == [3] * 100
            for link in range(3):
                assert [reports[link].arrivals for reports in crossing] == list(range(1, 101))
                assert [reports[link].departures for reports in crossing] == list(range(1, 101))
            # A flow has an index of its own at each link.
            assert len({reports.index for reports in crossing[0]}) == 3
            for number, packets in ((1, 10), (2, 20), (3, 30)):
                ends = {plane.travel(packet_of(plan, number), FRAME)[1] for _ in range(packets)}
                assert ends == {plan.host(plan.flows[number].receiver).port}
            await learned(target, 6)
            left, mid, right = await target.queues()
            assert [queue.port for queue in (left, mid, right)] == list(QUEUES.values())
            assert [queue.dequeued_packets for queue in (left, mid, right)] == [110, 120, 130]
            assert [queue.dequeued_bytes for queue in (left, mid, right)] == [110 * FRAME, 120 * FRAME, 130 * FRAME]
            for queue, rate in zip((left, mid, right), RATES_BPS.values(), strict=True):
                assert abs(queue.rate_bps / rate - 1) < 0.002

            # The middle queue is stopped, and a thousand packets of the long flow come.
            plane.stopped.add(QUEUES["mid"])
            limit = mid.limit_packets
            for _ in range(1000):
                assert plane.travel(packet_of(plan, 0), FRAME)[1] is None
            left, mid, right = await target.queues()
            assert (left.dropped_packets, mid.dropped_packets, right.dropped_packets) == (0, 1000 - limit, 0)
            assert (left.depth_packets, mid.depth_packets, right.depth_packets) == (0, limit, 0)
            assert mid.dropped_bytes == (1000 - limit) * FRAME
            # Arrivals less departures are drops and what waits, of the flow at each link.
            indices = [report.index for report in crossing[0]]
            totals = {one.flow: one for one in await target.flow_totals(indices)}
            gone = [totals[index].arrivals - totals[index].departures for index in indices]
            assert gone == [0, 1000, 0]
            assert await target.unexpected_losses(plan) == []
            passed = await target.packet_conservation(plan)
            assert [(one.place, one.entered, one.left) for one in passed] == [
                ("in loopback port p280", 1110, 1110), ("in loopback port p152", 120, 120),
            ]  # fmt: skip
            switch.tm.drain(QUEUES["mid"], 0, limit)

    asyncio.run(run())
    assert switch.state() == before
    assert outstanding(read_audit(tmp_path / "audit.jsonl")) == []


def test_frames_that_a_loopback_port_loses_are_in_the_balances(switch: FakeSwitch, target: TofinoTarget) -> None:
    async def run() -> None:
        async with configured(target) as plan:
            plane = DataPlane(switch)
            for _ in range(10):
                plane.travel(packet_of(plan, 0), FRAME)
            switch.statistics[LOOPBACKS[1]]["$FramesReceivedOK"] -= 3
            places = {one.place: one.lost for one in await target.packet_conservation(plan)}
            assert places == {"in loopback port p280": 0, "in loopback port p152": 3}

    asyncio.run(run())


def test_drops_behind_a_loopback_port_are_no_tail_drops(switch: FakeSwitch, target: TofinoTarget) -> None:
    async def run() -> None:
        async with configured(target) as plan:
            switch.tm.counters["eg_port", (RECEIVERS[1],), 0xFFFF, "drop_count_packets"] += 4
            switch.tm.counters["ig_port", (LOOPBACKS[0],), 0xFFFF, "drop_count_packets"] += 5
            found = await target.unexpected_losses(plan)
            assert found == [
                "5 packets dropped at ingress of port 280, before a link's queue was full",
                "4 packets dropped at port 160, where no link ends",
            ]

    asyncio.run(run())


def test_a_queue_that_dropped_before_it_was_full_is_named_among_others(
    switch: FakeSwitch, target: TofinoTarget
) -> None:
    async def run() -> None:
        async with configured(target) as plan:
            switch.tm.counters["eg_port", (QUEUES["mid"],), 0xFFFF, "drop_count_packets"] += 1
            (found,) = await target.unexpected_losses(plan)
            assert found.startswith("1 packets dropped at port 152, but its queue was never full: ")

    asyncio.run(run())


@pytest.mark.parametrize("table", ["$PORT", "tm.queue.buffer", "tm.queue.sched_cfg", "cross_connect"])
def test_whatever_is_refused_everything_is_given_back(
    switch: FakeSwitch, target: TofinoTarget, tmp_path: Path, table: str
) -> None:
    """The last write to each table, so that other links are set up already."""
    before = switch.state()
    plan = target.bind_to_target(make_plan(parking_lot()))
    writes = [write for write in plan_writes(parking_lot(), target._inventory) if write.table.endswith(table)]
    assert len(writes) >= 3
    # Consecutive writes to the program's tables are one request.
    nth = 1 if table == "cross_connect" else len(writes)
    switch.faults.append(Fault("write", refuse("INVALID_ARGUMENT"), table=table, nth=nth))

    async def run() -> None:
        await target.start()
        with pytest.raises(RunError, match="injected"):
            await target.configure(plan)
        assert switch.state() == before
        await target.stop()

    asyncio.run(run())
    assert switch.state() == before
    assert outstanding(read_audit(tmp_path / "audit.jsonl")) == []


def test_loopback_ports_do_not_stay_where_others_do(switch: FakeSwitch, kind: str, tmp_path: Path) -> None:
    inventory = parking_lot_inventory(switch.chip, switch.address, client=kind, keep_ports=True)
    target = TofinoTarget(inventory, tmp_path / "audit.jsonl")

    async def run() -> None:
        async with configured(target):
            assert set(LOOPBACKS) < set(switch.tm.ports)

    asyncio.run(run())
    assert set(switch.tm.ports) == {port.dev_port for port in inventory.ports} - set(LOOPBACKS)
    assert outstanding(read_audit(tmp_path / "audit.jsonl")) == []


@pytest.mark.parametrize(
    ("port", "mode", "words"),
    [
        (LOOPBACKS[1], "BF_LPBK_NONE", "p152 (dev_port 152) has $LOOPBACK_MODE BF_LPBK_NONE, not BF_LPBK_MAC_NEAR"),
        (SENDERS[0], "BF_LPBK_MAC_NEAR", "p136 (dev_port 136) has $LOOPBACK_MODE BF_LPBK_MAC_NEAR, not BF_LPBK_NONE"),
    ],
)
def test_a_port_that_is_there_must_be_in_loopback_or_not(
    switch: FakeSwitch, target: TofinoTarget, port: int, mode: str, words: str
) -> None:
    given = {"$SPEED": "BF_SPEED_100G", "$FEC": "BF_FEC_TYP_NONE", "$PORT_ENABLE": True, "$LOOPBACK_MODE": mode}
    switch.tm.add_port(port, given)
    before = switch.state()

    async def run() -> None:
        await target.start()
        with pytest.raises(InputError) as refused:
            await target.configure(target.bind_to_target(make_plan(parking_lot())))
        assert words in str(refused.value)
        await target.stop()

    asyncio.run(run())
    assert switch.state() == before


def test_a_loopback_port_that_is_reset_is_set_up_again_and_the_run_has_failed(
    switch: FakeSwitch, target: TofinoTarget
) -> None:
    async def run() -> None:
        async with configured(target) as plan:
            queue = switch.tm.settings["queue.sched_shaping", (LOOPBACKS[1] % 128 // switch.kind.ports_per_group,
                                       switch.tm.group(LOOPBACKS[1])[2]), LOOPBACKS[1] // 128]  # fmt: skip
            asked = queue["max_rate"]
            switch.tm.modify_port(LOOPBACKS[1], {"$SPEED": "BF_SPEED_25G"})
            switch.tm.modify_port(LOOPBACKS[1], {"$SPEED": "BF_SPEED_100G"})
            assert queue["max_rate"] != asked
            await target.queues()
            assert queue["max_rate"] == asked
            (found,) = await target.unexpected_losses(plan)
            assert found.startswith("port p152 was reset during the run; made again: ")

    asyncio.run(run())
