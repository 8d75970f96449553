"""Whether a compiled Tofino parser branches on what it has read, from the compiler's assembly (`.bfa`).

A parser reads bytes into match registers on its way to a state, and there compares them with the patterns of its
transitions. A compiler that loses a register makes a `select` unconditional, or blind for a part of what it selects on:
it takes the first transition whatever the packet. Nothing in what a switch loads shows it; the assembler only warns.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

ANYTHING = "*"
# Where a packet's parsing ends.
END = "end"


@dataclass
class Transition:
    """What is taken at ``pattern``: registers that are filled on the way to the state ``next``."""

    pattern: str
    loads: frozenset[str] = frozenset()
    next: str = END


@dataclass
class State:
    """A state of one parser: the registers that it compares, and its transitions in their order."""

    matches: frozenset[str] = frozenset()
    transitions: list[Transition] = field(default_factory=list)


def lost_matches(assembly: str) -> list[str]:
    """Where a parser does not look at what it branches on, as sentences; empty where it does.

    Args:
        assembly: text of a `.bfa` file.

    Raises:
        ValueError: it has no parser.
    """
    parsers = parse(assembly)
    if not parsers:
        raise ValueError("the assembly has no parser")
    return [problem for gress, states in parsers.items() for problem in _problems(gress, states)]


def parse(assembly: str) -> dict[str, dict[str, State]]:
    """States by name, of each parser (ingress, egress) of a `.bfa` file."""
    parsers: dict[str, dict[str, State]] = {}
    states: dict[str, State] | None = None
    state, transition = State(), Transition("")
    for line in assembly.splitlines():
        if re.match(r"\S", line):
            gress = re.match(r"parser (\w+)", line)
            states = parsers.setdefault(gress[1], {}) if gress else None
        elif states is None:
            continue
        elif found := re.match(r" {4}(\S+):$", line):
            state = states.setdefault(found[1], State())
        elif found := re.match(r" {6}match: \[(.*)\]", line):
            state.matches = frozenset(found[1].replace(",", " ").split())
        elif found := re.match(r" {6}(\*|0[xob][0-9a-f*_]+|\d+|value_set .*):$", line):
            transition = Transition(found[1])
            state.transitions.append(transition)
        elif found := re.match(r" {8}load: \{(.*)\}", line):
            transition.loads = frozenset(re.findall(r"(\w+) *:", found[1]))
        elif found := re.match(r" {8}next: (\S+)", line):
            transition.next = found[1]
    return parsers


def _problems(gress: str, states: Mapping[str, State]) -> Iterator[str]:
    for name, state in states.items():
        where = f"{gress} parser, state {name}"
        if not state.matches and [one.pattern for one in state.transitions] != [ANYTHING]:
            yield f"{where}: {len(state.transitions)} transitions, and no match that tells them apart"
            continue
        for pattern in dict.fromkeys(one.pattern for one in state.transitions):
            if (times := sum(one.pattern == pattern for one in state.transitions)) > 1:
                yield f"{where}: {times} transitions at {pattern}, of which the first is always taken"
        for one in state.transitions:
            for register in sorted(one.loads):
                if not _is_matched(states, one.next, register):
                    yield f"{where}, transition at {one.pattern}: nothing is matched on {register}, which it loads"


def _is_matched(states: Mapping[str, State], name: str, register: str) -> bool:
    """Whether any state from here on matches on a register before something else is loaded into it."""
    pending, seen = [name], set[str]()
    while pending:
        name = pending.pop()
        if name == END or name in seen or name not in states:
            continue
        seen.add(name)
        if register in states[name].matches:
            return True
        pending += [one.next for one in states[name].transitions if register not in one.loads]
    return False
