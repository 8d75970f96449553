# SPDX-License-Identifier: Apache-2.0
"""Entries of a user's program that cannot be made: refused with file and line, before anything is made.

The program has a table of each kind of match.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from narrows.errors import InputError
from narrows.experiment.loader import load
from narrows.experiment.planning import make_plan
from narrows.run.runner import planned
from narrows.switch import own_program
from narrows.switch.entry_values import BadEntry, number
from narrows.switch.own_entries import read_p4info
from narrows.targets.soft.target import SoftTarget

PROGRAM = Path(__file__).parents[1] / "softswitch" / "p4" / "compiled" / "conformance"
EXPERIMENT = f"""
name: entries
bottleneck:
  rate: 20Mbit
  rtt: 20ms
  buffer: 60 packets
  program: {{json: {PROGRAM}.json, p4info: {PROGRAM}.p4info.txtpb, entries: ENTRIES, ports: {{a: 1, b: 2}}}}
flows:
  - {{cca: cubic, from: a, to: b, duration: 1s}}
"""
ANSWER = {"action_name": "answer", "action_params": {"port": 2, "tag": 7}}
EXACT = {"table": "exact_table", "match": {"key": 5}, **ANSWER}
TERNARY = {"table": "ternary_table", "match": {"key": [5, 255]}, "priority": 1, **ANSWER}


def refused(directory: Path, name: str, text: str) -> list[str]:
    """What is wrong with entries of this text, with paths from their directory on."""
    file = directory / "entries.yaml"
    file.write_text(EXPERIMENT.replace("ENTRIES", name))
    (directory / name).write_text(text)
    try:
        problems = planned(load(file), SoftTarget(), file.name)[1]
    except InputError as error:
        problems = str(error).splitlines()
    return [problem.replace(f"{directory}/", "").removeprefix("entries.yaml: ") for problem in problems]


def in_json(directory: Path, *entries: dict[str, Any], **others: Any) -> list[str]:
    """The same of entries of tables, in the form of the tutorials: each in a line, the first one in the second."""
    lists = {"table_entries": list(entries)} | others
    lines = [f'"{key}": [\n' + ",\n".join(map(json.dumps, those)) + "]" for key, those in lists.items()]
    return refused(directory, "own.json", "{" + ",".join(lines) + "}")


def test_entries_of_the_form_of_the_tutorials_can_be_right(tmp_path: Path) -> None:
    assert in_json(tmp_path, EXACT, TERNARY) == []


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        (EXACT | {"table": [1]}, "table_entries: table '[1]' is not in P4Info; allowed: ProbeIngress.constant_table, "),
        (EXACT | {"action_name": {}}, "table_entries: action '{}' is not in P4Info; allowed: ProbeIngress.answer, "),
        # An int32 of P4Runtime.
        (
            TERNARY | {"priority": 1 << 31},
            "table_entries: ProbeIngress.ternary_table: priority 2147483648; allowed: 1 to 2147483647",
        ),
    ],
)
def test_values_of_other_types_have_their_line(tmp_path: Path, entry: dict[str, Any], says: str) -> None:
    (problem,) = in_json(tmp_path, EXACT, entry)
    assert problem.startswith(f"bottleneck.program.entries: own.json:3: {says}")


@pytest.mark.parametrize(
    ("given", "bits", "value"),
    [
        (5, 9, 5),
        ("0x1f", 9, 31),
        (True, 1, 1),
        ("10.0.1.1", 32, 10 << 24 | 1 << 8 | 1),
        ("::1", 128, 1),
        ("08:00:00:00:01:11", 48, 0x080000000111),
    ],
)
def test_numbers_and_addresses(given: object, bits: int, value: int) -> None:
    assert number(given, bits, "x") == value


@pytest.mark.parametrize(
    ("given", "bits", "says"),
    [
        # Each is another address in such a field.
        ("10.0.1.1", 48, "'x' is '10.0.1.1', which has 32 bits; allowed: what has 48"),
        ("::1", 48, "'x' is '::1', which has 128 bits; allowed: what has 48"),
        ("00:00:00:00:00:01", 32, "'x' is '00:00:00:00:00:01', which has 48 bits; allowed: what has 32"),
        ("08:00:00:00:01:11", 32, "'x' is '08:00:00:00:01:11', which does not fit into 32 bits"),
        (True, 9, "'x' is True, which has 1 bit; allowed: what has 9"),
        (1.0, 9, "'x' is 1.0; allowed: a number, an IP address or an Ethernet address"),
        (-1, 9, "'x' is -1; allowed: a number, an IP address or an Ethernet address"),
        (512, 9, "'x' is 512, which does not fit into 9 bits"),
    ],
)
def test_what_is_not_of_the_field_s_bits_is_refused(given: object, bits: int, says: str) -> None:
    with pytest.raises(BadEntry) as refused:
        number(given, bits, "x")
    assert str(refused.value) == says


DEFAULT = {"table": "exact_table", "default_action": True, "action_name": "unmatched", "action_params": {"tag": 1}}
CONSTANT = {"table": "constant_table", "match": {"key": 5}, **ANSWER}
REPLICA = {"egress_port": 1, "instance": 1}


def session(number: int, *replicas: dict[str, int]) -> dict[str, Any]:
    return {"clone_session_id": number, "replicas": list(replicas or (REPLICA,))}


def group(number: int, *replicas: dict[str, int]) -> dict[str, Any]:
    return {"multicast_group_id": number, "replicas": list(replicas or (REPLICA,))}


@pytest.mark.parametrize(
    ("entries", "line", "says"),
    [
        ([EXACT, TERNARY, EXACT], 4, "ProbeIngress.exact_table: this entry is already there"),
        # Its size is 4.
        ([EXACT | {"match": {"key": key}} for key in range(5)], 6, "ProbeIngress.exact_table holds at most 4 entries"),
        ([DEFAULT | {"table": "mixed_table"}], 2, "ProbeIngress.mixed_table has a constant default action"),
        ([EXACT, CONSTANT], 3, "ProbeIngress.constant_table has constant entries"),
        (
            [EXACT | {"action_name": "unmatched", "action_params": {"tag": 1}}],
            2,
            "table ProbeIngress.exact_table: action ProbeIngress.unmatched is for the default only",
        ),
    ],
    ids=["twice", "full", "constant default", "constant entries", "default only"],
)
def test_what_the_switch_would_refuse_has_its_line(
    tmp_path: Path, entries: list[dict[str, Any]], line: int, says: str
) -> None:
    assert in_json(tmp_path, *entries) == [f"bottleneck.program.entries: own.json:{line}: {says}"]


@pytest.mark.parametrize(
    ("key", "entries", "line", "says"),
    [
        ("clone_session_entries", [session(5), session(0)], 4, "clone session 0: allowed are 1 to 32767"),
        ("clone_session_entries", [session(32767), session(32768)], 4, "clone session 32768: allowed are 1 to 32767"),
        ("clone_session_entries", [session(5), session(5)], 4, "clone session 5 exists"),
        ("multicast_group_entries", [group(0)], 3, "multicast group 0: allowed are 1 to 65535"),
        ("multicast_group_entries", [group(65536)], 3, "multicast group 65536: allowed are 1 to 65535"),
        ("multicast_group_entries", [group(1, REPLICA, REPLICA)], 3, "two replicas have the same port and instance"),
        (
            "multicast_group_entries",
            [group(1, {"egress_port": 9})],
            3,
            "port 9: no host is at it; allowed: 1 (a), 2 (b",
        ),
        (
            "multicast_group_entries",
            [group(1, REPLICA | {"bogus": 9})],
            3,
            "multicast_group_entries: a replica has 'bogus'; allowed: egress_port, instance",
        ),
    ],
)
def test_what_the_switch_would_not_copy_has_its_line(
    tmp_path: Path, key: str, entries: list[dict[str, Any]], line: int, says: str
) -> None:
    (problem,) = in_json(tmp_path, EXACT, **{key: entries})
    assert problem.startswith(f"bottleneck.program.entries: own.json:{line}: {says}")


# By P4Info: its tables and actions.
INFO = read_p4info(Path(f"{PROGRAM}.p4info.txtpb"))
IDS = {table.preamble.alias: table.preamble.id for table in INFO.tables}
IDS |= {action.preamble.alias: action.preamble.id for action in INFO.actions}
MATCH = r'match { field_id: 1 exact { value: "\x05" } }'
CALL = f'action_id: {IDS["answer"]} params {{ param_id: 1 value: "\\x02" }} params {{ param_id: 2 value: "}}" }}'
# The fourth line; what is above has braces that are none of its structure.
BEFORE = """# updates {
updates { type: INSERT entity { packet_replication_engine_entry { clone_session_entry {
  session_id: 5 replicas { egress_port: 1 instance: 1 } } } } }
