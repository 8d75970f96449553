# SPDX-License-Identifier: Apache-2.0
"""What an experiment is expected to show: ``flows.bbr.share >= 0.4``, a number of the results against a bound.

The number is one of summary.json, or a statistic of what a sender's socket said (`narrows_formats.sender_readings`).

Only comparisons of one number with one bound are evaluated, so that a foreign file can do nothing else.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from narrows_formats import sender_readings
from narrows_formats.sender_readings import BadQuestion, Question
from narrows_formats.suggestion import suggestion
from narrows_formats.summary import (
    BottleneckSummary,
    DynamicsSummary,
    FairnessSummary,
    FlowSummary,
    GroupSummary,
    LinkSummary,
    Summary,
    TelemetrySummary,
)
from narrows_formats.units import RATE_UNITS, SIZE_UNITS, TIME_UNITS
from typing_extensions import is_typeddict

from narrows.experiment.comparison import COMPARISONS

ALLOWED = "FIELD COMPARISON NUMBER, such as flows.bbr-1.share >= 0.4 or bottleneck.queue_delay_s.p99 < 50ms"
_FORM = re.compile(r"\s*([A-Za-z][^\s<>=]*)\s*(<=|>=|==|<|>)\s*([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)\s*([A-Za-z%]*)\s*\Z")
_SECONDS = 1e-9
# What a field counts, by the end of its name, and what its units are worth in that.
_UNITS: dict[str, dict[str, float]] = {
    "_s": {unit: value * _SECONDS for unit, value in TIME_UNITS.items()},
    "_bps": dict(RATE_UNITS),
    "bytes": dict(SIZE_UNITS),
    "": {"%": 0.01},
}
# Parts of a summary that exist once, and those with an entry for each name.
_SINGLE: dict[str, type] = {
    "bottleneck": BottleneckSummary, "fairness": FairnessSummary, "dynamics": DynamicsSummary,
    "telemetry": TelemetrySummary,
}  # fmt: skip
_OF_THE_LINK = ("bottleneck", "fairness", "dynamics")
_NAMED: dict[str, type] = {"flows": FlowSummary, "groups": GroupSummary, "links": LinkSummary}
# Readings of a flow's socket, which are in no summary.
SENDERS = "senders"


class BadExpectation(ValueError):
    """An expectation that cannot be; the message says why, ``allowed`` what would have been right."""

    def __init__(self, problem: str, allowed: str) -> None:
        """Keep the two apart, so that callers can put the expectation between them."""
        super().__init__(problem)
        self.allowed = allowed


@dataclass(frozen=True)
class Expectation:
    """A number of a summary, and what it is compared with.

    ``text`` is the expectation as written. ``section`` is a part of summary.json, ``name`` whose it is (None for parts
    that exist once), ``fields`` lead to the number there. ``question`` is what is asked of a sender's socket instead.
    ``bound`` is in SI units; it is written in ``unit``, which is ``unit_value`` of them.
    """

    text: str
    section: str
    name: str | None
    fields: tuple[str, ...]
    comparison: str
    bound: float
    question: Question | None = None
    unit: str = ""
    unit_value: float = 1.0

    def shown(self, value: float) -> str:
        """A value in SI units, in the unit of the bound."""
        unit = f"{self.unit}/s" if self.unit in RATE_UNITS else self.unit
        return f"{value / self.unit_value:.6g} {unit}".rstrip()

    def holds(self, value: float) -> bool:
        """Whether a value is as expected."""
        return COMPARISONS[self.comparison](value, self.bound)

    def value(self, summary: Summary) -> float | None:
        """The number of a summary; None where it has none."""
        parts: Any = summary[self.section]  # type: ignore[literal-required]
        found: Any = parts if self.name is None else next((one for one in parts if one["name"] == self.name), None)
        for field in self.fields:
            found = None if found is None else found.get(field)
        return None if found is None else float(found)

    def renamed(self, names: Mapping[str, str]) -> str:
        """The expectation as it is written where results have other names, ``names`` by those that they have here."""
        match = _FORM.match(self.text)
        if self.name is None or self.name not in names or match is None:
            return self.text
        _, comparison, number, unit = match.groups()
        return f"{'.'.join((self.section, names[self.name], *self.fields))} {comparison} {number}{unit}"


def parse(text: str, groups: Mapping[str, Sequence[str]], links: Sequence[str]) -> Expectation:
    """An expectation as it is written.

    Args:
        text: the expectation.
        groups: what results call the flows of each group, each connection of a repeated one; by the group's name.
        links: names of the links and of their opposite directions.

    Raises:
        BadExpectation: it is not a comparison of a field with a number, or there is no such field.
    """
    match = _FORM.match(text)
    if match is None:
        raise BadExpectation("is not a comparison of a field with a number", ALLOWED)
    path, comparison, number, unit = match.groups()
    section, _, rest = path.partition(".")
    if section == SENDERS:
        return _of_sender(text, rest, groups, comparison, (number, unit))
    if section not in {**_SINGLE, **_NAMED}:
        raise BadExpectation(f"has the unknown part '{section}'", ", ".join((*_NAMED, SENDERS, *_SINGLE)))
    if section in _OF_THE_LINK and len(links) > 1:
        raise BadExpectation(f"has the part '{section}', which is that of an only link", "links.NAME")
    name = None
    if section in _NAMED:
        name, rest = _name(section, rest, groups, links)
    fields = tuple(rest.split(".")) if rest else ()
    counts = _number({**_SINGLE, **_NAMED}[section], fields) is int
    value, unit_value = (in_si_units(one, unit, fields, counts=counts) for one in (number, "1"))
    return Expectation(text.strip(), section, name, fields, comparison, value, unit=unit, unit_value=unit_value)


def _of_sender(
    text: str, rest: str, groups: Mapping[str, Sequence[str]], comparison: str, bound: tuple[str, str]
) -> Expectation:
    name, asked = _name("flows", rest, groups, ())
    try:
        question = sender_readings.parse(asked)
    except BadQuestion as error:
        raise BadExpectation(str(error), error.allowed) from None
    fields = (*question.reading.split("."), question.statistic)
    counts = question.statistic == "count"
    number, unit = bound
    value, unit_value = (in_si_units(one, unit, () if counts else fields, counts=counts) for one in (number, "1"))
    return Expectation(text.strip(), SENDERS, name, (asked,), comparison, value, question, unit, unit_value)


def _name(section: str, rest: str, groups: Mapping[str, Sequence[str]], links: Sequence[str]) -> tuple[str, str]:
    """Whose number it is, and the fields after the name. Names may have dots: the longest one that fits is meant."""
    flows = dict.fromkeys(name for names in groups.values() for name in names)
    # A flow that is alone in its group has the group's name, too.
    alone = {group: names[0] for group, names in groups.items() if len(names) == 1}
    known: Mapping[str, str | None] = {
        "flows": {**flows, **alone}, "groups": dict.fromkeys(groups), "links": dict.fromkeys(links),
    }[section]  # fmt: skip
    fitting = [name for name in known if rest == name or rest.startswith(f"{name}.")]
    if not fitting:
        group = next((one for one in groups if section == "flows" and rest.startswith(f"{one}.")), None)
        first, names = (rest.partition(".")[0], ()) if group is None else (group, groups[group])
        several = f"{len(names)} flows, such as {names[0]}: groups.{first} is all of them" if names else ""
        # Of a workload there may be thousands.
        shown = [name for names in groups.values() for name in names[:3]]
        raise BadExpectation(
            f"has no {section.removesuffix('s')} '{first}'",
            several or suggestion(first, shown if section == "flows" else known).partition("allowed: ")[2],
        )
    name = max(fitting, key=len)
    return known[name] or name, rest[len(name) + 1 :]


def _number(part: type, fields: Sequence[str]) -> type:
    """The type of the number of a part of a summary that fields lead to; refused where they lead to none."""
    at: Any = part
    for field in fields:
        known = typing.get_type_hints(at) if is_typeddict(at) else {}
        if field not in known:
            guess = suggestion(field, known) if known else "; allowed: no field behind that"
            raise BadExpectation(f"has the unknown field '{field}'", guess.partition("allowed: ")[2])
        at = _without_none(known[field])
    if at not in (int, float):
        fields_here = typing.get_type_hints(at) if is_typeddict(at) else {}
        raise BadExpectation(
            "is not a number", f"one of its fields: {', '.join(fields_here)}" if fields_here else "a number"
        )
    return int if at is int else float


def _without_none(annotation: Any) -> Any:
    if isinstance(annotation, types.UnionType):
        kept = [one for one in typing.get_args(annotation) if one is not types.NoneType]
        return kept[0] if len(kept) == 1 else annotation
    return annotation


def in_si_units(number: str, unit: str, fields: Sequence[str], *, counts: bool) -> float:
    """A bound in the field's own unit; a bare number is in SI units. Of what a field `counts` there is no percent.

    Raises:
        BadExpectation: it is not a number, or the field does not have that unit.
    """
    try:
        value = float(number)
    except ValueError:
        raise BadExpectation(f"has '{number}', which is not a number", ALLOWED) from None
    if not unit:
        return value
    # Of `queue_delay_s.p99` the unit is in the name before the last.
    ending = next((one for one in _UNITS if one and any(f"_{field}".endswith(one) for field in fields)), "")
    if counts and not ending:
        raise BadExpectation(f"has the unit '{unit}', but counts", "a number without a unit")
    if unit not in _UNITS[ending]:
        raise BadExpectation(f"has the unit '{unit}'", f"none, or {', '.join(_UNITS[ending])}")
    return value * _UNITS[ending][unit]
