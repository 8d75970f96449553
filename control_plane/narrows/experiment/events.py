# SPDX-License-Identifier: Apache-2.0
"""What happens during an experiment at times that its file says: links that change, flows that start and stop.

Whatever a schedule of the switch or a flow's own times can hold becomes part of the plan; the rest of the changes of
links are `narrows.experiment.plan.Change`, made while the run is under way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Self

from narrows_formats.schedules import DelaySteps, RateSteps
from narrows_formats.validation import refuse
from pydantic import Field, model_validator

from narrows.experiment.plan import Verb
from narrows.field_types import Depth, Model, Name, RateOrNone, Ratio, Time

SETTINGS = ("rate", "buffer", "delay", "loss")


class Event(Model):
    """Something that happens at a time: a link changes, or a group's flows start or stop."""

    at: Annotated[Time, Field(gt=0)] = Field(description="When, from the start of the experiment.")
    link: Name | None = Field(
        default=None, description="The link that changes: its name, or `NAME.reverse`; `bottleneck` where that is used."
    )
    rate: RateOrNone | None = Field(
        default=None, description="Its rate from then on, also for the packet in service; `0bit`: nothing passes."
    )
    buffer: Depth | None = Field(
        default=None,
        description="What may wait in its queue from the next arrival on; packets that wait already stay. A BDP, or a "
        "time, refers to the rate that the link has at the start.",
    )
    delay: Time | None = Field(
        default=None, description="Its one-way delay, for packets that pass the link from then on."
    )
    loss: Ratio | None = Field(default=None, description="Its random loss, from the next arrival on.")
    start: Name | None = Field(default=None, description="The group whose flows start then, instead of at its `start`.")
    stop: Name | None = Field(
        default=None, description="The group whose flows stop then, before their `duration` is over."
    )

    @model_validator(mode="after")
    def _one_thing(self) -> Self:
        if sum(one is not None for one in (self.link, self.start, self.stop)) != 1:
            raise refuse("is not about one thing", "one of link, start and stop")
        if (self.link is None) == bool(self.settings):
            raise refuse(
                "changes nothing about its link" if self.link is not None else f"has {self.settings[0]} without a link",
                f"link with one or more of {', '.join(SETTINGS)}",
            )
        return self

    @property
    def what(self) -> str:
        """What happens, in words."""
        if self.link is None:
            return flow_words(*self.request)
        return link_words(self.link, self.model_dump(mode="json", include=set(self.settings)))

    @property
    def request(self) -> tuple[Verb, str]:
        """What its flows do, and whose they are; of an event without a link."""
        if self.start is not None:
            return "start", self.start
        assert self.stop is not None
        return "stop", self.stop

    @property
    def settings(self) -> tuple[str, ...]:
        """Which settings of its link it changes."""
        return tuple(name for name in SETTINGS if getattr(self, name) is not None)


def flow_words(verb: Verb, name: str) -> str:
    """What flows do, in words."""
    return f"{name} {verb}s"


def link_words(link: str, written: Mapping[str, object]) -> str:
    """What of a link changes, in words: its settings as an experiment file has them."""
    return f"{link}: {', '.join(f'{name} {written[name]}' for name in SETTINGS if name in written)}"


def of_link(events: Sequence[Event], link: str) -> list[Event]:
    """The events of a link, in order of time."""
    return sorted((event for event in events if event.link == link), key=lambda event: event.at)


def rate_steps(rate_bps: int, events: Sequence[Event]) -> RateSteps | None:
    """A rate that is constant but for a link's events, as a schedule; None if they do not change it."""
    changes = [(event.at, event.rate) for event in events if event.rate is not None]
    return RateSteps(((0, rate_bps), *changes)) if changes else None


def delay_steps(delay_ns: int, events: Sequence[Event]) -> DelaySteps | None:
    """A delay that is constant but for a link's events, as a schedule; None if they do not change it."""
    changes = [(event.at, event.delay) for event in events if event.delay is not None]
    return DelaySteps(((0, delay_ns), *changes)) if changes else None
