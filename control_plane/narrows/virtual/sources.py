# SPDX-License-Identifier: Apache-2.0
"""Where the source of a kernel comes from: a tree or an archive, or the distribution's package, unpacked for a build.

The package is not installed: it is fetched with the user's own apt and unpacked where the kernel is built, so that no
root is needed and nothing changes on this machine.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from narrows.errors import InputError, RunError
from narrows.paths import user_cache

# From this one on a guest's system calls are caught by seccomp, which takes half the time of ptrace.
FAST = (6, 16)
INSTALLED = Path("/usr/src")
PACKAGE = re.compile(r"linux-source-(\d+)\.(\d+)")
BACKPORTS = "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] {mirror} {suite} main\n"
MIRROR = "http://deb.debian.org/debian"
BACKPORTS_SUITES = ("trixie-backports", "bookworm-backports")
# Half of the source are drivers that a guest cannot have; their Kconfig files are needed all the same.
LEFT_OUT = tuple(
    f"*/{place}/*.{kind}"
    for place in ("drivers/gpu", "drivers/media", "drivers/net/ethernet", "drivers/net/wireless", "drivers/scsi",
                  "drivers/infiniband", "drivers/usb", "drivers/iio", "drivers/staging", "sound", "Documentation")
    for kind in ("c", "h", "rst", "yaml", "txt", "svg")
)  # fmt: skip
# Where `distribution` has apt's lists and the package.
LISTS, FETCHED = "apt", "package"
TREE_MARKS = ("Makefile", "Kconfig", "net/ipv4/tcp_input.c", "arch/um")


@dataclass(frozen=True)
class Package:
    """A linux-source package; ``apt`` are words that make apt see it, ``archive`` is the file where it is installed."""

    name: str
    version: tuple[int, int]
    apt: tuple[str, ...] = ()
    archive: Path | None = None


class Source(NamedTuple):
    """A tree or an archive, and what it is called."""

    path: Path
    name: str


def check(source: Path) -> None:
    """See whether there is a kernel to be built.

    Raises:
        InputError: it is neither a tree nor an archive of one.
    """
    if source.is_dir():
        lacks = [mark for mark in TREE_MARKS if not (source / mark).exists()]
        if lacks:
            raise InputError(f"--source {source}: is not a kernel tree: it has no {lacks[0]}; allowed: a Linux tree")
    elif not source.is_file():
        raise InputError(f"--source {source}: is not there; allowed: a Linux tree, or a tar archive of one")


def given(source: Path) -> Source:
    """A source of a user's."""
    return Source(source.absolute(), source.resolve().name)


