# SPDX-License-Identifier: Apache-2.0
"""Targets by the name that ``--target`` takes; a target's modules are imported when it is asked for.

Other distributions add theirs by entry points: see `narrows_formats.plugins`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING, cast

from narrows_formats.plugins import LAB_TARGETS, TARGETS, PluginError, load, offers

from narrows.errors import InputError

if TYPE_CHECKING:
    from narrows.experiment.model import Experiment
    from narrows.targets.base import Target
    from narrows.targets.lab import LabTarget

# Those that may be on this machine, or in a guest.
_HERE = offers(
    TARGETS, {"soft": "narrows.targets.soft.target:SoftTarget", "bmv2": "narrows.targets.bmv2.target:Bmv2Target"}
)
# Those that may be between the machines of an inventory.
_IN_A_LAB = offers(LAB_TARGETS, {"soft": "narrows.targets.soft.lab:LabSoftTarget"})
LOCAL = tuple(_HERE)
IN_A_LAB = tuple(_IN_A_LAB)
NAMES = tuple(dict.fromkeys((*LOCAL, *IN_A_LAB)))
# What commands that are about a lab's switch take where they are asked for no other.
DEFAULT_IN_A_LAB = "tofino"


def check_options(name: str, bmv2_path: Path | None, inventory: Path | None) -> None:
    """What can be known to be wrong with them before any file is read.

    Raises:
        InputError: there is no such target, it takes no such option, or it lacks one.
    """
    if name not in NAMES:
        from narrows_formats.suggestion import suggestion

        raise InputError(f"--target {name}: no such target{suggestion(name, NAMES)}")
    if bmv2_path is not None and name != "bmv2":
        raise InputError(f"--bmv2-path {bmv2_path}: --target {name} does not run BMv2; allowed: with --target bmv2")
    if inventory is not None and name not in IN_A_LAB:
        allowed = " or ".join(IN_A_LAB)
        raise InputError(f"--inventory {inventory}: --target {name} has no testbed; allowed: with --target {allowed}")
    if inventory is None and name not in LOCAL:
        raise InputError(f"--inventory: is needed for --target {name}; allowed: an inventory file")


def target_class(name: str) -> type[Target]:
    """The class of one of `LOCAL`.

    Raises:
        InputError: it is another distribution's and cannot be loaded, or is not the only one of that name.
    """
    return cast("type[Target]", _loaded(_HERE[name]))


def lab_target(name: str) -> type[LabTarget]:
    """The class of one of `IN_A_LAB`.

    Raises:
        InputError: as `target_class`, or it is not a `LabTarget`.
    """
    from narrows.targets.lab import LabTarget

    found = _loaded(_IN_A_LAB[name])
    if not (isinstance(found, type) and issubclass(found, LabTarget)):
        raise InputError(
            f"--target {name}: {_IN_A_LAB[name][0].value} cannot be between the machines of an inventory; allowed: a "
            f"subclass of {LabTarget.__module__}.{LabTarget.__name__}"
        )
    return found


def _loaded(points: tuple[EntryPoint, ...]) -> object:
    try:
        return load(points)
    except PluginError as error:
        raise InputError(f"--target {error}") from error


def target_factory(
    name: str,
    bmv2_path: Path | None = None,
    inventory: Path | None = None,
    results: Path = Path("results"),
    virtual: bool = False,
) -> Callable[[Experiment], Target]:
    """What makes targets of a name, one for each run.

    Args:
        name: one of `NAMES`.
        bmv2_path: simple_switch_grpc or the directory it is in, for bmv2 only.
        inventory: the file that describes the testbed, for targets of `IN_A_LAB`.
        results: where the results go; a target that logs its changes to a lab's switch does so beside it.
        virtual: whether they are for guests, in virtual time; of `LOCAL` only.

    Raises:
        InputError: as `check_options`, or the inventory is not valid.
    """
    from narrows.targets.base import TargetOptions

    check_options(name, bmv2_path, inventory)
    chosen = target_class(name) if inventory is None else lab_target(name)
    return chosen.factory(TargetOptions(results, bmv2_path, inventory, virtual))
