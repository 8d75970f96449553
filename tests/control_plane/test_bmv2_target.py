# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from narrows.cli import app
from narrows.cli.doctor import findings
from narrows.experiment.loader import validate
from narrows.experiment.plan import Plan
from narrows.experiment.planning import make_plan
from narrows.switch.p4runtime_entries import ecn_threshold
from narrows.switch.readings import PortStats
from narrows.targets.bmv2 import packets, simple_switch
from narrows.targets.bmv2.target import Bmv2Target, two_way_conservation
from typer.testing import CliRunner


def plan(groups: int = 1, mtu: int = 1500, **settings: Any) -> Plan:
    bottleneck = {"rate": "100Mbit", "rtt": "40ms", "buffer": "1bdp", **settings}
    return plan_of(bottleneck=bottleneck, flows=[{"cca": "bbr", "duration": "1s"}] * groups, mtu=mtu)


def plan_of(**changes: Any) -> Plan:
    bottleneck = {"rate": "100Mbit", "rtt": "40ms", "buffer": "1bdp"}
    flows = [{"cca": "bbr", "duration": "1s"}]
    return make_plan(validate({"name": "test", "bottleneck": bottleneck, "flows": flows, **changes}, "test"))


@pytest.mark.parametrize(
    ("rate", "mtu", "packets_s", "realised"),
    [
        ("12.112Mbit", 1500, 1000, 12_112_000),
        ("100Mbit", 1500, 8256, 99_996_672),
        ("10Mbit", 1500, 826, 10_004_512),
        ("10Mbit", 9000, 139, 10_023_568),
    ],
)
def test_rate_is_the_nearest_for_full_size_frames(rate: str, mtu: int, packets_s: int, realised: int) -> None:
    found = plan(rate=rate, mtu=mtu)
    assert packets.packet_rate(found.bottleneck, found.frame_bytes) == packets_s
    assert packets.bit_rate(packets_s, found.frame_bytes) == realised
    assert packets.unsupported(found) == []


@pytest.mark.parametrize(
    ("buffer", "depth"), [("1514B", 1), ("3027B", 1), ("3028B", 2), ("77packets", 77), ("1bdp", 330), ("40ms", 330)]
)
def test_depth_is_what_full_size_frames_fit(buffer: str, depth: int) -> None:
    found = plan(buffer=buffer)
    assert packets.depth(found.bottleneck, found.frame_bytes) == depth


def test_ecn_threshold_is_in_packets() -> None:
    assert ecn_threshold(plan(ecn_threshold="20packets").bottleneck, 1514) == 20
    assert ecn_threshold(plan(ecn_threshold="1515B").bottleneck, 1514) == 2


def test_what_reports_cannot_hold_is_refused() -> None:
    # 19 bits of packets; 2^32 us = 4294.97 s at 10 packets/s are 42,949 packets and one in service.
    assert packets.unsupported(plan(rate="12.112Mbit", buffer=f"{2**19 - 1}packets")) == []
    (refused,) = packets.unsupported(plan(rate="12.112Mbit", buffer=f"{2**19}packets"))
    assert refused.endswith("allowed: 1 to 524287 with BMv2")
    assert packets.unsupported(plan(rate="121.12kbit", buffer="42948packets"), virtual=True) == []
    (refused,) = packets.unsupported(plan(rate="121.12kbit", buffer="42949packets"), virtual=True)
    assert "is a wait of 4295 s at 121.12kbit, and reports hold less than 4294.97 s; allowed: up to" in refused


def test_the_fastest_rate() -> None:
    assert packets.unsupported(plan(rate="121.12Mbit")) == []
    (refused,) = packets.unsupported(plan(rate="121120001bit"))
    assert refused.endswith("allowed: up to 10000 frames/s, 121.12Mbit")


def test_in_virtual_time_it_is_as_fast_as_is_asked() -> None:
    assert packets.unsupported(plan(rate="10Gbit"), virtual=True) == []
    (refused,) = packets.unsupported(plan(rate="18168bit", buffer="10packets"), virtual=True)
    assert "BMv2 shapes in whole ones" in refused


def test_cards_that_hold_frames_are_not_modelled() -> None:
    (refused,) = packets.unsupported(plan_of(hosts={"rx_usecs": 50}), virtual=True)
    assert refused == "hosts.rx_usecs: the receiver's frames come from BMv2 itself; allowed: with --target soft"


