# SPDX-License-Identifier: Apache-2.0
"""Targets, studies and commands of other distributions: found by their entry points, with nothing of ours changed.

Our own studies, and their command, are added in no other way: `pyproject.toml` is the example.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from distributions import install
from narrows.errors import EXIT_BAD_INPUT, EXIT_OK
from narrows_formats.plugins import LAB_TARGETS
from narrows_formats.programs import COLLECTOR, SOFTSWITCH

EXPERIMENT = "name: short\nbottleneck: {rate: 10Mbit, buffer: 1bdp, rtt: 20ms}\nflows: [{cca: cubic, duration: 1s}]\n"
# A switch of its own name, which is ours otherwise.
TARGET = """
from dataclasses import replace
from narrows.targets.soft.target import SoftTarget

class Other(SoftTarget):
    @property
    def profile(self):
        return replace(super().profile, name="other")
"""
# Machines of an inventory, likewise, with what only it looks at and writes.
LAB_TARGET = """
from narrows.hosts.diagnosis import Diagnosis
from narrows.targets.lab import Planner
from narrows.targets.soft.lab import LabSoftTarget

class Other(LabSoftTarget):
    @classmethod
    def examine(cls, inventory):
        return [Diagnosis("other", f"looked at {inventory}")]

    @classmethod
    def planner(cls, inventory):
        writes, _ = super().planner(inventory)
        return Planner(lambda experiment: writes(experiment)[:2], "switch of others")
"""
# Narrows where nothing but its core is installed.
CORE_ALONE = """
import sys
from narrows_formats import plugins

sys.modules["narrows_studies"] = sys.modules["narrows_tofino"] = None
plugins._installed = dict
from narrows.cli import main

main()
"""
STUDY = """
from narrows_studies.model import Study, StudyFigure

STUDY = Study("tiny", "A", "B", "C", (StudyFigure(id="1", experiment="one", title="title"),))
"""


def narrows(site: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A command where what is in ``site`` is installed too."""
    return subprocess.run(
        [Path(sys.executable).with_name("narrows"), *words],
        cwd=site, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(site)},
    )  # fmt: skip


def refusal(site: Path, *words: str) -> str:
    """What a command says that is refused."""
    result = narrows(site, *words)
    assert result.returncode == EXIT_BAD_INPUT, result.stderr
    return result.stderr


@pytest.fixture
def experiment(tmp_path: Path) -> str:
    """A file, in the directory that distributions are installed in."""
    path = tmp_path / "experiment.yaml"
    path.write_text(EXPERIMENT)
    return str(path)


@pytest.mark.long
@pytest.mark.needs("guest-kernel", SOFTSWITCH, COLLECTOR, "ip")
def test_an_experiment_runs_on_anothers_target(tmp_path: Path, experiment: str) -> None:
    install(tmp_path, "others", TARGET, "[narrows.targets]\nother = others:Other\n")
    result = narrows(tmp_path, "run", experiment, "--virtual", "--target", "other", "--out", str(tmp_path / "out"))
    assert result.returncode == EXIT_OK, result.stderr
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert record["status"] == "complete" and record["target_profile"]["name"] == "other"
    assert "--target othr: no such target, did you mean 'other'?" in refusal(
        tmp_path, "run", experiment, "--target", "othr"
    )


@pytest.mark.long
def test_a_target_that_cannot_be_loaded_is_named_with_whose_it_is(tmp_path: Path, experiment: str) -> None:
    install(tmp_path, "others", "import no_such_module\n", "[narrows.targets]\nother = others:Other\n")
    said = refusal(tmp_path, "check", experiment, "--target", "other")
    assert "--target other: others cannot load others:Other: ModuleNotFoundError" in said
    # The rest works as if it were not there.
    assert narrows(tmp_path, "check", experiment).returncode == EXIT_OK


def test_two_of_a_name_are_refused(tmp_path: Path, experiment: str) -> None:
    install(tmp_path, "others", TARGET, "[narrows.targets]\nsoft = others:Other\n")
    said = refusal(tmp_path, "check", experiment)
    assert (
        "--target soft: more than one of narrows.targets has that name: narrows, others; allowed: one of them" in said
    )


def test_a_target_of_a_lab_needs_an_inventory(tmp_path: Path, experiment: str) -> None:
    install(tmp_path, "others", TARGET, "[narrows.lab_targets]\nother = others:Other\n")
    assert "--inventory: is needed for --target other" in refusal(tmp_path, "run", experiment, "--target", "other")


