# SPDX-License-Identifier: Apache-2.0
"""What Tofino's AQMs do with a packet, by the entries of their verdict tables, for every kind of packet.

The entries are those of the source, first match first, as the chip has them; what they must come to is written here
from RFC 3168, 8311, 9331 and 9332, and from docs/queues.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import product
from pathlib import Path

import pytest

LAWS = Path(__file__).parents[2] / "p4src" / "tofino" / "queue_management"
NOT_ECT, ECT_1, ECT_0, CE = range(4)
MARKED_BEFORE = 0x01
CONSTANTS = {"PICKED": 1, "NOT_PICKED": 0}


class Verdicts:
    """A table of constant ternary entries, as P4 reads it."""

    def __init__(self, file: str, table: str) -> None:
        source = (LAWS / file).read_text()
        body = source.split(f"table {table} {{")[1].split("\n    }\n")[0]
        self._fields = re.findall(r'ternary @name\("(\w+)"\)', body)
        (self._default,) = re.findall(r"const default_action = (\w+)\(\);", body)
        entries = re.findall(r"^ *\((.+)\): (\w+)\(\);$", body.split("const entries")[1], re.MULTILINE)
        self._entries = [([_pattern(part) for part in key.split(", ")], action) for key, action in entries]

    def of(self, **packet: int) -> str:
        """The action of a packet."""
        values = [packet.pop(name) for name in self._fields]
        assert not packet
        for patterns, action in self._entries:
            if all(value & mask == wanted for value, (wanted, mask) in zip(values, patterns, strict=True)):
                return str(action)
        return str(self._default)


def _pattern(part: str) -> tuple[int, int]:
    if part == "_":
        return 0, 0
    value, _, mask = (word.strip() for word in part.partition("&&&"))
    number = CONSTANTS[value] if value in CONSTANTS else int(value, 0)
    return number, int(mask, 0) if mask else -1


def flags(ecn: int, marked: bool = False) -> int:
    """Of a report: the ECN field of the arrival above bit 3, the mark in bit 0; and a share of the indices, 0xa0."""
    return 0xA0 | ecn << 3 | (MARKED_BEFORE if marked else 0)


def set_by(file: str, action: str, parameters: Mapping[str, int]) -> dict[str, int]:
    """What an action of constants and parameters sets."""
    source = (LAWS / file).read_text()
    body = source.split(f"action {action}(")[1].split("{")[1].split("}")[0]
    words = {**CONSTANTS, "KIND_MANAGED_MIRROR": 3, "NO_THRESHOLD": (1 << 32) - 1, **parameters}
    assigned = re.findall(r"(\w+) = (\w+);", body)
    return {name: words[value] if value in words else int(value) for name, value in assigned}


ARRIVALS, DEPARTURES = Verdicts("arrival.p4", "arrival_verdict"), Verdicts("departure.p4", "departure_verdict")


@pytest.mark.parametrize(("ecn", "marks", "lost", "margin"), [*product(range(4), (0, 1), (0, 1), (0, 1, 1 << 31))])
def test_a_pick_on_arrival_is_a_mark_where_one_is_allowed(ecn: int, marks: int, lost: int, margin: int) -> None:
    if margin == 0 or lost:
        wanted = "pass"
    elif not marks or ecn == NOT_ECT:
        wanted = "drop"
    else:
        wanted = "pass" if ecn == CE else "mark"
    assert on_arrival(ecn, margin=margin, low_margin=margin, lost=lost, marks=marks) == wanted


def on_arrival(ecn: int, **law: int) -> str:
    usual = {"margin": 0, "low_margin": 0, "lost": 0, "marks": 1, "marks_rest": 0}
    return ARRIVALS.of(flags=flags(ecn), **{**usual, **law})


def arrival_of(ecn: int, call: tuple[str, Mapping[str, int]], draw: int) -> str:
    """What becomes of an arriving packet by an entry of `enqueue_aqm` and a random number of 32 bits."""
    law = set_by("arrival.p4", *call)
    margins = {name: max(0, law.pop(name) - draw) for name in ("margin", "low_margin")}
    return on_arrival(ecn, **margins, **law)


@pytest.mark.parametrize(
    ("ecn", "lost", "classic", "low"), [*product(range(4), (0, 1), (0, 1, 1 << 31), (0, 1, 1 << 31))]
)
def test_coupled_queues_each_have_their_own_pick(ecn: int, lost: int, classic: int, low: int) -> None:
    """RFC 9332, section 2.4: L marks what it picks; C marks or drops it. ECT(1) and CE are L's."""
    picked = low if ecn in (ECT_1, CE) else classic
    wanted = {NOT_ECT: "drop", ECT_0: "mark", ECT_1: "mark", CE: "pass"}[ecn] if picked and not lost else "pass"
    assert on_arrival(ecn, margin=classic, low_margin=low, lost=lost) == wanted


