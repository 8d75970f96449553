# SPDX-License-Identifier: Apache-2.0
"""What goes between `narrows.api.child` and `narrows.api.process` besides `narrows.run.driver`, a message a line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from narrows.experiment.driving import Driving
from narrows.onhost.wire import message


@message
@dataclass(frozen=True)
class RunRequest:
    """A run, or all runs of a sweep, to be made.

    ``experiment`` is what a file would have, ``driving`` None if the run is not driven; ``jobs`` of a sweep are under
    way at once; ``scratch`` is a directory that goes with the run.
    """

    experiment: Mapping[str, object]
    virtual: bool
    kernel: str | None
    directory: str
    driving: Driving | None
    jobs: int | None
    scratch: str | None


@message
@dataclass(frozen=True)
class RunEnding:
    """The run has ended, or all of them have; ``reason`` says why it is not complete."""

    status: str
    reason: str
    directory: str


@message
@dataclass(frozen=True)
class RunFailure:
    """It cannot be made, or failed before any traffic flowed: the error's class, and what it says."""

    kind: str
    why: str
