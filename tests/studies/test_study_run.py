# SPDX-License-Identifier: Apache-2.0
"""Running a study without a switch: what is run, kept, run again and skipped."""

from __future__ import annotations

import copy
import io
import json
import os
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import narrows_analysis
import pytest
import yaml
from narrows.batch import batch, pool, task
from narrows.batch.cluster import Done, Job, pack
from narrows.errors import InputError, Interrupted, RunError
from narrows.experiment.model import Experiment
from narrows.experiment.planning import make_plan
from narrows.hosts import machine
from narrows.run import ingredients
from narrows.run.environment import THIS_MACHINE, ThisMachine
from narrows.run.ingredients import made_here
from narrows.run.runner import CheckedRun, Outcome
from narrows.targets.soft.target import SoftTarget
from narrows_analysis import AnalysisError
from narrows_analysis.study_results import Results, read_variants, write_results
from narrows_formats.files import STUDY as RESULTS
from narrows_studies.measures import Measures
from narrows_studies.model import Study, StudyFigure
from narrows_studies.running import ccas, run
from narrows_studies.running.catalogue import StudyPoint, study_points
from narrows_studies.running.ccas import Algorithms
from narrows_studies.running.external_results import read_external_results
from narrows_studies.running.run import StudyRun
from narrows_studies.running.senders import Senders, this_machine
from rich.console import Console

STUDY = Study("mine", "citation", "conditions", "differences", (StudyFigure(id="1", experiment="one", title="title"),))
ONE: dict[str, Any] = {
    "name": "one",
    "bottleneck": {"rate": "10Mbit", "rtt": "10ms", "buffer": "1bdp"},
    "flows": [{"cca": "bbr", "duration": "60s"}],
    "sweep": {"bottleneck.buffer": ["1bdp", "2bdp", "4bdp"]},
}
Execute = Callable[[Path], Outcome]
PROGRAMS = {"narrows-softswitch": "a" * 64, "narrows-collector": "b" * 64}


class _Run:
    """What `narrows_analysis.LoadedRun` would give for the directories that the fake runs make."""

    def __init__(self, directory: Path) -> None:
        path = directory / "run.json"
        if not path.exists():
            raise AnalysisError("no such file")
        self.run = self
        self.raw = json.loads(path.read_text())
        self.status = self.raw["status"]
        self.bottleneck = SimpleNamespace(rtt_s=0.04)
        self._path = directory

    @property
    def summary(self) -> dict[str, str]:
        if not (self._path / "summary.json").exists():
            raise AnalysisError("no such file")
        return {"some": "numbers"}


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Study:
    monkeypatch.setattr(machine, "kernel_ccas", lambda: ["reno", "cubic", "bbr"])
    monkeypatch.setattr(ccas, "BBR_VERSION", tmp_path / "no-version")
    return _Study(tmp_path, monkeypatch)


def checked(experiment: Experiment, target: Any, _origin: str, place: Any = THIS_MACHINE) -> CheckedRun:
    return CheckedRun(experiment, make_plan(experiment), target, place, PROGRAMS)


