# SPDX-License-Identifier: Apache-2.0
"""Files that an experiment names, as others may have written it: a FIFO is not waited for, nothing of them is shown."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from narrows.batch.merge import read_record
from narrows.errors import InputError
from narrows.experiment.lines import with_line
from narrows.experiment.loader import load
from narrows.hosts import bpf
from narrows.run.runner import planned
from narrows.targets.soft.target import SoftTarget
from narrows_formats import bounded_yaml, files, suite_matrix

ROOT = Path(__file__).parents[2]
# Of the processor, and until a process that shares it with many others is taken for one that waits for ever.
TIMERS = {signal.SIGPROF: (signal.ITIMER_PROF, 10.0), signal.SIGALRM: (signal.ITIMER_REAL, 120.0)}
MEMORY_BYTES = 4 << 30
SECRET = "machine:lab.example login:alice 3f2c9a"
BASE = "name: x\nbottleneck: {rate: 10Mbit, rtt: 20ms, buffer: 100kB}\n"
TRACE = "bottleneck: {rate: {trace: {file: FILE, format: sabre}}, rtt: 20ms, buffer: 100kB}"
NAMED = {
    "cdf": f"{BASE}flows: [{{cca: cubic, workload: {{load: 0.5, duration: 1s, sizes: {{cdf: FILE}}}}}}]\n",
    "trace": f"name: x\n{TRACE}\nflows: [{{cca: cubic, duration: 1s}}]\n",
    **{
        name: (ROOT / "experiments/own-program/cubic-and-bbr.yaml").read_text().replace(file, "FILE", 1)
        for name, file in (
            ("json", "compiled/interval_aqm.json"),
            ("p4info", "compiled/interval_aqm.p4info.txtpb"),
            ("entries", "entries.json"),
        )
    },
}
HOSTILE: dict[str, Callable[[Path], object]] = {
    "a FIFO": os.mkfifo,
    "a device without end": lambda path: path.symlink_to("/dev/zero"),
    "a large file": lambda path: os.truncate(os.open(path, os.O_CREAT | os.O_WRONLY), 65 << 20),
    "nested": lambda path: path.write_text("[" * 200_000),
    "digits": lambda path: path.write_text(f'{{"table_entries": {"9" * 6000}}}'),
    "a file that only root can read": lambda path: path.write_text(f"{SECRET}\n"),
}


@pytest.fixture(autouse=True)
def in_time_and_memory() -> Iterator[None]:
    def late(*_: object) -> None:
        raise AssertionError("it takes too long")

    before, limits = {number: signal.signal(number, late) for number in TIMERS}, resource.getrlimit(resource.RLIMIT_AS)
    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (in_use + MEMORY_BYTES, limits[1]))
    for timer, seconds in TIMERS.values():
        signal.setitimer(timer, seconds)
    yield
    for number, (timer, _) in TIMERS.items():
        signal.setitimer(timer, 0)
        signal.signal(number, before[number])
    resource.setrlimit(resource.RLIMIT_AS, limits)


@pytest.mark.needs("narrows-softswitch")
@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("named", NAMED)
def test_what_an_experiment_names_is_refused(tmp_path: Path, named: str, hostile: str) -> None:
    shutil.copytree(ROOT / "experiments/own-program", tmp_path / "x")
    # As the entries are, by the end of their name.
    HOSTILE[hostile](tmp_path / "x" / "other.json")
    file = tmp_path / "x" / "x.yaml"
    file.write_text(NAMED[named].replace("FILE", "other.json"))
    with pytest.raises(InputError) as refused:
        _, problems = planned(load(file), SoftTarget(), str(file))
        raise InputError("\n".join(problems))
    assert "other.json" in str(refused.value)
    assert not [word for word in SECRET.replace(":", " ").split() if word in str(refused.value)]


@pytest.mark.parametrize("hostile", ["a FIFO", "a device without end", "a large file"])
def test_an_experiment_is_no_such_file(tmp_path: Path, hostile: str) -> None:
    HOSTILE[hostile](tmp_path / "x.yaml")
    with pytest.raises(InputError) as refused:
        load(tmp_path / "x.yaml")
    assert str(refused.value).startswith(f"{tmp_path / 'x.yaml'}: ")
    assert with_line(str(refused.value)) == str(refused.value)


def test_an_experiment_may_come_through_a_pipe(tmp_path: Path) -> None:
    """As the shell's <(command) has it."""
    text = f"{BASE}flows: [{{cca: cubic, duration: 1s}}]\n"
    (tmp_path / "x.yaml").write_text(text)
    out, into = os.pipe()

    def write() -> None:
        with os.fdopen(into, "w") as pipe:
            pipe.write(text)

    # What comes late, too.
    later = threading.Timer(0.3, write)
    later.start()
    assert load(Path(f"/dev/fd/{out}")) == load(tmp_path / "x.yaml")
    later.join()
    os.close(out)


def test_too_many_values_are_refused_before_they_are_made() -> None:
    """A file of 16 MiB would take two minutes."""
    with pytest.raises(ValueError, match=r"line 1, column .*: has too many values; allowed: at most 100000"):
        bounded_yaml.parse(f"a: [{'x, ' * (5 << 20)}x]")


@pytest.mark.parametrize("hostile", ["a FIFO", "a device without end"])
def test_an_object_file_is_no_such_file(tmp_path: Path, hostile: str) -> None:
    HOSTILE[hostile](tmp_path / "x.bpf.o")
    assert any(
        "x.bpf.o cannot be read: it is no ordinary file" in one for one in bpf.problems("none", tmp_path / "x.bpf.o")
    )


@pytest.mark.parametrize("hostile", ["a FIFO", "a device without end", "nested"])
def test_a_suites_matrix_is_no_such_file(tmp_path: Path, hostile: str) -> None:
    HOSTILE[hostile](tmp_path / files.MATRIX)
    with pytest.raises((OSError, ValueError)):
        suite_matrix.read(tmp_path)


def test_a_nested_record_of_a_run_is_none(tmp_path: Path) -> None:
    HOSTILE["nested"](tmp_path / "run.json")
    assert read_record(tmp_path) == {}
