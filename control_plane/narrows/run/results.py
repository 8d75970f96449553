# SPDX-License-Identifier: Apache-2.0
"""The directory of one run: written under a hidden name, renamed when it is whole."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from narrows_formats import files

from narrows.errors import InputError

if TYPE_CHECKING:
    from narrows.experiment.model import Experiment


def default_directory(name: str) -> Path:
    """``results/<name>-<UTC time>`` in the working directory."""
    return Path("results") / f"{name}-{datetime.now(UTC):%Y%m%d-%H%M%S}"


def check_free(path: Path) -> None:
    """Results never overwrite results.

    Raises:
        InputError: the directory is there already, or cannot be made.
    """
    if path.exists():
        raise InputError(f"--out {path}: exists already; allowed: a directory that does not exist")
    parent = next(parent for parent in path.absolute().parents if parent.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise InputError(f"--out {path}: {parent} cannot be written; allowed: a directory in one that can")


class RunDirectory:
    """Results of one run in the making."""

    def __init__(self, final: Path, run_id: str) -> None:
        """``final`` is where the results will be; until `publish` they are in a hidden directory beside it."""
        self.final = final.absolute()
        self.path = self.final.parent / f".{self.final.name}.{run_id}.unfinished"

    def create(self, experiment: Experiment) -> None:
        """Make the directory and write down the resolved experiment."""
        import yaml  # what measures, somewhere else perhaps, does without it

        make_directory(self.path)
        text = yaml.safe_dump(experiment.as_yaml_data(), sort_keys=False, allow_unicode=True)
        (self.path / files.EXPERIMENT).write_text(text, encoding="utf-8")

    @property
    def telemetry(self) -> Path:
        """Where the collector writes."""
        return self.path / "telemetry"

    @property
    def hosts(self) -> Path:
        """Where the traffic tools' own results go."""
        return self.path / "hosts"

    def write_run(self, data: dict[str, Any]) -> None:
        """Write run.json."""
        (self.path / files.RUN).write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")

    def publish(self) -> Path:
        """Give the directory its name, and, under sudo, its files to the user who asked for them."""
        give_to_user(self.path)
        self.path.rename(self.final)
        return self.final


def make_directory(path: Path) -> None:
    """Make a directory and its parents; under sudo, new ones belong to the user who asked for them."""
    missing = [parent for parent in (path, *path.parents) if not parent.exists()]
    path.mkdir(parents=True)
    for parent in missing:
        _chown(parent)


def give_to_user(path: Path) -> None:
    """Under sudo, make the user who asked for a result its owner."""
    _chown(path)
    for entry in path.rglob("*"):
        _chown(entry)


def _chown(path: Path) -> None:
    user, group = os.environ.get("SUDO_UID"), os.environ.get("SUDO_GID")
    if os.geteuid() == 0 and user is not None and group is not None:
        os.chown(path, int(user), int(group), follow_symlinks=False)
