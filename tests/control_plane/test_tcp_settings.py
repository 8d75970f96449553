# SPDX-License-Identifier: Apache-2.0
"""What a flow's TCP is set to: what can be asked for, where it is set, and that it is read back."""

from __future__ import annotations

import json
import socket
import struct
from pathlib import Path
from typing import Any, cast

import pytest
from narrows.errors import InputError, RunError
from narrows.experiment import tcp_settings
from narrows.experiment.loader import validate
from narrows.experiment.planning import make_plan
from narrows.hosts import routes
from narrows.hosts.hystart import set_hystart
from narrows.onhost.tcp import WORDS, Failed, TcpSpecification, check_start, set_options
from narrows.traffic.tcp import specify

BULK = {"cca": "cubic", "duration": "1s"}


def experiment_of(*groups: dict[str, Any], **others: Any) -> Any:
    bottleneck = {"rate": "10Mbit", "buffer": "20packets", "rtt": "20ms", **others.pop("bottleneck", {})}
    return validate({"name": "x", "bottleneck": bottleneck, "flows": groups, **others}, "x")


def plan_of(*groups: dict[str, Any], **others: Any) -> Any:
    return make_plan(experiment_of(*groups, **others))


def test_sockets_are_given_what_was_asked_in_the_kernels_units() -> None:
    """linux/tcp.h, asm-generic/socket.h: bytes, bytes/s."""
    tcp = {"notsent_lowat": "128KiB", "options": {"TCP_MAXSEG": 1000}, "receiver_options": {"TCP_WINDOW_CLAMP": 90_000}}
    (flow,) = plan_of({**BULK, "rate": "8Mbit", "tcp": tcp}).flows
    specified = specify(flow, None)
    assert specified.options == [
        ("TCP_MAXSEG", 6, 2, "=i", 1000), ("TCP_NOTSENT_LOWAT", 6, 25, "=i", 131_072),
        ("SO_MAX_PACING_RATE", 1, 47, "=Q", 1_000_000),
    ]  # fmt: skip
    assert specified.receiver_options == [("TCP_WINDOW_CLAMP", 6, 10, "=i", 90_000)]


def test_routes_have_what_belongs_to_them_in_one_direction() -> None:
    plan = plan_of({**BULK, "tcp": {"initial_window": 4, "rto_min": "50ms"}}, {"cca": "reno", "duration": "1s"})
    first, second = plan.flows
    assert routes.metrics(plan, plan.host(first.sender)) == {first.dst: {"initcwnd": "4", "rto_min": "50ms"}}
    assert routes.metrics(plan, plan.host(second.sender)) == {}
    assert routes.metrics(plan, plan.host(first.receiver)) == {}


@pytest.mark.parametrize(
    ("threshold", "asked", "setting", "by_route"),
    [
        (None, (None, None), "0", []),
        ("10packets", (None, None), "1", []),
        ("10packets", (False, False), "0", []),
        (None, (True, True), "1", []),
        ("10packets", (None, False), "2", [0]),
        (None, (False, True), "2", [1]),
    ],
)
def test_ecn_is_a_hosts_where_all_agree_and_a_routes_where_not(
    threshold: str | None, asked: tuple[bool | None, ...], setting: str, by_route: list[int]
) -> None:
    groups = [{**BULK, **({} if ecn is None else {"tcp": {"ecn": ecn}})} for ecn in asked]
    plan = plan_of(*groups, bottleneck={} if threshold is None else {"ecn_threshold": threshold})
    assert routes.ecn_setting(plan) == setting
    found = [n for n, flow in enumerate(plan.flows) if routes.metrics(plan, plan.host(flow.sender))]
    assert found == by_route
    # The receiver's routes have it as well: either side may connect.
    back = routes.metrics(plan, plan.host(plan.flows[0].receiver))
    assert sorted(back) == sorted(plan.flows[n].src for n in by_route)


