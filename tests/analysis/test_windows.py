# SPDX-License-Identifier: Apache-2.0
"""Which time a share, an index or a sentence is of, and that a probe is no competitor."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import synthetic
from narrows.cli.sweep_table import run_line
from narrows.cli.table import bottleneck_lines, scaled, summary_table
from narrows_analysis import analyze_run, load, write_report
from narrows_analysis.comparison.sides import read_side
from narrows_analysis.metrics.fairness import jain_index
from narrows_analysis.report.content import parameters, setting, tables, tiles, verdict
from narrows_analysis.report.figures import RunFigures
from narrows_analysis.report.shares import shares
from narrows_formats.flow_rows import decimals
from narrows_formats.kinds.video import VideoSummary
from rich.console import Console

# As long as it takes that all three flows run together for a short part.
LATE = [
    synthetic.Sender("first", "reno", 0.0, 5.0, window=20, aimd=False),
    synthetic.Sender("second", "reno", 3.0, 5.0, window=10, aimd=False),
    synthetic.Sender("third", "reno", 1.2, 2.5, window=30, aimd=False),
]
# Two equal flows, and what only measures.
MEASURED = [
    synthetic.Sender("a", "reno", 0.0, 6.0, window=20, aimd=False),
    synthetic.Sender("b", "reno", 0.0, 6.0, window=20, aimd=False),
    synthetic.Sender("ping", "none", 0.0, 6.0, window=1, aimd=False, payload=60),
]


def write(path: Path, senders: list[synthetic.Sender], **changes: Any) -> synthetic.Truth:
    return synthetic.write_run(path, synthetic.Scenario(senders=senders, **changes))


def new_bytes(truth: synthetic.Truth, senders: list[synthetic.Sender], begin_s: float, end_s: float) -> list[float]:
    """Payload of each flow that left for the first time in a window, packet by packet."""
    origin = synthetic.Scenario().origin_ns
    seen: set[tuple[int, int]] = set()
    sums = [0.0] * len(senders)
    rows = zip(truth.rows["flow"], truth.rows["tcp_seq"], truth.rows["timestamp"], strict=True)
    for index, sequence, time in rows:
        number = (int(index) - 1000) // 7
        if (number, int(sequence)) not in seen and begin_s <= (time - origin) / 1e9 < end_s:
            sums[number] += senders[number].payload
        seen.add((number, int(sequence)))
    return sums


def test_shares_of_the_run_and_of_the_time_together_are_named(tmp_path: Path) -> None:
    truth = write(tmp_path / "run", LATE)
    summary = analyze_run(tmp_path / "run")
    window, whole = summary["share_window_s"], summary["run_window_s"]
    assert window is not None and whole is not None
    # From the second flow's start until the third one's end, in whole intervals of 0.1 s.
    assert window == [3.0, 3.7] and whole[0] == pytest.approx(0) and whole[1] == pytest.approx(8, abs=0.1)
    together, ever = new_bytes(truth, LATE, *window), new_bytes(truth, LATE, 0, 9)
    for section in (summary["flows"], summary["groups"], summary["links"][0]["flows"]):
        parts: Any = section
        assert [one["share"] for one in parts] == pytest.approx(np.array(together) / sum(together))
        assert [one["share_of_run"] for one in parts] == pytest.approx(np.array(ever) / sum(ever))
    words = verdict(load(tmp_path / "run").run, summary)
    first, second, third = (f"{100 * part / sum(ever):.3g} %" for part in ever)
    assert words.startswith(
        f"Over the whole run (0 to {round(whole[1], 3):.12g} s), first took {first} of the goodput, "
        f"third {third}, second {second}. "
    )
    first, second, third = (f"{100 * part / sum(together):.3g} %" for part in together)
    assert (
        f"While all flows were running (3 to 3.7 s), third took {third} of the goodput, first {first}, second {second}."
        in words
    )
    assert "Jain's index while all flows were running (3 to 3.7 s) was" in words
    assert "Over the whole run, the queue held" in words
    console = Console(width=160)
    with console.capture() as captured:
        console.print(summary_table(summary, "run"))
    assert "share of run" in captured.get()
    lines = bottleneck_lines(summary)
    assert "shares: over the time in which all flows were running (3 to 3.7 s)" in lines
    assert "goodput: of each flow over its own life" in lines
    assert any(line.startswith("Jain's") and line.endswith("all flows running (3 to 3.7 s)") for line in lines)
    assert "of the goodput, over the time in which all flows were running (3 to 3.7 s); " in run_line(summary)
    page = write_report(tmp_path / "run").read_text()
    assert "<p>Over the time in which all flows were running (3 to 3.7 s)" in page and "Share of\nrun" in page


def test_flows_that_run_all_the_time_have_one_share(tmp_path: Path) -> None:
    write(tmp_path, MEASURED[:2])
    summary = analyze_run(tmp_path)
    words = verdict(load(tmp_path).run, summary)
    assert words.startswith("While all flows were running (") and "Over the whole run (" not in words
    assert "share of run" not in load(tmp_path).table
    assert not any(line.startswith("goodput: ") for line in bottleneck_lines(summary))


def test_the_terminal_has_what_a_viewer_noticed(tmp_path: Path) -> None:
    """The figures of summary.json, in the terminal's units."""
    write(tmp_path, MEASURED[:2])
    summary = analyze_run(tmp_path)
    summary["flows"][0]["video"] = VideoSummary(
        segments=20, bitrate_bps=2_250_000.0, switches=3, startup_s=0.5, stalls=2, stall_s=1.25, stall_ratio=0.05
    )
    name = summary["flows"][0]["name"]
    (line,) = (line for line in bottleneck_lines(summary) if line.startswith(f"{name}: "))
    assert line == f"{name}: 2.25 Mbit/s of video on average, 3 switches, 2 stalls (1.25 s, 5.00 %)"
    summary["flows"][0]["video"] = VideoSummary(
        segments=20, bitrate_bps=2_250_000.0, switches=1, startup_s=0.5, stalls=1, stall_s=1.25, stall_ratio=0.05
    )
    (line,) = (line for line in bottleneck_lines(summary) if line.startswith(f"{name}: "))
    assert line == f"{name}: 2.25 Mbit/s of video on average, 1 switch, 1 stall (1.25 s, 5.00 %)"