class _Study:
    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = path
        self.out = path / "out"
        here = made_here(THIS_MACHINE, PROGRAMS)
        self.made: dict[str, Any] = {
            "host": {"kernel": here["kernel"]}, "narrows_version": here["version"], "commit": here.get("commit"),
            "programs": PROGRAMS,
        }  # fmt: skip
        self.ran: list[str] = []
        self.analysed: list[str] = []
        self.cpu_s: float | None = None
        self.analysis_interrupted: set[str] = set()
        self.outcome: Callable[[str], str | Exception] = lambda _directory: "complete"
        (path / "mine").mkdir()
        self.write()
        monkeypatch.setattr(batch, "check", checked)
        monkeypatch.setattr(ingredients, "programs", lambda *_: PROGRAMS)
        monkeypatch.setattr(task, "execute", self._execute)
        monkeypatch.setattr(run, "LoadedRun", self._load)
        monkeypatch.setattr(narrows_analysis, "LoadedRun", self._load)
        monkeypatch.setattr(narrows_analysis, "analyze_run", lambda directory: self.analysed.append(directory.name))
        monkeypatch.setattr(
            run, "measure_run", lambda _data, _window, _life_of: Measures(loss_ratio=0.1, utilization=1.0)
        )

    def write(self, quick: dict[str, Any] | None = None, **changes: Any) -> None:
        (self.path / "mine" / "one.yaml").write_text(yaml.safe_dump({**ONE, **changes}))
        (self.path / "mine" / "quick.yaml").write_text(yaml.safe_dump({"one": quick or {"flows.*.duration": "1s"}}))

    def _load(self, directory: Path) -> _Run:
        found = _Run(directory)
        found.raw.setdefault("virtual_time", {"cpu_s": self.cpu_s})
        return found

    def points(self, quick: bool = True) -> list[StudyPoint]:
        return study_points(STUDY, quick, root=self.path)

    def go(self, quick: bool = True, at_once: int = 1) -> str:
        self.ran.clear()
        console = Console(file=io.StringIO(), width=200)
        runner = StudyRun(STUDY, "quick" if quick else "full", self.out, "soft", lambda _: SoftTarget(), console)
        self.results = runner.run(self.points(quick), at_once)
        self.any_failed = runner.any_failed
        assert isinstance(console.file, io.StringIO)
        return console.file.getvalue()

    def _execute(self, checked_run: CheckedRun, directory: Path, *_: object) -> Outcome:
        self.ran.append(directory.name)
        outcome = self.outcome(directory.name)
        if isinstance(outcome, Exception):
            raise outcome
        # A directory that is there already would be overwritten, or refused.
        directory.mkdir(parents=True)
        (directory / "run.json").write_text(json.dumps({"status": outcome, **self.made}))
        (directory / "experiment.yaml").write_text(yaml.safe_dump(checked_run.experiment.as_yaml_data()))
        interrupted = outcome == "complete" and directory.name in self.analysis_interrupted
        if interrupted:
            return Outcome("complete", "", directory, None, (), analysis_interrupted=True)
        (directory / "summary.json").write_text("{}")
        return Outcome(outcome, "" if outcome == "complete" else "why", directory, {"some": "numbers"}, ())  # type: ignore[arg-type]


def test_complete_points_are_not_run_again(study: _Study) -> None:
    said = study.go()
    assert len(study.ran) == len(study.results.points) == 3
    assert "3 of 3 points to run" in said
    assert "[3/3]" in said
    said = study.go()
    assert study.ran == []
    assert len(study.results.points) == 3
    assert "0 of 3 points to run" in said
    assert "3 complete already" in said
    assert read_variants(study.out / RESULTS) == (study.results,)


def test_points_that_another_kernel_or_program_made_are_not_mixed_in(study: _Study) -> None:
    study.outcome = lambda directory: RunError("why") if directory.startswith("0002") else "complete"
    study.go()
    study.outcome = lambda _directory: "complete"
    run = study.out / "one" / "0001-buffer=1bdp" / "run.json"
    before = json.loads(run.read_text())
    for changed, said in (
        ({"host": {"kernel": "6.4.0"}}, "kernel 6.4.0, not "),
        (
            {"programs": {**PROGRAMS, "narrows-softswitch": "9" * 64}},
            "narrows-softswitch 999999999999, not aaaaaaaaaaaa",
        ),
        ({"programs": {}}, "narrows-softswitch that is not recorded, not aaaaaaaaaaaa"),
    ):
        run.write_text(json.dumps({**before, **changed}))
        with pytest.raises(
            InputError, match=f"--out {study.out}: one/0001-buffer=1bdp was made by {said}.*; allowed: "
        ):
            study.go()
    assert study.ran == []
    # A later version of the code around it goes on.
    run.write_text(json.dumps({**before, "commit": "other", "narrows_version": "0.1.0"}))
    study.go()
    assert [name[:4] for name in study.ran] == ["0002"]


def test_points_of_two_guest_kernels_are_not_mixed(study: _Study) -> None:
    class Guest(ThisMachine):
        kernel = "one"
        config = "1" * 64

        @property
        def made_with(self) -> dict[str, str]:
            return {"kernel": "6.12.0", "kernel_config_sha256": self.config}

    class OtherGuest(Guest):
        kernel = "other"
        config = "2" * 64

    one, other = (
        replace(this_machine(), name=guest.kernel, release="6.12.0", environment=guest())
        for guest in (Guest, OtherGuest)
    )
    study.made["virtual_time"] = {"release": "6.12.0", "config_sha256": Guest.config}
    console = Console(file=io.StringIO(), width=200)

    def go(*senders: Senders) -> Results:
        return StudyRun(STUDY, "quick", study.out, "soft", lambda _: SoftTarget(), console, senders).run(study.points())

    study.outcome = lambda directory: RunError("why") if directory.startswith("0002") else "complete"
    assert len(go(one).points) == 2
    study.ran.clear()
    study.outcome = lambda _directory: "complete"
    said = "one/0001-buffer=1bdp was made by kernel configuration 111111111111, not 222222222222; allowed: "
    for senders in ((other,), (other, one)):
        with pytest.raises(InputError, match=said):
            go(*senders)
    assert study.ran == []
    assert len(go(one, other).points) == 3
    assert [name[:4] for name in study.ran] == ["0002"]


