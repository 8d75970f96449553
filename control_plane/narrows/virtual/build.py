# SPDX-License-Identifier: Apache-2.0
"""Builds a kernel for guests from any Linux source and the user's patches, with our configuration."""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from narrows_formats.units import duration_in_words

from narrows.errors import InputError, RunError
from narrows.hosts.process import piped
from narrows.virtual import kernels, origin, sources
from narrows.virtual.adjustments import adjust, adjusted
from narrows.virtual.kernels import IMAGE, About, Kernel, directory, remember, remember_build
from narrows.virtual.origin import Origin
from narrows.virtual.probing import boot

FRAGMENT = Path(__file__).with_name("kernel.config")
# Command and the Debian package that has it.
TOOLS = {"gcc": "gcc", "make": "make", "flex": "flex", "bison": "bison", "bc": "bc", "tar": "tar", "xz": "xz-utils",
         "patch": "patch", "ld": "binutils"}  # fmt: skip
ROOM_BYTES = 3 << 30
# A string in quotation marks has no line's end or another mark in it.
OPTION = re.compile(r'CONFIG_\w+=(y|n|-?\d+|0x[0-9a-fA-F]+|"[^"\n]*")', re.ASCII)
ALGORITHM = re.compile(r"^config (TCP_CONG_\w+)", re.MULTILINE)
ARCHITECTURE = "ARCH=um"
# What unpacking, compiling and booting took: four minutes on two processors.
PROCESSOR_MINUTES = 8
OPTIONAL = "# Where the source has them"
# In a workshop.
TREE, OUTPUT, LOG, CONFIGURATION = "tree", "output", "build.log", ".config"
LOG_LINES = 15
# The same source, configuration and compiler make the same image, whenever and however often.
SAME_IMAGE = {
    **dict.fromkeys(("KBUILD_BUILD_USER", "KBUILD_BUILD_HOST"), "narrows"),
    "KBUILD_BUILD_TIMESTAMP": "1970-01-01 00:00:00 UTC",
    "KBUILD_BUILD_VERSION": "1",
}
COMPILER_ERROR = re.compile(r":\d+: (fatal )?error: |undefined reference to ")
COMPILED = "  CC "
COMPILES = re.compile(rf"echo '{COMPILED} ")
SAY_EVERY_S = 10.0


def problems() -> list[str]:
    """What this machine lacks to build a kernel, with how to get it."""
    packages = sorted({package for tool, package in TOOLS.items() if shutil.which(tool) is None})
    if not packages:
        return []
    return [f"a kernel cannot be built without {', '.join(packages)}; fix: apt-get install {' '.join(packages)}"]


def build(
    name: str,
    source: Path | None,
    patches: Sequence[Path],
    jobs: int,
    say: Callable[[str], None],
    options: Sequence[str] = (),
) -> tuple[Kernel, About]:
    """Build a kernel, check that it works here, and put it into the cache, in place of any with the same name.

    Args:
        name: in the cache.
        source: a tree or an archive; None for the distribution's.
        patches: applied to it, in order.
        jobs: compilers at once.
        say: progress.
        options: lines of a configuration, over those that every guest has; the last of several for one name holds.

    Raises:
        InputError: it cannot be built from this.
        RunError: it cannot be built, or does not work.
    """
    if lacks := problems():
        raise InputError("\n".join(lacks))
    directory(name)  # no kernel can have some names
    chosen = _by_name(options)
    if source is not None:
        sources.check(source)
    for patch in patches:
        if not patch.is_file():
            raise InputError(f"--patch {patch}: is not there; allowed: a patch file (diff -u, git format-patch)")
    with in_workshop(name) as place:
        if (free := shutil.disk_usage(place).free) < ROOM_BYTES:
            raise InputError(
                f"{place}: has {free >> 20} MB left; a build takes {ROOM_BYTES >> 20} MB; fix: $XDG_CACHE_HOME"
            )
        _empty(place)
        minutes = math.ceil(PROCESSOR_MINUTES / jobs)
        say(f"takes about {minutes} {'minutes' if minutes > 1 else 'minute'} on idle processors (--jobs {jobs})")
        try:
            used = origin.inputs(patches)
            made, given = _make(place, source, patches, jobs, say, chosen)
            origin.write(made, Origin(source=given, patches=used, config=tuple(options)))
            kernel, found = install(name, made, say)
        except BaseException:
            _empty(place)
            raise
    # Files by paths that are right wherever the command is given the next time.
    remember_build(
        name,
        [
            *(("--source", str(one.absolute())) for one in [source] if one is not None),
            *(("--patch", str(one.absolute())) for one in patches),
            *(("--config", option) for option in options),
        ],
    )
    return kernel, found


