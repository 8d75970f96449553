# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
from narrows.run.drop_accounting import LastReport, check, last_reports
from narrows.switch.readings import FlowDrops, FlowTotals


def write(path: Path, rows: list[tuple[int, int, int, int]]) -> None:
    frame = pd.DataFrame(rows, columns=["bottleneck", "flow", "arrivals", "departures"])
    frame.astype({"bottleneck": "uint8", "flow": "uint16", "arrivals": "uint32", "departures": "uint32"}).to_parquet(
        path
    )


def test_last_reports_span_files_and_leave_other_bottlenecks_out(tmp_path: Path) -> None:
    write(tmp_path / "reports-00000.parquet", [(0, 1, 1, 1), (0, 2, 1, 1), (0, 1, 3, 2), (1, 1, 99, 9)])
    write(tmp_path / "reports-00001.parquet", [(0, 2, 5, 4)])
    assert last_reports(tmp_path)[0] == {1: LastReport(1, 3, 2), 2: LastReport(2, 5, 4)}
    assert last_reports(tmp_path)[1] == {1: LastReport(1, 99, 9)}


def test_telemetry_and_traffic_manager_agree() -> None:
    outcome = check(
        {1: LastReport(1, 10, 7), 2: LastReport(2, 5, 5)},
        [FlowTotals(1, 10, 7), FlowTotals(2, 5, 5)],
        [FlowDrops(1, 3, 3 * 1514)],
        3,
    )
    assert outcome.holds
    assert outcome.as_json()["sum_of_flows"] == outcome.as_json()["port_drops"] == 3
    assert [flow["flow"] for flow in json.loads(json.dumps(outcome.as_json()))["flows_with_drops"]] == [1]


def test_drops_after_the_last_report_are_named_apart() -> None:
    """The last two packets of the flow were dropped: no report can carry that, the arrival counter does."""
    outcome = check({1: LastReport(1, 10, 7)}, [FlowTotals(1, 12, 7)], [FlowDrops(1, 5, 0)], 5)
    assert outcome.holds
    assert (outcome.flows[0].in_last_report, outcome.flows[0].after_last_report) == (3, 2)


def test_a_flow_that_lost_everything() -> None:
    assert check({}, [FlowTotals(1, 4, 0)], [FlowDrops(1, 4, 0)], 4).holds


def test_counters_of_32_bits_may_have_wrapped() -> None:
    assert check({1: LastReport(1, 2, 2**32 - 1)}, [FlowTotals(1, 2**32 + 2, 2**32 - 1)], [FlowDrops(1, 3, 0)], 3).holds


def test_one_packet_off_is_found() -> None:
    reports, totals = {1: LastReport(1, 10, 7)}, [FlowTotals(1, 10, 7)]
    outcome = check(reports, totals, [FlowDrops(1, 2, 0)], 2)
    assert not outcome.holds
    assert "flow index 1: 3 drops by its last report" in outcome.problems[0]
    assert not check(reports, totals, [], 0).holds
    assert check(reports, totals, [FlowDrops(1, 3, 0)], 4).problems == (
        "the drops of all flows are 3, but the queue's drop counter says 4",
    )


def test_sampled_departures_after_the_last_report_are_no_drops() -> None:
    """Five packets followed the last report that was sampled: two were dropped, three went by unreported."""
    reports, totals, drops = {1: LastReport(1, 10, 7)}, [FlowTotals(1, 15, 10)], [FlowDrops(1, 5, 0)]
    outcome = check(reports, totals, drops, 5, sampled=True)
    assert outcome.holds
    assert (outcome.flows[0].in_last_report, outcome.flows[0].after_last_report) == (3, 2)
    # When every packet is reported, a missing report shows, and it is no drop either.
    outcome = check(reports, totals, drops, 5)
    assert not outcome.holds and outcome.flows[0].after_last_report == 2
    assert outcome.problems == ("flow index 1: 3 packets left after its last report",)


def test_a_queue_without_a_drop_counter() -> None:
    outcome = check({1: LastReport(1, 10, 7)}, [FlowTotals(1, 10, 7)], [FlowDrops(1, 3, 0)], None)
    assert outcome.holds
    assert (outcome.as_json()["port_drops"], outcome.as_json()["sum_of_flows"]) == (None, 3)


def test_flows_of_two_links_that_share_an_index_are_checked_together() -> None:
    """Its counters are of both: the later report has the sum, and each link's queue has its own drops."""
    totals = [FlowTotals(1, 31, 25)]
    earlier, later = {1: LastReport(1, 20, 18)}, {1: LastReport(1, 30, 25)}
    here, there = [FlowDrops(1, 2, 0)], [FlowDrops(1, 4, 0)]
    for mine, theirs, drops, others in ((earlier, later, here, there), (later, earlier, there, here)):
        outcome = check(mine, totals, drops, drops[0].packets, others=[(theirs, others)])
        assert outcome.holds
        assert (outcome.flows[0].in_last_report, outcome.flows[0].after_last_report) == (5, 1)
        assert outcome.as_json()["sum_of_flows"] == drops[0].packets
    assert not check(earlier, totals, here, 2, others=[(later, [])]).holds
    assert not check(earlier, totals, here, 2).holds
