# SPDX-License-Identifier: Apache-2.0
"""A P4 program of a user's on BMv2: what it cannot do is refused by name before anything is made."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import pytest
from narrows.experiment.loader import load
from narrows.run.runner import planned
from narrows.switch import own_program
from narrows.targets.base import Target, TargetOptions
from narrows.targets.bmv2 import simple_switch
from narrows.targets.bmv2.own_program import Bmv2OwnProgram
from narrows.targets.bmv2.target import Bmv2Target

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "experiments" / "own-program"


@pytest.fixture
def example(tmp_path: Path) -> Path:
    return Path(shutil.copytree(EXAMPLE, tmp_path / "example"))


def target_of(file: Path, virtual: bool = False) -> Target:
    return Bmv2Target.factory(TargetOptions(file.parent, virtual=virtual))(load(file))


def refused(file: Path, virtual: bool = False) -> list[str]:
    """What is wrong with an experiment on BMv2, without the directory that it is in."""
    problems = planned(load(file), target_of(file, virtual), file.name)[1]
    return [one.removeprefix(f"{file.name}: ").replace(f"{file.parent}/", "") for one in problems]


@pytest.mark.parametrize("name", ["cubic-and-bbr", "learning", "link-monitor", "queue-inspection"])
def test_examples_that_give_no_priorities_can_be_run(name: str) -> None:
    assert refused(EXAMPLE / f"{name}.yaml", virtual=True) == []


def test_a_program_that_gives_priorities_is_refused(example: Path) -> None:
    file = example / "heavy-hitter.yaml"
    file.write_text(file.read_text().replace("  queue: head-drop\n", ""))
    assert refused(file, virtual=True) == [
        "bottleneck.program.json: compiled/heavy_hitter.json: gives packets a priority, and BMv2's queues of a port "
        "each have a rate and a buffer of their own; allowed: a program that does not, or --target soft"
    ]


@pytest.mark.parametrize(
    "other", [", program: {json: compiled/learning.json, p4info: compiled/learning.p4info.txtpb}", ""]
)
def test_links_of_other_programs_are_refused(example: Path, other: str) -> None:
    file = example / "two.yaml"
    own = "{json: compiled/interval_aqm.json, p4info: compiled/interval_aqm.p4info.txtpb, entries: entries.json}"
    file.write_text(
        "name: two\nlinks:\n"
        f"  a: {{rate: 5Mbit, rtt: 20ms, buffer: 60 packets, program: {own}}}\n"
        f"  b: {{rate: 5Mbit, rtt: 20ms, buffer: 60 packets{other}}}\n"
        "flows:\n  - {cca: cubic, duration: 1s, path: [a]}\n  - {cca: cubic, duration: 1s, path: [b]}\n"
    )
    assert refused(file, virtual=True)[0] == (
        "links.a.program: BMv2 is one device, which runs one program for all links; allowed: the same program for each "
        "link, or --target soft"
    )


def test_a_clone_session_that_truncates_is_refused(example: Path) -> None:
    entries = example / "entries.json"
    session = '{"clone_session_id": 5, "packet_length_bytes": 64, "replicas": [{"egress_port": 1}]}'
    lists = f'"clone_session_entries": [{session}], "table_entries"'
    entries.write_text(entries.read_text().replace('"table_entries"', lists, 1))
    (problem,) = refused(example / "cubic-and-bbr.yaml")
    assert problem.endswith(
        "clone session 5 has a packet_length_bytes, which BMv2 refuses; allowed: truncate() in the program, or "
        "--target soft"
    )


def test_links_together_are_not_too_fast(example: Path) -> None:
    """Each may have 10,000 frames/s of 1514 B, 121.12 Mbit/s; both together as well, in real time."""
    file = example / "links.yaml"
    program = (
        "program: &program {json: compiled/interval_aqm.json, p4info: compiled/interval_aqm.p4info.txtpb, ports: "
        "{a: 1, b: 2, c: 3, d: 4}}"
    )
    link = "rtt: 20ms, buffer: 20 packets"
    file.write_text(
        "name: links\n"
        "links:\n"
        f"  left: {{rate: 60.56Mbit, {link}, {program}}}\n"
        f"  right: {{rate: 60.572112Mbit, {link}, program: *program}}\n"
        "flows:\n"
        "  - {cca: cubic, from: a, to: c, path: [left], duration: 2s}\n"
        "  - {cca: cubic, from: b, to: d, path: [right], duration: 2s}\n"
    )
    assert refused(file) == [
        "links: 10001 frames/s together, at which BMv2 may lose some outside queues; allowed: up to 10000"
    ]
    assert refused(file, virtual=True) == []
    file.write_text(file.read_text().replace("60.572112", "60.56"))
    assert refused(file) == []


def test_p4info_of_another_program_is_refused_as_for_the_softswitch(example: Path) -> None:
    shutil.copy(example / "compiled" / "learning.p4info.txtpb", example / "compiled" / "interval_aqm.p4info.txtpb")
    (problem,) = refused(example / "cubic-and-bbr.yaml")
    assert "interval_aqm.p4info.txtpb: does not belong to compiled/interval_aqm.json" in problem


def test_what_the_softswitch_cannot_load_is_not_refused_for_bmv2(example: Path) -> None:
    """BMv2 says itself what it does not know."""
    program = example / "compiled" / "interval_aqm.json"
    text = program.read_text()
    assert '"op":"mark_to_drop"' in text
    program.write_text(text.replace('"op":"mark_to_drop"', '"op":"an_extern_of_its_own"'))
    assert refused(example / "cubic-and-bbr.yaml") == []


def test_assigned_fields_are_those_that_actions_write() -> None:
    plan = planned(load(EXAMPLE / "heavy-hitter.yaml"), Bmv2OwnProgram(virtual=True), "")[0]
    (program,) = plan.programs
    fields = own_program.assigned_fields(program)
    assert {"standard_metadata.priority", "standard_metadata.egress_spec"} <= fields
    assert "standard_metadata.ingress_port" not in fields


def test_it_goes_into_a_guest_as_it_was_made() -> None:
    file = EXAMPLE / "cubic-and-bbr.yaml"
    target = pickle.loads(pickle.dumps(target_of(file, virtual=True)))
    assert isinstance(target, Bmv2OwnProgram) and not target.profile.queue_reported
    plan = planned(load(file), target, "")[0]
    inside = target.prepare_for_guest(plan)
    assert inside.in_guest and inside.ports == plan.ports


def test_a_controller_has_a_port_of_bmv2s(tmp_path: Path) -> None:
    command = simple_switch.command({1: "a"}, tmp_path, cpu_port=255)
    assert command[command.index("--cpu-port") + 1] == "255"
    assert "--cpu-port" not in simple_switch.command({1: "a"}, tmp_path)
    (program,) = planned(load(EXAMPLE / "heavy-hitter.yaml"), Bmv2OwnProgram(virtual=True), "")[0].programs
    environment = Bmv2OwnProgram().controller_environment(program)
    # A controller takes the place of Narrows, whose election id is 1.
    assert environment["P4RUNTIME_ELECTION_ID"] == "2"