def test_a_flow_alone_has_one_goodput_on_its_page(tmp_path: Path) -> None:
    truth = write(tmp_path, [synthetic.Sender("bbr", "bbr", 1.0, 4.0, window=10, aimd=False)])
    summary = analyze_run(tmp_path)
    rate = truth.unique_bytes[0] * 8 / 4.0 / 1e6
    said = f"One bbr flow reached {rate:.4g} Mbit/s of goodput in its life (1 to 5 s)."
    assert verdict(load(tmp_path).run, summary).startswith(said)


def make_probe(path: Path, kind: str) -> None:
    """Make the last flow a probe of ours, or what `client: [ping, ...]` sends."""
    record = json.loads((path / "run.json").read_text())
    if kind == "probe":
        record["flows"][-1]["probe"] = True
    else:
        record["flows"][-1] |= {"by_addresses": True, "src_port": None, "dst_port": None}
        keys = path / "telemetry" / "flow_keys.parquet"
        table = pq.read_table(keys).to_pandas()
        table.loc[len(table) - 1, "protocol"] = 1
        table.to_parquet(keys)
    (path / "run.json").write_text(json.dumps(record))


@pytest.mark.parametrize("kind", ["probe", "ping"])
def test_a_probe_does_not_compete(tmp_path: Path, kind: str) -> None:
    """It has next to no goodput, so that three equal flows would have an index of 2/3."""
    path = tmp_path / "run"
    truth = write(path, MEASURED, loss=0.05)
    make_probe(path, kind)
    summary = analyze_run(path)
    fairness, link = summary["fairness"], summary["bottleneck"]
    assert fairness["window_s"] is not None
    sent = new_bytes(truth, MEASURED, *fairness["window_s"])
    assert fairness["jain_index"] == pytest.approx(jain_index(sent[:2])) and (fairness["jain_index"] or 0) > 0.99
    assert fairness["convergence_s"] == 0.0
    begin_s = fairness["window_s"][0]
    said = f"; each flow was within 25 % of its fair share for 5 s from {begin_s:.3g} s on."
    assert said in verdict(load(path).run, summary)
    # Losses of the flows, and the probe's apart.
    arrivals, drops, emulated = (np.array(one) for one in (truth.arrivals, truth.drops, truth.loss_drops))
    assert emulated[2] > 0
    assert link["loss_ratio"] == pytest.approx(drops[:2].sum() / arrivals[:2].sum())
    lost, offered = (drops + emulated)[:2].sum(), (arrivals + emulated)[:2].sum()
    assert link["total_loss_ratio"] == pytest.approx(lost / offered)
    assert (link["drops"], link["probe_drops"]) == (drops.sum(), drops[2])
    assert [flow["probe"] for flow in summary["flows"]] == [False, False, True]
    assert summary["dynamics"]["rate_synchronization"] is not None
    run = load(path)
    assert run.competing == [0, 1]
    figures, bars, side = RunFigures(run), shares(run), read_side(path)
    index, goodput = figures.fairness(), figures.throughput()
    assert index is not None and np.nanmin(index.series[0].y) > 0.9
    assert bars is not None and bars.fair == 0.5
    assert goodput.references[0].label == "fair share of 2"
    jain = next(values for place, values in side.values.items() if place.quantity.column == "jain_index")
    assert min(jain) > 0.99
    words = verdict(run.run, summary)
    assert "ping" not in words and "not the experiment's" not in words


def test_a_flow_and_a_probe_have_no_index(tmp_path: Path) -> None:
    write(tmp_path, MEASURED[1:])
    make_probe(tmp_path, "probe")
    summary = analyze_run(tmp_path)
    assert (summary["fairness"]["jain_index"], summary["fairness"]["reason"]) == (None, "a single flow and probes")
    assert " · 1 flow · 1 probe · " in setting(load(tmp_path).run)
    assert verdict(load(tmp_path).run, summary).startswith("One b flow reached")
    # Its own time is compared, and not that of both.
    assert read_side(tmp_path).basis == "intervals within one run"


