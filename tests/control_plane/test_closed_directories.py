# SPDX-License-Identifier: Apache-2.0
"""What keeps the user of programs from executing one is named: a directory, also behind links, or the file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from narrows.experiment.loader import validate
from narrows.experiment.planning import make_plan
from narrows.hosts.users import APPLICATION_ID, Closed, what_forbids
from narrows.traffic.missing_programs import missing_programs

pytestmark = pytest.mark.needs("root")


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A directory that every user can enter; pytest closes those above its own."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def program(path: Path, mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)
    return path


def test_the_first_closed_directory_is_named(reachable: Path) -> None:
    path = program(reachable / "a" / "b" / "run")
    assert what_forbids(str(path)) is None
    (reachable / "a" / "b").chmod(0o700)
    assert what_forbids(str(path)) == Closed(reachable / "a" / "b", "x")
    (reachable / "a").chmod(0o700)
    assert what_forbids(str(path)) == Closed(reachable / "a", "x")


def test_so_is_one_behind_links(reachable: Path) -> None:
    program(reachable / "closed" / "bin" / "run")
    (reachable / "closed").chmod(0o700)
    (reachable / "open").mkdir(mode=0o755)
    (reachable / "open" / "bin").symlink_to("../closed/bin")
    (reachable / "run").symlink_to(reachable / "open" / "bin" / "run")
    assert what_forbids(str(reachable / "run")) == Closed(reachable / "closed", "x")


def test_so_is_a_file_that_is_for_others(reachable: Path) -> None:
    assert what_forbids(str(program(reachable / "run", 0o700))) == Closed(reachable / "run", "x")


def problems(*client: str, remade: tuple[Path, ...] = (), **fields: object) -> list[str]:
    """What is said of a client before it runs."""
    bottleneck = {"rate": "10Mbit", "buffer": "1bdp", "rtt": "20ms"}
    group = {"client": list(client), **fields}
    plan = make_plan(validate({"name": "x", "bottleneck": bottleneck, "flows": [group]}, "x"))
    return missing_programs(plan, remade)


def closed(field: str, use: str, path: Path, what: Path, mode: str, place: str = "/srv") -> str:
    return (
        f"flows.0.{field}: user {APPLICATION_ID}, as which it would run, cannot {use} {path}: {what} is closed to it; "
        f"fix: put it where every user can reach it, as in {place}, or 'chmod a+{mode} {what}'"
    )


def test_an_argument_that_its_user_cannot_read_is_named_with_what_closes_it(reachable: Path) -> None:
    script = program(reachable / "closed" / "client.py")
    assert problems("python3", str(script), f"--log={script}", "-u") == []
    (reachable / "closed").chmod(0o700)
    expected = closed("client.1", "read", script, reachable / "closed", "x")
    assert problems("python3", str(script)) == [expected]
    option = closed("client.2", "read", script, reachable / "closed", "x")
    assert problems("python3", "-u", f"--script={script}") == [option]
    listed = closed("client.1", "read", reachable / "closed", reachable / "closed", "rx")
    assert problems("ls", str(reachable / "closed")) == [listed]
    (reachable / "closed").chmod(0o755)
    script.chmod(0o600)
    assert problems("python3", str(script)) == [closed("client.1", "read", script, script, "r")]
    relative = closed("client.1", "read", script, script, "r")
    assert problems("python3", "client.py", cwd=str(reachable / "closed")) == [relative]


def test_so_is_a_working_directory_that_its_user_cannot_enter(reachable: Path) -> None:
    (reachable / "closed").mkdir(mode=0o700)
    (problem,) = problems("true", cwd=str(reachable / "closed"))
    assert problem == closed("cwd", "enter", reachable / "closed", reachable / "closed", "x")


def test_what_a_guest_makes_itself_above_a_working_directory_closes_nothing(reachable: Path) -> None:
    script = program(reachable / "closed" / "own" / "client.py")
    script.parent.parent.chmod(0o700)
    words, cwd = ("python3", "client.py"), str(script.parent)
    here = (closed("client.1", "read", script, reachable / "closed", "x"),
            closed("cwd", "enter", script.parent, reachable / "closed", "x"))  # fmt: skip
    assert problems(*words, cwd=cwd) == [*here]
    assert problems(*words, cwd=cwd, remade=(reachable,)) == []
    assert problems(*words, cwd=cwd, remade=(script.parent,)) == [*here]


def test_so_is_the_interpreter_of_a_script(reachable: Path) -> None:
    own, script = program(reachable / "bin" / "sh"), program(reachable / "run")
    script.write_text(f"#! {own} -e\n")
    assert problems(str(script)) == []
    own.parent.chmod(0o700)
    where = f"client: interpreter of {script}"
    assert problems(str(script)) == [closed(where, "execute", own, own.parent, "x", "/usr/local/bin")]
    script.write_text("#!/usr/bin/python3\r\n")
    missing = "is not there, or cannot be executed; allowed: a program"
    assert problems(str(script)) == [f"flows.0.{where}: '/usr/bin/python3\r' {missing}"]
    script.write_text("#!/usr/bin/env no-such-python\n")
    assert problems(str(script)) == [f"flows.0.{where}: 'no-such-python' {missing}"]
    script.write_text("#!/usr/bin/env -S sh -e\n")
    assert problems(str(script)) == []


def test_a_script_must_be_readable_and_a_program_need_not_be(reachable: Path) -> None:
    script = program(reachable / "run", 0o711)
    assert problems(str(script)) == [closed("client", "execute", script, script, "rx", "/usr/local/bin")]
    script.write_bytes(b"\x7fELF")
    assert problems(str(script)) == []


def test_scripts_that_interpret_each_other_end(reachable: Path) -> None:
    script = program(reachable / "run")
    script.write_text(f"#!{script}\n")
    assert problems(str(script)) == []
