# SPDX-License-Identifier: Apache-2.0
"""Injected faults: what the user reads, and that nothing is left half-programmed (docs/tofino-faults.md)."""

from __future__ import annotations

import asyncio
import queue
import resource
import signal
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from fakeswitch.faults import Fault, abort, refuse, stall
from fakeswitch.fixtures import PIPE, RECEIVER_PORT, SENDER_PORT, fresh_counters, inventory, kind, make_experiment
from fakeswitch.server import PROGRAM, FakeSwitch
from fakeswitch.traffic_manager import ALL_PIPES
from narrows.errors import InputError, NarrowsError, RunError
from narrows.experiment.plan import Plan
from narrows.experiment.planning import make_plan
from narrows_tofino.bfrt.client import Client, Endpoint, Operation
from narrows_tofino.bfrt.connect import connect
from narrows_tofino.programming.audit import AuditError, AuditLog, Change, read_audit
from narrows_tofino.restore import restore_from
from narrows_tofino.target import TofinoTarget
from narrows_tofino.testbed.inventory import Inventory

__all__ = ["fresh_counters", "inventory", "kind"]

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "tofino-faults.md"
TIMEOUT_S = 1.5


def quickly(endpoint: Endpoint, prefer: Sequence[str]) -> Client:
    return connect(replace(endpoint, timeout_s=TIMEOUT_S), prefer)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("narrows_tofino.phases.configured.LINK_WAIT_S", 0.3)


@pytest.fixture
def switch() -> Iterator[FakeSwitch]:
    fake = FakeSwitch("tofino")
    yield fake
    fake.stop()


@dataclass(frozen=True)
class Case:
    """A fault, what the user reads, and whether a run would have gone on."""

    name: str
    inject: Callable[[FakeSwitch], None]
    says: str


def at(rpc: str, act: Callable[[grpc.ServicerContext], None], **more: object) -> Callable[[FakeSwitch], None]:
    """Put a fault into the switch."""
    return lambda switch: switch.faults.append(Fault(rpc, act, **more))  # type: ignore[arg-type]


def add_port(speed: str = "100G", flag: str = "") -> Callable[[FakeSwitch], None]:
    port: dict[str, Any] = {"$SPEED": f"BF_SPEED_{speed}", "$FEC": "BF_FEC_TYP_RS"}
    if flag:
        port[flag] = True
    return lambda switch: switch.tm.add_port(RECEIVER_PORT, port)


def restart(switch: FakeSwitch) -> None:
    switch.faults.append(Fault("write", lambda _: switch.restart(), table="queue.sched_cfg"))


def end_sessions(switch: FakeSwitch) -> None:
    def act(context: grpc.ServicerContext) -> None:
        switch.end_sessions()
        context.abort(grpc.StatusCode.UNAVAILABLE, "injected")

    switch.faults.append(Fault("write", act, table="queue.sched_shaping"))


def halve_pool(switch: FakeSwitch) -> None:
    def act(_: grpc.ServicerContext) -> None:
        switch.tm.settings["pool.cfg", ("EG_APP_POOL_1",), ALL_PIPES]["size_cells"] = 5000

    switch.faults.append(Fault("write", act, table="pool.cfg", when="after"))


def use_up_profiles(switch: FakeSwitch) -> None:
    switch.tm.profiles[PIPE] = set(range(40, 40 + 8 * 32, 8))


def fill_table(switch: FakeSwitch) -> None:
    table = switch.schema.table("cross_connect")

    def act(_: grpc.ServicerContext) -> None:
        for number in range(table.size):
            key = ((number, 511), (0, 0), (0, 0), (0, 0), (0, 0), (0, 0), 5000)
            switch.programs.entries[table.name][key] = (table.action("discard").id, {})

    switch.faults.append(Fault("write", act, table="cross_connect"))


def ignored(_: grpc.ServicerContext) -> None:
    """Instead of carrying a write out."""


def unload_tables(switch: FakeSwitch) -> None:
    switch.documents = (b'{"tables": []}', switch.documents[1])


