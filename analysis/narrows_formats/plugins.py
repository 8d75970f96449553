# SPDX-License-Identifier: Apache-2.0
"""What other distributions add to Narrows by entry points: targets and studies, by the names that commands take."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

TARGETS = "narrows.targets"
"""Switches on this machine: subclasses of `narrows.targets.base.Target`."""
LAB_TARGETS = "narrows.lab_targets"
"""Switches between the machines of an inventory, likewise."""
STUDIES = "narrows.studies"
"""Values of `narrows_analysis.studies.model.Study`; their experiments are in ``experiments/`` beside the module."""

Offers = Mapping[str, tuple[EntryPoint, ...]]


class PluginError(Exception):
    """What a name stands for cannot be loaded, or is ambiguous; the message names the distributions."""


@cache
def _added() -> Mapping[str, tuple[EntryPoint, ...]]:
    """What is installed beside, by group: looked for once, since that opens a file of every distribution."""
    installed = entry_points()
    return {group: tuple(installed.select(group=group)) for group in (TARGETS, LAB_TARGETS, STUDIES)}


def offers(group: str, own: Mapping[str, str]) -> Offers:
    """What a group has by name: Narrows' own first, then what is installed beside; nothing is imported.

    Args:
        group: `TARGETS`, `LAB_TARGETS` or `STUDIES`.
        own: ``module:attribute`` by name.
    """
    found: dict[str, tuple[EntryPoint, ...]] = {name: (EntryPoint(name, value, group),) for name, value in own.items()}
    for point in _added()[group]:
        found[point.name] = (*found.get(point.name, ()), point)
    return found


def places(group: str) -> list[Path]:
    """The directories that distributions are in which add to a group; nothing is imported."""
    return [Path(str(point.dist.locate_file(""))) for point in _added()[group] if point.dist is not None]


def _origin(point: EntryPoint) -> str:
    """The distribution that an entry point is of."""
    return "narrows" if point.dist is None else point.dist.name


def load(points: tuple[EntryPoint, ...]) -> Any:
    """Import what a name stands for.

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
