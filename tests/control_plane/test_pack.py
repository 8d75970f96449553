# SPDX-License-Identifier: Apache-2.0
"""`narrows pack`: an archive that anybody can check and read, the same to the byte wherever it is made."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from narrows.batch.merge import experiment_of
from narrows.batch.sweep_results import write_manifest
from narrows.cli import app
from narrows.errors import InputError
from narrows.experiment.sweep import load_series
from narrows.run import artifact
from narrows.run.artifact import pack
from narrows_analysis import load
from narrows_analysis.records.json_files import only_files
from narrows_formats.file_digest import file_digest
from narrows_formats.sweep_record import SweepRun
from typer.testing import CliRunner

SEED = sorted((Path(__file__).parents[1] / "formats").glob("*/run"))[-1]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SEED, tmp_path / "demo"))


def text_of(archive: Path, name: str) -> str:
    with tarfile.open(archive) as tar:
        found = tar.extractfile(name)
        assert found is not None
        return found.read().decode()


def test_an_archive_can_be_checked_and_read(run: Path, tmp_path: Path) -> None:
    record = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(record | {"commit": "0123abc"}))
    result = CliRunner().invoke(app, ["pack", str(run), "--out", str(tmp_path / "x.tar.gz")], catch_exceptions=False)
    assert file_digest(tmp_path / "x.tar.gz") in result.output
    (tmp_path / "there").mkdir()
    subprocess.run(["tar", "xzf", tmp_path / "x.tar.gz", "-C", tmp_path / "there"], check=True)
    there = tmp_path / "there" / "demo"
    checked = subprocess.run(["sha256sum", "-c", "SHA256SUMS"], cwd=there, capture_output=True, text=True, check=True)
    files = {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()}
    assert {line.removesuffix(": OK") for line in checked.stdout.splitlines()} == files
    assert len(load(there).reports()) == len(load(run).reports())
    how = (there / "REPRODUCE.md").read_text()
    assert "`git checkout 0123abc`" in how and "narrows run experiment.yaml" in how


def test_the_same_results_give_the_same_bytes(run: Path, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere" / "demo"
    shutil.copytree(run, other)
    for path in other.rglob("*"):
        os.utime(path, (1, 1))
        path.chmod(0o700)
    assert pack(run, [run], tmp_path / "a.tar.gz") == pack(other, [other], tmp_path / "b.tar.gz")
    with tarfile.open(tmp_path / "a.tar.gz") as tar:
        assert {(one.mtime, one.uid, one.uname, one.mode) for one in tar} == {(0, 0, "", 0o644)}


def test_what_the_experiment_names_and_is_not_in_it_is_listed(run: Path, tmp_path: Path) -> None:
    """Files of a P4 program, users' programs with the files that they read, directories; what is inlined is not."""
    experiment = yaml.safe_load((run / "experiment.yaml").read_text())
    experiment["bottleneck"]["program"] = {"json": "/p/a.json", "p4info": "/p/a.txt", "controller": ["/p/c", "x=/p/y"]}
    experiment["bottleneck"]["trace"] = {"file": "/t/trace", "text": "1\n"}
    words = ["python3", "send.py", "--to={server}", "/dev/null", "here"]
    experiment["flows"].append({"name": "own", "client": words, "cwd": "/home/me"})
    (run / "experiment.yaml").write_text(yaml.safe_dump(experiment))
    digests = {
        "softswitch": "0",
        "/p/a.json": "1",
        "/usr/bin/python3": "2",
        "/home/me/send.py": "3",
        "/etc/of-name": "4",
    }
    record = json.loads((run / "run.json").read_text()) | {"programs": digests}
    (run / "run.json").write_text(json.dumps(record))
    client, program = f"flows.{len(experiment['flows']) - 1}", "bottleneck.program"
    expected = {
        ("/p/a.json", "`1`", f"{program}.json"),
        ("/p/a.txt", "-", f"{program}.p4info"),
        ("/p/c", "-", f"{program}.controller"),
        ("/p/y", "-", f"{program}.controller"),
        ("/usr/bin/python3", "`2`", f"{client}.client"),
        ("/home/me/send.py", "`3`", f"{client}.client"),
        ("/dev/null", "-", f"{client}.client"),
        ("/home/me", "-", f"{client}.cwd"),
        ("/etc/of-name", "`4`", "a command"),
    }
    words = ["pack", str(run), "--out", str(tmp_path / "x.tar.gz")]
    *lines, _ = CliRunner().invoke(app, words, catch_exceptions=False).output.splitlines()
    assert sorted(lines) == sorted(f"not in the archive: {path} ({field})" for path, _, field in expected)
    _, listed = text_of(tmp_path / "x.tar.gz", "demo/REPRODUCE.md").split("## Not in this archive\n")
    rows = [tuple(line.strip("| ").split(" | ")) for line in listed.splitlines() if line.startswith("| `")]
    assert {(path.strip("`"), digest, field) for path, digest, field in rows} == expected and len(rows) == len(expected)


