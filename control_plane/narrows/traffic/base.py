# SPDX-License-Identifier: Apache-2.0
"""What all ways of making a run's flows have in common."""

from __future__ import annotations

from pathlib import Path

from narrows.experiment.plan import Flow, Plan
from narrows.hosts.base import Testbed


def is_sized(flow: Flow) -> bool:
    """Whether a flow's connections have a size each; the others have a duration only."""
    return flow.size is not None or bool(flow.arrivals)


class FlowTraffic:
    """The flows of one run that are sized, or those that are not."""

    sized = False

    def __init__(self, plan: Plan, testbed: Testbed, results: Path) -> None:
        """Take the plan; results go to ``results``, a file a connection or a flow."""
        self._plan = plan
        self._flows = tuple(flow for flow in plan.flows if is_sized(flow) == self.sized)
        self._testbed = testbed
        self._results = results
        self._origin = 0.0