def unpack(source: Path, tree: Path, complete: bool, say: Callable[[str], None]) -> None:
    """Make a tree of our own from another one, or from an archive of one.

    Args:
        source: directory or archive.
        tree: is made.
        complete: with the drivers that a guest cannot have.
        say: progress.

    Raises:
        InputError: it does not hold a kernel.
        RunError: it cannot be unpacked, for want of room perhaps.
    """
    say(f"unpacking {source}")
    tree.mkdir()
    without = [] if complete else ["--wildcards", *(f"--exclude={pattern}" for pattern in LEFT_OUT)]
    take = ["tar", "--extract", "--directory", str(tree), "--strip-components=1", "--no-same-owner"]
    if source.is_dir():
        give = ["tar", "--create", "--exclude=.git", *without, "--directory", str(source.parent), source.name]
        with subprocess.Popen(give, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as giver:
            taken = subprocess.run([*take, "--file=-"], stdin=giver.stdout, capture_output=True, text=True)
    else:
        taken = subprocess.run([*take, *without, "--file", str(source)], capture_output=True, text=True)
    if taken.returncode != 0:
        raise RunError(f"{source} cannot be unpacked: {_last_line(taken.stderr)}")
    if any(not (tree / mark).exists() for mark in TREE_MARKS):
        raise InputError(f"--source {source}: holds no Linux tree; allowed: a tar archive with one directory, the tree")


def digest(tree: Path) -> str:
    """SHA-256 of what the files of a tree hold, and of their names, without drivers that a guest cannot have.

    Raises:
        RunError: it cannot be read.
    """
    # Nothing of when, by whom and where it was unpacked.
    alike = ["--sort=name", "--format=gnu", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner", "--mode=0644"]
    without = ["--wildcards", *(f"--exclude={pattern}" for pattern in LEFT_OUT)]
    give = ["tar", "--create", *alike, *without, "--directory", str(tree), "."]
    with subprocess.Popen(give, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as giver:
        taken = subprocess.run(["sha256sum"], stdin=giver.stdout, capture_output=True, text=True)
    if giver.returncode != 0 or taken.returncode != 0:
        raise RunError(f"{tree} cannot be read")
    return taken.stdout.split()[0]


def distribution(scratch: Path, say: Callable[[str], None]) -> Source:
    """An archive of the newest source that the distribution has: installed, of its own release, or of its backports.

    Its name has the package's with its version, if it was fetched.

    Args:
        scratch: directory for what is fetched.
        say: progress.

    Raises:
        InputError: there is none; the message says what to install.
    """
    found = _installed()
    if not _fast(found):
        found += _in_apt(())
    if not _fast(found) and (words := _backports(scratch, say)):
        found += _in_apt(words)
    if not found:
        raise InputError(
            "no Linux source was found: neither an installed package linux-source-* nor one that apt knows; "
            "fix: apt-get update, or --source with a tree or archive from kernel.org"
        )
    best = max(found, key=lambda one: (one.version, one.archive is not None))
    if best.version < FAST:
        say(f"note: {best.name} is older than Linux {FAST[0]}.{FAST[1]}, with which guests are about twice as fast")
    return _fetch(best, scratch, say) if best.archive is None else Source(best.archive, best.archive.name)


def forget(scratch: Path) -> None:
    """Remove what `distribution` fetched, once it is unpacked."""
    for name in (LISTS, FETCHED):
        shutil.rmtree(scratch / name, ignore_errors=True)


def _installed() -> list[Package]:
    return [
        Package(path.name, _version(match), archive=path)
        for path in INSTALLED.glob("linux-source-*.tar.*")
        if (match := PACKAGE.match(path.name))
    ]


def _in_apt(words: tuple[str, ...]) -> list[Package]:
    if shutil.which("apt-cache") is None:
        return []
    listing = subprocess.run(["apt-cache", *words, "pkgnames", "linux-source-"], capture_output=True, text=True)
    names = {match.group(): match for match in map(PACKAGE.fullmatch, listing.stdout.split()) if match}
    return [Package(name, _version(match), words) for name, match in names.items()]


def _backports(scratch: Path, say: Callable[[str], None]) -> tuple[str, ...]:
    """Words that make apt see Debian's backports, by lists of its own; none where that cannot be."""
    keys = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
    if not keys.exists() or shutil.which("apt-get") is None:
        return ()
    say("asking Debian's backports for a newer source")
    lists = scratch / LISTS
    (lists / "lists" / "partial").mkdir(parents=True)
    sources = lists / "sources.list"
    sources.write_text("".join(BACKPORTS.format(mirror=MIRROR, suite=suite) for suite in BACKPORTS_SUITES))
    options = {
        "Dir::Etc::SourceList": str(sources),
        "Dir::Etc::SourceParts": "-",
        "Dir::State::Lists": str(lists / "lists"),
        "Dir::Cache::pkgcache": "",
        "Dir::Cache::srcpkgcache": "",
    }
    words = tuple(word for name, value in options.items() for word in ("-o", f"{name}={value}"))
    updated = subprocess.run(["apt-get", *words, "-qq", "update"], capture_output=True, text=True)
    if updated.returncode != 0:
        say(f"note: Debian's backports cannot be reached: {_last_line(updated.stderr)}")
        return ()
    return words


def _fetch(package: Package, scratch: Path, say: Callable[[str], None]) -> Source:
    """Its archive. The package stays in the cache: apt, which knows its digest, takes one that is there already."""
    with alone(user_cache() / "packages") as kept:
        if not _packages(kept, package):
            say(f"fetching {package.name} (about 160 MB); it is not installed")
        command = ["apt-get", *package.apt, "-qq", "download", package.name]
        answer = subprocess.run(command, cwd=kept, capture_output=True, text=True)
        if answer.returncode != 0:
            raise InputError(
                f"{package.name} cannot be fetched: {_last_line(answer.stderr)}; "
                f"fix: apt-get update, apt-get install {package.name}, or --source"
            )
        *older, newest = _packages(kept, package)
        for one in older:
            one.unlink()
        fetched = scratch / FETCHED
        subprocess.run(["dpkg-deb", "--extract", newest, fetched], check=True, capture_output=True)
    archives = sorted(fetched.glob("usr/src/linux-source-*.tar.*"))
    if not archives:
        raise InputError(f"{package.name}: holds no archive of a source; fix: --source")
    return Source(archives[0], f"{archives[0].name} of {newest.name}")


def _packages(place: Path, package: Package) -> list[Path]:
    """Versions of a package, the newest last."""
    return sorted(place.glob(f"{package.name}_*.deb"), key=lambda path: path.stat().st_mtime_ns)


@contextlib.contextmanager
def alone(place: Path) -> Iterator[Path]:
    """A directory of the cache, which no other process uses meanwhile."""
    place.mkdir(parents=True, exist_ok=True)
    directory = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        yield place
    finally:
        os.close(directory)


def _version(match: re.Match[str]) -> tuple[int, int]:
    return int(match[1]), int(match[2])


def _fast(found: Sequence[Package]) -> bool:
    return any(one.version >= FAST for one in found)


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "no reason given"
