# SPDX-License-Identifier: Apache-2.0
"""The live view: arithmetic on made-up counters, words, and the page over real HTTP."""

from __future__ import annotations

import http.client
import io
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from narrows.errors import InputError
from narrows.experiment.loader import load
from narrows.experiment.plan import Plan
from narrows.experiment.planning import make_plan
from narrows.live import serving
from narrows.live.server import ADDRESS, HISTORY, LivePage
from narrows.run import snapshot_text
from narrows.run.progress import RunProgress
from narrows.run.sampler import MAX_BUSY, MAX_IDLE, Reading, Sampler, Snapshot
from narrows.switch.readings import QueueStats
from narrows_formats.digest import NewFlow
from rich.console import Console

RATE_BPS = 100_000_000
FLOWS: list[dict[str, Any]] = [
    {"cca": "bbr", "duration": "30s"},
    {"cca": "cubic", "count": 2, "size": "1MB", "repeat": 3, "duration": "20s"},
]


def plan_of(path: Path, flows: list[dict[str, Any]]) -> Plan:
    bottleneck = {"rate": "100Mbit", "rtt": "40ms", "buffer": "1bdp"}
    file = path / "experiment.yaml"
    file.write_text(yaml.safe_dump({"name": "live", "bottleneck": bottleneck, "flows": flows}))
    return make_plan(load(file))


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return plan_of(tmp_path, FLOWS)


def queue(
    dequeued: int | None = 0, depth: int | None = 0, drops: int | None = 0, packets: int = 0
) -> dict[str, QueueStats]:
    found = QueueStats(
        port=1, queue=0, rate_bps=RATE_BPS, limit_bytes=500_000, limit_packets=0, delay_ns=0, epoch=1,
        enqueued_packets=0, enqueued_bytes=0, dequeued_packets=packets, dequeued_bytes=dequeued, dropped_packets=drops,
        dropped_bytes=0, depth_packets=0, depth_bytes=depth, peak_depth_bytes=0,
    )  # fmt: skip
    return {"bottleneck": found}


def drops(by_flow: dict[int, int]) -> dict[tuple[int, int], int]:
    """Drops by flow index, as a reading has them: of the only link."""
    return {(0, index): packets for index, packets in by_flow.items()}


def learned(plan: Plan, number: int, index: int, connection: int = 0, **changes: Any) -> NewFlow:
    """A record of the digest of new flows."""
    flow = plan.flows[number]
    found = NewFlow(0, index, 0, 4, flow.src, flow.dst, 6, flow.src_port + connection, flow.dst_port)
    return replace(found, **changes)


def test_rates_are_differences_over_the_window(plan: Plan) -> None:
    sampler = Sampler(plan)
    for number, index in ((0, 7), (1, 9), (2, 11)):
        sampler.learn(learned(plan, number, index))
    first = sampler.take(Reading(0.0, queue(), {7: 0, 9: 0, 11: 0}, {}), 3)
    assert [flow.rate_bps for flow in first.flows] == [None] * 3 and first.links[0].rate_bps is None
    sampler.take(Reading(0.5, queue(1000), {7: 1000, 9: 0, 11: 0}, {}), 3)
    second = sampler.take(Reading(1.0, queue(10_000), {7: 5000, 9: 2000, 11: 1000}, drops({9: 3})), 3)
    assert [flow.rate_bps for flow in second.flows] == [40_000, 16_000, 8_000]
    # A second later, the first two readings are no longer in the window: 0.5 s to 1.5 s.
    third = sampler.take(Reading(1.5, queue(13_500), {7: 6000, 9: 2000, 11: 3000}, drops({9: 4, 11: 1})), 2)
    assert [flow.rate_bps for flow in third.flows] == [40_000, 16_000, 24_000]
    assert third.links[0].rate_bps == 12_500 * 8
    assert [(group.name, group.rate_bps, group.drops) for group in third.groups] == [
        ("bbr", 40_000, 0),
        ("cubic", 40_000, 5),
    ]
    (link,) = third.links
    assert (third.remaining_s, third.active, link.link_bps, link.limit_bytes) == (28.5, 2, RATE_BPS, 500_000)


