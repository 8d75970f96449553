# SPDX-License-Identifier: Apache-2.0
"""The directory of one run: written under a hidden name, renamed when it is complete."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from narrows_formats import files, storage

from narrows.errors import InputError

if TYPE_CHECKING:
    from narrows.experiment.model import Experiment

# What a rename says of a name that is a directory with something in it, or a file.
TAKEN = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)
# What ends a run is written even where the disk is full by then: run.json, and tables of a megabyte or so.
RESERVED, RESERVED_BYTES = ".reserved", 1 << 20


def default_directory(name: str) -> Path:
    """``results/<name>-<UTC time>`` in the working directory, with a number if that is there already."""
    wanted = Path("results") / f"{name}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    return next(path for path in _numbered(wanted) if not path.exists())


def _numbered(path: Path) -> Iterator[Path]:
    """A name, and then the same with numbers from 2 on."""
    yield path
    for number in itertools.count(2):
        yield path.with_name(f"{path.name}-{number}")


def check_free(path: Path) -> None:
    """Results never overwrite results.

    Raises:
        InputError: the directory is there already, or cannot be made.
    """
    if path.exists():
        raise InputError(f"--out {path}: exists already; allowed: a directory that does not exist")
    parent = next(parent for parent in path.absolute().parents if parent.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise InputError(f"--out {path}: {parent} cannot be written; allowed: a directory in one that can")


class RunDirectory:
    """Unfinished results of one run."""

    def __init__(self, final: Path, run_id: str) -> None:
        """``final`` is where the results will be; until `publish` they are in a hidden directory beside it.

        Under sudo that is one that only root can rename, even where the user owns what is around it.
        """
        final = final.absolute()
        self.final = final.parent.resolve() / final.name if ".." in final.parts else final
        place = self.final.parent if _user() is None else out_of_reach(self.final.parent)
        self.path = place / f".{self.final.name}.{run_id}.unfinished"

    def create(self, experiment: Experiment) -> None:
        """Make the directory, with room for what is written last, and write down the resolved experiment."""
        import yaml  # the measurement, perhaps elsewhere, does not need it

        make_directory(self.final.parent)
        self._parent = _identity(self.final.parent)
        # No other user can plant anything where we write, as root perhaps: it becomes the user's when it is whole.
        self.path.mkdir(mode=0o700)
        text = yaml.safe_dump(experiment.as_stored(), sort_keys=False, allow_unicode=True)
        storage.write_text(self.path / files.EXPERIMENT, text)
        storage.reserve(self.path / RESERVED, RESERVED_BYTES)

    def use_reserved(self) -> None:
        """Give up the room for what is written last: that comes now."""
        (self.path / RESERVED).unlink(missing_ok=True)

    @property
    def telemetry(self) -> Path:
        """Where the collector writes."""
        return self.path / files.TELEMETRY

    @property
    def hosts(self) -> Path:
        """Where the traffic tools' own results go."""
        return self.path / files.HOSTS

    @property
    def reports_stream(self) -> Path:
        """Where reports are read from while they come in, until the end of the measurement."""
        return self.path / "reports.arrows"

    def write_run(self, data: Mapping[str, object]) -> None:
        """Write run.json."""
        storage.write_json(self.path / files.RUN, data)

    def publish(self) -> Path:
        """Give the directory its name, and, under sudo, its files to the user who asked for them.

        If another run, begun at the same moment, has taken the name, it gets that with a number.

        Raises:
            OSError: it cannot be renamed, or its name would lead into another directory than it did at the beginning.
        """
        self.path.chmod(0o777 & ~_umask())
        give_to_user(self.path)
        with _opened(self.final.parent) as place:
            if _identity(place) != self._parent:
                raise OSError(errno.ESTALE, f"{self.final.parent} is another directory than it was", self.final)
            for path in _numbered(self.final):
                try:
                    os.rename(self.path, path.name, dst_dir_fd=place)
                except OSError as error:
                    if error.errno not in TAKEN:
                        raise
                else:
                    return path
        raise AssertionError("numbers do not end")


def make_directory(path: Path) -> None:
    """Make a directory and its parents where there are none; under sudo, new ones belong to the user who asked."""
    there = next(parent for parent in (path, *path.parents) if parent.exists())
    with contextlib.ExitStack() as above:
        place = above.enter_context(_opened(there))
        for name in path.relative_to(there).parts:
            # What somebody else makes meanwhile is taken as it is; a link is refused.
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, dir_fd=place)
                _hand_over(name, place)
            place = above.enter_context(_opened(name, place))


