# SPDX-License-Identifier: Apache-2.0
"""The pandas interface, and the same functions on Dask."""

from __future__ import annotations

import importlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import synthetic
from narrows_analysis import AnalysisError, analyze_run, load
from narrows_analysis.records.run_directory import read_run
from narrows_analysis.records.sockets import lines, read_socket_records
from narrows_analysis.report.figures import RunFigures
from narrows_analysis.run_data import RunData
from narrows_formats import columns as columns_of_files

Competition = tuple[Path, synthetic.Truth, Any]


def test_frames_have_units(competition: Competition) -> None:
    run = load(competition[0])
    for frame in (run.flows, run.queue, run.reports(), run.hosts):
        assert set(frame.attrs["units"]) == set(frame.columns)
        assert frame.attrs["source"]
    assert run.queue.attrs["units"]["delay_mean_s"] == "s"
    assert "20 Mbit/s, 2 flows" in repr(run)


def test_reports_in_si_units(competition: Competition) -> None:
    run_dir, truth, _ = competition
    reports = load(run_dir).reports()
    assert len(reports) == sum(truth.departures)
    np.testing.assert_allclose(reports["queue_delay_s"], truth.delays_ns / 1e9)
    np.testing.assert_allclose(reports["dequeue_depth_bytes"], truth.depths_bytes)
    assert reports["arrival_s"].iloc[0] == pytest.approx(0.0, abs=1e-9)
    assert reports["flow"].value_counts().to_dict() == dict(enumerate(truth.departures))


def test_reports_say_what_queue_management_did(competition: Competition, tmp_path: Path) -> None:
    """The queue, drops by queue management and both ECN fields; a run of before has no columns for the first three."""
    run_dir = shutil.copytree(competition[0], tmp_path / "run")
    path = run_dir / "telemetry" / "reports-00000.parquet"
    table = pq.read_table(path)
    number = np.arange(len(table))
    # ECT(1) in queue 1, and ECT(0), of which every third is marked.
    marked = number % 3 == 0
    arrived = np.where(number % 2 == 1, 1, 2)
    for name, values in {
        "queue": number % 2, "aqm_drops": number // 5, "ecn": np.where(marked, 3, arrived),
        "flags": arrived * 8 + marked,
    }.items():  # fmt: skip
        at = table.schema.get_field_index(name)
        table = table.set_column(at, name, pa.array(values, type=table.schema.field(at).type))
    pq.write_table(table, path)
    reports = next(load(run_dir).report_batches(rows=len(number)))
    assert list(reports["queue"]) == list(number % 2) and list(reports["aqm_drops"]) == list(number // 5)
    assert list(reports["arrival_ecn"]) == list(arrived) and list(reports["ce_marked"]) == list(marked)

    for path in (run_dir / "telemetry").glob("reports-*.parquet"):
        pq.write_table(pq.read_table(path).drop_columns(["queue", "aqm_drops"]), path)
    run = load(run_dir)
    for frame in (run.reports(), run.dask_reports().compute()):
        assert not {"queue", "aqm_drops", "arrival_ecn"} & set(frame.columns)
    assert set(run.reports().attrs["units"]) == set(run.reports().columns)


def test_batches_are_the_whole(competition: Competition) -> None:
    run = load(competition[0])
    parts = list(run.report_batches(rows=5000))
    assert max(map(len, parts)) <= 5000
    pd.testing.assert_frame_equal(pd.concat(parts, ignore_index=True), run.reports())


def test_intervals_agree_with_the_analysis(competition: Competition) -> None:
    """What analyze_run streams equals what a group-by over all reports gives."""
    run_dir, truth, _ = competition
    run = load(run_dir)
    reports = run.reports()
    for interval_s, flows in ((0.1, run.flows), (0.37, run.flow_intervals(0.37))):
        for number in (0, 1):
            mine = reports[reports["flow"] == number]
            sums = mine.groupby(((mine["time_s"] + 1e-9) / interval_s).astype(int))
            theirs = flows[flows["flow"] == number]
            np.testing.assert_allclose(sums["packet_bytes"].sum() * 8 / interval_s, theirs["throughput_bps"])
            np.testing.assert_allclose(sums["queue_delay_s"].max(), theirs["queue_delay_max_s"])
            assert theirs["drops"].sum() == truth.drops[number]
    interval_s = float(run.queue["interval_s"].iloc[0])
    queue = reports.groupby(((reports["time_s"] + 1e-9) / interval_s).astype(int))
    theirs = run.queue.dropna()
    np.testing.assert_allclose(queue["queue_delay_s"].mean(), theirs["delay_mean_s"])
    np.testing.assert_allclose(queue["packet_bytes"].sum() * 8 / interval_s, theirs["throughput_bps"])
    with pytest.raises(ValueError, match="not positive"):
        run.flow_intervals(0.0)


def test_intervals_without_packets_have_rows(tmp_path: Path) -> None:
    """A mean over the intervals of a flow's life is what it sent over its life, however short they are.

    Packets of 1514 B at 20 Mbit/s take 0.6 ms, and two are in flight in 20 ms: most intervals of 1 ms are empty.
    """
    truth = synthetic.write_run(
        tmp_path / "run", synthetic.Scenario(senders=[synthetic.Sender("a", "a", 0.0, 2.0, window=2, aimd=False)])
    )
    analyze_run(tmp_path / "run")
    run = load(tmp_path / "run")
    fine = run.flow_intervals(0.001)
    assert list(fine.columns) == list(run.flows.columns) and fine.attrs["units"] == run.flows.attrs["units"]
    assert set(fine["name"]) == {"a-1"}
    lasts = run.reports()["time_s"].max()
    assert len(fine) == int(lasts / 0.001) + 1
    assert fine["throughput_bps"].mean() * len(fine) * 0.001 == pytest.approx(truth.l2_bytes[0] * 8)
    assert (fine["departures"] == 0).mean() > 0.8
    whole = run.flow_intervals(float(run.flows["interval_s"].iloc[0]))
    pd.testing.assert_frame_equal(whole, run.flows)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    distributed: Any = importlib.import_module("distributed")  # it has no types
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0"
        ) as local,
        distributed.Client(local) as client,
    ):
        yield client


