# SPDX-License-Identifier: Apache-2.0
"""A P4 program of a user's: its files are checked before anything is made, and every error names file and line."""

from __future__ import annotations

import json
import re
import shutil
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from finsy.proto import p4r
from google.protobuf import text_format
from narrows.errors import InputError
from narrows.experiment.driving import Driving, driven
from narrows.experiment.loader import load
from narrows.experiment.p4_compiler import COMPILER
from narrows.experiment.plan import Plan
from narrows.experiment.planning import make_plan
from narrows.run import runner
from narrows.run.environment import ThisMachine
from narrows.run.runner import planned
from narrows.switch import own_program
from narrows.targets.soft.observed import observe_request
from narrows.targets.soft.settings import queue_requests
from narrows.targets.soft.target import SoftTarget
from narrows.targets.soft.virtual_time import adapted, settings
from narrows.traffic.registry import missing_commands

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "experiments" / "own-program"
OURS = ROOT / "p4src" / "compiled" / "v1model" / "narrows.json"
P4INFO = "compiled/interval_aqm.p4info.txtpb"
Edit = Callable[[Path], object]


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """The example's directory, to be changed."""
    return Path(shutil.copytree(EXAMPLE, tmp_path / "example"))


def plan_of(directory: Path) -> Plan:
    return make_plan(load(directory / "cubic-and-bbr.yaml"))


def refused(directory: Path) -> list[str]:
    """What is wrong with the example, with paths from its directory on."""
    file = directory / "cubic-and-bbr.yaml"
    try:
        problems = planned(load(file), SoftTarget(), file.name)[1]
    except InputError as error:
        problems = str(error).splitlines()
    return [problem.replace(f"{directory}/", "") for problem in problems]


def change(directory: Path, name: str, old: str, new: str) -> None:
    path = directory / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def in_entries(old: str, new: str) -> Edit:
    return lambda directory: change(directory, "entries.json", old, new)


def line_of(directory: Path, text: str, name: str = "entries.json") -> int:
    lines = (directory / name).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def test_the_example_can_be_run(example: Path) -> None:
    assert refused(example) == []


def test_hosts_are_where_the_entries_have_them(example: Path) -> None:
    plan = plan_of(example)
    assert {(host.name, host.port, host.address, host.prefix, host.mac) for host in plan.end_hosts} == {
        # 10.0.1.1 to 10.0.3.3 have 22 bits in common, and one more tells them from the broadcast address.
        ("cubic-host", 1, "10.0.1.1", 21, "08:00:00:00:01:11"),
        ("bbr-host", 2, "10.0.2.2", 21, "08:00:00:00:02:22"),
        ("receiver", 3, "10.0.3.3", 21, "08:00:00:00:03:33"),
    }
    assert (plan.collector.port, plan.bottleneck.port, plan.loopbacks) == (4, 3, ())
    request = observe_request(plan)
    assert [(port.port, port.bottleneck, list(port.ingress_ports)) for port in request.ports] == [(3, 0, [1, 2])]


def test_a_delay_of_the_link_is_that_of_its_port(example: Path) -> None:
    change(example, "cubic-and-bbr.yaml", "  rtt: 20ms\n", "  rtt: 20ms\n  delay: 3ms\n")
    delays = {port.host: port.delay_ns for port in plan_of(example).ports}
    # The reverse path has the RTT, the link its own delay.
    assert delays == {"cubic-host": 20_000_000, "bbr-host": 20_000_000, "receiver": 3_000_000, "collector": 0}


