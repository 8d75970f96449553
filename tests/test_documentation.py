# SPDX-License-Identifier: Apache-2.0
"""README and docs: every command that they show is one, the pages made from the program are up to date, the notebook
runs, and no link of the site is dead."""

from __future__ import annotations

import functools
import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import narrows_analysis
import pandas as pd
import pytest
import synthetic
import typer
from documented import (
    COMMANDS,
    MENTIONED,
    NARROWS,
    OPTIONS,
    PAGES,
    PROGRAM,
    PROGRAMS,
    QUICK,
    ROOT,
    RUNNERS,
    TESTS,
    WHOLE_PROGRAMS,
    arguments,
)
from narrows.cli import app
from narrows_analysis import analyze_run, write_report
from narrows_formats.columns import SOCKETS
from narrows_formats.programs import COLLECTOR, SOFTSWITCH, find_binary
from narrows_formats.units import parse_size
from script_modules import load_script
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
    elsewhere = {"AnalysisError", "NoReports", "RunData", "SourceSettings", "Summary", "read_run", "write_sweep_report"}
    named = set(re.findall(r"^::: narrows_analysis\.(\w+)$", page, re.MULTILINE))
    assert set(narrows_analysis.__all__) - elsewhere <= named


def test_there_are_commands() -> None:
    assert len(NARROWS) > 20
    assert {"make demo", "make setup", "make kernel"} <= set(COMMANDS)


def _parameter(command: str) -> Any:
    """A command that is run asks for the kernel that it names."""
    words = arguments(command)
    in_a_guest = " ".join(words).startswith(QUICK) and "--virtual" in words
    return pytest.param(command, marks=pytest.mark.needs("guest-kernel") if in_a_guest else ())


@pytest.mark.parametrize("command", [_parameter(command) for command in NARROWS])
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


def test_the_plan_of_the_tutorial_is_that_of_the_demo(project: Path) -> None:
    page = (ROOT / "docs" / "tutorials" / "soft-to-tofino.md").read_text()
    words = arguments(".venv/bin/narrows plan experiments/demo.yaml --target tofino")
    last = CliRunner().invoke(app, words, catch_exceptions=False).stdout.splitlines()[-1]
    assert re.fullmatch(r"\d+ writes .*", last) and f"\n{last}\n```" in page


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


@functools.cache
def help_of(name: str) -> str:
    """What a program other than `narrows` says of itself."""
    done = run_program(name, "--help")
    # Lines are broken at hyphens, too.
    return re.sub(r"-\n +", "-", done.stdout + done.stderr)


def run_program(name: str, *words: str) -> subprocess.CompletedProcess[str]:
    """A script or a module of this checkout, or a subcommand of a binary, at the top of the repository."""
    first, *more = name.split()
    program = [str(find_binary(first))] if first in (SOFTSWITCH, COLLECTOR) else [sys.executable, first]
    return subprocess.run([*program, *more, *words], cwd=ROOT, capture_output=True, text=True, timeout=180)


@pytest.mark.needs(SOFTSWITCH, COLLECTOR)
@pytest.mark.parametrize("command", PROGRAMS)
def test_a_program_has_the_options_and_the_parts_that_are_named(command: str) -> None:
    found = PROGRAM.fullmatch(command)
    assert found is not None
    name, words = found["name"], shlex.split(found["words"])
    if name.endswith(".py"):
        assert (ROOT / name).is_file()
    options = [word.partition("=")[0] for word in words if word.startswith("-")]
    assert all(re.search(rf"(?<![\w-]){option}(?![\w-])", help_of(name)) for option in options), options
    if name in ("benchmarks/run.py", "scripts/programs.py"):
        parts = [word for word in itertools.takewhile(lambda word: word[0] != "-", words) if "/" not in word]
        listed = help_of(name)
        assert all(re.search(rf"(?<![\w-]){part}(?![\w-])", listed) for part in parts), parts
    for case in re.findall(r"--case (\S+)", command):
        module, _, kind = case.partition(".")
        assert f"class {kind}" in (ROOT / "ptf-tests" / "cases" / f"{module}.py").read_text()


@pytest.mark.long
@pytest.mark.needs(SOFTSWITCH, COLLECTOR)
@pytest.mark.parametrize("command", WHOLE_PROGRAMS)
def test_a_program_takes_the_words_that_are_shown(command: str) -> None:
    """Its values and choices, too: they are read before help is given."""
    found = PROGRAM.fullmatch(command)
    assert found is not None
    done = run_program(found["name"], *shlex.split(found["words"]), "--help")
    assert done.returncode == 0, done.stderr


