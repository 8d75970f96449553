# SPDX-License-Identifier: Apache-2.0
"""Kernels that guests can boot: those in the user's cache, by name, and any other by its path.

A kernel is one program, which carries its configuration; what it says of itself when it is booted is beside it in the
cache, so that it need not be booted to know its algorithms.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from narrows_formats.file_digest import file_digest
from narrows_formats.storage import write_text

from narrows.errors import InputError, RunError
from narrows.paths import user_cache

DEFAULT = "default"
BUILD, BASE = "narrows kernel build", "--base"
MOST_BASES = 10  # of one kernel; names that were used again may lead round in a circle
IMAGE, DESCRIPTION = "linux", "kernel.json"
TIME_TRAVEL = "CONFIG_UML_TIME_TRAVEL_SUPPORT=y"
VERSION = "Kernel Configuration"  # the end of the line that has it
# Options that are found and not chosen: compiler, assembler, linker and Rust, their versions and what they can do.
TOOLS = re.compile(r"CONFIG_(CC|GCC\d*|CLANG|AS|LD|LLD|RUSTC|PAHOLE|TOOLS)_")
# A reading for each packet of a window is nothing beside its round-trip time.
FINE_STEP_NS = 10
# What a guest does in no time takes some hundred nanoseconds of readings of the clock. Linux as it is lets a call that
# fails take a microsecond, and a hundred flows that begin have a hundred of those.
MOST_STARTS_NS, MOST_LATE_NS, MOST_PACED_OFF = 10_000, 1_000, 1e-4
# Mainline's BBR states no version; later ones do, and a kernel that has both calls the first one bbr1.
UNVERSIONED = {"bbr": "BBRv1", "bbr1": "BBRv1"}


@dataclass(frozen=True)
class About:
    """What a kernel is: ``versions`` are those that its algorithms state, ``config_sha256`` is its `config_digest`, and
    ``image_sha256`` that of the program itself, of which all this is known.

    ``clock_step_ns``: how far time goes on when a process reads the clock, and ``failed_call_ns`` when a system call
    fails, as where there is nothing to read. ``starts_ns``: how long a hundred flows take to begin that begin together;
    ``late_ns``: how late the latest of some timers was; ``paced_ratio``: what a flow carried that it paced, of what it
    was to carry. ``repeatable``: its random numbers come from the seed of a run alone, not from this machine.
    ``launches``: it takes frames ahead of their time by the device that is made for it (launch.c).
    """

    release: str
    image_sha256: str
    config_sha256: str
    ccas: tuple[str, ...]
    versions: dict[str, str]
    clock_step_ns: int
    failed_call_ns: int
    starts_ns: int = 0
    late_ns: int = 0
    paced_ratio: float = 1.0
    repeatable: bool = False
    launches: bool = False

    def cca_names(self) -> list[str]:
        """All algorithms, those with versions as people call them: ``bbr (BBRv3)``."""
        return [f"{name} ({label})" if (label := self.label(name)) else name for name in self.ccas]

    @property
    def flaws(self) -> list[str]:
        """In what runs would measure the kernel, and not what they are of; nothing for one that we adjusted."""
        found = []
        if self.starts_ns > MOST_STARTS_NS:
            found.append(f"a hundred flows that begin together begin over {self.starts_ns / 1000:.4g} us")
        if self.late_ns > MOST_LATE_NS:
            found.append(f"timers are up to {self.late_ns / 1000:.4g} us late")
        if abs(self.paced_ratio - 1) > MOST_PACED_OFF:
            found.append(f"a paced flow carries {self.paced_ratio:.4%} of its rate")
        return found

    def notes(self, command: str) -> list[str]:
        """How it differs from what the ``command`` that built it makes today (`build_command`)."""
        found = [f"{flaw}; fix: {command}" for flaw in self.flaws]
        if not self.repeatable:
            found.append("its random numbers come from this machine too: runs with one seed differ")
        if self.clock_step_ns > FINE_STEP_NS:
            found.append(
                f"reading its clock takes {self.clock_step_ns} ns: hosts that send at tens of Gbit/s delay "
                f"packets; fix: {command}"
            )
        if not self.launches:
            found.append(f"frames reach its hosts by its queues: fast runs take longer; fix: {command}")
        return found

    def label(self, cca: str) -> str:
        """What people call an algorithm whose name in the kernel does not say its version; else empty."""
        if cca.startswith("bbr") and cca in self.versions:
            return f"BBRv{self.versions[cca]}"
        return UNVERSIONED.get(cca, "")


@dataclass(frozen=True)
class Kernel:
    """A User-Mode Linux kernel that can be booted; ``path`` is the program."""

    name: str
    path: Path


def runs() -> Path:
    """Where the records of runs in virtual time are while they live."""
    return user_cache() / "runs"


def directory(name: str) -> Path:
    """Where the kernel of a name is, or would be.

    Raises:
        InputError: no kernel can have that name.
    """
    if not name or name.startswith(".") or "/" in name:
        raise InputError(f"--name {name}: is not a kernel's name; allowed: without '/', and not beginning with '.'")
    return user_cache() / "kernels" / name


def workshop(name: str) -> Path:
    """Where a kernel is built: its tree and its objects."""
    return user_cache() / "build" / name


def installed() -> list[Kernel]:
    """All kernels in the cache by name, the default one first."""
    found = [Kernel(path.parent.name, path) for path in (user_cache() / "kernels").glob(f"[!.]*/{IMAGE}")]
    return sorted(found, key=lambda kernel: (kernel.name != DEFAULT, kernel.name))


def find(name: str) -> Kernel:
    """A kernel by its name in the cache, or by the path of its program.

    Raises:
        InputError: there is none, or it has no virtual time.
    """
    if "/" in name:
        kernel = Kernel(Path(name).name, Path(name).absolute())
        if not kernel.path.is_file() or not os.access(kernel.path, os.X_OK):
            raise InputError(f"--kernel {name}: is not a program; allowed: a kernel's name, or the path of a kernel")
    else:
        kernel = Kernel(name, directory(name) / IMAGE)
        if not kernel.path.exists():
            have = ", ".join(one.name for one in installed())
            others = f"built are: {have}; " if have else ""
            raise InputError(f"--kernel {name}: no such kernel is built; {others}fix: {build_command(kernel)}")
    if TIME_TRAVEL not in configuration(kernel).splitlines():
        option = TIME_TRAVEL.partition("=")[0]
        raise InputError(f"--kernel {name}: has no virtual time ({option} is not set); fix: narrows kernel build")
    return kernel


def build_command(kernel: Kernel) -> str:
    """The command that builds a kernel as it was built last, even if it was removed since then, for a message."""
    if not _is_in_cache(kernel):
        return BUILD
    # Without what they were, it would be a stock kernel under the name of another one.
    return _recorded(kernel.name) or f"{BUILD} --name {kernel.name}, with its --source, --patch, --config or --cca"


def built_by(kernel: Kernel) -> str | None:
    """The commands, as one line for a shell, that build a kernel from nothing: its base before itself.

    None if one of them was not recorded.
    """
    commands: list[str] = []
    name: str | None = kernel.name if _is_in_cache(kernel) else None
    while name is not None and len(commands) < MOST_BASES:
        if (command := _recorded(name)) is None:
            return None
        commands.insert(0, command)
        words = shlex.split(command)
        name = words[words.index(BASE) + 1] if BASE in words[:-1] else None
    return " && ".join(commands) or None


def _recorded(name: str) -> str | None:
    """The command that built the kernel of a name last; the default one is as it comes if nothing else was recorded."""
    try:
        return _recipe(name).read_text(encoding="utf-8")
    except OSError:
        return BUILD if name == DEFAULT else None


def command_of(name: str, options: Iterable[tuple[str, str]]) -> str:
    """The command that builds a kernel of that name with these options."""
    return shlex.join([*BUILD.split(), *(() if name == DEFAULT else ("--name", name)), *chain.from_iterable(options)])


def remember_build(name: str, options: Iterable[tuple[str, str]]) -> None:
    """Write down how a kernel is built: by which options, its name left out."""
    _recipe(name).parent.mkdir(parents=True, exist_ok=True)
    write_text(_recipe(name), command_of(name, options))


def _recipe(name: str) -> Path:
    return user_cache() / "kernel-recipes" / name


def remove(name: str) -> None:
    """Remove a kernel from the cache.

    Raises:
        InputError: there is none of that name.
    """
    place = directory(name)
    if not place.is_dir():
        have = ", ".join(one.name for one in installed()) or "none"
        raise InputError(f"kernel {name}: is not built; allowed: {have}")
    shutil.rmtree(place)
    shutil.rmtree(workshop(name), ignore_errors=True)


def configuration(kernel: Kernel) -> str:
    """The configuration that a kernel was built with, as it says itself.

    Raises:
        InputError: it is not a User-Mode Linux for this machine.
    """
    try:
        answer = subprocess.run([kernel.path, "--showconfig"], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError) as error:
        raise InputError(f"--kernel {kernel.path}: cannot be identified: {error}") from error
    if answer.returncode != 0 or "CONFIG_UML=y" not in answer.stdout:
        raise InputError(f"--kernel {kernel.path}: is not a User-Mode Linux kernel; fix: narrows kernel build")
    return answer.stdout


def config_digest(kernel: Kernel) -> str:
    """SHA-256 of a kernel's configuration, without what it says of compilers: in virtual time they decide nothing."""
    return digest_of(configuration(kernel))


