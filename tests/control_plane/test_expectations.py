# SPDX-License-Identifier: Apache-2.0
"""Expectations of an experiment: how they are read, judged over repetitions, and written for JUnit's readers."""

from __future__ import annotations

import copy
import xml.etree.ElementTree as ET
from typing import Any

import pytest
from narrows.errors import InputError
from narrows.experiment.expectations import Expectation, parse
from narrows.experiment.loader import validate
from narrows.run.verdicts import Verdict, _verdict, junit
from test_cli import SUMMARY

DATA: dict[str, Any] = {
    "name": "x",
    "links": {
        "near": {"rate": "10Mbit", "buffer": "1bdp", "rtt": "20ms"},
        "far": {
            "rate": "10Mbit",
            "buffer": "1bdp",
            "rtt": "20ms",
            "reverse": {"rate": "1Mbit", "buffer": "10packets"},
        },
    },
    "flows": [
        {"cca": "bbr", "duration": "1s", "path": ["near"]},
        {"name": "web.2", "cca": "cubic", "count": 3, "duration": "1s", "path": ["near", "far"]},
        {"name": "pages", "cca": "reno", "size": "9kB", "count": 2, "repeat": 2, "path": ["near"]},
        {
            "name": "drawn",
            "cca": "reno",
            "workload": {"flows": 3, "every": 2, "sizes": {"cdf": [[9, 1]]}, "gaps": {"cdf": [[1, 1]]}},
            "path": ["near"],
        },
    ],
}


def read(text: str) -> Expectation:
    (found,) = validate({**DATA, "expect": [text]}, "x").expectations
    return found