SHARED = {"from": "a", "to": "b"}


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([{"udp": {"rate": "1Mbit"}, "duration": "1s", "rate": "1Mbit"}], "has rate, and flows of udp"),
        ([{"probe": {"interval": "1s"}, "duration": "1s", "tcp": {}}], "has tcp, and flows of probe"),
        ([{"client": ["x"], "rate": "1Mbit"}], "has rate with client"),
        ([{"client": ["x"], "tcp": {"options": {"TCP_NODELAY": 1}}}], "has options with client"),
        ([{**BULK, "rate": "1001bit"}], "not a whole number of bytes/s"),
        ([{**BULK, "cca": "reno", "tcp": {"hystart": False}}], "has hystart, and flows of reno"),
        ([{**BULK, "tcp": {"rto_min": "1500us"}}], "not a whole number of milliseconds"),
        ([{**BULK, "tcp": {"options": {"TCP_NODELY": 1}}}], "unknown option 'TCP_NODELY'; allowed: TCP_NODELAY, "),
        ([{**BULK, "tcp": {"options": {"TCP_NODELAY": True}}}], "flows.0.tcp.options.TCP_NODELAY"),
        ([{**BULK, "tcp": {"sysctls": {"net.core.rmem_max": 1}}}], "not a kernel setting of TCP"),
        ([{**BULK, "tcp": {"sysctls": {"net.ipv4.tcp_../x": 1}}}], "not a kernel setting of TCP"),
        ([{**BULK, "tcp": {"sysctls": {"net.ipv4.tcp_rmem": 1}}}], "in its place tcp_buffer"),
        # 65,535 bytes are 45 segments of 1,448.
        ([{**BULK, "tcp": {"initial_window": 46}}], "flows.0.tcp.initial_window: 46 segments; allowed: up to 45"),
        ([{**BULK, **SHARED, "tcp": {"initial_window": 4}}, {**BULK, **SHARED}], "flows.1.tcp.initial_window: 'cubic'"),
        (
            [{**BULK, **SHARED, "tcp": {"ecn": True}}, {**BULK, "from": "b", "to": "a", "direction": "reverse"}],
            "flows.1.tcp.ecn",
        ),
        ([{**BULK, "tcp": {"hystart": False}}, BULK], "flows.1.tcp.hystart: 'cubic' has another one in the same"),
        (
            [{**BULK, "from": "a", "tcp": {"sysctls": {"net.ipv4.tcp_sack": n}}} for n in (0, 1)],
            "flows.1.tcp.sysctls.net.ipv4.tcp_sack: 'cubic' has another one on the same host",
        ),
    ],
)
def test_what_cannot_be_is_refused(groups: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        plan_of(*groups, bottleneck={"reverse": {"rate": "10Mbit", "buffer": "20packets"}})


def test_the_largest_initial_window_is_what_a_first_window_holds() -> None:
    """RFC 7323, 2.2: 65,535 bytes; IPv6 segments are 20 bytes smaller."""
    plan_of({**BULK, "tcp": {"initial_window": 45}})
    plan_of({**BULK, "tcp": {"initial_window": 7}}, mtu=9000)
    with pytest.raises(InputError, match="up to 7,"):
        plan_of({**BULK, "tcp": {"initial_window": 8}}, mtu=9000)


def test_what_hosts_elsewhere_cannot_do_is_refused() -> None:
    tcp = {"initial_window": 4, "sysctls": {"net.ipv4.tcp_sack": 0}, "hystart": False, "notsent_lowat": "1kB"}
    experiment = experiment_of({**BULK, "tcp": tcp}, hosts={"sysctls": {"net.ipv4.tcp_dsack": 0}})
    assert tcp_settings.unsupported(experiment.flows, True, virtual=True, machines=False) == []
    (real,) = tcp_settings.unsupported(experiment.flows, True, virtual=False, machines=False)
    assert real.startswith("flows.0.tcp.hystart: ") and real.endswith("fix: --virtual")
    fields = [
        found.partition(":")[0]
        for found in tcp_settings.unsupported(experiment.flows, True, virtual=False, machines=True)
    ]
    assert fields == ["hosts.sysctls", "flows.0.tcp.initial_window", "flows.0.tcp.sysctls", "flows.0.tcp.hystart"]


def test_options_are_read_back() -> None:
    with socket.socket() as real:
        set_options(real, [("TCP_NODELAY", 6, 1, "=i", 1), ("SO_MAX_PACING_RATE", 1, 47, "=Q", 5_000_000_000)])
        with pytest.raises(Failed, match="TCP_MAXSEG cannot be set to 7: Invalid argument"):
            set_options(real, [("TCP_MAXSEG", 6, 2, "=i", 7)])
        # Linux doubles what it is given.
        with pytest.raises(Failed, match=r"SO_RCVBUF is \d+, not 10000"):
            set_options(real, [("SO_RCVBUF", 1, 8, "=i", 10_000)])


class Begun:
    """A connection of which TCP_INFO says something."""

    def __init__(self, **words: int) -> None:
        self._words = words

    def getsockopt(self, *_: int) -> bytes:
        info = bytearray(256)
        for name, value in self._words.items():
            struct.pack_into("=I", info, WORDS[name], value)
        return bytes(info)


def check_begun(flow: dict[str, Any], **words: int) -> None:
    settings: dict[str, Any] = {"initial_window": None, "rto_min_s": None, **flow}
    asked = TcpSpecification("x", held=False, cca="cubic", ecn=None, options=[], receiver_options=[], **settings)
    check_start(cast("socket.socket", Begun(**words)), asked)


@pytest.mark.parametrize(
    ("rto_min_s", "rtt_us", "rto_us"), [(0.02, 40_000, 120_000), (1.0, 40_000, 1_040_000), (0.2, 40_000, 240_000)]
)
def test_the_first_timeout_is_that_of_rfc_6298(rto_min_s: float, rtt_us: int, rto_us: int) -> None:
    flow = {"rto_min_s": rto_min_s}
    check_begun(flow, rtt=rtt_us, rto=rto_us, cwnd=10)
    check_begun(flow, rtt=rtt_us, rto=rto_us + 4000, cwnd=10)
    with pytest.raises(Failed, match="retransmission timeout"):
        check_begun(flow, rtt=rtt_us, rto=rto_us + 11_000, cwnd=10)
    with pytest.raises(Failed, match="retransmission timeout"):
        check_begun(flow, rtt=rtt_us, rto=rto_us - 11_000, cwnd=10)


def test_another_initial_window_fails_the_flow_unless_its_syn_was_lost() -> None:
    check_begun({"initial_window": 4}, rtt=40_000, cwnd=4)
    check_begun({"initial_window": 4}, rtt=40_000, cwnd=1, retransmits=2)
    with pytest.raises(Failed, match="began with a window of 10 segments, not 4"):
        check_begun({"initial_window": 4}, rtt=40_000, cwnd=10)


def test_a_route_that_has_something_else_fails_the_run() -> None:
    shown = [{"metrics": [{"initcwnd": 4, "rto_min": 1500, "ecn": None, "congestion": "cubic"}]}]
    routes.require_metrics("x", {"initcwnd": "4", "rto_min": "1500ms", "features": "ecn"}, json.dumps(shown))
    for asked in ({"initcwnd": "5"}, {"rto_min": "50ms"}, {"congctl": "bbr"}):
        with pytest.raises(RunError, match=f"x: {next(iter(asked))} is "):
            routes.require_metrics("x", asked, json.dumps(shown))
    with pytest.raises(RunError, match="features is none, not ecn"):
        routes.require_metrics("x", {"features": "ecn"}, "[]")


def test_hystart_is_read_back(tmp_path: Path) -> None:
    parameter = tmp_path / "hystart"
    set_hystart(False, parameter)
    assert parameter.read_text() == "0"
    with pytest.raises(RunError, match="tcp_cubic: hystart is , not 1"):
        set_hystart(True, Path("/dev/null"))
    with pytest.raises(RunError, match="hystart cannot be set to 1"):
        set_hystart(True, tmp_path / "none" / "hystart")