def test_what_varies_in_a_link_is_added_to_what_its_host_has(example: Path) -> None:
    """In virtual time half of the least RTT is towards the receivers."""
    steps = "{steps: [{at: 0s, delay: 3ms}, {at: 1s, delay: 7ms}]}"
    change(
        example, "cubic-and-bbr.yaml", "  rtt: 20ms\n", f"  rtt: 20ms\n  delay: {steps}\n  jitter: {{uniform: 1ms}}\n"
    )
    plan = plan_of(example)
    assert (plan.bottleneck.port, plan.loopbacks) == (3, ())
    # RTTs from the senders are 20 ms behind the first delay of the link.
    assert schedule_of(plan) == (3_000_000, [(0, 3_000_000), (1_000_000_000, 7_000_000)])

    guest = adapted(plan)
    # The link's least, 3 ms - 1 ms, and the reverse path's 20 ms are 11 ms each way.
    delays = {port.host: port.delay_ns for port in guest.ports}
    assert (delays["cubic-host"], delays["receiver"]) == (11_000_000, 12_000_000)
    assert schedule_of(guest) == (12_000_000, [(0, 12_000_000), (1_000_000_000, 16_000_000)])
    # A batch of 300 frames is longer.
    assert settings(guest).window_ns == 5_500_000


def schedule_of(plan: Plan) -> tuple[int, list[tuple[int, int]]]:
    """The delay of the link's port until the experiment starts, and from its steps on."""
    (request,) = queue_requests(plan, 1)
    return request.delay_ns, [(step.start_ns, step.delay_ns) for step in request.delay_schedule.steps]


def test_a_normal_jitter_that_would_be_cut_is_refused(example: Path) -> None:
    variation = "  rtt: 20ms\n  delay: 3ms\n  jitter: {normal: 500us}\n"
    change(example, "cubic-and-bbr.yaml", "  rtt: 20ms\n", variation)
    assert refused(example) == []
    change(example, "cubic-and-bbr.yaml", "500us", "501us")
    (problem,) = refused(example)
    assert "bottleneck.jitter: few draws take more than the delay of 3ms" in problem
    assert problem.endswith("allowed: a delay of 6 deviations at all times, 3.006ms")


def test_links_with_the_same_program_are_ports_of_one_switch(example: Path) -> None:
    file = example / "cubic-and-bbr.yaml"
    bottleneck = file.read_text().partition("bottleneck:\n")[2].partition("flows:")[0]
    left = textwrap.indent(bottleneck, "  ").replace("program:", "program: &program")
    left += '        other: {port: 4, ip: 10.0.4.4, mac: "08:00:00:00:04:44"}\n'
    file.write_text(
        f"name: links\nlinks:\n  left:\n{left}"
        "  right: {rate: 5Mbit, rtt: 20ms, buffer: 60 packets, program: *program}\n"
        "flows:\n  - {cca: cubic, from: cubic-host, to: receiver, path: [left], duration: 2s}\n"
        "  - {cca: bbr, from: bbr-host, to: other, path: [right], duration: 2s}\n"
    )
    assert refused(example) == []
    plan = plan_of(example)
    request = observe_request(plan)
    found = [(port.port, port.bottleneck, list(port.ingress_ports)) for port in request.ports]
    assert found == [(3, 0, [1]), (4, 1, [2])]
    (program,) = plan.programs
    assert (program.field, program.links) == ("links.left.program", ("left", "right"))

    # Between the two links packets would cross ports that no host is at.
    change(example, file.name, "path: [right]", "path: [left, right]")
    problems = "\n".join(refused(example))
    assert "links.left: several hosts are behind it" in problems
    assert "with links.left.program" in problems


def test_a_link_on_the_way_back_is_refused_for_what_it_is(example: Path) -> None:
    file = example / "cubic-and-bbr.yaml"
    change(example, file.name, "bottleneck:\n", "bottleneck:\n  reverse: {rate: 5Mbit, buffer: 60 packets}\n")
    assert refused(example) == [
        "cubic-and-bbr.yaml: bottleneck.reverse: Narrows' own program sends packets of the reverse direction through "
        "it, and bottleneck.program sends them to the ports of their hosts; allowed: no reverse"
    ]


