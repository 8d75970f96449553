# SPDX-License-Identifier: Apache-2.0
"""Loss in bursts and as recorded, delays that vary and jitter, as experiments say them and plans have them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from narrows.errors import InputError
from narrows.experiment.impairments import GilbertElliott, Jitter, LossPattern, Policer
from narrows.experiment.loader import load, validate
from narrows.experiment.plan import Link, Plan
from narrows.experiment.planning import make_plan
from narrows.switch import traffic_manager_pb2 as pb
from narrows.switch.entries import ECN_OFF, Observation, Range, program_entries
from narrows.targets.bmv2 import packets
from narrows.targets.soft.settings import queue_requests
from narrows.targets.soft.target import SoftTarget
from narrows_formats.schedules import DelaySteps

MS = 1_000_000
FLOWS = [{"cca": "cubic", "duration": "1s"}]


def plan_of(**settings: Any) -> Plan:
    bottleneck = {"rate": "10Mbit", "buffer": "1bdp", "rtt": "20ms", **settings}
    return make_plan(validate({"name": "x", "bottleneck": bottleneck, "flows": FLOWS}, "x"))


def link_of(**settings: Any) -> Link:
    return plan_of(**settings).links[0]


def test_bursts_have_the_loss_that_theory_gives_them() -> None:
    """Gilbert 1960: the bad state holds for p / (p + r) of all packets; 1 % and 19 % make a twentieth."""
    link = link_of(loss={"gilbert_elliott": {"p": "1%", "r": "19%"}})
    assert link.loss_model == GilbertElliott(0.01, 0.19, 0.0, 1.0)
    assert link.loss == pytest.approx(0.05)
    both = link_of(loss={"gilbert_elliott": {"p": "1%", "r": "19%", "loss_in_bad": "50%", "loss_in_good": "2%"}})
    assert both.loss == pytest.approx(0.95 * 0.02 + 0.05 * 0.5)


TWO_RATES = {"rate": "5Mbit", "burst": "15kB", "peak_rate": "8Mbit", "peak_burst": "3kB"}


def test_a_policer_is_asked_of_the_traffic_manager() -> None:
    plan = plan_of(policer=TWO_RATES)
    assert plan.links[0].policer == Policer(5_000_000, 15_000, 8_000_000, 3_000)
    (request,) = queue_requests(plan, 1)
    bucket = pb.Bucket(rate_bps=5_000_000, burst_bytes=15_000)
    peak = pb.Bucket(rate_bps=8_000_000, burst_bytes=3_000)
    assert request.policer == pb.Policer(enabled=True, committed=bucket, peak=peak)
    (request,) = queue_requests(plan_of(policer={"rate": "5Mbit", "burst": "15kB"}), 1)
    assert request.policer == pb.Policer(enabled=True, committed=bucket)
    marking = plan_of(policer={"rate": "5Mbit", "burst": "15kB", "excess": "mark"})
    (request,) = queue_requests(marking, 1)
    assert request.policer == pb.Policer(enabled=True, committed=bucket, marks=True)
    assert marking.marks_ecn and not plan.marks_ecn
    # A link without one is set to have none.
    (request,) = queue_requests(plan_of(), 1)
    assert request.HasField("policer") and not request.policer.enabled


@pytest.mark.parametrize(
    ("policer", "words"),
    [
        ({"rate": "5Mbit", "burst": "1513B"}, "policer.burst: 1.513kB lets no full-size frame of 1514 B pass"),
        (TWO_RATES | {"peak_burst": "1513B"}, "policer.peak_burst: 1.513kB lets no full-size frame"),
        (TWO_RATES | {"peak_rate": "4Mbit"}, "has a peak_rate below its rate; allowed: a peak_rate of at least"),
        ({"rate": "5Mbit", "burst": "15kB", "peak_rate": "8Mbit"}, "has one of peak_rate and peak_burst"),
        ({"rate": "5Mbit", "burst": "15kB", "excess": "delay"}, "excess"),
        ({"rate": "5Mbit"}, "policer.burst"),
    ],
)
def test_a_policer_that_cannot_be_is_refused(policer: dict[str, str], words: str) -> None:
    with pytest.raises(InputError, match=words):
        plan_of(policer=policer)


def test_a_burst_is_asked_of_the_traffic_manager() -> None:
    (request,) = queue_requests(plan_of(burst="15kB"), 1)
    assert request.burst_bytes == 15_000
    # A link without one is set to have none.
    (request,) = queue_requests(plan_of(), 1)
    assert request.HasField("burst_bytes") and request.burst_bytes == 0


def test_bursts_are_asked_of_the_traffic_manager() -> None:
    (request,) = queue_requests(plan_of(aggregation={"frames": 32, "size": "12kB", "overhead": "250us"}), 1)
    assert request.aggregation == pb.Aggregation(enabled=True, packets=32, bytes=12_000, overhead_ns=250_000)
    for aggregation in ({}, {"aggregation": {"period": "5ms"}}):
        (request,) = queue_requests(plan_of(**aggregation), 1)
        assert request.HasField("aggregation") and not request.aggregation.enabled


def test_an_ack_filter_is_asked_of_the_traffic_manager() -> None:
    for name, keep in (("conservative", 2), ("aggressive", 0)):
        (request,) = queue_requests(plan_of(ack_filter=name), 1)
        assert request.ack_filter == pb.AckFilter(enabled=True, keep=keep)
    (request,) = queue_requests(plan_of(), 1)
    assert request.HasField("ack_filter") and not request.ack_filter.enabled
    with pytest.raises(InputError, match="ack_filter"):
        plan_of(ack_filter="all")


def test_framing_is_asked_of_the_traffic_manager() -> None:
    (request,) = queue_requests(plan_of(framing={"overhead": -14, "mpu": 64, "linklayer": "ptm"}), 1)
    assert request.framing == pb.Framing(overhead=-14, mpu=64, link_layer="PTM")
    (request,) = queue_requests(plan_of(), 1)
    assert request.HasField("framing") and request.framing == pb.Framing()
    # Full frames of 1,514 bytes are 33 cells; what is asked for is at least that, as frames may be short.
    link = link_of(framing={"overhead": 26, "linklayer": "atm"})
    assert link.longest_s(1514) >= 33 * 53 * 8 / link.rate_bps


@pytest.mark.parametrize(
    ("link", "words"),
    [
        ({"framing": {"overhead": 257}}, "framing.overhead"),
        ({"framing": {"linklayer": "adsl"}}, "framing.linklayer"),
        ({"framing": {"overhead": 4}, "rate_layer": "l1"}, "framing: rate_layer is l1, which counts"),
    ],
)
def test_framing_that_cannot_be_is_refused(link: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        plan_of(**link)


def test_a_link_takes_its_overheads_as_well() -> None:
    """10 full frames are 15,140 bytes: at least 4 in a burst of 240 bytes or more, so that 64 bursts carry all."""
    link = link_of(aggregation={"frames": 4, "overhead": "1ms"})
    assert link.longest_s(15_140) == pytest.approx(15_140 * 8 / link.rate_bps + 65e-3)


OUTAGE = {"steps": [{"at": "0s", "rate": "10Mbit"}, {"at": "1s", "rate": "0bit"}, {"at": "2s", "rate": "10Mbit"}]}


@pytest.mark.parametrize(
    ("link", "words"),
    [
        ({"burst": "1513B"}, "bottleneck.burst: 1.513kB holds no full-size frame of 1514 B; allowed: 1514 B or more"),
        ({"burst": "15kB", "rate": OUTAGE}, "bottleneck.burst: the link's rate is 0 at times"),
        ({"burst": "2packets"}, "bottleneck.burst"),
    ],
)
def test_a_burst_that_cannot_be_is_refused(link: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        plan_of(**link)


def test_targets_without_a_token_bucket_name_it() -> None:
    plan = plan_of(burst="15kB")
    assert SoftTarget().unsupported(plan) == []
    (problem,) = packets.unsupported(plan)
    assert problem == "bottleneck.burst: BMv2's queues keep no tokens; allowed: none, or --target soft"


def test_targets_without_a_policer_name_it() -> None:
    plan = plan_of(policer={"rate": "5Mbit", "burst": "15kB"})
    assert SoftTarget().unsupported(plan) == []
    assert packets.unsupported(plan) == ["bottleneck.policer: BMv2's program has none; allowed: none, or --target soft"]
    (problem,) = SoftTarget().unsupported(plan_of(policer={"rate": "5Mbit", "burst": "15kB"}, queue="pie"))
    assert problem.startswith("bottleneck.policer: is behind the decision of pie")


def test_a_recorded_loss_is_runs_of_positions(tmp_path: Path) -> None:
    (tmp_path / "losses").write_text("1 0 0 1 1\n0 0 0 0 1\n")
    bottleneck = {"rate": "10Mbit", "buffer": "1bdp", "rtt": "20ms", "loss": {"trace": {"file": "losses"}}}
    (tmp_path / "x.yaml").write_text(yaml.safe_dump({"name": "x", "bottleneck": bottleneck, "flows": FLOWS}))
    experiment = load(tmp_path / "x.yaml")
    plan = make_plan(experiment)
    assert plan.links[0].loss_model == LossPattern(((0, 0), (3, 4), (9, 9)), 10, loop=True)
    assert plan.links[0].loss == 0.4
    # A resolved experiment needs no file.
    again = make_plan(validate(experiment.as_yaml_data(), "again"))
    assert again.links == plan.links
    entries = [entry for entry in program_entries(plan, lambda _: Observation(ECN_OFF, "")) if "loss" in entry.table]
    assert [(entry.table, entry.data) for entry in entries[:1]] == [("loss", {"model": 2})]
    assert [entry.data for entry in entries if entry.table == "loss_pattern"] == [{"packets": 10}]
    lost = [
        entry.key["position"]
        for entry in program_entries(plan, lambda _: Observation(ECN_OFF, ""))
        if entry.action == "lose"
    ]
    assert lost == [Range(0, 0), Range(3, 4), Range(9, 9)]


def test_chances_are_in_units_that_have_certainty_too() -> None:
    plan = plan_of(loss={"gilbert_elliott": {"p": "25%", "r": "100%"}})
    states = [
        entry for entry in program_entries(plan, lambda _: Observation(ECN_OFF, "")) if entry.table == "loss_states"
    ]
    assert [(entry.key["is_bad"], dict(entry.data)) for entry in states] == [
        (0, {"loss": 0, "leave": 1 << 30}),
        (1, {"loss": 1 << 32, "leave": 1 << 32}),
    ]


def test_the_first_delay_is_part_of_the_base_rtt() -> None:
    steps = [{"at": "0s", "delay": "5ms"}, {"at": "15s", "delay": "30ms"}]
    plan = plan_of(delay={"steps": steps, "period": "30s"}, jitter={"uniform": "5ms"})
    (link,) = plan.links
    assert (link.delay_ns, link.longest_delay_ns, plan.extra_delay_ns) == (5 * MS, 35 * MS, 30 * MS)
    assert plan.flows[0].rtt_ns == 25 * MS
    # What varies needs a delay line that is not a host's.
    assert link.loopback


@pytest.mark.parametrize(
    ("jitter", "least", "most"),
    [
        (Jitter(uniform_ns=3), -3, 3),
        (Jitter(normal_ns=10), -40, 60),
        # Exceeded by one in a million: (10^6)^(1/2) - 1 scales.
        (Jitter(pareto=(1000, 2.0)), 0, 999_000),
        (Jitter(samples_ns=(-7, 9, 1)), -7, 9),
    ],
)
def test_jitter_has_bounds(jitter: Jitter, least: int, most: int) -> None:
    assert (jitter.least_ns, jitter.most_ns) == (least, most)


def test_times_of_jitter_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "times").write_text("0s\n1.5ms\n\n-200us\n")
    jitter = {"samples": {"file": "times"}}
    bottleneck = {"rate": "10Mbit", "buffer": "1bdp", "rtt": "20ms", "delay": "1ms", "jitter": jitter}
    (tmp_path / "x.yaml").write_text(yaml.safe_dump({"name": "x", "bottleneck": bottleneck, "flows": FLOWS}))
    assert make_plan(load(tmp_path / "x.yaml")).links[0].jitter == Jitter(samples_ns=(0, 1_500_000, -200_000))
    (tmp_path / "times").write_text("1ms\nsoon\n")
    with pytest.raises(InputError, match="'soon' in line 2 of times"):
        load(tmp_path / "x.yaml")


def test_a_trace_of_delays_is_steps(tmp_path: Path) -> None:
    (tmp_path / "delays").write_text("0s 5ms\n1.5s 40ms\n\n15s 5ms\n")
    bottleneck = {"rate": "10Mbit", "buffer": "1bdp", "rtt": "20ms", "delay": {"trace": {"file": "delays"}}}
    (tmp_path / "x.yaml").write_text(yaml.safe_dump({"name": "x", "bottleneck": bottleneck, "flows": FLOWS}))
    (link,) = make_plan(load(tmp_path / "x.yaml")).links
    assert link.delay_steps == DelaySteps(((0, 5 * MS), (1500 * MS, 40 * MS), (15_000 * MS, 5 * MS)))
    assert [link.delay_steps.at(time * MS) for time in (0, 1499, 1500, 99_000)] == [5 * MS, 5 * MS, 40 * MS, 5 * MS]
    assert DelaySteps(link.delay_steps.steps, 20_000 * MS).at(21_600 * MS) == 40 * MS
    (tmp_path / "delays").write_text("0s 5ms\n2s\n")
    with pytest.raises(InputError, match="has '2s' in line 2 of delays"):
        load(tmp_path / "x.yaml")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": {"gilbert_elliott": {"p": 0, "r": "1%"}}}, "never leaves a state; allowed: p and r above 0"),
        ({"loss": {"gilbert_elliott": {"p": "1%", "r": "1%", "loss_in_bad": 0}}}, "loses nothing"),
        ({"loss": {}}, "exactly one of gilbert_elliott and trace"),
        ({"loss": {"trace": {"file": "f", "text": "0 0"}}}, "f loses nothing"),
        ({"loss": {"trace": {"file": "f", "text": "1\n1"}}}, "f loses everything"),
        ({"loss": {"trace": {"file": "f", "text": "0 1 2"}}}, "has '2' in f"),
        ({"delay": "4ms", "jitter": {"uniform": "5ms"}}, "takes more than its delay of 4ms; allowed: a delay of 5ms"),
        ({"delay": "3ms", "jitter": {"normal": "1ms"}}, "allowed: a delay of 4ms"),
        ({"jitter": {"uniform": "1ms", "normal": "1ms"}}, "exactly one distribution"),
        ({"delay": {"steps": [{"at": "1s", "delay": "1ms"}]}}, "do not ascend from 0"),
        ({"delay": {"steps": [{"at": "0s", "delay": "1ms"}, {"at": "2s", "delay": "0s"}], "period": "2s"}}, "period"),
        ({"duplication": "150%"}, "duplication"),
    ],
)
def test_what_cannot_be_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        plan_of(**settings)
