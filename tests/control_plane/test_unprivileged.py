# SPDX-License-Identifier: Apache-2.0
"""What runs on the hosts is not root: iperf3 by setpriv, scripts of ours by `narrows.hosts.unprivileged`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from narrows.hosts import unprivileged
from narrows.hosts.netns import AS_NOBODY

pytestmark = pytest.mark.needs("root")

NAMES = ("Uid", "Gid", "Groups", "CapPrm", "CapEff", "CapBnd", "CapInh", "CapAmb", "NoNewPrivs")
NET_ADMIN = f"{1 << 12:016x}"


def fields(text: str) -> dict[str, str]:
    """Lines of /proc/self/status by name."""
    found = (line.partition(":") for line in text.splitlines())
    return {name: " ".join(value.split()) for name, _, value in found if name in NAMES}


def test_programs_run_as_nobody() -> None:
    """No identity, group or capability of root but the one that congestion controls need."""
    answer = subprocess.run([*AS_NOBODY, "cat", "/proc/self/status"], capture_output=True, text=True, check=True)
    found = fields(answer.stdout)
    assert found.pop("CapInh") == NET_ADMIN
    assert found.pop("CapAmb") == NET_ADMIN
    nobody = " ".join(["65534"] * 4)
    assert found == {
        "Uid": nobody, "Gid": nobody, "Groups": "", "CapPrm": NET_ADMIN, "CapEff": NET_ADMIN, "CapBnd": NET_ADMIN,
        "NoNewPrivs": "1",
    }  # fmt: skip


SCRIPT = """
from __future__ import annotations
import asyncio, pathlib, socket, sys
from dataclasses import dataclass

@dataclass
class Found:
    text: str

def secret():
    try:
        return pathlib.Path(sys.argv[1]).read_text()
    except PermissionError:
        return "out of reach"

async def main():
    server = await asyncio.start_server(lambda r, w: None, "127.0.0.1", 0)
    with socket.socket() as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
    print(Found(secret()).text, file=sys.stderr)
    print(open("/proc/self/status").read())

if __name__ == "__main__":
    asyncio.run(main())
"""


def test_scripts_run_as_nobody_wherever_they_are(tmp_path: Path) -> None:
    """That user reaches neither the script's files, as those of a checkout in /root, nor others'."""
    tmp_path.chmod(0o700)
    script, secret = tmp_path / "script.py", tmp_path / "secret"
    script.write_text(SCRIPT)
    secret.write_text("only root's")
    command = [sys.executable, "-I", unprivileged.__file__, str(script), str(secret)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.stderr == "out of reach\n"
    found = fields(answer.stdout)
    nobody = " ".join(["65534"] * 4)
    assert (found["Uid"], found["Gid"], found["Groups"], found["NoNewPrivs"]) == (nobody, nobody, "", "1")
    assert (found["CapPrm"], found["CapEff"], found["CapInh"]) == (NET_ADMIN, NET_ADMIN, "0" * 16)
