# SPDX-License-Identifier: Apache-2.0
"""As root on behalf of a user: nothing is given away that is not a result, nothing is used that the user planted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from narrows.errors import InputError
from narrows.experiment.loader import load, validate
from narrows.hosts.lab import machines, relay
from narrows.hosts.lab.inventory import Ssh
from narrows.run.results import RunDirectory, give_to_user, make_directory, remove_run, replace_directory
from narrows_formats import beneath

USER = 65534  # nobody, on every Linux
NARROWS = Path(sys.executable).parent / "narrows"
EXPERIMENT = validate(
    {
        "name": "test",
        "bottleneck": {"rate": "100Mbit", "rtt": "40ms", "buffer": "1bdp"},
        "flows": [{"cca": "bbr", "duration": "1s"}],
    },
    "test",
)

pytestmark = pytest.mark.needs("root")  # only root gives files away


@pytest.fixture(autouse=True)
def sudo(monkeypatch: pytest.MonkeyPatch) -> None:
    """As sudo sets it."""
    monkeypatch.setenv("SUDO_UID", str(USER))
    monkeypatch.setenv("SUDO_GID", str(USER))


def owner(path: Path) -> int:
    return path.lstat().st_uid


def test_links_are_neither_followed_nor_given_away(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("root's")
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "file").write_text("root's")
    results = tmp_path / "results"
    (results / "deep").mkdir(parents=True)
    (results / "deep" / "table.parquet").write_text("")
    (results / "symlink").symlink_to(secret)
    (results / "directory").symlink_to(tmp_path / "private")
    os.link(secret, results / "deep" / "hard")
    give_to_user(results)
    given = [results, results / "deep", results / "deep" / "table.parquet"]
    assert [owner(path) for path in given] == [USER] * 3
    kept = [secret, tmp_path / "private", tmp_path / "private" / "file", results / "symlink", results / "directory"]
    assert [owner(path) for path in kept] == [0] * 5
    give_to_user(results / "symlink")
    assert owner(secret) == 0


def test_results_in_the_making_are_out_of_other_users_reach(tmp_path: Path) -> None:
    """Until they are whole only root can write where root writes; then they are the user's as any directory of his."""
    results = RunDirectory(tmp_path / "new" / "result", "abc")
    results.create(EXPERIMENT)
    assert (owner(results.path), results.path.stat().st_mode & 0o777) == (0, 0o700)
    assert owner(tmp_path / "new") == USER
    results.write_run({"status": "complete"})
    final = results.publish()
    assert (owner(final), final.stat().st_mode & 0o777) == (USER, 0o755)
    assert owner(final / "run.json") == USER


