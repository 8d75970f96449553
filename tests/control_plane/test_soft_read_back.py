# SPDX-License-Identifier: Apache-2.0
"""Settings that the softswitch accepts and does not keep: the run fails.

The switch is the real one, without interfaces; what ignores a setting is between it and the target.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from finsy.proto import p4r
from narrows.errors import RunError
from narrows.experiment.loader import validate
from narrows.experiment.plan import Plan
from narrows.experiment.planning import make_plan
from narrows.hosts.base import SharedFiles
from narrows.hosts.process import Process, spawn
from narrows.targets.soft.target import SoftTarget

pytestmark = pytest.mark.needs("narrows-softswitch")

LINK = {"rate": "10Mbit", "rtt": "20ms", "buffer": "100kB", "loss": 0.25, "ecn_threshold": "15kB"}
DELAYS = {"steps": [{"at": "0s", "delay": "5ms"}, {"at": "1s", "delay": "9ms"}]}
STEPS = {"steps": [{"at": "0s", "rate": "10Mbit"}, {"at": "1s", "rate": "5Mbit"}]}


def plan(**link: Any) -> Plan:
    data = {"name": "x", "bottleneck": {**LINK, **link}, "flows": [{"cca": "reno", "duration": "1s"}]}
    return make_plan(validate(data, "x.yaml"))


def configure(
    plan: Plan,
    directory: Path,
    sabotage: Callable[[SoftTarget], None],
    later: Callable[[SoftTarget], Awaitable[Any]] | None = None,
) -> Any:
    """What a target says was applied at a switch of its own, after something stood in its way.

    With ``later`` the switch is set up first, then something is put in its way, and ``later`` is the answer.
    """

    class Here(SharedFiles):
        attachments: tuple[()] = ()
        state_dir = directory

        async def spawn(self, _: str, arguments: list[str], *, stderr: Path) -> Process:
            return await spawn(arguments, "narrows-softswitch", stderr=stderr)

    async def attempt() -> Any:
        target = SoftTarget()
        target._take(plan)
        testbed: Any = Here()
        loopbacks = [port.number for port in plan.ports]
        try:
            await target._switch.start(testbed, {}, 1, loopbacks, devices=target._devices)
            if later is not None:
                await target.configure(plan)
            sabotage(target)
            return await (target.configure(plan) if later is None else later(target))
        finally:
            await target.stop()

    return asyncio.run(asyncio.wait_for(attempt(), 60))


def forgets(field: str, value: Any = None) -> Callable[[SoftTarget], None]:
    """A traffic manager that leaves a field of each request out, or takes another value for it."""

    def sabotage(target: SoftTarget) -> None:
        manager: Any = target._switch.manager
        set_all = manager.configure

        async def set_others(request: Any) -> Any:
            taken = type(request)()
            taken.CopyFrom(request)
            if taken.HasField(field):
                taken.ClearField(field)
                if value is not None:
                    setattr(taken, field, value)
            return await set_all(taken)

        manager.configure = set_others

    return sabotage


def entries_pass(change: Callable[[Any], bool]) -> Callable[[SoftTarget], None]:
    """A switch that takes a request for entries and keeps those for which ``change`` says so, as it made them."""

    def sabotage(target: SoftTarget) -> None:
        stub = target._switch.session._stub
        write = stub.Write

        def write_others(request: Any, **options: Any) -> Any:
            kept = [update for update in request.updates if change(update.entity)]
            return write(
                p4r.WriteRequest(device_id=request.device_id, election_id=request.election_id, updates=kept), **options
            )

        stub.Write = write_others

    return sabotage


def with_another_parameter(entity: Any) -> bool:
    """The last byte of every parameter has another bit: a loss, a threshold, a port."""
    for parameter in entity.table_entry.action.action.params if entity.HasField("table_entry") else []:
        parameter.value = parameter.value[:-1] + bytes([parameter.value[-1] ^ 1])
    return True


def test_without_sabotage_all_is_as_asked(tmp_path: Path) -> None:
    applied = configure(plan(), tmp_path, lambda _: None)
    (link,) = applied.links.values()
    assert (link.rate_bps, link.limit_bytes, link.limit_packets) == (10_000_000, 100_000, None)


@pytest.mark.parametrize(
    ("link", "sabotage", "says"),
    [
        ({}, forgets("rate_bps"), "queue for bottleneck reads back as"),
        ({}, forgets("rate_bps", 9_999_999), "queue for bottleneck reads back as"),
        ({}, forgets("limit_bytes"), "queue for bottleneck reads back as"),
        ({"buffer": "50packets"}, forgets("limit_packets", 51), "queue for bottleneck reads back as"),
        ({"rate": STEPS}, forgets("rate_schedule"), "schedule of the rate for bottleneck reads back as"),
        ({"delay": DELAYS}, forgets("delay_schedule"), "schedule of the delay for bottleneck reads back as"),
        (
            {"delay": "2ms", "jitter": {"uniform": "1ms"}},
            forgets("variation"),
            "variation for bottleneck reads back as",
        ),
        ({"burst": "15kB"}, forgets("burst_bytes"), "burst for bottleneck reads back as"),
        ({"policer": {"rate": "5Mbit", "burst": "15kB"}}, forgets("policer"), "policer for bottleneck reads back as"),
        ({"aggregation": {"frames": 4}}, forgets("aggregation"), "aggregation for bottleneck reads back as"),
        ({"ack_filter": "conservative"}, forgets("ack_filter"), "ACK filter for bottleneck reads back as"),
        ({"framing": {"linklayer": "atm"}}, forgets("framing"), "framing for bottleneck reads back as"),
        ({"queue": "head-drop"}, forgets("head_drop"), "drop from the head for bottleneck reads back as"),
        ({"queue": "fq"}, forgets("management"), "queue management for bottleneck reads back as"),
        ({}, forgets("delay_ns"), "the delay reads back as"),
        ({}, entries_pass(lambda entity: entity.HasField("table_entry")), "does not have the entry .*Clone"),
        ({}, entries_pass(lambda entity: not entity.HasField("table_entry")), "does not have the entry .*TableEntry"),
        ({}, entries_pass(with_another_parameter), "does not have the entry .*TableEntry"),
    ],
    ids=[
        "rate",
        "another rate",
        "bytes",
        "packets",
        "schedule",
        "delays",
        "jitter",
        "burst",
        "policer",
        "bursts",
        "ACK filter",
        "framing",
        "head drop",
        "queue management",
        "delay",
        "clone session",
        "no entry",
        "parameter",
    ],
)
def test_what_the_switch_does_not_keep_fails_the_run(
    tmp_path: Path, link: dict[str, Any], sabotage: Callable[[SoftTarget], None], says: str
) -> None:
    with pytest.raises(RunError, match=says):
        configure(plan(**link), tmp_path, sabotage)


PROGRAM = Path(__file__).parents[2] / "softswitch/switch/tests/stf/programs/metered_profiles"
# By the program's P4Info: a selector's member 1 shows a value, group 2 has it, entries of keys 1 and 2 lead there.
OF_A_USER = r"""
updates {{ type: INSERT entity {{ action_profile_member {{
  action_profile_id: 301281593 member_id: 1 action {{ action_id: 32964478 params {{ param_id: 1 value: "\x00\x09" }} }}
}} }} }}
updates {{ type: INSERT entity {{ action_profile_group {{
  action_profile_id: 301281593 group_id: 2 members {{ member_id: 1 weight: 1 }}
}} }} }}
updates {{ type: INSERT entity {{ table_entry {{
  table_id: 40919372 match {{ field_id: 1 exact {{ value: "{one}" }} }} action {{ action_profile_group_id: 2 }} {more}
}} }} }}
updates {{ type: INSERT entity {{ table_entry {{
  table_id: 40919372 match {{ field_id: 1 exact {{ value: "\x02" }} }} action {{ action_profile_member_id: 1 }}
}} }} }}
updates {{ type: INSERT entity {{ packet_replication_engine_entry {{ clone_session_entry {{
  session_id: 5 replicas {{ port: "\x00\x01" instance: 1 }}
}} }} }} }}
"""
METER = "cir: 1000 cburst: 20 pir: 1250 pburst: 30"
KEY = r'table_id: 40919372 match { field_id: 1 exact { value: "\x00\x02" } }'
DIRECT_METER = (
    f"updates {{ type: MODIFY entity {{ direct_meter_entry {{ table_entry {{ {KEY} }} config {{ {METER} }} }} }} }}"
)
DELETED = f"updates {{ type: DELETE entity {{ table_entry {{ {KEY} }} }} }}"
CHANGED = f"updates {{ type: MODIFY entity {{ table_entry {{ {KEY} action {{ action_profile_group_id: 2 }} }} }} }}"


def of_a_user(directory: Path, one: str = r"\x01", more: str = "", after: str = "") -> Plan:
    """A plan whose program is a user's, with these entries."""
    entries = directory / "entries.txtpb"
    entries.write_text(OF_A_USER.format(one=one, more=more) + after)
    files = {"json": f"{PROGRAM}.json", "p4info": f"{PROGRAM}.p4info.txtpb", "entries": str(entries)}
    bottleneck: Any = {"rate": "10Mbit", "rtt": "20ms", "buffer": "100kB"}
    bottleneck |= {"program": files | {"ports": {"a": 1, "b": 2}}}
    flow = {"cca": "reno", "from": "a", "to": "b", "duration": "1s"}
    return make_plan(validate({"name": "x", "bottleneck": bottleneck, "flows": [flow]}, "x.yaml"))


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"one": r"\x00\x01"},
        {"more": f"meter_config {{ {METER} }} counter_data {{ packet_count: 7 }}"},
        {"after": DIRECT_METER},
        {"after": DELETED},
        {"after": CHANGED + DIRECT_METER},
    ],
    ids=["as it is", "leading zeros", "meter", "meter of its own", "deleted", "changed"],
)
def test_what_the_updates_of_a_user_leave_is_read_back(tmp_path: Path, given: dict[str, str]) -> None:
    (link,) = configure(of_a_user(tmp_path, **given), tmp_path, alone()).links.values()
    assert link.rate_bps == 10_000_000