def in_workshop(name: str) -> AbstractContextManager[Path]:
    """Where a kernel is built, which nothing else uses meanwhile: its tree and its objects stay there."""
    # A path with a blank or a colon in it is refused by the kernel's Makefile.
    return sources.alone(kernels.workshop(name))


def _empty(place: Path) -> None:
    for path in place.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def install(name: str, made: Path, say: Callable[[str], None]) -> tuple[Kernel, About]:
    """Boot a kernel that was built, and put it into the cache in place of any with the same name.

    Args:
        name: in the cache.
        made: directory with the image and its configuration.
        say: progress.

    Raises:
        RunError: it does not boot, or measures itself; what had the name until then stays.
    """
    say("booting it")
    found = boot(Kernel(name, made / IMAGE))
    if found.flaws:
        raise RunError(f"kernel {name}: is not kept, what it measures is itself: {'; '.join(found.flaws)}")
    final = directory(name)
    final.parent.mkdir(parents=True, exist_ok=True)
    before = made.with_name("before")
    if final.exists():
        final.rename(before)
    made.rename(final)
    shutil.rmtree(before, ignore_errors=True)
    kernel = Kernel(name, final / IMAGE)
    remember(kernel, found)
    return kernel, found


def _needed() -> list[str]:
    """Lines of the configuration without which no guest runs."""
    lines = FRAGMENT.read_text().partition(OPTIONAL)[0].splitlines()
    return [line for line in lines if line.startswith("CONFIG_")]


def _by_name(options: Sequence[str]) -> dict[str, str]:
    """Values of options by their names.

    Raises:
        InputError: one is not a line of a kernel's configuration.
    """
    for option in options:
        if not OPTION.fullmatch(option):
            raise InputError(
                f'--config {option}: is not an option of a kernel; allowed: CONFIG_NAME=y, =n, a number or a "string" '
                "(a guest loads no modules)"
            )
    chosen = {name: value for name, _, value in (option.partition("=") for option in options)}
    for line in _needed():
        name, _, value = line.partition("=")
        if chosen.get(name, value) != value:
            raise InputError(f"--config {name}={chosen[name]}: a guest needs {line}; allowed: {line}")
    return chosen


def _make(
    scratch: Path,
    source: Path | None,
    patches: Sequence[Path],
    jobs: int,
    say: Callable[[str], None],
    chosen: Mapping[str, str],
) -> tuple[Path, origin.Input]:
    """Everything up to a directory with the kernel in it; and the source that it is made of."""
    found = sources.distribution(scratch, say) if source is None else sources.given(source)
    tree = scratch / TREE
    # What a patch touches must be there.
    sources.unpack(found.path, tree, bool(patches), say)
    given = origin.source(found.path, found.name, tree)
    sources.forget(scratch)
    for patch in patches:
        _apply(patch.absolute(), tree, say)
    adjust(tree)
    output = scratch / OUTPUT
    output.mkdir()
    make = make_command(scratch, jobs)
    log = scratch / LOG
    _configure(tree, output, make, log, say, {"CONFIG_BUILD_SALT": salt(tree), **chosen})
    run([*make, "prepare"], log, None, "preparing")
    run([*make, IMAGE], log, say, "compiling", files_to_compile([*make, IMAGE]))
    return take(scratch), given


def make_command(place: Path, jobs: int) -> list[str]:
    """The words that make something of the tree in a workshop."""
    # The whole program lies below 2 GiB: calls and addresses need not be of 64 bits, as User-Mode Linux has them.
    return ["make", "-C", str(place / TREE), f"O={place / OUTPUT}", ARCHITECTURE, "KCFLAGS=-mcmodel=small", f"-j{jobs}"]


def take(place: Path) -> Path:
    """A directory with the kernel that was compiled in a workshop, and its configuration."""
    made = place / "made"
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir()
    for file, kept in ((IMAGE, IMAGE), (CONFIGURATION, "config")):
        shutil.copy2(place / OUTPUT / file, made / kept)
    return made


def algorithms(tree: Path) -> list[str]:
    """Lines of a configuration with all congestion-control algorithms of a tree, those of patches too."""
    return [f"CONFIG_{name}=y" for name in ALGORITHM.findall((tree / "net/ipv4/Kconfig").read_text())
            if name != "TCP_CONG_ADVANCED"]  # fmt: skip


