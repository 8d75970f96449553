# SPDX-License-Identifier: Apache-2.0
"""Links of one experiment with different P4 programs: each is a device of the switch, with ports of its own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from narrows.errors import InputError
from narrows.experiment.loader import load
from narrows.experiment.plan import Plan
from narrows.experiment.planning import make_plan
from narrows.run.runner import planned
from narrows.switch.p4runtime_entries import plan_entries
from narrows.targets.soft.observed import observe_request
from narrows.targets.soft.settings import queue_requests
from narrows.targets.soft.target import PROFILE, SoftTarget

EXAMPLE = Path(__file__).parents[2] / "experiments" / "own-program"
LINKS = """
name: links
links:
  left:
    rate: 20Mbit
    rtt: 20ms
    buffer: 8BDP
    program:
      json: compiled/interval_aqm.json
      p4info: compiled/interval_aqm.p4info.txtpb
      entries: entries.json
      ports:
        one: {port: 1, ip: 10.0.1.1, mac: "08:00:00:00:01:11"}
        two: {port: 2, ip: 10.0.2.2, mac: "08:00:00:00:02:22"}
        receiver: {port: 3, ip: 10.0.3.3, mac: "08:00:00:00:03:33"}
  right:
    rate: 5Mbit
    rtt: 20ms
    buffer: 60 packets
    program:
      json: compiled/learning.json
      p4info: compiled/learning.p4info.txtpb
      controller: [python3, learning_controller.py, "4", "5"]
      ports: {three: 4, other: 5}
  plain: {rate: 5Mbit, rtt: 20ms, buffer: 60 packets, loss: 0.01}
flows:
  - {cca: cubic, from: one, to: receiver, path: [left], duration: 2s}
  - {cca: bbr, from: two, to: receiver, path: [left], duration: 2s}
  - {cca: cubic, from: three, to: other, path: [right], duration: 2s}
  - {cca: cubic, path: [plain], duration: 2s}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The experiment next to the examples' programs, to be changed."""
    path = Path(shutil.copytree(EXAMPLE, tmp_path / "example")) / "links.yaml"
    path.write_text(LINKS)
    return path


def change(file: Path, *edits: tuple[str, str]) -> None:
    text = file.read_text()
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    file.write_text(text)


def plan_of(file: Path) -> Plan:
    return make_plan(load(file))


def refusal(file: Path) -> str:
    with pytest.raises(InputError) as refused:
        plan_of(file)
    return str(refused.value)


def ports_of_hosts(plan: Plan) -> dict[str, int]:
    return {host.name: host.port for host in plan.end_hosts}


def test_each_program_is_a_device_with_the_ports_of_its_hosts(file: Path) -> None:
    assert planned(load(file), SoftTarget(), file.name)[1] == []
    plan = plan_of(file)
    # Narrows' own program is the first device, which has all other ports.
    assert [(program.device_id, program.links, plan.ports_of(program)) for program in plan.programs] == [
        (2, ("left",), {1: "one", 2: "two", 3: "receiver"}),
        (3, ("right",), {4: "three", 5: "other"}),
    ]
    target = SoftTarget()
    target._take(plan)
    words = [device.arguments(first=device.device_id == 1) for device in target._devices]
    assert words == [
        ["--device-id", "1"],
        ["--device", "2@1,2,3"],
        # The controller's port is the program's, too.
        ["--device", "3@4,5,255", "--cpu-port", "255"],
    ]
    assert [device.role for device in target._devices] == ["", "", "narrows"]
    environments = [target.controller_environment(program)["P4RUNTIME_DEVICE_ID"] for program in plan.programs]
    assert environments == ["2", "3"]


def test_without_plain_links_the_first_program_is_the_first_device(file: Path) -> None:
    change(file, (LINKS[LINKS.index("  plain:") : LINKS.index("flows:")], ""), (LINKS.splitlines()[-1] + "\n", ""))
    plan = plan_of(file)
    assert ([program.device_id for program in plan.programs], plan.ours) == ([1, 2], None)


