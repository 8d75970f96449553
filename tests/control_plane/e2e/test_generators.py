# SPDX-License-Identifier: Apache-2.0
"""A kind of flow that Narrows does not have, made by a command of its host, beside one that it has: a real run.

What it takes is what is here: a generator, a line of the registry, and a kind that groups say. The packets are found in
telemetry, and results have the flow as any other.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from narrows.errors import InputError
from narrows.experiment.loader import load
from narrows.onhost import wire
from narrows.onhost.datagrams import Udp
from narrows.run.runner import check, execute
from narrows.targets.registry import target_factory
from narrows.traffic import registry
from narrows.traffic.generator import Generator
from narrows_formats.connection_record import ConnectionRecord
from narrows_formats.programs import COLLECTOR, SOFTSWITCH
from rich.console import Console

DATAGRAMS, PAYLOAD, SECONDS, START_S = 400, 1000, 2, 1
# Datagrams at a constant rate from its own time on; says when it began and ended, on its host's clock.
SENDER = """
import pathlib, socket, sys, time
src, src_port, dst, dst_port, origin, start, seconds, count, payload = sys.argv[1:]
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind((src, int(src_port)))
print("ready", flush=True)
file = pathlib.Path(origin)
while not file.exists() or not file.read_text().endswith("\\n"):
    time.sleep(0.005)
begin = float(file.read_text()) + float(start)
time.sleep(max(0, begin - time.monotonic()))
print(time.monotonic(), flush=True)
for number in range(int(count)):
    time.sleep(max(0, begin + number * float(seconds) / int(count) - time.monotonic()))
    udp.sendto(bytes(int(payload)), (dst, int(dst_port)))
print(time.monotonic(), flush=True)
"""
RECEIVER = """
import socket, sys
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind((sys.argv[1], int(sys.argv[2])))
print("ready", flush=True)
while True:
    udp.recv(2048)
"""
EXPERIMENT: dict[str, Any] = {
    "name": "kinds",
    "bottleneck": {"rate": "20Mbit", "rtt": "20ms", "buffer": "1bdp"},
    "flows": [
        {"cca": "cubic", "duration": "4s"},
        {"name": "steady", "udp": {"rate": "1Mbit"}, "start": f"{START_S}s", "duration": f"{SECONDS}s"},
    ],
}


class SteadyDatagrams(Generator):
    """A process for each end of each flow."""

    @property
    def lead_s(self) -> float:
        return self._testbed.lead_s

    async def _prepare(self) -> None:
        self._processes = []
        self._readers = []
        for flow in self.flows:
            self._offset_s = await self._testbed.clock_offset_s(flow.sender)
            receiver = await self._testbed.put(flow.receiver, "receiver.py", RECEIVER)
            sender = await self._testbed.put(flow.sender, "sender.py", SENDER)
            # A file of the run's own directory, which is there when the experiment begins.
            self._origin_file = str(Path(sender).with_name("datagrams.origin"))
            timing = [self._origin_file, str(flow.start_ns / 1e9), str(SECONDS), str(DATAGRAMS), str(PAYLOAD)]
            for host, words in (
                (flow.receiver, [receiver, flow.dst, str(flow.dst_port)]),
                (flow.sender, [sender, flow.src, str(flow.src_port), flow.dst, str(flow.dst_port), *timing]),
            ):
                process = await self._testbed.spawn(host, ["python3", *words], nobody=True)
                await process.wait_for_line("ready", 10)
                self._processes.append(process)
            self._readers.append(asyncio.create_task(self._follow_sender(flow.name, self._processes[-1])))

    async def _start(self) -> None:
        for flow in self.flows:
            await self._testbed.put(flow.sender, "datagrams.origin", f"{self._t0_s + self._offset_s!r}\n")

    async def _follow_sender(self, name: str, process: Any) -> None:
        flow, times = self._flows[name], []
        async for line in process.lines():
            times.append(float(line) - self._t0_s - self._offset_s)
            if len(times) == 1:
                self._take(wire.Started(name, 0, times[0]))
        if len(times) != 2:
            self._take(wire.Failure(name, f"ended with exit code {await process.wait()}"))
            return
        record = {
            "src_port": flow.src_port, "dst_port": flow.dst_port, "started_s": times[0], "ended_s": times[1],
            "ending": "time_over", "bytes_sent": DATAGRAMS * PAYLOAD,
        }  # fmt: skip
        self._take(wire.Ended(name, 0, times[1], record))
        self._take(wire.Done(name))

    async def group_ended(self, group: str) -> None:
        pass

    async def _stop(self) -> None:
        for process in self._processes:
            await process.stop(1)
            self._testbed.ended(process)
        await asyncio.gather(*self._readers)
        self._processes.clear()


@pytest.fixture
def kinds(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """UDP flows are of another kind than the program knows."""
    monkeypatch.setattr(Udp, "kind", "steady")
    monkeypatch.setattr(Udp, "made_by", "steady")
    steady = registry.Kind(f"{__name__}:{SteadyDatagrams.__name__}", commands=("python3",))
    monkeypatch.setattr(registry, "KINDS", {**registry.KINDS, "steady": steady})
    return monkeypatch


def checked(path: Path) -> Any:
    file = path / "experiment.yaml"
    file.write_text(yaml.safe_dump(EXPERIMENT))
    experiment = load(file)
    return check(experiment, target_factory("soft", results=path)(experiment), str(file))


@pytest.mark.long
@pytest.mark.needs("root", SOFTSWITCH, COLLECTOR)
def test_a_kind_of_its_own_is_run_recognised_and_summarised(tmp_path: Path, kinds: pytest.MonkeyPatch) -> None:
    outcome = execute(checked(tmp_path), tmp_path / "result", Console(quiet=True), "kinds")
    assert outcome.status == "complete", outcome.reason
    run = json.loads((outcome.directory / "run.json").read_text())
    bulk, steady = run["flows"]
    assert (bulk["name"], steady["name"]) == ("cubic-1", "steady-1")
    assert START_S <= steady["started_s"] < START_S + 0.2
    assert steady["bytes_sent"] == DATAGRAMS * PAYLOAD
    record = ConnectionRecord.model_validate_json((outcome.directory / steady["record"]).read_text())
    assert (record.ending, record.retransmits, record.samples) == ("time_over", None, ())
    summary = json.loads((outcome.directory / "summary.json").read_text())
    # Every datagram is an arrival of that flow: nothing else has its 5-tuple.
    assert [flow["name"] for flow in summary["flows"]] == ["cubic-1", "steady-1"]
    assert summary["flows"][1]["arrivals"] == DATAGRAMS
    assert summary["flows"][1]["departures"] + summary["flows"][1]["drops"] == DATAGRAMS
    assert run["drop_cross_check"]["bottleneck"]["holds"]


@pytest.mark.needs("root", SOFTSWITCH, COLLECTOR)
def test_a_command_that_is_missing_is_named(tmp_path: Path, kinds: pytest.MonkeyPatch) -> None:
    kinds.setitem(registry.KINDS, "steady", registry.Kind("unused:unused", commands=("no-such-command",)))
    with pytest.raises(InputError, match="flows of the kind steady need the command 'no-such-command'"):
        checked(tmp_path)