def test_tests_and_crates_that_are_to_be_run_exist() -> None:
    found = [TESTS.fullmatch(command) for command in RUNNERS]
    paths = [match["paths"] for match in found if match is not None and match["paths"]]
    crates = [name for match in found if match is not None for name in (match["crates"] or "").split() if name != "-p"]
    members = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["members"]
    known = {tomllib.loads((ROOT / member / "Cargo.toml").read_text())["package"]["name"] for member in members}
    assert paths and crates
    assert [path for path in paths if not (ROOT / path).exists()] + [name for name in crates if name not in known] == []


@pytest.mark.needs(SOFTSWITCH)
def test_the_options_of_the_switch_are_those_of_its_page() -> None:
    page = (ROOT / "softswitch" / "README.md").read_text()
    rows = page.partition("| Option | Meaning | Default |\n")[2].partition("\n\n")[0]
    written = {
        option: default.replace(",", "").strip()
        for names, default in re.findall(r"^\| (`--.*?`) \|.*\| *([^|]*?)\|$", rows, re.MULTILINE)
        for option in re.findall(r"--[a-z-]+", names)
    }
    about = help_of(f"{SOFTSWITCH} serve")
    options = dict(re.findall(r"^ {6}(--[a-z-]+)[^\n]*\n {10}[^\n]*?(?:\[default: (.+)\])?$", about, re.MULTILINE))
    assert set(written) == set(options)
    assert {name: written[name] for name, default in options.items() if default} == {
        name: default for name, default in options.items() if default
    }


def test_examples_of_commands_are_commands() -> None:
    shown = re.findall(r"^```sh\n(.*?)^```", OPTIONS, re.MULTILINE | re.DOTALL)
    assert [line for line in "".join(shown).splitlines() if line not in COMMANDS] == []


def test_options_of_a_shell_are_before_its_command() -> None:
    """Behind it they are the command's own; a usage in the order that all others have would say otherwise."""
    usage = re.findall(r"^    (narrows shell .*)$", OPTIONS, re.MULTILINE)
    assert usage == ["narrows shell [OPTIONS] [FILE] [--] [COMMAND]..."]


def blocks_of_python(page: str) -> list[str]:
    """They share their names."""
    return re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)


def test_python_in_the_documentation_is_python() -> None:
    for page in PAGES:
        for block in blocks_of_python(str(page.relative_to(ROOT))):
            compile(block, str(page), "exec")


@pytest.mark.parametrize("page", ["docs/tutorials/notebook.md", "docs/cookbook.md"])
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


def test_a_limit_of_tc_is_the_buffer_beside_it() -> None:
    """tc(8): `kb` are 1024 bytes."""
    page = (ROOT / "docs" / "other-tools.md").read_text()
    row = re.search(r"`tbf rate .* limit (\d+)kb` \| `bottleneck: {.*, buffer: (\w+)}`", page)
    assert row is not None
    assert parse_size(row[2]) == int(row[1]) * 1024


@pytest.mark.parametrize("command", [command for command in COMMANDS if command.startswith("make ")])
def test_a_target_of_make(command: str) -> None:
    words = [word for word in shlex.split(command) if word != "sudo"]
    subprocess.run([*words, "--dry-run"], cwd=ROOT, check=True, capture_output=True, timeout=60)


def test_scripts_are_programs() -> None:
    named = {script for page in PAGES for script in re.findall(r"`(scripts/[a-z-]+\.sh)", page.read_text())}
    assert named and all(os.access(ROOT / script, os.X_OK) for script in named)


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
    assert 'id="narrows-kernel-build"' in (site / "commands" / "index.html").read_text()
    assert 'href="../matrices/#bbr-draft"' in (site / "suites" / "index.html").read_text()


@pytest.mark.long
def test_the_site_has_lists_as_lists(site: Path) -> None:
    """Without a blank line before it, GitHub reads a list, the site a paragraph."""
    swallowed = re.compile(r"<p>(?:(?!</p>).)*?\n *(?:- |\d\. )(?:(?!</p>).){0,60}", re.DOTALL)
    pages = {page.parent.name: page.read_text() for page in site.rglob("index.html")}
    assert [(name, found[0][-80:]) for name, text in pages.items() for found in swallowed.finditer(text)] == []


@pytest.mark.long
@pytest.mark.needs("chromium")
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("page", ["api", "experiments", "limitations", "virtual-time"])
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
    return load_script(ROOT / "scripts" / "notebook.py")


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
