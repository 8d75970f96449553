# SPDX-License-Identifier: Apache-2.0
"""What distributions add to Narrows by entry points: targets, commands and more, by the names that users type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from pathlib import Path
from typing import Any

TARGETS = "narrows.targets"
"""Switches on this machine: subclasses of `narrows.targets.base.Target`."""
LAB_TARGETS = "narrows.lab_targets"
"""Switches between the machines of an inventory: subclasses of `narrows.targets.lab.LabTarget`."""
COMMANDS = "narrows.commands"
"""Commands of `narrows`: each a `typer.Typer`, of one command or of several."""

Offers = Mapping[str, tuple[EntryPoint, ...]]


class PluginError(Exception):
    """What a name refers to cannot be loaded, or is ambiguous; the message names the distributions."""


@cache
def _installed() -> Mapping[str, EntryPoints]:
    """Every distribution's, by group: looked for once, since that opens a file of each."""
    found = entry_points()
    return {group: found.select(group=group) for group in found.groups}


def _of(group: str) -> Iterable[EntryPoint]:
    return _installed().get(group, ())


def offers(group: str, own: Mapping[str, str] | None = None) -> Offers:
    """What a group has by name: what the caller has itself, then what is installed; nothing is imported.

    Args:
        group: of entry points, such as `TARGETS`.
        own: ``module:attribute`` by name, of what is not an entry point.
    """
    found: dict[str, tuple[EntryPoint, ...]] = {
        name: (EntryPoint(name, value, group),) for name, value in (own or {}).items()
    }
    for point in _of(group):
        found[point.name] = (*found.get(point.name, ()), point)
    return found


def places(group: str) -> list[Path]:
    """The directories that distributions are in which add to a group; nothing is imported."""
    return [Path(str(point.dist.locate_file(""))) for point in _of(group) if point.dist is not None]


def _origin(point: EntryPoint) -> str:
    """The distribution that an entry point is of."""
    return "narrows" if point.dist is None else point.dist.name


def load(points: tuple[EntryPoint, ...]) -> Any:
    """Import what a name refers to.

    Raises:
        PluginError: several distributions have that name, or it cannot be imported.
    """
    point = points[0]
    if len(points) > 1:
        origins = ", ".join(map(_origin, points))
        raise PluginError(
            f"{point.name}: more than one of {point.group} has that name: {origins}; allowed: one of them"
        )
    if point.dist is None:
        return point.load()
    # Whatever a module of others raises is theirs.
    try:
        return point.load()
    except Exception as error:
        raise PluginError(f"{point.name}: {_origin(point)} cannot load {point.value}: {error!r}") from error