def test_connections_of_a_flow_add_up_and_new_ones_count_from_zero(plan: Plan) -> None:
    sampler = Sampler(plan)
    sampler.learn(learned(plan, 1, 5))
    sampler.take(Reading(0.0, queue(), {5: 100}, {}), 1)
    sampler.learn(learned(plan, 1, 6, connection=1))
    found = sampler.take(Reading(1.0, queue(), {5: 100, 6: 1000}, drops({5: 2, 6: 3, 99: 50})), 1)
    assert (found.flows[1].rate_bps, found.flows[1].drops) == (8000, 5)


def test_what_is_no_flow_of_the_plan_is_left_out(plan: Plan) -> None:
    sampler = Sampler(plan)
    for changes in (
        {"protocol": 17}, {"dst_port": 1}, {"src": "198.18.0.99"}, {"src_port": 40_000}, {"dst": "198.18.0.9"},
        {"src_port": plan.flows[1].src_port + plan.flows[1].payload.repeat},
    ):  # fmt: skip
        sampler.learn(learned(plan, 1, 3, **changes))
    assert sampler.to_read(0) == []


def test_the_cost_of_a_poll_is_bounded_and_no_flow_is_forgotten(tmp_path: Path) -> None:
    """A bulk flow and 400 short ones: what is idle is read seldom, what is busy always or in turn."""
    plan = plan_of(tmp_path, [{"cca": "cubic", "duration": "90s"}, {"cca": "bbr", "size": "10kB", "repeat": 400}])
    sampler = Sampler(plan)
    sampler.learn(learned(plan, 0, 1000))
    for number in range(400):
        sampler.learn(learned(plan, 1, number, connection=number))
    seen: set[int] = set()
    for step in range(4):
        chosen = sampler.to_read(0.1 * step)
        assert len(chosen) == MAX_BUSY
        sampler.take(Reading(0.1 * step, queue(), dict.fromkeys(chosen, 100), {}), 1)
        seen |= set(chosen)
    assert len(seen) == 401
    # From here on only the bulk flow moves, and in the end one of the others again.
    for second in range(1, 20):
        chosen = sampler.to_read(second)
        counts = {index: 100 if index < 1000 else 100 + 1000 * second for index in chosen}
        found = sampler.take(Reading(second, queue(), counts, {}), 1)
        if second > 4:
            assert 1000 in chosen and len(chosen) == 1 + MAX_IDLE
            assert [flow.rate_bps for flow in found.flows] == [8000, 0]
    sampler.take(Reading(20, queue(), {5: 600}, {}), 1)
    assert 5 in sampler.to_read(21)
    assert sampler.take(Reading(21, queue(), {5: 700}, {}), 1).flows[1].rate_bps == 800


def test_a_target_without_byte_counters_and_depth(plan: Plan) -> None:
    """BMv2 tells neither: the link's rate is that of the flows."""
    sampler = Sampler(plan)
    sampler.learn(learned(plan, 0, 7))
    sampler.take(Reading(0.0, queue(None, None, None), {7: 0}, None), 1)
    found = sampler.take(Reading(1.0, queue(None, None, None, 12), {7: 1000}, None), 1)
    (link,) = found.links
    assert (link.rate_bps, link.queue_bytes, link.drops, found.flows[0].drops) == (8000, None, None, None)
    assert "12 packets through" in snapshot_text.line(found) and "drops" not in snapshot_text.line(found)


def test_a_target_that_is_not_reached_by_p4runtime(plan: Plan) -> None:
    """Without flow counters a flow's rate is not known, and never shown as 0."""
    sampler = Sampler(plan)
    sampler.take(Reading(0.0, queue(0), None, None), 1)
    found = sampler.take(Reading(1.0, queue(1000), None, None), 1)
    assert found.links[0].rate_bps == 8000
    assert {row.rate_bps for row in (*found.flows, *found.groups)} == {None}
    assert "(bbr-1 -, cubic-1 -, cubic-2 -)" in snapshot_text.line(found)


def test_addresses_of_a_digest() -> None:
    ports = {"bottleneck": 0, "index": 1, "signature": 2, "protocol": 6, "src_port": 3, "dst_port": 4}
    new = NewFlow.of(ports | {"is_ipv6": 0, "src": 0xC6120003, "dst": 0xC6120004})
    assert new == NewFlow(0, 1, 2, 4, "198.18.0.3", "198.18.0.4", 6, 3, 4)
    new = NewFlow.of(ports | {"is_ipv6": 1, "src": 0x20010002 << 96, "dst": 1})
    assert new == NewFlow(0, 1, 2, 6, "2001:2::", "::1", 6, 3, 4)