def digest_of(options: str) -> str:
    """SHA-256 of a source's version and options, in the order of their names, without what it was built with."""
    lines = [line for line in options.splitlines() if line.startswith("CONFIG_") or line.endswith(VERSION)]
    return hashlib.sha256("\n".join(sorted(line for line in lines if not TOOLS.match(line))).encode()).hexdigest()


def remembered(kernel: Kernel) -> About | None:
    """What is known of a kernel from when it was booted first; None if that was another image."""
    try:
        data: dict[str, Any] = json.loads(_memory(kernel).read_text())
        known = About(**{**data, "ccas": tuple(data["ccas"])})
        # Other versions of Narrows asked a kernel for other things.
        is_whole = data.keys() == asdict(known).keys()
        return known if is_whole and known.image_sha256 == file_digest(kernel.path) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def remember(kernel: Kernel, about: About) -> None:
    """Write down what a kernel is.

    Raises:
        RunError: it cannot be written.
    """
    memory = _memory(kernel)
    try:
        memory.parent.mkdir(parents=True, exist_ok=True)
        write_text(memory, json.dumps(asdict(about), indent=2) + "\n")
    except OSError as error:
        raise RunError(f"{memory}: cannot be written: {error.strerror}") from error


def _is_in_cache(kernel: Kernel) -> bool:
    return kernel.path.parent.parent == user_cache() / "kernels"


def _memory(kernel: Kernel) -> Path:
    if _is_in_cache(kernel):
        return kernel.path.parent / DESCRIPTION
    return user_cache() / "known-kernels" / f"{file_digest(kernel.path)}.json"
