# SPDX-License-Identifier: Apache-2.0
"""Reordering that no link of an experiment makes is named, host by host."""

from __future__ import annotations

from typing import Any

import pytest
from narrows.experiment.loader import validate
from narrows.experiment.planning import make_plan
from narrows.run.reordering import notes

COUNTERS = {"sender0": {"TcpExtTCPSACKReorder": 201, "TcpRetransSegs": 1573}, "sender1": {"TcpRetransSegs": 7}}


def found(bottleneck: dict[str, Any]) -> list[str]:
    link = {"rate": "1Gbit", "rtt": "10ms", "buffer": "1bdp", **bottleneck}
    flow = {"cca": "cubic", "duration": "1s"}
    return notes(make_plan(validate({"name": "x", "bottleneck": link, "flows": [flow]}, "x")), COUNTERS)


@pytest.mark.parametrize("jitter", [None, {"uniform": "1ms"}])
def test_a_machine_that_reorders_is_named(jitter: dict[str, Any] | None) -> None:
    (note,) = found({} if jitter is None else {"delay": "5ms", "jitter": jitter})
    assert note.startswith("warning: TCP at sender0 has seen packets reordered (201 times)") and "--virtual" in note


def test_a_link_that_reorders_is_not() -> None:
    assert found({"delay": "5ms", "jitter": {"uniform": "1ms", "reorder": True}}) == []
