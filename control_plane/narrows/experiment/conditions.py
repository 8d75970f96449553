# SPDX-License-Identifier: Apache-2.0
"""Conditions of events: ``flows.a.bbr.phase == "DRAIN"``, a reading of a flow's socket, of a queue or of a counter of
the switch, against a value.

Only comparisons of one reading with one value are evaluated, so that a foreign file can do nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from narrows_formats.columns import BBR_PHASES, ONLY_LOGGED, SOCKETS
from narrows_formats.suggestion import suggestion

from narrows.experiment.comparison import Condition
from narrows.experiment.expectations import BadExpectation, in_si_units

PHASE = "bbr_phase"
_NOT_ASKED = ("time_s", "flow", "src_port", "dst_port", "source")
OF_SOCKETS = tuple(one.name for one in SOCKETS if one.name not in _NOT_ASKED and one not in ONLY_LOGGED)
OF_SWITCH = ("departed_bytes", "dropped_packets")
"""Of a flow: what has left its last queue, and what queues have dropped of it."""
OF_LINKS = ("queue_bytes", "queue_packets", "queue_delay_s", "departed_bytes", "departed_packets", "dropped_packets")
ALLOWED = 'READING COMPARISON VALUE, such as flows.a.bbr_phase == "DRAIN" or links.bottleneck.queue_bytes > 100kB'
_FORM = re.compile(r"\s*(flows|links)\.([^\s<>=!]+)\s*(<=|>=|==|!=|<|>)\s*(\S.*?)\s*\Z")
_NUMBER = re.compile(r"([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)\s*([A-Za-z%]*)\Z")


class BadCondition(ValueError):
    """A condition that cannot be; ``allowed`` says what would have been right."""

    def __init__(self, problem: str, allowed: str) -> None:
        """Keep the two apart, so that callers can put the condition between them."""
        super().__init__(problem)
        self.allowed = allowed


def parse(text: str, flows: Mapping[str, str | None], links: Sequence[str]) -> Condition:
    """A condition as it is written.

    Args:
        text: the condition.
        flows: flows with one connection each by the names that the file has for them, with their congestion control,
            None without.
        links: names of the links and of their opposite directions.

    Raises:
        BadCondition: it is not a comparison of a reading with a value, or nothing observes that.
    """
    match = _FORM.match(text)
    if match is None:
        raise BadCondition("is not a comparison of a reading with a value", ALLOWED)
    section, path, comparison, written = match.groups()
    known: Sequence[str] = tuple(flows) if section == "flows" else links
    name = max((one for one in known if path.startswith(f"{one}.")), key=len, default=None)
    if name is None:
        guess = suggestion(path.partition(".")[0], known).partition("allowed: ")[2]
        raise BadCondition("is about no flow with one connection" if section == "flows" else "is about no link", guess)
    reading = path[len(name) + 1 :].replace(".", "_")
    cca = flows[name] if section == "flows" else None
    readings = (*(OF_SOCKETS if cca is not None else ()), *OF_SWITCH) if section == "flows" else OF_LINKS
    if reading not in readings:
        raise BadCondition(f"has the unknown reading '{path[len(name) + 1 :]}'", ", ".join(readings))
    if reading.startswith("bbr_") and cca is not None and not cca.startswith("bbr"):
        raise BadCondition(f"asks for BBR's state of '{name}', which runs {cca}", "a flow with BBR, or other readings")
    of_socket = section == "flows" and reading in OF_SOCKETS
    value = _value(written, reading, comparison)
    return Condition(text.strip(), section, name, reading, comparison, value, of_socket)


def number(written: str, reading: str) -> float:
    """A number of a reading's unit, or in SI units.

    Raises:
        BadCondition: it is none.
    """
    match = _NUMBER.match(written)
    if match is None:
        raise BadCondition(f"has '{written}', which is not a number", "a number, with a unit or in SI units")
    try:
        return in_si_units(match[1], match[2], (reading,), counts=True)
    except BadExpectation as error:
        raise BadCondition(str(error), error.allowed) from None


def _value(written: str, reading: str, comparison: str) -> float | str:
    if reading != PHASE:
        return number(written, reading)
    phases = ", ".join(f'"{phase}"' for phase in BBR_PHASES)
    if written.strip("\"'") not in BBR_PHASES:
        raise BadCondition(f"has the unknown phase {written}", phases)
    if comparison not in ("==", "!="):
        raise BadCondition(f"compares a phase by {comparison}", "== or !=")
    return written.strip("\"'")
