# SPDX-License-Identifier: Apache-2.0
"""What set-up knows of an environment that is there already."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[1] / "scripts"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with nothing but set-up's scripts and an empty environment; its path has a space."""
    root = tmp_path / "a checkout"
    (root / "scripts").mkdir(parents=True)
    for name in ("setup.sh", "made-for.sh", "packages.txt"):
        shutil.copy(SCRIPTS / name, root / "scripts")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", ".venv"], cwd=root, check=True)
    return root


def made_for(root: Path) -> tuple[int, str]:
    done = subprocess.run([root / "scripts" / "made-for.sh"], capture_output=True, text=True)
    return done.returncode, done.stdout


def set_up(root: Path) -> str:
    """What set-up says of the environment, up to where it would install something: here are no sources to build."""
    programs = root / "programs"
    programs.mkdir(exist_ok=True)
    for name in ("apt-get", "sudo"):
        (programs / name).write_text("#!/bin/sh\nexit 1\n")
        (programs / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    done = subprocess.run([root / "scripts" / "setup.sh", "run"], capture_output=True, text=True, env=environment)
    assert done.returncode != 0
    return done.stdout


def test_an_environment_says_where_it_was_made(checkout: Path) -> None:
    assert made_for(checkout) == (0, f"{checkout}/.venv\n")
    shutil.rmtree(checkout / ".venv")
    assert made_for(checkout) == (1, "")


@pytest.mark.parametrize("how", ["moved", "copied"])
def test_one_made_for_another_place_is_made_again(checkout: Path, how: str) -> None:
    """Its programs would not start, or run the code of the checkout that it was copied from."""
    assert "moved or copied" not in set_up(checkout)
    assert (checkout / ".venv" / "pyvenv.cfg").exists()
    other = checkout.parent / "other"
    if how == "moved":
        checkout.rename(other)
    else:
        shutil.copytree(checkout, other, symlinks=True)
    kept = other / ".venv" / "stale"
    kept.touch()
    said = set_up(other)
    assert f"this checkout was moved or copied: .venv was made for {checkout}/.venv, and is made again" in said
    assert not kept.exists()
    assert how == "moved" or (checkout / ".venv" / "pyvenv.cfg").exists(), "the other one is not touched"


def test_metadata_that_older_tools_left_is_removed(checkout: Path) -> None:
    """Python would read it there instead of the environment's, and miss the entry points that are newer."""
    stale = checkout / "narrows.egg-info"
    stale.mkdir()
    (stale / "entry_points.txt").touch()
    assert "removing narrows.egg-info" in set_up(checkout)
    assert not stale.exists()
    assert "egg-info" not in set_up(checkout)
