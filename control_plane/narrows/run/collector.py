# SPDX-License-Identifier: Apache-2.0
"""The telemetry collector of a run: narrows-collector, listening where the switch's reports arrive."""

from __future__ import annotations

import asyncio
import re
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from narrows_formats.programs import COLLECTOR
from narrows_formats.target_profile import TargetProfile

from narrows.errors import RunError
from narrows.experiment.plan import Collector
from narrows.hosts.base import SharedFiles, Testbed
from narrows.hosts.process import Process, processor_s, waits_for_disk
from narrows.paths import binary

READY_S = 20.0
FLUSH_S = 120.0
# A local collector that has used no CPU time for this long after SIGTERM is hung.
STUCK_S, POLL_S = 10.0, 0.5
HOST = "collector"
SHOWN = re.compile(r"\d+ reports in (?P<bytes>\d+) bytes")


class TelemetryCollector:
    """One collector process that writes Parquet files into a run's ``telemetry`` directory."""

    def __init__(self, testbed: Testbed, settings: Collector, directory: Path) -> None:
        """Nothing is started before `start`."""
        self._testbed = testbed
        self._settings = settings
        self._directory = directory
        self._process: Process | None = None

    async def start(
        self,
        pipe: str | None = None,
        figures: tuple[Path, TargetProfile] | None = None,
        stream: Path | None = None,
        watched: Sequence[str] = (),
    ) -> None:
        """Start it and wait until it captures.

        Args:
            pipe: what the switch writes its reports into; None if it sends them.
            figures: a new socket at which it shows figures for Prometheus, and their units; None if they are not read.
            stream: a new file that takes all reports as an Arrow stream, or None for no such file.
            watched: fields of metadata that the switch records of each packet, which needs a pipe.

        Raises:
            RunError: it does not come up.
        """
        self._directory.mkdir(parents=True, exist_ok=True)
        program = await self._testbed.program(HOST, binary(COLLECTOR))
        out = self._testbed.directory(HOST, self._directory)
        if pipe is None:
            source = ["--interface", self._testbed.interface(HOST), "--rings", str(self._settings.rings)]
        else:
            source = ["--pipe", pipe]
        command = [program, "collect", *source, "--out", out]
        command += ["--port", str(self._settings.dst_port)]
        command += ["--switch", f"{self._settings.src_address}:{self._settings.src_port}"]
        if figures is not None:
            metrics, profile = figures
            command += ["--metrics", f"unix:{metrics}", "--time-unit-s", repr(profile.time_unit_s)]
            command += ["--empty-queue-delay", str(profile.empty_queue_delay)]
            if profile.depth_unit_bytes is not None:
                command += ["--depth-unit-bytes", str(profile.depth_unit_bytes)]
        for name in watched:
            command += ["--watch", name]
        if stream is not None:
            command += ["--arrow-file", str(stream)]
        errors = self._testbed.state_dir / "collector.err"
        self._process = await self._testbed.spawn(HOST, command, stderr=errors)
        await self._process.wait_for_line("ready", READY_S)

    async def show(self) -> int:
        """Have the stream's file complete with all that was received; returns how many bytes of it that is.

        Raises:
            RunError: it cannot be written, or the collector has ended.
        """
        process = self._begun
        process.send_signal(signal.SIGUSR1)
        said = await process.next_line(READY_S)
        if (found := SHOWN.fullmatch(said)) is None:
            raise RunError(f"the collector's reports cannot be read while they come: {said}")
        return int(found["bytes"])

    @property
    def pid(self) -> int:
        """Process id, while it runs."""
        return self._begun.pid

    @property
    def _begun(self) -> Process:
        if self._process is None:
            raise RunError("the collector is not running")
        return self._process

    def check(self) -> None:
        """Notice early that it has died.

        Raises:
            RunError: it is not running.
        """
        if self._process is not None and self._process.returncode is not None:
            raise RunError(
                f"the collector ended with exit code {self._process.returncode}{self._process.stderr_tail()}"
            )

    async def _is_stuck(self, process: Process) -> bool:
        """Ask it to end, and wait for that as long as it works; whether it does not."""
        process.send_signal(signal.SIGTERM)
        if not isinstance(self._testbed, SharedFiles):
            return False
        used_s, since = -1.0, time.monotonic()
        while process.returncode is None:
            if (now_s := processor_s(process.pid)) != used_s or waits_for_disk(process.pid):
                used_s, since = now_s, time.monotonic()
            if time.monotonic() - since >= STUCK_S:
                return True
            await asyncio.sleep(POLL_S)
        return False

    async def stop(self) -> None:
        """Let it write out everything it has received; safe to call twice.

        Raises:
            RunError: it did not end well, so that its files may be incomplete.
        """
        if self._process is None:
            return
        process, self._process = self._process, None
        stuck = await self._is_stuck(process)
        code = await process.stop(0.0 if stuck else FLUSH_S)
        await self._testbed.fetch(HOST, self._directory)
        if stuck:
            raise RunError(
                f"the collector stood still ({STUCK_S:g} s without processor time after it was asked to end) and was "
                "ended: its last reports are lost"
            )
        if code != 0:
            raise RunError(f"the collector ended with exit code {code}{process.stderr_tail()}")
