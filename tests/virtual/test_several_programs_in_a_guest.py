# SPDX-License-Identifier: Apache-2.0
"""Links with different P4 programs in one run: each link is what its program makes of it, and nothing else."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import finsy
import narrows_analysis
import pytest
from needs import python_for_all
from test_in_a_guest import PATIENCE_S, start

pytestmark = pytest.mark.needs("guest-kernel", "narrows-softswitch", "narrows-collector", "ip")

EXAMPLE = Path(__file__).parents[2] / "experiments" / "own-program"
PACKAGES = Path(finsy.__file__).parents[1]
# What the example's entries say of its queue.
TARGET_S, INTERVAL_S = 0.005, 0.05
LINKS = """
name: links
links:
  managed:
    rate: 20Mbit
    rtt: 20ms
    buffer: 8BDP
    program:
      json: compiled/interval_aqm.json
      p4info: compiled/interval_aqm.p4info.txtpb
      entries: entries.json
      watch: ["next_signals[3]", standard_metadata.deq_timedelta]
      ports:
        one: {port: 1, ip: 10.0.1.1, mac: "08:00:00:00:01:11"}
        two: {port: 2, ip: 10.0.2.2, mac: "08:00:00:00:02:22"}
        receiver: {port: 3, ip: 10.0.3.3, mac: "08:00:00:00:03:33"}
  learned:
    rate: 10Mbit
    rtt: 20ms
    buffer: 1BDP
    program:
      json: compiled/learning.json
      p4info: compiled/learning.p4info.txtpb
      controller: [env, PYTHONPATH=PACKAGES, PYTHON, learning_controller.py, "7", "8"]
      ports: {three: 7, other: 8}
  plain: {rate: 10Mbit, rtt: 20ms, buffer: 1BDP, loss: 0.01}
flows:
  - {name: a, cca: cubic, from: one, to: receiver, path: [managed], duration: 4s}
  - {name: b, cca: bbr, from: two, to: receiver, path: [managed], duration: 4s}
  - {name: c, cca: cubic, from: three, to: other, path: [learned], duration: 4s}
  - {name: d, cca: cubic, path: [plain], duration: 4s}
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that the user of a run's programs can read: pytest's own are closed to others."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        yield Path(shutil.copytree(EXAMPLE, directory, dirs_exist_ok=True))


@pytest.mark.long
@pytest.mark.needs("python-for-all")
@pytest.mark.parametrize("virtual", [True, pytest.param(False, marks=pytest.mark.needs("root"))])
def test_each_link_is_what_its_program_makes_of_it(place: Path, virtual: bool) -> None:
    text = LINKS.replace("PACKAGES", str(PACKAGES)).replace("PYTHON,", f"{python_for_all()},")
    said = place / "said"
    assert start(place, text, virtual=virtual).wait(PATIENCE_S) == 0, said.read_text()
    record = json.loads((place / "out" / "run.json").read_text())
    assert record["status"] == "complete", record["reason"]
    assert record["losses_elsewhere"] == []
    assert {name: check["holds"] for name, check in record["drop_cross_check"].items()} == {
        "managed": True,
        "learned": True,
        "plain": True,
    }
    assert all(link["drops_recorded"] for link in record["links"])
    assert {link["name"]: link.get("scheduling") for link in record["links"]} == {
        "managed": "strict",
        "learned": "strict",
        "plain": None,
    }
    files = {"narrows.json", "narrows.p4info.txtpb", "managed/entries.json"}
    for link, program in (("managed", "interval_aqm"), ("learned", "learning")):
        files |= {f"{link}/{program}.json", f"{link}/{program}.p4info.txtpb"}
    assert set(record["switch"]["program"]) == files

    run = narrows_analysis.load(place / "out")
    drops = run.drops()
    causes = {link: set(found.cause) for link, found in drops.groupby("link")}
    # A buffer of 1 BDP is full where nothing manages it; only our program loses packets.
    assert (causes["learned"], causes["managed"]) == ({"full queue"}, {"program (egress)"})
    assert "loss emulation" in causes["plain"] <= {"loss emulation", "full queue"}
    decided = drops[drops.link == "managed"]
    # The program counts whole microseconds.
    assert (decided.waited_s > TARGET_S - 1e-6).all()
    assert all(later - before > INTERVAL_S - 2e-6 for before, later in pairwise(sorted(decided.time_s)))
    # Each packet that crosses a link is in its reports, with what its own program says of it.
    reports = run.reports()
    watched = reports["standard_metadata.deq_timedelta"]
    index = {link["name"]: link["index"] for link in record["links"]}
    managed = reports.bottleneck == index["managed"]
    assert watched[managed].notna().all() and watched[~managed].isna().all()
    waited_us = (reports.queue_delay_s[managed] * 1e9).round().astype(int) // 1_000
    assert waited_us.tolist() == watched[managed].tolist()
    for queue in record["traffic_manager"]["queues"]:
        if (of_port := {3: "managed", 8: "learned"}.get(queue["port"])) is not None:
            assert (reports.bottleneck == index[of_port]).sum() == queue["dequeued_packets"]
    registers = run.registers
    assert set(registers.register) == {"managed: next_signals[3]"} and registers.value.any()

    learned = (place / "out" / "hosts" / "controller-learned" / "stdout").read_text().splitlines()
    assert sorted(line.split()[-1] for line in learned) == ["7", "8"]
    assert all(flow["goodput_bps"] > 0 for flow in json.loads((place / "out" / "summary.json").read_text())["flows"])


