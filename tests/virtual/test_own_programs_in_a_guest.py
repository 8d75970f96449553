# SPDX-License-Identifier: Apache-2.0
"""The example of a user's own P4 program, with real TCP: what it decides is what is measured."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import narrows_analysis
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from narrows_formats.file_digest import file_digest
from test_in_a_guest import PATIENCE_S, start

pytestmark = pytest.mark.needs("guest-kernel", "narrows-softswitch", "narrows-collector", "ip")

EXAMPLE = Path(__file__).parents[2] / "experiments" / "own-program"
# What the example's entries say of its queue, in ns.
TARGET, INTERVAL = 5_000_000, 50_000_000
PROGRAM_EGRESS = 7
POLICER = 4


@pytest.mark.long
def test_drops_are_those_that_the_program_decides(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE, tmp_path, dirs_exist_ok=True)
    text = (EXAMPLE / "cubic-and-bbr.yaml").read_text()
    assert start(tmp_path, text.replace("20s", "5s")).wait(PATIENCE_S) == 0, (tmp_path / "said").read_text()
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert record["status"] == "complete", record["reason"]
    assert record["drop_cross_check"]["bottleneck"]["holds"]
    assert record["losses_elsewhere"] == []
    assert record["links"][0]["drops_recorded"]
    assert record["switch"]["program"] == {
        path.name: file_digest(path)
        for path in (*sorted((EXAMPLE / "compiled").glob("interval_aqm.*")), EXAMPLE / "entries.json")
    }

    drops = pq.read_table(tmp_path / "out" / "telemetry" / "drops.parquet").sort_by("timestamp").to_pylist()
    decided = [drop for drop in drops if drop["cause"] == PROGRAM_EGRESS]
    # One flow or the other is above the target most of the time: five seconds have room for 100 drops.
    assert 20 < len(decided) <= 100
    # The program counts whole microseconds.
    assert all(drop["waited"] > TARGET - 1_000 for drop in decided)
    assert all(later["timestamp"] - drop["timestamp"] > INTERVAL - 1_000 for drop, later in pairwise(decided))

    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert {flow["cca"] for flow in summary["flows"]} == {"cubic", "bbr"}
    assert sum(flow["drops"] for flow in summary["flows"]) == summary["bottleneck"]["drops"] == len(drops)
    # A buffer of 8 BDP would be 160 ms; what is dropped at departure costs the link no time.
    assert summary["bottleneck"]["queue_delay_s"]["p50"] < 0.08
    assert summary["bottleneck"]["utilization"] > 0.9
    # All hosts' packets are those of TCP, in both directions of the handshake.
    assert all(flow["goodput_bps"] > 0 for flow in summary["flows"])


@pytest.mark.long
def test_a_watched_register_has_what_the_program_writes(tmp_path: Path) -> None:
    """The program writes down when it may drop next: the time of a drop, in whole us, and the interval."""
    shutil.copytree(EXAMPLE, tmp_path, dirs_exist_ok=True)
    text = (EXAMPLE / "cubic-and-bbr.yaml").read_text().replace("20s", "2s")
    text = text.replace("    entries:", '    watch: ["next_signals[3]", "next_signals[2]"]\n    entries:')
    text = text.replace("flows:", "telemetry: {sockets: 5ms}\nflows:")
    assert start(tmp_path, text).wait(PATIENCE_S) == 0, (tmp_path / "said").read_text()
    run = narrows_analysis.load(tmp_path / "out")
    found = run.registers
    # Port 2 is not managed.
    assert not found[found.register == "next_signals[2]"].value.any()
    watched = found[found.register == "next_signals[3]"]
    times, values = watched.time_s.to_numpy(), watched.value.to_numpy()
    assert times[:400].tolist() == [number * 5 / 1_000 for number in range(400)]

    drops = pq.read_table(tmp_path / "out" / "telemetry" / "drops.parquet").sort_by("timestamp").to_pylist()
    decided = [drop for drop in drops if drop["cause"] == PROGRAM_EGRESS]
    # Drops are in ns of the switch's clock, the register in us of the same.
    at_ns = np.array([drop["timestamp"] for drop in decided])
    origin_ns = at_ns[0] - round(run.drops().query("cause == 'program (egress)'").time_s.iloc[0] * 1e9)
    assert run.summary["bottleneck"]["aqm_drops"] == len(at_ns) > 10
    checked = 0
    for time_s, value in zip(times[:400].tolist(), values[:400].tolist(), strict=True):
        now_ns = origin_ns + round(time_s * 1e9)
        last_ns = max(at_ns[at_ns <= now_ns].tolist(), default=0)
        if value == last_ns // 1_000 + INTERVAL // 1_000:
            checked += 1
        else:
            # Since then the queue was short, and may be longer again: the interval began anew.
            assert value == 0 or last_ns < value * 1_000 - INTERVAL <= now_ns, (time_s, value)
    assert checked > 100


def _busy(packets: pd.DataFrame) -> Iterator[tuple[int, int]]:
    """Times, in ns, from which and to which a queue always has a packet that its link has not started."""
    at = np.concatenate([packets.timestamp - packets.queue_delay, packets.timestamp]).astype(np.int64)
    change = np.repeat([1, -1], len(packets))
    # What comes when the last one leaves finds the queue empty.
    order = np.lexsort((change, at))
    waiting = np.cumsum(change[order])
    ends = np.flatnonzero(waiting == 0)
    begins = np.concatenate([[0], ends[:-1] + 1])
    return zip(at[order][begins].tolist(), at[order][ends].tolist(), strict=True)


@pytest.mark.long
def test_queues_of_a_program_have_turns(tmp_path: Path) -> None:
    """While both have packets, their bytes over their quanta differ by a turn and a largest packet at most.

    Lemma 2 of Shreedhar and Varghese: in m turns a queue sends m quanta, give or take less than its largest packet, and
    of two queues one has had at most a turn more.
    """
    shutil.copytree(EXAMPLE, tmp_path, dirs_exist_ok=True)
    text = (EXAMPLE / "shared-by-turns.yaml").read_text()
    assert start(tmp_path, text.replace("20s", "5s")).wait(PATIENCE_S) == 0, (tmp_path / "said").read_text()
    # Packets of the first queue rightly wait longer than a full buffer takes.
    assert "warning" not in (tmp_path / "said").read_text()
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert record["status"] == "complete", record["reason"]
    assert record["drop_cross_check"]["bottleneck"]["holds"]
    assert record["links"][0]["scheduling"] == "deficit"
    (file,) = (tmp_path / "out" / "telemetry").glob("reports-*.parquet")
    sent = pq.read_table(file, columns=["timestamp", "queue_delay", "packet_length", "queue"]).to_pandas()
    sent = sent.astype(np.int64).sort_values("timestamp", kind="stable")
    assert set(sent.queue) == {0, 1}

    frame, quanta = 1_514, (1_514, 4_542)
    bound = 1 + sum(frame / quantum for quantum in quanta)
    parts = np.where(sent.queue == 0, sent.packet_length / quanta[0], -sent.packet_length / quanta[1])
    times, longest_ns = sent.timestamp.to_numpy(), 0
    other = list(_busy(sent[sent.queue == 1]))
    for begin, end in _busy(sent[sent.queue == 0]):
        for first, last in ((max(begin, one[0]), min(end, one[1])) for one in other):
            # A packet that starts as the time begins may be of the turn before.
            ahead = np.cumsum(parts[(times > first) & (times < last)])
            longest_ns = max(longest_ns, last - first)
            if len(ahead):
                assert max(ahead.max(), 0) - min(ahead.min(), 0) <= bound, (first, last)
    # Most of the run is one such time.
    assert longest_ns > 2_500_000_000


@pytest.mark.long
def test_packets_are_marked_from_the_program_s_depth_on(tmp_path: Path) -> None:
    """A packet that finds N others that have not left, the one on the link with them, is marked if N is 20 or more."""
    reports = _reported(tmp_path, "threshold-marking").sort_values("time_s", kind="stable")
    starts_ns, arrivals_ns = ((reports[name] * 1e9).round().to_numpy(np.int64) for name in ("time_s", "arrival_s"))
    ends_ns = starts_ns + reports.packet_bytes.to_numpy(np.int64) * 8 * 10  # at 100 Mbit/s
    found = np.arange(len(reports)) - np.searchsorted(ends_ns, arrivals_ns, side="right")
    marked = reports.ce_marked.to_numpy()
    assert np.array_equal(marked, (found >= 20) & (reports.arrival_ecn.to_numpy() > 0))
    assert 1_000 < marked.sum() < len(marked) / 2


@pytest.mark.long
def test_urgent_packets_wait_for_one_frame_at_most(tmp_path: Path) -> None:
    reports = _reported(tmp_path, "strict-priority")
    frame_s = 1_514 * 8 / 20e6
    urgent, bulk = reports[reports.queue == 1], reports[reports.queue == 0]
    assert len(urgent) > 500 and urgent.queue_delay_s.max() <= frame_s
    assert bulk.queue_delay_s.max() > 50 * frame_s


def _reported(tmp_path: Path, example: str) -> pd.DataFrame:
    """Reports of three seconds of an example."""
    shutil.copytree(EXAMPLE, tmp_path, dirs_exist_ok=True)
    text = (EXAMPLE / f"{example}.yaml").read_text().replace("duration: 10s", "duration: 3s")
    assert start(tmp_path, text).wait(PATIENCE_S) == 0, (tmp_path / "said").read_text()
    reports: pd.DataFrame = narrows_analysis.load(tmp_path / "out").reports()
    return reports


@pytest.mark.long
def test_a_policer_is_in_front_of_the_program_s_queue(tmp_path: Path) -> None:
    """Each decision is that of the token bucket of RFC 2697, computed here from the arrivals."""
    shutil.copytree(EXAMPLE, tmp_path, dirs_exist_ok=True)
    rate, burst = 15_000_000, 30_000
    text = (EXAMPLE / "cubic-and-bbr.yaml").read_text().replace("20s", "4s")
    text = text.replace("  buffer: 8BDP\n", "  buffer: 8BDP\n  policer: {rate: 15Mbit, burst: 30kB}\n")
    text += "events:\n  - {link: bottleneck, at: 1s, rate: 5Mbit}\n"
    assert start(tmp_path, text).wait(PATIENCE_S) == 0, (tmp_path / "said").read_text()
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert record["status"] == "complete", record["reason"]
    assert record["drop_cross_check"]["bottleneck"]["holds"]

    telemetry = tmp_path / "out" / "telemetry"
    drops = pq.read_table(telemetry / "drops.parquet").to_pylist()
    (reports,) = telemetry.glob("reports-*.parquet")
    sent = pq.read_table(reports, columns=["timestamp", "queue_delay", "packet_length"]).to_pylist()
    arrivals = [(packet["timestamp"] - packet["queue_delay"], False, packet["packet_length"]) for packet in sent]
    arrivals += [
        (drop["timestamp"] - drop["waited"], drop["cause"] == POLICER, drop["packet_length"]) for drop in drops
    ]
    bucket, filled = burst * 8_000_000_000, 0
    for at, is_policed, length in sorted(arrivals):
        bucket = min(burst * 8_000_000_000, bucket + (at - filled) * rate)
        filled, taken = at, length * 8_000_000_000
        assert is_policed == (bucket < taken)
        bucket -= 0 if is_policed else taken
    policed = sum(drop["cause"] == POLICER for drop in drops)
    assert policed > 50
    # A link of 5 Mbit/s has a queue, of which the program drops.
    assert any(drop["cause"] == PROGRAM_EGRESS for drop in drops)
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["bottleneck"]["policer_drops"] == policed


TWO_PORTS = """
name: two-ports
links:
  left:
    rate: 20Mbit
    rtt: 10ms
    delay: {steps: [{at: 0s, delay: 5ms}, {at: 3s, delay: 15ms}]}
    buffer: 8BDP
    program: &program
      json: compiled/interval_aqm.json
      p4info: compiled/interval_aqm.p4info.txtpb
      entries: entries.json
      ports:
        one: {port: 1, ip: 10.0.1.1, mac: "08:00:00:00:01:11"}
        two: {port: 2, ip: 10.0.2.2, mac: "08:00:00:00:02:22"}
        receiver: {port: 3, ip: 10.0.3.3, mac: "08:00:00:00:03:33"}
        other: {port: 4, ip: 10.0.4.4, mac: "08:00:00:00:04:44"}
  right:
    rate: 10Mbit
    rtt: 10ms
    delay: 5ms
    jitter: {uniform: 2ms}
    duplication: 0.05
    buffer: 60 packets
    program: *program
