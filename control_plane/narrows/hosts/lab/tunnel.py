# SPDX-License-Identifier: Apache-2.0
"""Reaching a server that listens on another machine's loopback only: a socket forwarded by ``ssh``."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import tempfile
import time

from narrows.hosts.lab.inventory import Ssh
from narrows.hosts.lab.ssh import SshError, ssh_command
from narrows.hosts.process import piped

OPEN_S = 15.0
POLL_S = 0.05
STOP_S = 5.0


class Tunnel:
    """One ``ssh -L`` process; its local end is a Unix socket in a directory of ours.

    The switch accepts every client that reaches it; other users of this machine cannot.
    """

    def __init__(self, ssh: Ssh, remote: str) -> None:
        """``remote`` is host:port as seen from the far end."""
        self._ssh = ssh
        self._remote = remote
        self._process: subprocess.Popen[bytes] | None = None
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self._local = ""

    def open(self) -> str:
        """Forward, or use the forwarding that is there; returns the local address.

        Raises:
            SshError: ssh does not get through.
        """
        if self._process is not None and self._process.poll() is None:
            return self._local
        self._directory = tempfile.TemporaryDirectory(prefix="narrows-tunnel-")  # mode 0700
        end = f"{self._directory.name}/switch.sock"
        self._local = f"unix:{end}"
        options = ["-N", "-o", "ExitOnForwardFailure=yes", "-L", f"{end}:{self._remote}"]
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
                words = piped(self._process.stderr).read().decode(errors="replace").strip()
                self.close()
                raise SshError(f"no tunnel to the switch by ssh to {self._ssh.host}: {words}")
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
                probe.settimeout(POLL_S)
                probe.connect(end)
                return self._local
            time.sleep(POLL_S)
        self.close()
        raise SshError(f"no tunnel to the switch by ssh to {self._ssh.host} after {OPEN_S:g} s")

    def close(self) -> None:
        """End the forwarding; safe to call twice."""
        if self._directory is not None:
            self._directory.cleanup()
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
