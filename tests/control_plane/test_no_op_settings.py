# SPDX-License-Identifier: Apache-2.0
"""Settings that cannot matter: refused where they contradict each other, named before the run where they do nothing."""

from __future__ import annotations

import asyncio
import io
import types
from pathlib import Path
from typing import Any

import pytest
import yaml
from narrows.batch import batch, sweep, task
from narrows.errors import InputError
from narrows.experiment.loader import validate
from narrows.experiment.no_op_settings import no_op_settings
from narrows.experiment.plan import Plan
from narrows.experiment.planning import make_plan
from narrows.experiment.sweep import load_series
from narrows.run.counting import why_lost
from narrows.run.environment import THIS_MACHINE
from narrows.run.runner import CheckedRun, Outcome
from narrows.switch import traffic_manager_pb2 as pb
from narrows.targets.soft.softswitch import Softswitch
from narrows.targets.soft.target import CARRIED_PACKETS_S, SoftTarget
from narrows.virtual.environment import Guests
from rich.console import Console

LINK: dict[str, Any] = {"rate": "100Mbit", "rtt": "40ms", "buffer": "20packets"}
BULK: dict[str, Any] = {"cca": "cubic", "duration": "2s"}
SIZED: dict[str, Any] = {"cca": "cubic", "size": "1MB"}
UDP: dict[str, Any] = {"udp": {"rate": "1Mbit"}, "duration": "2s"}
REVERSE: dict[str, Any] = {"rate": "10Mbit", "buffer": "20packets"}
FRAME, DEEPEST = 1514, 19 * 1514  # what a full-size frame finds that is the last to fit


RATE: dict[str, Any] = {"link": "bottleneck", "rate": "10Mbit"}
PROGRAM: dict[str, Any] = {"client": ["true"]}


def steps(at: str) -> dict[str, Any]:
    return {"rate": {"steps": [{"at": "0s", "rate": "10Mbit"}, {"at": at, "rate": "5Mbit"}]}}


def bursts(length: str) -> dict[str, Any]:
    return {**UDP, "udp": {**UDP["udp"], "bursts": {"length": length, "pause": "1s"}}}


def data(flows: list[dict[str, Any]], link: dict[str, Any] | None = None, **others: Any) -> dict[str, Any]:
    return {"name": "test", "bottleneck": {**LINK, **(link or {})}, "flows": flows, **others}


def network(path: list[str]) -> dict[str, Any]:
    return {"name": "test", "links": {"a": LINK, "b": LINK}, "flows": [{**BULK, "path": path}]}


def plan(link: dict[str, Any], **others: Any) -> Plan:
    return make_plan(validate(data([BULK], link, **others), "x.yaml"))


@pytest.mark.parametrize("threshold", ["1B", "19packets", f"{DEEPEST}B"])
def test_a_threshold_that_some_packet_finds_is_taken(threshold: str) -> None:
    found = plan({"ecn_threshold": threshold}).bottleneck.ecn_threshold
    assert found is not None and f"{found.amount}{'packets' if found.in_packets else 'B'}" == threshold


@pytest.mark.parametrize(
    ("link", "says"),
    [
        ({"ecn_threshold": "20packets"}, "nothing .* finds 0 to 19packets there; allowed: 1packets to 19packets"),
        (
            {"ecn_threshold": f"{DEEPEST + 1}B"},
            "nothing is marked: .* finds 0 to 28766 B there; allowed: 1 B to 28766 B",
        ),
        ({"ecn_threshold": "2bdp"}, "nothing is marked"),
        ({"ecn_threshold": "0.0000001bdp"}, "is 0 B, so that everything is marked"),
        ({"ecn_threshold": "1packets", "buffer": "1packets"}, "allowed: a larger buffer, or no threshold"),
    ],
)
def test_a_threshold_that_no_packet_finds_is_refused(link: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=f"^bottleneck.ecn_threshold: .*{says}"):
        plan(link)


@pytest.mark.parametrize("loss", [1e-10, 1 - 1e-11])
def test_a_loss_that_is_none_or_all_is_refused(loss: float) -> None:
    with pytest.raises(InputError, match=r"^bottleneck.loss: .* cannot be distinguished from [01]; allowed: 0, or "):
        plan({"loss": loss})
    assert plan({"loss": 2**-32}).bottleneck.loss > 0


