# SPDX-License-Identifier: Apache-2.0
"""Targets and studies of other distributions: found by their entry points, with nothing of ours changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from distributions import install
from narrows.errors import EXIT_BAD_INPUT, EXIT_OK
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
STUDY = """
from narrows_analysis.studies.model import Study, StudyFigure

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
