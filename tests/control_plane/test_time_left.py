# SPDX-License-Identifier: Apache-2.0
"""The expected duration of a run depends on its packets, of any size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from narrows.experiment.loader import validate
from narrows.experiment.plan import Plan
from narrows.experiment.planning import make_plan
from narrows.run.duration import packets, packets_of_programs
from narrows.virtual import durations
from narrows.virtual.environment import BOOT_AND_ANALYSIS_S, PACKETS_OF_PROGRAMS_PER_S, PACKETS_PER_S, Guests
from narrows.virtual.kernels import Kernel

TCP = {"cca": "cubic", "duration": "10s"}
SMALL = {"name": "small", "udp": {"rate": "80Mbit", "payload": "100B"}, "duration": "10s"}
LARGE = {"name": "large", "udp": {"rate": "10Mbit", "payload": "1000B"}, "duration": "10s"}
PROBE = {"name": "probe", "probe": {"interval": "1s"}, "duration": "10s"}
CARRIED = 100_000_000 * 10 / 8  # bytes of a full link in 10 s


@pytest.mark.parametrize(
    ("flows", "others", "expected"),
    [
        ([TCP], {}, CARRIED / 1514),
        ([TCP], {"mtu": 576}, CARRIED / 590),
        ([TCP], {"mtu": 9000}, CARRIED / 9014),
        # What datagrams alone leave of a link stays empty: 80 Mbit/s of 100 bytes are 100,000 a second.
        ([SMALL], {}, 1_000_000),
        ([PROBE], {}, 10),
        # 1,250 a second of 1,000 bytes and 42 of headers; 62 with IPv6.
        ([LARGE, TCP], {}, 12_500 + (CARRIED - 12_500 * 1042) / 1514),
        ([LARGE, TCP], {"ip_version": 6}, 12_500 + (CARRIED - 12_500 * 1062) / 1514),
        # More than the link carries: what it drops takes time as well.
        ([SMALL, TCP], {}, 1_000_000),
    ],
)
def test_packets_are_counted_by_their_size(flows: list[Any], others: dict[str, Any], expected: float) -> None:
    bottleneck = {"rate": "100Mbit", "rtt": "40ms", "buffer": "1bdp"}
    plan = make_plan(validate({"name": "x", "bottleneck": bottleneck, "flows": flows, **others}, "x"))
    assert packets(plan) == pytest.approx(expected)


def test_programs_have_their_share_of_the_packets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two of three flows are made by programs; datagrams that are counted have no part in that."""
    link = {"rate": "100Mbit", "rtt": "40ms", "buffer": "1bdp"}
    made = [{"name": name, "client": ["sleep", "1"], "duration": "10s"} for name in ("a", "b")]
    plan = make_plan(validate({"name": "x", "bottleneck": link, "flows": [LARGE, TCP, *made]}, "x"))
    assert packets_of_programs(plan) == pytest.approx(2 / 3 * (packets(plan) - 12_500))
    others_s = (packets(plan) - packets_of_programs(plan)) / PACKETS_PER_S
    expected_s = BOOT_AND_ANALYSIS_S + others_s + packets_of_programs(plan) / PACKETS_OF_PROGRAMS_PER_S
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert guests("default").expected_s(plan) == pytest.approx(expected_s)


def guests(kernel: str) -> Guests:
    """Of a kernel that is not looked at."""
    made = Guests.__new__(Guests)
    made._kernel = Kernel(kernel, Path(kernel))
    return made


def test_what_programs_computed_in_a_run_is_expected_of_the_next_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whatever its seed; of another experiment or kernel it says nothing."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    computing = {"client": ["sha256sum", "/dev/zero"], "duration": "10s"}

    def plan(seed: int, *flows: dict[str, Any]) -> Plan:
        link = {"rate": "100Mbit", "rtt": "40ms", "buffer": "1bdp"}
        return make_plan(validate({"name": "x", "seed": seed, "bottleneck": link, "flows": list(flows)}, "x"))

    ours, others = guests("default"), guests("bbr3")
    before_s = ours.expected_s(plan(1, computing))
    assert ours.computes_unknown(plan(1, computing)) and not ours.computes_unknown(plan(1, TCP))
    durations.remember(plan(1, computing), Kernel("default", Path()), 34.0)
    assert ours.expected_s(plan(2, computing)) == BOOT_AND_ANALYSIS_S + 34.0
    assert not ours.computes_unknown(plan(2, computing))
    for where, what in ((others, plan(1, computing)), (ours, plan(1, computing, TCP))):
        assert where.computes_unknown(what)
    assert others.expected_s(plan(1, computing)) == before_s != BOOT_AND_ANALYSIS_S + 34.0


def test_a_link_has_the_packets_of_the_flows_that_cross_it() -> None:
    links = {name: {"rate": "100Mbit", "rtt": "10ms", "buffer": "1bdp"} for name in ("a", "b")}
    flows = [{**TCP, "path": ["a"]}, {**LARGE, "path": ["a", "b"]}]
    plan = make_plan(validate({"name": "x", "links": links, "flows": flows}, "x"))
    assert packets(plan) == pytest.approx(2 * 12_500 + (CARRIED - 12_500 * 1042) / 1514)
