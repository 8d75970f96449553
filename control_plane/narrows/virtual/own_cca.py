# SPDX-License-Identifier: Apache-2.0
"""A kernel with users' own congestion controls, each a C file, made of the objects that another kernel's build kept.

Only these files are compiled, and the kernel is linked again.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from narrows.errors import InputError, RunError
from narrows.virtual import build, kernels, origin
from narrows.virtual.adjustments import ADDED, TCP
from narrows.virtual.kernels import BASE, IMAGE, About, Kernel, build_command, find, remember_build
from narrows.virtual.origin import Input, Origin
from narrows.virtual.ports import port
from narrows.virtual.probing import about

NAME = re.compile(r"[A-Za-z0-9_]{1,40}\.c", re.ASCII)
OWN = f"{ADDED}own_"
SALT = re.compile(r'^CONFIG_BUILD_SALT="(?P<base>[^"+]*)[^"]*"$', re.MULTILINE)
MOST_BYTES = 1 << 20
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
ALGORITHM = re.compile(r"\bstruct\s+tcp_congestion_ops\b[^;{}()]*=\s*\{(?P<members>[^{}]*)")
# A whole string: neither a macro nor the first part of several.
MEMBER = re.compile(r'\.name\s*=\s*"(?P<name>[^"\\\n]*)"\s*(,|$)')


def add(files: Sequence[Path], base: str, name: str, jobs: int, say: Callable[[str], None]) -> tuple[Kernel, About]:
    """Build a kernel that has what another has and the congestion controls of some C files.

    Args:
        files: each registers one ``tcp_congestion_ops`` or more, under names that the other kernel does not have.
        base: the other kernel, in the cache.
        name: of the kernel, in the cache.
        jobs: compilers at once.
        say: progress.

    Raises:
        InputError: one is no such file, or of another tree's version that cannot be changed for this one (`port`), or
            the objects of the other kernel were not kept, or it has all that one registers already.
        RunError: one does not compile, the message has the compiler's with its lines; or the kernel does not boot.
    """
    if lacks := build.problems():
        raise InputError("\n".join(lacks))
    texts = {file: text(file) for file in files}
    given = origin.inputs(files)
    if len({file.name for file in files}) < len(files):
        raise InputError("--cca: two files have one name; allowed: each file once")
    if name == base:
        raise InputError(f"--name {name}: is that of the kernel it is made of; allowed: another name")
    kernels.directory(name)
    ground = find(base)
    before = about(ground)
    for file, written in texts.items():
        if (names := registered(written)) and names <= set(before.ccas):
            taken = ", ".join(f"'{one}'" for one in sorted(names))
            raise InputError(
                f"--cca {file.name}: registers {taken}, which kernel {base} has already; allowed: another .name"
            )
    with build.in_workshop(base) as place:
        tree, configuration = place / build.TREE / TCP, place / build.OUTPUT / build.CONFIGURATION
        if not _objects(place):
            raise InputError(
                f"--base {base}: its objects were not kept, it was built by another version or elsewhere; "
                f"fix: {build_command(Kernel(base, kernels.directory(base) / IMAGE))}"
            )
        texts = {file: port(file, written, place / build.TREE, say) for file, written in texts.items()}
        for old in tree.glob(f"{OWN}*.c"):
            old.unlink()
        for file, written in texts.items():
            # The compiler names the user's file.
            (tree / f"{OWN}{file.name}").write_text(f'#line 1 "{file}"\n{written}')
        _salt(configuration, texts.values())
        try:
            build.run([*build.make_command(place, jobs), IMAGE], place / build.LOG, None, "compiling")
            made = build.take(place)
            ours = Origin(base=Input(base, before.image_sha256), base_origin=origin.recorded(ground), ccas=given)
            origin.write(made, ours)
            kernel, found = build.install(name, made, say)
        finally:
            for file in files:
                (tree / f"{OWN}{file.name}").unlink()
    if len(new := set(found.ccas) - set(before.ccas)) < len(files):
        kernels.remove(name)
        raise RunError(
            f"kernel {name}: is not kept: of {len(files)} files {len(new)} registered a congestion control of a new "
            f"name; its kernel has {', '.join(before.ccas)} already"
        )
    remember_build(name, options(files, base))
    return kernel, found


def options(files: Sequence[Path], base: str) -> list[tuple[str, str]]:
    """Those of ``narrows kernel build`` that `add` these files to a kernel."""
    return [(BASE, base), *(("--cca", str(file.absolute())) for file in files)]


def has_objects(name: str) -> bool:
    """Whether the objects of a kernel's build are kept, so that something can be added."""
    return _objects(kernels.workshop(name))


def _objects(place: Path) -> bool:
    return (place / build.OUTPUT / IMAGE).exists() and (place / build.TREE / TCP / f"{ADDED}external.c").exists()


def text(file: Path) -> str:
    """The text of a C file.

    Raises:
        InputError: it is not one.
    """
    if not NAME.fullmatch(file.name):
        raise InputError(f"--cca {file}: is not a C file's name; allowed: letters, digits and '_', then '.c'")
    try:
        if not file.is_file() or file.stat().st_size > MOST_BYTES:
            raise InputError(f"--cca {file}: is no file of at most {MOST_BYTES >> 20} MiB; allowed: a C file")
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"--cca {file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"--cca {file}: is not text in UTF-8") from error


def registered(written: str) -> set[str]:
    """The names of a C file's congestion controls; empty where the text does not say one of them, as with a macro."""
    found = [MEMBER.search(one["members"]) for one in ALGORITHM.finditer(COMMENT.sub(" ", written))]
    names = {one["name"] for one in found if one is not None}
    return names if None not in found else set()


def _salt(configuration: Path, texts: Iterable[str]) -> None:
    """Have the configuration's digest stand for the files as well."""
    digest = hashlib.sha256()
    for one in texts:
        digest.update(hashlib.sha256(one.encode()).digest())
    now = configuration.read_text()
    configuration.write_text(SALT.sub(rf'CONFIG_BUILD_SALT="\g<base>+{digest.hexdigest()[:16]}"', now))
