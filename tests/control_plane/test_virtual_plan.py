# SPDX-License-Identifier: Apache-2.0
"""How a plan is carried out in virtual time: same RTTs, other places of the delays, windows that no delay is below."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from narrows.errors import InputError
from narrows.experiment.loader import validate
from narrows.experiment.plan import COLLECTOR_PORT, InterruptCoalescing, Plan
from narrows.experiment.planning import make_plan
from narrows.run.environment import ThisMachine
from narrows.targets.soft.target import SoftTarget
from narrows.targets.soft.virtual_time import MAX_HOST_JITTER_NS, VirtualTimeSettings, adapted, settings
from narrows.virtual import environment
from narrows.virtual.environment import Guests
from narrows.virtual.kernels import About, Kernel

MS = 1_000_000
# A slot of a receive ring: the kernel's headers, 128 bytes of a frame, and alignment.
SLOT_BYTES = 240


def plan(rate: str = "100Mbit", rtt: str = "40ms", **changes: Any) -> Plan:
    data: dict[str, Any] = {
        "name": "test",
        "bottleneck": {"rate": rate, "rtt": rtt, "buffer": "1bdp"},
        "flows": [{"cca": "bbr", "duration": "30s"}, {"cca": "cubic", "duration": "30s", "rtt": "100ms"}],
    }
    return make_plan(validate({**data, **changes}, "test"))


def delays(built: Plan) -> dict[str, int]:
    return {port.host: port.delay_ns for port in built.ports}


def test_every_flow_keeps_its_rtt() -> None:
    assert delays(adapted(plan())) == {
        "receiver": 20 * MS, "collector": 0, "sender0": 20 * MS, "sender1": 80 * MS
    }  # fmt: skip


@pytest.mark.parametrize("rate", ["1Mbit", "100Mbit", "10Gbit", "100Gbit"])
@pytest.mark.parametrize("rtt", ["1us", "30us", "1ms", "40ms", "600ms"])
def test_no_window_is_longer_than_a_delay(rate: str, rtt: str) -> None:
    built = adapted(plan(rate, rtt, bottleneck={"rate": rate, "rtt": rtt, "buffer": "100packets"}))
    found = settings(built)
    # A frame is handed over up to two windows before it leaves; what arrives in one window is known at its end.
    assert 2 * found.window_ns <= min(delay for host, delay in delays(built).items() if host != "collector")
    assert found.window_ns == 0 or found.window_ns >= 20_000


def held(found: VirtualTimeSettings, frame_bytes: int = 1514) -> int:
    """Bytes of full-size frames that a ring takes, each in a slot of its own."""
    return found.ring_bytes // SLOT_BYTES * frame_bytes


def test_no_window_is_longer_than_the_switch_takes() -> None:
    flows = [{"cca": "bbr", "duration": "30s"}]
    slow = {"rate": "1Mbit", "rtt": "10s", "buffer": "10packets"}
    assert settings(adapted(plan(bottleneck=slow, flows=flows))).window_ns == 1_000 * MS


@pytest.mark.parametrize("connections", ["kept", "new"])
def test_a_ring_holds_the_first_windows_of_all_users(connections: str) -> None:
    """They begin in one instant, with ten segments each (RFC 6928), of frames that are kept whole: 2 KiB of a ring."""
    requests = {"size": "20kB", "think": "1s", "users": 300, "connections": connections}
    flows = [{"cca": "cubic", "duration": "2s", "requests": requests}]
    assert settings(adapted(plan("50Mbit", flows=flows))).ring_bytes >= 300 * 10 * 2048


def test_ring_and_pool_hold_what_can_be_in_flight() -> None:
    found = settings(adapted(plan("100Gbit", "10ms")))
    # The longest of the two RTTs is 100 ms; the queue holds what 10 ms carry.
    flight = 1_250_000_000 + 125_000_000
    assert found.pool_frames * 1514 >= 2 * flight
    # A host may send much of it at once.
    assert held(found) >= flight // 4
    # But the rings of all hosts together have a limit.
    vast = plan("100Gbit", "10ms", bottleneck={"rate": "100Gbit", "rtt": "10ms", "buffer": "100bdp"})
    assert settings(adapted(vast)).ring_bytes == (1 << 30) // 4
    for rtt in ("2ms", "10ms"):
        jumbo = settings(adapted(plan("100Gbit", rtt, mtu=9000, flows=[{"cca": "bbr", "duration": "1s"}])))
        assert held(jumbo, 9014) >= 8 * 100_000_000_000 // 8 * jumbo.window_ns // 1_000_000_000
        assert held(jumbo, 9014) >= 2 * 100_000_000_000 // 8 * int(rtt[:-2]) // 1_000 // 4
    # In an experiment that is long enough for it, all that slow start has in flight when it has filled the queue.
    deep = {"bottleneck": {"rate": "1Gbit", "rtt": "40ms", "buffer": "65536packets"}}
    sizes = [
        held(settings(adapted(plan("1Gbit", "40ms", **deep, flows=[{"cca": "cubic", "duration": duration}]))))
        for duration in ("10s", "1800s")
    ]
    assert sizes[0] < 65536 * 1514 < sizes[1] // 2
    # Of that no more than its socket can hold, which may fit where all of it does not.
    limited = plan(
        "1Gbit", "10ms", bottleneck={"rate": "1Gbit", "rtt": "10ms", "buffer": "65536packets"}, tcp_buffer="100MiB",
        flows=[{"cca": "bbr", "duration": "200s"}, {"cca": "cubic", "duration": "200s"}],
    )  # fmt: skip
    assert 100 << 20 < held(settings(adapted(limited))) < 2 * 65536 * 1514
    # A thousand flows begin with ten segments each, and send twenty when those are acknowledged.
    many = settings(adapted(plan("1Gbit", "20ms", flows=[{"cca": "cubic", "count": 1000, "duration": "1s"}])))
    assert held(many) >= 20 * 1000 * 1514


def test_receivers_read_in_batches_that_buffers_hold_many_of() -> None:
    for rate in ("1Mbit", "1Gbit", "100Gbit"):
        built = adapted(plan(rate))
        assert 0 < built.receive_batch_bytes <= built.tcp_buffer_bytes // 8


def test_hosts_take_a_frames_time_on_their_links_or_as_written() -> None:
    """1,514 bytes at 1, 10 and 400 Gbit/s, whatever the bottleneck; no more than real hosts take."""
    for rate, jitter_ns in (("500kbit", 12_112), ("10Mbit", 12_112), ("1Gbit", 1_211), ("100Gbit", 30)):
        built = adapted(plan(rate))
        # Senders only: nothing limits what receivers answer.
        assert settings(built).jitter_ns == {host.port: jitter_ns for host in built.senders}
    for rate in ("100Mbit", "1Mbit"):
        slow = settings(adapted(plan(hosts={"rate": rate}))).jitter_ns
        assert set(slow.values()) == {MAX_HOST_JITTER_NS}
    for written, found in (("5us", ",5000"), ("0s", "")):
        words = settings(adapted(plan(hosts={"jitter": written, "rate": "1Gbit"}))).arguments([1, 2, 3])
        rates = [word for before, word in pairwise(words) if before == "--access-rate"]
        # Senders only.
        assert rates == ["1@1000000000", "2@1000000000", f"3@1000000000{found}"]
    assert any("hosts.jitter: " in problem for problem in ThisMachine().unsupported(plan(hosts={"jitter": "0s"})))


@pytest.mark.parametrize(
    ("rtt", "hosts", "noted"), [("40ms", {}, False), ("100us", {}, True), ("40ms", {"jitter": "2100us"}, True)]
)
def test_a_jitter_that_shows_in_rtts_is_said_before_a_run(
    rtt: str, hosts: dict[str, str], noted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """12.1 us of hosts with links of 1 Gbit/s are more than 5 % of 100 us."""
    monkeypatch.setattr(environment, "about", lambda _kernel: About("7.3", "", "", (), {}, 1, 1))
    guests = Guests(Kernel("any", Path("linux")))
    flows = [{"cca": "bbr", "duration": "30s"}]
    bottleneck = {"rate": "100Mbit", "rtt": rtt, "buffer": "20packets"}
    notes = guests.notes(plan(bottleneck=bottleneck, flows=flows, hosts=hosts), SoftTarget())
    assert len(notes) == noted and all(note.startswith("hosts.jitter: Senders take up to ") for note in notes)


def test_slow_links_and_long_paths_stay_within_what_the_switch_takes() -> None:
    """A frame of 1,514 bytes takes 1.514 s at 8 kbit/s; a switch that looks ahead wakes up once a second."""
    bottleneck = {"rate": "8kbit", "rtt": "10s", "buffer": "20packets"}
    slow = settings(adapted(plan(bottleneck=bottleneck, flows=[{"cca": "cubic", "duration": "60s"}])))
    assert (list(slow.jitter_ns.values()), slow.window_ns) == ([12_112], 1_000_000_000)
    words = slow.arguments([COLLECTOR_PORT])
    assert int(words[words.index("--lookahead-us") + 1]) == 1_000_000


def test_hosts_have_links_of_four_times_the_bottleneck_or_as_written() -> None:
    rates = {rate: settings(adapted(plan(rate))).access_rate_bps for rate in ("100Mbit", "1Gbit", "10Gbit", "100Gbit")}
    assert rates == {
        "100Mbit": 1_000_000_000, "1Gbit": 10_000_000_000, "10Gbit": 40_000_000_000, "100Gbit": 400_000_000_000
    }  # fmt: skip
    assert settings(adapted(plan("1000Gbit"))).access_rate_bps == 4_000_000_000_000
    assert settings(adapted(plan(hosts={"rate": "25Gbit"}))).access_rate_bps == 25_000_000_000


def test_modelled_links_are_refused_in_real_time() -> None:
    assert not any("hosts.rate" in problem for problem in ThisMachine().unsupported(plan()))
    assert any("hosts.rate" in problem for problem in ThisMachine().unsupported(plan(hosts={"rate": "25Gbit"})))
    assert any("hosts.rx_usecs" in problem for problem in ThisMachine().unsupported(plan(hosts={"rx_usecs": 50})))
    assert not any("hosts." in problem for problem in ThisMachine().unsupported(plan(hosts={"offloads": ["gro"]})))


def test_cards_are_what_is_written() -> None:
    assert settings(adapted(plan())).coalescing is None and plan().offloads == ()
    built = plan(hosts={"rx_usecs": 8, "rx_frames": 128, "offloads": ["gro"]})
    assert settings(adapted(built)).coalescing == InterruptCoalescing(8, 128) and built.offloads == ("gro",)
    assert plan(hosts={"rx_usecs": 8}).coalescing == InterruptCoalescing(8, None)
    words = settings(adapted(built)).arguments([1, COLLECTOR_PORT])
    assert "--lro" not in words
    joining = settings(adapted(plan(hosts={"rx_usecs": 8, "offloads": ["lro"]}))).arguments([1, COLLECTOR_PORT, 3])
    assert [port for option, port in pairwise(joining) if option == "--lro"] == ["1", "3"]
    assert [word for word in words if "@" in word] == ["1@1000000000", "1@8,128", "2@1000000000"]


@pytest.mark.parametrize(
    ("hosts", "complaint"),
    [
        ({"rx_frames": 8}, "rx_frames without rx_usecs"),
        ({"rx_usecs": 0}, "rx_usecs"),
        ({"rx_usecs": 1_000_000}, "rx_usecs"),
        ({"rx_usecs": 8, "rx_frames": 0}, "rx_frames"),
        ({"offloads": ["tso"]}, "offloads"),
        ({"offloads": ["lro"]}, "lro without rx_usecs"),
    ],
)
def test_cards_that_cannot_be_are_refused(hosts: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        plan(hosts=hosts)
