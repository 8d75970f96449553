# SPDX-License-Identifier: Apache-2.0
"""Congestion controls in BPF (struct_ops) in this machine's kernel: registered by libbpf's bpftool, and taken out."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from narrows_formats import named_file

from narrows.errors import RunError
from narrows.hosts.machine import SYSTEM_PATH, kernel_ccas

TOOL = "bpftool"
BTF = Path("/sys/kernel/btf/vmlinux")
JIT = Path("/proc/sys/net/core/bpf_jit_enable")
KIND = "tcp_congestion_ops"
ELF = b"\x7fELF"


def lacking() -> list[str]:
    """What this machine lacks to take such a congestion control, each with how to get it."""
    found = []
    if not BTF.exists():
        found.append("the kernel has no BTF (CONFIG_DEBUG_INFO_BTF); fix: a kernel with it")
    if not JIT.exists() or JIT.read_text().strip() == "0":
        found.append("the kernel's BPF JIT is off; fix: sysctl net.core.bpf_jit_enable=1")
    if _tool() is None:
        found.append(f"the command '{TOOL}' is missing; fix: apt-get install {TOOL}")
    return found


def problems(cca: str, file: Path) -> list[str]:
    """Why an object file cannot be registered under a name here; what is in it is not looked at."""
    found = lacking()
    try:
        with named_file.opened(file) as opened:
            if opened.read(len(ELF)) != ELF:
                found.append(f"{file} is no object file; allowed: what clang -target bpf makes")
    except OSError as error:
        found.append(f"{file} cannot be read: {error.strerror}")
    if cca in kernel_ccas():
        found.append(f"the kernel has a congestion control '{cca}' already; allowed: another name, in the object too")
    return found


def register(cca: str, file: Path) -> None:
    """Register what an object file has, which is the congestion control of this name.

    Raises:
        RunError: the kernel refuses it, or the file has another one, which does not stay.
    """
    before = _registered()
    _run("register", str(file))
    new = {name: number for name, number in _registered().items() if before.get(name) != number}
    if list(new) != [cca]:
        for number in new.values():
            _run("unregister", "id", str(number))
        raise RunError(f"{file}: registers {', '.join(new) or 'nothing'}; allowed: the cca of its flows, {cca}")


def unregister(cca: str) -> bool:
    """Take out the congestion control of this name; whether there was one. Sockets that have it keep it.

    Raises:
        RunError: the kernel refuses.
    """
    number = _registered().get(cca)
    if number is not None:
        _run("unregister", "id", str(number))
    return number is not None


def _registered() -> dict[str, int]:
    """The kernel's congestion controls in BPF, by name, each with the number of its map."""
    if KIND not in _run("show"):
        return {}
    maps: list[dict[str, Any]] = json.loads(_run("dump"))
    # Each map is followed by what it has.
    pairs = zip(maps[::2], maps[1::2], strict=True)
    held = {one["bpf_map_info"]["id"]: value.get(f"bpf_struct_ops_{KIND}") for one, value in pairs}
    return {ops["data"]["name"]: number for number, ops in held.items() if ops is not None}


def _tool() -> str | None:
    return shutil.which(TOOL, path=f"{os.environ.get('PATH', os.defpath)}:{SYSTEM_PATH}")


def _run(*words: str) -> str:
    """What bpftool prints.

    Raises:
        RunError: it is not there, or fails.
    """
    if (tool := _tool()) is None:
        raise RunError(lacking()[-1])
    ended = subprocess.run([tool, "-j", "struct_ops", *words], capture_output=True, text=True)
    if ended.returncode:
        said = (ended.stderr.strip() or ended.stdout.strip()).splitlines()
        raise RunError(f"{TOOL} struct_ops {' '.join(words)}: {said[-1] if said else 'failed'}")
    return ended.stdout