"""


def in_text(directory: Path, entry: str, kind: str = "INSERT") -> list[str]:
    """What is wrong with an entry of the exact table in P4Runtime's form, in the fourth line."""
    entity = (
        f"table_entry {{ table_id: {IDS['exact_table']} {entry} }}"
        if not entry.startswith(("table", "action_p"))
        else entry
    )
    return refused(directory, "own.txtpb", f"{BEFORE}updates {{\n type: {kind}\n entity {{ {entity} }} }}\n")


def test_entries_of_the_form_of_p4runtime_can_be_right(tmp_path: Path) -> None:
    assert in_text(tmp_path, f"{MATCH} action {{ action {{ {CALL} }} }}") == []


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        (f"{MATCH} action {{ action {{ action_id: 7 }} }}", "table ProbeIngress.exact_table has no action 7"),
        (f"{MATCH} action {{ action {{ {CALL.replace('param_id: 2', 'param_id: 9')} }} }}", "parameter tag is missing"),
        (f"{MATCH} action {{ action {{ {CALL.partition('params')[0]} }} }}", "0 parameters given, it has 2"),
        (f"{MATCH.replace('field_id: 1', 'field_id: 9')} action {{ action {{ {CALL} }} }}", "has no key field 9"),
        (
            f"{MATCH.replace('exact {', 'lpm { prefix_len: 8')} action {{ action {{ {CALL} }} }}",
            "key field key: this field matches Exact",
        ),
        (f"{MATCH.replace('x05', 'x05' + 8 * chr(48))} action {{ action {{ {CALL} }} }}", "the value does not fit in"),
        (f"action {{ action {{ {CALL} }} }}", "key field key: an exact field must be given"),
        (f"{MATCH} priority: 3 action {{ action {{ {CALL} }} }}", "its entries have no priority"),
        (MATCH, "an entry needs an action"),
        (f"{MATCH} action {{ action {{ {CALL.replace('x02', 'x09')} }} }}", "port 9: no host is at it; allowed: 1 (a)"),
        ("action_profile_member { action_profile_id: 7 member_id: 1 }", "there is no action profile 7"),
        ("table_entry { table_id: 7 }", "there is no table 7"),
    ],
)
def test_what_is_wrong_in_the_form_of_p4runtime_has_its_line(tmp_path: Path, entry: str, says: str) -> None:
    (problem,) = in_text(tmp_path, entry)
    assert problem.startswith("bottleneck.program.entries: own.txtpb:4: ") and says in problem


