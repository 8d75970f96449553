# SPDX-License-Identifier: Apache-2.0
"""What set-up knows of an environment that is there already, and what it leaves in one."""

from __future__ import annotations

import os
import pkgutil
import shutil
import subprocess
import sys
from pathlib import Path

import narrows
import narrows_analysis
import narrows_formats
import narrows_studies
import narrows_tofino
import pytest
from narrows.virtual import build

ROOT = Path(__file__).parents[1]
SCRIPTS = ROOT / "scripts"
# What `make`, a compiler and Debian itself bring.
BROUGHT = {"gcc", "ld", "make", "tar"}
# Imports modules, and prints which of those in the environment's packages have no current bytecode.
WITHOUT_BYTECODE = """
import importlib, sys, sysconfig
from importlib.util import MAGIC_NUMBER
from pathlib import Path

for name in sys.argv[1:]:
    importlib.import_module(name)
packages = sysconfig.get_path("purelib")
for module in list(sys.modules.values()):
    source, cached = getattr(module, "__file__", None) or "", getattr(module, "__cached__", None)
    if source.startswith(packages) and source.endswith(".py") and cached:
        kept = Path(cached).read_bytes()[:12] if Path(cached).exists() else b""
        seconds = int(Path(source).stat().st_mtime).to_bytes(4, "little")
        if kept != MAGIC_NUMBER + bytes(4) + seconds:
            print(module.__name__)
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with nothing but set-up's scripts and an empty environment; its path has a space."""
    root = tmp_path / "a checkout"
    (root / "scripts").mkdir(parents=True)
    for name in ("setup.sh", "made-for.sh", "packages.txt"):
        shutil.copy(SCRIPTS / name, root / "scripts")
    shutil.copytree(SCRIPTS.parent / "requirements", root / "requirements")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", ".venv"], cwd=root, check=True)
    return root


def made_for(root: Path) -> tuple[int, str]:
    done = subprocess.run([root / "scripts" / "made-for.sh"], capture_output=True, text=True)
    return done.returncode, done.stdout


def set_up(root: Path, purpose: str = "run", path: str = os.environ["PATH"]) -> str:
    """What set-up says of the environment, up to where it would install something: here are no sources to build."""
    programs = root / "programs"
    programs.mkdir(exist_ok=True)
    for name in ("apt-get", "sudo"):
        (programs / name).write_text("#!/bin/sh\nexit 1\n")
        (programs / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{programs}:{path}"}
    done = subprocess.run([root / "scripts" / "setup.sh", purpose], capture_output=True, text=True, env=environment)
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


def test_a_kernel_is_built_with_packages_that_set_up_installs_for_it(checkout: Path, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for directory in map(Path, os.environ["PATH"].split(":")):
        for program in directory.iterdir() if directory.is_dir() else ():
            if program.name not in ("bison", "flex") and not (tools / program.name).exists():
                (tools / program.name).symlink_to(program)
    assert "installing Debian packages: bison flex\n" in set_up(checkout, "kernel", str(tools))
    assert "bison" not in set_up(checkout, "run", str(tools))
    listed = [line.split() for line in (SCRIPTS / "packages.txt").read_text().splitlines() if line.startswith("kernel")]
    assert {command: package for _, command, package in listed} == {
        tool: package for tool, package in build.TOOLS.items() if tool not in BROUGHT
    }


def test_packages_have_bytecode() -> None:
    """Where PYTHONDONTWRITEBYTECODE is set each command would compile thousands of modules, and keep nothing."""
    packages = (narrows, narrows_analysis, narrows_formats, narrows_studies, narrows_tofino)
    names = [name for each in packages for _, name, _ in pkgutil.walk_packages(each.__path__, f"{each.__name__}.")]
    # Whoever imports a `__main__` runs the program.
    ours = [name for name in names if not name.endswith(".__main__")]
    later = ["matplotlib.pyplot", "scipy.special"]
    tests = ["hypothesis", "jsonschema", "ptf", "pytest", "scapy.all", "xdist.plugin"]
    command = [sys.executable, "-B", "-W", "ignore", "-c", WITHOUT_BYTECODE, *ours, *later, *tests]
    assert subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout == ""
