# SPDX-License-Identifier: Apache-2.0
"""Links that vary as messages for the switch, and what virtual time makes of their least and most."""

from __future__ import annotations

from typing import Any

from narrows.experiment.loader import validate
from narrows.experiment.plan import SEED_BITS, Link
from narrows.experiment.planning import make_plan
from narrows.switch import traffic_manager_pb2 as pb
from narrows.switch.link_models import delay_message, rate_message, schedule_status, variation
from narrows.targets.soft.virtual_time import VirtualTimeSettings, adapted, settings
from narrows_formats.schedules import DelaySteps, Opportunities, RateSteps
from narrows_formats.span import Span

MS = 1_000_000


def test_steps_of_a_rate_with_an_outage() -> None:
    steps = RateSteps(((0, 5_000_000), (2 * MS, 0), (3 * MS, 9_000_000)), period_ns=10 * MS)
    assert steps.span_bps == Span(0, 9_000_000)
    message = rate_message(steps, epoch_ns=7)
    assert [(step.start_ns, step.rate_bps) for step in message.steps.steps] == list(steps.steps)
    assert (message.steps.period_ns, message.epoch_ns, schedule_status(steps)) == (10 * MS, 7, (3, 10 * MS))
    once = rate_message(RateSteps(((0, 1),)))
    assert not once.HasField("epoch_ns") and not once.steps.HasField("period_ns")


def test_opportunities() -> None:
    trace = Opportunities((0, 3 * MS, 3 * MS, 7 * MS))
    # Two of 1,504 bytes in a millisecond: at 3 ms, and where the last of a round meets the first of the next.
    assert trace.span_bps == Span(0, 2 * 1504 * 8 * 1000)
    message = rate_message(trace)
    assert tuple(message.opportunities.at_ns) == trace.at_ns and message.opportunities.loop
    assert not message.HasField("epoch_ns") and schedule_status(trace) == (4, 7 * MS)


# Of the seed, for what the first link draws.
LINK_0 = 1 << SEED_BITS


def link_of(**settings: Any) -> Link:
    bottleneck = {"rate": "10Mbit", "rtt": "40ms", "buffer": "1bdp", **settings}
    flows = [{"cca": "cubic", "duration": "1s"}]
    return make_plan(validate({"name": "test", "bottleneck": bottleneck, "flows": flows}, "test")).links[0]


def test_delays_are_messages() -> None:
    delays = DelaySteps(((0, 20 * MS), (15_000 * MS, 35 * MS)))
    assert delays.span_ns == Span(20 * MS, 35 * MS)
    assert [step.delay_ns for step in delay_message(delays, 1).steps] == [20 * MS, 35 * MS]
    assert schedule_status(delays) == (2, None)


def test_what_differs_from_packet_to_packet_is_a_message() -> None:
    assert variation(link_of(delay="5ms"), 1) is None
    uniform = variation(link_of(delay="5ms", jitter={"uniform": "5ms"}, duplication="25%"), 9)
    assert uniform == pb.Variation(uniform_ns=5 * MS, duplicate=0.25, seed=9 + LINK_0)
    normal = variation(link_of(delay="4ms", jitter={"normal": "1ms", "reorder": True}), 1)
    assert normal == pb.Variation(normal_ns=MS, reorder=True, seed=1 + LINK_0)
    pareto = variation(link_of(jitter={"pareto": {"scale": "1ms", "shape": 2.5}}), 1)
    assert pareto == pb.Variation(pareto=pb.Pareto(scale_ns=MS, shape=2.5), seed=1 + LINK_0)


def test_virtual_time_suits_the_least_and_the_most() -> None:
    """Windows and rings are those of the fastest rate and the shortest delay, batches those of the slowest rate."""

    def settled(rate: object) -> tuple[VirtualTimeSettings, int]:
        data = {
            "name": "test",
            "bottleneck": {"rate": rate, "rtt": "40ms", "buffer": "500kB"},
            "flows": [{"cca": "cubic", "duration": "30s"}],
        }
        plan = adapted(make_plan(validate(data, "test")))
        return settings(plan), plan.receive_batch_bytes

    steps = [{"at": "0s", "rate": "50Mbit"}, {"at": "1s", "rate": 0}, {"at": "2s", "rate": "10Gbit"}]
    varying, batch = settled({"steps": steps})
    fast, slow = settled("10Gbit"), settled("1Mbit")
    assert varying.window_ns == fast[0].window_ns < settled("50Mbit")[0].window_ns
    assert (varying.access_rate_bps, varying.jitter_ns) == (fast[0].access_rate_bps, fast[0].jitter_ns)
    assert varying.pool_frames == fast[0].pool_frames
    assert batch == slow[1] < fast[1]
