# SPDX-License-Identifier: Apache-2.0
"""Programs that are tested in the place of a kernel's congestion control, such as a QUIC stack."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from narrows_formats.suite_matrix import Outcome

from narrows.errors import InputError
from narrows.experiment.loader import read_mapping, validate
from narrows.flows.group import FlowGroup
from narrows.flows.program import ProgramGroup, resolve_paths

# What a case says of its sender that a program does not decide: when, between which hosts, over what.
OF_THE_CASE = ("name", "start", "stagger", "duration", "rtt", "path", "direction", "from", "to")
# What a program takes the place of.
REPLACED = ("cca", "count")
LINK = {"rate": "10Mbit", "buffer": "1bdp", "rtt": "20ms"}
# Where an error is said to be, of a group that is alone in its experiment.
IN_EXPERIMENT = re.compile(r"\bflows\.0(?:\.|: )")


class Unsuited(Exception):
    """A case that says nothing of a program: its outcome, and why."""

    def __init__(self, outcome: Outcome, reason: str) -> None:
        """Take both."""
        super().__init__(reason)
        self.outcome: Outcome = outcome


@dataclass(frozen=True)
class TestedProgram:
    """A program by its name, with the fields of a group of flows that it makes."""

    name: str
    fields: Mapping[str, object]

    def in_place_of(self, group: Mapping[str, object]) -> dict[str, object]:
        """The group of flows that a case has, with the program as its sender.

        Raises:
            Unsuited: the case says what its sender sends, which a program decides itself.
        """
        given = [name for name in group if name not in (*OF_THE_CASE, *REPLACED) and group[name]]
        several = "count" in group and group["count"] != 1
        if given or several:
            what = given[0] if given else "count"
            raise Unsuited("not applicable", f"{group['name']} has {what}, and a program decides itself what it sends")
        return {**{name: group[name] for name in OF_THE_CASE if name in group}, **self.fields}


def read_program(path: Path) -> TestedProgram:
    """A file with the fields of a group of flows that a program makes (`client` and what belongs to it).

    Raises:
        InputError: it cannot be read, or is no such group.
    """
    fields = read_mapping(path, "a program; allowed: a mapping with client, and server")
    own = ["name", *(name for name in ProgramGroup.model_fields if name not in FlowGroup.model_fields)]
    for name in fields:
        if name in OF_THE_CASE[1:]:
            raise InputError(f"{path}: {name}: is up to the cases; allowed: {', '.join(own)}")
    resolve_paths({"flows": [fields]}, path)
    name = str(fields.pop("name", path.stem))
    group = {**fields, "name": name, "duration": "1s"}
    try:
        found = validate({"name": "program", "bottleneck": LINK, "flows": [group]}, str(path)).flows[0]
    except InputError as error:
        raise InputError(IN_EXPERIMENT.sub("", str(error))) from error
    if not isinstance(found, ProgramGroup):
        raise InputError(f"{path}: has no client; allowed: a mapping with client, and server")
    return TestedProgram(name, fields)
