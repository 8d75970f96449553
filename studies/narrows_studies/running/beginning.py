# SPDX-License-Identifier: Apache-2.0
"""The files that a new study begins with: claims and rules as data, an experiment, and its quick variant."""

from __future__ import annotations

import re
from pathlib import Path

from narrows.errors import InputError
from narrows.paths import REPOSITORY
from narrows_formats import storage

from narrows_studies.names import GROUP, OFFERS

TEMPLATE = Path(__file__).with_name("template")
NAME = re.compile(r"[a-z][a-z0-9_]{0,39}\Z")
PAPERS = Path("studies") / "narrows_studies" / "papers"
PROJECT = Path("pyproject.toml")
ENTRY_POINTS = f'[project.entry-points."{GROUP}"]\n'


def begin(name: str, root: Path = REPOSITORY) -> list[Path]:
    """Write a study's first files into a checkout, and its entry point into pyproject.toml; returns what was written.

    Raises:
        InputError: the name is none, or taken, or there is no checkout. Nothing is written then.
    """
    if NAME.match(name) is None:
        raise InputError(
            f"new {name}: is not a name of a study; allowed: small letters, digits and '_', up to 40 of them, "
            "beginning with a letter, such as cardwell2016"
        )
    if not (root / PAPERS).is_dir():
        raise InputError(f"new {name}: {root} is not a checkout of Narrows; allowed: a clone of its repository")
    new = {
        root / PAPERS / f"{name}.py": "study.txt",
        root / PAPERS / "experiments" / name / "example.yaml": "example.txt",
        root / PAPERS / "experiments" / name / "quick.yaml": "quick.txt",
    }
    if name in OFFERS or any(path.exists() for path in new):
        raise InputError(f"new {name}: this study exists already; allowed: another name")
    (root / PAPERS / "experiments" / name).mkdir()
    for path, template in new.items():
        storage.write_text(path, (TEMPLATE / template).read_text(encoding="utf-8").replace("NAME", name))
    project = (root / PROJECT).read_text(encoding="utf-8")
    added = f'{ENTRY_POINTS}{name} = "narrows_studies.papers.{name}:STUDY"\n'
    storage.write_text(root / PROJECT, project.replace(ENTRY_POINTS, added))
    return [*new, root / PROJECT]