@pytest.mark.parametrize(
    ("text", "section", "name", "fields", "bound"),
    [
        ("flows.bbr.share >= 0.4", "flows", "bbr-1", ("share",), 0.4),
        ("flows.bbr-1.share>=40%", "flows", "bbr-1", ("share",), 0.4),
        ("flows.pages-2.2.fct_s < 1s", "flows", "pages-2.2", ("fct_s",), 1),
        ("flows.drawn-1.2.fct_s < 1s", "flows", "drawn-1.2", ("fct_s",), 1),
        ("flows.web.2-3.drops == 0", "flows", "web.2-3", ("drops",), 0),
        ("flows.web.2-3.rtt_s.min < 50ms", "flows", "web.2-3", ("rtt_s", "min"), 0.05),
        ("flows.bbr.bytes > 0.6MB", "flows", "bbr-1", ("bytes",), 600_000),
        ("flows.bbr.datagrams.ce_marked == 0", "flows", "bbr-1", ("datagrams", "ce_marked"), 0),
        ("groups.web.2.goodput_bps > 2Mbit", "groups", "web.2", ("goodput_bps",), 2e6),
        ("links.far.queue_delay_s.p99 < 1.5e1ms", "links", "far", ("queue_delay_s", "p99"), 0.015),
        ("links.far.reverse.utilization <= 1", "links", "far.reverse", ("utilization",), 1),
        ("links.near.queue_bytes.max < 30kB", "links", "near", ("queue_bytes", "max"), 30_000),
        ("links.near.fairness.jain_index > 0.9", "links", "near", ("fairness", "jain_index"), 0.9),
        ("flows.bbr.bytes > 1MB", "flows", "bbr-1", ("bytes",), 1e6),
        ("telemetry.lost == 0", "telemetry", None, ("lost",), 0),
        ("senders.bbr.cwnd_bytes.max[1s:2s] < 1.5kB", "senders", "bbr-1", ("cwnd_bytes.max[1s:2s]",), 1500),
        (
            "senders.web.2-3.phase.length_s.min[DRAIN] > 5ms",
            "senders",
            "web.2-3",
            ("phase.length_s.min[DRAIN]",),
            0.005,
        ),
        ("senders.bbr.phase.begin_s.count[DRAIN] == 1", "senders", "bbr-1", ("phase.begin_s.count[DRAIN]",), 1),
    ],
)
def test_a_field_a_comparison_and_a_bound(
    text: str, section: str, name: str | None, fields: tuple[str, ...], bound: float
) -> None:
    found = read(text)
    assert (found.section, found.name, found.fields) == (section, name, fields)
    assert found.bound == pytest.approx(bound)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("flows.bbr.share", "is not a comparison of a field with a number"),
        ("__import__('os').system('x') < 1", "is not a comparison"),
        ("flow.bbr.share > 0", "the unknown part 'flow'; allowed: flows, groups, links"),
        ("flows.bbr2.share > 0", "has no flow 'bbr2'; allowed: bbr-1"),
        ("flows.web.2.share > 0", "has no flow 'web.2'; allowed: 3 flows, such as web.2-1: groups.web.2 is all"),
        ("flows.pages.fct_s < 1", "has no flow 'pages'; allowed: 4 flows, such as pages-1.1: groups.pages is all"),
        ("flows.pages-1.fct_s < 1", "has no flow 'pages-1'; allowed: bbr-1, web.2-1, web.2-2, web.2-3, pages-1.1, "),
        ("flows.drawn.fct_s < 1", "has no flow 'drawn'; allowed: 2 flows, such as drawn-1.1: groups.drawn is all"),
        ("flows.bbr.shares > 0", "the unknown field 'shares'; allowed: name, "),
        ("flows.bbr.rtt_s > 0", "is not a number; allowed: one of its fields: min, mean"),
        ("flows.bbr.cca == 1", "is not a number"),
        ("links.near.queue_delay_s.p98 < 1ms", "the unknown field 'p98'; allowed: mean, p50, p99, max"),
        ("links.near.queue_delay_s.p99 < 1Mbit", "the unit 'Mbit'; allowed: none, or "),
        ("bottleneck.drops == 0", "the part 'bottleneck', which is that of an only link; allowed: links.NAME"),
        ("fairness.jain_index > 0.9", "the part 'fairness', which is that of an only link"),
        ("links.near.drops < 1%", "the unit '%', but counts; allowed: a number without a unit"),
        ("telemetry.lost < 5%", "the unit '%', but counts"),
        ("flows.bbr.departures > 50%", "the unit '%', but counts"),
        ("flows.bbr.datagrams.lost < 1%", "the unit '%', but counts"),
        ("flows.bbr.bytes > 1ms", "the unit 'ms'; allowed: none, or B, "),
        ("flows.bbr.share > 1.2.3", "which is not a number"),
        ("senders.bbr2.rtt_s.min > 0", "has no flow 'bbr2'; allowed: bbr-1"),
        ("senders.bbr.rtt_s > 0", "is not a statistic of a sender's reading; allowed: senders.FLOW.READING.STATISTIC"),
        ("senders.bbr.rtt.min > 0", "has the unknown reading 'rtt'; allowed: cwnd_bytes, "),
        ("senders.bbr.rtt_s.p99 > 0", "has the unknown statistic 'p99'; allowed: min, max, mean"),
        ("senders.bbr.rtt_s.min[UP] > 0", "has the unknown phase 'UP'; allowed: STARTUP, DRAIN"),
        ("senders.bbr.rtt_s.min[2s:1s] > 0", "has the time '2s:1s'; allowed: BEGIN:END in times"),
        ("senders.bbr.rtt_s.min[2:3] > 0", "has the time '2:3'; allowed: BEGIN:END in times"),
        ("senders.bbr.phase.end_s.min > 0", "asks for visits of no phase; allowed: with one in brackets"),
        ("senders.bbr.rtt_s.count > 1ms", "the unit 'ms', but counts"),
    ],
)
def test_what_cannot_be_is_refused_when_the_file_is_read(text: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        read(text)
    assert message in str(error.value)
    assert f"expects '{text}'" in str(error.value)


def test_what_sockets_said_needs_sockets_that_are_read() -> None:
    """An expectation that nothing observes is refused when the file is read."""
    asked = ["senders.bbr.rtt_s.min > 0"]
    with pytest.raises(InputError, match=r"what sockets said, with telemetry.sockets: 0; allowed: a time above"):
        validate({**DATA, "telemetry": {"sockets": "0"}, "expect": asked}, "x")
    ping = {"name": "ping", "probe": {"interval": "10ms"}, "duration": "1s", "path": ["near"]}
    data = {**DATA, "flows": [*DATA["flows"], ping], "expect": ["senders.ping.rtt_s.min > 0"]}
    with pytest.raises(InputError, match="the TCP socket of 'ping', which has none; allowed: flows with a cca"):
        validate(data, "x")


def test_the_value_is_the_summary_s() -> None:
    summary: Any = copy.deepcopy(SUMMARY)
    summary["flows"][0]["name"] = "bbr-1"
    summary["flows"][0]["share"] = 0.25
    assert read("flows.bbr.share > 0.2").value(summary) == 0.25
    summary["flows"][0]["share"] = None
    assert read("flows.bbr.share > 0.2").value(summary) is None


EXPECTED = Expectation("share > 0.5", "flows", "bbr-1", ("share",), ">", 0.5)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([0.6], ""),
        ([0.5], "measured 0.5"),
        ([None], "there is no value in 1 of 1 runs"),
        ([0.6, None, 0.7], "there is no value in 1 of 3 runs"),
        # Student's t of two values: 12.706 standard errors, here 0.0005 each.
        ([0.600, 0.601], ""),
        ([0.400, 0.401], "measured 0.4005 (95 % interval 0.394147 to 0.406853, 2 runs)"),
        ([0.55, 0.65], "measured 0.6 (95 % interval -0.0353102 to 1.23531, 2 runs): undecided"),
    ],
)
def test_repetitions_decide_together(values: list[float | None], reason: str) -> None:
    found = _verdict(EXPECTED, {}, values)
    assert found.reason == reason
    assert found.kind == ("pass" if not reason else "undecided" if reason.endswith("undecided") else "fail")


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        # Together they would not decide: 0 is within the 95 % interval of their mean.
        ([1.0, 1.0, 16.0], ""),
        ([1.0, 0.0, -2.0], "measured 0, -2 in 2 of 3 runs"),
        ([0.0], "measured 0 in 1 of 1 runs"),
        ([1.0, None], "there is no value in 1 of 2 runs"),
    ],
)
def test_what_occurs_does_in_each_repetition(values: list[float | None], reason: str) -> None:
    expected = parse("senders.bbr.retransmits.growth > 0", {"bbr": ("bbr-1",)}, ("bottleneck",))
    found = _verdict(expected, {}, values, in_each=True)
    assert (found.reason, found.kind) == (reason, "fail" if reason else "pass")


