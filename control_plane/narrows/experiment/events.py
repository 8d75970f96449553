# SPDX-License-Identifier: Apache-2.0
"""What happens during an experiment at times that its file says: links that change, flows that start and stop.

Whatever a schedule of the switch or a flow's own times can hold becomes part of the plan; the rest of the changes of
links are `narrows.experiment.plan.Change`, made while the run is under way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, Self

from narrows_formats.schedules import DelaySteps, RateSteps
from narrows_formats.validation import refuse
from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from narrows.experiment.plan import Verb
from narrows.field_types import Depth, Model, Name, RateOrNone, RateOrUnlimited, Ratio, Time
from narrows.onhost.application import Change as ApplicationChange

SETTINGS = ("rate", "buffer", "delay", "loss")
OF_APPLICATIONS = ("send", "send_rate")


def _read_switch(value: object) -> object:
    """``on`` and ``off``, which YAML takes for true and false."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else value


OnOrOff = Annotated[
    Literal["on", "off"], BeforeValidator(_read_switch), WithJsonSchema({"enum": ["on", "off", True, False]})
]


class Event(Model):
    """Something that happens at a time: a link changes, a group's flows start or stop, or their application changes."""

    at: Annotated[Time, Field(gt=0)] | None = Field(
        default=None, description="When, from the start of the experiment; each event has `at` or `when`."
    )
    when: str | None = Field(
        default=None,
        description='A condition: once it holds, the event happens, such as `flows.a.bbr.phase == "DRAIN"`. It is '
        "evaluated as often as `telemetry.conditions` says.",
    )
    for_: Time | None = Field(
        default=None,
        alias="for",
        description="With `when`: it has to hold for that long, at every reading in that time; without it at one.",
    )
    once: bool | None = Field(
        default=None,
        description="With `when`: it counts the first time only, which is the default. `false`: whenever it begins to "
        "hold.",
    )
    hysteresis: str | None = Field(
        default=None,
        description="With `once: false`, and `<`, `<=`, `>` or `>=`: it begins to hold again only after the reading "
        "was further away from the value than this, in the reading's unit.",
    )
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

    flow: Name | None = Field(
        default=None,
        description="The group whose applications change: bulk flows. What happens before a flow starts holds from its "
        "start on.",
    )
    send: OnOrOff | None = Field(
        default=None,
        description="`off`: the application gives its socket nothing; what that holds unsent, at most `notsent_lowat` "
        "(`16384B` by default), still leaves. `on`: it goes on, at its rate.",
    )
    send_rate: RateOrUnlimited | None = Field(
        default=None,
        description="The application's rate of payload: it writes what that gives in 1 ms, at least 1448 bytes at a "
        "time, and what the socket does not take later. `unlimited`: as much as the socket takes, as before.",
    )

    @model_validator(mode="after")
    def _one_thing(self) -> Self:
        if sum(one is not None for one in (self.link, self.start, self.stop, self.flow)) != 1:
            raise refuse("is not about one thing", "one of link, start, stop and flow")
        for about, given, allowed in (
            ("link", self.settings, SETTINGS),
            ("flow", self.of_application, OF_APPLICATIONS),
        ):
            has = getattr(self, about) is not None
            if has != bool(given):
                raise refuse(
                    f"changes nothing about its {about}" if has else f"has {given[0]} without a {about}",
                    f"{about} with one or more of {', '.join(allowed)}",
                )
        return self

    @model_validator(mode="after")
    def _at_or_when(self) -> Self:
        if (self.at is None) == (self.when is None):
            raise refuse("has neither at nor when" if self.at is None else "has at and when", "one of the two")
        of_condition = {"for": self.for_, "once": self.once, "hysteresis": self.hysteresis}
        if self.when is None:
            if given := [name for name, value in of_condition.items() if value is not None]:
                raise refuse(f"has {given[0]} without when", f"when, with or without {', '.join(of_condition)}")
            return self
        if self.hysteresis is not None and self.once is not False:
            raise refuse("has hysteresis, and happens once", "hysteresis with once: false")
        if (self.start or self.stop) is not None and self.once is False:
            raise refuse("has once: false, and starts or stops flows", "once: true, as a flow starts and stops once")
        if self.delay is not None or self.rate == 0:
            raise refuse("has when, and a delay or rate 0bit", "when with a rate above 0, buffer or loss of a link")
        return self

    @property
    def what(self) -> str:
        """What happens, in words."""
        if self.flow is not None:
            written = self.model_dump(mode="json", include=set(self.of_application))
            return f"{self.flow}: {', '.join(f'{name} {value}' for name, value in written.items())}"
        if self.link is None:
            return flow_words(*self.request)
        return link_words(self.link, self.model_dump(mode="json", include=set(self.settings)))

    @property
    def request(self) -> tuple[Verb, str]:
        """What its flows do, and whose they are; of an event that starts or stops them."""
        names: dict[Verb, str | None] = {"start": self.start, "stop": self.stop}
        return next((verb, name) for verb, name in names.items() if name is not None)

    @property
    def settings(self) -> tuple[str, ...]:
        """Which settings of its link it changes."""
        return tuple(name for name in SETTINGS if getattr(self, name) is not None)

    @property
    def sends(self) -> bool | None:
        """Whether its flows' applications send from then on; None: as before."""
        return None if self.send is None else self.send == "on"

    @property
    def of_application(self) -> tuple[str, ...]:
        """Which settings of its flows' applications it changes."""
        return tuple(name for name in OF_APPLICATIONS if getattr(self, name) is not None)


def flow_words(verb: Verb, name: str) -> str:
    """What flows do, in words."""
    return f"{name} {verb}s"


def link_words(link: str, written: Mapping[str, object]) -> str:
    """What of a link changes, in words: its settings as an experiment file has them."""
    return f"{link}: {', '.join(f'{name} {written[name]}' for name in SETTINGS if name in written)}"


def of_link(events: Sequence[Event], link: str) -> list[Event]:
    """The events of a link at set times, in their order."""
    return sorted((event for event in events if event.link == link and event.at is not None), key=at_ns)


def at_ns(event: Event) -> int:
    """When an event of a set time happens."""
    assert event.at is not None
    return event.at


def application_changes(events: Sequence[Event], group: str) -> tuple[ApplicationChange, ...]:
    """What the applications of a group do when, in order of time."""
    found = [
        ApplicationChange(number, event.at, event.sends, event.send_rate)
        for number, event in enumerate(events)
        if event.flow == group and event.at is not None
    ]
    return tuple(sorted(found, key=lambda change: change.at_ns))


def rate_steps(rate_bps: int, events: Sequence[Event]) -> RateSteps | None:
    """A rate that is constant but for a link's events, as a schedule; None if they do not change it."""
    changes = [(at_ns(event), event.rate) for event in events if event.rate is not None]
    return RateSteps(((0, rate_bps), *changes)) if changes else None


def delay_steps(delay_ns: int, events: Sequence[Event]) -> DelaySteps | None:
    """A delay that is constant but for a link's events, as a schedule; None if they do not change it."""
    changes = [(at_ns(event), event.delay) for event in events if event.delay is not None]
    return DelaySteps(((0, delay_ns), *changes)) if changes else None
