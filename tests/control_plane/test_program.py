# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from finsy import P4Schema, P4TableAction, P4TableEntry
from finsy.proto import p4i
from narrows.errors import RunError
from narrows.experiment.loader import validate
from narrows.experiment.plan import Plan
from narrows.experiment.planning import make_plan
from narrows.paths import compiled_program
from narrows.switch.entries import delay_bins, loss_threshold
from narrows.switch.p4runtime_entries import ecn_threshold, entities
from narrows.targets.soft.target import PROFILE


def plan(**settings: Any) -> Plan:
    bottleneck = {"rate": "100Mbit", "rtt": "40ms", "buffer": "1bdp", **settings}
    data = {"name": "test", "bottleneck": bottleneck, "flows": [{"cca": "bbr", "duration": "1s"}]}
    return make_plan(validate(data, "test"))


def bin_of(delay: int) -> int:
    """The bin that a longest-prefix match over all bins finds."""
    matches = [b for b in delay_bins() if delay >> (48 - b.prefix_length) == b.lowest >> (48 - b.prefix_length)]
    return max(matches, key=lambda b: b.prefix_length).number


@pytest.mark.parametrize(("bits", "count"), [(48, 188), (32, 124)])
def test_delay_bins_are_four_an_octave(bits: int, count: int) -> None:
    bins = list(delay_bins(bits))
    assert [b.number for b in bins] == list(range(count))
    assert [b.lowest for b in bins] == sorted(b.lowest for b in bins)
    for octave in range(2, bits):
        assert sum(1 << octave <= b.lowest < 2 << octave for b in bins) == 4


@pytest.mark.parametrize(
    ("delay", "number"),
    [(0, 0), (3, 3), (4, 4), (7, 7), (8, 8), (9, 8), (10, 9), (15, 11), (16, 12), (2**32 - 1, 123), (2**48 - 1, 187)],
)
def test_a_delay_is_in_the_bin_of_its_octave(delay: int, number: int) -> None:
    assert bin_of(delay) == number


@pytest.mark.parametrize("bits", [48, 32])
def test_every_delay_has_exactly_one_bin(bits: int) -> None:
    bins = list(delay_bins(bits))
    covered = sum(1 << (bits - b.prefix_length) for b in bins)
    assert covered == 1 << bits
    for lower, upper in pairwise(bins):
        assert lower.lowest + (1 << (bits - lower.prefix_length)) == upper.lowest


def test_thresholds_are_in_the_targets_units() -> None:
    assert loss_threshold(0.5) == 2**31
    assert loss_threshold(2**-32) == 1
    assert ecn_threshold(plan().bottleneck, 1) == 0xFFFFFFFF
    # Packets of any size: in no unit of bytes.
    for unit_bytes in (1, 80, plan().frame_bytes):
        assert ecn_threshold(plan(ecn_threshold="20packets").bottleneck, unit_bytes) == 20
    assert ecn_threshold(plan(ecn_threshold="81B").bottleneck, 80) == 2


def test_entries_fit_the_compiled_program() -> None:
    device_config, p4info = compiled_program("v1model")
    schema = P4Schema(p4info, device_config)
    encoded = [entity.encode(schema) for entity in entities(plan(loss="1%"), PROFILE, schema)]
    tables = {table.id: table.name.rpartition(".")[2] for table in schema.tables}
    used = [tables[entity.table_entry.table_id] for entity in encoded if entity.HasField("table_entry")]
    assert {name: used.count(name) for name in set(used)} == {
        "delay_bins": 188,
        "loss": 1,
        "bottleneck": 1,
        "collector": 1,
        "cross_connect": 2,
    }
    assert sum(entity.HasField("packet_replication_engine_entry") for entity in encoded) == 1
    assert len(list(delay_bins())) <= next(t.size for t in schema.tables if t.name.endswith("delay_bins"))


def test_paths_come_last() -> None:
    """No packet may pass a bottleneck that is not set up yet."""
    device_config, p4info = compiled_program("v1model")
    schema = P4Schema(p4info, device_config)
    names = [getattr(entity, "table_id", "") for entity in entities(plan(), PROFILE, schema)]
    assert all("cross_connect" in name for name in names[-2:])
    assert not any("cross_connect" in name for name in names[:-2])


def test_another_program_is_refused_by_name() -> None:
    with pytest.raises(RunError, match="the P4 program has no table 'delay_bins'"):
        entities(plan(), PROFILE, P4Schema(p4i.P4Info()))


def test_the_way_back_is_reported_if_asked_for() -> None:
    """Under an index of its own, unmarked, unsampled, in the queue that is not limited; the bottleneck is as ever."""
    device_config, p4info = compiled_program("v1model")
    schema = P4Schema(p4info, device_config)
    data = {
        "name": "test",
        "bottleneck": {"rate": "100Mbit", "rtt": "40ms", "buffer": "1bdp", "ecn_threshold": "20packets", "loss": "1%"},
        "flows": [{"cca": "bbr", "duration": "1s"}],
    }
    without = entities(make_plan(validate(data, "test")), PROFILE, schema)
    reporting = make_plan(validate({**data, "telemetry": {"acks": True}}, "test"))
    found = entities(reporting, PROFILE, schema)
    (reverse,) = reporting.unlimited
    kept = [entity for entity in without if entity in found]
    (back,) = [entity for entity in without if entity not in found]
    assert isinstance(back, P4TableEntry) and "wire" in str(back.action)
    added = [entity for entity in found if entity not in kept]
    assert [entity.table_id.rpartition(".")[2] for entity in added if isinstance(entity, P4TableEntry)] == [
        "collector", "bottleneck", "cross_connect",
    ]  # fmt: skip
    encapsulate, observe, path = (entity for entity in added if isinstance(entity, P4TableEntry))
    assert observe.match == encapsulate.match == {"bottleneck": reverse.index}
    assert isinstance(observe.action, P4TableAction) and isinstance(path.action, P4TableAction)
    assert (observe.action.args["threshold"], observe.action.args["mask"], observe.action.args["shift"]) == (
        0xFFFFFFFF, 0, 0,
    )  # fmt: skip
    assert path.match == back.match
    assert (path.action.args["index"], path.action.args["queue"]) == (reverse.index, 0)