flows:
  - {name: stepped, cca: cubic, from: one, to: receiver, path: [left], duration: 6s}
  - {name: doubled, cca: bbr, from: two, to: other, path: [right], duration: 6s}
"""


@pytest.mark.long
def test_two_links_of_one_program_vary_as_links_do(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE, tmp_path, dirs_exist_ok=True)
    entries = json.loads((tmp_path / "entries.json").read_text())
    further = json.loads(json.dumps(entries["table_entries"][0]).replace("10.0.1.1", "10.0.4.4"))
    further["action_params"] = {"next_hop": "08:00:00:00:04:44", "port": 4}
    entries["table_entries"].append(further)
    (tmp_path / "entries.json").write_text(json.dumps(entries))
    assert start(tmp_path, TWO_PORTS).wait(PATIENCE_S) == 0, (tmp_path / "said").read_text()
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert record["status"] == "complete", record["reason"]
    assert record["losses_elsewhere"] == []
    assert all(link["holds"] for link in record["drop_cross_check"].values())

    sockets = narrows_analysis.load(tmp_path / "out").sockets
    rtts = sockets[sockets.name == "stepped-1"]
    # 10 ms and the delay of the time; a millisecond is for the hosts, and for a packet's 0.6 ms on the link.
    assert 0.015 <= rtts[rtts.time_s < 3].min_rtt_s.min() < 0.016
    assert rtts[rtts.time_s > 3.5].rtt_s.min() >= 0.025
    # The least jitter is -2 ms.
    assert sockets[sockets.name == "doubled-1"].min_rtt_s.min() >= 0.013

    queues = {queue["port"]: queue for queue in record["traffic_manager"]["queues"]}
    sent = queues[4]["dequeued_packets"]
    # Binomial: four standard deviations.
    assert abs(queues[4]["duplicated_packets"] - 0.05 * sent) < 4 * math.sqrt(0.05 * 0.95 * sent)
    assert queues[3]["duplicated_packets"] == 0


# In the example's entries: what to write instead of what, and where the packets of both flows then are.
WRONG_ENTRIES = {
    "an Ethernet address": (
        '"next_hop": "08:00:00:00:03:33"',
        '"next_hop": "08:00:00:00:03:34"',
        "receiver dropped {both} packets for another Ethernet address than its own, 08:00:00:00:03:33",
    ),
    "a port": (
        '"08:00:00:00:03:33", "port": 3',
        '"08:00:00:00:02:22", "port": 2',
        "bbr-host dropped {both} packets for another IP address than its own, 10.0.2.2",
    ),
    "no entry": ('["10.0.3.3", 32]', '["10.0.3.4", 32]', "the program dropped {own} packets of theirs in ingress"),
}


@pytest.mark.parametrize(
    "wrong",
    [
        "an Ethernet address",
        pytest.param("a port", marks=pytest.mark.long),
        pytest.param("no entry", marks=pytest.mark.long),
    ],
)
def test_wrong_entries_are_said_of_flows_of_which_nothing_is_delivered(tmp_path: Path, wrong: str) -> None:
    """A sender's kernel counts how often it has tried to connect; the switch and other kernels find as many."""
    shutil.copytree(EXAMPLE, tmp_path, dirs_exist_ok=True)
    right, instead, where = WRONG_ENTRIES[wrong]
    entries = (EXAMPLE / "entries.json").read_text()
    assert entries.count(right) == 1
    (tmp_path / "entries.json").write_text(entries.replace(right, instead))
    text = (EXAMPLE / "cubic-and-bbr.yaml").read_text().replace("20s", "2s")
    # Where no packet came to the link, there are no reports of it, and the run fails for that.
    start(tmp_path, text).wait(PATIENCE_S)
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    kernels = record["host"]["testbed"]["kernel_counters"]
    tried = [kernels[host]["TcpOutSegs"] + kernels[host]["TcpRetransSegs"] for host in ("cubic-host", "bbr-host")]
    assert min(tried) >= 2
    found = {flow: pair["found"] for pair in record["undelivered"] for flow in pair["flows"]}
    for flow, host, port, count in (("cubic-1", "cubic-host", 1, tried[0]), ("bbr-1", "bbr-host", 2, tried[1])):
        assert found[flow][0] == f"{count} packets came from {host} (port {port})"
        assert where.format(both=sum(tried), own=count) in found[flow]
    said = (tmp_path / "said").read_text()
    assert all(f"error: {flow}: nothing was delivered. In the whole run, " in said for flow in found)
    assert "nothing was delivered" in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.needs("root")