@pytest.mark.parametrize(
    ("text", "values", "shown"),
    [
        ("bottleneck.queue_delay_s.p99 < 20ms", [0.0234], "measured 23.4 ms"),
        ("bottleneck.queue_delay_s.p99 < 0.02", [0.0234], "measured 0.0234"),
        ("flows.bbr.goodput_bps > 50Mbit", [14.25e6], "measured 14.25 Mbit/s"),
        ("flows.bbr.share > 50%", [0.25], "measured 25 %"),
        ("links.near.queue_bytes.max < 2KiB", [3072.0], "measured 3 KiB"),
        ("senders.bbr.rtt_s.max < 20ms", [0.0234], "measured 23.4 ms"),
        # Student's t of two values: 12.706 standard errors, here 0.5 ms each.
        (
            "bottleneck.queue_delay_s.p99 < 20ms", [0.040, 0.041],
            "measured 40.5 ms (95 % interval 34.1469 ms to 46.8531 ms, 2 runs)",
        ),
    ],
)  # fmt: skip
def test_what_was_measured_is_in_the_unit_of_the_bound(text: str, values: list[float], shown: str) -> None:
    links = ("near", "far") if text.startswith("links") else ("bottleneck",)
    found = _verdict(parse(text, {"bbr": ("bbr-1",)}, links), {}, list(values))
    assert (found.reason, found.line) == (shown, f"FAIL  {text}: {shown}")
    assert found.values == tuple(values)


def test_readers_of_junit_find_what_failed() -> None:
    met = Verdict("a > 1", {}, (2.0,), None, "", "pass")
    missed = Verdict("b < 1", {"bottleneck.buffer": "1bdp"}, (2.0,), None, "it is 2 & more", "fail")
    root = ET.fromstring(junit([("one.yaml", 1.25, [met, missed], ""), ("two.yaml", 0.5, [], "failed run: x < y")]))
    first, second = root.findall("testsuite")
    assert first.attrib == {
        "name": "one.yaml", "time": "1.250", "tests": "2", "failures": "1", "errors": "0", "skipped": "0",
    }  # fmt: skip
    assert [case.get("name") for case in first.findall("testcase")] == ["a > 1", "b < 1 [bottleneck.buffer=1bdp]"]
    (failure,) = first.iter("failure")
    assert failure.get("message") == "it is 2 & more"
    assert [error.get("message") for error in second.iter("error")] == ["failed run: x < y"]
