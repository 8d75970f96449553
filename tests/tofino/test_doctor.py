# SPDX-License-Identifier: Apache-2.0
"""Doctor: for each thing that it looks at a machine or a switch where it is wrong, and the words with the cure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fakeswitch.faults import Fault, refuse
from fakeswitch.fixtures import RECEIVER_PORT, inventory_data
from fakeswitch.server import FakeSwitch
from narrows.errors import RunError
from narrows.hosts.lab import examination
from narrows.hosts.lab.inventory import Machine
from narrows_tofino import doctor
from narrows_tofino.readings.links import COPPER, OPTICAL, likeliest_cause
from narrows_tofino.testbed.inventory import Inventory

GOOD = {
    "kernel": "6.8.0", "ccas": "reno cubic bbr", "interface": "yes", "carrier": "1", "speed": "100000",
    "clock": "Normal", "applied": "no", "python": "3.10", "netem": "yes",
    **{f"tool.{tool}": "yes" for tool in examination.TOOLS},
    **{f"offload.{name}": "on" for name in examination.OFFLOADS},
}  # fmt: skip


@pytest.fixture
def switch() -> Iterator[FakeSwitch]:
    fake = FakeSwitch("tofino")
    yield fake
    fake.stop()


def examined(
    switch: FakeSwitch,
    monkeypatch: pytest.MonkeyPatch,
    facts: dict[str, str],
    inventory: dict[str, Any],
    refuses: str = "",
) -> dict[str, str]:
    """Problems by subject, when all machines answer with ``facts`` (but for their own MAC addresses and speeds)."""
    data = inventory_data("tofino", switch.address)
    testbed = Inventory.model_validate({**data, **inventory})

    def answer(machine: Machine, arguments: list[str], **_: Any) -> str:
        if machine.name == refuses:
            raise RunError(f"{machine.name}: no ssh to it: refused; fix: 'ssh it' must work")
        speed = {"speed": "25000"} if machine.name == "dave" else {}
        return "\n".join(f"{name}={value}" for name, value in {"mac": machine.mac, **GOOD, **speed, **facts}.items())

    monkeypatch.setattr(examination, "run", answer)
    monkeypatch.setattr(doctor, "find_binary", lambda name: None if refuses == name else f"/bin/{name}")
    return {found.subject: found.problem for found in doctor.examine(testbed, ["cubic"])}


def test_a_testbed_in_order_has_no_problem(switch: FakeSwitch, monkeypatch: pytest.MonkeyPatch) -> None:
    before = switch.state()
    problems = examined(switch, monkeypatch, {}, {})
    assert {subject: problem for subject, problem in problems.items() if problem} == {}
    assert {"alice: clock", "carol: base RTT", "bob: Python", "switch: protection"} <= set(problems)
    assert switch.state() == before


MACHINES = [
    ({"tool.ethtool": "no"}, "bob: tools", "ethtool missing; fix: install"),
    ({"interface": "no"}, "bob: interface", "no ens1f0; fix: name the NIC in the inventory"),
    ({"mac": "02:00:00:00:00:77"}, "bob: MAC address", "has 02:00:00:00:00:77; fix: mac in the inventory"),
    ({"speed": "10000"}, "bob: speed", "runs at 10000 Mbit/s, port 17/0 at 100000; fix"),
    ({"offload.lro": "on [fixed]"}, "bob: offloads", "lro cannot be turned off; fix: use another NIC"),
    ({"ccas": "reno"}, "bob: CCAs", "cubic not loaded; fix: modprobe"),
    ({"clock": "Not synchronised"}, "bob: clock", "not synchronised; fix: run chrony"),
    ({"applied": "yes"}, "bob: earlier run", "a killed run left its settings; fix"),
    ({"python": "3.6"}, "bob: Python", "3.6 is too old; fix: install 3.8"),
    ({"netem": "no"}, "carol: base RTT", "lacks sch_prio, sch_netem or cls_u32; fix: install"),
]


@pytest.mark.parametrize(("facts", "subject", "words"), MACHINES, ids=[subject for _, subject, _ in MACHINES])
def test_what_is_wrong_on_a_machine_is_named_with_its_cure(
    facts: dict[str, str], subject: str, words: str, switch: FakeSwitch, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert words in examined(switch, monkeypatch, facts, {})[subject]


def test_links_are_down_until_the_switch_has_the_ports(switch: FakeSwitch, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fresh switch is not a problem: the first run adds the ports."""
    down = {"carrier": "0", "speed": "-1"}
    problems = examined(switch, monkeypatch, down, {})
    assert {subject: problem for subject, problem in problems.items() if problem} == {}
    switch.tm.add_port(264, {"$SPEED": "BF_SPEED_100G", "$FEC": "BF_FEC_TYP_NONE", "$PORT_ENABLE": True})
    problems = examined(switch, monkeypatch, down, {})
    assert "no carrier on ens1f0; fix: cable" in problems["bob: link"] and problems["alice: link"] == ""


