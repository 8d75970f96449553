# SPDX-License-Identifier: Apache-2.0
"""What the softswitch does not go up to is refused by field, before anything is started."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from narrows.experiment.loader import validate
from narrows.experiment.planning import make_plan
from narrows.targets.soft import target
from narrows.targets.soft.target import SoftTarget

SOURCES = Path(__file__).parents[2] / "softswitch"


def refused(link: dict[str, Any], **hosts: str) -> list[str]:
    flow = {"cca": "reno", "duration": "1s"}
    bottleneck = {"rate": "1Mbit", "rtt": "1ms", "buffer": "2packets", **link}
    data = {"name": "x", "bottleneck": bottleneck, "flows": [{**flow, "rtt": "1ms"}, flow], "hosts": hosts}
    return SoftTarget().unsupported(make_plan(validate(data, "x.yaml")))


@pytest.mark.parametrize(
    ("link", "hosts", "says"),
    [
        (
            {"rate": "10000000000001bit"},
            {},
            "bottleneck.rate: is more than the softswitch does; allowed: up to 10000Gbit",
        ),
        ({"rtt": "100000000001ns"}, {}, "flows.1.rtt: is more than the softswitch does; allowed: up to 100s"),
        ({}, {"rate": "10001Gbit"}, "hosts.rate: is more than the softswitch does; allowed: up to 10000Gbit"),
        ({}, {"jitter": "100001ms"}, "hosts.jitter: is more than the softswitch does; allowed: up to 100s"),
    ],
)
def test_what_is_beyond_the_switch_is_refused(link: dict[str, Any], hosts: dict[str, str], says: str) -> None:
    assert refused(link, **hosts) == [says.format("is more than the softswitch does")]


def test_the_last_that_it_does_is_taken() -> None:
    assert refused({"rate": "10000Gbit", "rtt": "100s"}, rate="10000Gbit", jitter="100s") == []


@pytest.mark.parametrize("name", ["MAX_RATE_BPS", "MAX_DELAY_NS", "MAX_JITTER_NS"])
def test_the_limits_are_the_switchs_own(name: str) -> None:
    sources = "\n".join(path.read_text() for path in sorted(SOURCES.glob("s*/src/**/*.rs")))
    (stated,) = re.findall(rf"const {name}: u64 = (\w+);", sources)
    if not stated[0].isdigit():
        (stated,) = re.findall(rf"const {stated}: u64 = ([0-9_]+);", sources)
    assert int(stated) == getattr(target, name)
