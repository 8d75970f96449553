# SPDX-License-Identifier: Apache-2.0
"""Drop root privileges and run a script as user ``nobody``: ``unprivileged.py SCRIPT ARGUMENT...``.

Only the standard library is used. Kept is CAP_NET_ADMIN, without which a socket may only use the congestion controls
that every user may (net.ipv4.tcp_allowed_congestion_control). The script and all that it imports are read before, and
what its function ``load`` imports for the arguments, if it has one.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import sys
from pathlib import Path

NOBODY = 65534
# linux/prctl.h, linux/capability.h
PR_SET_KEEPCAPS, PR_SET_NO_NEW_PRIVS = 8, 38
CAPABILITY_VERSION_3 = 0x20080522
CAP_NET_ADMIN = 12


def become_nobody() -> None:
    """Give up root, but for CAP_NET_ADMIN, for good.

    Raises:
        OSError: the kernel refuses.
    """
    library = ctypes.CDLL(None, use_errno=True)

    def check(result: int) -> None:
        if result != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    check(library.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    check(library.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0))
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    kept = 1 << CAP_NET_ADMIN
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    # Effective, permitted, inheritable; lower halves first.
    check(library.capset(header, (ctypes.c_uint32 * 6)(kept, kept, 0, 0, 0, 0)))


def main(script: str, arguments: list[str]) -> None:
    """Run the script as ``__main__``."""
    code = compile(Path(script).read_text(encoding="utf-8"), script, "exec")
    # What it imports stays imported, since that user may not reach its files; so does what its `load` imports.
    defined = runpy.run_path(script, run_name="imported")
    if "load" in defined:
        defined["load"](*arguments)
    "localhost".encode("idna")
    become_nobody()
    sys.argv = [script, *arguments]
    # Classes of a module that is not known are not found again, by dataclasses for one.
    sys.modules["__main__"].__dict__.update(__name__="__main__", __file__=script)
    exec(code, sys.modules["__main__"].__dict__)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