def replace_directory(directory: Path, fill: Callable[[Path], object]) -> None:
    """Make a directory, have ``fill`` put files into it, then give it its name, in place of an existing one.

    A process that is killed meanwhile leaves it under its temporary name, which `remove_run` removes.
    """
    remove_run(directory)
    make_directory(directory.parent)
    unfinished = _unfinished(directory)
    unfinished.mkdir(mode=0o700)
    fill(unfinished)
    unfinished.chmod(0o777 & ~_umask())
    with _opened(directory.parent) as place:
        os.rename(unfinished, directory.name, dst_dir_fd=place)
    give_to_user(directory)


def remove_run(directory: Path) -> None:
    """Remove a run's directory, if there is one, and what `replace_directory` left of it."""
    for old in (directory, _unfinished(directory)):
        if old.exists():
            shutil.rmtree(old)


def _unfinished(directory: Path) -> Path:
    """Where a directory is made: under sudo where the user cannot put another one in its place."""
    parent = directory.absolute().parent
    if _user() is None or (place := out_of_reach(parent)) == parent:
        return directory.with_name(directory.name + ".partial")
    told_apart = hashlib.sha256(bytes(parent)).hexdigest()[:12]
    return place / f".{directory.name}.{told_apart}.partial"


def give_to_user(path: Path) -> None:
    """Under sudo, make the user who asked for a result the owner of a file, or of a directory and all in it.

    Links are neither followed nor given away, symbolic or hard: who can write to the directory may have planted them.
    Nothing is given away but in a directory of the user's, or in one that only root can put there: it may have been
    exchanged for another one.
    """
    if (user := _user()) is None:
        return
    parent = path.absolute().parent
    with _opened(parent) as place:
        # The path as it is written, and as links of root's make it.
        resolved = parent.resolve()
        fixed = all(map(_is_roots, {parent, *parent.parents, resolved, *resolved.parents}))
        if os.fstat(place).st_uid != user[0] and not fixed:
            return
        _hand_over(path.name, place)
        with contextlib.suppress(NotADirectoryError):  # a file, or a link
            for _, directories, names, descriptor in os.fwalk(path.name, follow_symlinks=False, dir_fd=place):
                for name in (*directories, *names):
                    _hand_over(name, descriptor)


def _hand_over(name: str, directory: int) -> None:
    """Give an entry of a directory away, by a descriptor of it, under sudo."""
    if (user := _user()) is None:
        return
    try:
        found = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    except OSError:  # a symbolic link, a socket, or gone
        return
    try:
        status = os.fstat(found)
        if stat.S_ISDIR(status.st_mode) or (stat.S_ISREG(status.st_mode) and status.st_nlink == 1):
            os.fchown(found, *user)
    finally:
        os.close(found)


@contextlib.contextmanager
def _opened(directory: Path | str, place: int | None = None) -> Iterator[int]:
    """A descriptor of a directory; of an entry of ``place`` that is a link there is none."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | (0 if place is None else os.O_NOFOLLOW)
    number = os.open(directory, flags, dir_fd=place)
    try:
        yield number
    finally:
        os.close(number)


def _identity(directory: Path | int) -> tuple[int, int]:
    """What tells a directory from any other one that is there at the same time."""
    found = os.stat(directory)  # noqa: PTH116
    return found.st_dev, found.st_ino


def _user() -> tuple[int, int] | None:
    """User and group that root works for under sudo."""
    user, group = os.environ.get("SUDO_UID"), os.environ.get("SUDO_GID")
    return None if os.geteuid() != 0 or user is None or group is None else (int(user), int(group))


def out_of_reach(directory: Path) -> Path:
    """The nearest directory at or above this one in which only root renames what is root's, on the same file system.

    If there is none, this one: its owner can then put another one in the place of a directory of root's.
    """
    parents = [parent for parent in (directory.resolve(), *directory.resolve().parents) if parent.exists()]
    for position, parent in enumerate(parents):
        if parent.stat().st_dev == parents[0].stat().st_dev and all(map(_is_roots, parents[position:])):
            return parent
    return directory


def _is_roots(directory: Path) -> bool:
    """Whether what is root's in a directory stays: it is root's, and others cannot write to it or it is sticky."""
    found = directory.stat()
    shared = bool(found.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
    return found.st_uid == 0 and (not shared or bool(found.st_mode & stat.S_ISVTX))


def _umask() -> int:
    """The mask of new files' modes; there is no call that only asks for it."""
    return int(re.search(r"^Umask:\s*(\d+)", Path("/proc/self/status").read_text(), re.MULTILINE)[1], 8)  # type: ignore[index]
