# SPDX-License-Identifier: Apache-2.0
"""The user that programs run as: never root."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

# UID of applications when root starts Narrows without sudo. It differs from that of `nobody`, which our own processes
# run as, so that applications cannot signal or trace them. A guest's kernel identifies applications by this GID.
APPLICATION_ID = 65533
SUDO = ("SUDO_UID", "SUDO_GID")
# Set where every user is root for themselves only (`narrows.hosts.user_namespace`): the real user.
OUTSIDE = ("NARROWS_UID", "NARROWS_GID")


class User(NamedTuple):
    """A user and a group, by number."""

    uid: int
    gid: int


def invoking_user() -> User:
    """Who asked for a run: under sudo who called it; for root itself a user who owns nothing."""
    if os.geteuid() != 0:
        return User(os.geteuid(), os.getegid())
    uid, gid = (os.environ.get(name, "") for name in (OUTSIDE if in_user_namespace() else SUDO))
    if uid.isdecimal() and gid.isdecimal() and int(uid):
        return User(int(uid), int(gid))
    return User(APPLICATION_ID, APPLICATION_ID)


def in_user_namespace() -> bool:
    """Whether root is an ordinary user outside: there is no other user to become then."""
    return all(name in os.environ for name in OUTSIDE)


def as_environment() -> dict[str, str]:
    """What tells `invoking_user` the same where every process is root, as in a guest."""
    return {name: str(number) for name, number in zip(SUDO, invoking_user(), strict=True)}


def can_execute(path: str) -> bool:
    """Whether the invoking user can execute a file: directories above it may be out of reach."""
    if os.geteuid() != 0:
        return os.access(path, os.X_OK)
    if in_user_namespace():
        return os.access(path, os.X_OK)
    return _holds("test", "-f", path, "-a", "-x", path)


def what_forbids(path: str) -> Path:
    """What keeps the invoking user from executing a file that root finds: a directory on the way there, symbolic links
    followed, or the file itself."""
    return next((one for one in _way_to(path) if not _holds("test", "-x", str(one))), Path(path))


def _way_to(path: str) -> Iterator[Path]:
    """Directories that lead to a file, in order, and the file; symbolic links are replaced by what they name."""
    at, rest = Path("/"), list(reversed(Path(path).absolute().parts[1:]))
    while rest:
        part = rest.pop()
        if part == "..":
            at = at.parent
        elif (at / part).is_symlink():
            target = (at / part).readlink()
            rest += [one for one in reversed(target.parts) if one != target.anchor]
            at = Path("/") if target.is_absolute() else at
        else:
            at /= part
            yield at


def _holds(*test: str) -> bool:
    user = invoking_user()
    return not subprocess.run(test, user=user.uid, group=user.gid, extra_groups=[]).returncode
