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
_ACCESS = {"r": os.R_OK, "x": os.X_OK}


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


class Closed(NamedTuple):
    """What is closed to a user, and the permissions that would open it, as `chmod` writes them."""

    path: Path
    lacks: str


def what_forbids(path: str, wanted: str = "x") -> Closed | None:
    """What keeps the invoking user from a file or directory, and None if nothing does.

    Args:
        path: what root finds may be out of the user's reach.
        wanted: permissions, as ``chmod`` writes them: ``x`` to execute it or enter it, ``rx`` to read a directory.

    Returns:
        A directory on the way there, symbolic links followed, or the file itself.
    """
    if _may(path, wanted):
        return None
    *directories, last = list(_way_to(path)) or [Path(path)]
    return next((Closed(one, "x") for one in directories if not _may(str(one), "x")), Closed(last, wanted))


def _way_to(path: str) -> Iterator[Path]:
    """Directories that lead to a file, in order, and the file; symbolic links are replaced by what they name."""
    at, rest = Path("/"), list(reversed(Path(path).absolute().parts[1:]))
    while rest:
        part = rest.pop()
        if part == "..":
            at = at.parent
        elif os.path.islink(at / part):  # noqa: PTH114  (also where it cannot be looked at)
            target = (at / part).readlink()
            rest += [one for one in reversed(target.parts) if one != target.anchor]
            at = Path("/") if target.is_absolute() else at
        else:
            at /= part
            yield at


def _may(path: str, wanted: str) -> bool:
    """Whether the invoking user has some permissions for what is at a path."""
    if os.geteuid() != 0 or in_user_namespace():
        return os.access(path, sum(_ACCESS[one] for one in wanted))
    user = invoking_user()
    tests = [word for one in wanted for word in ("-a", f"-{one}", path)][1:]
    return not subprocess.run(["test", *tests], user=user.uid, group=user.gid, extra_groups=[]).returncode
