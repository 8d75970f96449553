# SPDX-License-Identifier: Apache-2.0
"""Calls of the switch at each step of a run that is driven: in a guest, each takes a millisecond or more."""

from __future__ import annotations

import asyncio
from collections import deque
from unittest.mock import AsyncMock

from narrows.experiment.model import Experiment
from narrows.experiment.planning import make_plan
from narrows.run.driver import Answer, Command, EndTraffic, RunUntil, State
from narrows.run.observer import Observer
from narrows.run.stepping import SteppingController
from narrows.switch.readings import QueueReading, QueueStats
from narrows.targets.base import Target
from narrows.targets.soft.target import PROFILE
from narrows.traffic.traffic import Traffic

EXPERIMENT = Experiment.model_validate(
    {
        "name": "steps",
        "bottleneck": {"rate": "10Mbit", "buffer": "1bdp", "rtt": "20ms"},
        "flows": [{"cca": "cubic", "duration": "1s"}],
    }
)
# Records of new flows have come by themselves: they are taken, not asked for.
HERE = {"new_flows"}


class Driver:
    """Advances twice, and ends the run."""

    def __init__(self) -> None:
        self.commands: deque[Command] = deque([RunUntil(1000), RunUntil(2000), EndTraffic()])
        self.answers: list[Answer] = []

    async def receive(self) -> Command | None:
        return self.commands.popleft()

    def tell(self, answer: Answer) -> None:
        self.answers.append(answer)


def test_a_step_asks_the_switch_twice_and_no_more() -> None:
    plan = make_plan(EXPERIMENT)
    link = plan.bottleneck
    numbers = dict.fromkeys(QueueStats.__dataclass_fields__, 0) | {"port": link.port, "queue": link.queue}
    reading = QueueReading([QueueStats(**numbers)], {(link.port, link.queue): []})
    target = AsyncMock(spec=Target, profile=PROFILE, pausable=True)
    target.read_queues.return_value, target.departed_bytes.return_value = reading, {}
    target.new_flows.return_value = []
    driver = Driver()
    shown = AsyncMock(return_value=None)
    traffic = AsyncMock(spec=Traffic)
    asyncio.run(SteppingController(plan, target, Observer(plan, target), traffic, shown, driver).run(0.0, 0))
    assert [answer.time_ns for answer in driver.answers if isinstance(answer, State)] == [0, 1000, 2000]
    asked = [call[0] for call in target.method_calls if call[0] not in HERE]
    assert asked == ["read_queues", "departed_bytes"] * 3 + ["pause"]
