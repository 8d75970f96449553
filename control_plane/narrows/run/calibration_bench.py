# SPDX-License-Identifier: Apache-2.0
"""A real switch, or the software one, on the bench of a calibration."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
from narrows_formats.files import REPORT_FILES

from narrows.errors import RunError
from narrows.experiment.model import Experiment
from narrows.experiment.plan import ETHERNET_HEADER_BYTES, FIRST_SERVER_PORT, Plan
from narrows.experiment.planning import make_plan
from narrows.hosts.base import Testbed
from narrows.run.bringup import configured
from narrows.run.calibration import Bench, Departures
from narrows.run.collector import TelemetryCollector
from narrows.switch.calibration import QueueFacts
from narrows.targets.base import Target
from narrows.traffic import udp_host

BUFFER = "300kB"
IPV4_UDP_BYTES = 20 + 8
SEND_GRACE_S = 10.0
DRAIN_S = 0.3
TIMESTAMP_BITS = 48


def experiment_of(rate_bps: int) -> Experiment:
    """What a bench is configured for: one sender, no delay, every packet reported."""
    bottleneck = {"rate": f"{rate_bps}bit", "buffer": BUFFER, "rtt": "0s"}
    # The flow stands for its sender; a calibration sends by itself.
    flow = {"name": "load", "cca": "reno", "duration": "1s"}
    return Experiment.model_validate({"name": "calibration", "bottleneck": bottleneck, "flows": [flow]})


class HostBench:
    """Hosts that send through a configured target. See `narrows.run.calibration.Bench`."""

    def __init__(self, target: Target, testbed: Testbed, plan: Plan, directory: Path) -> None:
        """Take what is set up already; reports of each load go to a directory of their own in ``directory``."""
        self._target = target
        self._testbed = testbed
        self._plan = plan
        self._directory = directory
        self._loads = 0

    async def load(self, frame_bytes: int, rate_bps: float, seconds: float) -> Departures:
        """See `Bench.load`."""
        self._loads += 1
        directory = self._directory / str(self._loads)
        collector = TelemetryCollector(self._testbed, self._plan.collector, directory)
        await collector.start()
        try:
            await self._send(frame_bytes, rate_bps, seconds)
            await asyncio.sleep(DRAIN_S + self._plan.bottleneck.limit_bytes * 8 / self._plan.bottleneck.rate_bps)
        finally:
            await collector.stop()
        unit_ns = self._target.profile.time_unit_s * 1e9
        return read_departures(directory, self._plan.bottleneck.index, frame_bytes, unit_ns)

    async def facts(self) -> QueueFacts:
        """See `Bench.facts`."""
        return await self._target.queue_facts(self._plan)

    async def rate_step_ns(self) -> int | None:
        """See `Bench.rate_step_ns`."""
        return await self._target.rate_step_ns(self._plan)

    async def _send(self, frame_bytes: int, rate_bps: float, seconds: float) -> None:
        sender = self._plan.senders[0]
        payload = frame_bytes - ETHERNET_HEADER_BYTES - IPV4_UDP_BYTES
        words = [self._plan.receivers[0].address, str(FIRST_SERVER_PORT), str(payload)]
        words += [str(rate_bps / 8 / frame_bytes), str(seconds)]
        script = await self._testbed.python(sender.name, Path(udp_host.__file__))
        errors = self._testbed.state_dir / "udp.err"
        process = await self._testbed.spawn(sender.name, [*script, *words], stderr=errors)
        try:
            async with asyncio.timeout(seconds + SEND_GRACE_S):
                code = await process.wait()
        except TimeoutError:
            raise RunError(f"{sender.name}: sending UDP did not end in time{process.stderr_tail()}") from None
        if code != 0:
            raise RunError(f"{sender.name}: sending UDP ended with exit code {code}{process.stderr_tail()}")


@asynccontextmanager
async def host_bench(
    make_target: Callable[[Experiment], Target], rate_bps: int, directory: Path
) -> AsyncIterator[Bench]:
    """A bench on a target's own testbed, removed afterwards even after an error.

    Raises:
        RunError: it cannot be set up, or not be taken down.
    """
    experiment = experiment_of(rate_bps)
    target = make_target(experiment)
    plan = target.bind_to_target(make_plan(experiment))
    problems = [*target.unsupported(plan), *target.missing(), *target.machine_problems(plan)]
    if problems:
        raise RunError("\n".join(problems))
    async with configured(target, plan, experiment.mtu) as (testbed, _):
        yield HostBench(target, testbed, plan, directory / f"{rate_bps}-{time.monotonic_ns()}")


def read_departures(directory: Path, bottleneck: int, frame_bytes: int, unit_ns: float) -> Departures:
    """The reports of one load.

    Raises:
        RunError: there are none.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = ["bottleneck", "packet_length", "sequence", "timestamp", "queue_delay", "enqueue_depth"]
    files = sorted(directory.glob(REPORT_FILES))
    if not files:
        raise RunError("no telemetry report arrived; fix: the collector's port and MAC address in the inventory")
    columns = pa.concat_tables([pq.read_table(path, columns=names) for path in files]).to_pydict()
    values = {name: np.asarray(columns[name], dtype=np.int64) for name in names}
    mine = (values["bottleneck"] == bottleneck) & (values["packet_length"] == frame_bytes)
    sequence, raw, delay, found = (values[name][mine] for name in names[2:])
    time_ns = np.round(unwrap(raw, TIMESTAMP_BITS) * unit_ns).astype(np.int64)
    return Departures(unwrap(sequence, 32), time_ns, np.round(delay * unit_ns).astype(np.int64), found)


def unwrap(values: np.ndarray[tuple[int], np.dtype[np.int64]], bits: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """A counter that goes on where it began anew; ``values`` in order."""
    if not len(values):
        return values
    steps = np.diff(values) % (1 << bits)
    return np.concatenate((values[:1], values[0] + np.cumsum(steps)))
