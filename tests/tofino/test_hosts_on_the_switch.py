# SPDX-License-Identifier: Apache-2.0
"""What the switch does for a testbed's hosts: base RTTs by recirculation, and several senders at a port by VLAN."""

from __future__ import annotations

from typing import Any

import pytest
from fakeswitch.fixtures import RECEIVER_PORT, SENDER_PORT, inventory_data, machine, make_experiment
from narrows.errors import InputError
from narrows.experiment.model import Experiment
from narrows.experiment.planning import make_plan
from narrows_tofino.bfrt.client import Operation
from narrows_tofino.bfrt.values import Ternary
from narrows_tofino.binding import bind
from narrows_tofino.planner import plan
from narrows_tofino.testbed.inventory import Inventory
from narrows_tofino.writes.base_delay import base_delay
from narrows_tofino.writes.entries import MASKS
from narrows_tofino.writes.planned import PlannedWrite
from pydantic import ValidationError

ROUND_PORT = 152
CARRIED = 86 + 15 + 20


def delayed(**delay: Any) -> dict[str, Any]:
    """A testbed whose switch makes base RTTs at a port of 100 Gbit/s."""
    data = inventory_data()
    data["ports"].append({"name": "6/0", "dev_port": ROUND_PORT, "speed": "100G"})
    data["delay"] = {"at": "switch", "port": "6/0", **delay}
    return data


def tagged(**vlans: int) -> dict[str, Any]:
    """A testbed whose senders are at one port."""
    data = inventory_data()
    data["senders"] = [machine("alice", "2/0", 1), machine("bob", "2/0", 2)]
    data["vlans"] = vlans or {"alice": 101, "bob": 102, "carol": 103}
    return data


def of_table(writes: list[PlannedWrite], table: str) -> list[PlannedWrite]:
    return [write for write in writes if write.table.endswith(table) and write.operation is not Operation.CLEAR]


def test_frames_for_senders_go_round_for_their_base_rtt() -> None:
    inventory = Inventory.model_validate(delayed())
    writes = plan(make_experiment(rtt="20ms"), inventory)
    (port,) = [write for write in of_table(writes, "$PORT") if write.key == {"$DEV_PORT": ROUND_PORT}]
    assert port.data["$LOOPBACK_MODE"] == "BF_LPBK_MAC_NEAR"
    (metadata,) = of_table(writes, "$PORT_METADATA")
    assert (metadata.key, metadata.data, metadata.action) == (
        {"intrinsic.ingress_port": ROUND_PORT}, {"reserved": 0, "holds": 1}, None,
    )  # fmt: skip
    held = of_table(writes, "base_delay")
    assert [(write.key, write.data) for write in held] == [
        (
            {"ingress_port": RECEIVER_PORT, "dst_mac": 0x020000000000 + number},
            {"line": number - 1, "delay": 20_000_000, "loopback": ROUND_PORT},
        )
        for number in (1, 2)
    ]
    # Registers of lines begin at 0.
    assert {"taken_in", "next_out"} <= {write.table for write in writes if write.operation is Operation.CLEAR}


def test_a_round_is_as_long_as_what_goes_round() -> None:
    inventory = Inventory.model_validate(delayed())
    bound = bind(make_plan(make_experiment(rate="10Gbit", rtt="20ms")), inventory)
    delay = base_delay(bound, inventory)
    assert delay is not None
    # An acknowledgement for each packet of 1514 B: 10e9 / (8 * 1514) * 0.02, and one.
    assert delay.frames == round(10e9 / (8 * 1514) * 0.02) + 1 == 16514
    assert delay.round_ns == 2000 + round(16514 * CARRIED * 8 / 100)
    # 101 B in cells of 80 B, and a margin.
    assert delay.cells == 16514 * 2 + 1024
    assert "up to 161.856us late" in delay.note


def test_the_port_that_frames_go_round_holds_them_all() -> None:
    inventory = Inventory.model_validate(delayed())
    writes = plan(make_experiment(rate="10Gbit", rtt="20ms"), inventory)
    (buffer,) = [write for write in of_table(writes, "tm.queue.buffer") if "go round" in write.why]
    cells = buffer.data["pool_max_cells"]
    assert isinstance(cells, int)
    assert cells + int(str(buffer.data["guaranteed_cells"])) == 16514 * 2 + 1024
    limits = {str(write.key) for write in of_table(writes, "tm.port.dpg")}
    assert str({"dev_port": ROUND_PORT}) in limits


def test_without_an_rtt_nothing_goes_round() -> None:
    writes = plan(make_experiment(rtt="0s"), Inventory.model_validate(delayed()))
    assert not of_table(writes, "base_delay")
    assert not of_table(writes, "$PORT_METADATA")
    assert {"$DEV_PORT": ROUND_PORT} not in [write.key for write in writes]


