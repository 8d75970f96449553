"""Compiles the P4 program for each architecture and records what it was compiled from.

`build.py v1model tofino tofino2` rebuilds `compiled/<architecture>/`; `build.py --check` tells whether the committed
artifacts belong to the sources as they are, and needs no compiler.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

P4SRC = Path(__file__).resolve().parent
COMPILED = P4SRC / "compiled"
TOPS = {"v1model": "v1model/narrows.p4", "tofino": "tofino/narrows.p4", "tofino2": "tofino/narrows.p4"}
RECORD = "digest.json"


class BuildError(Exception):
    """The compiler is missing or refused the program."""


def sources(top: str) -> list[str]:
    """Files that make up a program, relative to p4src: the top and all that it includes, sorted."""
    found: set[str] = set()
    pending = [top]
    while pending:
        name = pending.pop()
        if name in found:
            continue
        found.add(name)
        path = P4SRC / name
        for included in re.findall(r'^#include "([^"]+)"', path.read_text(), re.MULTILINE):
            pending.append(str((path.parent / included).resolve().relative_to(P4SRC)))
    return sorted(found)


def source_digests(architecture: str) -> dict[str, str]:
    """SHA-256 of each source file of an architecture's program."""
    return {name: _sha256(P4SRC / name) for name in sources(TOPS[architecture])}


def stale(architecture: str) -> list[str]:
    """Why the committed artifacts of an architecture are not what its sources compile to; empty when they are."""
    folder = COMPILED / architecture
    try:
        record = json.loads((folder / RECORD).read_text())
    except FileNotFoundError:
        return [f"{architecture}: no artifacts"]
    now = source_digests(architecture)
    problems = [
        f"{architecture}: {name} changed since it was compiled"
        for name in sorted(now.keys() | record["sources"].keys())
        if now.get(name) != record["sources"].get(name)
    ]
    for name, digest in record["artifacts"].items():
        path = folder / name
        if not path.exists():
            problems.append(f"{architecture}: artifact {name} is missing")
        elif _sha256(path) != digest:
            problems.append(f"{architecture}: artifact {name} is not what the compiler wrote")
    return problems


def build(architecture: str) -> None:
    """Compiles one architecture into `compiled/<architecture>/`; raises BuildError and changes nothing on failure."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch)
        compiler = _COMPILERS[architecture](out)
        artifacts = sorted(path.name for path in out.iterdir())
        record = {
            "program": TOPS[architecture],
            "compiler": compiler,
            "sources": source_digests(architecture),
            "artifacts": {name: _sha256(out / name) for name in artifacts},
        }
        (out / RECORD).write_text(json.dumps(record, indent=2) + "\n")
        folder = COMPILED / architecture
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(out, folder)
    print(f"p4: compiled {architecture}: {', '.join(artifacts)}")


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _need(tool: str) -> str:
    if shutil.which(tool) is None:
        raise BuildError(f"{tool} is not on PATH; install p4c (https://github.com/p4lang/p4c) and try again")
    return tool


def _run(command: list[str]) -> str:
    """Runs a compiler inside p4src, so that no path of this machine gets into its output."""
    done = subprocess.run(command, cwd=P4SRC, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    if "warning" in done.stderr:
        print(done.stderr, file=sys.stderr)
    return done.stdout


def _version(tool: str) -> str:
    """Name and version as the compiler tells them; p4c tells them on standard error."""
    done = subprocess.run([tool, "--version"], capture_output=True, text=True, check=False)
    version = re.search(r"Version (\S+)", done.stdout + done.stderr)
    return f"{tool} {version[1] if version else 'of unknown version'}"


def _v1model(out: Path) -> str:
    tool = _need("p4c-bm2-ss")
    p4info = str(out / "narrows.p4info.txtpb")
    _run([tool, "--std", "p4-16", "-o", str(out / "narrows.json"), "--p4runtime-files", p4info, TOPS["v1model"]])
    return _version(tool)


_COMPILERS: dict[str, Callable[[Path], str]] = {"v1model": _v1model}


def main() -> int:
    """Command line; exit code 0, 1 when artifacts are stale or a compilation fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("architectures", nargs="*", choices=[[], *TOPS], help="what to compile")
    parser.add_argument("--check", action="store_true", help="only compare digests; needs no compiler")
    arguments = parser.parse_args()
    if arguments.check:
        problems = [problem for architecture in TOPS for problem in stale(architecture)]
        print("\n".join(problems) or "p4: all artifacts belong to their sources")
        return 1 if problems else 0
    try:
        for architecture in arguments.architectures:
            build(architecture)
    except BuildError as error:
        print(f"p4: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