def test_dask_gives_the_same(competition: Competition, cluster: Any) -> None:
    run = load(competition[0])
    lazy = run.dask_reports()
    assert lazy.npartitions >= 2
    result = lazy.groupby("flow")["packet_bytes"].sum().compute()
    assert cluster.status == "running"
    pd.testing.assert_series_equal(result.sort_index(), run.reports().groupby("flow")["packet_bytes"].sum())


def test_dask_without_a_cluster(competition: Competition) -> None:
    dask: Any = importlib.import_module("dask")
    run: Any = load(competition[0])
    with dask.config.set(scheduler="synchronous"):
        result = run.dask_reports().compute()
    pd.testing.assert_frame_equal(result.reset_index(drop=True), run.reports(), check_dtype=False)


@pytest.fixture
def both_directions(tmp_path: Path) -> tuple[Path, synthetic.Truth]:
    """A run whose acknowledgements cross a second bottleneck 7 ms after each data packet left the first."""
    truth = synthetic.write_run(tmp_path / "run", synthetic.two_flows(2.0), files=1)
    telemetry = tmp_path / "run" / "telemetry"
    forward = {name: pq.read_table(telemetry / "reports-00000.parquet")[name].to_numpy() for name in truth.rows}
    mine = forward["flow"] == 1000
    count = int(mine.sum())
    offsets = (forward["tcp_seq"][mine].astype(np.int64) - 4_294_900_000) % (1 << 32)
    # Nothing is acknowledged past a hole: find for each packet the end of what is there without one.
    have: set[int] = set()
    reached, acks = 0, []
    for offset in offsets:
        have.add(int(offset))
        while reached in have:
            reached += 1448
        acks.append((4_294_900_000 + reached) % (1 << 32))
    back = {name: np.zeros(count, np.int64) for name in truth.rows}
    back |= {
        "bottleneck": np.ones(count, np.int64), "flow": np.full(count, 77), "signature": np.full(count, 5),
        "packet_length": np.full(count, 66), "sequence": np.arange(1, count + 1),
        "timestamp": forward["timestamp"][mine].astype(np.int64) + 7_000_000, "protocol": np.full(count, 6),
        "tcp_ack": np.array(acks), "tcp_tsecr": forward["tcp_tsval"][mine], "tcp_flags": np.full(count, 0x10),
    }  # fmt: skip
    synthetic.write_reports(telemetry / "reports-00001.parquet", back)
    keys = pq.read_table(telemetry / "flow_keys.parquet").to_pylist()
    reverse = keys[0] | {"bottleneck": 1, "flow": 77, "signature": 5}
    reverse |= {"src": keys[0]["dst"], "dst": keys[0]["src"]}
    reverse |= {"src_port": keys[0]["dst_port"], "dst_port": keys[0]["src_port"]}
    pq.write_table(pa.Table.from_pylist([*keys, reverse]), telemetry / "flow_keys.parquet")
    return tmp_path / "run", truth