def test_the_example_runs_in_real_time(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE, tmp_path, dirs_exist_ok=True)
    text = (EXAMPLE / "cubic-and-bbr.yaml").read_text().replace("20s", "5s")
    assert start(tmp_path, text, virtual=False).wait(PATIENCE_S) == 0, (tmp_path / "said").read_text()
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert record["status"] == "complete", record["reason"]
    assert record["drop_cross_check"]["bottleneck"]["holds"]
    drops = pq.read_table(tmp_path / "out" / "telemetry" / "drops.parquet").sort_by("timestamp").to_pylist()
    decided = [drop for drop in drops if drop["cause"] == PROGRAM_EGRESS]
    # The switch's clock is that of its schedule, so that these hold on a busy machine, too.
    assert 10 < len(decided) <= 100
    assert all(drop["waited"] > TARGET - 1_000 for drop in decided)
    assert all(later["timestamp"] - drop["timestamp"] > INTERVAL - 1_000 for drop, later in pairwise(decided))


@pytest.mark.long
def test_watched_fields_are_columns_of_the_reports(tmp_path: Path) -> None:
    """How long a packet waited is in its report in ns, and in v1model's field in us; the target is that of the entries.

    Only egress knows them, and nothing reads the one that is looked up once egress has decided.
    """
    shutil.copytree(EXAMPLE, tmp_path, dirs_exist_ok=True)
    text = (EXAMPLE / "cubic-and-bbr.yaml").read_text().replace("20s", "2s")
    fields = ["standard_metadata.deq_timedelta", "scalars.target_0", "standard_metadata.ingress_port"]
    text = text.replace("    entries:", f"    watch: [{', '.join(fields)}]\n    entries:")
    assert start(tmp_path, text).wait(PATIENCE_S) == 0, (tmp_path / "said").read_text()
    run = narrows_analysis.load(tmp_path / "out")
    found = run.reports()
    assert len(found) > 2_000 and not found[fields].isna().any().any()
    waited, target, port = (found[name].to_numpy(dtype=np.int64) for name in fields)
    assert waited.tolist() == (found.queue_delay_s * 1e9).round().astype(np.int64).floordiv(1_000).tolist()
    assert waited.max() > TARGET // 1_000
    assert set(target.tolist()) == {TARGET // 1_000}
    # Each sender is at a port of its own, and its packets cross the link alone.
    assert {len(set(port[found.flow == flow].tolist())) for flow in (0, 1)} == {1}
    assert len(set(port.tolist())) == 2
    table = pq.read_table(tmp_path / "out" / "telemetry" / "watched.parquet")
    assert table.column_names == ["timestamp", "bottleneck", "sequence", *fields] and len(table) == len(found)
