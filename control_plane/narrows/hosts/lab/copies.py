# SPDX-License-Identifier: Apache-2.0
"""Our programs on a machine of a lab, the same to the byte as here, and what they wrote there."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

from narrows_formats.file_digest import file_digest

from narrows.errors import RunError
from narrows.hosts.lab.inventory import Nic
from narrows.hosts.lab.ssh import CommandFailed, machine_command, run

COPY_S = 120.0
FETCH_S = 3600.0
# Where a machine has a program of a name and digest: as one of its own, or where a copy goes. Nothing if it has none.
_FIND = """
for at in "$(command -v "$1")" "$3"; do
    [ -x "$at" ] && [ "$(sha256sum <"$at" | cut -d' ' -f1)" = "$2" ] && echo "$at" && break
done
true
"""
_COPY = 'cat >"$1" && chmod 700 "$1"'


def install(nic: Nic, program: Path, directory: str) -> str:
    """The path of one of our programs on a machine: its own where that is the same file, or a copy in ``directory``.

    Raises:
        RunError: the machine cannot be reached, or it cannot be copied or run there.
    """
    if nic.ssh is None:
        return str(program)
    place = f"{directory}/{program.name}"
    find = ["sh", "-c", _FIND, "sh", program.name, file_digest(program), place]
    found = run(nic, find).strip()
    if not found:
        with program.open("rb") as content:
            words = ["sh", "-c", _COPY, "sh", place]
            copied = subprocess.run(
                machine_command(nic, words), stdin=content, capture_output=True, timeout=COPY_S, start_new_session=True
            )
        found = run(nic, find).strip()
        if not found:
            why = copied.stderr.decode(errors="replace").strip() or "what arrived is another file"
            raise RunError(f"{nic.name}: {program.name} cannot be copied to {directory}: {why}")
    try:
        run(nic, [found, "--version"])
    except CommandFailed as error:
        raise RunError(
            f"{nic.name}: {program.name} cannot be run there: {error.words}; fix: run Narrows on that machine, or "
            "build it here for machines of its kind"
        ) from error
    return found


def fetch(nic: Nic, directory: str, local: Path) -> None:
    """Copy what is in a directory of a machine into one of ours, which is made.

    Raises:
        RunError: the machine cannot be reached, or something does not arrive.
    """
    if nic.ssh is None:
        return
    local.mkdir(parents=True, exist_ok=True)
    pack = machine_command(nic, ["tar", "-C", directory, "-cf", "-", "."])
    unpack = ["tar", "-C", str(local), "--no-same-owner", "-xf", "-"]
    both = f"set -o pipefail; {shlex.join(pack)} | {shlex.join(unpack)}"
    result = subprocess.run(
        ["bash", "-c", both], stdin=subprocess.DEVNULL, capture_output=True, timeout=FETCH_S, start_new_session=True
    )
    if result.returncode != 0:
        words = result.stderr.decode(errors="replace").strip()
        raise RunError(f"{nic.name}: what is in {directory} cannot be fetched: {words}")
