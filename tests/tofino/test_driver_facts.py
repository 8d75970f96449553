# SPDX-License-Identifier: Apache-2.0
"""What the driver does on its model, of the fake switch: where the two differ, other tests here prove nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fakeswitch import meters
from fakeswitch.fixtures import PIPE, RECEIVER_PORT, bound_plan, client, inventory, kind, managed_switch, switch
from fakeswitch.server import PROGRAM, FakeSwitch
from narrows.errors import InputError
from narrows_tofino.bfrt.client import ALL_PIPES, Client, Endpoint, Operation
from narrows_tofino.bfrt.connect import connect
from narrows_tofino.bfrt.errors import SwitchRefused
from narrows_tofino.bfrt.values import Data, Key
from narrows_tofino.planner import plan_switch
from narrows_tofino.testbed.inventory import MANAGED_PROGRAM, Inventory
from narrows_tofino.writes.planned import Reader
from narrows_tofino.writes.reader import AssumedReader, LiveReader

__all__ = ["client", "inventory", "kind", "managed_switch", "switch"]

QUEUE: Key = {"pg_id": 0, "pg_queue": 0}
PORT: Key = {"$DEV_PORT": RECEIVER_PORT}
ADDED: Data = {"$SPEED": "BF_SPEED_100G", "$FEC": "BF_FEC_TYP_RS", "$PORT_ENABLE": True}
WRED: Data = {meters.TIME: 1e6, meters.LOW: 64, meters.HIGH: 192, meters.PROBABILITY: 1.0}
SESSION: Data = {"$session_enable": True, "$direction": "EGRESS", "$ucast_egress_port": 5}


def refused(client: Client, operation: Operation, table: str, key: Key, data: Data, action: str | None) -> set[str]:
    """Codes with which a write is refused."""
    with pytest.raises(SwitchRefused) as refusal:
        client.write(operation, client.schema.table(table), key, data, action)
    return set(refusal.value.codes)


def data(reader: Reader, table: str, key: Key | None, pipe: int = ALL_PIPES) -> Data:
    """What an entry has; nothing where there is none."""
    entry = reader.entry(table, key, pipe)
    return {} if entry is None else entry.data


def test_a_change_of_a_mirror_session_resets_what_it_does_not_name(client: Client) -> None:
    table, key = client.schema.table("$mirror.cfg"), {"$sid": 7}
    client.write(Operation.INSERT, table, key, SESSION, "$normal")
    client.write(Operation.MODIFY, table, key, {"$ucast_egress_port": 6}, "$normal")
    found = client.read(table, key).data
    assert (found["$session_enable"], found["$direction"], found["$ucast_egress_port"]) == (False, "NONE", 6)


def test_mirror_sessions_that_are_not_there(client: Client) -> None:
    table = "$mirror.cfg"
    assert refused(client, Operation.MODIFY, table, {"$sid": 7}, SESSION, "$normal") == {"INVALID_ARGUMENT"}
    assert refused(client, Operation.DELETE, table, {"$sid": 7}, {}, None) == {"INVALID_ARGUMENT"}
    assert client.find(client.schema.table(table), {"$sid": 7}) is None


def test_ports_are_added_twice_and_taken_away_twice_without_a_word(client: Client, switch: FakeSwitch) -> None:
    table = client.schema.table("$PORT")
    client.write(Operation.MODIFY, table, PORT, ADDED)
    assert client.find(table, PORT) is None
    for _ in range(2):
        client.write(Operation.INSERT, table, PORT, ADDED)
    assert list(switch.tm.ports) == [RECEIVER_PORT]
    for _ in range(2):
        client.write(Operation.DELETE, table, PORT)
    assert not switch.tm.ports


def test_a_port_that_was_added_reads_as_it_did_of_the_driver() -> None:
    """All that the driver of a Tofino 1 without a platform's library answered, on its model."""
    fake = FakeSwitch("tofino", asic=False)
    client = connect(Endpoint(fake.address, PROGRAM))
    try:
        for dev_port, connector in ((128, 17), (136, 19)):
            asked: Data = {
                **{"$SPEED": "BF_SPEED_100G", "$FEC": "BF_FEC_TYP_REED_SOLOMON", "$PORT_ENABLE": True},
                "$AUTO_NEGOTIATION": "PM_AN_DEFAULT",
            }
            client.write(Operation.INSERT, client.schema.table("$PORT"), {"$DEV_PORT": dev_port}, asked)
            assert client.read(client.schema.table("$PORT"), {"$DEV_PORT": dev_port}).data == {
                **asked,
                **dict.fromkeys(("$TX_PAUSE_FRAME_EN", "$RX_PAUSE_FRAME_EN", "$CUT_THROUGH_EN"), False),
                **dict.fromkeys(("$TX_PFC_EN_MAP", "$RX_PFC_EN_MAP", "$RX_PRSR_PRI_THRESH", "$CHNL_ID"), 0),
                **dict.fromkeys(("$SDS_TX_ATTN", "$SDS_TX_PRE", "$SDS_TX_PRE2", "$SDS_TX_POST", "$SDS_TX_POST2"), 0),
                **dict.fromkeys((f"$TIMESTAMP_1588_{name}" for name in ("DELTA_TX", "DELTA_RX", "VALUE", "ID")), 0),
                **{"$N_LANES": 4, "$LOOPBACK_MODE": "BF_LPBK_NONE", "$TX_MTU": 10240, "$RX_MTU": 10240},
                **{"$PORT_DIR": "PM_PORT_DIR_DEFAULT", "$MEDIA_TYPE": "BF_MEDIA_TYPE_UNKNOWN", "$PLL_OVRCLK": 0.0},
                **{"$IS_VALID": True, "$IS_INTERNAL": False, "$PORT_UP": True, "$TIMESTAMP_1588_VALID": False},
                **{"$CONN_ID": connector, "$PORT_NAME": f"{connector}/0"},
            }
    finally:
        client.close()
        fake.stop()


