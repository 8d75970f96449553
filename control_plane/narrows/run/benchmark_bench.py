# SPDX-License-Identifier: Apache-2.0
"""The softswitch of this machine between two namespaces, with a report of every frame, as a run has it."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import struct
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import IPv4Address
from pathlib import Path

from narrows_formats import files
from narrows_formats.programs import COLLECTOR

from narrows.errors import RunError
from narrows.experiment.model import Experiment
from narrows.experiment.plan import Host, Plan
from narrows.experiment.planning import make_plan
from narrows.hosts.base import Testbed
from narrows.hosts.links import links
from narrows.hosts.process import processor_s
from narrows.paths import binary
from narrows.run import probes
from narrows.run.benchmark import Trial
from narrows.run.bringup import configured
from narrows.run.collector import TelemetryCollector
from narrows.targets.soft.target import SoftTarget

# Neither a link's rate nor a queue's depth limits it.
RATE, BUFFER = "1000Gbit", "100MB"
# Frames of a capture, which is sent again and again; flows among them.
FRAMES, FLOWS = 4096, 16
UNUSED = IPv4Address("198.19.0.77")
FLAT_OUT = 1_000_000_000
SETTLE_S, POLL_S = 0.5, 0.02
GRACE_S = 30.0
SERVER_PORT = 9


class SoftBench:
    """See `narrows.run.benchmark.Bench`."""

    def __init__(self, target: SoftTarget, testbed: Testbed, plan: Plan, directory: Path, receiver: str) -> None:
        """Take what is set up already; ``receiver`` is the namespace where frames arrive."""
        self._target = target
        self._testbed = testbed
        self._plan = plan
        self._directory = directory
        self._receiver = receiver

    async def trial(self, frame_bytes: int, frames_per_s: float, seconds: float) -> Trial:
        """See `Bench.trial`."""
        reports = self._directory / "reports"
        collector = TelemetryCollector(self._testbed, self._plan.collector, reports)
        await collector.start()
        try:
            before, used = self._arrived(), self._processor_s(collector)
            sent, took = await self._send(frame_bytes, frames_per_s, seconds)
            busy = self._processor_s(collector) - used
            await self._settle(before + sent)
            arrived = self._arrived() - before
        finally:
            await collector.stop()
        stored = int(json.loads((reports / files.COLLECTOR).read_text())["rows"])
        shutil.rmtree(reports)
        return Trial(sent, sent / took, arrived, stored, busy / took)

    async def latencies_ns(self, frame_bytes: int, frames_per_s: float, seconds: float) -> list[int]:
        """See `Bench.latencies_ns`; reports are made, and not stored."""
        sender, receiver = self._plan.senders[0], self._plan.receivers[0]
        probe = frame(sender, receiver, frame_bytes, probes.PORT)
        load = asyncio.create_task(self._send(frame_bytes, frames_per_s, seconds))
        try:
            with probes.Probes(self._testbed, sender.name, receiver.name) as sockets:
                await asyncio.to_thread(sockets.send, probe, seconds * 0.8)
                await load
                return sockets.times_ns()
        finally:
            load.cancel()

    async def _send(self, frame_bytes: int, frames_per_s: float, seconds: float) -> tuple[int, float]:
        """How many frames were sent, and the seconds that it took."""
        sender = self._plan.senders[0]
        capture = self._directory / f"{frame_bytes}.pcap"
        if not capture.exists():
            frames = [frame(sender, self._plan.receivers[0], frame_bytes, 10_000 + n) for n in range(FLOWS)]
            capture.write_bytes(pcap(frames, FRAMES))
        rate = FLAT_OUT if frames_per_s > FLAT_OUT else max(1, round(frames_per_s))
        words = [str(binary(COLLECTOR)), "replay", str(capture), "--interface", self._testbed.interface(sender.name)]
        words += ["--rate", str(rate), "--seconds", str(seconds)]
        answer = self._directory / "sent.json"
        errors = self._directory / "sent.err"
        process = await self._testbed.spawn(sender.name, words, stdout=answer, stderr=errors)
        try:
            async with asyncio.timeout(seconds + GRACE_S):
                code = await process.wait()
        except TimeoutError:
            raise RunError(f"frames are not sent after {seconds + GRACE_S:g} s{process.stderr_tail()}") from None
        finally:
            self._testbed.ended(process)
        if code != 0:
            raise RunError(f"sending frames ended with exit code {code}{process.stderr_tail()}")
        result = json.loads(answer.read_text())
        return int(result["frames"]), float(result["seconds"])

    def _arrived(self) -> int:
        return links(self._receiver)[self._testbed.interface(self._plan.receivers[0].name)].rx_packets

    def _processor_s(self, collector: TelemetryCollector) -> float:
        return sum(processor_s(pid) for pid in (self._target.pid, collector.pid))

    async def _settle(self, expected: int) -> None:
        deadline = time.monotonic() + SETTLE_S
        while self._arrived() < expected and time.monotonic() < deadline:
            await asyncio.sleep(POLL_S)


@asynccontextmanager
async def soft_bench(directory: Path) -> AsyncIterator[SoftBench]:
    """A bench, removed afterwards even after an error.

    Raises:
        RunError: it cannot be set up, or not be taken down.
    """
    link = {"rate": RATE, "buffer": BUFFER, "rtt": "0s"}
    flow = {"name": "load", "cca": "reno", "duration": "1s"}
    experiment = Experiment.model_validate({"name": "benchmark", "bottleneck": link, "flows": [flow]})
    plan, target = make_plan(experiment), SoftTarget()
    async with configured(target, plan, experiment.mtu) as (testbed, state):
        yield SoftBench(target, testbed, plan, directory, state.namespace(plan.receivers[0].name))


def frame(sender: Host, receiver: Host, length: int, port: int) -> bytes:
    """UDP of a host for another, ``length`` bytes in all, to an address the receiver's kernel does not answer for."""
    payload = bytes(length - 42)
    udp = struct.pack("!HHHH", port, SERVER_PORT, 8 + len(payload), 0) + payload
    addresses = IPv4Address(sender.address).packed + UNUSED.packed
    words = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 64, socket.IPPROTO_UDP, 0) + addresses
    total = sum(struct.unpack("!10H", words))
    total = (total & 0xFFFF) + (total >> 16)
    checksum = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
    ip = words[:10] + struct.pack("!H", checksum) + words[12:]
    ends = bytes.fromhex(receiver.mac.replace(":", "")) + bytes.fromhex(sender.mac.replace(":", ""))
    return ends + b"\x08\x00" + ip + udp


def pcap(frames: list[bytes], count: int) -> bytes:
    """A capture of frames in turn."""
    header = struct.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    records = [struct.pack("<IIII", 0, 0, len(one), len(one)) + one for one in frames]
    return header + b"".join(records[number % len(records)] for number in range(count))
