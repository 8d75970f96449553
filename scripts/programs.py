# SPDX-License-Identifier: Apache-2.0
"""The Rust programs as one file, for machines that are not to compile them (docs/index.md).

    scripts/programs.py pack BUILD ARCHIVE     of the programs in a build's directory, such as target/dist
    scripts/programs.py take SOURCE SHA256     into target/release; SOURCE is a file or an https address
    scripts/programs.py check                  whether what was taken is still what this checkout would compile

An archive says from which sources, and for which machine, its programs were built; only those of this checkout's are
taken. Exit codes: 0 done, 2 it cannot be had, or is not what its digest says, 3 it does not fit, and cargo is needed.
Only the standard library: set-up runs it before anything is installed.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = ("narrows-softswitch", "narrows-collector")
LABEL = "built-from.json"
# What the programs are compiled from beside the members of the workspace.
BESIDE = ("Cargo.toml", "Cargo.lock", "analysis/narrows_formats")
KINDS = {".rs", ".toml", ".lock", ".proto", ".json"}
MAX_BYTES = 200 << 20
UNUSABLE, UNFIT = 2, 3


class Refused(Exception):
    """An archive is not taken; ``code`` is the exit code."""

    def __init__(self, why: str, code: int) -> None:
        """Say why."""
        super().__init__(why)
        self.code = code


def label() -> dict[str, str]:
    """What programs compiled here, from what is here, are."""
    digest = hashlib.sha256()
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]
    found = [path for name in (*workspace["members"], *BESIDE) for path in (ROOT / name, *(ROOT / name).rglob("*"))]
    for path in sorted(path for path in found if path.is_file() and path.suffix in KINDS):
        digest.update(f"{path.relative_to(ROOT)} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return {"system": f"{platform.system()} {platform.machine()}", "sources": digest.hexdigest()}


def pack(build: Path, archive: Path) -> None:
    """Write an archive of the programs in a build's directory."""
    text = json.dumps(label(), indent=2).encode()
    entry = tarfile.TarInfo(LABEL)
    entry.size = len(text)
    with tarfile.open(archive, "w:gz") as file:
        file.addfile(entry, io.BytesIO(text))
        for name in PROGRAMS:
            file.add(build / name, name)
    print(f"{archive}: sha256 {hashlib.sha256(archive.read_bytes()).hexdigest()}")


def take(source: str, sha256: str) -> None:
    """Put an archive's programs into target/release.

    Raises:
        Refused: they are not what they should be; nothing was changed.
    """
    content = _content(source)
    if (found := hashlib.sha256(content).hexdigest()) != sha256.strip().lower():
        raise Refused(f"{source}: its SHA-256 is {found}, not {sha256}", UNUSABLE)
    try:
        with tarfile.open(fileobj=io.BytesIO(content)) as file:
            members = {name: file.extractfile(name) for name in (LABEL, *PROGRAMS)}
            parts = {name: member.read() for name, member in members.items() if member is not None}
        built_for = json.loads(parts[LABEL])
    except (tarfile.TarError, OSError, KeyError, ValueError) as error:
        raise Refused(f"{source}: is not an archive of Narrows' programs: {error}", UNUSABLE) from error
    for what, ours in label().items():
        if built_for.get(what) != ours:
            raise Refused(f"{source}: was built from other {what}" if what == "sources" else
                          f"{source}: is for {built_for.get(what)}, and this machine is {ours}", UNFIT)  # fmt: skip
    target = ROOT / "target" / "release"
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target) as scratch:
        for name in PROGRAMS:
            program = Path(scratch) / name
            program.write_bytes(parts[name])
            program.chmod(0o755)
            # A C library that is older than theirs, above all.
            started = subprocess.run([program, "--version"], capture_output=True, text=True)
            if started.returncode != 0:
                raise Refused(f"{source}: {name} does not start here: {started.stderr.strip()}", UNFIT)
        for name in PROGRAMS:
            # What cargo's program was made of: not this one.
            (target / f"{name}.d").unlink(missing_ok=True)
            (Path(scratch) / name).rename(target / name)
        (target / LABEL).write_bytes(parts[LABEL])


def check() -> None:
    """See whether target/release has programs that were taken, and would be compiled from the same sources.

    Raises:
        Refused: it has not.
    """
    target = ROOT / "target" / "release"
    if any(not (target / name).exists() for name in (LABEL, *PROGRAMS)):
        raise Refused("no programs were taken", UNFIT)
    if json.loads((target / LABEL).read_text()) != label():
        (target / LABEL).unlink()
        raise Refused("the programs that were taken are older than the sources", UNFIT)


def _content(source: str) -> bytes:
    try:
        if source.startswith("https://"):
            with urllib.request.urlopen(source, timeout=60) as answer:
                return bytes(answer.read(MAX_BYTES))
        return Path(source).read_bytes()
    except OSError as error:
        raise Refused(f"{source}: cannot be had: {error}", UNUSABLE) from error


def main(words: list[str]) -> int:
    """Do what the command line says."""
    actions = {"pack": (lambda a, b: pack(Path(a), Path(b)), 2), "take": (take, 2), "check": (check, 0)}
    if not words or words[0] not in actions or len(words) != actions[words[0]][1] + 1:
        print(__doc__, file=sys.stderr)
        return UNUSABLE
    try:
        actions[words[0]][0](*words[1:])
    except Refused as refused:
        print(f"programs: {refused}", file=sys.stderr)
        return refused.code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