def test_rtt_at_the_switch(both_directions: tuple[Path, synthetic.Truth]) -> None:
    run_dir, truth = both_directions
    frame = load(run_dir).switch_rtt(0)
    mine = truth.rows["flow"] == 1000
    assert set(frame["method"]) == {"timestamps"} and len(frame) > 100
    assert frame["rtt_s"].min() >= 0.007 + truth.delays_ns[mine].min() / 1e9 - 1e-9
    assert frame["rtt_s"].max() <= 0.007 + truth.delays_ns[mine].max() / 1e9 + 1e-9
    assert load(run_dir).switch_rtt(1).empty
    with pytest.raises(AnalysisError, match="flow 2: the run has flows 0 to 1"):
        load(run_dir).switch_rtt(2)


def add_reports(run_dir: Path, name: str, changes: dict[str, int], like: int = 0) -> None:
    """Add a report, like another one of a file but for some columns; reports are in order of time."""
    path = run_dir / "telemetry" / name
    rows = pd.read_parquet(path)
    added = pd.concat([rows, rows.iloc[[like]].assign(**changes)]).sort_values("timestamp", kind="stable")
    synthetic.write_reports(path, {name: added[name].to_numpy() for name in synthetic.REPORT_TYPES})


def test_a_syn_acknowledges_nothing(both_directions: tuple[Path, synthetic.Truth]) -> None:
    """That of a client whose server sends the data has 0 where others have an acknowledgement; the data's sequence
    numbers, in the upper half, are less than that."""
    run_dir, _ = both_directions
    known = load(run_dir).switch_inflight(0)["inflight_bytes"]
    summary: Any = analyze_run(run_dir)["flows"]
    assert summary[0]["inflight_bytes"]["max"] >= known.max() > 0
    first = int(pd.read_parquet(run_dir / "telemetry" / "reports-00000.parquet")["timestamp"].min())
    add_reports(run_dir, "reports-00001.parquet", {"timestamp": first, "tcp_flags": 0x02, "tcp_ack": 0, "tcp_tsecr": 0})
    assert load(run_dir).switch_inflight(0)["inflight_bytes"].tolist() == known.tolist()
    again: Any = analyze_run(run_dir)["flows"]
    assert again[0]["inflight_bytes"] == summary[0]["inflight_bytes"]


def test_what_acknowledges_only_is_echoed_when_it_may(both_directions: tuple[Path, synthetic.Truth]) -> None:
    """With data both ways: an acknowledgement with the timestamp that data have next, whose echo leaves before these
    have arrived."""
    run_dir, _ = both_directions
    known = load(run_dir).switch_rtt(0)
    name = "reports-00000.parquet"
    rows = pd.read_parquet(run_dir / "telemetry" / name)
    mine = rows[(rows["flow"] == 1000) & ~rows["tcp_tsval"].duplicated()].iloc[50]
    arrived = int(mine["timestamp"] - mine["queue_delay"])
    earlier = {"timestamp": arrived - 900_000, "queue_delay": 0, "payload_length": 0}
    add_reports(run_dir, name, {**earlier, "tcp_tsval": int(mine["tcp_tsval"]), "flow": 1000})
    echo = {"timestamp": arrived + 100_000, "tcp_tsecr": int(mine["tcp_tsval"])}
    add_reports(run_dir, "reports-00001.parquet", echo)
    found = load(run_dir).switch_rtt(0)
    assert found["rtt_s"].min() == known["rtt_s"].min() and len(found) == len(known) - 1