IDLE = [
    ("flows.0.stagger", data([{**BULK, "stagger": "1s"}]), data([{**BULK, "stagger": "1s", "count": 2}])),
    ("flows.0.gap", data([{**SIZED, "gap": "1s"}]), data([{**SIZED, "gap": "1s", "repeat": 2}])),
    ("flows.0.duration", data([{**SIZED, **BULK}]), data([{**SIZED, **BULK, "repeat": 2}])),
    (
        "flows.1.until",
        data([{**BULK, "name": "a"}, {**SIZED, "until": "a"}]),
        data([{**BULK, "name": "a"}, {**SIZED, "until": "a", "repeat": 2}]),
    ),
    ("bottleneck.rate", data([BULK], hosts={"rate": "99Mbit"}), data([BULK, BULK], hosts={"rate": "99Mbit"})),
    (
        "bottleneck.reverse",
        data([UDP], {"reverse": REVERSE}),
        data([{**UDP, "udp": None, "probe": {"interval": "10ms"}}], {"reverse": REVERSE}),
    ),
    (
        "bottleneck.rate",
        data([{**UDP, "direction": "reverse"}], {"reverse": REVERSE}),
        data([{**BULK, "direction": "reverse"}], {"reverse": REVERSE}),
    ),
    ("links.b", network(["a"]), network(["a", "b"])),
    ("events.0.at", data([BULK], events=[{**RATE, "at": "2s"}]), data([BULK], events=[{**RATE, "at": "1s"}])),
    (
        "events.0.at",
        data([BULK], events=[{**RATE, "at": "9s"}]),
        data([{**BULK, "start": "8s"}], events=[{**RATE, "at": "9s"}]),
    ),
    (
        "events.1.at",
        data([BULK], events=[{"at": "1s", "start": "cubic"}, {**RATE, "at": "3s"}]),
        data([BULK], events=[{"at": "2s", "start": "cubic"}, {**RATE, "at": "3s"}]),
    ),
    ("bottleneck.rate.steps.1.at", data([BULK], steps("5s")), data([BULK], steps("1s"))),
    (
        "bottleneck.ecn_threshold",
        data([UDP, {**BULK, "tcp": {"ecn": False}}], {"ecn_threshold": "5packets"}),
        data([{**UDP, "udp": {**UDP["udp"], "ecn": "ect0"}}], {"ecn_threshold": "5packets"}),
    ),
    (
        "bottleneck.queue.harddrop",
        data([BULK], {"queue": {"kind": "red", "harddrop": True}}),
        data([BULK], {"queue": {"kind": "red", "harddrop": True, "ecn": True}}),
    ),
    ("tcp_buffer", data([UDP], tcp_buffer="1MB"), data([UDP, BULK], tcp_buffer="1MB")),
    ("hosts.date", data([BULK], hosts={"date": "2026-11-25"}), data([PROGRAM], hosts={"date": "2026-11-25"})),
    ("hosts.syscall", data([BULK], hosts={"syscall": "1us"}), data([PROGRAM], hosts={"syscall": "1us"})),
    ("flows.0.gap", data([{**PROGRAM, "gap": "1s"}]), data([PROGRAM])),
    ("flows.0.timeout", data([{**PROGRAM, "timeout": "9s", "duration": "2s"}]), data([{**PROGRAM, "timeout": "9s"}])),
    # 1,200 bytes take 9.6 ms of 1 Mbit/s.
    ("flows.0.udp.bursts.length", data([bursts("9ms")]), data([bursts("10ms")])),
    # 2 s of 100 Mbit/s are 16,512 full-size packets.
    ("telemetry.sample", data([BULK], telemetry={"sample": 32768}), data([BULK], telemetry={"sample": 16384})),
    ("telemetry.sockets", data([BULK], telemetry={"sockets": "3s"}), data([BULK], telemetry={"sockets": "2s"})),
]


@pytest.mark.parametrize(("field", "idle", "at_work"), IDLE, ids=[field for field, _, _ in IDLE])
def test_what_changes_nothing_is_found(field: str, idle: dict[str, Any], at_work: dict[str, Any]) -> None:
    assert list(no_op_settings([validate(idle, "x.yaml")])) == [field]
    assert no_op_settings([validate(at_work, "x.yaml")]) == {}
    # It matters in one point of a sweep.
    assert no_op_settings([validate(idle, "x.yaml"), validate(at_work, "x.yaml")]) == {}


