# SPDX-License-Identifier: Apache-2.0
"""The guest's side of a run: its first process, which prepares the machine, measures, and turns it off.

Used as ``python -m narrows.virtual.inside FILE``; the file holds a `Task`. What happens is told on the second console,
a JSON object a line. Little is imported: in a guest every file that is opened costs ten times what it does outside.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import pickle
import signal
import sys
import threading
import traceback
import tty
from dataclasses import asdict
from pathlib import Path
from typing import Any

from narrows.virtual.task import Task

MOUNTS = (("proc", "/proc"), ("sysfs", "/sys"), ("tmpfs", "/run"))
CHANNEL = "/dev/tty1"
POWER_OFF = 0x4321FEDC  # LINUX_REBOOT_CMD_POWER_OFF of linux/reboot.h
SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Channel:
    """What the guest tells the outside: events, a JSON object a line. It is what a measurement reports to."""

    def __init__(self, path: str) -> None:
        """Open the console; nothing changes what is written to it."""
        self._file = os.open(path, os.O_RDWR | os.O_NOCTTY)
        tty.setraw(self._file)

    def fileno(self) -> int:
        """Of the console."""
        return self._file

    def pass_signals_on(self) -> None:
        """From now on a signal that the outside names, one a line, is sent to this process."""

        def listen() -> None:
            while name := os.read(self._file, 64).decode().strip():
                os.kill(os.getpid(), signal.Signals[name])

        threading.Thread(target=listen, daemon=True).start()

    def tell(self, **event: Any) -> None:
        """One event."""
        data = json.dumps(event).encode() + b"\n"
        while data:
            data = data[os.write(self._file, data) :]

    def phase(self, text: str, total_s: float | None = None) -> None:
        """A phase of the run begins."""
        self.tell(phase=text, total_s=total_s)

    def show(self, snapshot: Any) -> None:
        """Figures of the moment."""
        self.tell(snapshot=asdict(snapshot))

    def note(self, text: str) -> None:
        """A line for the user."""
        self.tell(note=text)


def prepare() -> None:
    """Mount what a machine needs, and set what processes expect of an environment.

    Raises:
        OSError: something cannot be mounted.
    """
    library = ctypes.CDLL(None, use_errno=True)
    for kind, place in MOUNTS:
        if library.mount(b"none", place.encode(), kind.encode(), 0, None) != 0:
            raise OSError(ctypes.get_errno(), f"{place}: {os.strerror(ctypes.get_errno())}")
    Path("/run/tmp").mkdir()
    os.environ |= {"PATH": SEARCH_PATH, "TMPDIR": "/run/tmp", "LC_ALL": "C.UTF-8"}


def power_off() -> None:
    """Write everything to the host's files and end the machine; does not return."""
    library = ctypes.CDLL(None)
    library.sync()
    library.reboot(POWER_OFF)


def measure(task: Task, channel: Channel) -> None:
    """Make the run, and tell how it ended."""
    from narrows.errors import NarrowsError
    from narrows.hosts.state import RunState
    from narrows.run.measurement import Measurement
    from narrows.targets.soft.target import SoftTarget

    target = SoftTarget(task.seed, virtual_time=True)
    measurement = Measurement(task.plan, target, RunState.create(), task.results, task.socket_interval_ns)
    try:
        measured = asyncio.run(measurement.run(channel))
    except asyncio.CancelledError:
        channel.tell(interrupted=True)
    except NarrowsError as error:
        channel.tell(failed=str(error))
    else:
        task.found.write_bytes(pickle.dumps(measured))
        channel.tell(measured=True)


def main() -> None:
    """The life of a guest."""
    try:
        prepare()
        channel = Channel(CHANNEL)
        channel.tell(up=True)
        channel.pass_signals_on()
        try:
            task: Task = pickle.loads(Path(sys.argv[1]).read_bytes())
            os.environ |= task.environment
            measure(task, channel)
        except BaseException as error:
            traceback.print_exc()
            channel.tell(failed=f"{type(error).__name__} inside the guest: {error}")
    except BaseException:
        traceback.print_exc()
    finally:
        power_off()


if __name__ == "__main__":
    main()