def test_rtt_of_a_flow_that_does_not_cross_the_first_link(both_directions: tuple[Path, synthetic.Truth]) -> None:
    run_dir, _ = both_directions
    expected = load(run_dir).switch_rtt(0)
    run = json.loads((run_dir / "run.json").read_text())
    link = run.pop("bottleneck", None) or run.pop("links")[0]
    run["links"] = [{**link, "name": "before", "index": 9}, {**link, "name": "crossed"}]
    for flow in run["flows"]:
        flow["links"] = ["crossed"]
    drops = run["traffic_manager"]["flow_drops"]
    run["traffic_manager"]["flow_drops"] = {"before": [], "crossed": drops}
    (run_dir / "run.json").write_text(json.dumps(run))
    assert not expected.empty
    pd.testing.assert_frame_equal(load(run_dir).switch_rtt(0), expected)


def test_rtt_and_inflight_are_in_the_summary(
    both_directions: tuple[Path, synthetic.Truth], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Echoes of the receiver's timestamps come back 3 ms after the acknowledgement; the same whatever the batches."""
    run_dir, truth = both_directions
    paths = [run_dir / "telemetry" / f"reports-{part:05d}.parquet" for part in (0, 1)]
    forward, back = ({name: pq.read_table(path)[name].to_numpy() for name in truth.rows} for path in paths)
    mine = np.flatnonzero(forward["flow"] == 1000)
    back["tcp_tsval"] = np.arange(1, len(mine) + 1) + 5000
    # A data packet echoes the last value that reached the sender.
    arrival = forward["timestamp"][mine].astype(np.int64) - forward["queue_delay"][mine]
    reached = np.searchsorted(back["timestamp"].astype(np.int64) + 3_000_000, arrival, side="right")
    forward["tcp_tsecr"] = forward["tcp_tsecr"].astype(np.int64)
    forward["tcp_tsecr"][mine] = np.where(reached > 0, reached + 5000, 0)
    both = {name: np.concatenate((forward[name], back[name])) for name in truth.rows}
    order = np.argsort(both["timestamp"], kind="stable")
    paths[1].unlink()
    synthetic.write_reports(paths[0], {name: values[order] for name, values in both.items()})
    flows: Any = analyze_run(run_dir)["flows"]
    samples = load(run_dir).switch_rtt(0)["rtt_s"]
    rtt = flows[0]["rtt_s"]
    assert flows[0]["rtt_source"] == "the switch (TCP timestamps of both directions)"
    # Senders are clocked by acknowledgements; between two of them passes a packet's time of 0.6 ms or a little more.
    assert samples.min() + 0.003 <= rtt["min"] <= samples.min() + 0.0035
    assert samples.mean() + 0.003 <= rtt["mean"] <= samples.mean() + 0.006
    open_bytes = load(run_dir).switch_inflight(0)["inflight_bytes"]
    assert flows[0]["inflight_bytes"]["max"] == open_bytes.max()
    assert flows[0]["inflight_bytes"]["mean"] == pytest.approx(open_bytes.mean(), rel=0.02)
    assert flows[1]["inflight_bytes"] == {"mean": None, "max": None} and "hosts" in flows[1]["rtt_source"]
    monkeypatch.setattr("narrows_analysis.aggregation.both_directions.BATCH_ROWS", 97)
    small: Any = analyze_run(run_dir)["flows"][0]
    assert small["rtt_s"] == pytest.approx(rtt, rel=1e-9)
    assert small["inflight_bytes"] == pytest.approx(flows[0]["inflight_bytes"], rel=0.02)


def test_a_sample_does_not_tell_the_rtt(both_directions: tuple[Path, synthetic.Truth]) -> None:
    """The first of the packets with a timestamp may be in no report: the one after it has a shorter way."""
    run_dir, truth = both_directions
    for path in sorted((run_dir / "telemetry").glob("reports-*.parquet")):
        columns = {name: pq.read_table(path)[name].to_numpy() for name in truth.rows}
        kept = columns["sequence"] % 2 == 0
        columns = {name: values[kept] for name, values in columns.items()}
        synthetic.write_reports(path, columns | {"sample_shift": np.ones(int(kept.sum()), np.uint8)})
    summary: Any = analyze_run(run_dir)
    flow = summary["flows"][0]
    assert summary["telemetry"]["sample"] == 2
    assert "flow records" in flow["rtt_source"] and flow["inflight_bytes"] == {"mean": None, "max": None}
    assert load(run_dir).switch_rtt(0).empty and load(run_dir).switch_inflight(0).empty
    assert "sampled reports" in summary["bottleneck"]["saturated_rate_reason"]


def test_sockets_tell_what_the_switch_does_not(tmp_path: Path) -> None:
    synthetic.write_run(tmp_path / "run", synthetic.two_flows(2.0))
    readings = {"flow": [1, 1], "rtt_s": [0.03, 0.05], "min_rtt_s": [0.03, 0.02], "inflight_bytes": [3000, 1000]}
    pd.DataFrame(readings).to_parquet(tmp_path / "run" / "hosts" / "sockets.parquet")
    flows: Any = analyze_run(tmp_path / "run")["flows"]
    assert flows[1]["inflight_bytes"] == {"mean": 2000, "max": 3000}
    assert flows[1]["inflight_source"] == "the hosts (sockets, TCP_INFO)" and flows[0]["inflight_source"] is None
    # Not the record's smoothed RTTs: their mean is not the smallest of a packet.
    assert flows[1]["rtt_s"] == {"min": 0.02, "mean": pytest.approx(0.04)} and "sockets" in flows[1]["rtt_source"]
    assert "flow records" in flows[0]["rtt_source"]
    (tmp_path / "run" / "hosts" / "sockets.parquet").write_bytes(b"PAR1")
    with pytest.raises(AnalysisError, match=r"sockets\.parquet: not readable"):
        analyze_run(tmp_path / "run")
    pd.DataFrame({**readings, "flow": [1, 2]}).to_parquet(tmp_path / "run" / "hosts" / "sockets.parquet")
    with pytest.raises(AnalysisError, match=r"sockets\.parquet: flow 2; allowed: 0 to 1, as in run\.json"):
        analyze_run(tmp_path / "run")
    for value in (-1.0, 1e300, float("inf")):
        pd.DataFrame({**readings, "rtt_s": value}).to_parquet(tmp_path / "run" / "hosts" / "sockets.parquet")
        with pytest.raises(AnalysisError, match=r"sockets\.parquet: rtt_s has values that no kernel gives"):
            analyze_run(tmp_path / "run")


def test_what_a_program_has_logged_is_said_to_be_of_its_log(tmp_path: Path) -> None:
    synthetic.write_run(tmp_path / "run", synthetic.two_flows(2.0))
    readings = {"flow": [0, 0, 1, 1], "source": "qlog", "time_s": [0.0, 1.0] * 2, "cwnd_bytes": 9e4}
    readings |= {"rtt_s": [0.03, 0.05] * 2, "min_rtt_s": 0.02, "inflight_bytes": [None, None, None, 1000]}
    pd.DataFrame(readings).to_parquet(tmp_path / "run" / "hosts" / "sockets.parquet")
    flows: Any = analyze_run(tmp_path / "run")["flows"]
    assert [flow["rtt_source"] for flow in flows] == ["the hosts (qlog of the sender)"] * 2
    assert flows[0]["rtt_s"] == {"min": 0.02, "mean": 0.04}
    # One that logs no bytes in flight has none.
    assert (flows[0]["inflight_bytes"], flows[0]["inflight_source"]) == ({"mean": None, "max": None}, None)
    assert flows[1]["inflight_bytes"] == {"mean": 1000, "max": 1000} and "qlog" in flows[1]["inflight_source"]
    loaded = load(tmp_path / "run")
    assert isinstance(loaded, RunData)
    chart = RunFigures(loaded).cwnd()
    assert chart is not None and chart.caption.endswith("(TCP_INFO, qlog).")


def test_sockets_without_a_sample_have_no_part_in_a_flows_rtt(tmp_path: Path) -> None:
    synthetic.write_run(tmp_path / "run", synthetic.two_flows(2.0))
    readings = {"flow": [0, 1, 1], "rtt_s": [None, None, 0.05], "min_rtt_s": [None, None, 0.02]}
    pd.DataFrame({**readings, "inflight_bytes": 1000.0}).to_parquet(tmp_path / "run" / "hosts" / "sockets.parquet")
    flows: Any = analyze_run(tmp_path / "run")["flows"]
    assert flows[1]["rtt_s"] == {"min": 0.02, "mean": 0.05}
    # Nothing was read: it has what its record says.
    assert "flow records" in flows[0]["rtt_source"] and flows[0]["rtt_s"]["min"] > 0


@pytest.mark.parametrize(("limited_s", "seen"), [(0.5, True), (0.01, False)])
def test_a_flow_that_its_socket_buffers_limit_is_reported(tmp_path: Path, limited_s: float, seen: bool) -> None:
    synthetic.write_run(tmp_path / "run", synthetic.two_flows(2.0))
    readings = {"flow": [1, 1], "rtt_s": [0.03] * 2, "min_rtt_s": [0.03] * 2, "inflight_bytes": [3000, 1000]}
    readings |= {"busy_s": [1.0, 2.0], "buffer_limited_s": [0.0, limited_s]}
    pd.DataFrame(readings).to_parquet(tmp_path / "run" / "hosts" / "sockets.parquet")
    messages = [one["message"] for one in analyze_run(tmp_path / "run")["warnings"] if one["code"] == "buffer_limited"]
    assert [" was limited by its socket buffers in 25% of the time" in message for message in messages] == [True] * seen


def test_a_host_without_memory_for_tcp_is_reported(tmp_path: Path) -> None:
    synthetic.write_run(tmp_path / "run", synthetic.two_flows(2.0))
    path = tmp_path / "run" / "run.json"
    counters = {"sender0": {"TcpRetransSegs": 9}, "receiver": {"TcpExtOfoPruned": 3, "TcpExtPruneCalled": 5}}
    path.write_text(json.dumps({**json.loads(path.read_text()), "host": {"testbed": {"kernel_counters": counters}}}))
    messages = [one["message"] for one in analyze_run(tmp_path / "run")["warnings"] if one["code"] == "host_memory"]
    assert len(messages) == 1 and "of receiver had too little memory for TCP: TcpExtOfoPruned 3." in messages[0]


@pytest.mark.parametrize("key", ["kernel_counters", "tcp_counters"])
def test_datagrams_that_no_program_read_are_reported(tmp_path: Path, key: str) -> None:
    synthetic.write_run(tmp_path / "run", synthetic.two_flows(2.0))
    path = tmp_path / "run" / "run.json"
    counters = {"sender0": {"UdpOutDatagrams": 9}, "receiver": {"UdpRcvbufErrors": 3, "Udp6RcvbufErrors": 2}}
    path.write_text(json.dumps({**json.loads(path.read_text()), "host": {"testbed": {key: counters}}}))
    found = [one["message"] for one in analyze_run(tmp_path / "run")["warnings"] if one["code"] == "datagrams_not_read"]
    assert len(found) == 1 and found[0].startswith("5 datagrams arrived at receiver and had no room")


def test_packets_whose_checksum_is_wrong_are_reported(tmp_path: Path) -> None:
    synthetic.write_run(tmp_path / "run", synthetic.two_flows(2.0))
    path = tmp_path / "run" / "run.json"
    counters = {
        "sender0": {"TcpInErrs": 9},
        "receiver": {"TcpInErrs": 1502, "TcpInCsumErrors": 1500, "IpInHdrErrors": 2},
    }
    path.write_text(json.dumps({**json.loads(path.read_text()), "host": {"testbed": {"kernel_counters": counters}}}))
    (found,) = (one for one in analyze_run(tmp_path / "run")["warnings"] if one["code"] == "broken_packets")
    assert found["severity"] == "error"
    assert found["message"].startswith(
        "The kernel of receiver dropped 1,502 packets with a wrong header or checksum (IpInHdrErrors 2, "
    )


def test_rtt_from_sequence_numbers_and_inflight(both_directions: tuple[Path, synthetic.Truth]) -> None:
    run_dir, truth = both_directions
    for name in ("reports-00000.parquet", "reports-00001.parquet"):
        path = run_dir / "telemetry" / name
        columns = {name: pq.read_table(path)[name].to_numpy() for name in truth.rows}
        columns["tcp_tsval"] = columns["tcp_tsecr"] = np.zeros(len(columns["flow"]), np.int64)
        synthetic.write_reports(path, columns)
    run = load(run_dir)
    frame = run.switch_rtt(0)
    assert set(frame["method"]) == {"sequence"} and len(frame) > 1000
    expected = 0.007 + truth.delays_ns[truth.rows["flow"] == 1000] / 1e9
    assert frame["rtt_s"].min() >= expected.min() - 1e-9 and frame["rtt_s"].max() <= expected.max() + 1e-9
    open_bytes = run.switch_inflight(0)["inflight_bytes"]
    # Without timestamps the way to the sender and back is not in it: queue and 7 ms at 20 Mbit/s, in packets of 1514
    # bytes; holes keep more open for a while.
    packets = np.median(expected) * 20e6 / 8 / 1514
    assert 0.9 * packets * 1448 <= open_bytes.median() <= 1.1 * packets * 1448
    assert run.switch_inflight(1).empty


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    synthetic.write_run(tmp_path / "run", synthetic.two_flows(1.5))
    run = load(tmp_path / "run")
    with pytest.raises(AnalysisError, match=r"flows\.parquet: no such file; analyse the run first"):
        _ = run.flows
    for path in (tmp_path / "run" / "telemetry").iterdir():
        path.unlink()
    with pytest.raises(AnalysisError, match="no report file"):
        load(tmp_path / "run").reports()


def test_host_series_are_labelled(competition: Competition) -> None:
    run_dir, _, _ = competition
    hosts = load(run_dir).hosts
    raw = json.loads((run_dir / "hosts" / "flow1.json").read_text())
    rtt = hosts[(hosts["flow"] == 1) & (hosts["quantity"] == "rtt")]
    assert rtt["value"].iloc[0] == pytest.approx(raw["samples"][0]["rtt_s"])
    assert rtt["time_s"].iloc[0] == pytest.approx(1.0 + 1.0)


@pytest.fixture
def with_sockets(tmp_path: Path) -> Path:
    """An analysed run whose senders' sockets were read, two flows at 10 Hz for 3 s."""
    run_dir = tmp_path / "run"
    synthetic.write_run(run_dir, synthetic.two_flows(3.0))
    columns = {column.name: 1.0 for column in columns_of_files.SOCKETS}
    rows = [{**columns, "time_s": n / 10, "flow": flow, "cwnd_bytes": 1000.0 * n} for flow in (0, 1) for n in range(30)]
    pd.DataFrame(rows).to_parquet(run_dir / "hosts" / "sockets.parquet")
    analyze_run(run_dir)
    return run_dir


def test_a_run_shows_its_errors_and_has_all_warnings(with_sockets: Path) -> None:
    run = load(with_sockets)
    kinds = ("error", "nothing of a<b was delivered"), ("warning", "it is late")
    found = [{"code": "x", "severity": severity, "message": message} for severity, message in kinds]
    run.__dict__["summary"] = {**run.summary, "warnings": found}
    assert run.warnings == found
    assert repr(run).splitlines()[1] == "error: nothing of a<b was delivered" and "it is late" not in repr(run)
    assert "<p>error: nothing of a&lt;b was delivered</p>" in run._repr_html_()


def test_a_run_shows_its_table(with_sockets: Path) -> None:
    run = load(with_sockets)
    lines = repr(run).splitlines()
    assert lines[0].startswith("<run run: 20 Mbit/s, 2 flows, complete>")
    assert [line.split()[0] for line in lines[2:]] == run.labels == list(run.table["flow"])
    assert all(f"<td>{label}</td>" in run._repr_html_() for label in run.labels)
    assert run.table["goodput Mbit/s"].sum() == pytest.approx(
        sum(flow["goodput_bps"] or 0.0 for flow in run.summary["flows"]) / 1e6, abs=0.02
    )


def test_a_flow_has_one_name(with_sockets: Path) -> None:
    run = load(with_sockets)
    names = run.labels
    assert [flow["name"] for flow in run.summary["flows"]] == names
    for frame in (run.flows, run.sockets):
        mine = frame[frame["flow"] >= 0]
        assert all(name == names[flow] for flow, name in zip(mine["flow"], mine["name"], strict=True))


def test_sockets_are_a_frame_and_figures(with_sockets: Path) -> None:
    run = load(with_sockets)
    assert run.sockets.attrs["units"]["cwnd_bytes"] == "bytes"
    line = run.figure("cwnd").axes[0].get_lines()[1]
    np.testing.assert_allclose(np.asarray(line.get_ydata()), np.arange(30.0))
    assert {"rtt", "cwnd", "inflight", "pacing", "goodput"} <= set(run.figures)
    with pytest.raises(AnalysisError, match="did you mean 'cwnd'"):
        run.figure("cwmd")


def test_figures_of_rates_have_no_part_of_an_interval(with_sockets: Path) -> None:
    """The flows are given other beginnings and ends, in the middle of intervals."""
    run = load(with_sockets)
    for flow in run.summary["flows"]:
        flow["start_s"], flow["end_s"] = 1.15, 1.75
    lines = run.figure("goodput").axes[0].get_lines()
    named = [line for line in lines if line.get_label() in run.labels]
    known = [(np.asarray(line.get_xdata()), np.asarray(line.get_ydata())) for line in named]
    drawn = [time[np.isfinite(rate)] for time, rate in known]
    assert len(drawn) == len(run.labels)
    assert all(np.asarray(time) == pytest.approx([1.2, 1.3, 1.4, 1.5, 1.6]) for time in drawn)


def test_every_column_says_its_unit_and_meaning(with_sockets: Path) -> None:
    for name, columns in columns_of_files.TABLES.items():
        # The control plane writes some: test_sockets.py, test_own_programs_in_a_guest.py. Of DualPI2: test_ecn.py.
        if name.startswith("hosts") or name in ("queues.parquet", "telemetry/registers.parquet"):
            continue
        schema = pq.read_schema(with_sockets / name)
        assert schema.names == [column.name for column in columns]
        for field, column in zip(schema, columns, strict=True):
            assert field.metadata == {b"unit": column.unit.encode(), b"meaning": column.meaning.encode()}
            assert column.meaning


def test_what_is_unknown_says_why(with_sockets: Path) -> None:
    summary: Any = load(with_sockets).summary
    assert summary["fairness"]["convergence_s"] is None
    assert summary["fairness"]["convergence_reason"].startswith("not assessable in 2 s: it takes 5 s")
    assert summary["dynamics"]["oscillation_reason"] or summary["dynamics"]["oscillation_period_s"]
    assert {flow["fct_reason"] for flow in summary["flows"]} == {"the flow has no set size"}


def test_sockets_of_a_programs_connections_are_distinguished_and_summed(tmp_path: Path) -> None:
    """Two at once, read together, then a third; another protocol with the ports of one of them has no socket."""
    synthetic.write_run(tmp_path / "run", synthetic.two_flows(2.0))
    path = tmp_path / "run" / "run.json"
    record = json.loads(path.read_text())
    record["flows"][1] |= {"by_addresses": True, "src_port": None, "dst_port": None}
    path.write_text(json.dumps(record))
    opened = [(0.0, 1, 100), (0.0, 2, 50), (0.1, 1, 300), (0.1, 2, 70), (0.5, 3, 40)]
    frame = pd.DataFrame(opened, columns=["time_s", "dst_port", "inflight_bytes"])
    frame = frame.assign(flow=1, src_port=80, rtt_s=0.03, acked_bytes=frame["inflight_bytes"], busy_s=1.0)
    frame = frame.assign(min_rtt_s=[0.03, 0.02, 0.03, 0.02, 0.025], buffer_limited_s=[0.0, 0.3, 0.0, 0.3, 0.0])
    frame.to_parquet(tmp_path / "run" / "hosts" / "sockets.parquet")
    records = read_socket_records(read_run(tmp_path / "run"))
    assert {key: one.rtt_min_s for key, one in records.connections.items()} == {
        (1, 80, 1): 0.03, (1, 80, 2): 0.02, (1, 80, 3): 0.025,
    }  # fmt: skip
    together = records.flows[1]
    assert together.inflight_max_bytes == 370
    assert together.inflight_mean_bytes == pytest.approx((150 + 370 + 40) / 3)
    assert together.buffer_limited == pytest.approx(0.1)
    first, second = lines(frame)
    # The third follows the first, with a gap.
    assert first["time_s"].tolist() == [0.0, 0.1, 0.5, 0.5]
    assert first["rtt_s"].isna().tolist() == [False, False, True, False]
    assert second["dst_port"].tolist() == [2, 2]
