# SPDX-License-Identifier: Apache-2.0
"""README and docs: commands that need root, or a kernel for guests, are run as they are written, for a second each.

Where hardware is needed: a run by its dry run, anything else until the first machine does not answer. What takes hours
goes as far as to know every run that it would make.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from documented import NARROWS, PAGES, QUICK, ROOT, arguments
from narrows.batch.batch import Batch, Ended
from narrows.batch.task import Task
from narrows.cli import app
from narrows.virtual import kernels
from narrows_formats.programs import COLLECTOR, SOFTSWITCH
from narrows_studies.running.senders import this_machine
from typer.testing import CliRunner

PROGRAM = str(Path(sys.executable).with_name("narrows"))
WORDS = [words for words in map(arguments, NARROWS) if not " ".join(words).startswith(QUICK)]
TAKE_HOURS = [words for words in WORDS if words[0] == "study"]
# The sources of a kernel: make's dry run is in test_documentation.py, and continuous integration builds one.
BUILDS = [words for words in WORDS if words[:2] == ["kernel", "build"]]
HARDWARE = [words for words in WORDS if "--inventory" in words]
# Of a terminal, of the world outside, of minutes, without end, or of what was made before: their own tests run them.
ELSEWHERE = [
    words
    for words in WORDS
    if words[0] in ("shell", "benchmark", "collect", "test", "tune")
    or "--add" in words
    or words[:2] in (["kernel", "remove"], ["suite", "run"], ["suite", "compare"])
]
# README has it in a sentence.
README_RUN = ["run", "experiments/demo.yaml", "--virtual", "--out", "results/demo"]
VIRTUAL = [README_RUN, *(words for words in WORDS if "--virtual" in words and words not in ELSEWHERE)]
OTHERS = [words for words in WORDS if words not in [*TAKE_HOURS, *BUILDS, *HARDWARE, *VIRTUAL, *ELSEWHERE]]
EXPECTING = [
    text
    for page in PAGES
    for text in re.findall(r"^```yaml\n(name: .*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    if "\nexpect:" in text
]
root = pytest.mark.needs("root", SOFTSWITCH, COLLECTOR)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with experiments that take a second, and kernels of the names that the documentation uses."""
    (tmp_path / "experiments").mkdir()
    shutil.copytree(ROOT / "experiments" / "traces", tmp_path / "experiments" / "traces")
    shutil.copytree(ROOT / "experiments" / "own-program", tmp_path / "experiments" / "own-program")
    for source in [*(ROOT / "experiments").glob("*.yaml"), *(ROOT / "experiments" / "own-program").glob("*.yaml")]:
        text = re.sub(r"(duration: *)\d+s", r"\g<1>1s", source.read_text())
        (tmp_path / source.relative_to(ROOT)).write_text(text)
    for name in ("experiment", "first", "shallow-buffers", "bbrv3", "dualpi2", "my_cca"):
        shutil.copy(tmp_path / "experiments" / "demo.yaml", tmp_path / f"{name}.yaml")
    shutil.copy(ROOT / "deploy" / "inventory.example.yaml", tmp_path / "lab.yaml")
    shutil.copy(ROOT / "deploy" / "soft-inventory.example.yaml", tmp_path / "box.yaml")
    for kernel in kernels.installed()[:1]:
        for name in ("default", "bbr3", "prague", "my_cca"):
            shutil.copytree(kernel.path.parent, tmp_path / "cache" / "narrows" / "kernels" / name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def on_their_targets(commands: list[list[str]]) -> list[pytest.ParameterSet]:
    """Commands as parameters of a test: those on BMv2 ask for BMv2."""
    return [
        pytest.param(words, id=" ".join(words), marks=[pytest.mark.needs("bmv2")] if "bmv2" in words else [])
        for words in commands
    ]


def run(words: list[str], *before: str) -> subprocess.CompletedProcess[str]:
    """A command, by way of the words ``before`` it."""
    command = [*before, PROGRAM, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, env={**os.environ, "DISPLAY": ""})
    assert "Traceback" not in done.stderr, done.stderr
    return done


def shown_transcript() -> str:
    """What README says that the terminal says."""
    found = re.search(r"<!-- shown: transcript -->\n```text\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert found is not None
    return found[1]


def shape(said: str) -> list[str]:
    """The lines of a run's results without numbers."""
    lines = said.replace(f"{Path.cwd()}/", "").splitlines()
    return [re.sub(r"[━─]+|[\d.]+|[ \t]+", " ", line).strip() for line in lines]


def test_every_command_is_somewhere() -> None:
    assert min(map(len, (TAKE_HOURS, BUILDS, HARDWARE, VIRTUAL, OTHERS))) > 0
    assert {words[0] for words in OTHERS} == {"run", "doctor", "clean", "suite"}


@pytest.mark.long
@root
@pytest.mark.parametrize("words", on_their_targets(OTHERS))
def test_a_command_for_root(words: list[str], project: Path) -> None:
    done = run(words)
    assert done.returncode == 0 or words[0] == "doctor", done.stdout + done.stderr
    if words[0] == "run":
        assert list((project / "results").glob("*/report.html"))


@pytest.mark.long
@pytest.mark.needs("guest-kernel", SOFTSWITCH, COLLECTOR)
@pytest.mark.parametrize("words", on_their_targets(VIRTUAL))
def test_a_run_in_virtual_time(words: list[str], project: Path) -> None:
    if words == README_RUN:
        # At its length: of a run of a second, the start of a later flow is so large a part that a column tells it.
        shutil.copy(ROOT / "experiments" / "demo.yaml", project / "experiments")
    done = run(words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert list((project / "results").glob("*/report.html"))
    if words == README_RUN:
        assert shape((done.stderr + done.stdout).partition("demo: analysing\n")[2]) == shape(shown_transcript())


@pytest.mark.long
@pytest.mark.needs("guest-kernel", SOFTSWITCH, COLLECTOR)
@pytest.mark.parametrize("text", EXPECTING, ids=[text.split()[1] for text in EXPECTING])
def test_an_example_shows_what_it_expects(text: str, tmp_path: Path) -> None:
    (tmp_path / "example.yaml").write_text(text)
    done = run(["test", str(tmp_path / "example.yaml"), "--virtual", "--out", str(tmp_path / "out"), "--quiet"])
    assert done.returncode == 0, done.stdout + done.stderr


@root
@pytest.mark.parametrize("words", HARDWARE, ids=" ".join)
def test_a_command_for_a_testbed(words: list[str], project: Path) -> None:
    if words[0] == "run":
        out = words.index("--out") if "--out" in words else len(words)
        done = run(["plan", *words[1:out], *words[out + 2 :]])
        assert done.returncode == 0, done.stdout + done.stderr
        return
    done = run(words, "unshare", "--net")
    assert done.returncode in (1, 2)
    # By its name: one of the inventory's.
    assert re.search(r"tofino|sender|server|host|box", done.stdout + done.stderr), done.stdout + done.stderr


@pytest.mark.long
@root
@pytest.mark.parametrize("words", TAKE_HOURS, ids=" ".join)
def test_a_study(words: list[str], project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[Task] = []

    def plan(_: Batch, tasks: list[Task], *__: object) -> Generator[Ended, None, None]:
        planned.extend(tasks)
        yield from ()

    # This machine in place of a guest, whose cards cannot vary.
    monkeypatch.setattr("narrows_studies.running.senders.guests", lambda _: [this_machine()])
    monkeypatch.setattr("narrows_studies.running.nuisances.CARDS", ())
    monkeypatch.setattr("narrows_studies.command.runs_at_once", lambda: 8)
    monkeypatch.setattr(Batch, "run", plan)
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert re.search(rf"{words[1]}: \d+ of \d+ points to run, about ", done.output)
    assert planned