DURING_SETUP = [
    Case("subscription-refused", lambda s: s.streams.update({1: queue.SimpleQueue()}), "client id is taken"),
    Case("subscription-unanswered", at("subscribe", stall(3)), "no answer in 1.5 s"),
    Case("bind-already-exists", lambda s: s.bound.update({PROGRAM: 99}), "is bound to another BF Runtime client"),
    Case("program-not-loaded", lambda s: s.programs_loaded.clear(), "cannot bind to program 'narrows': NOT_FOUND"),
    Case("program-is-another", unload_tables, r"serves no table 'flow_arrivals .*is the Narrows program loaded"),
    Case("schema-unreadable", lambda s: setattr(s, "documents", (b"{", b"{")), "is not JSON"),
    Case("schema-unavailable", at("config", abort()), "no schema: UNAVAILABLE"),
    Case("port-refused", at("write", refuse("INVALID_ARGUMENT"), table="$PORT", nth=3), r"refuses insert of \$PORT"),
    Case("port-speed-differs", add_port("40G"), "runs at 40G, not at 100G"),
    Case("port-pauses", add_port(flag="$TX_PAUSE_FRAME_EN"), "dropped from, not paused"),
    Case("port-cut-through", add_port(flag="$CUT_THROUGH_EN"), "every packet must be queued"),
    Case("link-down", lambda s: setattr(s.tm, "links", False), "no link on port 1/0, 2/0, 3/0, 17/0"),
    Case("priority-group", lambda s: s.tm._at("port.dpg", (SENDER_PORT,)).update(icos_0=False), r"a priority group"),
    Case("limit-refused", at("write", refuse("INVALID_ARGUMENT"), table="queue.buffer"), r"refuses modify of tf1\.tm"),
    Case("queue-unmapped", lambda s: s.tm.unmapped.add((0, 0, PIPE)), "UNAVAILABLE: .*Not ready"),
    Case("not-ready", at("write", refuse("UNAVAILABLE", "Not ready"), table="sched_cfg"), "UNAVAILABLE: Not ready"),
    Case(
        "in-use-for-ever",
        at("write", refuse("UNAVAILABLE", "lock In use"), table="pool.cfg", times=-1),
        "UNAVAILABLE: lock In use",
    ),
    Case(
        "write-ignored",
        at("write", ignored, table="sched_shaping", when="instead"),
        "was written, but max_rate reads|was written, but provisioning reads",
    ),
    Case("write-altered", halve_pool, "size_cells reads 5000 instead of"),
    Case("read-back-refused", at("read", refuse("INTERNAL"), table="pool.cfg", nth=4), "refuses reading tf1.tm.pool"),
    Case("call-broken", at("write", abort(), table="port.dpg"), "port.dpg .*UNAVAILABLE: injected"),
    Case("answer-lost", at("write", abort(), table="port.dpg", when="after"), "port.dpg .*UNAVAILABLE"),
    Case("answer-late", at("write", stall(3), table="pool.cfg", when="after"), "DEADLINE_EXCEEDED"),
    Case("session-ended", end_sessions, "sched_shaping .*UNAVAILABLE|ended the session"),
    Case("switch-restarted", restart, "UNKNOWN|ended the session|refuses"),
    Case("profiles-used-up", use_up_profiles, "RESOURCE_EXHAUSTED"),
    Case("table-full", fill_table, "cross_connect .*RESOURCE_EXHAUSTED"),
    Case("mirror-refused", at("write", refuse("NOT_FOUND"), table="$mirror.cfg"), r"refuses insert of \$mirror.cfg"),
    Case("clear-refused", at("write", refuse("INTERNAL"), table="totals"), "refuses clear of .*flow_arrivals"),
    Case("one-of-many-refused", at("write", refuse("INTERNAL"), table="delay_bins", nth=60), "delay_bins .*INTERNAL"),
    Case("one-of-many-unanswered", at("write", abort(), table="delay_bins", when="after", nth=60), "UNAVAILABLE"),
    Case("one-of-many-not-read", at("read", refuse("INTERNAL"), table="delay_bins", nth=3), "refuses reading .*bins"),
    Case(
        "one-of-many-ignored",
        at("write", ignored, table="delay_bins", when="instead", nth=60),
        "delay_bins .*was written, but there is no such entry",
    ),
    Case(
        "last-entry-refused",
        at("write", refuse("RESOURCE_EXHAUSTED"), table="cross_connect", nth=4),
        "cross_connect .*RESOURCE_EXHAUSTED",
    ),
]


def run(inventory: Inventory, path: Path, body: Callable[[TofinoTarget, Plan], Awaitable[None]]) -> None:
    """One run's life: whatever happens in between, the target is stopped."""

    async def life() -> None:
        target = TofinoTarget(inventory, path, connect_to=quickly)
        plan = target.bind_to_target(make_plan(make_experiment(loss="1%")))
        try:
            await target.start()
            await target.configure(plan)
            await body(target, plan)
        finally:
            await target.stop()

    asyncio.run(life())


async def nothing(target: TofinoTarget, plan: Plan) -> None:
    """A run without traffic."""


@pytest.mark.parametrize("case", DURING_SETUP, ids=lambda case: case.name)
def test_faults_during_setup(case: Case, switch: FakeSwitch, inventory: Inventory, tmp_path: Path) -> None:
    case.inject(switch)
    before = switch.state()
    with pytest.raises(NarrowsError, match=case.says) as raised:
        run(inventory, tmp_path / "audit.jsonl", nothing)
    words = str(raised.value)
    after = switch.state()
    if case.name == "table-full":
        # What filled the table is not ours.
        for state in (before, after):
            state["entries"].pop(switch.schema.table("cross_connect").name, None)
    assert after == before, case.name
    assert "Traceback" not in words


