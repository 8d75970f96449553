# SPDX-License-Identifier: Apache-2.0
"""Links that vary, as messages for the softswitch. All times in nanoseconds.

What each of them means is said in softswitch/proto/narrows/v1/traffic_manager.proto. Without an epoch (switch time) a
schedule waits for `TrafficManagerClient.start_schedules`.
"""

from __future__ import annotations

from collections.abc import Iterable

from narrows_formats.schedules import DelaySteps, RateSchedule, RateSteps

from narrows.switch import traffic_manager_pb2 as pb


def rate_message(schedule: RateSchedule, epoch_ns: int | None = None) -> pb.RateSchedule:
    """What a link offers."""
    if isinstance(schedule, RateSteps):
        steps = [pb.RateStep(start_ns=start, rate_bps=rate) for start, rate in schedule.steps]
        return pb.RateSchedule(steps=pb.RateSteps(steps=steps, period_ns=schedule.period_ns), epoch_ns=epoch_ns)
    return pb.RateSchedule(opportunities=pb.Opportunities(at_ns=schedule.at_ns, loop=schedule.loop), epoch_ns=epoch_ns)


def rate_status(schedule: RateSchedule) -> tuple[int, int | None]:
    """Entries and period with which the switch is to list a schedule."""
    if isinstance(schedule, RateSteps):
        return len(schedule.steps), schedule.period_ns
    return len(schedule.at_ns), schedule.at_ns[-1] if schedule.loop else None


def delay_message(schedule: DelaySteps, epoch_ns: int | None = None) -> pb.DelaySchedule:
    """A delay that changes."""
    steps = [pb.DelayStep(start_ns=start, delay_ns=delay) for start, delay in schedule.steps]
    return pb.DelaySchedule(steps=steps, period_ns=schedule.period_ns, epoch_ns=epoch_ns)


def gilbert_elliott(p: float, r: float, h: float, k: float, seed: int) -> pb.Loss:
    """Loss in bursts (Gilbert 1960, Elliott 1963): a packet is judged by the state it finds, then the state moves.

    Args:
        p: probability that the good state turns bad after a packet.
        r: probability that the bad state turns good after a packet.
        h: probability that a packet passes in the bad state.
        k: probability that a packet passes in the good state.
        seed: of what is drawn.
    """
    return pb.Loss(gilbert_elliott=pb.GilbertElliott(p=p, r=r, h=h, k=k), seed=seed)


def loss_pattern(runs: Iterable[int], *, loop: bool) -> pb.Loss:
    """Packets that pass and that are lost, in turn, by their position among those that arrive at the queue."""
    return pb.Loss(pattern=pb.LossPattern(runs=runs, loop=loop))
