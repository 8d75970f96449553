# SPDX-License-Identifier: Apache-2.0
"""A lab whose bottleneck is a Linux machine, as it is written down: what is refused, what becomes of a plan, doctor."""

from __future__ import annotations

import struct
import zlib
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest
import yaml
from narrows.cli import app
from narrows.errors import InputError, RunError
from narrows.experiment.model import Experiment
from narrows.experiment.plan import Flow, Plan
from narrows.experiment.planning import make_plan
from narrows.hosts.lab import examination
from narrows.hosts.lab.inventory import Nic
from narrows.hosts.lab.machines import machines_of
from narrows.paths import data
from narrows.targets.soft.binding import bind
from narrows.targets.soft.inventory import REPORTS_IN, REPORTS_OUT, Inventory
from narrows.targets.soft.lab import LabSoftTarget
from narrows.targets.soft.lab_doctor import examine
from pydantic import ValidationError
from typer.testing import CliRunner

EXAMPLE = data("deploy") / "soft-inventory.example.yaml"
DEMO = Path(__file__).parents[2] / "experiments" / "demo.yaml"
LINK: dict[str, Any] = {"rate": "100Mbit", "buffer": "1MB", "rtt": "10ms"}
BULK: dict[str, Any] = {"cca": "reno", "duration": "2s"}


def machine(name: str, port: str, number: int) -> dict[str, Any]:
    return {
        "name": name,
        "ssh": {"host": f"{name}.example"},
        "port": port,
        "interface": "eth1",
        "mac": f"02:00:00:00:00:{number:02x}",
        "address": f"10.0.0.{number}/24",
    }


CAROL = machine("carol", "right", 3)


def lab_data(**changes: Any) -> dict[str, Any]:
    """Two senders behind one NIC, a receiver behind another."""
    nics = [
        {"name": "left", "interface": "nic1", "speed": "1G"},
        {"name": "right", "interface": "nic2", "speed": "2.5G"},
    ]
    return {
        "switch": {"ssh": {"host": "box.example"}, "ports": nics},
        "senders": [machine("alice", "left", 1), machine("bob", "left", 2)],
        "receiver": machine("carol", "right", 3),
        **changes,
    }


def lab(**changes: Any) -> Inventory:
    return Inventory.model_validate(lab_data(**changes))


def plan_of(flows: list[dict[str, Any]] | None = None, **bottleneck: Any) -> Plan:
    link = {"rate": "100Mbit", "buffer": "1bdp", "rtt": "10ms", **bottleneck}
    flows = flows or [{"cca": "reno", "duration": "1s"}, {"cca": "cubic", "duration": "1s"}]
    return make_plan(Experiment.model_validate({"name": "lab", "bottleneck": link, "flows": flows}))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"delay": {"at": "receiver"}}, "the softswitch itself makes base RTTs; allowed: an inventory without delay"),
        ({"receiver": machine("carol", "middle", 3)}, "carol is on the unknown port 'middle'; allowed: left, right"),
        ({"collector": machine("dave", "right", 4)}, "carol shares the collector's port 'right'"),
        ({"switch": {"ports": [{"name": "left", "interface": "nic1", "speed": "3G"}]}}, "Input should be '1G'"),
        ({"switch": {**lab_data()["switch"], "cores": "3-2"}}, "'3-2' is not a list of processors"),
        ({"switch": {"ports": [{"name": "left", "interface": "nic1", "speed": "1G"}] * 2}}, "have the name 'left'"),
        ({"receiver": {**CAROL, "address": "10.0.0.1/24"}}, "two machines have the address '10.0.0.1'; allowed: one"),
        (
            {"receiver": {**CAROL, "address": "10.0.0.3"}},
            "carol's address 10.0.0.3/32 is not of the network of alice's",
        ),
        ({"receiver": {**CAROL, "address": "10.0.1.3/24"}}, "10.0.0.1/24; allowed: addresses of one network, each"),
    ],
)
def test_what_is_no_lab_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError) as caught:
        lab(**changes)
    assert words in str(caught.value)


def test_processors_are_written_as_the_kernel_writes_them() -> None:
    """What is asked is compared with what /proc says."""
    assert lab(switch={**lab_data()["switch"], "cores": "5,2, 3,9"}).switch.cores == "2-3,5,9"


def test_machines_of_a_plan_are_at_the_ports_of_their_nics() -> None:
    inventory = lab()
    bound = bind(plan_of(), inventory)
    assert {host.name: host.port for host in bound.hosts} == {"receiver": 2, "sender0": 1, "sender1": 1, "collector": 3}
    assert inventory.interfaces(bound) == {1: "nic1", 2: "nic2", 3: REPORTS_OUT}
    assert (bound.bottleneck.port, bound.flows[0].src, bound.flows[1].src) == (2, "10.0.0.1", "10.0.0.2")
    # Reports end at the other end of a cable within the switch's machine.
    assert inventory.collecting.interface == REPORTS_IN and inventory.collecting.ssh == inventory.switch.ssh
    # A NIC that no host of the experiment is behind stays as it is.
    alone = lab(receivers=[machine("carol", "right", 3)], receiver=None)
    assert [nic.interface for nic in alone.switch_nics(bind(plan_of(), alone)).values()] == ["nic1", "nic2"]