def test_an_archive_with_all_that_it_takes_says_nothing_of_files(run: Path, tmp_path: Path) -> None:
    assert pack(run, [run], tmp_path / "x.tar.gz").absent == ()
    assert "Not in this archive" not in text_of(tmp_path / "x.tar.gz", "demo/REPRODUCE.md")


# Of run.json: a kernel with a patch.
VIRTUAL = {
    "kernel": "bbr3",
    "release": "6.4",
    "built_by": "narrows kernel build && narrows kernel build --name bbr3 --base default --cca bbr3.c",
    "repeatable": True,
}


def test_runs_of_a_sweep_are_named_by_what_made_them(run: Path, tmp_path: Path) -> None:
    for number in range(3):
        shutil.copytree(run, tmp_path / "sweep" / f"{number}")
    record = json.loads((run / "run.json").read_text())
    record |= {"commit": "abc-dirty-def", "virtual_time": VIRTUAL}
    record["target_profile"]["name"] = "bmv2"
    (tmp_path / "sweep" / "1" / "run.json").write_text(json.dumps(record))
    CliRunner().invoke(
        app, ["pack", str(tmp_path / "sweep"), "--out", str(tmp_path / "x.tar.gz")], catch_exceptions=False
    )
    _, alike, modified = text_of(tmp_path / "x.tar.gz", "sweep/REPRODUCE.md").split("\n## ")
    assert alike.startswith("0, 2\n") and "narrows run 2/experiment.yaml" in alike
    assert modified.startswith("1\n") and "no commit alone makes these runs again (abc-dirty-def)" in modified
    assert "narrows run 1/experiment.yaml --target bmv2 --virtual --kernel bbr3\n" in modified
    assert (
        "Kernel: `narrows kernel build && narrows kernel build --name bbr3 --base default --cca bbr3.c`, as Li"
        in modified
    )
    assert "The files that this command names are not in this archive." in modified
    assert "The reports of a new run (`telemetry/`) then have the digests in `SHA256SUMS`." in modified
    assert "a command that is not recorded" not in alike and "`telemetry/`" not in alike


def swept(run: Path, place: Path) -> Path:
    """A sweep of two settings, twice each, with the run that there is in the place of each."""
    file = place / "written.yaml"
    written = yaml.safe_load((run / "experiment.yaml").read_text())
    written |= {"sweep": {"bottleneck.rtt": ["20ms", "80ms"]}, "repeat": 2, "seed": 7}
    file.write_text(yaml.safe_dump(written))
    series = load_series(file)
    for point in series.points:
        shutil.copytree(run, place / "sweep" / point.directory)
        text = yaml.safe_dump(point.experiment.as_stored())
        (place / "sweep" / point.directory / "experiment.yaml").write_text(text)
    runs: list[SweepRun] = [
        {"directory": one.directory, "parameters": one.parameters, "repetition": one.repetition, "status": "complete"}
        for one in series.points
    ]
    experiment = series.experiment
    write_manifest(
        place / "sweep",
        {"name": experiment.name, "sweep": experiment.sweep, "repeat": 2, "points": len(runs), "runs": runs},
    )
    return place / "sweep"


def commands_of(sweep: Path, archive: Path) -> list[str]:
    CliRunner().invoke(app, ["pack", str(sweep), "--out", str(archive)], catch_exceptions=False)
    lines = text_of(archive, "sweep/REPRODUCE.md").splitlines()
    return [line for line in lines if line.startswith("narrows run")]


