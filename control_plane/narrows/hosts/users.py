# SPDX-License-Identifier: Apache-2.0
"""The user that programs run as: never root."""

from __future__ import annotations

import os
import subprocess
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
    user = invoking_user()
    words = ["test", "-f", path, "-a", "-x", path]
    return not subprocess.run(words, user=user.uid, group=user.gid, extra_groups=[]).returncode