def test_an_interrupted_point_is_done_again(study: _Study) -> None:
    study.outcome = lambda directory: "partial" if directory.startswith("0002") else "complete"
    with pytest.raises(Interrupted, match="the same command continues from here"):
        study.go()
    assert [name[:4] for name in study.ran] == ["0001", "0002"]
    assert len(read_variants(study.out / RESULTS)[0].points) == 1
    study.outcome = lambda _directory: "complete"
    study.go()
    assert [name[:4] for name in study.ran] == ["0002", "0003"]
    assert len(study.results.points) == 3


def test_an_interrupted_analysis_is_made_up_for(study: _Study) -> None:
    study.analysis_interrupted = {"0002-buffer=2bdp"}
    with pytest.raises(Interrupted):
        study.go()
    assert [name[:4] for name in study.ran] == ["0001", "0002"]
    study.go()
    assert [name[:4] for name in study.ran] == ["0003"]
    assert study.analysed == ["0002-buffer=2bdp"]
    assert len(study.results.points) == 3


def test_a_failure_does_not_end_the_study(study: _Study) -> None:
    study.outcome = lambda directory: RunError("no switch") if directory.startswith("0001") else "complete"
    study.go()
    assert len(study.ran) == 3
    assert len(study.results.points) == 2
    assert dict(study.results.skipped) == {"one/0001-buffer=1bdp": "failed: no switch"} and study.any_failed
    study.outcome = lambda directory: "failed" if directory.startswith("0001") else "complete"
    study.go()
    assert [name[:4] for name in study.ran] == ["0001"]
    assert dict(study.results.skipped) == {"one/0001-buffer=1bdp": "failed: why"} and study.any_failed
    study.outcome = lambda _directory: "complete"
    study.go()
    assert study.results.skipped == {} and not study.any_failed


def test_other_points_stay_in_the_results(study: _Study) -> None:
    study.go()
    console = Console(quiet=True)
    runner = StudyRun(STUDY, "quick", study.out, "soft", lambda _: SoftTarget(), console)
    first, *others = study.points()
    assert len(runner.run([first], 1, others).points) == 3
    assert len(read_variants(study.out / RESULTS)[0].points) == 3


def go_with(study: _Study, path: Path, made: dict[str, str] | None = None, mixed: bool = False) -> Results:
    """Run the study in a new directory, with points that were measured elsewhere, by what would be here if not by."""
    points = study.points()
    made_by = made_here(THIS_MACHINE, PROGRAMS) if made is None else made
    there = read_variants(path)
    for one in there:
        write_results(path, replace(one, points=tuple(replace(point, provenance=made_by) for point in one.points)))
    external = [read_external_results(path, STUDY, "quick", points)]
    study.ran.clear()
    console, out = Console(quiet=True), study.path / "new"
    return StudyRun(
        STUDY, "quick", out, "soft", lambda _: SoftTarget(), console, external=external, allow_mismatch=mixed
    ).run(points)


def test_what_was_measured_elsewhere_is_not_run_again(study: _Study) -> None:
    study.outcome = lambda directory: RunError("why") if directory.startswith("0002") else "complete"
    study.go()
    path = study.out / RESULTS
    (there,) = read_variants(path)
    changed = replace(there.points[0], measures={**there.points[0].measures, "loss_ratio": 0.25})
    known = {**there.machine, "kernel": "6.4.0", "bbr_ack_aggregation": None}
    write_results(path, replace(there, machine=known, points=(changed, *there.points[1:])))
    study.outcome = lambda _directory: "complete"
    results = go_with(study, path)
    assert [name[:4] for name in study.ran] == ["0002"]
    assert len(results.points) == 3 and results.points[0].measures["loss_ratio"] == 0.25
    # It says what all of them were measured with.
    assert results.machine["kernel"] == f"{machine.describe()['kernel']}, 6.4.0"
    assert results.experiments == {"one": study.points()[0].written}
    assert read_variants(study.path / "new" / RESULTS) == (results,)