def test_speeds_and_lanes(client: Client, switch: FakeSwitch) -> None:
    table = client.schema.table("$PORT")
    client.write(Operation.INSERT, table, PORT, {**ADDED, "$SPEED": "BF_SPEED_25G"})
    assert client.read(table, PORT).data["$N_LANES"] == 1
    if switch.chip == "tofino":
        fast = {**ADDED, "$SPEED": "BF_SPEED_400G"}
        assert refused(client, Operation.INSERT, "$PORT", {"$DEV_PORT": 132}, fast, None) == {"INVALID_ARGUMENT"}


@pytest.mark.parametrize("cells", [8, 100])
def test_a_queue_s_hysteresis_reads_as_it_was_written(client: Client, cells: int) -> None:
    table = client.schema.table("tm.queue.buffer")
    client.write(Operation.MODIFY, table, QUEUE, {"hysteresis_cells": cells}, "shared_pool", pipe=PIPE)
    assert client.read(table, QUEUE, pipe=PIPE).data["hysteresis_cells"] == cells


def test_a_queue_without_a_pool_reads_as_one_that_may_take_nothing(client: Client) -> None:
    table = client.schema.table("tm.queue.buffer")
    client.write(Operation.MODIFY, table, QUEUE, {"guaranteed_cells": 50}, "buffer_only", pipe=PIPE)
    found = client.read(table, QUEUE, pipe=PIPE)
    assert str(found.action).endswith("shared_pool")
    assert (found.data["guaranteed_cells"], found.data["pool_max_cells"]) == (50, 0)
    with pytest.raises(SwitchRefused) as refusal:
        client.write(Operation.MODIFY, table, QUEUE, {"guaranteed_cells": 50}, pipe=PIPE)
    assert refusal.value.codes == {"NOT_FOUND"}


@pytest.mark.parametrize(("written", "read"), [("0", "LOW"), ("LOW", "LOW"), ("7", "7"), ("HIGH", "7"), ("3", "3")])
def test_priorities_read_by_the_first_of_their_names(client: Client, written: str, read: str) -> None:
    table = client.schema.table("tm.queue.sched_cfg")
    client.write(Operation.MODIFY, table, QUEUE, {"max_priority": written}, pipe=PIPE)
    assert client.read(table, QUEUE, pipe=PIPE).data["max_priority"] == read


def test_a_weight_is_not_cut_to_its_bits(client: Client) -> None:
    table = client.schema.table("tm.queue.sched_cfg")
    client.write(Operation.MODIFY, table, QUEUE, {"dwrr_weight": 1024}, pipe=PIPE)
    assert client.read(table, QUEUE, pipe=PIPE).data["dwrr_weight"] == 1024