@pytest.mark.parametrize(
    ("edit", "at", "says"),
    [
        (
            in_entries('"AqmIngress.routes"', '"AqmIngress.route"'),
            '"AqmIngress.route"',
            "table 'AqmIngress.route' is not in P4Info, did you mean 'AqmIngress.routes'?",
        ),
        (
            in_entries('"hdr.ipv4.dst": ["10.0.1.1", 32]', '"hdr.ipv4.src": ["10.0.1.1", 32]'),
            "10.0.1.1",
            "AqmIngress.routes has no key 'hdr.ipv4.src', did you mean 'hdr.ipv4.dst'?",
        ),
        (
            in_entries('["10.0.1.1", 32]', '["10.0.1.1", 33]'),
            "10.0.1.1",
            "key 'hdr.ipv4.dst': length 33; allowed: 0 to 32",
        ),
        (
            in_entries('["10.0.1.1", 32]', '"10.0.1.1"'),
            "10.0.1.1",
            "key 'hdr.ipv4.dst': is '10.0.1.1'; allowed: [address, length]",
        ),
        (
            in_entries('"10.0.1.1"', '"10.0.1"'),
            "10.0.1",
            "'hdr.ipv4.dst' is '10.0.1'; allowed: a number, an IP address or an Ethernet address",
        ),
        (
            in_entries('"AqmIngress.forward"', '"AqmEgress.manage"'),
            "AqmIngress.routes",
            "AqmIngress.routes has no action 'AqmEgress.manage'",
        ),
        (
            in_entries('"port": 1', '"prot": 1'),
            '"AqmIngress.routes"',
            "AqmIngress.forward: has the parameters next_hop, prot; allowed: next_hop, port",
        ),
        (
            in_entries('"port": 1', '"port": 7'),
            '"AqmIngress.routes"',
            "port 7: no host is at it; allowed: 1 (cubic-host), 2 (bbr-host), 3 (receiver)",
        ),
        (
            in_entries('"port": 1', '"port": 512'),
            '"AqmIngress.routes"',
            "'port' is 512, which does not fit into 9 bits",
        ),
        (
            in_entries('"match": {"hdr.ipv4.dst": ["10.0.1.1", 32]}', '"priority": 3'),
            '"AqmIngress.routes"',
            "AqmIngress.routes: priority 3; allowed: none",
        ),
        (in_entries('"action_name"', '"action"'), '"AqmIngress.routes"', "has 'action'; allowed: table, match,"),
        (in_entries('{"standard.egress_port": 3}', "7"), '"AqmEgress.managed_ports"', "match is not an object"),
        (
            in_entries('{"next_hop": "08:00:00:00:01:11", "port": 1}', "7"),
            '"AqmIngress.routes"',
            "action_params is not an object",
        ),
        (
            in_entries('{"standard.egress_port": 3}', "{}"),
            '"AqmEgress.managed_ports"',
            "AqmEgress.managed_ports: the key 'standard.egress_port' is missing",
        ),
        (in_entries('"target": "bmv2"', '"target": "tofino"'), '"tofino"', "is for the target 'tofino'; allowed: bmv2"),
        (
            in_entries('"target": "bmv2",', '"target": "bmv2"'),
            '"table_entries"',
            "is not JSON: Expecting ',' delimiter",
        ),
    ],
)
def test_an_entry_that_cannot_be_is_named_with_its_line(example: Path, edit: Edit, at: str, says: str) -> None:
    edit(example)
    (problem,) = refused(example)
    match = re.fullmatch(r"cubic-and-bbr\.yaml: bottleneck\.program\.entries: entries\.json:(\d+): (.*)", problem)
    assert match is not None, problem
    assert says in match[2]
    # An entry begins a line before its table.
    assert line_of(example, at) - int(match[1]) in (0, 1, 2)


def test_a_clone_to_a_port_that_no_host_has_is_refused(example: Path) -> None:
    entry = '{"clone_session_id": 5, "replicas": [{"egress_port": 9, "instance": 1}]}'
    change(
        example,
        "entries.json",
        '  "table_entries"',
        f'  "clone_session_entries": [\n    {entry}\n  ],\n  "table_entries"',
    )
    (problem,) = refused(example)
    assert f"entries.json:{line_of(example, 'clone_session_id')}: port 9: no host is at it" in problem


