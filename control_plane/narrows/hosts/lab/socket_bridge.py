# SPDX-License-Identifier: Apache-2.0
"""Reaching a Unix socket of root's on another machine: each connection to ours has a process there that is connected.

Unlike a socket that ``ssh`` forwards this needs no rights there but those that a run has anyway, by sudo where it has.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import threading
from pathlib import Path

from narrows import python
from narrows.hosts.lab.inventory import Nic
from narrows.hosts.lab.ssh import machine_command

STOP_S = 5.0
_CONNECT = """
import os, socket, sys, threading
there = socket.socket(socket.AF_UNIX)
there.connect(sys.argv[1])
def forth():
    while data := os.read(0, 65536):
        there.sendall(data)
    there.shutdown(socket.SHUT_WR)
threading.Thread(target=forth, daemon=True).start()
while data := there.recv(65536):
    while data:
        data = data[os.write(1, data):]
"""


class SocketBridge:
    """Our end of a socket on a machine, and a process for each connection."""

    def __init__(self, nic: Nic, there: str, here: Path) -> None:
        """Listen at ``here``, in a directory that is ours alone; a server listens ``there`` once a client connects."""
        self._command = machine_command(nic, python.elsewhere("-c", _CONNECT, there))
        self._processes: list[subprocess.Popen[bytes]] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(here))
        self._listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        """End all connections; safe to call twice."""
        # Closed alone it would go on accepting in the thread.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        processes, self._processes = self._processes, []
        for process in processes:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_S)

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                with self._listener.accept()[0] as connection:
                    ours, quiet = connection.fileno(), subprocess.DEVNULL
                    self._processes.append(
                        subprocess.Popen(self._command, stdin=ours, stdout=ours, stderr=quiet, start_new_session=True)
                    )
