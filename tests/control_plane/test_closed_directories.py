# SPDX-License-Identifier: Apache-2.0
"""What keeps the user of programs from executing one is named: a directory, also behind links, or the file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from narrows.hosts.users import can_execute, what_forbids

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
    assert can_execute(str(path))
    (reachable / "a" / "b").chmod(0o700)
    assert what_forbids(str(path)) == reachable / "a" / "b"
    (reachable / "a").chmod(0o700)
    assert what_forbids(str(path)) == reachable / "a"


def test_so_is_one_behind_links(reachable: Path) -> None:
    program(reachable / "closed" / "bin" / "run")
    (reachable / "closed").chmod(0o700)
    (reachable / "open").mkdir(mode=0o755)
    (reachable / "open" / "bin").symlink_to("../closed/bin")
    (reachable / "run").symlink_to(reachable / "open" / "bin" / "run")
    assert not can_execute(str(reachable / "run"))
    assert what_forbids(str(reachable / "run")) == reachable / "closed"


def test_so_is_a_file_that_is_for_others(reachable: Path) -> None:
    assert what_forbids(str(program(reachable / "run", 0o700))) == reachable / "run"