def _psa(path: Path) -> None:
    data = json.loads(path.read_text())
    data["headers"] = [header for header in data["headers"] if header["name"] != "standard_metadata"]
    path.write_text(json.dumps(data))


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (
            lambda directory: (directory / "compiled/interval_aqm.json").unlink(),
            "program.json: compiled/interval_aqm.json: cannot be read: No such file or directory",
        ),
        (
            lambda directory: (directory / "compiled/interval_aqm.json").write_text('{\n"a": }'),
            "program.json: compiled/interval_aqm.json:2: is not JSON",
        ),
        (
            lambda directory: (directory / "compiled/interval_aqm.json").write_text("{}"),
            "program.json: compiled/interval_aqm.json: is not a compiled program; allowed: what p4c-bm2-ss writes",
        ),
        (
            lambda directory: _psa(directory / "compiled/interval_aqm.json"),
            "program.json: compiled/interval_aqm.json: is a program for another architecture; allowed: v1model",
        ),
        (
            lambda directory: shutil.copy(OURS, directory / "compiled/interval_aqm.json"),
            "program.p4info: compiled/interval_aqm.p4info.txtpb: does not belong to compiled/interval_aqm.json: ",
        ),
        (
            lambda directory: change(directory, P4INFO, 'arch: "v1model"', 'arch: "psa"'),
            "program.p4info: compiled/interval_aqm.p4info.txtpb: is of a program for psa; allowed: v1model",
        ),
        (
            lambda directory: change(directory, P4INFO, "tables {", "table {"),
            "program.p4info: compiled/interval_aqm.p4info.txtpb:",
        ),
        (
            lambda directory: (directory / "entries.json").unlink(),
            "program.entries: entries.json: cannot be read: No such file or directory",
        ),
        (
            lambda directory: (directory / "entries.json").write_text("{}"),
            "program.entries: entries.json: has no entries; allowed: one or more",
        ),
    ],
)
def test_a_file_that_is_wrong_is_named(example: Path, edit: Edit, says: str) -> None:
    edit(example)
    (problem,) = refused(example)
    assert says in problem, problem


def test_the_queues_of_a_port_have_turns(example: Path) -> None:
    (request,) = queue_requests(plan_of(example), 1)
    assert request.management.WhichOneof("scheduling") == "strict"
    change(
        example,
        "cubic-and-bbr.yaml",
        "    entries: entries.json",
        "    quanta: [1514B, 3kB]\n    entries: entries.json",
    )
    assert refused(example) == []
    (request,) = queue_requests(plan_of(example), 1)
    assert list(request.management.deficit.quanta) == [1_514, *[3_000] * 7]

    change(example, "cubic-and-bbr.yaml", "1514B", "63B")
    (problem,) = refused(example)
    assert problem.endswith("has a quantum that is too small; allowed: 64 bytes or more")


def watching(directory: Path, cells: str) -> None:
    change(
        directory, "cubic-and-bbr.yaml", "    entries: entries.json", f"    watch: {cells}\n    entries: entries.json"
    )