def test_our_program_has_entries_of_its_own_links_only(file: Path) -> None:
    plan = plan_of(file)
    assert plan.ours is not None
    at = ports_of_hosts(plan)
    entries = list(plan_entries(plan.ours, PROFILE))
    crossing = {entry.key["ingress_port"] for entry in entries if entry.table == "cross_connect"}
    assert crossing == {port for name, port in at.items() if name in ("sender3", "receiver-plain")}
    assert {entry.key["bottleneck"] for entry in entries if "bottleneck" in entry.key} == {2}
    # What our program does is allowed where it is the link.
    assert [entry.key["bottleneck"] for entry in entries if entry.table == "loss"] == [2]


def test_the_traffic_manager_reports_users_programs_only(file: Path) -> None:
    plan = plan_of(file)
    found = [(port.port, port.bottleneck, list(port.ingress_ports)) for port in observe_request(plan).ports]
    assert found == [(3, 0, [1, 2]), (5, 1, [4])]
    managed = {request.port: request.management.enabled for request in queue_requests(plan, 1)}
    assert managed == {3: True, 5: True, ports_of_hosts(plan)["receiver-plain"]: False}


def test_cells_have_a_link_where_there_are_several_programs(file: Path) -> None:
    change(file, ("entries: entries.json", 'entries: entries.json\n      watch: ["next_signals[3]"]'))
    assert plan_of(file).watched_cells == ("left: next_signals[3]",)


@pytest.mark.parametrize(
    ("edits", "says"),
    [
        (
            [("path: [left], duration: 2s}\n  - {cca: bbr", "path: [left, right], duration: 2s}\n  - {cca: bbr")],
            "flows.1: 'receiver' would be at a port of links.left.program and of links.right.program; allowed: hosts "
            "of its own (from, to) for each program",
        ),
        (
            [("path: [plain]", "path: [plain], from: three")],
            "flows.3: 'three' would be at a port of Narrows' own program and of links.right.program; allowed: hosts of "
            "its own (from, to) for each program",
        ),
        ([("three: 4", "three: 3")], "links.right.program.ports.three.port: 3 is that of another program"),
        (
            [("{three: 4, other: 5}", '{three: {port: 4, mac: "08:00:00:00:01:11"}, other: 5}')],
            "links.right.program.ports.three.mac: 08:00:00:00:01:11 is that of another program",
        ),
        ([("{three: 4, other: 5}", "{one: 4, other: 5}")], "links.right.program.ports: the program has no host 'one'"),
        ([("{three: 4, other: 5}", "{sender3: 4}")], "links.right.program.ports: the program has no host 'sender3'"),
        (
            [("entries: entries.json", "entries: entries.json\n      controller: [python3, learning_controller.py]")],
            "links.right.program.cpu_port: 255 is that of another program's controller",
        ),
        (
            [
                ("entries: entries.json", "entries: entries.json\n      watch: [scalars.target_0]"),
                ("      ports: {three", "      watch: [standard_metadata.egress_port]\n      ports: {three"),
            ],
            "links.right.program.watch: has other fields of metadata than links.left.program, and the reports of a run "
            "have one set of columns; allowed: none, or scalars.target_0",
        ),
    ],
)
def test_what_programs_cannot_share_is_refused(file: Path, edits: list[tuple[str, str]], says: str) -> None:
    change(file, *edits)
    assert says in refusal(file)


def test_an_entry_to_a_port_of_another_program_is_refused(file: Path) -> None:
    entries = file.parent / "entries.json"
    entries.write_text(entries.read_text().replace('"port": 1', '"port": 5', 1))
    (problem,) = planned(load(file), SoftTarget(), file.name)[1]
    assert "port 5: no host is at it; allowed: 1 (one), 2 (two), 3 (receiver)" in problem


