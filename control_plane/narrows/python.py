# SPDX-License-Identifier: Apache-2.0
"""How our own Python programs are started, here, in guests and on other machines: always isolated.

Root may run them on behalf of a user: neither the working directory nor variables of the user's environment may say
which modules are imported. A test allows no other way.
"""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import narrows_formats

import narrows

OWN = [Path(package.__path__[0]) for package in (narrows, narrows_formats)]
"""The packages that a guest runs."""
ELSEWHERE = "python3"
"""What other machines of a testbed need."""
# https://docs.python.org/3/using/cmdline.html#envvar-PYTHONSAFEPATH: leave the working directory out of sys.path.
SAFE_PATH = "PYTHONSAFEPATH"
_RUN = (
    "import runpy, sys; del sys.argv[0]; sys.path += sys.argv.pop(0).split(':'); "
    "runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
)


def script(path: Path | str, *words: str) -> list[str]:
    """The command that runs a file which needs the standard library only.

    Without a look at the installed packages (-S), which takes longer than all the rest of the start.
    """
    return [sys.executable, "-IS", str(path), *words]


def module(name: str, *words: str) -> list[str]:
    """The command that runs a module of an installed package, which finds the packages that are installed."""
    return [sys.executable, "-I", "-c", _RUN, places(), name, *words]


def in_guest(*words: str) -> list[str]:
    """The words of a guest's first process that is Python, whose PYTHONPATH is `places`: ``-m`` and a module's name."""
    return [sys.executable, "-PsS", *words]


def elsewhere(*words: str) -> list[str]:
    """The command that runs a file, or code after ``-c``, on another machine."""
    return [ELSEWHERE, "-I", *words]


def places() -> str:
    """Where Python finds modules, as PYTHONPATH: finding that out in a guest takes longer than Python's own start.

    Only what is installed, and not all that this process finds: where it was started must not change what it starts.
    Targets of other distributions may be installed elsewhere.
    """
    from narrows_formats import plugins  # a guest, which has no use for it, would wait for what this imports

    roots = [*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])]
    roots += map(str, plugins.places(plugins.TARGETS))
    found = [each for root in map(Path, roots) if root.is_dir() for each in (root, *_named_in(root))]
    return ":".join(dict.fromkeys(str(each) for each in (*(package.parent for package in OWN), *found)))


def _named_in(place: Path) -> list[Path]:
    """The directories that path files of a directory of packages name (https://docs.python.org/3/library/site.html)."""
    lines = [line for file in sorted(place.glob("*.pth")) for line in file.read_text().splitlines()]
    return [place / line for line in lines if line and not line.startswith("#") and (place / line).is_dir()]


@contextmanager
def by_libraries() -> Iterator[None]:
    """While it lasts, the Pythons that the standard library starts (multiprocessing) ignore the working directory."""
    before = os.environ.get(SAFE_PATH)
    os.environ[SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[SAFE_PATH]
        else:
            os.environ[SAFE_PATH] = before
