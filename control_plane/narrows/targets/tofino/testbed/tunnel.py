# SPDX-License-Identifier: Apache-2.0
"""Reaching a switch whose BF Runtime server listens on its loopback only: a port forwarded by ``ssh``."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time

from narrows.targets.tofino.bfrt.errors import ConnectionLost
from narrows.targets.tofino.testbed.inventory import Ssh
from narrows.targets.tofino.testbed.ssh import ssh_command

OPEN_S = 15.0
POLL_S = 0.05
STOP_S = 5.0


class Tunnel:
    """One ``ssh -L`` process; its local end is on loopback."""

    def __init__(self, ssh: Ssh, remote: str) -> None:
        """``remote`` is host:port as seen from the far end."""
        self._ssh = ssh
        self._remote = remote
        self._process: subprocess.Popen[bytes] | None = None
        self._local = ""

    def open(self) -> str:
        """Forward, or use the forwarding that is there; returns the local address.

        Raises:
            ConnectionLost: ssh does not get through.
        """
        if self._process is not None and self._process.poll() is None:
            return self._local
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self._local = f"127.0.0.1:{port}"
        options = ["-N", "-o", "ExitOnForwardFailure=yes", "-L", f"{self._local}:{self._remote}"]
        command = ssh_command(self._ssh, options)
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            # A Ctrl-C on the terminal ends the run, which still needs the tunnel to give the switch back.
            start_new_session=True,
        )
        deadline = time.monotonic() + OPEN_S
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                assert self._process.stderr is not None
                words = self._process.stderr.read().decode(errors="replace").strip()
                raise ConnectionLost(f"no tunnel to the switch by ssh to {self._ssh.host}: {words}")
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), POLL_S):
                return self._local
            time.sleep(POLL_S)
        self.close()
        raise ConnectionLost(f"no tunnel to the switch by ssh to {self._ssh.host} after {OPEN_S:g} s")

    def close(self) -> None:
        """End the forwarding; safe to call twice."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stderr is not None:
            process.stderr.close()