def test_the_place_of_results_has_no_way_back_in_it(tmp_path: Path) -> None:
    """Links are followed before '..' is, as the kernel does."""
    (tmp_path / "elsewhere" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere" / "deep")
    assert RunDirectory(tmp_path / "link" / ".." / "run", "abc").final == tmp_path / "elsewhere" / "run"
    assert RunDirectory(tmp_path / "link" / "run", "abc").final == tmp_path / "link" / "run"


@pytest.mark.parametrize("depth", [0, 2])
def test_results_in_the_making_cannot_be_swapped(tmp_path: Path, depth: int) -> None:
    """The owner of the directory for which they are made, or of one above it, cannot put another one in their place."""
    home = tmp_path / "home"
    home.mkdir()
    parent = home.joinpath(*["deep"] * depth)
    parent.mkdir(parents=True, exist_ok=True)
    for directory in {home, parent}:
        os.chown(directory, USER, USER)
    # All above is open to no other user, as /home is.
    for directory in (tmp_path, *tmp_path.parents):
        if directory.stat().st_mode & 0o001 == 0:
            directory.chmod(directory.stat().st_mode | 0o011)
    results = RunDirectory(parent / "result", "abc")
    results.create(EXPERIMENT)
    assert results.path.parent == tmp_path
    swap = f"import os; os.setuid({USER}); os.rename({str(results.path)!r}, {str(home / 'mine')!r})"
    tried = subprocess.run([sys.executable, "-c", swap], capture_output=True, text=True, timeout=60)
    assert "PermissionError" in tried.stderr
    final = results.publish()
    assert (final, owner(final)) == (parent / "result", USER)


def reachable(place: Path) -> None:
    """Let other users come as far as here, as to a home."""
    for directory in (place, *place.parents):
        directory.chmod(directory.stat().st_mode | 0o011)


def as_user(call: str) -> None:
    """A call of `os`, made by the user."""
    subprocess.run([sys.executable, "-c", f"import os; os.setuid({USER}); os.{call}"], check=True, timeout=60)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The user's."""
    made = tmp_path / "home"
    made.mkdir()
    os.chown(made, USER, USER)
    reachable(tmp_path)
    return made


def exchange(mine: Path, other: Path) -> None:
    """By the user: another directory in the place of one of his."""
    as_user(f"rename({str(mine)!r}, {str(mine) + '-before'!r})")
    as_user(f"symlink({str(other)!r}, {str(mine)!r})")


def test_a_file_of_roots_is_not_given_away_in_place_of_a_result(tmp_path: Path, home: Path) -> None:
    """The user exchanges the directory between the writing of a file and its being given away."""
    etc, out = tmp_path / "etc", home / "out"
    etc.mkdir()
    (etc / "shadow").write_text("root's")
    as_user(f"mkdir({str(out)!r})")
    (out / "shadow").write_text("a table")
    exchange(out, etc)
    give_to_user(out / "shadow")
    assert owner(etc / "shadow") == 0
    give_to_user(home / "out-before" / "shadow")
    assert owner(home / "out-before" / "shadow") == USER


def test_a_directory_is_not_made_elsewhere_and_given_away(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user exchanges a directory as soon as it is made."""
    etc = tmp_path / "etc"
    (etc / "shadow").mkdir(parents=True)
    make, done = os.mkdir, list[bool]()

    def then_exchange(path: str, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        make(path, mode, dir_fd=dir_fd)
        if not done and (home / "new").exists():
            done.append(True)
            exchange(home / "new", etc)

    monkeypatch.setattr(os, "mkdir", then_exchange)
    with pytest.raises(OSError, match=r"new|shadow"):
        make_directory(home / "new" / "shadow")
    assert done and owner(etc / "shadow") == 0


def test_results_are_not_published_into_another_directory(tmp_path: Path, home: Path) -> None:
    etc, out = tmp_path / "etc", home / "out"
    etc.mkdir()
    results = RunDirectory(out / "ssh.service.d", "abc")
    results.create(EXPERIMENT)
    exchange(out, etc)
    with pytest.raises(OSError, match="is another directory than it was"):
        results.publish()
    assert list(etc.iterdir()) == [] and (results.path / "experiment.yaml").exists()


def test_a_copied_run_is_made_out_of_the_users_reach(tmp_path: Path, home: Path) -> None:
    """Where the user could put a link in its place, root would write the user's files where the link leads."""
    made = []

    def fill(place: Path) -> None:
        made.append(place)
        assert (owner(place), owner(place.parent), place.stat().st_mode & 0o777) == (0, 0, 0o700)
        (place / "run.json").write_text("{}")

    replace_directory(home / "sweep" / "run", fill)
    assert made[0].parent == tmp_path
    assert owner(home / "sweep" / "run") == owner(home / "sweep" / "run" / "run.json") == USER
    assert (home / "sweep" / "run").stat().st_mode & 0o777 == 0o755
    made[0].mkdir()
    remove_run(home / "sweep" / "run")
    assert not made[0].exists() and not (home / "sweep" / "run").exists()


def test_no_link_is_followed_in_a_run_that_is_copied(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "copy").mkdir()
    (tmp_path / "run" / "run.json").symlink_to("/etc/shadow")
    with pytest.raises(OSError, match="is not an ordinary file"):
        beneath.copy(tmp_path / "run", tmp_path / "copy")
    assert not (tmp_path / "copy" / "run.json").exists()


def test_directories_that_were_there_stay_whose_they_are(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    make_directory(tmp_path / "there" / "one" / "two")
    assert [owner(tmp_path / path) for path in ("there", "there/one", "there/one/two")] == [0, USER, USER]


def test_collect_touches_no_directory_that_is_there(tmp_path: Path) -> None:
    """Neither when it refuses nor otherwise: ``--out /etc`` gave away all of /etc."""
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "passwd").write_text("root's")
    for interface in ("lo", "no-such-interface"):
        command = [str(NARROWS), "collect", "--interface", interface, "--out", str(tmp_path / "etc")]
        refused = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert refused.returncode == 2
        assert "exists already" in refused.stderr
    assert (owner(tmp_path / "etc"), owner(tmp_path / "etc" / "passwd")) == (0, 0)


def test_programs_are_the_systems(tmp_path: Path) -> None:
    """An ``ip`` that comes first on the user's PATH is not started as root."""
    ip = tmp_path / "ip"
    ip.write_text("#!/bin/sh\n")
    ip.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    program = "import shutil; from narrows import cli; cli.app = lambda: print(shutil.which('ip')); cli.main()"
    command = [sys.executable, "-c", program]
    found = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=True).stdout
    assert found.strip() and found.strip() != str(ip)


def test_the_relay_uses_python_without_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ``signal.py`` that lies in the working directory is not run."""
    (tmp_path / "signal.py").write_text(f"open({str(tmp_path / 'run')!r}, 'w')\n")
    command = machines.relayed(["true"])
    assert relay.__name__ in command
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    assert subprocess.run(command, cwd=tmp_path, env=environment, timeout=60).returncode == 0
    assert not (tmp_path / "run").exists()


def test_an_error_shows_nothing_of_a_file_that_is_no_distribution(tmp_path: Path) -> None:
    """The file may be one that only root can read."""
    (tmp_path / "shadow").write_text("root:$6$secret:19000:0:99999:7:::\n")
    (tmp_path / "test.yaml").write_text(
        "name: test\nbottleneck: {rate: 100Mbit, rtt: 40ms, buffer: 1bdp}\n"
        "flows: [{cca: bbr, workload: {load: 0.5, duration: 1s, sizes: {cdf: shadow}}}]\n"
    )
    with pytest.raises(InputError, match="shadow:1: is not two numbers") as refused:
        load(tmp_path / "test.yaml")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("field", ["host", "user", "jump"])
def test_a_name_is_no_option_of_ssh(field: str) -> None:
    with pytest.raises(ValueError, match="would be an option of ssh"):
        Ssh.model_validate({"host": "switch", field: "-oProxyCommand=touch /tmp/x"})