def test_a_host_with_the_name_of_a_machine_is_that_machine() -> None:
    """All others are the next of the inventory, whatever the order of the groups is."""
    inventory = lab(
        receiver=None,
        receivers=[CAROL, machine("dan", "third", 4)],
        switch={"ports": [{"name": n, "interface": n, "speed": "1G"} for n in ("left", "right", "third")]},
    )
    flows = [{**BULK, "cca": "cubic", "from": "bob", "to": "dan"}, {**BULK, "to": "dan"}]
    bound = bind(plan_of(flows, rate="100Mbit"), inventory)
    assert [(flow.src, flow.dst) for flow in bound.flows] == [("10.0.0.2", "10.0.0.4"), ("10.0.0.1", "10.0.0.4")]
    assert bound.bottleneck.port == inventory.numbers["third"]
    nics = {name: nic.name for name, nic in machines_of(bound, inventory).items() if not name.startswith("switch")}
    assert nics == {"bob": "bob", "sender1": "alice", "dan": "dan", "collector": "collector-at-the-switch"}


def test_ports_keep_flows_apart_on_the_machines_addresses() -> None:
    """CRC-32 of what docs/report-format.md says, of link 0, its 16 low bits."""

    def index(flow: Flow, port: int) -> int:
        ends = b"".join(bytes(12) + IPv4Address(end).packed for end in (flow.src, flow.dst))
        return zlib.crc32(b"\0" + ends + struct.pack("!BHH", 6, port, flow.dst_port)) & 0xFFFF

    planned = plan_of(
        [{"cca": "reno", "duration": "1s", "count": 2000}, {"cca": "bbr", "duration": "1s", "count": 2000}]
    )
    bound = bind(planned, lab())
    assert len({index(flow, flow.port_of(0)) for flow in bound.flows}) == 4000
    assert len({index(flow, flow.src_port) for flow in bound.flows}) < 4000
    # On other addresses other flows would have met.
    moved, before = ([flow.port_overrides for flow in plan.flows] for plan in (bound, planned))
    assert moved != before and any(before)


def test_a_link_that_leads_on_has_a_port_of_the_switch_s_own() -> None:
    """Two links in a row: the first one's queue is at a port without a NIC, whose frames come in again."""
    link = {"rate": "100Mbit", "buffer": "1bdp", "rtt": "10ms"}
    path = {"cca": "reno", "duration": "1s", "path": ["first", "second"]}
    experiment = {"name": "two", "links": {"first": link, "second": link}, "flows": [path]}
    inventory = lab()
    bound = bind(make_plan(Experiment.model_validate(experiment)), inventory)
    first, second = bound.links
    assert second.port == inventory.numbers["right"]
    assert (first.loopback, first.port) == (True, 4) and bound.loopbacks == (4,)
    assert inventory.interfaces(bound) == {1: "nic1", 2: "nic2", 3: REPORTS_OUT}
    assert {(one.ingress_port, one.egress_port) for one in bound.paths} >= {(1, 4), (4, 2), (2, 1)}


def test_hosts_that_share_a_nic_have_the_same_rtt() -> None:
    """The switch holds what leaves by a port, whoever it is for."""
    flows = [{"cca": "reno", "duration": "1s"}, {"cca": "reno", "duration": "1s", "rtt": "20ms"}]
    with pytest.raises(InputError, match="sender0 and sender1 share port left of the switch"):
        bind(plan_of(flows), lab())


def test_a_rate_that_a_nic_does_not_carry_is_refused() -> None:
    """2.5 Gbit/s with 24 B of preamble, FCS and gap around 1514 B: 2,460,988,296 bit/s."""
    inventory = lab()
    target = LabSoftTarget(1, inventory)
    assert target.unsupported(bind(plan_of(rate="2.46Gbit", buffer="1MB"), inventory)) == []
    (refused,) = target.unsupported(bind(plan_of(rate="2.461Gbit", buffer="1MB"), inventory))
    assert refused == (
        "bottleneck.rate: is more than port right carries (2.5G, with preamble, FCS and gap); allowed: up to "
        "2460988296 bit/s"
    )


GOOD = {
    "kernel": "6.8.0", "ccas": "reno cubic bbr", "interface": "yes", "carrier": "1", "clock": "Normal", "applied": "no",
    "python": "3.10", "netem": "no", "queues": "8", "used": "", "isolated": "2-3", "cpus": "8",
    **{f"tool.{tool}": "yes" for tool in examination.TOOLS},
    **{f"offload.{name}": "on" for name in examination.OFFLOADS},
}  # fmt: skip


