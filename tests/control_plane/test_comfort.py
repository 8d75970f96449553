# SPDX-License-Identifier: Apache-2.0
"""What makes the shell and an editor comfortable: a file to begin with, its schema, the list of runs, the browser."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from narrows.cli import app
from narrows.cli.browser import open_page
from narrows.cli.new import SCHEMA
from narrows.cli.schema import schema_text
from narrows.errors import InputError
from narrows.experiment.lines import with_line
from narrows.experiment.sweep import load_series
from typer.testing import CliRunner

ROOT = Path(__file__).parents[2]
VALIDATOR = jsonschema.Draft202012Validator(json.loads(schema_text()))
EXAMPLES = re.findall(r"^```yaml\n(name:.*?)^```", (ROOT / "docs" / "experiments.md").read_text(), re.M | re.S)


def schema_errors(text: str) -> list[str]:
    return [error.message for error in VALIDATOR.iter_errors(yaml.safe_load(text))]


def test_a_new_file_is_an_experiment_and_shows_every_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(app, ["new", "first.yaml"]).exit_code == 0
    text = Path("first.yaml").read_text()
    assert load_series(Path("first.yaml")).experiment.name == "first"
    assert json.loads(Path(SCHEMA).read_text()) == json.loads(schema_text())
    assert f"$schema={SCHEMA}" in text
    # With what is commented out it is an experiment as well, of all fields there are.
    options = re.sub(r"^( *)# (?=[ a-z_]+:)", r"\1", text.split("\n", 1)[1], flags=re.M)
    options = re.sub(r"^#  ( *[a-z_.]+: )", r"  \1", options, flags=re.M)
    Path("options.yaml").write_text(options)
    assert len(load_series(Path("options.yaml")).points) == 6
    # Of bottleneck and links one.
    fields = set(json.loads(schema_text())["properties"]) - {"links"}
    assert {re.split("[:.]", line)[0] for line in options.splitlines() if re.match("[a-z]", line)} == fields


def test_new_overwrites_nothing(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("mine")
    for name, problem in (("x.yaml", "exists already"), ("none/y.yaml", "no directory"), ("-.yaml", "is not a name")):
        with pytest.raises(InputError, match=problem):
            CliRunner().invoke(app, ["new", str(tmp_path / name)], catch_exceptions=False)
    assert [path.name for path in tmp_path.iterdir()] == ["x.yaml"]


@pytest.mark.parametrize("path", sorted((ROOT / "experiments").glob("*.yaml")), ids=lambda path: path.stem)
def test_the_schema_takes_our_experiments(path: Path) -> None:
    assert schema_errors(path.read_text()) == []


@pytest.mark.parametrize("text", EXAMPLES, ids=[example.split()[1] for example in EXAMPLES])
def test_the_schema_takes_what_the_documentation_shows(text: str) -> None:
    assert schema_errors(text) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [("100Mbit", "100"), ("1bdp", "1bpd"), ("40ms", "40"), ("rtt:", "rrt:"), ("bbr", "[bbr]"), ("20s", "soon")],
)
def test_the_schema_refuses_what_is_wrong(old: str, new: str) -> None:
    assert schema_errors((ROOT / "experiments" / "demo.yaml").read_text().replace(old, new))


def test_the_schema_describes_every_field_and_says_defaults_as_they_are_written() -> None:
    schema = json.loads(schema_text())
    models = {"Experiment": schema, **schema["$defs"]}
    fields = {f"{name}.{field}": said for name, model in models.items() for field, said in model["properties"].items()}
    assert [name for name, said in fields.items() if not said.get("description")] == []
    assert models["Telemetry"]["properties"]["sockets"]["default"] == "100ms"
    assert "bit, kbit, Mbit or Gbit" in models["LinkSettings"]["properties"]["rate"]["oneOf"][0]["title"]


def test_the_schema_takes_a_distribution_from_a_file() -> None:
    shared = next(text for text in EXAMPLES if "cdf" in text)
    assert schema_errors(shared.replace("{cdf: [[1000, 0.5], [100000, 0.9], [1000000, 1]]}", "{cdf: gaps.txt}")) == []
    assert schema_errors(shared.replace("{cdf: [[1000, 0.5], [100000, 0.9], [1000000, 1]]}", "{cdf: [[0.1]]}"))


def test_an_error_names_the_line(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text("name: x\nflows:\n  - cca: bbr\n  - cca: cubic\n    count: 0\nsweep:\n  flows.0.cca: [a]\n")
    said = {
        "flows.1.count: is small": 5,
        "flows.1.duration: is missing": 4,
        "mtu: is large": None,
        "sweep at flows.0.cca=a: flows.0.cca: is unknown": 7,
        "is not an experiment": None,
    }
    for message, line in said.items():
        where = str(file) if line is None else f"{file}:{line}"
        assert with_line(f"{file}: {message}") == f"{where}: {message}"
    assert with_line("--out x: exists") == "--out x: exists"


def test_runs_are_listed_newest_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def store(name: str, started: str, summary: dict[str, Any] | None) -> None:
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "run.json").write_text(json.dumps({"started": started, "status": "complete"}))
        if summary is not None:
            (tmp_path / name / "summary.json").write_text(json.dumps(summary))

    monkeypatch.setenv("COLUMNS", "200")
    queue = {"rate_bps": 1e8, "utilization": 0.98765, "loss_ratio": 0.01, "queue_delay_s": {"p99": 0.0399}}
    store("old", "2026-01-02T00:00:00+00:00", {"bottleneck": queue, "flows": [{}, {}], "fairness": {"jain_index": 0.5}})
    link = {"name": "access", **queue, "fairness": {"jain_index": 0.5}}
    # One link is as the other but for its rate and delay; nothing limits the third.
    links = [
        # A rate that varies around 20 Mbit/s.
        link, link | {"rate_bps": 1e8, "rate_mean_bps": 2e7, "queue_delay_s": {"p99": 0.0021}},
        # Its queue dropped nothing: loss emulation took 30 %.
        {"name": "core", "rate_bps": None, "utilization": None, "loss_ratio": 0.0, "total_loss_ratio": 0.3,
         "queue_delay_s": {"p99": None}},
    ]  # fmt: skip
    store("path", "2026-01-01T00:00:00+00:00", {"links": links, "flows": [{}, {}, {}]})
    store("new", "2026-02-01T00:00:00+00:00", None)
    store("sweep/0001", "2026-01-15T00:00:00+00:00", None)
    manifest = {"points": 2, "runs": [{"directory": "0001"}]}
    (tmp_path / "sweep" / "sweep.json").write_text(json.dumps(manifest))
    store(".hidden.unfinished", "2026-03-01T00:00:00+00:00", None)
    shown = CliRunner().invoke(app, ["runs", str(tmp_path)]).output
    rows = [line.split("│") for line in shown.splitlines() if "2026-" in line]
    assert [row[2].strip() for row in rows] == ["new", "sweep/", "old", "path"]
    assert rows[1][3].strip() == "1 of 2 runs"
    assert [cell.strip() for cell in rows[2][3:10]] == ["complete", "100.00", "2", "98.77", "1.00", "39.90", "0.50"]
    assert [cell.strip() for cell in rows[3][4:10]] == [
        "20.00-100.00", "3", "98.77", "1.00-30.00", "2.10-39.90", "0.50",
    ]  # fmt: skip
    assert "lowest and highest" in shown
    listed = json.loads(CliRunner().invoke(app, ["runs", str(tmp_path), "--json"]).stdout)
    old, path = listed[2:]
    assert old["rate_bps"] == 1e8 and path["rate_bps"] is None
    assert [one["rate_bps"] for one in path["links"]] == [1e8, 1e8, None]
    assert [one["rate_mean_bps"] for one in path["links"]] == [1e8, 2e7, None]
    assert [(one["loss_ratio"], one["total_loss_ratio"]) for one in (old, path["links"][2])] == [(0.01, 0.01), (0, 0.3)]


def test_a_page_is_opened_by_the_users_browser(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(subprocess, "Popen", lambda command, **_: started.append(command))
    monkeypatch.setenv("PATH", str(tmp_path))
    open_page(Path("report.html"))
    assert "no browser was found" in capsys.readouterr().out
    opener = tmp_path / "xdg-open"
    opener.write_text(f"#!{sys.executable}\n")
    opener.chmod(0o755)
    page = str(Path("report.html").absolute())
    monkeypatch.delenv("SUDO_USER", raising=False)
    open_page(Path("report.html"))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setenv("SUDO_USER", "ada")
    open_page(Path("report.html"))
    assert started == [[str(opener), page], ["runuser", "-u", "ada", "--", str(opener), page]]