def test_an_update_is_of_what_those_before_it_leave(tmp_path: Path) -> None:
    entry = f"{MATCH} action {{ action {{ {CALL} }} }}"
    (problem,) = in_text(tmp_path, entry, "MODIFY")
    assert problem.startswith(
        "bottleneck.program.entries: own.txtpb:4: no such entry in table ProbeIngress.exact_table"
    )
    (problem,) = in_text(tmp_path, entry, "UNSPECIFIED")
    assert "own.txtpb:4: update.type: allowed are INSERT, MODIFY and DELETE" in problem


@pytest.mark.parametrize(
    ("form", "line"),
    [
        ("updates: [\n{W},\n{W}\n]", 3),
        ("updates <\n{I}\n>\nupdates\n<{I}>", 4),
        ("updates: # {{\n {W} updates: {W}", 2),
    ],
)
def test_every_way_to_write_an_update_has_its_line(tmp_path: Path, form: str, line: int) -> None:
    inner = "type: INSERT entity { packet_replication_engine_entry { clone_session_entry { session_id: 5 } } }"
    text = form.replace("{I}", inner).replace("{W}", f"{{ {inner} }}")
    assert refused(tmp_path, "own.txtpb", text) == [
        f"bottleneck.program.entries: own.txtpb:{line}: clone session 5 exists"
    ]


@pytest.mark.parametrize(
    ("field", "says"),
    [
        ("device_id: 7", "device_id 7; allowed: 1, or none"),
        ("atomicity: ROLLBACK_ON_ERROR", "has atomicity, which is that of Narrows; allowed: updates, device_id"),
        ("election_id { low: 1 }", "has election_id, which is that of Narrows; allowed: updates, device_id"),
    ],
)
def test_what_a_request_says_of_its_client_is_refused(tmp_path: Path, field: str, says: str) -> None:
    assert refused(tmp_path, "own.txtpb", BEFORE + field) == [f"bottleneck.program.entries: own.txtpb:4: {says}"]
    assert refused(tmp_path, "own.txtpb", BEFORE + "device_id: 1") == []


def test_a_number_that_may_be_a_port_is_noted(tmp_path: Path) -> None:
    """Nine bits, and a name that does not say what it is."""
    info = tmp_path / "renamed.p4info.txtpb"
    info.write_text(Path(f"{PROGRAM}.p4info.txtpb").read_text().replace('name: "port"', 'name: "out"'))
    entries = tmp_path / "own.json"
    call = {"action_name": "answer", "action_params": {"out": 77, "tag": 7}}
    lines = [json.dumps(EXACT | {"match": {"key": key}} | call) for key in range(3)]
    entries.write_text('{"table_entries": [\n' + ",\n".join([lines[0].replace("77", "2"), *lines[1:]]) + "]}")
    file = tmp_path / "entries.yaml"
    file.write_text(EXPERIMENT.replace("ENTRIES", "own.json").replace(f"{PROGRAM}.p4info.txtpb", f"{info}"))
    plan = make_plan(load(file))
    assert own_program.problems(plan) == []
    (note,) = SoftTarget().notes(plan)
    assert note == f"{entries}:3: parameter out of ProbeIngress.answer = 77: if that is a port, no host is at it"