def meters_at_half_rate(entity: Any) -> bool:
    """A direct meter that comes with an entry is slower, and so is one of its own."""
    for meter in (entity.table_entry.meter_config, entity.direct_meter_entry.config):
        if meter.cir:
            meter.cir //= 2
    return True


def alone(sabotage: Callable[[SoftTarget], None] = lambda _: None) -> Callable[[SoftTarget], None]:
    """The same of a switch without a collector: reports need an interface."""

    async def observe(_: Any) -> None:
        pass

    def without_collector(target: SoftTarget) -> None:
        manager: Any = target._switch.manager
        manager.observe = observe
        sabotage(target)

    return without_collector


@pytest.mark.parametrize(
    ("given", "sabotage", "says"),
    [
        ({"more": f"meter_config {{ {METER} }}"}, meters_at_half_rate, "does not have the entry .*TableEntry"),
        ({"after": DIRECT_METER}, meters_at_half_rate, "does not have the entry .*TableEntry"),
        ({}, lambda entity: not entity.HasField("table_entry"), "does not have the entry .*TableEntry"),
        ({}, lambda entity: entity.HasField("table_entry") or "member" in str(entity), "does not have the .*Clone"),
    ],
    ids=["meter", "meter of its own", "no entry", "clone session"],
)
def test_what_the_switch_does_not_keep_of_a_user_fails_the_run(
    tmp_path: Path, given: dict[str, str], sabotage: Callable[[Any], bool], says: str
) -> None:
    with pytest.raises(RunError, match=says):
        configure(of_a_user(tmp_path, **given), tmp_path, alone(entries_pass(sabotage)))


