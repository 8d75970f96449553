# SPDX-License-Identifier: Apache-2.0
"""Narrows from Python: make a run, or drive one while its traffic flows. docs/python-api.md shows both."""

from __future__ import annotations

from narrows.api.interval import Interval
from narrows.api.runs import experiment, run
from narrows.api.sender import Sender
from narrows.api.session import Session, testbed
from narrows.api.tcp_info import TcpInfo
from narrows.errors import InputError, NarrowsError, RunError
from narrows.experiment.model import Experiment
from narrows.run.driver import FlowState, LinkState, State

# Its former name, for one release.
Bed = Session

__all__ = [
    "Bed", "Experiment", "FlowState", "InputError", "Interval", "LinkState", "NarrowsError", "RunError", "Sender",
    "Session", "State", "TcpInfo", "experiment", "run", "testbed",
]  # fmt: skip
