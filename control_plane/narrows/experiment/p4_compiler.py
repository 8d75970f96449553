# SPDX-License-Identifier: Apache-2.0
"""P4 programs that experiments give as source, compiled by the user's own compiler."""

from __future__ import annotations

import hashlib
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from narrows.errors import InputError
from narrows.paths import user_cache

COMPILER = "p4c-bm2-ss"
_COMPILE_S = 300


def resolve_programs(data: Mapping[str, Any], path: Path) -> None:
    """Make the paths of programs absolute that a file has relative to itself, and compile those given as source.

    Raises:
        InputError: a program cannot be compiled.
    """
    links = data.get("links")
    named = links if isinstance(links, dict) else {}
    for field, link in [
        ("bottleneck", data.get("bottleneck")),
        *((f"links.{name}", link) for name, link in named.items()),
    ]:
        program = link.get("program") if isinstance(link, dict) else None
        if not isinstance(program, dict):
            continue
        for name in ("p4", "json", "p4info", "entries"):
            if isinstance(program.get(name), str):
                program[name] = str((path.parent / program[name]).absolute())
        command = program.get("controller")
        if isinstance(command, list) and command:
            program["cwd"] = str((path.parent / str(program.get("cwd") or ".")).absolute())
            if isinstance(command[0], str) and "/" in command[0]:
                command[0] = str((path.parent / command[0]).absolute())
        source = program.get("p4")
        # A resolved experiment names the compiled files, which are used where there is no compiler.
        is_compiled = all(Path(str(program.get(name))).is_file() for name in ("json", "p4info"))
        if isinstance(source, str) and not (is_compiled and shutil.which(COMPILER) is None):
            program["json"], program["p4info"] = map(str, compiled(Path(source), f"{path}: {field}.program.p4"))


def compiled(source: Path, where: str) -> tuple[Path, Path]:
    """The compiled program and its P4Info, in the user's cache.

    Raises:
        InputError: there is no compiler, or it refuses the program; ``where`` begins the message.
    """
    if not source.is_file():
        raise InputError(f"{where}: {source} cannot be read: no such file")
    words = [COMPILER, "--p4v", "16", "--p4runtime-files", f"{source.stem}.p4info.txtpb", "-o", f"{source.stem}.json"]
    command = shlex.join([*words, str(source)])
    if shutil.which(COMPILER) is None:
        raise InputError(
            f"{where}: {source} is to be compiled, and {COMPILER} is not on PATH; "
            f"fix: '{command}' where it is, and json and p4info in place of p4"
        )
    cache = user_cache() / "p4"
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as made:
        try:
            done = subprocess.run(
                [*words, str(source)], cwd=made, capture_output=True, text=True, timeout=_COMPILE_S, check=False
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise InputError(f"{where}: {COMPILER} failed: {error}") from error
        if done.returncode:
            raise InputError(f"{where}: {COMPILER} refuses it:\n{done.stderr.strip()}")
        files = [Path(made) / f"{source.stem}.json", Path(made) / f"{source.stem}.p4info.txtpb"]
        digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]
        kept = cache / digest
        kept.mkdir(exist_ok=True)
        for file in files:
            file.replace(kept / file.name)
    json, p4info = (kept / file.name for file in files)
    return json, p4info
