# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from narrows_formats.storage import replacing, write_json, write_text


def test_a_file_is_replaced_in_one_step_with_the_usual_permissions(tmp_path: Path) -> None:
    path = tmp_path / "summary.json"
    path.write_text("old")
    with replacing(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_text() == "old", "a reader sees the old file until the new one is whole"
    assert path.read_text() == "new"
    umask = os.umask(0o022)
    os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "summary.json"
    path.write_text("old")
    with pytest.raises(RuntimeError), replacing(path) as file:
        file.write(b"half")
        raise RuntimeError
    with pytest.raises(ValueError, match="JSON"):
        write_json(path, {"rate_bps": float("nan")})
    assert [(one, one.read_text()) for one in tmp_path.iterdir()] == [(path, "old")]


KILLED = """
import os, signal, sys
from pathlib import Path
from narrows_formats.storage import replacing
with replacing(Path(sys.argv[1])) as file:
    file.write(b"half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_writer_left_goes_with_the_next_one(tmp_path: Path) -> None:
    path, other = tmp_path / "sweep[1].json", tmp_path / ".sweep1.json.00.unfinished"
    other.write_text("of another file")
    killed = subprocess.run([sys.executable, "-c", KILLED, path])
    assert killed.returncode == -signal.SIGKILL and len([*tmp_path.iterdir()]) == 2
    (tmp_path / f".{path.name}.01.unfinished").symlink_to(other)
    os.mkfifo(tmp_path / f".{path.name}.02.unfinished")
    with replacing(path) as one:
        # One that is being written stays.
        write_text(path, "second")
        one.write(b"first")
    assert path.read_text() == "first"
    names = {file.name for file in tmp_path.iterdir()}
    assert names == {path.name, other.name, f".{path.name}.01.unfinished"} and other.read_text() == "of another file"


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    victim, path = tmp_path / "victim", tmp_path / "report.html"
    victim.write_text("untouched")
    path.symlink_to(victim)
    write_text(path, "page")
    assert not path.is_symlink() and path.read_text() == "page"
    assert victim.read_text() == "untouched"


def test_temporary_names_cannot_be_foreseen(tmp_path: Path) -> None:
    seen = set()
    for _ in range(2):
        with replacing(tmp_path / "run.json"):
            (temporary,) = (one.name for one in tmp_path.iterdir() if one.name.startswith("."))
            seen.add(temporary)
        assert len(temporary) >= len(".run.json.") + 16
    assert len(seen) == 2
