# SPDX-License-Identifier: Apache-2.0
"""What is not there for users' programs, or closed to the user that they run as, before anything is made."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from narrows.experiment.plan import Plan
from narrows.flows.program import is_hidden
from narrows.hosts.users import invoking_user, what_forbids
from narrows.onhost import program as on_host
from narrows.onhost.program import Program
from narrows.search_path import SEARCH_PATH
from narrows.traffic.applications import find, named_paths, search_path_of, words_of

MOST_INTERPRETERS = 4  # of scripts that are interpreted by scripts (exec_binprm of Linux)
ENV_RUNS = re.compile(r"[^-=\s][^=\s]*")  # neither an option nor a variable


def missing_programs(plan: Plan, remade: Sequence[Path] = ()) -> list[str]:
    """What this machine lacks for the programs of a plan; one message for each, with its field.

    ``remade`` are directories in which a run makes those above a working directory itself, open to all: a guest's own.
    """
    groups = list(dict.fromkeys(flow.group for flow in plan.flows))
    found = list(_missing_controller(plan, remade))
    for flow in plan.flows:
        if not isinstance(program := flow.payload, Program):
            continue
        field = f"flows.{groups.index(flow.group)}"
        for role, words in words_of(program):
            found += _cannot_run(f"{field}.{role}", words[0], search_path_of(program))
            found += _cannot_read(f"{field}.{role}", words, program.cwd, remade)
        for variable, value in program.env:
            if is_hidden(value):
                found.append(
                    f"{field}.env.{variable}: {value} is what results have in its place; allowed: the value itself"
                )
        if program.cwd is not None:
            found += _cannot_enter(f"{field}.cwd", program.cwd, remade)
    return found


def _missing_controller(plan: Plan, remade: Sequence[Path]) -> Iterator[str]:
    """The same for the controllers of users' P4 programs."""
    for own in (one for one in plan.programs if one.controller):
        yield from _cannot_run(f"{own.field}.controller", own.controller[0], SEARCH_PATH)
        yield from _cannot_read(f"{own.field}.controller", own.controller, str(own.cwd), remade)
        yield from _cannot_enter(f"{own.field}.cwd", str(own.cwd), remade)


def _cannot_run(field: str, program: str, search_path: str) -> Iterator[str]:
    """Why a user cannot run a program, or what a script names as its interpreter."""
    needed = [(field, program)]
    for where, name in needed:
        path = find(name, search_path)
        if path is None:
            yield f"{where}: {_not_executable(name)}"
            continue
        words = on_host.interpreter(path)
        yield from _closed(where, path, "rx" if words else "x", "execute", "/usr/local/bin")
        if len(needed) <= MOST_INTERPRETERS:
            needed += [(f"{field}: interpreter of {path}", one) for one in _interpreters(words)]


def _not_executable(program: str) -> str:
    if "/" in program and os.path.isfile(program):  # noqa: PTH113
        return f"{program} cannot be executed; fix: chmod +x {program}"
    return f"'{program}' is not there, or cannot be executed; allowed: a program"


def _interpreters(words: Sequence[str]) -> Iterator[str]:
    """What a script needs by its first line; `env` searches for another program."""
    yield from words[:1]
    if len(words) > 1 and os.path.basename(words[0]) == "env" and ENV_RUNS.fullmatch(words[1]):  # noqa: PTH119
        yield words[1]


def _cannot_read(field: str, words: Sequence[str], cwd: str | None, remade: Sequence[Path]) -> Iterator[str]:
    """Why a user cannot read files and directories that a command's arguments name."""
    for number, word in enumerate(words[1:], 1):
        for path in named_paths([word], cwd):
            yield from _closed(f"{field}.{number}", str(path), _to_be_read(path), "read", "/srv", _opened(cwd, remade))


def _cannot_enter(field: str, cwd: str, remade: Sequence[Path]) -> Iterator[str]:
    if os.path.isdir(cwd):  # noqa: PTH112
        yield from _closed(field, cwd, "x", "enter", "/srv", _opened(cwd, remade))
    else:
        yield f"{field}: {cwd} is not a directory"


def _to_be_read(path: Path) -> str:
    """Permissions without which nothing is read of a file or directory; none for anything else, or where none is."""
    try:
        mode = path.stat().st_mode
    except PermissionError:
        return "r"
    except (OSError, ValueError):
        return ""
    return "rx" if stat.S_ISDIR(mode) else "r" if stat.S_ISREG(mode) else ""


def _closed(field: str, path: str, wanted: str, use: str, place: str, opened: Collection[Path] = ()) -> Iterator[str]:
    """What keeps the user from what is at a path, and how to open it; directories that are ``opened`` do not."""
    closed = what_forbids(path, wanted) if wanted else None
    if closed is not None and closed.path not in opened:
        yield (
            f"{field}: user {invoking_user().uid}, as which it would run, cannot {use} {path}: {closed.path} is closed "
            f"to it; fix: put it where every user can reach it, as in {place}, or "
            f"'chmod a+{closed.lacks} {closed.path}'"
        )


def _opened(cwd: str | None, remade: Sequence[Path]) -> list[Path]:
    """Directories above a working directory that a run makes itself."""
    above = Path(cwd).parents if cwd else ()
    return [one for one in above if any(one.is_relative_to(memory) for memory in remade)]
