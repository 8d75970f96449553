# SPDX-License-Identifier: Apache-2.0
"""Points on the workers of a real Dask scheduler, one of which is killed."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from narrows.batch.cluster import Cluster, Job, job, pack, run_job, unpack
from narrows.errors import InputError
from narrows.experiment.loader import validate

distributed: Any = importlib.import_module("distributed")
WORKERS = 3
# What takes the place of narrows: says that it runs, and in which process, and takes its time.
PROGRAM = """
import os, pathlib, sys, time
_, command, file, out, directory, *options = sys.argv
assert (command, out) == ("run", "--out"), sys.argv
name = pathlib.Path(file).read_text().split()[-1]
log = pathlib.Path(options[options.index("--log") + 1])
(log / f"{name}-{os.getppid()}").write_text(str(sorted(os.sched_getaffinity(0))))
time.sleep(float(options[options.index("--sleep") + 1]))
if name == "bad":
    sys.exit("error: no such switch")
pathlib.Path(directory).mkdir()
(pathlib.Path(directory) / "run.json").write_text(name)
"""


@pytest.fixture(scope="module")
def scheduler() -> Iterator[Any]:
    with distributed.LocalCluster(
        n_workers=WORKERS, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0", host="127.0.0.1"
    ) as cluster:
        yield cluster


def jobs(program: Path, log: Path, sleep_s: float, *names: str) -> dict[str, Job]:
    command = (sys.executable, str(program))
    options = ("--log", str(log), "--sleep", str(sleep_s))
    return {name: Job(f"name: {name}", options, command) for name in names}


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "narrows.py"
    path.write_text(PROGRAM)
    (tmp_path / "log").mkdir()
    return path


def started(log: Path, name: str) -> list[int]:
    """Workers that have started a job."""
    return [int(path.name.rpartition("-")[2]) for path in log.glob(f"{name}-*")]


@pytest.mark.long
def test_what_a_killed_worker_had_is_run_again(scheduler: Any, program: Path, tmp_path: Path) -> None:
    log, names = tmp_path / "log", [f"p{number}" for number in range(6)]
    cluster = Cluster(scheduler.scheduler_address)
    assert cluster.workers == WORKERS
    victim: list[tuple[str, int]] = []

    def kill_one() -> None:
        while not (running := [(name, worker) for name in names for worker in started(log, name)]):
            time.sleep(0.05)
        victim.append(running[0])
        os.kill(running[0][1], signal.SIGKILL)

    killer = threading.Thread(target=kill_one)
    killer.start()
    done = dict(cluster.run(jobs(program, log, 2.0, *names)))
    killer.join()
    cluster.close()
    assert set(done) == set(names)
    assert {name: one.problem for name, one in done.items()} == dict.fromkeys(names, "")
    # The victim's job was started by another worker too; its results are there like all others.
    ((name, _),) = victim
    assert len(started(log, name)) > 1
    (tmp_path / "results").mkdir()
    for name, one in done.items():
        assert one.archive is not None
        unpack(one.archive, tmp_path / "results" / name)
        assert (tmp_path / "results" / name / "run.json").read_text() == name


def test_a_job_that_fails_says_why(scheduler: Any, program: Path, tmp_path: Path) -> None:
    cluster = Cluster(scheduler.scheduler_address)
    done = dict(cluster.run(jobs(program, tmp_path / "log", 0.0, "bad", "good")))
    cluster.close()
    assert (done["bad"].archive, done["bad"].problem) == (None, "error: no such switch")
    assert done["good"].archive is not None


def test_a_worker_of_another_version_is_refused() -> None:
    done = run_job(replace(Job("name: x", ()), version="0.0.1"))
    assert done.archive is None
    assert "allowed: 0.0.1" in done.problem


@pytest.mark.long
def test_no_scheduler_at_the_address() -> None:
    with pytest.raises(InputError, match=r"--cluster 127\.0\.0\.1:1: .*allowed: HOST:PORT"):
        Cluster("127.0.0.1:1")


def test_a_job_holds_the_experiment_as_it_is() -> None:
    experiment = validate(
        {
            "name": "x",
            "bottleneck": {"rate": "10Mbit", "rtt": "10ms", "buffer": "1bdp"},
            "flows": [{"cca": "bbr", "duration": "9s"}],
            "seed": 7,
        },
        "x",
    )
    written = yaml.safe_load(job(experiment, ("--virtual",)).experiment)
    assert validate(written, "x").as_yaml_data() == experiment.as_yaml_data()


def test_an_archive_takes_the_place_of_what_was_there(tmp_path: Path) -> None:
    made, place = tmp_path / "made", tmp_path / "place"
    (made / "telemetry").mkdir(parents=True)
    (made / "telemetry" / "reports").write_bytes(b"\0\1")
    place.mkdir()
    (place / "old").write_text("old")
    unpack(pack(made), place)
    assert [path.name for path in sorted(place.rglob("*"))] == ["telemetry", "reports"]
    assert not (tmp_path / "place.partial").exists()


def test_an_archive_cannot_write_elsewhere(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as file:
        file.writestr("../outside", "")
        file.writestr(f"{tmp_path}/absolute", "")
    unpack((tmp_path / "bad.zip").read_bytes(), tmp_path / "place")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.zip", "place"]
