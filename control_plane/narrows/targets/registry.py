# SPDX-License-Identifier: Apache-2.0
"""Targets by the name that ``--target`` takes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

from narrows.errors import InputError
from narrows.experiment.model import Experiment
from narrows.targets.base import Target
from narrows.targets.bmv2.target import Bmv2Target
from narrows.targets.soft.target import SoftTarget
from narrows.targets.tofino.target import TofinoTarget
from narrows.targets.tofino.testbed.inventory import load_inventory
from narrows.targets.tofino.testbed.preflight import Preflight

# Targets that are all on this machine, made for one run with the seed of its random numbers.
TARGETS: dict[str, Callable[[int], Target]] = {"soft": SoftTarget, "bmv2": Bmv2Target}
# A switch and machines of a lab, named in an inventory.
TOFINO = "tofino"
NAMES = (*TARGETS, TOFINO)


def check_options(name: str, bmv2_path: Path | None, inventory: Path | None) -> None:
    """What can be known to be wrong with them before any file is read.

    Raises:
        InputError: there is no such target, it takes no such option, or it lacks one.
    """
    if name not in NAMES:
        raise InputError(f"--target {name}: no such target; allowed: {', '.join(NAMES)}")
    if bmv2_path is not None and name != "bmv2":
        raise InputError(f"--bmv2-path {bmv2_path}: --target {name} does not run BMv2; allowed: with --target bmv2")
    if inventory is not None and name != TOFINO:
        raise InputError(f"--inventory {inventory}: --target {name} has no testbed; allowed: with --target {TOFINO}")
    if inventory is None and name == TOFINO:
        raise InputError(f"--inventory: is needed for --target {TOFINO}; allowed: an inventory file")


def target_factory(
    name: str, bmv2_path: Path | None = None, inventory: Path | None = None, results: Path = Path("results")
) -> Callable[[Experiment], Target]:
    """What makes targets of a name, one for each run.

    Args:
        name: one of `NAMES`.
        bmv2_path: simple_switch_grpc or the directory it is in, for bmv2 only.
        inventory: the file that describes the testbed, for tofino only.
        results: where the results go; the log of what is changed on a Tofino switch is beside it.

    Raises:
        InputError: as `check_options`, or the inventory is not valid.
    """
    check_options(name, bmv2_path, inventory)
    if inventory is not None:
        testbed = load_inventory(inventory)
        audit = results.parent / f"{results.absolute().name}.audit.jsonl"
        preflight = Preflight(testbed)
        return lambda experiment: TofinoTarget(testbed, audit, preflight=preflight)
    make = TARGETS[name] if bmv2_path is None else functools.partial(Bmv2Target, path=bmv2_path)
    return lambda experiment: make(experiment.seed)
