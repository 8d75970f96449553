# SPDX-License-Identifier: Apache-2.0
"""What is written, in which order, and every trap of the traffic manager that the order and the values avoid."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fakeswitch.fixtures import (
    COLLECTOR_PORT,
    PIPE,
    RECEIVER_PORT,
    SECOND_SENDER_PORT,
    SENDER_PORT,
    audit,
    bound_plan,
    client,
    inventory,
    kind,
    make_experiment,
    make_inventory,
    programmer,
    switch,
)
from fakeswitch.server import FakeSwitch
from fakeswitch.traffic_manager import ALL_PIPES
from narrows.errors import InputError, RunError
from narrows.experiment.model import Telemetry
from narrows.experiment.plan import Plan
from narrows.experiment.planning import make_plan
from narrows.flows.group import FlowGroup
from narrows.flows.kinds import read_group
from narrows_tofino.bfrt.client import Client
from narrows_tofino.binding import bind
from narrows_tofino.planner import SwitchPlan, plan, plan_switch, realised, used_ports
from narrows_tofino.programming.programmer import Programmer
from narrows_tofino.readings.checks import watermark, watermark_writes
from narrows_tofino.sampling import report_load
from narrows_tofino.testbed.inventory import FEC, Inventory
from narrows_tofino.writes.ports import port_writes
from narrows_tofino.writes.reader import AssumedReader, LiveReader

__all__ = ["audit", "client", "inventory", "kind", "programmer", "switch"]

QUEUE = {"tofino": ((0, 0), 20), "tofino2": ((0, 0), 36)}


def program(programmer: Programmer, inventory: Inventory, plan: Plan) -> SwitchPlan:
    """Everything, as the target does it."""
    reader = LiveReader(programmer.client)
    programmer.apply(port_writes(inventory, used_ports(inventory, plan), reader))
    switch_plan = plan_switch(inventory, plan, reader)
    programmer.apply(switch_plan.writes)
    return switch_plan


def test_ports_come_first_because_adding_one_resets_its_queues(
    switch: FakeSwitch, programmer: Programmer, inventory: Inventory
) -> None:
    program(programmer, inventory, bound_plan(inventory))
    written = [table for operation, table in switch.requests if operation in ("insert", "modify")]
    assert written[:4] == ["$PORT"] * 4 and "$PORT" not in written[4:]
    shaping = switch.tm.settings["queue.sched_shaping", (0, 0), PIPE]
    assert shaping["max_rate"] == 10_000_000


def test_traffic_manager_tables_are_only_modified_and_queues_only_in_their_pipe(
    switch: FakeSwitch, programmer: Programmer, inventory: Inventory
) -> None:
    program(programmer, inventory, bound_plan(inventory))
    operations = {operation for operation, table in switch.requests if ".tm." in table}
    assert operations == {"read", "modify"}
    places = {(table, pipe) for table, _, pipe in switch.tm.settings if table.startswith("queue.")}
    assert {pipe for table, pipe in places if table == "queue.sched_cfg"} == {PIPE}


def test_the_queue_s_limit_is_static_and_its_hysteresis_minimal(
    switch: FakeSwitch, programmer: Programmer, inventory: Inventory
) -> None:
    found = program(programmer, inventory, bound_plan(inventory)).manager.bottlenecks[0]
    buffer = switch.tm.settings["queue.buffer", QUEUE[switch.chip][0], PIPE]
    assert buffer["action"] == "shared_pool" and buffer["dynamic_baf"] == "DISABLE" and buffer["tail_drop_enable"]
    assert buffer["guaranteed_cells"] == QUEUE[switch.chip][1]
    assert buffer["guaranteed_cells"] + buffer["pool_max_cells"] == found.depth.cells
    assert buffer["hysteresis_cells"] == 32
    assert len(switch.tm.profiles[PIPE]) == 1


def test_the_shaper_is_switched_on_in_a_table_of_its_own(
    switch: FakeSwitch, programmer: Programmer, inventory: Inventory
) -> None:
    program(programmer, inventory, bound_plan(inventory))
    assert switch.tm.settings["queue.sched_cfg", (0, 0), PIPE]["max_rate_enable"] is True
    shaping = switch.tm.settings["queue.sched_shaping", (0, 0), PIPE]
    assert (shaping["unit"], shaping["provisioning"]) == ("BPS", "MIN_ERROR")
    assert shaping["max_burst_size"] == {"tofino": 3328, "tofino2": 4096}[switch.chip]


@pytest.mark.parametrize("gbit", [30, 60, 70, 75, 80, 90])
def test_a_fast_rate_reads_back_as_the_driver_computes_it(
    switch: FakeSwitch, programmer: Programmer, inventory: Inventory, gbit: int
) -> None:
    """The driver computes in single precision, which from 30 Gbit/s on is coarser than a kbit/s."""
    found = program(programmer, inventory, bound_plan(inventory, rate=f"{gbit}Gbit")).manager.bottlenecks[0]
    assert switch.tm.read("queue.sched_shaping", (0, 0), PIPE)["max_rate"] == found.shaping.read_kbps
    assert found.rate_bps == pytest.approx(gbit * 10**9, rel=1e-3)


@pytest.mark.parametrize("clock_hz", [1_000_000_000, 1_100_000_000])
@pytest.mark.parametrize("switch", ["tofino"], indirect=True)
def test_a_part_with_another_clock_is_recognised_by_what_it_reads_back(
    switch: FakeSwitch, programmer: Programmer, inventory: Inventory, clock_hz: int
) -> None:
    switch.tm.kind = replace(switch.tm.kind, shaper=replace(switch.tm.kind.shaper, clock_hz=clock_hz))
    with pytest.raises(RunError, match=rf"GHz; fix: switch.shaper_clock_hz: {clock_hz} in the inventory"):
        program(programmer, inventory, bound_plan(inventory, rate="3333Mbit"))
    assert programmer.undo() == []
    right = make_inventory(switch.chip, switch.address, shaper_clock_hz=clock_hz)
    program(programmer, right, bound_plan(right, rate="3333Mbit"))


@pytest.mark.parametrize(("layer", "compensation"), [("l2", 0), ("l1", 20)])
def test_the_rate_means_the_layer_that_was_asked_for(
    switch: FakeSwitch, programmer: Programmer, inventory: Inventory, layer: str, compensation: int
) -> None:
    program(programmer, inventory, bound_plan(inventory, rate_layer=layer))
    assert switch.tm.settings["pipe.sched_cfg", (), PIPE]["packet_ifg_compensation"] == compensation
    assert ("pipe.sched_cfg", (), 0) not in switch.tm.settings


def test_the_queue_is_the_first_to_drop(switch: FakeSwitch, programmer: Programmer, inventory: Inventory) -> None:
    found = program(programmer, inventory, bound_plan(inventory, buffer="15MB", rate="50Gbit")).manager.bottlenecks[0]
    accepted = 0
    for number in range(11_000):
        accepted += switch.tm.offer((SENDER_PORT, SECOND_SENDER_PORT)[number % 2], RECEIVER_PORT, 0, 1514)
    assert accepted == found.depth.packets == 15_000_000 // 1514
    moved = {name for (name, _, _, field), value in switch.tm.counters.items() if value and "drop" in field}
    assert moved == {"queue", "eg_port", "pipe"}
    assert {field for (name, _, _, field), value in switch.tm.counters.items() if name == "pipe" and value} == {
        "eg_total_drop_packets"
    }


def test_with_the_driver_s_defaults_another_limit_drops_first(switch: FakeSwitch) -> None:
    """The test above would not fail without pools and ingress limits if the fake were too kind."""
    for port in (SENDER_PORT, RECEIVER_PORT):
        switch.tm.add_port(port, {"$SPEED": "BF_SPEED_100G", "$FEC": "BF_FEC_TYP_RS"})
    switch.tm.modify("queue.buffer", (0, 0), PIPE, {"pool_max_cells": 190_000, "dynamic_baf": "DISABLE"})
    accepted = sum(switch.tm.offer(SENDER_PORT, RECEIVER_PORT, 0, 1514) for _ in range(11_000))
    assert accepted < 8000


def test_a_queue_that_is_full_reaches_its_watermark(
    switch: FakeSwitch, programmer: Programmer, inventory: Inventory
) -> None:
    found = program(programmer, inventory, bound_plan(inventory)).manager.bottlenecks[0]
    prefix = inventory.switch.generation.prefix
    switch.tm.counters["queue", (0, 0), PIPE, "watermark_cells"] = 99_999
    programmer.clear(watermark_writes(prefix, [found], []))
    assert not watermark(programmer.client, prefix, found).faithful
    while switch.tm.offer(SENDER_PORT, RECEIVER_PORT, 0, 1514):
        pass
    measured = watermark(programmer.client, prefix, found)
    assert measured.faithful and str(measured).endswith("as set")
    switch.tm.settings["queue.buffer", (0, 0), PIPE]["pool_max_cells"] += 500
    while switch.tm.offer(SENDER_PORT, RECEIVER_PORT, 0, 1514):
        pass
    assert "NOT as set" in str(watermark(programmer.client, prefix, found))


def test_reports_have_a_session_cut_behind_its_header_and_memory(
    switch: FakeSwitch, programmer: Programmer, inventory: Inventory
) -> None:
    program(programmer, inventory, bound_plan(inventory))
    session = switch.mirrors[1]
    assert session["$session_enable"] and session["$ucast_egress_port_valid"]
    assert (session["$direction"], session["$ucast_egress_port"]) == ("EGRESS", COLLECTOR_PORT)
    # 86 B of the frame and the mirror header of 32 B; Tofino 2 counts the FCS and steps by 4.
    assert session["$max_pkt_len"] == {"tofino": 118, "tofino2": 124}[switch.chip]
    written = ("modify", f"{switch.kind.prefix}.tm.mirror.dpg") in switch.requests
    assert written == (switch.chip == "tofino")


def test_paths_are_connected_last(switch: FakeSwitch, programmer: Programmer, inventory: Inventory) -> None:
    program(programmer, inventory, bound_plan(inventory, loss=0.01, ecn_threshold="100kB"))
    inserted = [table for operation, table in switch.requests if operation == "insert"]
    assert [table.rpartition(".")[2] for table in inserted[-4:]] == ["cross_connect"] * 4
    entries = switch.programs.entries
    assert len(entries[switch.schema.table("delay_bins").name]) == 124
    ((_, loss),) = entries[switch.schema.table("loss").name].values()
    assert loss == {"threshold": round(0.01 * 2**32)}
    ((_, observe),) = entries[switch.schema.table("bottleneck").name].values()
    assert observe["threshold"] == {"tofino": 1322, "tofino2": 595}[switch.chip]
    assert (observe["mask"], observe["shift"], observe["mirror"]) == (0, 0, 1)


def test_what_an_earlier_run_left_in_the_program_is_removed_and_put_back(
    switch: FakeSwitch, programmer: Programmer, inventory: Inventory
) -> None:
    table = switch.schema.table("bottleneck")
    observe = table.action("observe")
    stale = (observe.id, {"threshold": 5, "mask": 1, "shift": 1, "epoch": 0, "mirror": 1})
    switch.programs.entries[table.name][9,] = stale
    before = switch.state()
    program(programmer, inventory, bound_plan(inventory))
    assert (9,) not in switch.programs.entries[table.name]
    assert programmer.undo() == []
    assert switch.state() == before


def test_teardown_restores_what_it_found(switch: FakeSwitch, programmer: Programmer, inventory: Inventory) -> None:
    switch.tm.add_port(RECEIVER_PORT, {"$SPEED": "BF_SPEED_100G", "$FEC": "BF_FEC_TYP_RS", "$PORT_ENABLE": False})
    switch.tm.modify("queue.buffer", (0, 0), PIPE, {"pool_max_cells": 77, "dynamic_baf": "33%"})
    switch.tm.modify("pool.cfg", ("EG_APP_POOL_1",), ALL_PIPES, {"size_cells": 4711})
    switch.tm.settings["queue.sched_shaping", (0, 0), PIPE]["max_rate"] = 100_000_000
    asic = switch.tm.asic
    switch.tm.asic = False
    before = switch.state()
    program(programmer, inventory, bound_plan(inventory, loss=0.5))
    assert switch.state() != before
    assert programmer.undo() == []
    assert switch.state() == before
    switch.tm.asic = asic


def test_the_ingress_cap_of_tofino2_is_raised_only_when_it_is_in_the_way() -> None:
    inventory = make_inventory("tofino2")
    tables = [write.table for write in plan(make_experiment(buffer="1MB"), inventory)]
    assert "tf2.tm.cfg" not in tables
    writes = plan(make_experiment(buffer="50MB", rate="20Gbit"), inventory)
    (cap,) = [write for write in writes if write.table == "tf2.tm.cfg"]
    assert int(str(cap.data["ig_buffer_limit_cells"])) > 256_000


def test_limits_of_ports_and_pipes_are_raised_when_they_are_in_the_way(
    switch: FakeSwitch, programmer: Programmer, inventory: Inventory
) -> None:
    switch.tm.modify("port.buffer", (RECEIVER_PORT,), ALL_PIPES, {"eg_limit_cells": 500})
    switch.tm.modify("port.buffer", (SENDER_PORT,), ALL_PIPES, {"ig_limit_cells": 500})
    switch.tm.modify("pipe.cfg", (), PIPE, {"eg_limit_cells": 500})
    found = program(programmer, inventory, bound_plan(inventory))
    wanted = found.manager.bottlenecks[0].depth.cells + 1024
    assert switch.tm.settings["port.buffer", (RECEIVER_PORT,), ALL_PIPES]["eg_limit_cells"] == wanted
    assert switch.tm.settings["port.buffer", (SENDER_PORT,), ALL_PIPES]["ig_limit_cells"] == wanted
    assert switch.tm.settings["pipe.cfg", (), PIPE]["eg_limit_cells"] == wanted


def test_pause_frames_are_turned_off(switch: FakeSwitch, programmer: Programmer, inventory: Inventory) -> None:
    for port in (SENDER_PORT, SECOND_SENDER_PORT, COLLECTOR_PORT, RECEIVER_PORT):
        one = inventory.port(port)
        switch.tm.add_port(port, {"$SPEED": f"BF_SPEED_{one.speed}", "$FEC": FEC[one.fec]})
    switch.tm.modify("port.flowcontrol", (SENDER_PORT,), ALL_PIPES, {"mode_tx": "PAUSE"})
    program(programmer, inventory, bound_plan(inventory))
    assert switch.tm.settings["port.flowcontrol", (SENDER_PORT,), ALL_PIPES]["mode_tx"] == "NONE"


def test_settings_that_a_change_of_speed_has_undone_are_seen_and_made_again(
    switch: FakeSwitch, programmer: Programmer, inventory: Inventory
) -> None:
    program(programmer, inventory, bound_plan(inventory))
    assert programmer.drift() == []
    switch.tm.modify_port(RECEIVER_PORT, {"$SPEED": "BF_SPEED_40G"})
    switch.tm.modify_port(RECEIVER_PORT, {"$SPEED": "BF_SPEED_100G"})
    (drifted,) = programmer.drift()
    assert "tm.queue.sched_shaping [pg_id=0, pg_queue=0] (pipe 1): max_rate reads" in drifted
    assert programmer.reapply() == [drifted]
    assert programmer.drift() == []
    assert programmer.undo() == []


def test_the_chip_in_the_inventory_must_be_the_switch_s(switch: FakeSwitch, client: Client) -> None:
    wrong = make_inventory({"tofino": "tofino2", "tofino2": "tofino"}[switch.chip], switch.address)
    with pytest.raises(Exception, match="the switch serves no table"):
        plan_switch(wrong, bound_plan(wrong), LiveReader(client))


@pytest.mark.parametrize("chip", ["tofino", "tofino2"])
def test_a_dry_run_names_every_write_in_words(chip: str) -> None:
    writes = plan(make_experiment(loss="1%"), make_inventory(chip))
    lines = [str(write) for write in writes]
    assert [line for line in lines if line.startswith("insert $PORT [$DEV_PORT=128] {$SPEED=BF_SPEED_100G")]
    (buffer,) = [line for line in lines if "tm.queue.buffer" in line]
    assert "shared_pool" in buffer and "pipe 1" in buffer and "of frames)" in buffer
    (shaper,) = [write for write in writes if write.table.endswith("queue.sched_shaping")]
    assert "max_rate=10000000 (kbit/s)" in str(shaper) and "10Gbit asked for" in shaper.why
    assert all(write.why for write in writes)


def test_run_json_has_the_realised_rate_and_depth(
    switch: FakeSwitch, programmer: Programmer, inventory: Inventory
) -> None:
    found = program(programmer, inventory, bound_plan(inventory, ecn_threshold="100kB")).manager.bottlenecks[0]
    stated = realised(found)
    assert stated["rate"]["asked_bps"] == 10**10
    assert stated["rate"]["made_bps"] == {"tofino": 10_004_000_000, "tofino2": 10**10}[switch.chip]
    assert stated["depth"]["cells"] == found.depth.cells and stated["depth"]["hysteresis_cells"] == 32
    assert stated["ecn_threshold_cells"] == {"tofino": 1322, "tofino2": 595}[switch.chip]
    assert stated["queue"]["pipe"] == PIPE


@pytest.mark.parametrize(("chip", "threshold"), [("tofino", "75B"), ("tofino2", "168B")])
def test_a_threshold_of_less_than_a_cell_does_not_mark_what_finds_an_empty_queue(chip: str, threshold: str) -> None:
    """Frames of 1514 B take 20 cells of 80 B, 9 of 176 B; a packet is marked that finds the threshold, or more."""
    bound = bound_plan(make_inventory(chip), ecn_threshold=threshold)
    planned = plan_switch(make_inventory(chip), bound, AssumedReader(make_inventory(chip).switch.generation))
    (write,) = [write for write in planned.writes if write.table == "bottleneck"]
    assert write.data["threshold"] == 1
    assert realised(planned.manager.bottlenecks[0])["ecn_threshold_cells"] == 1


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"rate": "99Gbit"}, "allowed: up to 98.439Gbit"),
        ({"buffer": "80MB"}, "allowed: up to"),
        ({"buffer": "3kB"}, "or more"),
        ({"rate": "100kbit"}, "cannot be made"),
        ({"rate": "1kbit", "buffer": "100kB"}, "cannot be made"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_written(settings: dict[str, str], words: str) -> None:
    for chip in ("tofino", "tofino2"):
        if settings == {"rate": "100kbit"} and chip == "tofino2":
            continue
        with pytest.raises(InputError, match=words):
            plan(make_experiment(**settings), make_inventory(chip))


def test_reports_that_the_collector_s_port_cannot_carry_are_refused_with_the_sampling_that_fits() -> None:
    data = make_inventory("tofino2").model_dump()
    data["ports"][2]["speed"] = "10G"
    slow = Inventory.model_validate(data)
    # 98 B of encapsulation and 86 of headers, 24 on the wire, for each 1514 + 24 B at 95 Gbit/s.
    with pytest.raises(InputError, match=r"telemetry.sample: the reports need 13\.\d+Gbit .* allowed: 2 or more, auto"):
        plan(make_experiment(rate="95Gbit"), slow)


def test_reports_that_the_collector_does_not_hold_are_refused_with_the_numbers() -> None:
    data = make_inventory().model_dump()
    data["collector"] |= {"reports_s": 1_000_000, "rings": 4}
    small = Inventory.model_validate(data)
    experiment = make_experiment(rate="50Gbit")
    words = r"telemetry.sample: 4,128,137 packets/s of 1514 B make 4,128,137 reports/s, and dave holds 1,000,000 .*"
    with pytest.raises(InputError, match=words + "allowed: 8 or more, auto"):
        plan(experiment, small)
    sampled = experiment.model_copy(update={"telemetry": Telemetry(sample=8)})
    assert plan(sampled, small)
    # Longer frames are fewer.
    assert plan(experiment.model_copy(update={"mtu": 9000}), small)
    both = make_experiment(rate="10Gbit").model_copy(update={"telemetry": Telemetry(acks=True)})
    with pytest.raises(InputError, match=r"telemetry.acks: 825,627 packets/s of 1514 B make 1,651,255 reports/s"):
        plan(both, small)
    assert bound_plan(small).collector.rings == 4
    del data["collector"]["reports_s"]
    assert plan(experiment, Inventory.model_validate(data)), "what it holds is unknown"


def flow_group(**settings: str) -> FlowGroup:
    return read_group({"cca": "cubic", "name": "-".join(settings), **settings})


def test_the_sampling_that_the_collector_holds_is_chosen() -> None:
    data = make_inventory().model_dump()
    data["collector"] |= {"reports_s": 1_000_000}
    data["ports"][2]["speed"] = "10G"

    def chosen(rate: str, reports_s: int | None = 1_000_000, **changes: Any) -> int:
        data["collector"]["reports_s"] = reports_s
        auto = make_experiment(rate=rate).model_copy(update={"telemetry": Telemetry(sample="auto"), **changes})
        inventory = Inventory.model_validate(data)
        assert plan(auto, inventory), "what is chosen fits"
        return 1 << bind(make_plan(auto), inventory).bottleneck.sample_shift

    assert [chosen(rate) for rate in ("1Gbit", "10Gbit", "13Gbit", "50Gbit", "95Gbit")] == [1, 1, 2, 8, 8]
    assert chosen("95Gbit", mtu=9000) == 2
    # What was not measured does not bound it, but the collector's port does: 7.8 million reports of 200 B a second.
    assert chosen("95Gbit", None) == 2
    # As much in connections of 1,000 B: a frame of data and three of the connection's own, 316 B on average.
    short = flow_group(size="1000B")
    assert chosen("10Gbit", flows=(short,)) == 4
    assert chosen("10Gbit", flows=(flow_group(size="100MB"),)) == 1
    assert chosen("10Gbit", flows=(flow_group(duration="1s"), short)) == 4


def test_more_packets_than_full_size_ones_are_expected_of_short_connections() -> None:
    data = make_inventory().model_dump()
    data["collector"] |= {"reports_s": 1_000_000}
    short = flow_group(size="1000B")
    experiment = make_experiment(rate="10Gbit").model_copy(update={"flows": (short,)})
    words = "telemetry.sample: 3,955,696 packets/s of 316 B make 3,955,696 reports/s, and dave holds 1,000,000 .*4 or"
    with pytest.raises(InputError, match=words):
        plan(experiment, Inventory.model_validate(data))


@pytest.mark.parametrize(
    ("rate", "flows", "packets_s", "sample"),
    [
        # 4 Gbit/s in payloads of 100 B.
        ("10Gbit", [{"udp": {"rate": "4Gbit", "payload": "100B"}}], 5_000_000, 8),
        # A payload has 42 B of headers, and what 5.68 Gbit/s leave of the link is full-size frames.
        ("10Gbit", [{"udp": {"rate": "4Gbit", "payload": "100B"}}, {"cca": "cubic"}], 5_000_000 + 4.32e9 / 8 / 1514, 8),
        # No more leaves than the link carries.
        ("10Gbit", [{"udp": {"rate": "40Gbit", "payload": "100B"}}], 10e9 / 8 / 142, 16),
        # A link that hardly anything crosses.
        ("50Gbit", [{"udp": {"rate": "96Mbit", "payload": "1200B"}}], 10_000, 1),
        ("10Gbit", [{"probe": {"interval": "10ms"}}, {"cca": "cubic"}], 100 + (10e9 - 100 * 106 * 8) / 8 / 1514, 1),
    ],
)
def test_datagrams_are_as_many_as_are_sent(rate: str, flows: list[Any], packets_s: float, sample: int) -> None:
    data = make_inventory().model_dump()
    data["collector"] |= {"reports_s": 1_000_000}
    groups = tuple(read_group({"name": f"f{n}", "duration": "1s", **one}) for n, one in enumerate(flows))
    auto = make_experiment(rate=rate).model_copy(update={"telemetry": Telemetry(sample="auto"), "flows": groups})
    bound = bind(make_plan(auto), Inventory.model_validate(data))
    # Acknowledgements cross no link here.
    assert report_load(bound).packets_s == pytest.approx(packets_s)
    assert 1 << bound.bottleneck.sample_shift == sample


def test_a_port_at_another_speed_is_refused_not_changed(
    switch: FakeSwitch, client: Client, inventory: Inventory
) -> None:
    switch.tm.add_port(RECEIVER_PORT, {"$SPEED": "BF_SPEED_40G", "$FEC": "BF_FEC_TYP_RS"})
    with pytest.raises(InputError, match=r"port 1/0 .dev_port 128. runs at 40G, not at 100G"):
        port_writes(inventory, [RECEIVER_PORT], LiveReader(client))
    switch.tm.ports[RECEIVER_PORT].update({"$SPEED": "BF_SPEED_100G", "$RX_PAUSE_FRAME_EN": True})
    with pytest.raises(InputError, match=r"\$RX_PAUSE_FRAME_EN on: hosts must be dropped from, not paused"):
        port_writes(inventory, [RECEIVER_PORT], LiveReader(client))


def test_the_way_back_is_reported_if_asked_for(
    switch: FakeSwitch, programmer: Programmer, inventory: Inventory
) -> None:
    acks = make_experiment(ecn_threshold="100kB", loss=0.01).model_copy(update={"telemetry": Telemetry(acks=True)})
    plan = bind(make_plan(acks), inventory)
    program(programmer, inventory, plan)
    (reverse,) = plan.unlimited
    entries = switch.programs.entries
    observed = {key[0]: data for key, (_, data) in entries[switch.schema.table("bottleneck").name].items()}
    assert set(observed) == {0, reverse.index}
    assert observed[reverse.index] == {**observed[0], "threshold": 0xFFFFFFFF}
    reports = {key[0]: data for key, (_, data) in entries[switch.schema.table("collector").name].items()}
    assert reports[reverse.index] == reports[0]
    assert [key[0] for key in entries[switch.schema.table("loss").name]] == [0]
    paths = [data for _, data in entries[switch.schema.table("cross_connect").name].values()]
    assert sorted(data["index"] for data in paths) == [0, 0, reverse.index, reverse.index]
    assert {data["queue"] for data in paths if data["index"] == reverse.index} == {0}


def test_reports_of_both_directions_must_fit_the_collectors_port() -> None:
    data = make_inventory("tofino2").model_dump()
    data["ports"][2]["speed"] = "10G"
    fast = make_experiment(rate="60Gbit").model_copy(update={"telemetry": Telemetry(acks=True)})
    with pytest.raises(InputError, match=r"telemetry.acks: the reports of both directions need 1\d\.\d+Gbit .*: false"):
        plan(fast, Inventory.model_validate(data))
