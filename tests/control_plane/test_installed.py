# SPDX-License-Identifier: Apache-2.0
"""The package as users install it: built into a wheel, in an environment of its own, away from the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest
from narrows_formats.programs import BINARIES_VARIABLE, COLLECTOR, SOFTSWITCH, find_binary

REPOSITORY = Path(__file__).resolve().parents[2]
EXPERIMENT = """
name: installed
bottleneck: {rate: 10Mbit, buffer: 1bdp, rtt: 10ms}
flows: [{cca: cubic, duration: 1s}]
"""
# Every file that a run, a study, a page or a testbed needs beside the code.
FILES = """
from narrows.cli import new
from narrows.paths import compiled_program
from narrows_studies.running.catalogue import find_study, study_points
from narrows.hosts.lab import machines
from narrows.live import server
from narrows.virtual import build
from narrows_studies.names import OFFERS
from narrows_formats.columns import telemetry_columns
assert all(path.is_file() for path in (*compiled_program("v1model"), machines.HOST_SCRIPT, machines.REMOTE_SCRIPT))
assert all(study_points(find_study(name), quick=True) for name in OFFERS)
assert new.TEMPLATE.is_file() and build.FRAGMENT.is_file() and telemetry_columns("reports")
server.LivePage(0)
print(server.__file__)
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel; what it depends on is taken from this one, to be quick."""
    path = tmp_path_factory.mktemp("installed")
    wheels = path / "wheels"
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    # Nothing is left in the checkout, and nothing that an earlier build left there is taken.
    (path / "build.cfg").write_text(f"[build]\nbuild_base = {path / 'build'}\n[egg_info]\negg_base = {path}\n")
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(wheels), str(REPOSITORY)]
    subprocess.run(build, check=True, cwd=path, env={**os.environ, "DIST_EXTRA_CONFIG": str(path / "build.cfg")})
    (wheel,) = wheels.iterdir()
    venv.create(path / "venv")
    site = Path(sysconfig.get_path("purelib", "venv", {"base": str(path / "venv")}))
    install = [*pip, "--python", str(path / "venv" / "bin" / "python"), "install", "--no-deps", str(wheel)]
    subprocess.run(install, check=True, cwd=path)
    # Not `addsitedir`: the checkout's own link in there must not be followed.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return path


@pytest.mark.long
def test_the_wheel_holds_our_packages_and_nothing_else(environment: Path) -> None:
    (wheel,) = (environment / "wheels").iterdir()
    names = zipfile.ZipFile(wheel).namelist()
    top = {name.partition("/")[0] for name in names if ".dist-info/" not in name}
    assert top == {"narrows", "narrows_analysis", "narrows_formats", "narrows_studies", "narrows_tofino"}


def test_every_file_is_there(environment: Path) -> None:
    python = environment / "venv" / "bin" / "python"
    found = subprocess.run([python, "-c", FILES], capture_output=True, text=True, cwd=environment)
    assert found.returncode == 0, found.stderr
    assert Path(found.stdout.strip()).is_relative_to(environment), "the checkout's package was imported"


def run(environment: Path, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """The installed `narrows run`, with the programs that this checkout has built."""
    (environment / "experiment.yaml").write_text(EXPERIMENT)
    program = find_binary(SOFTSWITCH)
    assert program is not None
    command = [str(environment / "venv" / "bin" / "narrows"), "run", "experiment.yaml", *options]
    host_metadata = {**os.environ, BINARIES_VARIABLE: str(program.parent), **variables}
    return subprocess.run(command, capture_output=True, text=True, cwd=environment, env=host_metadata)


@pytest.mark.long
@pytest.mark.needs("root", SOFTSWITCH, COLLECTOR)
def test_an_installed_narrows_runs_an_experiment(environment: Path) -> None:
    done = run(environment, "--out", "out")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (environment / "out" / "report.html").is_file()


@pytest.mark.long
@pytest.mark.needs("guest-kernel", SOFTSWITCH, COLLECTOR)
def test_an_installed_narrows_runs_one_in_virtual_time(environment: Path) -> None:
    """The guest, too, has the installed package and no checkout."""
    done = run(environment, "--virtual", "--out", "virtual")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (environment / "virtual" / "report.html").is_file()


@pytest.mark.needs(SOFTSWITCH)
def test_an_installed_narrows_says_how_to_get_a_kernel(environment: Path) -> None:
    done = run(environment, "--virtual", XDG_CACHE_HOME=str(environment / "empty"))
    assert (done.returncode, "fix: narrows kernel build" in done.stderr) == (2, True), done.stderr
