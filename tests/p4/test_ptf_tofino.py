# SPDX-License-Identifier: Apache-2.0
"""The suite's Tofino adapter without Tofino's SDE: every case's control plane against fake switches, and its own parts.

Packets are not exercised on Tofino here: they pass the softswitch, the fakes see only what is set and read.
"""

from __future__ import annotations

import ast
import json
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
SUITE = REPOSITORY / "ptf-tests"
for folder in (SUITE, REPOSITORY / "tests" / "tofino"):
    sys.path.insert(0, str(folder))

import expected  # noqa: E402
import frames  # noqa: E402
from bench import BottleneckTest  # noqa: E402
from fakeswitch.server import FakeSwitch  # noqa: E402
from narrows_tofino.bfrt.client import Endpoint  # noqa: E402
from narrows_tofino.bfrt.connect import connect  # noqa: E402
from narrows_tofino.bfrt.errors import SchemaError, SwitchRefused  # noqa: E402
from narrows_tofino.chip.model import CHIPS, Chip  # noqa: E402
from narrows_tofino.chip.red import Wred  # noqa: E402
from narrows_tofino.testbed.inventory import MANAGED_PROGRAM  # noqa: E402
from p4runtime import Entry  # noqa: E402
from processes import Child  # noqa: E402
from run import suite_environment  # noqa: E402
from targets import tofino_model  # noqa: E402
from targets.base import Ability  # noqa: E402
from targets.tofino import MODEL_PORTS, PROGRAM, LabFile, TofinoTarget, connect_switch, port_parameter  # noqa: E402
from targets.tofino_control import LARGEST_PRIORITY  # noqa: E402
from targets.tofino_model import configuration, listens, port_map, unpack_program  # noqa: E402
from targets.tofino_switch import LOOPBACK, TofinoSwitch  # noqa: E402

SESSION = 5


@pytest.fixture(params=list(CHIPS))
def fake(request: pytest.FixtureRequest) -> Iterator[FakeSwitch]:
    """A fake switch of each generation."""
    one = FakeSwitch(request.param)
    yield one
    one.stop()


def adapter(fake: FakeSwitch, ports: dict[int, int] | None = None, model: str = "no") -> TofinoSwitch:
    """The adapter, connected by our own client."""
    client = connect(Endpoint(fake.address, PROGRAM), prefer=("own",))
    described = {"chip": fake.chip, "ports": port_parameter(ports or MODEL_PORTS), "model": model}
    return connect_switch(client, described)


@pytest.fixture
def switch(fake: FakeSwitch) -> Iterator[TofinoSwitch]:
    """The adapter on a fresh switch."""
    one = adapter(fake)
    one.reset()
    yield one
    one.close()


def cable(egress: int, priority: int) -> Entry:
    """An entry as cases make them."""
    return Entry("cross_connect", {"ingress_port": (1, 0x1FF)}, "wire", {"port": egress}, priority)


def collector(length: int) -> Entry:
    """A collector's entry with a length of reports."""
    names = ("src_mac", "dst_mac", "src_ip", "dst_ip", "src_port", "dst_port")
    return Entry("collector", {"bottleneck": 3}, "encapsulate", {**dict.fromkeys(names, 1), "length": length})


def queues(fake: FakeSwitch, table: str) -> list[dict[str, Any]]:
    """What a table of queues holds."""
    return [data for (name, _, _), data in fake.tm.settings.items() if name == f"queue.{table}"]