def test_every_fault_is_documented() -> None:
    text = DOCUMENT.read_text()
    names = [case.name for case in DURING_SETUP] + OTHERS
    assert len(names) == len(set(names)) >= 20
    assert [name for name in names if f"`{name}`" not in text] == []


OTHERS = [
    "not-listening",
    "in-use-for-a-moment",
    "restart-in-mid-run",
    "session-ended-in-mid-run",
    "setting-changed-in-mid-run",
    "speed-changed-in-mid-run",
    "speed-changed-at-the-end",
    "queue-too-shallow",
    "queue-too-deep",
    "pool-full",
    "drops-elsewhere",
    "audit-log-full",
    "teardown-refused",
    "switch-gone-at-teardown",
    "killed",
]


def test_nobody_listens(tmp_path: Path, switch: FakeSwitch, inventory: Inventory) -> None:
    switch.stop()
    with pytest.raises(RunError, match=rf"switch {switch.address}: .*"):
        run(inventory, tmp_path / "audit.jsonl", nothing)


def test_in_use_for_a_moment(switch: FakeSwitch, inventory: Inventory, tmp_path: Path) -> None:
    before = switch.state()
    switch.faults.append(Fault("write", refuse("UNAVAILABLE", "write lock In use"), table="pool.cfg", times=3))
    run(inventory, tmp_path / "audit.jsonl", nothing)
    assert switch.state() == before


@pytest.mark.parametrize(("ends", "by_itself"), [(FakeSwitch.restart, True), (FakeSwitch.end_sessions, False)])
def test_a_session_that_ends_in_mid_run_is_reported_and_the_switch_given_back(
    switch: FakeSwitch, inventory: Inventory, tmp_path: Path, ends: Callable[[FakeSwitch], None], by_itself: bool
) -> None:
    """A restarted switch has lost what was set up; another one is given back by a new session."""
    before = switch.state()

    async def body(target: TofinoTarget, plan: Plan) -> None:
        ends(switch)
        await asyncio.sleep(0.2)
        assert by_itself or switch.state() != before
        await target.queues()

    with pytest.raises(RunError, match="ended the session"):
        run(inventory, tmp_path / "audit.jsonl", body)
    assert switch.state() == before


def test_setting_changed_in_mid_run(switch: FakeSwitch, inventory: Inventory, tmp_path: Path) -> None:
    async def body(target: TofinoTarget, plan: Plan) -> None:
        switch.tm.settings["queue.sched_shaping", (0, 0), PIPE]["max_rate"] = 1_000_000
        (words,) = await target.unexpected_losses(plan)
        assert words.startswith("a setting was changed during the run: tf1.tm.queue.sched_shaping")

    with pytest.raises(RunError, match=r"sched_shaping .*another client has changed it since; left as it is"):
        run(inventory, tmp_path / "audit.jsonl", body)
    assert set(switch.state()["settings"]) <= {("queue.sched_shaping", (0, 0), PIPE)}


def test_speed_changed_in_mid_run(switch: FakeSwitch, inventory: Inventory, tmp_path: Path) -> None:
    async def body(target: TofinoTarget, plan: Plan) -> None:
        switch.tm.modify_port(RECEIVER_PORT, {"$SPEED": "BF_SPEED_40G"})
        assert switch.tm.settings["queue.sched_shaping", (0, 0), PIPE]["max_rate"] == 40_000_000
        await target.queues()
        assert switch.tm.ports[RECEIVER_PORT]["$SPEED"] == "BF_SPEED_100G"
        assert switch.tm.settings["queue.sched_shaping", (0, 0), PIPE]["max_rate"] == 10_000_000
        # A second time, and back at once: the port's speed does not show it.
        for speed in ("BF_SPEED_40G", "BF_SPEED_100G"):
            switch.tm.modify_port(RECEIVER_PORT, {"$SPEED": speed})
        await target.queues()
        assert switch.tm.settings["queue.sched_shaping", (0, 0), PIPE]["max_rate"] == 10_000_000
        first, second = await target.unexpected_losses(plan)
        assert "port 1/0 was reset during the run; made again" in first
        assert "$SPEED reads 'BF_SPEED_40G' instead of" in first and "max_rate reads" in first
        assert "$SPEED" not in second and "max_rate reads" in second

    before = switch.state()
    run(inventory, tmp_path / "audit.jsonl", body)
    assert switch.state() == before