def test_cells_of_registers_are_found_by_either_name(example: Path) -> None:
    watching(example, '["next_signals[3]", "AqmEgress.next_signals[511]"]')
    assert refused(example) == []
    (program,) = plan_of(example).programs
    assert [(cell.register_id, cell.index.index) for cell in own_program.cells(program)] == [
        # As P4Info has it.
        (373618291, 3),
        (373618291, 511),
    ]


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        (
            '["next_signal[3]"]',
            "bottleneck.program.watch: next_signal[3]: there is no register 'next_signal'; "
            "allowed: AqmEgress.next_signals",
        ),
        (
            '["next_signals[512]"]',
            "bottleneck.program.watch: next_signals[512]: the register has 512 cells; allowed: 0 to 511",
        ),
        (
            '["next_signals"]',
            "is neither a cell of a register nor a field of metadata; allowed: REGISTER[INDEX], such as "
            "my_register[0], or HEADER.FIELD, such as scalars.metadata_t.x",
        ),
        (
            "[scalars.nothing_of_it]",
            "bottleneck.program.watch: scalars.nothing_of_it: there is no such field of metadata; allowed: "
            "scalars.tmp, scalars.tmp_0, scalars.next_signal_0, scalars.target_0, scalars.interval_0, "
            + ", ".join(
                f"standard_metadata.{name}"
                for name in [
                    "ingress_port",
                    "egress_spec",
                    "egress_port",
                    "instance_type",
                    "packet_length",
                    "enq_timestamp",
                    "enq_qdepth",
                    "deq_timedelta",
                    "deq_qdepth",
                    "ingress_global_timestamp",
                    "egress_global_timestamp",
                    "mcast_grp",
                    "egress_rid",
                    "checksum_error",
                    "parser_error",
                    "priority",
                ]
            ),
        ),
        (
            "[standard_metadata.deq_qdept]",
            "there is no such field of metadata, did you mean 'standard_metadata.deq_qdepth'? allowed: scalars.tmp, ",
        ),
        ("[scalars.userMetadata.tmp]", "no such field of metadata, did you mean 'scalars.tmp'? allowed: scalars.tmp, "),
        # A header's fields are no metadata: the packet itself has them.
        ("[ipv4.ttl]", "bottleneck.program.watch: ipv4.ttl: there is no such field of metadata; allowed: "),
    ],
)
def test_what_cannot_be_watched_is_named(example: Path, cells: str, says: str) -> None:
    watching(example, cells)
    (problem,) = refused(example)
    assert says in problem and (says.endswith(("allowed: ", "tmp, ")) or problem.endswith(says)), problem


def test_fields_of_metadata_are_no_cells(example: Path) -> None:
    watching(example, '[standard_metadata.deq_qdepth, "next_signals[3]", scalars.target_0]')
    # They need no interval, and no pauses.
    assert refused(example) == []
    (program,) = plan_of(example).programs
    assert program.fields == ("standard_metadata.deq_qdepth", "scalars.target_0")
    assert [str(cell) for cell in program.watch] == ["next_signals[3]"]
    change(example, "cubic-and-bbr.yaml", "flows:\n", "telemetry: {sockets: 0s}\nflows:\n")
    change(example, "cubic-and-bbr.yaml", '"next_signals[3]", ', "")
    assert refused(example) == []


def test_what_is_watched_needs_an_interval(example: Path) -> None:
    watching(example, '["next_signals[3]"]')
    change(example, "cubic-and-bbr.yaml", "flows:\n", "telemetry: {sockets: 0s}\nflows:\n")
    (problem,) = refused(example)
    assert "bottleneck.program.watch: nothing is read with telemetry.sockets: 0" in problem


def test_only_one_of_two_may_halt_the_switch(example: Path) -> None:
    watching(example, '["next_signals[3]"]')
    file = example / "cubic-and-bbr.yaml"
    file.write_text(file.read_text() + "events:\n  - {link: bottleneck, at: 1s, buffer: 2BDP}\n")
    (problem,) = refused(example)
    assert "bottleneck.program.watch: is not read in runs whose events change a buffer" in problem


def test_nothing_is_watched_of_a_driven_run(example: Path) -> None:
    watching(example, '["next_signals[3]"]')
    experiment = load(example / "cubic-and-bbr.yaml")
    with pytest.raises(InputError, match=re.escape("bottleneck.program.watch: is of runs that are not driven")):
        driven(make_plan(experiment), experiment, Driving((), shows_reports=False))


