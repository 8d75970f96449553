# SPDX-License-Identifier: Apache-2.0
"""Runs on the workers of a Dask scheduler: each is a ``narrows run`` in virtual time on one processor.

Workers need Narrows of the same version and the same kernels, and no directory in common with this machine: results
come back whole. What a lost worker had is run again by another one.
"""

from __future__ import annotations

import io
import json
import subprocess
import tempfile
import time
import zipfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from narrows_formats import files
from narrows_formats.provenance import difference, provenance

from narrows import __version__, python
from narrows.batch.task import Made, Task
from narrows.errors import EXIT_OK, InputError, RunError
from narrows.experiment.model import Experiment
from narrows.run.results import replace_directory
from narrows.run.runner import CheckedRun, Outcome

CONNECT_S = 20.0
ERROR_LINES = 3


@dataclass(frozen=True)
class Job:
    """One run: the experiment, and the options of ``narrows run``, or of another command in its place."""

    experiment: str
    options: tuple[str, ...]
    command: tuple[str, ...] = ()
    version: str = __version__


@dataclass(frozen=True)
class Done:
    """What became of a job: its run directory as a zip archive, or why there is none; and how long it took."""

    archive: bytes | None
    problem: str
    took_s: float


def job(experiment: Experiment, options: tuple[str, ...]) -> Job:
    """The job that makes a run."""
    return Job(yaml.safe_dump(experiment.as_yaml_data(), sort_keys=False), options)


def run_job(one: Job) -> Done:
    """Make a run; a worker does this."""
    began = time.monotonic()
    if one.version != __version__:
        return Done(None, f"the worker has Narrows {__version__}; allowed: {one.version}", 0.0)
    with tempfile.TemporaryDirectory(prefix="narrows-") as place:
        file, results = Path(place) / files.EXPERIMENT, Path(place) / "results"
        file.write_text(one.experiment, encoding="utf-8")
        narrows = one.command or python.module("narrows.cli")
        command = [*narrows, "run", str(file), "--out", str(results), *one.options]
        ended = subprocess.run(command, capture_output=True, text=True, cwd=place)
        took_s = time.monotonic() - began
        if ended.returncode != EXIT_OK or not results.is_dir():
            said = (ended.stderr.strip() or ended.stdout.strip()).splitlines()[-ERROR_LINES:]
            return Done(None, " ".join(said) or f"exit code {ended.returncode}", took_s)
        return Done(pack(results), "", took_s)


def pack(directory: Path) -> bytes:
    """A directory's files as a ZIP archive, as they are: most of them are compressed already."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        for path in sorted(directory.rglob("*")):
            file.write(path, path.relative_to(directory))
    return archive.getvalue()


def read_file(archive: bytes, name: str) -> bytes:
    """One of an archive's files."""
    with zipfile.ZipFile(io.BytesIO(archive)) as file:
        return file.read(name)


def unpack(archive: bytes, directory: Path) -> None:
    """Put an archive's files into a directory, which takes the place of one that is there, in one step.

    `ZipFile` keeps them inside, whatever their names are.
    """
    with zipfile.ZipFile(io.BytesIO(archive)) as file:
        replace_directory(directory, file.extractall)


class Cluster:
    """A Dask scheduler and its workers."""

    def __init__(self, address: str) -> None:
        """Connect.

        Raises:
            InputError: Dask is not installed, or nothing answers at this address.
        """
        try:
            from distributed import Client
        except ImportError:
            raise InputError("--cluster: needs Dask; fix: pip install 'narrows[cluster]'") from None
        try:
            self._client: Any = Client(  # type: ignore[no-untyped-call]
                address, timeout=CONNECT_S, set_as_default=False
            )
        except (OSError, ValueError) as error:
            raise InputError(f"--cluster {address}: {error}; allowed: HOST:PORT of a Dask scheduler") from None

    @property
    def workers(self) -> int:
        """How many runs it can hold at once now, one at least."""
        return max(1, sum(int(threads) for threads in self._client.nthreads().values()))

    def run(self, jobs: Mapping[str, Job]) -> Generator[tuple[str, Done], None, None]:
        """Run all jobs, in any order; each comes with its name when it is done.

        A job whose workers were lost several times, as the scheduler's settings say, is given up.
        """
        from distributed import as_completed

        futures = {
            self._client.submit(run_job, one, key=f"narrows-{name}-{time.time_ns()}", pure=False): name
            for name, one in jobs.items()
        }
        try:
            for future in as_completed(list(futures), loop=self._client.loop):  # type: ignore[no-untyped-call]
                error = future.exception()
                done = future.result() if error is None else Done(None, f"{type(error).__name__}: {error}", 0.0)
                yield futures[future], done
                # Its results are here; the worker need not keep them.
                future.release()
        finally:
            self._client.cancel(list(futures), force=True)

    def close(self) -> None:
        """Disconnect from the scheduler, which keeps running."""
        self._client.close()


def on_cluster(cluster: Cluster, tasks: Sequence[Task]) -> Made:
    """Have a cluster make runs, and put what comes back where it belongs."""
    from narrows_analysis import LoadedRun

    numbers = {task.name: number for number, task in enumerate(tasks)}
    with closing(cluster.run({task.name: job(task.run.experiment, task.worker_options) for task in tasks})) as ends:
        for name, done in ends:
            task = tasks[numbers[name]]
            outcome: Outcome | RunError = RunError(done.problem)
            if done.archive is not None and (other := _other(done.archive, task.run)):
                outcome = RunError(f"the worker's run {other}")
            elif done.archive is not None:
                unpack(done.archive, task.directory)
                outcome = Outcome("complete", "", task.directory, LoadedRun(task.directory).summary, ())
            yield numbers[name], outcome, done.took_s


def _other(archive: bytes, run: CheckedRun) -> str:
    """How a worker differs from this machine; empty if it does not."""
    return difference(provenance(json.loads(read_file(archive, files.RUN))), run.provenance)