def begins_elsewhere(target: SoftTarget) -> None:
    """Schedules begin a second later than they are asked to."""
    manager: Any = target._switch.manager
    start = manager.start_schedules
    manager.start_schedules = lambda epoch_ns: start(epoch_ns + 1_000_000_000)


@pytest.mark.parametrize("varying", [{"rate": STEPS}, {"delay": DELAYS}], ids=["rate", "delay"])
def test_a_schedule_that_begins_at_another_time_fails_the_run(tmp_path: Path, varying: dict[str, Any]) -> None:
    async def start(target: SoftTarget) -> None:
        await target.start_schedules(await target.now_ns() + 5_000_000_000)

    assert configure(plan(**varying), tmp_path, lambda _: None, start) is None
    with pytest.raises(RunError, match="of the softswitch: a schedule begins at"):
        configure(plan(**varying), tmp_path, begins_elsewhere, start)


@pytest.mark.parametrize(
    ("asked", "sabotage", "says"),
    [
        ({"rate_bps": 5_000_000}, forgets("rate_bps"), "queue for bottleneck reads back as"),
        ({"limit_bytes": 50_000}, forgets("limit_bytes", 50_001), "queue for bottleneck reads back as"),
        ({"delay_ns": 7_000_000, "loopback": True}, forgets("delay_ns"), "queue for bottleneck reads back as"),
        ({"loss": 0.5}, entries_pass(with_another_parameter), "does not have the entry .*TableEntry"),
    ],
    ids=["rate", "buffer", "delay", "loss"],
)
def test_a_change_that_the_switch_does_not_keep_fails_the_run(
    tmp_path: Path, asked: dict[str, Any], sabotage: Callable[[SoftTarget], None], says: str
) -> None:
    """What an event of the file asks for, or who drives the run from Python."""
    planned = plan()
    (link,) = planned.links

    def change(target: SoftTarget) -> Awaitable[int]:
        return target.change(link, replace(link, **asked))

    assert configure(planned, tmp_path, lambda _: None, change) > 0
    with pytest.raises(RunError, match=says):
        configure(planned, tmp_path, sabotage, change)