def taken(plan: Plan, time_s: float = 10.0) -> Snapshot:
    sampler = Sampler(plan)
    for number in range(3):
        sampler.learn(learned(plan, number, number))
    sampler.take(Reading(time_s - 1, queue(), {0: 0, 1: 0, 2: 0}, {}), 3)
    now = queue(12_000_000, 250_000, 17, 8000)
    return sampler.take(Reading(time_s, now, {0: 7_500_000, 1: 2_500_000, 2: 0}, drops({0: 10, 1: 7})), 3)


def test_flows_have_the_colours_of_the_report(plan: Plan) -> None:
    data = taken(plan).as_json()
    assert [(row["name"], row["color"], row["tint"]) for row in data["flows"]] == [
        ("bbr-1", "c0", 0),
        ("cubic-1", "c1", 0),
        ("cubic-2", "c1", 55),
    ]
    assert [(row["name"], row["color"]) for row in data["groups"]] == [("bbr", "c0"), ("cubic", "c1")]


def test_a_line_says_rate_queue_drops_and_time_left(plan: Plan) -> None:
    assert snapshot_text.line(taken(plan)) == (
        "10 s: 96.0 Mbit/s (bbr-1 60.0, cubic-1 20.0, cubic-2 0.0, (other) 16.0), "
        "queue 250 kB (50%), 17 drops, 3 flows, 20 s left"
    )


def test_many_flows_are_shown_as_groups(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, [{"cca": "cubic", "count": 20, "duration": "9s"}])
    snapshot = Sampler(plan).take(Reading(0.0, queue(), {}, {}), 20)
    assert [row.name for row in snapshot_text.rows(snapshot)] == ["cubic"]


def test_without_a_terminal_there_is_a_line_now_and_then(plan: Plan) -> None:
    printed = io.StringIO()
    with RunProgress(Console(file=printed, width=200), "test") as progress:
        progress.phase("traffic", 30)
        for time_s in (0.5, 4.9, 5.0, 5.5, 9.9, 10.2):
            progress.show(taken(plan, time_s))
    times = [line.split()[1] for line in printed.getvalue().splitlines()]
    assert times == ["traffic", "5", "10"]


def test_on_a_terminal_the_figures_are_drawn_and_taken_away(plan: Plan) -> None:
    printed = io.StringIO()
    console = Console(file=printed, width=120, force_terminal=True)
    with RunProgress(console, "test") as progress:
        progress.phase("traffic", 30)
        progress.show(taken(plan))
        progress.note("a note")
        time.sleep(0.4)
    text = printed.getvalue()
    assert all(
        part in text
        for part in ("bbr-1", "60.0", "cubic-2", "96.0", "96% used", "queue 250 kB (50%)", "20 s left", "a note")
    )
    assert text.endswith("\x1b[2K")


@pytest.fixture
def live() -> Iterator[LivePage]:
    with LivePage() as page:
        yield page