def _apply(patch: Path, tree: Path, say: Callable[[str], None]) -> None:
    say(f"applying {patch.name}")
    words = ["patch", "--strip=1", "--forward", "--batch", "--no-backup-if-mismatch", "--input", str(patch)]
    answer = subprocess.run(words, cwd=tree, capture_output=True, text=True)
    if answer.returncode != 0:
        failed = [line for line in answer.stdout.splitlines() if "FAILED" in line or "can't find" in line]
        reason = "; ".join(failed[:3]) or answer.stdout[-300:]
        raise InputError(f"--patch {patch}: does not apply to this source: {reason}")


def _configure(
    tree: Path, output: Path, make: list[str], log: Path, say: Callable[[str], None], chosen: Mapping[str, str]
) -> None:
    """Write the configuration, and read back that the source took the options that were chosen.

    Raises:
        InputError: it did not take one.
        RunError: the source cannot give what a guest needs.
    """
    say("configuring")
    options = [f"{name}={value}" for name, value in chosen.items()]
    wanted = "\n".join([FRAGMENT.read_text(), *algorithms(tree), *options, ""])
    run([*make, "tinyconfig"], log, None, "configuring")
    with (output / CONFIGURATION).open("a") as config:
        config.write(wanted)
    run([*make, "olddefconfig"], log, None, "configuring")
    found = set((output / CONFIGURATION).read_text().splitlines())
    if lacks := [line for line in _needed() if line not in found]:
        raise RunError(f"this source cannot be configured as a guest's kernel: it has no {', '.join(lacks)}")
    for name, value in chosen.items():
        got = next((line.partition("=")[2] for line in found if line.startswith(f"{name}=")), "n")
        if got != value:
            raise InputError(
                f"--config {name}={value}: this source does not take it, it has {name}={got}; "
                "allowed: an option that it knows, with those that it depends on"
            )
    for line in algorithms(tree):
        if line not in found and line.partition("=")[0] not in chosen:
            say(f"note: left out, its source does not allow {line}")


def salt(tree: Path) -> str:
    """A value for CONFIG_BUILD_SALT: with it a configuration's digest stands for the source as well.

    Args:
        tree: what is compiled, patched and adjusted.

    Returns:
        A string in quotation marks.
    """
    return f'"{adjusted()}{sources.digest(tree)[:16]}"'


def files_to_compile(make: list[str]) -> int | None:
    """How many files a step of the build compiles, by a dry run of it; None where that names none."""
    # Its end, the linking, is missing in a dry run: make does not know that there would be archives by then.
    dry = subprocess.run([*make, "--dry-run", "--keep-going"], capture_output=True, text=True, errors="replace")
    # What make would print, inside the commands that it would run.
    return len(COMPILES.findall(dry.stdout)) or None


def progress(files: int, total: int | None, seconds: float) -> str:
    """How far compiling is, and how long the rest takes if its files take as long as those before."""
    if total is None or files == 0:
        return f"{files} files in {seconds:.0f} s"
    left = max(0, total - files) * seconds / files
    return f"{files} of {total} files in {seconds:.0f} s, about {duration_in_words(left)} left"


def run(command: list[str], log: Path, say: Callable[[str], None] | None, what: str, total: int | None = None) -> None:
    """Run a step of the build; what it says goes to a log, of which an error shows the compiler's or the end.

    Of a step that compiles ``total`` files it is said now and then how far it is.

    Raises:
        RunError: it fails.
    """
    began = said = time.monotonic()
    files = 0
    lines: list[str] = []
    errors: list[str] = []
    environment = {**os.environ, "LC_ALL": "C.UTF-8", **SAME_IMAGE}
    with (
        log.open("a") as record,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
        ) as process,
    ):
        for line in piped(process.stdout):
            record.write(line)
            lines = [*lines[-LOG_LINES:], line.rstrip()]
            # Files that are compiled at the same time go on after it, and push it out of the end.
            if COMPILER_ERROR.search(line) and len(errors) < LOG_LINES:
                errors.append(line.rstrip())
            files += line.startswith(COMPILED)
            if say is not None and time.monotonic() - said > SAY_EVERY_S:
                said = time.monotonic()
                say(f"{what}: {progress(files, total, said - began)}")
    if process.returncode != 0:
        raise RunError(f"{what} failed:\n" + "\n".join(errors or [line for line in lines if line]))
