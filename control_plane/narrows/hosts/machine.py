# SPDX-License-Identifier: Apache-2.0
"""Describes this machine: recorded with runs, checked before them, shown by ``narrows doctor``."""

from __future__ import annotations

import os
import platform
import resource
import shutil
import subprocess
from pathlib import Path

from narrows_formats.suggestion import suggestion

# Congestion controls whose window and pacing rate are set from outside: those of narrows/virtual/external.c, and of
# narrows/hosts/external.bpf.c.
EXTERNAL = ("external", "external_halve")
AVAILABLE_CCAS = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")

# A guest's kernel places its files up to there; hosts with hundreds of flows take as many.
LEAST_OPEN_FILES, MOST_OPEN_FILES = 1024, 65_536

# Where root's programs are; an ordinary user's PATH has it not, and in a guest every process's has.
SYSTEM_PATH = "/usr/local/sbin:/usr/sbin:/sbin"
# Command and the Debian/Ubuntu package that has it.
TOOLS = {"ip": "iproute2", "setpriv": "util-linux"}

# Bits of Linux capabilities (linux/capability.h) that namespaces, links and packet sockets need.
CAPABILITIES = {"CAP_NET_ADMIN": 12, "CAP_NET_RAW": 13, "CAP_SYS_ADMIN": 21}


def kernel_ccas() -> list[str]:
    """Congestion-control algorithms that the running kernel has loaded."""
    return AVAILABLE_CCAS.read_text().split()


def cca_modules() -> list[str]:
    """Algorithms that the kernel has as modules and that are not loaded."""
    release = platform.release()
    names = {path.name.split(".")[0] for path in Path(f"/lib/modules/{release}").glob("kernel/net/ipv4/tcp_*.ko*")}
    return sorted({name.removeprefix("tcp_") for name in names} - set(kernel_ccas()) - {"diag"})


def missing_cca(name: str) -> str:
    """A message for a user who wants an algorithm that the kernel does not have; empty if it has it."""
    have = kernel_ccas()
    if name in have:
        return ""
    fix = "--virtual, with a kernel that has it (narrows kernel list)"
    if name in EXTERNAL:
        fix = "--virtual, or give it to this kernel by BPF or as a module (docs/controllers.md, In real time)"
    elif name in cca_modules():
        fix = f"modprobe tcp_{name}"
    return f"'{name}' is not in this kernel{suggestion(name, have)}; fix: {fix}"


def missing_permissions() -> list[str]:
    """One message if this process may not make network namespaces and open raw sockets."""
    if os.geteuid() != 0:
        return ["network namespaces need root; fix: run with sudo, or with --virtual, which needs no root"]
    status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines())
    held = int(status["CapEff"], 16)
    lacks = [name for name, bit in CAPABILITIES.items() if not held >> bit & 1]
    if lacks:
        return [f"this root lacks {', '.join(lacks)}; fix: in a container, run it with --privileged, or use --virtual"]
    return []


def few_open_files() -> list[str]:
    """One message if a run may run out of open files; this process and those that it starts may have all they can."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    if hard != unlimited and hard < LEAST_OPEN_FILES:
        return [
            f"only {hard} files may be open at once, and runs take up to {LEAST_OPEN_FILES}; fix: a higher ulimit -Hn"
        ]
    wanted = MOST_OPEN_FILES if hard == unlimited else min(hard, MOST_OPEN_FILES)
    if soft != unlimited and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return []


def missing_tools() -> list[str]:
    """One message for every command that is not installed."""
    return [
        f"the command '{tool}' is missing; fix: apt-get install {package}"
        for tool, package in TOOLS.items()
        if shutil.which(tool, path=f"{os.environ.get('PATH', os.defpath)}:{SYSTEM_PATH}") is None
    ]


def describe() -> dict[str, object]:
    """Kernel, processor, memory and versions of the tools, for run.json."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "hostname": platform.node(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpu": _cpu_model(),
        "cpus": os.cpu_count(),
        "memory_bytes": memory,
        "python": platform.python_version(),
        "iproute2": _version(["ip", "-Version"]),
    }


def _cpu_model() -> str | None:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return None


def _version(command: list[str]) -> str | None:
    """First line of what a command says of its version; None if it is not there."""
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = result.stdout.splitlines()
    return lines[0].strip() if lines else None
