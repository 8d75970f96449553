# SPDX-License-Identifier: Apache-2.0
"""A user namespace, in which an ordinary user may make networks: this process continues in one.

What is mounted in it, and all networks, end with its last process. Only the user is root in it.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from narrows.errors import InputError
from narrows.hosts.users import OUTSIDE

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWNET = 0x00020000, 0x10000000, 0x40000000  # linux/sched.h
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000  # linux/mount.h
RUN = Path("/run")
# Of a run's own.
OURS = ("netns", "narrows")


def enter() -> None:
    """Become root of a user namespace, with a /run of its own; nothing is done for root. Before there are threads.

    Raises:
        InputError: this machine does not let users have them.
    """
    if os.geteuid() == 0:
        return
    user = os.getuid(), os.getgid()
    try:
        _unshare(*user)
        _replace_run()
    except OSError as error:
        raise InputError(
            f"network namespaces need root, and users may not create their own on this machine ({error.strerror}); "
            "fix: run with sudo, or --virtual with a command"
        ) from None
    os.environ |= {name: str(number) for name, number in zip(OUTSIDE, user, strict=True)}


def _unshare(uid: int, gid: int) -> None:
    _check(ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET))
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
    Path("/proc/self/gid_map").write_text(f"0 {gid} 1")


def _replace_run() -> None:
    """Names of networks and records of runs are below /run; what else programs find there stays."""
    _mount(None, "/", None, MS_REC | MS_PRIVATE)
    before = os.open(RUN, os.O_PATH | os.O_DIRECTORY)
    kept = [path for path in RUN.iterdir() if path.is_dir() and path.name not in OURS]
    _mount("none", str(RUN), "tmpfs", 0)
    for path in kept:
        path.mkdir()
        _mount(f"/proc/self/fd/{before}/{path.name}", str(path), None, MS_BIND | MS_REC)
    os.close(before)


def _mount(source: str | None, target: str, kind: str | None, flags: int) -> None:
    source_, kind_ = (None if text is None else text.encode() for text in (source, kind))
    _check(ctypes.CDLL(None, use_errno=True).mount(source_, target.encode(), kind_, flags, None))


def _check(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
