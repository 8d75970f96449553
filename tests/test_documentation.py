# SPDX-License-Identifier: Apache-2.0
"""README and docs: every command that they show is one, the pages made from the program are up to date, the notebook
runs, and no link of the site is dead."""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import narrows_analysis
import pandas as pd
import pytest
import synthetic
import typer
from documented import COMMANDS, MENTIONED, NARROWS, PAGES, QUICK, ROOT, arguments
from narrows.cli import app
from narrows_analysis import analyze_run, write_report
from narrows_formats.columns import SOCKETS
from test_accessibility import READERS, faults
from typer.testing import CliRunner


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An analysed run with its report."""
    run = tmp_path_factory.mktemp("documentation") / "demo"
    synthetic.write_run(run, synthetic.two_flows(2.0))
    readings = {column.name: [1.0, 2.0] for column in SOCKETS} | {"time_s": [0.1, 0.2], "flow": [0, 1]}
    pd.DataFrame(readings).to_parquet(run / "hosts" / "sockets.parquet")
    analyze_run(run)
    write_report(run)
    return run


@pytest.fixture
def project(tmp_path: Path, results: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout after the README's first command: experiments, inventories copied, and results of runs."""
    (tmp_path / "experiments").symlink_to(ROOT / "experiments")
    shutil.copy(ROOT / "deploy" / "inventory.example.yaml", tmp_path / "lab.yaml")
    shutil.copy(ROOT / "deploy" / "soft-inventory.example.yaml", tmp_path / "box.yaml")
    for name in ("experiment", "first", "shallow-buffers", "bbrv3"):
        shutil.copy(ROOT / "experiments" / "demo.yaml", tmp_path / f"{name}.yaml")
    for name in ("demo", "tofino", "bbrv1", "bbrv3", "shallow", "shallow-virtual"):
        shutil.copytree(results, tmp_path / "results" / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_api_reference_has_every_public_name() -> None:
    page = (ROOT / "docs" / "api.md").read_text()
    # Named as ones that others give, or by a module whose members are all there.
    elsewhere = {"AnalysisError", "RunData", "SourceSettings", "Summary", "read_run", "write_sweep_report"}
    named = set(re.findall(r"^::: narrows_analysis\.(\w+)$", page, re.MULTILINE))
    assert set(narrows_analysis.__all__) - elsewhere <= named


def test_there_are_commands() -> None:
    assert len(NARROWS) > 20
    assert {"make demo", "make test", "make kernel"} <= set(COMMANDS)


@pytest.mark.parametrize("command", NARROWS)
def test_a_command_of_the_documentation(command: str, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its words are taken by the command line: the command, every option, every value. Those of QUICK are run."""
    words = arguments(command)
    if " ".join(words).startswith(QUICK):
        for written in re.findall(r"^new (\S+)", " ".join(words)):
            (project / written).unlink(missing_ok=True)
        result = CliRunner().invoke(app, words, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return
    group: Any = typer.main.get_command(app)
    context = group.make_context("narrows", list(words), resilient_parsing=False)
    rest = [*context._protected_args, *context.args]
    while hasattr(group, "commands"):
        name, *rest = rest
        assert name in group.commands, f"{command}: there is no command {name}; {sorted(group.commands)}"
        group = group.get_command(context, name)
        if hasattr(group, "commands"):
            continue
        group.make_context(name, rest)


def test_commands_named_in_the_text_and_their_options() -> None:
    """Those with placeholders, too: there is such a command, and it has each option."""
    wrong = []
    for mention in MENTIONED:
        group: Any = typer.main.get_command(app)
        words = [word.strip("[],;:.") for word in mention.partition("narrows ")[2].split()]
        while hasattr(group, "commands") and words and words[0] in group.commands:
            group = group.get_command(None, words.pop(0))
        known = {option for parameter in group.params for option in [*parameter.opts, *parameter.secondary_opts]}
        known |= {"--help", "-h"}
        options = [word.partition("=")[0] for word in itertools.takewhile("--".__ne__, words) if word.startswith("-")]
        wrong += [f"{mention}: {option}" for option in options if option not in known]
        if hasattr(group, "commands") and not options and words[:1] not in (["ALL"], ["COMMAND"]):
            wrong.append(mention)
    assert len(MENTIONED) > 50 and wrong == []


def blocks_of_python(page: str) -> list[str]:
    """They share their names."""
    return re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", ["README.md", "docs/tutorials/notebook.md", "docs/cookbook.md", "docs/metrics.md"])
def test_python_in_the_documentation_runs(page: str, project: Path) -> None:
    names: dict[str, Any] = {}
    for block in blocks_of_python(page):
        exec(compile(block, page, "exec"), names)
    assert names["run"].path == Path("results/demo")


@pytest.mark.long
@pytest.mark.needs("guest-kernel", "narrows-softswitch", "narrows-collector", "ip")
def test_python_that_drives_runs(project: Path) -> None:
    """Up to the step interface, of which the notebook has what is left out there."""
    names: dict[str, Any] = {}
    *blocks, step_interface = blocks_of_python("docs/python-api.md")
    assert "class RateControl" in step_interface
    for block in blocks:
        exec(compile(block.replace('"10s"', '"4s"'), "docs/python-api.md", "exec"), names)
    assert sorted(flow["name"] for flow in names["bed"].result.summary["flows"]) == [
        "cubic-1", "late-1", "late-2", "late-3",
    ]  # fmt: skip


@pytest.mark.parametrize("command", [command for command in COMMANDS if command.startswith("make ")])
def test_a_target_of_make(command: str) -> None:
    words = [word for word in shlex.split(command) if word != "sudo"]
    subprocess.run([*words, "--dry-run"], cwd=ROOT, check=True, capture_output=True, timeout=60)


def test_scripts_are_programs() -> None:
    named = {script for page in PAGES for script in re.findall(r"`(scripts/[a-z-]+\.sh)", page.read_text())}
    assert named and all(os.access(ROOT / script, os.X_OK) for script in named)


def test_readme_and_help_name_the_same_commands() -> None:
    readme = (ROOT / "README.md").read_text()
    listed = set(re.findall(r"`narrows ([a-z]+)", readme))
    group: Any = typer.main.get_command(app)
    assert listed == set(group.commands)


def test_make_help_lists_every_target_that_the_documentation_names() -> None:
    shown = subprocess.run(["make", "help"], cwd=ROOT, check=True, capture_output=True, text=True, timeout=60).stdout
    targets = {line.split()[0] for line in shown.splitlines()}
    named = {match for page in PAGES for match in re.findall(r"`make ([a-z0-9-]+)", page.read_text())}
    assert named <= targets


def test_pages_made_from_the_program_are_up_to_date() -> None:
    check = subprocess.run(
        [sys.executable, ROOT / "scripts" / "reference.py", "--check"], capture_output=True, text=True, timeout=120
    )
    assert check.returncode == 0, check.stdout


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The documentation as a site; a dead link is an error."""
    place = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(place)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment, timeout=300)
    assert built.returncode == 0, built.stdout + built.stderr
    return place


@pytest.mark.long
def test_the_site_has_no_dead_link(site: Path) -> None:
    assert (site / "tutorials" / "shallow-buffers" / "index.html").exists()


@pytest.mark.long
@pytest.mark.needs("chromium")
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("page", ["api", "virtual-time"])
def test_a_page_of_the_site_has_no_fault(browser: Any, site: Path, page: str, reader: str) -> None:
    """Of code and signatures, of tables wider than a phone, whose corner may be empty."""
    found = faults(browser, (site / page / "index.html").as_uri(), reader)
    assert [fault for fault in found if not fault.startswith("minor: empty-table-header")] == []


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "tutorials").glob("*.md")), ids=lambda page: page.stem)
def test_a_tutorial_has_a_picture(page: Path) -> None:
    pictures = re.findall(r"^!\[.{20,}\]\((\S+)\)$", page.read_text(), re.MULTILINE)
    assert pictures
    assert all((page.parent / picture).stat().st_size < 100_000 for picture in pictures)