def test_what_a_port_has_before_it_is_added(client: Client) -> None:
    port: Key = {"dev_port": RECEIVER_PORT}
    flow, schedule = (client.schema.table(f"tm.port.{name}") for name in ("flowcontrol", "sched_cfg"))
    before = client.read(flow, port).data
    assert (before["mode_tx"], before["cos_to_icos"]) == ("PFC", list(range(8)))
    assert client.read(schedule, port).data["scheduling_speed"] == "BF_SPEED_10G"
    client.write(Operation.INSERT, client.schema.table("$PORT"), PORT, ADDED)
    assert client.read(flow, port).data["mode_tx"] == "NONE"
    assert client.read(schedule, port).data["scheduling_speed"] == "BF_SPEED_100G"


def test_priority_groups_start_without_hysteresis(client: Client, inventory: Inventory) -> None:
    assumed = AssumedReader(inventory.switch.generation)
    prefix, live = inventory.switch.generation.prefix, LiveReader(client)
    for table, key, pipe in (("port.dpg", {"dev_port": RECEIVER_PORT}, ALL_PIPES), ("mirror.dpg", None, PIPE)):
        for reader in (assumed, live):
            assert data(reader, f"{prefix}.tm.{table}", key, pipe)["hysteresis_cells"] == 0


def test_a_queue_that_the_port_has_not_is_refused(client: Client, inventory: Inventory) -> None:
    """The map has a number for each queue of the port group, of which those above the port's own are its own again."""
    count = 8 if inventory.switch.chip == "tofino" else 16
    plan = bound_plan(inventory)
    for reader in (AssumedReader(inventory.switch.generation), LiveReader(client)):
        table = f"{inventory.switch.generation.prefix}.tm.port.cfg"
        numbers = data(reader, table, {"dev_port": RECEIVER_PORT})["egress_qid_queues"]
        assert isinstance(numbers, list) and len(numbers) in (32, 128)
        assert numbers[count : 2 * count] == numbers[:count] == list(range(count))
    links = tuple(replace(link, queue=count) for link in plan.links)
    with pytest.raises(InputError, match=f"port {RECEIVER_PORT} has {count} queues; queue {count} is not among them"):
        plan_switch(inventory, replace(plan, links=links), AssumedReader(inventory.switch.generation))


def test_statistics_of_a_port_that_is_not_there(client: Client) -> None:
    with pytest.raises(SwitchRefused) as refusal:
        client.read(client.schema.table("$PORT_STAT"), PORT)
    assert refusal.value.codes == {"INVALID_ARGUMENT"}


def test_memory(client: Client, switch: FakeSwitch) -> None:
    if switch.chip == "tofino":
        assert client.read_default(client.schema.table("tm.cfg")).data["total_cells"] == 280 * 1024
        pool = client.read(client.schema.table("tm.pool.cfg"), {"pool": "EG_APP_POOL_0"})
        assert pool.data["size_cells"] == 33_869


def test_a_meter_that_was_never_set_never_drops(managed_switch: FakeSwitch) -> None:
    """Thresholds of 2^32 - 1 in 8 bits and an exponent, and the shortest time: a cycle of the meters' clock."""
    client = connect(Endpoint(managed_switch.address, MANAGED_PROGRAM, timeout_s=5), prefer=("own",))
    table = client.schema.part("wred", "Wred")

    def found() -> Data:
        return client.read(table, {"$WRED_INDEX": 0}).data

    try:
        assert (found()[meters.LOW], found()[meters.HIGH]) == (4_278_190_080, 4_278_190_080)
        cycle_ns = {"tofino": 0.8197, "tofino2": 1}[managed_switch.chip]
        assert found()[meters.TIME] == pytest.approx(cycle_ns, abs=5e-5)
        if managed_switch.chip == "tofino":
            managed_switch.meter_hz = 1.271e9
            assert found()[meters.TIME] == pytest.approx(0.7868, abs=5e-5)
        client.write(Operation.MODIFY, table, {"$WRED_INDEX": 0}, WRED)
        assert found()[meters.HIGH] == 192
        client.clear(table)
        assert found()[meters.HIGH] == 4_278_190_080
    finally:
        client.close()


def test_default_entries_of_the_program_are_readable(client: Client) -> None:
    table = client.schema.part("cross_connect", "MatchAction_Direct")
    entry = client.read_default(table)
    assert (entry.is_default, str(entry.action).rpartition(".")[2]) == (True, "discard")
    assert client.read_all(table) == []


def test_a_refusal_names_the_table(client: Client) -> None:
    table = client.schema.table("$mirror.cfg")
    with pytest.raises(SwitchRefused) as refusal:
        client.write(Operation.DELETE, table, {"$sid": 7})
    (one,) = refusal.value.refusals
    assert one.message == "Table Entry delete failed table:$mirror.cfg Invalid arguments"