@pytest.mark.parametrize(
    ("bottleneck", "words"),
    [
        ({"rate": "90Gbit", "rtt": "20ms"}, "frames that go round port 6/0 would be up to 14"),
        ({"rate": "1Mbit", "rtt": "3s", "buffer": "100kB"}, "an rtt of 3s is longer than the switch can hold a frame"),
        # A round is two microseconds at least: more than a hundredth of 100.
        ({"rate": "10Mbit", "rtt": "100us"}, "late, with 1 acknowledgements under way; allowed: up to 1%"),
    ],
)
def test_base_rtts_that_would_be_wrong_are_refused(bottleneck: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as refused:
        plan(make_experiment(**bottleneck), Inventory.model_validate(delayed()))
    assert words in str(refused.value)


def without_port(data: dict[str, Any]) -> None:
    del data["delay"]["port"]


def with_a_nic(data: dict[str, Any]) -> None:
    data["delay"]["interface"] = "ens2f0"


def of_another_name(data: dict[str, Any]) -> None:
    data["delay"]["port"] = "9/0"


def at_a_sender(data: dict[str, Any]) -> None:
    data["delay"]["port"] = "2/0"


def at_the_receiver(data: dict[str, Any]) -> None:
    data["delay"]["port"] = "1/0"


def of_a_link(data: dict[str, Any]) -> None:
    data["loopback"] = ["6/0"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (without_port, "at: switch lacks its place"),
        (with_a_nic, "at: switch has no NIC"),
        (of_another_name, "delay: '9/0' is not a port"),
        (at_a_sender, "the delay line shares a sender's port '2/0'"),
        (at_the_receiver, "carol is on the loopback port '1/0'"),
        (of_a_link, "delay: '6/0' is among those of loopback"),
    ],
)
def test_the_port_is_one_without_a_cable(change: Any, words: str) -> None:
    data = delayed()
    change(data)
    with pytest.raises(ValidationError) as refused:
        Inventory.model_validate(data)
    assert words in str(refused.value)


def in_a_row() -> tuple[Experiment, dict[str, Any]]:
    """Alice's packets cross two links to Carol, and Bob's only the second one, from the same port."""
    experiment = Experiment.model_validate(
        {
            "name": "two-ways",
            "links": {
                "left": {"rate": "1Gbit", "buffer": "100kB", "rtt": "1ms"},
                "right": {"rate": "2Gbit", "buffer": "100kB", "rtt": "1ms"},
            },
            "flows": [
                {"cca": "cubic", "duration": "1s", "path": ["left", "right"], "from": "alice"},
                {"cca": "cubic", "duration": "1s", "path": ["right"], "from": "bob"},
            ],
        }
    )
    data = tagged()
    data["ports"].append({"name": "6/0", "dev_port": ROUND_PORT, "speed": "100G"})
    data["loopback"] = ["6/0"]
    return experiment, data


def test_hosts_of_a_port_take_different_ways_by_their_vlan() -> None:
    experiment, data = in_a_row()
    writes = plan(experiment, Inventory.model_validate(data))
    carol = 0x020000000003
    ways = {
        (write.key["ingress_port"], write.key.get("vlan")): write.data["port"]
        for write in of_table(writes, "cross_connect")
        if write.key is not None and write.key["dst_mac"] == Ternary(carol, MASKS["cross_connect"]["dst_mac"])
    }
    ports = MASKS["cross_connect"]["ingress_port"]
    assert ways == {
        (Ternary(SENDER_PORT, ports), Ternary(101, 0xFFF)): ROUND_PORT,
        (Ternary(SENDER_PORT, ports), Ternary(102, 0xFFF)): RECEIVER_PORT,
        # On their second way round frames are known by their port alone.
        (Ternary(ROUND_PORT, ports), None): RECEIVER_PORT,
    }
    assert [(write.key, write.data, write.action) for write in of_table(writes, "host_vlan")] == [
        ({"is_tagged": 1, "dst_mac": 0x020000000000 + number}, {"vlan": 100 + number}, "retag") for number in (1, 2, 3)
    ]


def test_without_vlans_they_cannot() -> None:
    experiment, data = in_a_row()
    del data["vlans"]
    with pytest.raises(InputError, match="would take two routes from port 2/0, which hosts share"):
        plan(experiment, Inventory.model_validate(data))


def unknown(data: dict[str, Any]) -> None:
    data["vlans"]["zoe"] = 9


def one_without(data: dict[str, Any]) -> None:
    del data["vlans"]["carol"]


def twice(data: dict[str, Any]) -> None:
    data["vlans"]["bob"] = 101


def too_large(data: dict[str, Any]) -> None:
    data["vlans"]["bob"] = 4095


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (unknown, "vlans: 'zoe' is neither a sender nor a receiver; allowed: alice, bob, carol"),
        (one_without, "vlans: carol has none"),
        (twice, "vlans: alice and bob have 101 at port '2/0'"),
        (too_large, "4094"),
    ],
)
def test_vlans_belong_to_hosts(change: Any, words: str) -> None:
    data = tagged()
    change(data)
    with pytest.raises(ValidationError) as refused:
        Inventory.model_validate(data)
    assert words in str(refused.value)