def test_a_sweep_is_made_again_by_one_command(run: Path, tmp_path: Path) -> None:
    """Its file asks for the same runs, below the same names; an archive that is unpacked and packed is the same."""
    sweep, archive = swept(run, tmp_path), tmp_path / "x.tar.gz"
    assert commands_of(sweep, archive) == ["narrows run sweep.yaml"]
    (tmp_path / "there").mkdir()
    subprocess.run(["tar", "xzf", archive, "-C", tmp_path / "there"], check=True)
    there = tmp_path / "there" / "sweep"
    subprocess.run(["sha256sum", "-c", "--quiet", "SHA256SUMS"], cwd=there, check=True)
    assert "  sweep.yaml\n" in (there / "SHA256SUMS").read_text()
    again = {point.directory: point.experiment.as_stored() for point in load_series(there / "sweep.yaml").points}
    assert again == {path.parent.name: experiment_of(path.parent) for path in sweep.glob("*/run.json")}
    assert len(again) == 4 and {one["seed"] for one in again.values()} == {7, 8}
    commands_of(there, tmp_path / "y.tar.gz")
    assert file_digest(tmp_path / "y.tar.gz") == file_digest(archive)


def test_runs_that_no_file_of_a_sweep_asks_for_are_made_one_by_one(run: Path, tmp_path: Path) -> None:
    """A run with another seed, as one that was taken in has."""
    sweep = swept(run, tmp_path)
    last = max(sweep.glob("*/experiment.yaml"))
    last.write_text(yaml.safe_dump(yaml.safe_load(last.read_text()) | {"seed": 99}))
    found = commands_of(sweep, tmp_path / "x.tar.gz")
    assert found == [f"narrows run {path.relative_to(sweep)}" for path in sorted(sweep.glob("*/experiment.yaml"))]
    with tarfile.open(tmp_path / "x.tar.gz") as tar:
        assert "sweep/sweep.yaml" not in tar.getnames()


def test_runs_of_a_sweep_made_by_different_programs_are_made_one_by_one(run: Path, tmp_path: Path) -> None:
    sweep = swept(run, tmp_path)
    record = min(sweep.glob("*/run.json"))
    record.write_text(json.dumps(json.loads(record.read_text()) | {"commit": "another"}))
    assert len(commands_of(sweep, tmp_path / "x.tar.gz")) == 4


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda run: (run / "x").symlink_to("/etc/passwd"), "is a link or a device"),
        (lambda run: os.mkfifo(run / "x"), "is a link or a device"),
        (lambda run: (run / ".x.unfinished").touch(), "under way or was killed; fix: narrows clean"),
        (lambda run: (run / "run.json").write_text("{"), "run.json: not readable as JSON"),
        (lambda run: (run / "run.json").unlink(), "is not a run's directory"),
        (lambda run: (run.parent / "x.tar.gz").touch(), "x.tar.gz: exists already"),
    ],
)
def test_what_cannot_be_packed_is_refused(
    run: Path, tmp_path: Path, spoil: Callable[[Path], object], message: str
) -> None:
    spoil(run)
    before = set(tmp_path.iterdir())
    with pytest.raises(InputError, match=message):
        CliRunner().invoke(
            app, ["pack", str(run), "--out", str(tmp_path / "x.tar.gz")], catch_exceptions=False, standalone_mode=False
        )
    assert set(tmp_path.iterdir()) == before


def test_what_its_owner_swaps_meanwhile_is_not_packed(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may pack what belongs to another user, who then has the archive."""
    (tmp_path / "secret").write_text("what only root may read")

    def swap(directory: Path) -> None:
        only_files(directory)
        (run / "experiment.yaml").unlink()
        (run / "experiment.yaml").symlink_to(tmp_path / "secret")

    monkeypatch.setattr(artifact, "only_files", swap)
    with pytest.raises(InputError, match=r"experiment\.yaml: "):
        pack(run, [run], tmp_path / "x.tar.gz")
    assert not (tmp_path / "x.tar.gz").exists()