PATH = """
name: path
links:
  first:
    rate: 5Mbit
    rtt: 10ms
    buffer: 8BDP
    program:
      json: compiled/interval_aqm.json
      p4info: compiled/interval_aqm.p4info.txtpb
      entries: first.json
      ports:
        one: {port: 1, ip: 10.0.1.1, mac: "08:00:00:00:01:11"}
        two: {port: 2, ip: 10.0.2.2, mac: "08:00:00:00:02:22"}
        second: 3
  second: {rate: 10Mbit, rtt: 10ms, delay: 2ms, buffer: 1BDP, loss: 0.01}
  third:
    rate: 4Mbit
    rtt: 10ms
    buffer: 10 packets
    program:
      json: compiled/interval_aqm.json
      p4info: compiled/interval_aqm.p4info.txtpb
      entries: third.json
      ports: {second: 7, receiver: {port: 8, ip: 10.0.3.3, mac: "08:00:00:00:03:33"}}
flows:
  - {name: a, cca: cubic, from: one, to: receiver, path: [first, second, third], duration: 4s}
  - {name: b, cca: bbr, from: two, to: receiver, path: [first, second, third], duration: 4s}
"""
MACS = {"10.0.1.1": "08:00:00:00:01:11", "10.0.2.2": "08:00:00:00:02:22", "10.0.3.3": "08:00:00:00:03:33"}


def routes(ports: dict[str, int]) -> list[dict[str, object]]:
    """Entries of the example's program that lead to hosts by ports."""
    return [
        {
            "table": "AqmIngress.routes",
            "match": {"hdr.ipv4.dst": [address, 32]},
            "action_name": "AqmIngress.forward",
            "action_params": {"next_hop": MACS[address], "port": port},
        }
        for address, port in ports.items()
    ]


@pytest.mark.long
def test_a_path_crosses_the_links_of_three_programs(place: Path) -> None:
    """What leaves one link comes to the next, at the nanosecond at which the link has sent it, and nothing else."""
    manage = json.loads((EXAMPLE / "entries.json").read_text())["table_entries"][-1]
    for name, entries in (
        ("first", [*routes({"10.0.1.1": 1, "10.0.2.2": 2, "10.0.3.3": 3}), manage]),
        ("third", routes({"10.0.1.1": 7, "10.0.2.2": 7, "10.0.3.3": 8})),
    ):
        (place / f"{name}.json").write_text(json.dumps({"target": "bmv2", "table_entries": entries}))
    said = place / "said"
    assert start(place, PATH).wait(PATIENCE_S) == 0, said.read_text()
    record = json.loads((place / "out" / "run.json").read_text())
    assert record["status"] == "complete", record["reason"]
    assert record["losses_elsewhere"] == []
    assert all(check["holds"] for check in record["drop_cross_check"].values())
    run = narrows_analysis.load(place / "out")
    drops, reports = run.drops(), run.reports()
    causes = {link: set(found.cause) for link, found in drops.groupby("link")}
    assert causes == {"first": {"program (egress)"}, "second": {"loss emulation"}, "third": {"full queue"}}
    links = {link["name"]: link for link in record["links"]}
    of = {name: reports[reports.bottleneck == link["index"]] for name, link in links.items()}
    for before, behind, delay_ns in (("first", "second", 0), ("second", "third", 2_000_000)):
        rate = links[before]["rate_bps"]
        lost = drops[drops.link == behind]
        assert len(of[before]) == len(of[behind]) + len(lost) > 1_000
        sent = (of[before].time_s + of[before].packet_bytes * 8 / rate) * 1e9 + delay_ns
        came = [*(of[behind].arrival_s * 1e9), *((lost.time_s - lost.waited_s) * 1e9)]
        # Seconds have lost parts of a nanosecond, and a link keeps them from one packet to the next.
        assert all(abs(one - other) < 2 for one, other in zip(sorted(sent), sorted(came), strict=True))
    rtts = run.sockets
    # Three times 10 ms and the delay; the hosts take less than another one, and full-size packets 5.3 ms on all links.
    assert 0.03 <= rtts.min_rtt_s.min() < 0.04