@pytest.mark.parametrize(
    ("facts", "changes", "subject", "words"),
    [
        ({}, {}, "", ""),
        ({"used": "has the address 192.0.2.1/24"}, {}, "switch (right): use", "fix: a NIC that nothing else uses"),
        ({"speed": "100"}, {}, "switch (left): speed", "the NIC runs at 100 Mbit/s, the inventory at 1000; fix:"),
        ({"applied": "yes"}, {}, "switch (left): earlier run", "a killed run left its settings; fix:"),
        ({"carrier": "0"}, {}, "switch (left): link", "no carrier on nic1; fix:"),
        ({"interface": "no"}, {}, "switch (right): interface", "no nic2; fix: name the NIC in the inventory"),
    ],
)
def test_doctor_names_what_is_wrong_with_the_switch_s_machine(
    facts: dict[str, str], changes: dict[str, Any], subject: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    inventory = lab(**changes)

    def answer(nic: Nic, arguments: list[str], **_: Any) -> str:
        own = {"mac": getattr(nic, "mac", ""), "speed": str(inventory.speed_bps(nic) // 10**6)}
        found = {**GOOD, **own, **(facts if nic.name.startswith("switch") else {})}
        return "\n".join(f"{name}={value}" for name, value in found.items())

    monkeypatch.setattr(examination, "run", answer)
    found = {one.subject: one.problem for one in examine(inventory) if "program" not in one.subject}
    wrong = {about: problem for about, problem in found.items() if problem}
    if not subject:
        assert wrong == {} and {"alice: clock", "switch (left): link", "switch: processors"} <= set(found)
    else:
        assert words in wrong[subject] and all(about.startswith("switch") for about in wrong)


def test_a_switch_that_cannot_be_reached_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(nic: Nic, arguments: list[str], **_: Any) -> str:
        raise RunError(f"{nic.name}: no ssh")

    monkeypatch.setattr(examination, "run", answer)
    problems = [one.problem for one in examine(lab()) if one.problem]
    assert "switch (left): no ssh" in problems and "alice: no ssh" in problems


def test_the_example_is_a_lab_and_a_plan_of_it_says_all() -> None:
    assert Inventory.load(EXAMPLE).switch.queues == 1
    shown = CliRunner().invoke(app, ["plan", str(DEMO), "--target", "soft", "--inventory", str(EXAMPLE), "--all"])
    assert shown.exit_code == 0, shown.output
    for words in (
        "set switch (one), ens1f0np0: mtu=1500 nic=fast quiet=yes queues=1 interrupts=4-5",
        "configure queue of port three {port: 3 rate_bps: 100000000 limit_bytes: 500000",
        "configure delay of port one {delay_ns: 40000000}",
        "insert cross_connect [ingress_port=1, dst_mac=13480308506627] bottleneck {index=0, port=3, queue=0}",
    ):
        assert words in shown.output.replace("  ", " ")


@pytest.mark.parametrize(
    ("target", "changes", "words"),
    [
        ("tofino", {"events": [{"at": "1s", "link": "bottleneck", "buffer": "500kB"}]}, "events: tofino cannot change"),
        ("tofino", {"hosts": {"sysctls": {"net.ipv4.tcp_sack": 0}}}, "hosts.sysctls: set by Narrows in namespaces"),
        ("soft", {"hosts": {"jitter": "1ms"}}, "hosts.jitter: hosts' NICs are modelled in virtual time only"),
        ("soft", {"hosts": {"date": "2026-01-01"}}, "hosts.date: set in virtual time only"),
        ("soft", {"flows": [{**BULK, "tcp": {"initial_window": 20}}]}, "flows.0.tcp.initial_window: set by Narrows in"),
        ("soft", {"bottleneck": {**LINK, "rate": "20Gbit"}}, "bottleneck.rate: is more than port three carries"),
        ("soft", {"flows": [{"name": "p", "client": ["true"]}]}, "flows: some are made by commands of their hosts"),
    ],
)
def test_what_a_run_refuses_has_no_plan(target: str, changes: dict[str, Any], words: str, tmp_path: Path) -> None:
    """Without the setting the plan looks the same: it would be one of another experiment."""
    file = tmp_path / "e.yaml"
    experiment = {"name": "lab", "bottleneck": LINK, "flows": [BULK]}
    file.write_text(yaml.safe_dump(experiment))
    assert CliRunner().invoke(app, ["plan", str(file), "--target", target]).exit_code == 0
    file.write_text(yaml.safe_dump({**experiment, **changes}))
    refused = CliRunner().invoke(app, ["plan", str(file), "--target", target])
    assert isinstance(refused.exception, InputError) and f"{file}: {words}" in str(refused.exception)


def test_what_is_no_inventory_names_file_and_field(tmp_path: Path) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text("switch: {ports: []}\nsenders: []\nreceiver: 1\n")
    with pytest.raises(InputError) as caught:
        Inventory.load(file)
    assert f"{file}: switch.ports: is empty; allowed: a list with at least one entry" in str(caught.value)