def test_without_a_platform_library_names_are_not_checked(switch: FakeSwitch, monkeypatch: pytest.MonkeyPatch) -> None:
    switch.faults.append(Fault("read", refuse("UNIMPLEMENTED"), table="$PORT_STR_INFO", times=-1))
    problems = examined(switch, monkeypatch, {}, {})
    assert {subject: problem for subject, problem in problems.items() if problem} == {}
    assert {"switch: port 1/0", "switch: port 2/0", "switch: port 3/0", "switch: port 17/0"} <= set(problems)
    testbed = Inventory.model_validate(inventory_data("tofino", switch.address))
    found = {one.subject: one.found for one in doctor.examine(testbed)}
    assert found["switch: port 1/0"].endswith(
        "its name is not checked: bf_switchd has no platform library of the board"
    )


def test_without_a_session_ports_are_not_known(switch: FakeSwitch, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link that is down then is not a fault of the cable: perhaps the switch has no port yet."""
    testbed = Inventory.model_validate({**inventory_data("tofino", switch.address)})
    facts = {**GOOD, "carrier": "0", "speed": "-1"}
    monkeypatch.setattr(
        examination, "run", lambda *_, **__: "\n".join(f"{name}={value}" for name, value in facts.items())
    )
    switch.stop()
    found = {one.subject: one for one in doctor.examine(testbed, ["cubic"])}
    assert found["switch: BF Runtime"].problem != ""
    link = found["bob: link"]
    assert (link.found, link.problem) == ("down; it is not known whether the switch has port 17/0 yet", "")


def test_a_machine_out_of_reach_is_reported(switch: FakeSwitch, monkeypatch: pytest.MonkeyPatch) -> None:
    problems = examined(switch, monkeypatch, {}, {}, refuses="carol")
    assert "fix: 'ssh it' must work" in problems["carol: access"] and problems["alice: access"] == ""


def test_programs_that_are_not_built_are_reported(switch: FakeSwitch, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "make setup" in examined(switch, monkeypatch, {}, {}, refuses="narrows-collector")["collector program"]
    monkeypatch.setattr(doctor, "missing_parts", lambda: ["no softswitch; fix: 'make setup'"])
    data = inventory_data("tofino", switch.address)
    ports = [*data["ports"], {"name": "5/0", "dev_port": 160, "speed": "100G"}]
    delay = {"at": "line", "port": "5/0", "interface": "ens2f0", "mac": "02:00:00:00:00:05"}
    problems = examined(switch, monkeypatch, {}, {"ports": ports, "delay": delay})
    assert "fix: 'make setup'" in problems["delay line program"]
    # The line's NIC is looked at as well, and netem not.
    assert problems["delay-line: link"] == "" and "carol: base RTT" not in problems


def switch_data(switch: FakeSwitch, **more: Any) -> dict[str, Any]:
    return {"switch": {"chip": "tofino", "address": switch.address, "client": "own", **more}}


def test_what_is_wrong_with_the_switch_is_named_with_its_cure(
    switch: FakeSwitch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def problem(subject: str, **more: Any) -> str:
        return examined(switch, monkeypatch, {}, switch_data(switch, **more))[subject]

    assert "without protection; fix: tunnel or tls" in problem("switch: protection", insecure=True)
    assert "fix: is bf_switchd running with program 'other'" in problem("switch: BF Runtime", program="other")
    assert "another generation's; fix: switch.chip" in problem("switch: BF Runtime", chip="tofino2")
    ports = inventory_data("tofino", switch.address)["ports"]

    def port(seen: str, **changes: Any) -> str:
        changed = [{**one, **(changes if one["name"] == "1/0" else {})} for one in ports]
        data: dict[str, Any] = {"ports": changed}
        if "name" in changes:
            data["receiver"] = {**inventory_data()["receiver"], "port": changes["name"]}
        return examined(switch, monkeypatch, {}, data)[f"switch: port {seen}"]

    # The front panel is known before a port was added.
    assert "front-panel port 1/0 is dev_port 128; fix: dev_port or name" in port("1/0", dev_port=129)
    assert "no front-panel port 99/0; fix: name" in port("99/0", name="99/0")
    assert port("1/0") == ""
    switch.tm.add_port(RECEIVER_PORT, {"$SPEED": "BF_SPEED_100G", "$FEC": "BF_FEC_TYP_RS", "$PORT_ENABLE": True})
    assert port("1/0") == ""
    switch.tm.links = False
    assert "link is down; likeliest: the driver does not know the cable" in port("1/0")
    switch.tm.modify_port(RECEIVER_PORT, {"$SPEED": "BF_SPEED_40G"})
    assert "runs at 40G, the inventory says 100G; fix" in port("1/0")
    switch.documents = (b'{"tables": []}', switch.documents[1])
    assert "is the Narrows program loaded" in problem("switch: tables")


def test_a_switch_that_everybody_can_reach_is_reported(switch: FakeSwitch, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a tunnel BF Runtime must not answer past it."""
    tunnel = {"host": "127.0.0.1", "identity": "/nonexistent"}
    problems = examined(switch, monkeypatch, {}, switch_data(switch, tunnel=tunnel))
    assert "answers on 127.0.0.1:" in problems["switch: protection"]
    assert "--server-listen-local-only" in problems["switch: protection"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"$PORT_ENABLE": False}, "it is turned off"),
        ({"$FEC": "BF_FEC_TYP_NONE"}, "FEC is none, and NICs have RS at 100G over copper"),
        (
            {"$FEC": "BF_FEC_TYP_NONE", "$SPEED": "BF_SPEED_400G", "$MEDIA_TYPE": OPTICAL},
            "no link of 400G works without",
        ),
        ({"$MEDIA_TYPE": COPPER, "$AUTO_NEGOTIATION": "PM_AN_FORCE_DISABLE"}, "NICs negotiate over copper"),
        ({"$MEDIA_TYPE": OPTICAL, "$AUTO_NEGOTIATION": "PM_AN_FORCE_ENABLE"}, "optics do not negotiate"),
        ({"$AUTO_NEGOTIATION": "PM_AN_DEFAULT"}, "the driver does not know the cable"),
        # 100GBASE-LR4 has no FEC, and a port set as its NIC has nothing that stands out.
        ({"$FEC": "BF_FEC_TYP_NONE", "$MEDIA_TYPE": OPTICAL}, None),
        ({"$MEDIA_TYPE": COPPER, "$AUTO_NEGOTIATION": "PM_AN_FORCE_ENABLE"}, None),
    ],
)
def test_a_link_that_is_down_has_a_likeliest_cause(settings: dict[str, object], said: str | None) -> None:
    port = {"$SPEED": "BF_SPEED_100G", "$FEC": "BF_FEC_TYP_RS", "$PORT_ENABLE": True,
            "$AUTO_NEGOTIATION": "PM_AN_FORCE_DISABLE", **settings}  # fmt: skip
    cause = likeliest_cause(port)
    assert cause is None if said is None else cause is not None and said in cause