def test_what_was_measured_with_other_settings_is_refused(study: _Study) -> None:
    study.go()
    path = study.out / RESULTS
    study.write({"flows.*.duration": "2s"})
    with pytest.raises(InputError, match=f"--add {path}: one was run with flows.0.duration 1s, not 2s; allowed"):
        go_with(study, path)
    # More repetitions, or fewer values of what is swept, are the same settings.
    study.write(repeat=2, sweep={"bottleneck.buffer": ["1bdp", "2bdp"]})
    assert len(go_with(study, path).points) == 4
    assert [name[-2:] for name in study.ran] == ["r2", "r2"]


def test_what_another_commit_or_kernel_measured_is_taken_in_only_if_that_is_asked_for(study: _Study) -> None:
    study.go()
    path, here = study.out / RESULTS, made_here(THIS_MACHINE, PROGRAMS)
    for name, title in (("commit", "commit"), ("kernel", "kernel")):
        with pytest.raises(
            InputError, match=f"--add: one/0001-buffer=1bdp was made by {title} other, not .* --allow-mismatch"
        ):
            go_with(study, path, {**here, name: "other"})
    assert not (study.path / "new").exists()
    assert len(go_with(study, path, {**here, "commit": "other"}, mixed=True).points) == 3 and study.ran == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"study": "other"}, "holds results of other, quick; allowed: of mine, quick"),
        ({"variant": "full"}, "holds results of mine, full; allowed: of mine, quick"),
        ({"experiments": {}}, "does not say what was run as one; allowed: results that do"),
        ({"experiments": {"one": {"name": "x"}}}, "--add .*: one"),
        (None, "is not a study's results"),
    ],
)
def test_what_are_no_results_of_this_study_is_refused(study: _Study, change: dict[str, Any] | None, said: str) -> None:
    study.go()
    path = study.out / RESULTS
    if change is None:
        path.write_bytes(path.read_bytes()[:-100])
    else:
        write_results(path, replace(read_variants(path)[0], **change))
    with pytest.raises(InputError, match=said):
        read_external_results(path, STUDY, "quick", study.points())


def test_what_is_left_takes_as_long_as_what_was_run(study: _Study, monkeypatch: pytest.MonkeyPatch) -> None:
    plans = {point.directory: make_plan(point.point.experiment) for point in study.points(quick=False)}
    monkeypatch.setattr(run, "published", lambda _name: plans)
    study.go()
    # In real time, runs take no processor that is reported. A run begins up to a round trip later than its file says.
    starts_s = pytest.approx(180.0, abs=0.1)
    assert study.results.machine["published"] == {"points": 3, "traffic_s": starts_s}
    expected_s = THIS_MACHINE.expected_s(make_plan(study.points()[0].point.experiment))
    study.cpu_s = 10 * expected_s
    study.go()
    left_s = sum(10 * THIS_MACHINE.expected_s(plan) for plan in plans.values())
    assert study.results.machine["published"]["left_s"] == pytest.approx(left_s, rel=1e-3)


def test_runs_side_by_side(study: _Study, monkeypatch: pytest.MonkeyPatch) -> None:
    # Threads for processes: those would not know what is put in the place of a run here.
    monkeypatch.setattr(pool, "worker_pool", lambda at_once, *_: ThreadPoolExecutor(at_once))
    together = threading.Barrier(2, timeout=20)

    def outcome(directory: str) -> str | Exception:
        if not directory.startswith("0003"):
            together.wait()
        return RunError("no switch") if directory.startswith("0002") else "complete"

    study.outcome = outcome
    said = study.go(at_once=2)
    assert len(study.ran) == 3 and "2 at once" in said
    assert len(study.results.points) == 2
    assert dict(study.results.skipped) == {"one/0002-buffer=2bdp": "failed: no switch"}
    study.outcome = lambda _directory: "complete"
    study.go()
    assert [name[:4] for name in study.ran] == ["0002"]