def test_speed_changed_at_the_end_of_a_run(switch: FakeSwitch, inventory: Inventory, tmp_path: Path) -> None:
    """After the last reading nothing makes it again: it is reported, and left to whoever did it."""

    async def body(target: TofinoTarget, plan: Plan) -> None:
        switch.tm.modify_port(RECEIVER_PORT, {"$SPEED": "BF_SPEED_40G"})
        found = await target.unexpected_losses(plan)
        assert any("$SPEED reads 'BF_SPEED_40G' instead of" in words for words in found)
        assert any("max_rate reads" in words for words in found)

    with pytest.raises(RunError, match="left as it is"):
        run(inventory, tmp_path / "audit.jsonl", body)


def test_drops_elsewhere(switch: FakeSwitch, inventory: Inventory, tmp_path: Path) -> None:
    before = switch.state()

    async def body(target: TofinoTarget, plan: Plan) -> None:
        switch.tm.counters["ig_port", (SENDER_PORT,), ALL_PIPES, "drop_count_packets"] += 12
        found = await target.unexpected_losses(plan)
        assert found == ["12 packets dropped at ingress of port 136, before the bottleneck's queue was full"]

    run(inventory, tmp_path / "audit.jsonl", body)
    assert switch.state() == before


def test_audit_log_full(switch: FakeSwitch, inventory: Inventory) -> None:
    before = switch.state()
    with pytest.raises(RunError, match="/dev/full: the audit log cannot be written: No space left on device"):
        run(inventory, Path("/dev/full"), nothing)
    assert switch.state() == before


def test_teardown_refused(switch: FakeSwitch, inventory: Inventory, tmp_path: Path) -> None:
    before = switch.state()
    log = tmp_path / "audit.jsonl"

    async def body(target: TofinoTarget, plan: Plan) -> None:
        switch.faults.append(Fault("write", refuse("INTERNAL"), table="queue.buffer"))

    with pytest.raises(RunError, match=r"(?s)queue\.buffer .*INTERNAL.*narrows_tofino\.restore INVENTORY"):
        run(inventory, log, body)
    left = switch.state()
    # Everything else was restored in spite of it; the port it belongs to is gone with its queue.
    assert left["entries"] == before["entries"] and left["ports"] == before["ports"]


def test_switch_gone_at_teardown(switch: FakeSwitch, inventory: Inventory, tmp_path: Path) -> None:
    before = switch.state()
    log = tmp_path / "audit.jsonl"

    async def body(target: TofinoTarget, plan: Plan) -> None:
        switch.end_sessions()
        await asyncio.sleep(0.2)
        switch.faults.append(Fault("bind", abort(), times=1))

    with pytest.raises(RunError, match=r"(?s)could not be given back .*UNAVAILABLE.*tofino\.restore INVENTORY"):
        run(inventory, log, body)
    assert switch.state() != before
    count, problems = restore_from(inventory, log)
    assert count > 130 and problems == []
    assert switch.state() == before


@pytest.mark.parametrize("kept", [0, 1, 40, -1])
def test_killed(switch: FakeSwitch, inventory: Inventory, tmp_path: Path, kept: int) -> None:
    """Killed between a write and its record, or within it: the intent is on disk. ``kept``: so much of the record."""
    before = switch.state()
    log = tmp_path / "audit.jsonl"

    async def life() -> None:
        target = TofinoTarget(inventory, log, connect_to=quickly)
        await target.start()
        await target.configure(target.bind_to_target(make_plan(make_experiment())))
        switch.end_sessions()
        lines = log.read_text().splitlines()
        assert '"phase": "done"' in lines[-1]
        log.write_text("\n".join(lines[:-1]) + "\n" + lines[-1][:kept])

    asyncio.run(life())
    count, problems = restore_from(inventory, log)
    assert count > 130 and problems == []
    assert switch.state() == before
    assert restore_from(inventory, log) == (0, []), "what was added to the log can be read"


def test_a_record_that_the_disk_has_no_room_for_leaves_no_part_of_itself(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl")
    change = Change(Operation.MODIFY, "table", {"key": 1}, 0, None, {"value": 2}, None, None)
    log.record(change)
    room = (tmp_path / "audit.jsonl").stat().st_size + 10
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    # Without a handler the signal would end this process.
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
        with pytest.raises(AuditError, match="cannot be written"):
            log.record(change)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    log.record(change)
    log.close()
    assert len(read_audit(tmp_path / "audit.jsonl")) == 2


def test_an_audit_log_is_no_link(tmp_path: Path) -> None:
    """Root would append to what a link in a user's results leads to."""
    (tmp_path / "passwd").write_text("root's\n")
    (tmp_path / "audit.jsonl").symlink_to(tmp_path / "passwd")
    with pytest.raises(InputError, match=r"audit\.jsonl: the audit log cannot be written"):
        AuditLog(tmp_path / "audit.jsonl")
    assert (tmp_path / "passwd").read_text() == "root's\n"
