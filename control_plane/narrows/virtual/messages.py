# SPDX-License-Identifier: Apache-2.0
"""What a guest says of its run, a message a line (`narrows.onhost.wire`); `narrows.run.sampler.Snapshot` is one too."""

from __future__ import annotations

from dataclasses import dataclass

from narrows.onhost.wire import message
from narrows.run.driver import Answer


@message
@dataclass(frozen=True)
class Up:
    """It has booted, and makes the run now."""


@message
@dataclass(frozen=True)
class Phase:
    """A phase of the run begins, which takes ``total_s`` seconds, if that is known."""

    text: str
    total_s: float | None


@message
@dataclass(frozen=True)
class Note:
    """A line for the user."""

    text: str


@message
@dataclass(frozen=True)
class DriverAnswer:
    """An answer to the driver (`narrows.run.driver.Driver`)."""

    answer: Answer


@message
@dataclass(frozen=True)
class Interrupted:
    """A signal ended the run before any traffic flowed."""


@message
@dataclass(frozen=True)
class Failed:
    """The run failed before any traffic flowed."""

    why: str


@message
@dataclass(frozen=True)
class Completed:
    """What was measured is in its file; that was ``virtual_s`` seconds after the guest's boot."""

    virtual_s: float


Ending = Interrupted | Failed | Completed
"""How a run ended, by the guest's word."""