def get(page: LivePage, name: str = "", **headers: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection(ADDRESS, page.port, timeout=10)
    connection.request("GET", page.path + name, headers=headers)
    return connection.getresponse()


def events(response: http.client.HTTPResponse, count: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while len(found) < count:
        line = response.readline()
        assert line, found
        if line.startswith(b"data: "):
            found.append(json.loads(line[6:]))
    return found


def test_a_page_that_comes_late_gets_everything(live: LivePage, plan: Plan) -> None:
    live.publish("run", {"title": "first", "setting": ""})
    live.publish("snapshot", taken(plan).as_json())
    live.publish("run", {"title": "second", "setting": "x"})
    live.publish("phase", {"text": "starting"})
    live.publish("phase", {"text": "traffic"})
    live.publish("snapshot", {"time_s": -2})
    # What belongs to the run before is not sent.
    assert [event.get("time_s") for event in events(get(live, "events"), 3)] == [None, None, -2]
    for number in range(HISTORY + 5):
        live.publish("snapshot", {"time_s": number})
    response = get(live, "events")
    assert response.getheader("Content-Type") == "text/event-stream; charset=utf-8"
    found = events(response, HISTORY + 2)
    assert [(event["kind"], event.get("title"), event.get("text")) for event in found[:2]] == [
        ("run", "second", None),
        ("phase", None, "traffic"),
    ]
    assert [event["time_s"] for event in found[2:]] == list(range(5, HISTORY + 5))
    live.publish("snapshot", {"time_s": -1})
    assert events(response, 1)[0]["time_s"] == -1
    assert events(get(live, "events", **{"Last-Event-ID": str(HISTORY + 11)}), 1)[0]["time_s"] == -1


def test_only_this_machine_and_only_by_its_name(live: LivePage) -> None:
    assert get(live).status == 200
    assert get(live, Host="attacker.example").status == 403
    assert get(live, "../secret").status == 404
    with socket.create_connection((ADDRESS, live.port)) as connection:
        assert connection.getsockname()[0] == connection.getpeername()[0] == "127.0.0.1"


@pytest.mark.needs("root")
@pytest.mark.parametrize("path", ["/", "/events", "//events", "/x/events", "/{prefix}/events"])
def test_other_users_of_the_machine_do_not_see_it(live: LivePage, path: str) -> None:
    """They can connect, and do not know the path."""
    live.publish("run", {"title": "secret", "setting": ""})
    asked = path.format(prefix=live.path[1:-2])
    code = (
        f"import http.client, os; one = http.client.HTTPConnection({ADDRESS!r}, {live.port}, timeout=3); one.connect();"
        f"os.setuid(65534); one.request('GET', {asked!r}); answer = one.getresponse(); "
        "print(answer.status, answer.fp.peek())"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True).stdout
    assert said.startswith("404") and "secret" not in said


def drip(port: int, ended: threading.Event) -> None:
    """Send a byte now and then, as if the request were never whole."""
    with socket.create_connection((ADDRESS, port)) as slow:
        while not ended.wait(0.2):
            try:
                slow.sendall(b"x")
            except OSError:
                return


def test_a_client_that_drips_does_not_keep_a_run_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "PATIENCE_S", 1.0)
    monkeypatch.setattr(serving.Handler, "timeout", 1.0)
    ended = threading.Event()
    with LivePage() as page:
        client = threading.Thread(target=drip, args=(page.port, ended))
        client.start()
        time.sleep(0.5)
        closed = threading.Timer(10, ended.set)
        closed.start()
        began = time.monotonic()
    took_s = time.monotonic() - began
    ended.set()
    closed.cancel()
    client.join()
    assert took_s < 3


@pytest.mark.parametrize(
    ("host", "own"),
    [
        ("127.0.0.1:9464", True), ("[::1]:9464", True), ("10.0.0.7", True), ("localhost:1", True), ("LOCALHOST", True),
        (socket.gethostname(), True), ("lab1.example:9464", True), ("attacker.example", False), (None, False),
        ("", False), ("localhost.attacker.example:9464", False), ("127.0.0.1.attacker.example", False), ("[::1", False),
    ],
)  # fmt: skip
def test_only_names_of_this_machine_are_answered(host: str | None, own: bool) -> None:
    """The name of another site may resolve to this machine; an address, or a name of its own, no other site has."""
    assert serving.is_own(host, ("lab1.example",)) is own


@pytest.mark.long
def test_nothing_stays_when_it_is_over() -> None:
    before = set(threading.enumerate())
    with LivePage() as page:
        port = page.port
        response = get(page, "events")
        page.publish("run", {"title": "t", "setting": ""})
        idle = socket.create_connection((ADDRESS, port))
    assert [event["kind"] for event in events(response, 2)] == ["run", "end"]
    assert response.read().strip() == b""
    idle.close()
    assert set(threading.enumerate()) == before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((ADDRESS, port))
    with LivePage(port):
        pass


def test_a_port_that_is_taken_is_bad_input(live: LivePage) -> None:
    with pytest.raises(InputError, match=f"--live-port {live.port}: Address already in use; allowed"):
        LivePage(live.port)
    with pytest.raises(InputError, match="--live-port 70000: is no TCP port"):
        LivePage(70_000)
