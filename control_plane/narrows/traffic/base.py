# SPDX-License-Identifier: Apache-2.0
"""Properties of flows that do not depend on their generator."""

from __future__ import annotations

from narrows.experiment.plan import Flow


def is_finite(flow: Flow) -> bool:
    """Whether a flow's connections have a size each; the others have a duration only."""
    return flow.size is not None or bool(flow.arrivals)


def size_of(flow: Flow, number: int) -> int:
    """Bytes of a connection of a finite flow."""
    if flow.arrivals:
        return flow.arrivals[number].size
    assert flow.size is not None
    return flow.size