def case_classes() -> dict[str, ast.ClassDef]:
    """Every case by module and class."""
    found = {}
    for path in sorted((SUITE / "cases").glob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and any(
                isinstance(part, ast.FunctionDef) and part.name == "runTest" for part in node.body
            ):
                found[f"{path.stem}.{node.name}"] = node
    return found


# What cases derive from that need what the program for Tofino has not.
SOFT_ONLY = ("ManagedTest", "PatternTest", "LineTest")
# And what needs Tofino's data plane, which neither the softswitch nor the fakes of a run have.
TOFINO_ONLY = ("LawTest", "HoldingTest", "Ability.VLAN_HOSTS")


@pytest.mark.long
@pytest.mark.needs("root")
@pytest.mark.parallel_safe
def test_the_control_plane_of_every_case_is_accepted() -> None:
    command = [sys.executable, str(SUITE / "run.py"), "--target", "tofino-fake"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert "frames pass the softswitch" in done.stdout
    missing = (*SOFT_ONLY, *TOFINO_ONLY)
    lacking = sum(any(base in ast.unparse(node) for base in missing) for node in case_classes().values())
    assert done.stdout.splitlines()[-1] == f"{len(case_classes()) - lacking} passed, 0 failed, {lacking} skipped"


def test_a_case_says_when_it_needs_what_tofino_has_not() -> None:
    for name, node in case_classes().items():
        text = ast.unparse(node)
        if "ManagedTest" in text:
            continue  # It needs all of that.
        for call, abilities in {
            ".limit_packets(": {Ability.PACKET_LIMIT},
            ".limit_bytes(": {Ability.BYTE_LIMIT},
            ".occupy(": {Ability.HOLD, Ability.EXACT_RATE},
        }.items():
            if call in text:
                assert any(f"Ability.{ability.name}" in text for ability in abilities), f"{name}: {call}"


@pytest.mark.parametrize("model", ["yes", "no"])
def test_what_tofino_has_not_has_a_reason(model: str, fake: FakeSwitch) -> None:
    client = connect(Endpoint(fake.address, PROGRAM), prefer=("own",))
    one = connect_switch(client, {"chip": fake.chip, "ports": port_parameter(MODEL_PORTS), "model": model})
    assert {Ability.PACKET_LIMIT, Ability.BYTE_LIMIT, Ability.EXACT_RATE} <= set(one.profile.lacks)
    assert (Ability.HOLD in one.profile.lacks) == (model == "yes")
    assert all(len(reason) > 20 for reason in one.profile.lacks.values())
    with pytest.raises(NotImplementedError, match="cells"):
        one.limit_packets(1, 0, 5)
    one.close()


LAW_ENTRIES = [
    Entry("enqueue_aqm", {"bottleneck": 0}, "pick", {"probability": 5, "ecn_marks": 1}),
    Entry("dequeue_aqm", {"bottleneck": 0}, "coupled", {"threshold": 7}),
    Entry("arrival_queue", {"bottleneck": 0, "low_latency": 1}, "wait_in", {"number": 1}),
    Entry("departure_queue", {"bottleneck": 0, "low_latency": 1}, "second", {}),
]


def test_laws_are_there_where_the_program_has_them(fake: FakeSwitch, switch: TofinoSwitch) -> None:
    assert "--managed" in switch.profile.lacks[Ability.TOFINO_AQMS]
    for entry in LAW_ENTRIES:
        with pytest.raises(SchemaError):
            switch.control.insert(entry)


def test_what_cases_of_laws_set_and_read_is_accepted() -> None:
    fake = FakeSwitch("tofino", managed=True)
    try:
        client = connect(Endpoint(fake.address, MANAGED_PROGRAM), prefer=("own",))
        one = connect_switch(client, {"chip": "tofino", "ports": port_parameter(MODEL_PORTS), "model": "yes"})
        assert Ability.TOFINO_AQMS not in one.profile.lacks and Ability.MANAGED in one.profile.lacks
        one.reset()
        one.control.insert(*LAW_ENTRIES)
        for action, parameters in (
            ("couple", {"classic_probability": 1, "low_probability": 2}), ("couple_overloaded", {"probability": 3}),
        ):  # fmt: skip
            one.control.modify(Entry("enqueue_aqm", {"bottleneck": 0}, action, parameters))
        for action, parameters in (
            ("step", {"threshold": 1, "low_latency_only": 1}), ("red", {"index": 0, "ecn_marks": 1, "nodrop": 0}),
        ):  # fmt: skip
            one.control.modify(Entry("dequeue_aqm", {"bottleneck": 0}, action, parameters))
        one.control.set_average(0, Wred(time_constant_ns=1000, min_cells=2, max_cells=6, percent=100))
        counter = fake.schema.part("enqueue_drops", "Counter").name
        fake.programs.add(counter, 0, 0, "$COUNTER_SPEC_PKTS", 3, 64)
        fake.programs.add(counter, 0, 0, "$COUNTER_SPEC_BYTES", 1500, 64)
        assert one.control.read_counters("enqueue_drops", [0]) == [(3, 1500)]
        assert one.read_register("flow_enqueue_drops", 9) == 0
        one.reset()
        assert fake.state()["entries"] == {} and one.control.read_counters("enqueue_drops", [0]) == [(0, 0)]
        one.close()
    finally:
        fake.stop()


@pytest.mark.parametrize(
    ("target", "install", "reason"),
    [
        ("tofino", None, "no testbed is given (--testbed FILE)"),
        ("tofino-model", None, "SDE_INSTALL does not say where Tofino's SDE is"),
        ("tofino-model", "/sde", "tofino-model and bf_switchd of Tofino's SDE are not on PATH"),
    ],
)
def test_what_is_missing_is_said_in_one_line(target: str, install: str | None, reason: str) -> None:
    command = [sys.executable, str(SUITE / "run.py"), "--target", target]
    environment = {"PATH": "/usr/bin:/bin", **({} if install is None else {"SDE_INSTALL": install})}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stdout) == (0, f"skipped: {target}: {reason}\n")


def test_a_connection_of_a_port_to_itself_is_no_driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whoever tries a port again and again until somebody listens gets one of these in time."""
    child = Child(None, ["sleep", "60"], tmp_path / "log", {})
    try:
        with socket.socket() as itself, socket.socket() as server:
            itself.bind(("127.0.0.1", 0))
            itself.connect(itself.getsockname())
            monkeypatch.setattr(tofino_model, "DEFAULT_PORT", itself.getsockname()[1])
            assert not listens(child)
            server.bind(("127.0.0.1", 0))
            monkeypatch.setattr(tofino_model, "DEFAULT_PORT", server.getsockname()[1])
            assert not listens(child)
            server.listen()
            assert listens(child)
    finally:
        child.stop()


def test_the_suite_finds_the_sde_where_the_runner_did(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/sde/tofino:/sde/tofino/bfrt_grpc")
    assert suite_environment()["PYTHONPATH"] == f"{SUITE}:/sde/tofino:/sde/tofino/bfrt_grpc"
    monkeypatch.delenv("PYTHONPATH")
    assert suite_environment()["PYTHONPATH"] == str(SUITE)


def test_larger_priorities_win_though_smaller_numbers_do_on_tofino(fake: FakeSwitch, switch: TofinoSwitch) -> None:
    switch.control.insert(cable(2, 5), cable(3, 9))
    (entries,) = [found for name, found in fake.programs.entries.items() if name.endswith("cross_connect")]
    by_priority = {key[-1]: values["port"] for key, (_, values) in entries.items()}
    assert by_priority == {LARGEST_PRIORITY - 5: MODEL_PORTS[2], LARGEST_PRIORITY - 9: MODEL_PORTS[3]}
    assert {key[0] for key in entries} == {(MODEL_PORTS[1], 0x1FF)}


def test_a_session_is_as_long_as_the_longest_report(fake: FakeSwitch, switch: TofinoSwitch) -> None:
    switch.control.add_mirror(SESSION, 9)
    switch.control.insert(collector(184))
    # The frame's part of a report and 32 B of mirror header; Tofino 2 counts 4 B of FCS and wants multiples of 4.
    # The model cuts 4 B more of a copy of Tofino 1's.
    lengths = {"tofino": (118, 1032), "tofino2": (124, 1036)}[fake.chip]
    assert fake.mirrors[SESSION]["$max_pkt_len"] == lengths[0]
    switch.control.modify(collector(1098))
    assert fake.mirrors[SESSION]["$max_pkt_len"] == lengths[1]
    switch.control.modify(collector(65535))
    assert fake.mirrors[SESSION]["$max_pkt_len"] <= CHIPS[fake.chip].max_mirror_length
    assert fake.mirrors[SESSION]["$ucast_egress_port"] == MODEL_PORTS[9]


def test_queues_are_shaped_held_and_let_go(fake: FakeSwitch, switch: TofinoSwitch) -> None:
    start = fake.state()
    switch.shape(2, 1, 500, 400)
    assert switch.hold(3, 0, 500, lambda: "went") == "went"
    assert [one["max_rate"] for one in queues(fake, "sched_shaping")] == [500 * 8 * 400 // 1000]
    held = queues(fake, "sched_cfg")
    assert sorted((one["max_rate_enable"], one["scheduling_enable"]) for one in held) == [(False, False), (True, True)]
    switch.reset()
    held = queues(fake, "sched_cfg")
    assert {(one["max_rate_enable"], one["scheduling_enable"]) for one in held} == {(False, True)}
    assert fake.state()["entries"] == start["entries"]


def test_reset_leaves_nothing(fake: FakeSwitch, switch: TofinoSwitch) -> None:
    switch.control.insert(cable(2, 1), collector(184))
    switch.control.add_mirror(SESSION, 9)
    switch.write_register("flow_arrivals.totals", 7, 9)
    fake.send_digest(index=7)
    switch.reset()
    assert fake.state()["entries"] == {} and fake.mirrors == {}
    assert switch.read_register("flow_arrivals.totals", 7) == 0
    assert switch.control.digests(1, 0.2) == []


def test_cells_are_cleared_of_flows_that_a_case_had(fake: FakeSwitch, switch: TofinoSwitch) -> None:
    """Those that digests or reports told of, and that were written: whole tables of flows take a model minutes."""
    table = fake.schema.part("arrival_counter", "Counter").name
    register = fake.schema.part("flow_arrivals", "Register")
    for index in (6, 7, 8, 9):
        fake.programs.add(table, index, 0, "$COUNTER_SPEC_PKTS", 3, 64)
        fake.programs.add(register.name, index, 0, register.fields[0].name, 3)
    switch.write_register("flow_owner.signatures", 8, 41)
    fake.send_digest(bottleneck=0, index=7, signature=11, is_ipv6=0, src=1, dst=2, protocol=6, src_port=3, dst_port=4)
    assert len(switch.control.digests(1, 2.0)) == 1
    # The digest of this one was lost.
    switch.is_counted(6)
    fake.send_digest(bottleneck=0, index=9, signature=11, is_ipv6=0, src=1, dst=2, protocol=6, src_port=3, dst_port=4)
    before = len(fake.requests)
    switch.reset()
    assert switch.control.read_counters("arrival_counter", [6, 7, 8, 9]) == [(0, 0)] * 4
    assert [switch.read_register("flow_arrivals.totals", index) for index in (6, 7, 8, 9)] == [0, 0, 0, 0]
    assert switch.read_register("flow_owner.signatures", 8) == 0
    cleared = {name for operation, name in fake.requests[before:] if operation == "delete"}
    assert table not in cleared and register.name not in cleared
    assert fake.schema.part("delay_histogram", "Counter").name in cleared


def test_a_model_that_was_started_for_the_suite_has_counted_nothing(fake: FakeSwitch) -> None:
    """To clear its tables of flows as a whole takes it minutes; of any other switch it is not known what is in them."""
    flows = fake.schema.part("arrival_counter", "Counter").name
    for model in ("yes", "no"):
        one = adapter(fake, model=model)
        before = len(fake.requests)
        one.reset()
        one.close()
        assert (("delete", flows) in fake.requests[before:]) == (model == "no")


def test_what_a_case_asks_the_flow_of_is_set_back(fake: FakeSwitch, switch: TofinoSwitch) -> None:
    """Also where no digest and no report of it came: the next case would count on from there."""
    case = BottleneckTest()
    case.switch, case.profile = switch, switch.profile
    index = case.flow_of(frames.ipv4())
    fake.programs.add(fake.schema.part("arrival_counter", "Counter").name, index, 0, "$COUNTER_SPEC_PKTS", 3, 64)
    switch.reset()
    assert switch.control.read_counters("arrival_counter", [index]) == [(0, 0)]


def test_registers_counters_and_digests_are_read(fake: FakeSwitch, switch: TofinoSwitch) -> None:
    table = fake.schema.part("arrival_counter", "Counter").name
    fake.programs.add(table, 7, 0, "$COUNTER_SPEC_PKTS", 3, 64)
    fake.programs.add(table, 7, 0, "$COUNTER_SPEC_BYTES", 300, 64)
    assert switch.control.read_counters("arrival_counter.flows", [6, 7]) == [(0, 0), (3, 300)]
    assert switch.control.read_counters("delay_histogram.bins", [1]) == [(0, 0)]
    register = fake.schema.part("flow_owner", "Register")
    fake.programs.add(register.name, 8, 0, register.fields[0].name, 41)
    # Another pipe's cell: no port of the suite is there.
    fake.programs.add(register.name, 8, 1, register.fields[0].name, 1)
    assert switch.read_register("flow_owner.signatures", 8) == 41
    fake.send_digest(bottleneck=5, index=9, signature=11, is_ipv6=1, src=1, dst=2, protocol=6, src_port=3, dst_port=4)
    assert switch.control.digests(1, 2.0) == [[5, 9, 11, 1, 1, 2, 6, 3, 4]]


@pytest.mark.parametrize(
    "wrong",
    [
        Entry("cross_connection", {}, "wire", {"port": 1}),
        Entry("loss", {"bottle": 1}, "set_loss", {"threshold": 1}),
        Entry("loss", {"bottleneck": 64}, "set_loss", {"threshold": 1}),
        Entry("loss", {"bottleneck": 1}, "set_loss", {"threshold": 1 << 32}),
        Entry("loss", {"bottleneck": 1}, "set_los", {"threshold": 1}),
        Entry("loss", {"bottleneck": 1}, "set_loss", {}),
    ],
    ids=["table", "key", "key's width", "parameter's width", "action", "missing parameter"],
)
def test_what_the_schema_does_not_have_is_refused(switch: TofinoSwitch, wrong: Entry) -> None:
    with pytest.raises((SchemaError, SwitchRefused)):
        switch.control.insert(wrong)


def test_ports_of_two_pipes_are_refused(fake: FakeSwitch) -> None:
    with pytest.raises(ValueError, match=r"in one pipe, not in \[0, 1\]"):
        adapter(fake, {**MODEL_PORTS, 4: 128})


def test_hashes_are_those_of_the_compiled_program() -> None:
    """Values from the assembler's hash matrices: the seed (all zeros), and a whole 5-tuple by exclusive or."""
    hashes = expected.TofinoHash()
    assert hashes.index(0, expected.Identity()) == 0x98F99BB3 & 0x7FFF
    assert hashes.signature(0, expected.Identity()) == 0x98F99BB3 | 1
    frame = expected.identify(frames.ipv4())
    assert (hashes.index(37, frame), hashes.signature(37, frame)) == (0x7060, 0xD2557C8D)
    frame = expected.identify(frames.ipv6())
    assert (hashes.index(63, frame), hashes.signature(63, frame)) == (0x7CA, 0xCE9D3CE3)


def test_a_testbed_is_read_and_its_ports_are_added(tmp_path: Path, fake: FakeSwitch) -> None:
    lines = [f"chip: {fake.chip}", f"address: {fake.address}", "ports:"]
    for port, dev_port in MODEL_PORTS.items():
        interface = "" if port in LOOPBACK else f", interface: eth{port}"
        lines.append(f"  {port}: {{dev_port: {dev_port}, speed: 25G, fec: rs{interface}}}")
    path = tmp_path / "lab.yaml"
    path.write_text("\n".join(lines))
    testbed = LabFile(path)
    assert testbed.interfaces == {port: f"eth{port}" for port in range(1, 10)}
    target = TofinoTarget(path)
    with target.links() as lab:
        assert lab.namespace is None and lab.tester == testbed.interfaces
    running = target.start(None, {}, tmp_path, 1)
    assert set(fake.tm.ports) == set(MODEL_PORTS.values())
    assert fake.tm.ports[MODEL_PORTS[1]]["$FEC"] == "BF_FEC_TYP_REED_SOLOMON"
    target.start(None, {}, tmp_path, 1)
    one = target.connect(running.parameters, tmp_path)
    one.reset()
    one.close()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("chip: asic\naddress: a\nports: {}", "chip asic is not known"),
        ("chip: tofino", "are needed"),
        ("[", "are needed"),
    ],
)
def test_a_wrong_testbed_is_named(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "lab.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match=complaint) as error:
        LabFile(path)
    assert "lab.yaml" in str(error.value) or "chip" in str(error.value)


@pytest.mark.parametrize("program", [PROGRAM, MANAGED_PROGRAM])
@pytest.mark.parametrize("chip", CHIPS.values(), ids=list(CHIPS))
def test_what_the_driver_is_pointed_to_is_there(tmp_path: Path, chip: Chip, program: str) -> None:
    unpack_program(chip, program, tmp_path)
    configured = json.dumps(configuration(chip, program, tmp_path))
    assert json.loads(configured)["p4_devices"][0]["p4_programs"][0]["program-name"] == program
    paths = re.findall(rf'"({re.escape(str(tmp_path))}/[^"]+)"', configured)
    assert len(paths) == 3 and all(Path(path).is_file() for path in paths)
    tables = {table["name"] for table in json.loads((tmp_path / "bf-rt.json").read_text())["tables"]}
    loaded = json.loads((tmp_path / "pipe" / "context.json").read_text())
    assert loaded["program_name"] == program.replace("narrows_", "") and loaded["target"] == chip.name
    assert any(name.endswith("enqueue_aqm") for name in tables) == (program == MANAGED_PROGRAM)
    assert port_map({12: "switch2", 8: "switch1"})["PortToIf"] == [
        {"device_port": 8, "if": "switch1"},
        {"device_port": 12, "if": "switch2"},
    ]
