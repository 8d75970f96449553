# SPDX-License-Identifier: Apache-2.0
"""Links that vary, as messages for the softswitch. All times in nanoseconds.

What each of them means is said in softswitch/proto/narrows/v1/traffic_manager.proto. Without an epoch (switch time) a
schedule waits for `TrafficManagerClient.start_schedules`.
"""

from __future__ import annotations

from narrows_formats.schedules import DelaySteps, RateSchedule, RateSteps

from narrows.experiment.impairments import Jitter
from narrows.experiment.plan import ReportedLink, derive_seed
from narrows.switch import traffic_manager_pb2 as pb


def rate_message(schedule: RateSchedule, epoch_ns: int | None = None) -> pb.RateSchedule:
    """What a link offers."""
    if isinstance(schedule, RateSteps):
        steps = [pb.RateStep(start_ns=start, rate_bps=rate) for start, rate in schedule.steps]
        return pb.RateSchedule(steps=pb.RateSteps(steps=steps, period_ns=schedule.period_ns), epoch_ns=epoch_ns)
    return pb.RateSchedule(opportunities=pb.Opportunities(at_ns=schedule.at_ns, loop=schedule.loop), epoch_ns=epoch_ns)


def schedule_status(schedule: RateSchedule | DelaySteps) -> tuple[int, int | None]:
    """Entries and period with which the switch is to list a schedule."""
    if isinstance(schedule, RateSteps | DelaySteps):
        return len(schedule.steps), schedule.period_ns
    return len(schedule.at_ns), schedule.at_ns[-1] if schedule.loop else None


def delay_message(schedule: DelaySteps, epoch_ns: int | None = None) -> pb.DelaySchedule:
    """A delay that changes."""
    jitters = schedule.jitters or (0,) * len(schedule.steps)
    steps = [
        pb.DelayStep(start_ns=start, delay_ns=delay, jitter_ns=jitter)
        for (start, delay), jitter in zip(schedule.steps, jitters, strict=True)
    ]
    period_ns, gathers = schedule.period_ns, schedule.gathers
    return pb.DelaySchedule(steps=steps, period_ns=period_ns, epoch_ns=epoch_ns, gathers=gathers)


def variation(link: ReportedLink, seed: int) -> pb.Variation | None:
    """What differs from packet to packet behind a link's queue, in a run with this seed; None: nothing."""
    if link.jitter is None and not link.duplication and not (link.delay_steps is not None and link.delay_steps.jitters):
        return None
    jitter = link.jitter or Jitter()
    # The run's own seed is that of loss emulation, in the P4 program.
    found = pb.Variation(reorder=jitter.reorder, duplicate=link.duplication, seed=derive_seed(seed, 1 + link.index))
    if jitter.uniform_ns is not None:
        found.uniform_ns = jitter.uniform_ns
    elif jitter.normal_ns is not None:
        found.normal_ns = jitter.normal_ns
    elif jitter.pareto is not None:
        scale, shape = jitter.pareto
        found.pareto.CopyFrom(pb.Pareto(scale_ns=scale, shape=shape))
    elif jitter.samples_ns:
        found.samples.CopyFrom(pb.Samples(delay_ns=jitter.samples_ns))
    return found