def test_drops_of_probes_are_named_in_the_tile(tmp_path: Path) -> None:
    senders = [*MEASURED[:2], synthetic.Sender("ping", "none", 0.0, 6.0, window=40, aimd=False, payload=60)]
    truth = write(tmp_path, senders, buffer_bytes=20_000)
    make_probe(tmp_path, "probe")
    summary = analyze_run(tmp_path)
    tile = next(one for one in tiles(load(tmp_path).run, summary) if one.name == "Packets dropped")
    own, probes = sum(truth.drops[:2]), truth.drops[2]
    assert own and probes
    assert tile.detail == f"{own} packets, and {probes} of probes"


def test_times_of_series_are_exact_decimals(tmp_path: Path) -> None:
    write(tmp_path, MEASURED)
    summary = analyze_run(tmp_path)
    run = load(tmp_path)
    for frame in (run.flows, run.queue):
        assert all(len(repr(float(time))) <= 6 for time in frame["time_s"]), frame["time_s"].tolist()[:10]
    assert 0.3 in set(run.flows["time_s"]) and summary["fairness"]["window_s"] == [0.1, 6.0]


def test_a_probe_has_the_round_trips_of_its_datagrams(tmp_path: Path) -> None:
    path = tmp_path / "run"
    write(path, MEASURED)
    make_probe(path, "probe")
    file = path / "hosts" / "flow2.json"
    record = json.loads(file.read_text())
    times = {"min": 0.0211, "mean": 0.0234, "p50": 0.023, "p95": 0.03, "p99": 0.03, "max": 0.04}
    counts = {"packets": 9, "bytes": 540, "duplicates": 0, "reordered": 0, "ce_marked": 0, "unread": 0}
    record |= {"kind": "probe", "packets_sent": 10, "received": {**counts, "delay_s": times}, "rtt_min_s": None}
    file.write_text(json.dumps({**record, "congestion_control": None, "samples": []}))
    summary = analyze_run(path)
    assert summary["flows"][2]["rtt_s"] == {"min": 0.0211, "mean": 0.0234}
    console = Console(width=160)
    with console.capture() as captured:
        console.print(summary_table(summary, "run"))
    row = next(line for line in captured.get().splitlines() if "ping-1" in line)
    assert " 23.40 " in row and " 21.10 " in row
    assert "RTT of the probe" in write_report(path).read_text()


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0, "0.00"), (0.004, "0.0040"), (0.00097, "0.00097"), (0.0946, "0.095"), (0.0996, "0.10"), (12.345, "12.35")],
)
def test_a_small_number_is_not_shown_as_0(value: float, shown: str) -> None:
    assert scaled(value, 1) == scaled(round(value, decimals(value)), 1) == shown


def test_a_buffer_says_at_which_rate_it_is_a_time(tmp_path: Path) -> None:
    write(tmp_path, MEASURED[:1])
    record = json.loads((tmp_path / "run.json").read_text())
    steps = {"start_ns": [0, 1_000_000_000], "rate_bps": [20_000_000, 5_000_000], "period_ns": None}
    record["bottleneck"] |= {"rate_schedule": steps, "written_buffer": "20ms"}
    (tmp_path / "run.json").write_text(json.dumps(record))
    summary = analyze_run(tmp_path)
    run = load(tmp_path).run
    assert dict(parameters(run, summary))["Buffer"] == "50 kB whatever the rate: 20ms at 20 Mbit/s"
    assert "50 kB buffer (1 BDP at 20 Mbit/s)" in setting(run)


def test_drops_that_only_the_switch_counted_are_named_below_the_table(tmp_path: Path) -> None:
    said = "The switch counted more: those after a flow's last packet that left"
    write(tmp_path, MEASURED[:2])
    analyze_run(tmp_path)
    assert said not in write_report(tmp_path).read_text()
    record = json.loads((tmp_path / "run.json").read_text())
    record["traffic_manager"] = {"flow_drops": {"bottleneck": [{"flow": 1000, "packets": 49, "bytes": 0}]}}
    (tmp_path / "run.json").write_text(json.dumps(record))
    assert "drops_disagree" in {one["code"] for one in analyze_run(tmp_path)["warnings"]}
    assert said in html.unescape(write_report(tmp_path).read_text())


def test_what_the_queue_dropped_and_what_was_lost_have_two_names(tmp_path: Path) -> None:
    truth = write(tmp_path, MEASURED[:2], loss=0.05)
    summary = analyze_run(tmp_path)
    table = tables(load(tmp_path))[0]
    names = [column.name for column in table.columns]
    assert "Loss" not in names
    row = [cell.raw for cell in table.rows[0]]
    arrivals, drops, emulated = truth.arrivals[0], truth.drops[0], truth.loss_drops[0]
    assert row[names.index("Dropped")] == pytest.approx(drops / arrivals)
    assert row[names.index("Lost by\nemulation")] == emulated > 0
    assert bottleneck_lines(summary)[0].count(" lost (") == 1
    assert "dropped %" in load(tmp_path).table