@pytest.mark.parametrize("path", sorted((Path(__file__).parents[2] / "experiments").rglob("*.yaml")), ids=str)
def test_our_own_experiments_have_none(path: Path) -> None:
    if "\nbottleneck:" in path.read_text():
        assert no_op_settings([point.experiment for point in load_series(path).points]) == {}


def test_a_run_names_them_before_it_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "x.yaml"
    written = data([{**BULK, "stagger": "1s"}], {"rate": "10Gbit"}, repeat=2)
    file.write_text(yaml.safe_dump(written, sort_keys=False))
    said = io.StringIO()
    seen: list[str] = []

    def execute(run: CheckedRun, directory: Path, *_: Any) -> Outcome:
        seen.append(said.getvalue())
        return Outcome("complete", "", directory, None, ())

    def check(experiment: Any, target: Any, origin: str, environment: Any) -> CheckedRun:
        made = make_plan(experiment)
        return CheckedRun(experiment, made, target, environment, {}, tuple(environment.notes(made, target)))

    monkeypatch.setattr(batch, "check", check)
    monkeypatch.setattr(task, "execute", execute)
    list(sweep.run_series(load_series(file), lambda _: SoftTarget(), tmp_path / "out", Console(file=said)))
    assert f"note: {file}:9: flows.0.stagger: has no effect: the group has one flow (count: 1)\n" in seen[0]
    # For both repetitions at once.
    assert seen[0].count("note: ") == 2
    assert f"note: {file}:3: bottleneck.rate: 825,627 full-size packets/s; in real time about 300,000" in seen[0]


def test_a_rate_beyond_the_machine_names_virtual_time() -> None:
    fast, slow = plan({"rate": "10Gbit"}), plan({"rate": f"{CARRIED_PACKETS_S * FRAME * 8}bit"})
    (note,) = THIS_MACHINE.notes(fast, SoftTarget())
    assert "--virtual is exact at any rate" in note
    assert THIS_MACHINE.notes(slow, SoftTarget()) == []
    # The same rate in larger packets are fewer.
    assert THIS_MACHINE.notes(plan({"rate": "10Gbit"}, mtu=9000), SoftTarget()) == []
    assert Guests.notes(types.SimpleNamespace(_about=types.SimpleNamespace(flaws=())), fast, SoftTarget()) == []  # type: ignore[arg-type]


@pytest.mark.parametrize(("running", "named"), [(False, True), (True, False)])
def test_a_run_that_loses_packets_to_the_machine_names_virtual_time(running: bool, named: bool) -> None:
    losses = ["port 1: 7 packets not received by the switch: its receive ring was full", "3 packets lost"]
    target: Any = types.SimpleNamespace(switch_is_running=running)
    why = why_lost(losses, plan({}), target)
    assert "its receive ring was full; 3 packets lost" in why
    assert ("--virtual" in why) == named
    assert why_lost([], plan({}), target) == ""


@pytest.mark.parametrize(
    ("late", "sent", "found"), [(200, 2000, []), (201, 2000, ["port 1"]), (100, 100, []), (101, 101, ["port 1"])]
)
def test_a_switch_that_holds_a_tenth_of_the_packets_up_fails_the_run(late: int, sent: int, found: list[str]) -> None:
    """Late reports do not count, nor does a single pause."""
    ports = [pb.Port(port=port, tx_packets=sent, tx_late=count) for port, count in ((1, late), (2, 0), (3, 1000))]

    async def port_stats() -> pb.PortStatsResponse:
        return pb.PortStatsResponse(ports=ports)

    async def listed() -> pb.ListResponse:
        return pb.ListResponse()

    switch: Any = Softswitch("switch")
    switch._process = types.SimpleNamespace(returncode=None)
    switch._manager = types.SimpleNamespace(port_stats=port_stats, list=listed)
    lines = asyncio.run(switch.losses(ports_except=(3,)))
    assert [line.partition(":")[0] for line in lines] == found
    assert all(f"{late} of {sent} packets left more than 10 ms after their time" in line for line in lines)
