# SPDX-License-Identifier: Apache-2.0
"""The machine that a benchmark ran on, as it is written down with the results."""

from __future__ import annotations

import datetime
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from narrows.hosts.machine import describe, missing_permissions, missing_tools

Description = dict[str, Any]
# Versions of what is compared; a tool that is not there is left out.
TOOLS = {
    "simple_switch_grpc": ["simple_switch_grpc", "--version"],
    "tshark": ["tshark", "--version"],
    "tc": ["tc", "-V"],
    "cc": ["cc", "--version"],
}


def is_fit() -> bool:
    """Whether network experiments can run here; says on stderr what is missing."""
    lacks = missing_permissions() + missing_tools()
    for line in lacks:
        print(f"error: {line}", file=sys.stderr)
    return not lacks


def description() -> Description:
    """Processor, kernel, memory, load, clock source, versions, and the revision of this checkout."""
    host = describe()
    # The name says nothing about the machine and may say something about its owner.
    del host["hostname"]
    started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    found: Description = {"date": started, **host}
    found["virtualization"] = _first_line(["systemd-detect-virt"]) or "unknown"
    found["clocksource"] = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource").read_text().strip()
    found["load average at start"] = load()
    found["revision"] = revision(Path(__file__).parent)
    for tool, command in TOOLS.items():
        if shutil.which(command[0]):
            found[tool] = _first_line(command)
    return found


def revision(checkout: Path) -> str | None:
    """The commit that a checkout is at, abbreviated."""
    return _first_line(["git", "-C", str(checkout), "rev-parse", "--short", "HEAD"])


def load() -> str:
    """Load averages over 1, 5 and 15 minutes."""
    return ", ".join(f"{average:.2f}" for average in os.getloadavg())


def kind() -> str:
    """A short word for file names: number of processors and architecture."""
    return f"{os.cpu_count()}cpu-{platform.machine()}"


def scratch() -> str | None:
    """A directory in memory where there is one: the disk is not what is measured."""
    memory = Path("/dev/shm")
    return str(memory) if memory.is_dir() else None


@contextmanager
def large_pages() -> Iterator[tuple[Path, str]]:
    """A temporary directory in memory, in large pages if such a file system can be mounted, and the words for it.

    With pages of 4 KiB much of a process that writes a capture is the kernel's work on them.
    """
    with tempfile.TemporaryDirectory(prefix="narrows-bench-", dir=scratch()) as name:
        mount = ["mount", "-t", "tmpfs", "-o", "huge=always", "narrows-bench", name]
        if subprocess.run(mount, capture_output=True).returncode != 0:
            yield Path(name), "in memory"
            return
        try:
            yield Path(name), "in memory (tmpfs with huge=always)"
        finally:
            subprocess.run(["umount", name], check=True)


def _first_line(command: list[str]) -> str | None:
    try:
        output = subprocess.run(command, capture_output=True, text=True, timeout=20).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    return output.splitlines()[0].strip() if output.strip() else None
