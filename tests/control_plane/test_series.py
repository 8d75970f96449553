# SPDX-License-Identifier: Apache-2.0
"""A sweep that continues in its directory, with stand-ins for runs: what is kept, run, joined and refused."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import narrows_analysis
import pytest
import yaml
from narrows.batch import batch as batch_module
from narrows.batch import task as task_module
from narrows.batch.cluster import Done, Job, pack
from narrows.batch.sweep import RunMode, run_series
from narrows.errors import InputError, RunError
from narrows.experiment.model import Experiment
from narrows.experiment.planning import make_plan
from narrows.experiment.sweep import load_series
from narrows.hosts.run_lock import RunLock
from narrows.run import ingredients
from narrows.run.environment import ThisMachine
from narrows.run.runner import CheckedRun, Outcome
from narrows.targets.base import Target
from narrows.targets.bmv2.target import Bmv2Target
from narrows.targets.soft.target import SoftTarget
from narrows.virtual.environment import BOOT_AND_ANALYSIS_S, PACKETS_PER_S, Guests
from narrows_analysis.errors import NoReports
from narrows_formats.summary import FORMAT
from rich.console import Console
from test_cli import SUMMARY

ONE: dict[str, Any] = {
    "name": "buffers",
    "bottleneck": {"rate": "100Mbit", "rtt": "40ms", "buffer": "1bdp"},
    "flows": [{"cca": "bbr", "duration": "30s"}],
    "sweep": {"bottleneck.buffer": ["0.5bdp", "1bdp"]},
    "repeat": 2,
}
RUN: dict[str, Any] = {
    "status": "complete",
    "target_profile": {"name": "soft", "time_unit_s": 1e-9, "depth_unit": "bytes", "depth_unit_bytes": 1},
    "bottleneck": {"rate_bps": 100_000_000},
    "flows": [],
}
FIRST, SECOND, THIRD, FOURTH = (
    "0001-buffer=0.5bdp-r1", "0002-buffer=0.5bdp-r2", "0003-buffer=1bdp-r1", "0004-buffer=1bdp-r2"
)  # fmt: skip


PROGRAMS = {"narrows-softswitch": "a" * 64, "narrows-collector": "b" * 64, "v1model/narrows.json": "f" * 64}
MADE = {"narrows_version": "1.2.3", "commit": "c" * 40, "host": {"kernel": "6.1.0"}, "programs": PROGRAMS}


class Virtual(ThisMachine):
    """As an environment with a kernel of its own is seen from here."""

    kernel = "mine"
    made_with: ClassVar[dict[str, str]] = {"kernel": "7.3.4", "kernel_config_sha256": "d" * 64}


def write_result(directory: Path, experiment: dict[str, Any], **run: Any) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "experiment.yaml").write_text(yaml.safe_dump(experiment))
    (directory / "run.json").write_text(json.dumps({**RUN, **MADE, **run}))
    (directory / "summary.json").write_text(json.dumps({**SUMMARY, "format": FORMAT}))


@dataclass
class Sweeps:
    """Sweeps of one experiment, whose runs only write their results, or what `outcome` says in their place."""

    path: Path
    ran: list[str]
    said: str = ""
    outcome: Callable[[str], str | Exception] = lambda _name: "complete"

    def execute(self, run: CheckedRun, directory: Path, *_: Any) -> Outcome:
        self.ran.append(directory.name)
        outcome = self.outcome(directory.name)
        if isinstance(outcome, Exception):
            raise outcome
        write_result(directory, run.experiment.as_yaml_data(), status=outcome)
        status: Any = outcome
        return Outcome(status, "", directory, SUMMARY, ())

    def go(
        self,
        out: str = "out",
        changes: dict[str, Any] | None = None,
        target: Callable[[], Target] = SoftTarget,
        **options: Any,
    ) -> list[str]:
        """Run it; the status of each run that was made."""
        file = self.path / "experiment.yaml"
        file.write_text(yaml.safe_dump({**ONE, **(changes or {})}))
        self.ran.clear()
        said = Console(file=io.StringIO(), width=200)
        try:
            ended = run_series(load_series(file), lambda _: target(), self.path / out, said, **options)
            return [outcome.status for outcome in ended]
        finally:
            self.said = said.file.getvalue()  # type: ignore[attr-defined]

    def manifest(self, out: str = "out") -> list[tuple[str, str]]:
        record = json.loads((self.path / out / "sweep.json").read_text())
        return [(run["directory"], run["status"]) for run in record["runs"]]


@pytest.fixture
def sweeps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sweeps:
    def check(experiment: Experiment, target: Any, _origin: str, place: Any) -> CheckedRun:
        return CheckedRun(experiment, make_plan(experiment), target, place, PROGRAMS)

    made = Sweeps(tmp_path, [])
    monkeypatch.setattr(batch_module, "check", check)
    monkeypatch.setattr(ingredients, "__version__", MADE["narrows_version"])
    monkeypatch.setattr(ingredients, "commit", lambda: MADE["commit"])
    monkeypatch.setattr(ingredients, "programs", lambda *_: PROGRAMS)
    monkeypatch.setattr(ThisMachine, "made_with", MADE["host"])
    monkeypatch.setattr(task_module, "execute", made.execute)
    return made


def test_every_point_is_run_once_before_any_is_twice(sweeps: Sweeps) -> None:
    assert sweeps.go() == ["complete"] * 4
    assert sweeps.ran == [FIRST, THIRD, SECOND, FOURTH]
    # What is stored is in the order of the file.
    assert [name for name, _ in sweeps.manifest()] == [FIRST, SECOND, THIRD, FOURTH]


@pytest.mark.parametrize("ends", ["failed", "partial", RunError("no switch")])
def test_what_is_complete_is_kept(sweeps: Sweeps, ends: str | Exception) -> None:
    sweeps.outcome = lambda name: ends if name == SECOND else "complete"
    if isinstance(ends, Exception):
        with pytest.raises(RunError, match="no switch"):
            sweeps.go()
    else:
        assert sweeps.go() == ["complete", "complete", ends]
    assert f"the same command with --out {sweeps.path / 'out'} runs the rest" in sweeps.said
    before = {name: (sweeps.path / "out" / name / "run.json").stat().st_mtime_ns for name in (FIRST, THIRD)}
    sweeps.outcome = lambda _name: "complete"
    sweeps.go()
    assert sweeps.ran == [SECOND, FOURTH]
    assert "2 runs, about 84 s, 2 complete already" in sweeps.said
    assert sweeps.manifest() == [(name, "complete") for name in (FIRST, SECOND, THIRD, FOURTH)]
    assert before == {name: (sweeps.path / "out" / name / "run.json").stat().st_mtime_ns for name in before}
    sweeps.go()
    assert sweeps.ran == [] and "4 complete already" in sweeps.said


@pytest.mark.parametrize("telemetry", [True, False])
def test_a_run_analysed_by_an_older_version_is_analysed_again(
    sweeps: Sweeps, monkeypatch: pytest.MonkeyPatch, telemetry: bool
) -> None:
    sweeps.go()
    summary = sweeps.path / "out" / SECOND / "summary.json"
    written = summary.read_text()
    summary.write_text(json.dumps({**SUMMARY, "format": FORMAT - 1}))

    def analyze(directory: Path) -> Any:
        if not telemetry:
            raise NoReports("no reports")
        (directory / "summary.json").write_text(written)
        return SUMMARY

    monkeypatch.setattr(narrows_analysis, "analyze_run", analyze)
    sweeps.go()
    assert sweeps.ran == ([] if telemetry else [SECOND])
    assert sweeps.manifest() == [(name, "complete") for name in (FIRST, SECOND, THIRD, FOURTH)]


def test_a_sweep_that_was_killed_before_its_first_run_goes_on(sweeps: Sweeps) -> None:
    for started in (False, True):
        (sweeps.path / "out").mkdir(exist_ok=True)
        if started:
            sweeps.outcome = lambda _name: RunError("why")
            with pytest.raises(RunError):
                sweeps.go()
            assert sweeps.manifest() == []
    sweeps.outcome = lambda _name: "complete"
    assert sweeps.go() == ["complete"] * 4


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": "others"}, "holds a sweep with another 'name'"),
        ({"repeat": 3}, "holds a sweep with another 'repeat'"),
        ({"sweep": {"bottleneck.buffer": ["0.5bdp", "2bdp"]}}, "holds a sweep with another 'sweep'"),
        ({"mtu": 9000}, f"{FIRST} holds a run of another experiment \\(mtu 1500, not 9000\\)"),
    ],
)
def test_another_experiment_is_refused(sweeps: Sweeps, changes: dict[str, Any], said: str) -> None:
    sweeps.go()
    before = sorted(sweeps.path.rglob("*"))
    with pytest.raises(InputError, match=f"--out {sweeps.path / 'out'}: {said}; allowed: "):
        sweeps.go(changes=changes)
    assert sweeps.ran == [] and sorted(sweeps.path.rglob("*")) == before


def test_a_trace_with_other_contents_is_another_experiment(sweeps: Sweeps) -> None:
    trace = sweeps.path / "link.trace"
    trace.write_text("1\n2\n3\n")
    bottleneck = {**ONE["bottleneck"], "rate": {"trace": {"file": "link.trace", "format": "mahimahi"}}}
    sweeps.go(changes={"bottleneck": bottleneck})
    trace.write_text("1\n2\n4\n")
    said = r"\(bottleneck.rate.trace.text 3 lines, SHA-256 \w{12}, not 3 lines, SHA-256 \w{12}\)"
    with pytest.raises(InputError, match=f"{FIRST} holds a run of another experiment {said}; allowed: "):
        sweeps.go(changes={"bottleneck": bottleneck})
    assert sweeps.ran == []


def test_runs_that_were_made_in_another_way_are_refused(sweeps: Sweeps) -> None:
    sweeps.go()
    where = f"--out {sweeps.path / 'out'}: {FIRST} was run with --target soft"
    for mode, target in ((RunMode("bmv2"), Bmv2Target), (RunMode("soft", Virtual()), SoftTarget)):
        with pytest.raises(InputError, match=f"{where}; allowed"):
            sweeps.go(mode=mode, target=target)
    for name in (FIRST, SECOND, THIRD, FOURTH):
        (sweeps.path / "out" / name / "run.json").write_text(json.dumps({**RUN, "virtual_time": {"kernel": "other"}}))
    for mode in (RunMode(), RunMode("soft", Virtual())):
        with pytest.raises(InputError, match=f"{where} --virtual --kernel other; allowed"):
            sweeps.go(mode=mode)
    assert sweeps.ran == []


def test_runs_of_a_switch_whose_name_begins_like_ours_are_refused(sweeps: Sweeps) -> None:
    """As those of a Tofino 2 are not those of a Tofino."""
    sweeps.go()
    other = {**RUN, "target_profile": {**RUN["target_profile"], "name": "soft2"}}
    for name in (FIRST, SECOND, THIRD, FOURTH):
        (sweeps.path / "out" / name / "run.json").write_text(json.dumps(other))
    with pytest.raises(InputError, match=f"{FIRST} was run with --target soft2; allowed"):
        sweeps.go()


def test_a_directory_that_is_no_sweeps_is_refused(sweeps: Sweeps) -> None:
    (sweeps.path / "out").mkdir()
    (sweeps.path / "out" / "thesis.tex").write_text("")
    with pytest.raises(InputError, match="exists already, and holds no sweep"):
        sweeps.go()
    (sweeps.path / "file").write_text("")
    with pytest.raises(InputError, match="exists already"):
        sweeps.go("file")
    assert sweeps.ran == []


def test_two_in_one_directory_are_refused(sweeps: Sweeps) -> None:
    (sweeps.path / "out").mkdir()
    held = RunLock(sweeps.path / "out")
    held.take([f"--out {sweeps.path / 'out'}"])
    (sweeps.path / "out" / "sweep.json").write_text(json.dumps({"name": "buffers", "sweep": ONE["sweep"], "repeat": 2,
                                                               "points": 4, "runs": []}))  # fmt: skip
    with pytest.raises(RunError, match="is in use by another run"):
        sweeps.go()
    held.give_back()
    assert sweeps.go() == ["complete"] * 4


def test_runs_of_several_machines_are_joined(sweeps: Sweeps) -> None:
    """By what was run, whatever its number there: two more values and a repetition less are the same experiment."""
    sweeps.outcome = lambda name: RunError("lost") if name.startswith("0003") else "complete"
    with pytest.raises(RunError):
        sweeps.go("there", {"repeat": 1, "sweep": {"bottleneck.buffer": ["4bdp", "1bdp", "0.5bdp"]}})
    there = sweeps.path / "there" / "0002-buffer=1bdp"
    sweeps.outcome = lambda _name: "complete"
    sweeps.go(added=[sweeps.path / "there"])
    assert sweeps.ran == [FIRST, SECOND, FOURTH]
    assert [name for name, _ in sweeps.manifest()] == [FIRST, SECOND, THIRD, FOURTH]
    assert (sweeps.path / "out" / THIRD / "run.json").read_bytes() == (there / "run.json").read_bytes()
    assert there.exists()
    # Once they are here they need not be named again.
    sweeps.go()
    assert sweeps.ran == []


def test_runs_of_something_else_are_not_joined(sweeps: Sweeps) -> None:
    sweeps.go("there")
    there = f"--add {sweeps.path / 'there'}: "
    for changes, said in (
        ({"mtu": 9000}, f"{FIRST} was run with mtu 1500, not 9000; allowed"),
        ({"flows": [{"cca": "cubic", "duration": "20s"}]}, "was run with .*flows.0.cca bbr, not cubic; "
                                                          "flows.0.duration 30s, not 20s; allowed"),
        ({"sweep": {"bottleneck.buffer": ["2bdp", "3bdp"]}}, "has no complete run of this series with the same setti"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=there + f".*{said}"):
            sweeps.go("here", changes, added=[sweeps.path / "there"])
    with pytest.raises(InputError, match=f"{FIRST} was run with --target soft; allowed"):
        sweeps.go("here", added=[sweeps.path / "there"], mode=RunMode("soft", Virtual()))
    with pytest.raises(InputError, match="asks for one run; allowed: with several"):
        sweeps.go("here", {"sweep": {}, "repeat": 1}, added=[sweeps.path / "there"])
    assert not (sweeps.path / "here").exists()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"commit": "e" * 40}, "commit eeeeeeeeeeee, not cccccccccccc"),
        ({"commit": "c" * 40 + "-dirty"}, "commit cccccccccccc-dirty, not cccccccccccc;"),
        ({"commit": None}, "commit that is not recorded, not cccccccccccc"),
        ({"narrows_version": "1.2.2"}, "Narrows 1.2.2, not 1.2.3"),
        ({"host": {"kernel": "6.12.9"}}, "kernel 6.12.9, not 6.1.0"),
        (
            {"programs": {**PROGRAMS, "narrows-softswitch": "9" * 64}},
            "narrows-softswitch 999999999999, not aaaaaaaaaaaa",
        ),
        (
            {"programs": {**PROGRAMS, "v1model/narrows.json": "9" * 64}},
            "v1model/narrows.json 999999999999, not fffffff",
        ),
        ({"programs": None}, "narrows-softswitch that is not recorded, not aaaaaaaaaaaa"),
    ],
)
def test_runs_of_another_commit_kernel_or_program_are_joined_only_if_that_is_asked_for(
    sweeps: Sweeps, changed: dict[str, Any], said: str
) -> None:
    """They are compared with what would run the rest here, and where nothing is left to run, with each other."""
    sweeps.outcome = lambda name: "complete" if name.startswith(("0001", "0002")) else RunError("enough")
    with pytest.raises(RunError):
        sweeps.go("there", {"repeat": 1, "sweep": {"bottleneck.buffer": ["0.5bdp", "1bdp", "2bdp"]}})
    sweeps.outcome = lambda _name: "complete"
    other = sweeps.path / "there" / "0002-buffer=1bdp" / "run.json"
    other.write_text(json.dumps({**json.loads(other.read_text()), **changed}))
    expected = f"--add {sweeps.path / 'there'}: 0002-buffer=1bdp was made by {said}.*allowed: .* --allow-mismatch"
    for repeat in (1, 2):
        with pytest.raises(InputError, match=expected):
            sweeps.go("here", {"repeat": repeat}, added=[sweeps.path / "there"])
    assert not (sweeps.path / "here").exists()
    sweeps.go("here", added=[sweeps.path / "there"], allow_mismatch=True)
    assert sweeps.ran == [SECOND, FOURTH] and len(sweeps.manifest("here")) == 4
    # In a directory of one's own that is said, and of a kernel or a program refused.
    if changed.keys() & {"host", "programs"}:
        with pytest.raises(InputError, match=f"here: .* was made by {said}.*; allowed: runs made as these are to be"):
            sweeps.go("here")
    else:
        (sweeps.path / "here" / FIRST / "run.json").unlink()
        sweeps.go("here")
        assert f"what is complete already was made by {said.rstrip(';')}" in sweeps.said


def test_a_sweep_on_a_cluster(sweeps: Sweeps) -> None:
    kernel = {"kernel": "mine", "release": "7.3.4", "config_sha256": "d" * 64}

    class Cluster:
        workers = 3
        lost: ClassVar[set[str]] = {THIRD}

        def run(self, jobs: dict[str, Job]) -> Generator[tuple[str, Done], None, None]:
            # In any order.
            for name, one in reversed(jobs.items()):
                assert one.options == ("--target", "soft", "--virtual", "--kernel", "mine")
                if Path(name).name in self.lost:
                    yield name, Done(None, "KilledWorker: lost", 1.0)
                    continue
                made = sweeps.path / "workers" / Path(name).name
                write_result(made, yaml.safe_load(one.experiment), virtual_time=kernel)
                yield name, Done(pack(made), "", 1.0)

    cluster: Any = Cluster()
    with pytest.raises(RunError, match="KilledWorker: lost"):
        sweeps.go(mode=RunMode("soft", Virtual()), cluster=cluster)
    assert "4 runs, 3 at once" in sweeps.said
    assert sweeps.manifest() == [(SECOND, "complete"), (FOURTH, "complete")]
    cluster.lost.clear()
    kernel["config_sha256"] = "e" * 64
    with pytest.raises(RunError, match="the worker's run was made by kernel configuration eeeeeeeeeeee, not dddddddd"):
        sweeps.go(mode=RunMode("soft", Virtual()), cluster=cluster)
    kernel["config_sha256"] = "d" * 64
    assert sweeps.go(mode=RunMode("soft", Virtual()), cluster=cluster) == ["complete"] * 2
    assert len(sweeps.manifest()) == 4 and sweeps.ran == []


def test_a_runs_time_is_reckoned_by_its_own_frames(tmp_path: Path) -> None:
    """10 s at 1 Gbit/s are 1.25 GB: of 9,014 B or of 590 B a frame."""
    expected = {}
    for mtu in (9000, 576):
        file = tmp_path / f"{mtu}.yaml"
        bottleneck = {"rate": "1Gbit", "rtt": "10ms", "buffer": "1bdp"}
        flows = [{"cca": "cubic", "duration": "10s"}]
        file.write_text(yaml.safe_dump({"name": "x", "bottleneck": bottleneck, "flows": flows, "mtu": mtu}))
        plan = make_plan(load_series(file).points[0].experiment)
        expected[mtu] = Guests.expected_s(Guests.__new__(Guests), plan) - BOOT_AND_ANALYSIS_S
    packets = {mtu: round(seconds * PACKETS_PER_S) for mtu, seconds in expected.items()}
    assert packets == {9000: round(1.25e9 / 9014), 576: round(1.25e9 / 590)}