PATH = """
name: path
links:
  first:
    rate: 20Mbit
    rtt: 10ms
    buffer: 8BDP
    program:
      json: compiled/interval_aqm.json
      p4info: compiled/interval_aqm.p4info.txtpb
      entries: entries.json
      ports: {one: 1, two: 2, second: 3}
  second: {rate: 10Mbit, rtt: 10ms, buffer: 1BDP}
  third:
    rate: 5Mbit
    rtt: 10ms
    buffer: 1BDP
    program:
      json: compiled/learning.json
      p4info: compiled/learning.p4info.txtpb
      ports: {second: 7, receiver: 8}
flows:
  - {cca: cubic, from: one, to: receiver, path: [first, second, third], duration: 2s}
  - {cca: cubic, from: two, to: receiver, path: [first, second, third], duration: 2s}
"""


@pytest.fixture
def path(file: Path) -> Path:
    """A path across three programs."""
    file.write_text(PATH)
    return file


def test_a_cable_leads_from_one_program_to_the_next(path: Path) -> None:
    plan = plan_of(path)
    links = {link.name: link for link in plan.links}
    # Ports of our own program follow those of hosts: the collector is at 4.
    at = ports_of_hosts(plan)
    assert at == {"one": 1, "two": 2, "receiver": 8}
    near, far = links["second"].port, links["first"].cable
    assert far is not None
    assert plan.cables == ((3, far.port), (near, 7))
    assert (links["third"].port, links["third"].cable, plan.loopbacks) == (8, None, ())
    assert len({near, far.port, plan.collector.port, 3, 7, *at.values()}) == 8
    assert [plan.ports_of(program) for program in plan.programs] == [
        {1: "one", 2: "two", 3: "second"},
        {7: "second", 8: "receiver"},
    ]
    # Our program is in between, and has no hosts: it knows all of them by their addresses.
    assert plan.ours is not None
    macs = {host.name: host.mac for host in plan.end_hosts}
    rules = {(rule.ingress_port, rule.dst_mac): (rule.egress_port, rule.link) for rule in plan.ours.paths}
    assert rules == {
        (far.port, macs["receiver"]): (near, links["second"].index),
        (near, macs["one"]): (far.port, None),
        (near, macs["two"]): (far.port, None),
    }
    # What the last program drops on arrival was for its link, whatever sender it is of.
    found = [(port.port, port.bottleneck, list(port.ingress_ports)) for port in observe_request(plan).ports]
    assert found == [(3, 0, [1, 2]), (8, 2, [7])]


def test_addresses_are_of_all_hosts_of_a_path(path: Path) -> None:
    change(path, ("{one: 1, two: 2,", "{one: {port: 1, ip: 10.0.1.1}, two: {port: 2, ip: 10.0.2.2},"))
    assert refusal(path) == "links.first.program.ports: has no ip of 'receiver', and others have one; allowed: all"
    change(path, ("receiver: 8", "receiver: {port: 8, ip: 10.0.3.3}"))
    hosts = {host.name: (host.address, host.prefix) for host in plan_of(path).end_hosts}
    assert hosts == {"one": ("10.0.1.1", 21), "two": ("10.0.2.2", 21), "receiver": ("10.0.3.3", 21)}


@pytest.mark.parametrize(
    ("edits", "says"),
    [
        (
            [("second: 3}", "second: {port: 3, ip: 10.0.9.9}}")],
            "links.first.program.ports.second: is where a cable leads to that link; allowed: a port only",
        ),
        (
            [("second: 3}", "third: 3}")],
            "links.first.program.ports: the program has no host 'third'; allowed: one, two, second",
        ),
        (
            [("two, to: receiver, path: [first, second, third]", "two, path: [first, second]")],
            "links.second: leads to 'third' of another program, and elsewhere; allowed: all of its flows across that",
        ),
        (
            [("rtt: 10ms, buffer: 1BDP}", "rtt: 10ms, buffer: 1BDP, reverse: {rate: 10Mbit, buffer: 1BDP}}")],
            "flows.0.path: crosses links of several programs, and 'second.reverse', by which packets come back from "
            "one to the other; allowed: no reverse on such a path",
        ),
    ],
)
def test_what_a_path_between_programs_cannot_be_is_refused(path: Path, edits: list[tuple[str, str]], says: str) -> None:
    change(path, *edits)
    assert says in refusal(path)