def test_text_protobuf_has_the_same_entries(example: Path) -> None:
    plan = plan_of(example)
    asked = own_program.updates(plan.programs[0])
    request = p4r.WriteRequest(updates=asked)
    (example / "entries.txtpb").write_text(text_format.MessageToString(request))
    change(example, "cubic-and-bbr.yaml", "entries.json", "entries.txtpb")
    assert refused(example) == []
    plan = plan_of(example)
    assert own_program.updates(plan.programs[0]) == asked
    assert [update.type for update in asked] == [p4r.Update.INSERT] * 4
    # 10.0.1.1, as P4Runtime writes numbers; port 1.
    entry = asked[0].entity.table_entry
    assert (entry.match[0].lpm.value, entry.match[0].lpm.prefix_len) == (bytes([10, 0, 1, 1]), 32)
    assert [param.value for param in entry.action.action.params] == [bytes([8, 0, 0, 0, 1, 0x11]), b"\x01"]

    change(example, "entries.txtpb", "table_id", "table_di")
    (problem,) = refused(example)
    place = f"entries.txtpb:{line_of(example, 'table_di', 'entries.txtpb')}:7"
    assert f"{place}: is not a P4Runtime WriteRequest" in problem


def test_a_source_needs_a_compiler(example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = f"json: compiled/interval_aqm.json\n    p4info: {P4INFO}"
    change(example, "cubic-and-bbr.yaml", compiled, "p4: interval_aqm.p4")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (problem,) = refused(example)
    assert "bottleneck.program.p4: interval_aqm.p4 is to be compiled, and p4c-bm2-ss is not on PATH; fix: " in problem
    assert (
        "p4c-bm2-ss --p4v 16 --p4runtime-files interval_aqm.p4info.txtpb -o interval_aqm.json interval_aqm.p4"
        in problem
    )
    assert not (tmp_path / "cache").exists()

    # One that writes what the real one has written.
    compiler = tmp_path / COMPILER
    compiler.write_text(
        f'#!/bin/sh\n[ "$1 $2" = "--p4v 16" ] || exit 9\n'
        f'/bin/cp {EXAMPLE}/{P4INFO} "$4"\n/bin/cp {EXAMPLE}/compiled/interval_aqm.json "$6"\n'
    )
    compiler.chmod(0o755)
    assert refused(example) == []
    (program,) = plan_of(example).programs
    assert program.json.read_bytes() == (EXAMPLE / "compiled/interval_aqm.json").read_bytes()

    compiler.write_text("#!/bin/sh\necho 'interval_aqm.p4(3): error: no such thing' >&2\nexit 1\n")
    assert "interval_aqm.p4(3): error: no such thing" in "\n".join(refused(example))


def test_a_program_that_is_interpreted_is_said_to_be_before_the_run(
    example: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A header that native code does not take."""
    file = example / "cubic-and-bbr.yaml"
    # Permissions are not what this is about.
    monkeypatch.setattr(ThisMachine, "problems", lambda *_: [])
    monkeypatch.setattr("narrows.run.runner.machine.missing_tools", list)
    (program,) = plan_of(example).programs
    data: dict[str, Any] = json.loads(program.json.read_text())
    assert runner.check(load(file), SoftTarget(), file.name).notes == ()
    fields = [[f"f{number}", 128, False] for number in range(20)]
    data["header_types"].append({"name": "long_t", "id": 99, "fields": fields})
    data["headers"].append({"name": "long", "id": 99, "header_type": "long_t", "metadata": False, "pi_omit": True})
    program.json.write_text(json.dumps(data))
    (note,) = runner.check(load(file), SoftTarget(), file.name).notes
    assert note.startswith(f"bottleneck.program.json: {program.json}: the program is interpreted")


def controlled(directory: Path, settings: str) -> list[str]:
    """What is wrong with the example of a controller with other settings of it."""
    file = directory / "learning.yaml"
    text = file.read_text().replace('[python3, learning_controller.py, "1", "2", "3"]', settings)
    file.write_text(text)
    try:
        problems = planned(load(file), SoftTarget(), file.name)[1]
    except InputError as error:
        problems = str(error).splitlines()
    return [problem.replace(f"{directory}/", "") for problem in problems]


def test_a_controller_runs_where_its_experiment_file_is(example: Path) -> None:
    file = example / "learning.yaml"
    (program,) = make_plan(load(file)).programs
    assert (program.cwd, program.controller[:2]) == (example, ("python3", "learning_controller.py"))
    file.write_text(
        file.read_text().replace("[python3, ", "[../bin/python3, ").replace("    ports:", "    cwd: x\n    ports:")
    )
    (program,) = make_plan(load(file)).programs
    assert (program.cwd, program.controller[0]) == (example / "x", f"{example}/../bin/python3")


def test_a_controller_that_cannot_be_is_refused(example: Path) -> None:
    field = "bottleneck.program"
    (port,) = controlled(example, '["true"]\n    cpu_port: 3')
    assert port == f"learning.yaml: {field}.cpu_port: 3 is the port of a host; allowed: one that no host is at"


def test_entries_may_lead_to_the_controller(example: Path) -> None:
    """By each way that there is: a parameter, and replicas in both forms."""
    entry = {"table": "destinations", "match": {"dst": 1}, "action_name": "send"}
    entries = {
        "table_entries": [entry | {"action_params": {"port": 100}}],
        "clone_session_entries": [{"clone_session_id": 34, "replicas": [{"egress_port": 100, "instance": 1}]}],
    }
    (example / "own.json").write_text(json.dumps(entries))
    given = '["true"]\n    cpu_port: 100\n    entries: own.json'
    assert controlled(example, given) == []
    session = "packet_replication_engine_entry { clone_session_entry { session_id: 34 replicas { egress_port: 100 } } }"
    (example / "own.txtpb").write_text(f"updates {{ type: INSERT entity {{ {session} }} }}")
    change(example, "learning.yaml", "own.json", "own.txtpb")
    assert controlled(example, "") == []

    # Without a controller nothing is there.
    change(example, "learning.yaml", '    controller: ["true"]\n', "")
    (problem,) = controlled(example, "")
    assert "port 100: no host is at it; allowed: 1 (" in problem


def test_a_controller_that_is_not_there_is_named(example: Path) -> None:
    file = example / "learning.yaml"
    file.write_text(
        file.read_text().replace("[python3,", "[no-such-program,").replace("    ports:", "    cwd: x\n    ports:")
    )
    field = "bottleneck.program"
    assert missing_commands(make_plan(load(file))) == [
        f"{field}.controller: 'no-such-program' is not there, or cannot be executed; allowed: a program",
        f"{field}.cwd: {example / 'x'} is not a directory",
    ]


def test_a_p4info_of_another_program_is_what_is_wrong_and_not_the_entries(example: Path) -> None:
    change(example, "cubic-and-bbr.yaml", "interval_aqm.p4info", "heavy_hitter.p4info")
    (problem,) = refused(example)
    assert "bottleneck.program.p4info: " in problem and "heavy_hitter.p4info.txtpb: does not belong to " in problem


def test_a_misspelt_host_is_what_is_wrong_and_not_that_another_one_has_no_address(example: Path) -> None:
    change(example, "cubic-and-bbr.yaml", "receiver: {port", "reciever: {port")
    with pytest.raises(InputError, match=re.escape("the program has no host 'reciever', did you mean 'receiver'?")):
        plan_of(example)


def test_a_host_without_flows_is_a_port_where_nothing_is(example: Path) -> None:
    change(example, "cubic-and-bbr.yaml", "receiver: {port", "idle: {port: 9, ip: 10.0.9.9}\n      receiver: {port")
    change(example, "entries.json", '"port": 1', '"port": 9')
    assert refused(example) == []
    plan = plan_of(example)
    assert {host.name for host in plan.end_hosts} == {"cubic-host", "bbr-host", "receiver"}
    assert SoftTarget().notes(plan) == ["bottleneck.program.ports: port 9: no flow has the host 'idle'"]