def test_it_goes_into_a_guest_as_it_was_made() -> None:
    target: Bmv2Target = pickle.loads(pickle.dumps(Bmv2Target(Path("/opt/bmv2"), 3, virtual=True)))
    inside = target.prepare_for_guest(plan())
    assert inside.in_guest and inside.ports == plan().ports, "the delay line holds what comes back, as it does outside"


def test_a_rate_must_be_near_whole_packets() -> None:
    assert packets.unsupported(plan(rate="1.211Mbit")) == []
    (refused,) = packets.unsupported(plan(rate="18168bit", buffer="10packets"))
    assert "is 1.5 frames/s of 1514 B" in refused
    assert refused.endswith("such as 12.112kbit or 24.224kbit")
    (refused,) = packets.unsupported(plan(rate="6056bit", buffer="10packets"))
    assert refused.endswith("such as 12.112kbit"), "no rate of 0 is proposed"


def test_senders_are_limited_by_the_ports_of_the_delay_line() -> None:
    assert packets.unsupported(plan(groups=248)) == []
    assert packets.unsupported(plan(groups=249)) == [
        "flows: 249 groups; allowed: up to 248 with BMv2 (up to 500 with soft)"
    ]


def test_notes_say_what_was_made_of_the_settings() -> None:
    rate, depth = packets.notes(plan(rate="10Mbit", buffer="50kB"))
    assert "826 packets/s are 10.0045 Mbit/s of full-size frames of 1514 B (+0.05%)" in rate
    assert "33 packets of any size, 49962 B of full-size frames" in depth
    assert "take no seed" in packets.notes(plan(loss="1%"))[2]


def test_executable_is_named_by_option_variable_or_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(simple_switch.PATH_VARIABLE, raising=False)
    assert simple_switch.find() is None
    executable = tmp_path / simple_switch.EXECUTABLE
    executable.write_text("#!/bin/sh\n")
    assert simple_switch.find(executable) is None, "it is not executable"
    executable.chmod(0o755)
    assert simple_switch.find() == simple_switch.find(tmp_path) == simple_switch.find(executable) == executable
    monkeypatch.setenv(simple_switch.PATH_VARIABLE, str(tmp_path / "elsewhere"))
    assert simple_switch.find() is None
    assert simple_switch.find(tmp_path) == executable, "the option goes before the variable"
    assert Bmv2Target(path=tmp_path / "elsewhere").missing()[0].startswith("--bmv2-path")


def test_every_switch_has_sockets_of_its_own(tmp_path: Path) -> None:
    command = simple_switch.command({3: "c", 1: "a"}, tmp_path, Path("/x/simple_switch_grpc"))
    assert command[0] == "/x/simple_switch_grpc"
    assert [command[i + 1] for i, word in enumerate(command) if word == "-i"] == ["1@a", "3@c"]
    assert command[command.index("--notifications-addr") + 1] == f"ipc://{tmp_path}/notifications.ipc"
    assert command[command.index("--grpc-server-addr") + 1] == f"unix:{tmp_path}/bmv2.sock"


def test_doctor_wants_only_the_target_that_was_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(simple_switch.PATH_VARIABLE, str(tmp_path))
    (absent,) = [finding for finding in findings("soft") if finding.absent and finding.subject == "target"]
    assert absent.found.startswith("no bmv2: $NARROWS_BMV2") and not absent.problem
    result = CliRunner().invoke(app, ["doctor"])
    assert [line[:15] for line in result.output.splitlines() if "bmv2" in line] == ["-- target: no b"]
    problems = {finding.found: finding.problem for finding in findings("bmv2") if finding.subject == "target"}
    assert "no executable simple_switch_grpc there" in problems["bmv2"]


@pytest.mark.parametrize("version", [4, 6])
def test_both_directions_are_balanced_together(version: int) -> None:
    """Two packets were lost on the way in, three on the way out. What an IPv6 receiver says of its own is none."""
    data = {
        "name": "test", "bottleneck": {"rate": "100Mbit", "rtt": "40ms", "buffer": "1bdp"}, "ip_version": version,
        "flows": [{"cca": "bbr", "duration": "1s"}], "telemetry": {"acks": True},
    }  # fmt: skip
    found = make_plan(validate(data, "test"))

    def port(number: int, taken: int, sent: int) -> PortStats:
        return PortStats(number, taken, 0, sent, 0, None, 0, 0, True)

    balances = two_way_conservation(found, [port(3, 60, 35), port(4, 42, 15)], port(1, 50, 97), 150, 150)
    assert [balance.lost for balance in balances] == ([2, 3] if version == 4 else [3])