def test_workers_hear_at_once_of_an_interruption(study: _Study, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()

    @contextmanager
    def threads(at_once: int, *_: object) -> Iterator[ThreadPoolExecutor]:
        with ThreadPoolExecutor(at_once) as threads:
            try:
                yield threads
            finally:
                ended.set()

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(pool, "worker_pool", threads)
    monkeypatch.setattr(StudyRun, "_measure", interrupt)
    # What remembers where it came from would keep the workers at work.
    with pytest.raises(KeyboardInterrupt) as caught:
        study.go(at_once=2)
    assert ended.is_set() and caught.value.__traceback__ is not None


def test_two_studies_in_one_directory_are_refused(study: _Study) -> None:
    def second(_: str) -> str:
        with pytest.raises(RunError, match=f"--out {study.out} is in use by another run .process {os.getpid()}."):
            other.go()
        return "complete"

    other = copy.copy(study)
    other.ran = []
    study.outcome = second
    study.go()
    assert len(study.ran) == 3 and other.ran == []
    # Nothing stays of the lock.
    assert sorted(path.name for path in study.out.iterdir()) == ["one", RESULTS]


def test_results_that_lack_a_newer_field_are_kept(study: _Study) -> None:
    study.go()
    for path in study.out.rglob("experiment.yaml"):
        data = yaml.safe_load(path.read_text())
        assert data["telemetry"].pop("sample") == 1
        path.write_text(yaml.safe_dump(data))
    study.go()
    assert study.ran == []
    # With another value than the default they are those of another experiment, as are those that cannot be read.
    for written in ({**data, "telemetry": {"sample": 2}}, {"name": "x"}):
        path.write_text(yaml.safe_dump(written))
        with pytest.raises(InputError, match="holds a run of another experiment"):
            study.go()


def test_results_of_another_experiment_are_refused(study: _Study) -> None:
    study.go()
    study.write({"flows.*.duration": "2s"})
    with pytest.raises(InputError, match="holds a run of another experiment"):
        study.go()


def test_an_algorithm_that_the_kernel_lacks_is_left_out(study: _Study) -> None:
    study.write(sweep={"flows.bbr.cca": ["bbr", "bbr2", "bbr3"]}, flows=[{**ONE["flows"][0], "name": "bbr"}])
    said = study.go()
    assert len(study.ran) == 1
    assert "2 skipped" in said
    assert "this kernel does not have bbr2" in said
    assert set(study.results.skipped.values()) == {"this kernel does not have bbr2", "this kernel does not have bbr3"}


def test_what_the_target_refuses_is_left_out(study: _Study, monkeypatch: pytest.MonkeyPatch) -> None:
    def check(experiment: Experiment, target: object, origin: str, place: object) -> object:
        if str(experiment.all_links["bottleneck"].buffer) != "1bdp":
            # A reason that reads like a failure is none.
            raise InputError(f"{origin}: failed: too deep for this switch")
        return checked(experiment, target, origin, place)

    monkeypatch.setattr(batch, "check", check)
    study.go()
    assert len(study.ran) == 1
    assert set(study.results.skipped.values()) == {"failed: too deep for this switch"} and not study.any_failed


def test_a_machine_that_can_run_nothing_says_why(study: _Study, monkeypatch: pytest.MonkeyPatch) -> None:
    def check(*_: object) -> object:
        raise InputError("network namespaces need root; fix: run with sudo")

    monkeypatch.setattr(batch, "check", check)
    with pytest.raises(InputError, match="need root"):
        study.go()
    assert not study.out.exists()


@pytest.mark.parametrize(
    ("version", "known", "expected"),
    [
        (None, ["bbr"], {"bbr": "bbr", "bbr2": None, "bbr3": None}),
        # A kernel whose bbr is BBRv3 has no BBRv1.
        ("3", ["bbr"], {"bbr": None, "bbr2": None, "bbr3": "bbr"}),
        ("3", ["bbr", "bbr2"], {"bbr": None, "bbr2": "bbr2", "bbr3": "bbr"}),
        (None, ["bbr", "bbr3"], {"bbr": "bbr", "bbr2": None, "bbr3": "bbr3"}),
        (None, ["cubic"], {"bbr": None, "cubic": "cubic"}),
    ],
)
def test_versions_of_bbr(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    version: str | None,
    known: list[str],
    expected: dict[str, str | None],
) -> None:
    monkeypatch.setattr(machine, "kernel_ccas", lambda: known)
    if version is not None:
        (tmp_path / "version").write_text(f"{version}\n")
    monkeypatch.setattr(ccas, "BBR_VERSION", tmp_path / "version")
    algorithms = ccas.of_this_machine()
    assert {name: algorithms.kernel_name(name) for name in expected} == expected


def test_algorithms_of_another_kernel() -> None:
    v3 = ccas.of_release("6.4.0-v3+", ("reno", "cubic", "bbr", "bbr1"), "3")
    assert (v3.kernel_name("bbr"), v3.kernel_name("bbr3"), v3.ack_aggregation) == ("bbr1", "bbr", True)
    old = ccas.of_release("4.17.0", ("cubic", "bbr"), None)
    assert (old.kernel_name("bbr"), old.kernel_name("bbr3"), old.ack_aggregation) == ("bbr", None, False)


def test_a_point_runs_with_the_first_kernel_that_has_its_algorithms(study: _Study) -> None:
    study.write(sweep={"flows.bbr.cca": ["bbr", "bbr2", "bbr3"]}, flows=[{**ONE["flows"][0], "name": "bbr"}])
    here = this_machine()
    kernels = [
        replace(here, name="plain", algorithms=Algorithms(("bbr", "cubic"))),
        replace(here, name="newer", algorithms=Algorithms(("bbr", "bbr1", "cubic"), 3)),
    ]
    console = Console(file=io.StringIO(), width=200)
    runner = StudyRun(STUDY, "quick", study.out, "soft", lambda _: SoftTarget(), console, kernels)
    results = runner.run(study.points())
    assert dict(results.skipped) == {"one/0002-cca=bbr2": "no kernel here has, with the others, bbr2"}
    written = {
        path.parent.name: yaml.safe_load(path.read_text())["flows"][0]["cca"]
        for path in study.out.rglob("experiment.yaml")
    }
    assert written == {"0001-cca=bbr": "bbr", "0003-cca=bbr3": "bbr"}
    assert results.machine["clock"] == "virtual"
    # With the other kernel only, results made with the first one are those of the same algorithm still.
    again = StudyRun(STUDY, "quick", study.out, "soft", lambda _: SoftTarget(), console, kernels)
    study.ran.clear()
    assert len(again.run(study.points()).points) == 2
    assert study.ran == []


def test_points_on_a_cluster(study: _Study) -> None:
    class Cluster:
        workers = 2

        def run(self, jobs: dict[str, Job]) -> Generator[tuple[str, Done], None, None]:
            for number, (name, one) in enumerate(jobs.items()):
                assert one.options == ("--target", "soft", "--virtual", "--kernel", "plain")
                if not number:
                    yield name, Done(None, "KilledWorker: lost", 0.0)
                    continue
                made = study.path / f"worker-{number}"
                made.mkdir()
                run = {"status": "complete", "virtual_time": {"cpu_s": 3.0}, **study.made}
                (made / "run.json").write_text(json.dumps(run))
                (made / "experiment.yaml").write_text(one.experiment)
                (made / "summary.json").write_text("{}")
                yield name, Done(pack(made), "", 3.0)

    class Plain(ThisMachine):
        kernel = "plain"

    senders = [replace(this_machine(), name="plain", environment=Plain(), algorithms=Algorithms(("bbr", "cubic")))]
    console = Console(file=io.StringIO(), width=200)
    runner = StudyRun(STUDY, "quick", study.out, "soft", lambda _: SoftTarget(), console, senders)
    results = runner.run(study.points(), cluster=Cluster())  # type: ignore[arg-type]
    assert dict(results.skipped) == {"one/0001-buffer=1bdp": "failed: KilledWorker: lost"}
    assert [point.measures["cpu_s"] for point in results.points] == [3.0, 3.0]
    # What is here is not run again, on this machine either.
    again = StudyRun(STUDY, "quick", study.out, "soft", lambda _: SoftTarget(), console, senders)
    assert len(again.run(study.points()).points) == 3
    assert [name[:4] for name in study.ran] == ["0001"]
    assert [point.measures["cpu_s"] for point in again.run(study.points()).points][:2] == [3.0, 3.0]


def test_whether_bbr_counts_aggregation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "kernel_ccas", lambda: ["bbr"])
    module, kernel = tmp_path / "tcp_bbr", tmp_path / "vmlinux"
    monkeypatch.setattr(ccas, "KERNEL_TYPES", (module, kernel))
    assert ccas.of_this_machine().ack_aggregation is None
    kernel.write_bytes(b"\0min_rtt_us\0extra_acked\0")
    assert ccas.of_this_machine().ack_aggregation is True
    module.write_bytes(b"\0min_rtt_us\0")
    assert ccas.of_this_machine().ack_aggregation is False