def test_what_is_not_for_a_lab_is_refused_there(tmp_path: Path, experiment: str) -> None:
    install(tmp_path, "others", TARGET, "[narrows.lab_targets]\nother = others:Other\n")
    said = refusal(tmp_path, "plan", experiment, "--target", "other")
    assert "--target other: others:Other cannot be between the machines of an inventory; allowed: a subclass of" in said
    assert "narrows.targets.lab.LabTarget" in said


def test_commands_of_a_lab_reach_anothers_target(tmp_path: Path, experiment: str) -> None:
    install(tmp_path, "others", LAB_TARGET, "[narrows.lab_targets]\nother = others:Other\n")
    looked = narrows(tmp_path, "doctor", "--target", "other", "--inventory", "lab.yaml")
    assert (looked.returncode, looked.stdout) == (EXIT_OK, "ok other: looked at lab.yaml\n"), looked.stderr
    planned = narrows(tmp_path, "plan", experiment, "--target", "other")
    assert "soft-inventory.example.yaml" in planned.stdout and "2 writes to a switch of others" in planned.stdout


def test_tofino_is_added_as_anothers_target_is(tmp_path: Path, experiment: str) -> None:
    """The core has nothing of it but its entry point: without that there is no such target, and the rest works."""
    (point,) = entry_points(group=LAB_TARGETS, name="tofino")
    assert point.value == "narrows_tofino.target:TofinoTarget"

    def core(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", CORE_ALONE, *words]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    refused = core("plan", experiment)
    assert refused.returncode == EXIT_BAD_INPUT
    assert "--target tofino: cannot be planned for; allowed: soft" in refused.stderr
    planned = core("plan", experiment, "--target", "soft")
    assert planned.returncode == EXIT_OK and "writes to a softswitch" in planned.stdout, planned.stderr


@pytest.mark.long
def test_a_study_that_cannot_be_loaded_is_named_with_whose_it_is(tmp_path: Path) -> None:
    install(tmp_path, "others", "", "[narrows.studies]\ntiny = others:STUDY\n")
    assert "study tiny: others cannot load others:STUDY: AttributeError" in refusal(tmp_path, "study", "tiny")
    assert "tniy: no such study, did you mean 'tiny'?" in refusal(tmp_path, "study", "tniy")


@pytest.mark.long
def test_experiments_of_anothers_study_are_beside_its_module(tmp_path: Path) -> None:
    """It is found, and so is its experiment, which is not valid here."""
    install(tmp_path, "others", STUDY, "[narrows.studies]\ntiny = others:STUDY\n")
    file = tmp_path / "experiments" / "tiny" / "one.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(EXPERIMENT.replace("10Mbit", "10Mbot"))
    assert f"{file}:2: bottleneck.rate" in refusal(tmp_path, "study", "tiny", "--real-time")


def test_two_studies_of_a_name_are_refused(tmp_path: Path) -> None:
    """Ours has no right of its own to the name."""
    install(tmp_path, "others", STUDY, "[narrows.studies]\nware2019 = others:STUDY\n")
    said = refusal(tmp_path, "study", "ware2019")
    assert "study ware2019: more than one of narrows.studies has that name: " in said
    assert {"narrows", "others"} <= set(re.split(r"[:,;] ", said))


COMMAND = """
import typer

app = typer.Typer(add_completion=False)

@app.command()
def hello(name: str):
    "Greet someone."
    print("hello", name)
"""


def test_a_command_of_another_distribution(tmp_path: Path) -> None:
    """It is one of ours for users: in the help, in what is meant by a typing error, and when it is called."""
    install(tmp_path, "others", COMMAND, "[narrows.commands]\nhello = others:app\n")
    assert narrows(tmp_path, "hello", "world").stdout == "hello world\n"
    assert re.search(r"^  hello +Greet someone\.$", narrows(tmp_path, "--help").stdout, re.MULTILINE)
    assert "Did you mean 'hello'" in refusal(tmp_path, "helo")


def test_a_command_that_cannot_be_used_leaves_the_others(tmp_path: Path) -> None:
    """It cannot be loaded, or is called as one of ours; the help lists all the same."""
    entry_points = "[narrows.commands]\nbroken = others:app\nschema = others:app\n"
    install(tmp_path, "others", "import no_such_module\n", entry_points)
    assert narrows(tmp_path, "--version").returncode == EXIT_OK
    help_ = narrows(tmp_path, "--help")
    assert help_.returncode == EXIT_OK and re.search("^  broken +Cannot be used: ", help_.stdout, re.MULTILINE)
    said = refusal(tmp_path, "broken", "--option", "word")
    assert "narrows: command broken: others cannot load others:app: ModuleNotFoundError" in said
    assert "command schema: more than one of narrows.commands has that name" in refusal(tmp_path, "schema")
