# SPDX-License-Identifier: Apache-2.0
"""What all generators have: events become connections, records and ends."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, cast

import pytest
from narrows.errors import RunError
from narrows.experiment.loader import validate
from narrows.experiment.planning import make_plan
from narrows.hosts import base
from narrows.onhost import wire
from narrows.traffic import registry
from narrows.traffic.generator import Generator

PLAN = make_plan(
    validate(
        {
            "name": "events",
            "bottleneck": {"rate": "10Mbit", "rtt": "20ms", "buffer": "1bdp"},
            "flows": [{"cca": "reno", "duration": "5s"}, {"cca": "cubic", "size": "1kB", "repeat": 2}],
        },
        "test",
    )
)


class FedGenerator(Generator):
    """Its events come from the test."""

    lead_s = 0.0

    async def _prepare(self) -> None:
        pass

    async def _start(self) -> None:
        pass

    async def group_ended(self, group: str) -> None:
        pass

    async def _stop(self) -> None:
        pass

    def take(self, *events: wire.Event) -> None:
        for event in events:
            self._take(event)


def fed(results: Path) -> FedGenerator:
    return FedGenerator(PLAN, cast("base.Testbed", None), results, PLAN.flows)


def ended(flow: str, number: int) -> wire.Ended:
    return wire.Ended(flow, number, 2.0, {"bytes_sent": 7})


def test_bulk_connections_leave_a_record_and_sized_ones_do_not(tmp_path: Path) -> None:
    async def run() -> FedGenerator:
        made = fed(tmp_path)
        await made.prepare()
        for flow in ("reno-1", "cubic-1"):
            made.take(wire.Started(flow, 0, 1.0))
        assert made.active == 2
        made.take(ended("reno-1", 0), ended("cubic-1", 0), wire.Done("reno-1"))
        assert made.active == 1
        await made.follow("reno-1")
        return made

    bulk, finite = asyncio.run(run()).connections
    assert json.loads((tmp_path / "reno-1.json").read_text()) == {"bytes_sent": 7}
    assert bulk.as_json()["record"] == f"{tmp_path.name}/reno-1.json" and finite.as_json()["record"] is None
    assert [(one.started_s, one.ended_s, one.bytes_sent) for one in (bulk, finite)] == [(1.0, 2.0, 7)] * 2
    assert [path.name for path in tmp_path.iterdir()] == ["reno-1.json"]


def test_a_record_that_cannot_be_written_fails_its_flow(tmp_path: Path) -> None:
    async def run() -> None:
        made = fed(tmp_path / "gone")
        await made.prepare()
        made.take(wire.Started("reno-1", 0, 1.0), ended("reno-1", 0), wire.Done("reno-1"))
        assert made.connections[0].record is None
        with pytest.raises(RunError, match="flow reno-1: its record cannot be written: No such file or directory"):
            await made.follow("reno-1")

    asyncio.run(run())


def test_flows_of_one_generator_are_made_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fed_kind = registry.Kind(f"{__name__}:{FedGenerator.__name__}")
    monkeypatch.setattr(registry, "KINDS", {"tcp": fed_kind})
    (alone,) = registry.generators(PLAN, cast("base.Testbed", None), tmp_path)
    assert isinstance(alone, FedGenerator) and [flow.name for flow in alone.flows] == ["reno-1", "cubic-1"]


SIZE = 10_000_000
AT_LINK = {"at": "100ms", "link": "bottleneck"}
# Settings of the link, of the group, and seconds that 10 MB take; of a loss by Mathis et al., ACM CCR 1997.
SLOW: dict[str, tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]], float]] = {
    "paced": ({}, {"rate": "1Mbit"}, [], SIZE * 8 / 1e6),
    "window": ({}, {"tcp": {"receiver_options": {"TCP_WINDOW_CLAMP": 16_384}}}, [], SIZE / 16_384 * 0.6),
    "loss": ({"loss": "1%"}, {}, [], SIZE / 1448 * 0.6 * (2 * 0.01 / 3) ** 0.5),
    "later loss": ({}, {}, [{**AT_LINK, "loss": "1%"}], SIZE / 1448 * 0.6 * (2 * 0.01 / 3) ** 0.5),
    "later rate": ({}, {}, [{**AT_LINK, "rate": "500kbit"}], SIZE * 8 / 500e3),
}


@pytest.mark.parametrize("name", list(SLOW))
def test_a_flow_has_as_long_as_its_tcp_takes(tmp_path: Path, name: str) -> None:
    """On a link of 100 Mbit/s, for which 10 MB are 0.8 s: it has not failed where it takes minutes as it should."""
    link, group, events, takes_s = SLOW[name]
    bottleneck = {"rate": "100Mbit", "rtt": "600ms", "buffer": "10packets", **link}
    for kind in ({"size": "10MB"}, {"duration": "1s", "requests": {"size": "10MB", "think": "0s"}}):
        flows = [{"cca": "reno", **group, **kind}]
        raw = {"name": "slow", "bottleneck": bottleneck, "flows": flows, "events": events}
        plan = make_plan(validate(raw, "test"))
        for made in registry.generators(plan, cast("base.Testbed", None), tmp_path):
            assert made._time_limit_s(plan.flows[0]) > 2 * takes_s