def test_links_of_the_pages_outside_the_site() -> None:
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (ROOT / target).exists(), f"{page.name}: {target}"


def notebooks() -> Any:
    """scripts/notebook.py"""
    spec = importlib.util.spec_from_file_location("notebook", ROOT / "scripts" / "notebook.py")
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


def execute(script: Any, path: Path, names: dict[str, Any]) -> list[Any]:
    """What the cells of a notebook show; each has it stored, in the same kinds."""
    shown = []
    for cell, value in script.execute(json.loads(path.read_text())["cells"], names):
        kinds = [one["data"].keys() for one in cell["outputs"]]
        assert kinds == ([] if value is None else [script.output(value, 1)["data"].keys()])
        shown += [] if value is None else [value]
    return shown


@pytest.mark.needs("stress", "guest-kernel", "narrows-softswitch", "narrows-collector", "ip")
def test_the_notebook_that_drives_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    script = notebooks()
    names: dict[str, Any] = {}
    execute(script, script.PLACE / "control.ipynb", names)
    rates = names["controlled"]["rate_bps"]
    # Slow start leaves the queue empty at first: one half after the other.
    assert rates[:3].tolist() == [50_000_000, 25_000_000, 12_500_000]
    # The guest comes when half of the queue waits, and goes a second later: its packets are those of that time only.
    requested, guest = names["requested"], names["shares"]["guest-1"]
    assert 0 < requested["stop"] - requested["start"] - 1_000_000_000 < 200_000_000
    sending = (guest.index > requested["start"] / 1e9 + 0.2) & (guest.index < requested["stop"] / 1e9)
    assert (guest[sending] > 0).all() and guest[guest.index < requested["start"] / 1e9].sum() == 0
    assert [(one["what"], one["at_ns"], one["asked_by"]) for one in names["events"]] == [
        ("guest starts", requested["start"], "driver"), ("guest stops", requested["stop"], "driver"),
    ]  # fmt: skip
    assert rates.iloc[-1] > rates.min() and names["episode"]["time_s"].diff().dropna().round(6).eq(0.02).all()


def test_the_notebook_runs(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is, with results above it."""
    script = notebooks()
    (project / "docs" / "tutorials").mkdir(parents=True)
    monkeypatch.chdir(project / "docs" / "tutorials")
    monkeypatch.delenv("NARROWS_RUN", raising=False)
    names: dict[str, Any] = {}
    shown = execute(script, script.NOTEBOOK, names)
    assert names["run"].path == project / "results" / "demo"
    assert "<table" in shown[0]._repr_html_()
    assert Path("queue-delay.pdf").stat().st_size > 1000
