# SPDX-License-Identifier: Apache-2.0
"""Two targets with the same program and the same entries, fed the same frames one by one, to be compared."""

from __future__ import annotations

import contextlib
import ctypes
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lab
import ptf
from ptf.dataplane import DataPlane
from targets.base import COLLECTOR_PORT, Switch, Target

CLONE_NEWNET = 0x40000000
FRAME_BYTES = 10_240
FRAMES_KEPT = 10_000
# How long a frame may take through the slower switch, and how long silence means that it was discarded.
PATIENCE_S = 1.0
SILENCE_S = 0.03


@contextlib.contextmanager
def inside(namespace: str) -> Iterator[None]:
    """Sockets that this thread opens meanwhile belong to a network namespace."""
    libc = ctypes.CDLL(None, use_errno=True)

    def enter(path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            if libc.setns(descriptor, CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), f"setns {path}")
        finally:
            os.close(descriptor)

    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        enter(Path("/run/netns") / namespace)
        try:
            yield
        finally:
            enter(Path(f"/proc/self/fd/{own}"))
    finally:
        os.close(own)


@dataclass
class Twins:
    """Running switches, by position in `switches`; the data plane calls them devices 0, 1, ..."""

    switches: Sequence[Switch]
    plane: Any
    # Of each switch, the frames that left each port.
    out: list[dict[int, list[bytes]]] = field(default_factory=list)

    def reset(self) -> None:
        """Load the program afresh everywhere and forget what was received."""
        for switch in self.switches:
            switch.reset()
        self.plane.flush()
        self.forget()

    def forget(self) -> None:
        """Begin anew with what was received."""
        self.out = [defaultdict(list) for _ in self.switches]

    def _count(self, device: int) -> int:
        return sum(len(frames) for frames in self.out[device].values())

    def _receive(self, device: int, timeout: float) -> bool:
        found = self.plane.poll(device_number=device, timeout=timeout)
        if found.packet is None:
            return False
        self.out[device][found.port].append(found.packet)
        return True

    def send(self, port: int, frame: bytes) -> None:
        """Send a frame into a port of every switch and wait until all have done the same with it, or time is up."""
        devices = range(len(self.switches))
        before = [self._count(device) for device in devices]
        for device in devices:
            self.plane.send(device, port, frame)
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            # Of lists, here and below: each device is asked.
            while any([self._receive(device, 0) for device in devices]):  # noqa: C419
                pass
            new = {self._count(device) - before[device] for device in devices}
            # A packet's report may be on its way still, and a packet that is not there yet may not come at all.
            silence = SILENCE_S if new == {0} else SILENCE_S / 10
            if len(new) == 1 and not any([self._receive(device, silence) for device in devices]):  # noqa: C419
                return

    def send_burst(self, port: int, frames: Iterable[bytes], patience_s: float) -> None:
        """Send frames into a port of every switch; wait until each has sent as many as the last one, or time is up."""
        *others, last = range(len(self.switches))
        for frame in frames:
            for device in (*others, last):
                self.plane.send(device, port, frame)
        while self._receive(last, SILENCE_S):
            pass
        deadline = time.monotonic() + patience_s
        for device in others:
            while self._count(device) < self._count(last) and time.monotonic() < deadline:
                self._receive(device, SILENCE_S)

    def drain(self, silence_s: float) -> None:
        """Take what is still on its way, until nothing has come for a while."""
        for device in range(len(self.switches)):
            while self._receive(device, silence_s):
                pass

    def reports(self, device: int) -> list[bytes]:
        """Frames that left the collector's port of a switch."""
        return self.out[device][COLLECTOR_PORT]


@contextlib.contextmanager
def running(targets: Iterable[Target], compiled: Path, seed: int) -> Iterator[Twins]:
    """Start targets with a namespace each; everything is gone at the end.

    Raises:
        RuntimeError: a namespace or a target could not be set up.
    """
    ptf.config.update({"platform": "eth", "socket_recv_size": FRAME_BYTES, "qlen": FRAMES_KEPT})
    with contextlib.ExitStack() as stack:
        plane = DataPlane(ptf.config)
        stack.callback(plane.kill)
        switches = []
        for device, target in enumerate(targets):
            links = stack.enter_context(target.links())
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=lab.PREFIX)))
            process = target.start(links.namespace, links.switch, folder, seed)
            stack.callback(process.stop)
            assert links.namespace is not None
            with inside(links.namespace):
                switch = target.connect(process.parameters, compiled)
                stack.callback(switch.close)
                for port, name in links.tester.items():
                    plane.port_add(name, device, port)
            switches.append(switch)
        yield Twins(switches, plane)