@pytest.mark.parametrize(("ecn", "lost", "picked"), [*product(range(4), (0, 1), (0, 1, 1 << 31))])
def test_overloaded_queues_both_drop_and_l_marks_the_rest(ecn: int, lost: int, picked: int) -> None:
    """RFC 9332, section 4.2, as the softswitch: drops whatever the ECN field says, and marks ECT(1) for certain."""
    wanted = "drop" if picked else ("mark" if ecn == ECT_1 else "pass")
    law = {"margin": picked, "low_margin": picked, "marks": 0, "marks_rest": 1}
    assert on_arrival(ecn, **law, lost=lost) == ("pass" if lost else wanted)


def at_departure(ecn: int, *, marked: bool = False, **law: int) -> str:
    usual = {"lateness": 0, "picked": 0, "marks": 0, "l4s_only": 0, "spares": 1}
    return DEPARTURES.of(flags=flags(ecn, marked), **{**usual, **law})


@pytest.mark.parametrize("ecn", range(4))
def test_without_a_law_behind_the_queue_all_pass_but_what_was_marked_before_it(ecn: int) -> None:
    assert at_departure(ecn) == "pass"
    if ecn in (ECT_0, ECT_1):
        assert at_departure(ecn, marked=True) == "mark"


@pytest.mark.parametrize(("ecn", "lateness", "only"), [*product(range(4), (0, 1, 1 << 31), (0, 1))])
def test_a_step_marks_what_is_late_and_drops_nothing(ecn: int, lateness: int, only: int) -> None:
    late = ecn == ECT_1 or (ecn == ECT_0 and not only)
    wanted = "mark" if lateness and late else "pass"
    assert at_departure(ecn, lateness=lateness, marks=1, l4s_only=only) == wanted


@pytest.mark.parametrize(("ecn", "waited"), [*product(range(4), (0, 1000, 1001, 1 << 31))])
def test_coupled_queues_have_a_step_for_l4s_alone(ecn: int, waited: int) -> None:
    """RFC 9332, appendix A.1, with a step: what waited longer in L is marked; C has no such threshold."""
    law = set_by("departure.p4", "coupled", {"threshold": 1000})
    assert law.pop("kind") == 3
    law["lateness"] = max(0, waited - law.pop("longest"))
    assert DEPARTURES.of(flags=flags(ecn), **law) == ("mark" if ecn == ECT_1 and waited > 1000 else "pass")


@pytest.mark.parametrize(("ecn", "picked", "marks", "nodrop"), [*product(range(4), (0, 1), (0, 1), (0, 1))])
def test_red_marks_drops_or_spares_what_it_picks(ecn: int, picked: int, marks: int, nodrop: int) -> None:
    if not picked or (marks and ecn == CE):
        wanted = "pass"
    elif marks and ecn in (ECT_0, ECT_1):
        wanted = "mark"
    else:
        wanted = "pass" if nodrop else "drop"
    assert at_departure(ecn, picked=picked, marks=marks, spares=nodrop) == wanted
