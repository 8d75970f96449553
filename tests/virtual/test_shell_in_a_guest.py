# SPDX-License-Identifier: Apache-2.0
"""``narrows shell --virtual``: a command in a guest, whose exit code and output are ours."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_in_a_guest import PATIENCE_S

pytestmark = pytest.mark.needs("programs-kernel", "default-kernel", "narrows-softswitch", "narrows-collector", "ip")

NARROWS = shutil.which("narrows", path=str(Path(sys.executable).parent)) or "narrows"


def test_a_command_has_the_round_trip_of_the_link_and_ends_with_its_exit_code(tmp_path: Path) -> None:
    """A handshake is one round trip; each of its two frames waits up to 12 us at its sender (`hosts.jitter`), 6 us on
    the link, and 200 ns a system call pass, of which the two lines make a few dozen.
    """
    connect = (
        "import socket,sys,time;a=time.monotonic();socket.create_connection((sys.argv[1],int(sys.argv[2])));"
        "print(time.monotonic()-a)"
    )
    listen = "import socket,sys,time;s=socket.create_server(('',int(sys.argv[1])));time.sleep(9)"
    options = ["-q", "--virtual", "--rate", "100Mbit", "--rtt", "80ms", "--out", str(tmp_path / "r")]
    server = ["--server", f'/usr/bin/python3 -c "{listen}" {{port}}']
    command = ["sh", "-c", '/usr/bin/python3 -c "$1" $2 $3; echo bad >&2; exit 6', "sh", connect, "{server}", "{port}"]
    done = subprocess.run(
        [NARROWS, "shell", *options, *server, "--", *command], capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert (done.returncode, done.stderr) == (6, "bad\n")
    assert 0.08 < float(done.stdout) < 0.0802
    run = json.loads((tmp_path / "r/run.json").read_text())
    assert (run["status"], run["flows"][0]["application"]["client"]["exit_code"]) == ("complete", 6)
