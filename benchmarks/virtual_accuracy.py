# SPDX-License-Identifier: Apache-2.0
"""How far departures are from the ideal schedule in virtual time: Narrows, and tc-tbf in a guest like it.

As a program, ``virtual_accuracy.py SHAPER RATE``, it is the first process of a guest that measures one of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from accuracy import FRAME_BYTES, PAYLOAD_BYTES, SEND, capturing, errors, read_frames
from measuring import Contestant, alternate
from narrows.errors import RunError
from narrows.experiment.loader import validate
from narrows.experiment.planning import make_plan
from narrows.hosts.links import set_sysctls
from narrows.switch import traffic_manager_pb2 as pb
from narrows.targets.soft.virtual_time import adapted, settings
from narrows.virtual.guest import Guest
from narrows.virtual.init import Channel, power_off, prepare
from narrows.virtual.kernels import Kernel, remembered
from network import RECEIVER, SENDER, Network, address
from results import Outcome, Table, with_programs
from switches import PORTS, softswitch
from virtual import in_guests

TITLE = "Accuracy of departure times in virtual time"
# Rate in bit/s, and for how long: some thousand frames.
RATES = {10_000_000: 4.0, 1_000_000_000: 0.1, 10_000_000_000: 0.02, 100_000_000_000: 0.01}
SETTLE = 0.2
OVERLOAD = 1.2
RTT = "10ms"
MEMORY_BYTES = 2 << 30
NARROWS = "narrows"
# Names on the command line; of tbf with the microseconds of its burst, which is a frame at least. While senders offer
# a fifth more than the rate a burst is used up in five times its length.
SHAPERS = {"Narrows": NARROWS, "tbf, burst of 1 frame": "tbf-0", "tbf, burst of 0.1 ms": "tbf-100"}


@with_programs(TITLE, "tcpdump")
@in_guests(TITLE)
def run(runs: int, kernel: Kernel) -> Outcome:
    """A saturated queue at each rate, in a guest for each."""
    table = Table(("Rate", "Shaper", "p50, us", "p99, us", "max, us", "Rate error, %", "Frames"))
    about = remembered(kernel)
    data: dict[str, object] = {} if about is None else {"guest": f"Linux {about.release}"}
    for rate in RATES:
        contestants: dict[str, Contestant] = {
            name: partial(_in_a_guest, kernel, shaper, rate) for name, shaper in SHAPERS.items()
        }
        series = alternate(contestants, runs)
        data[str(rate)] = series.as_json()
        for name in SHAPERS:
            figures = ("error_p50_us", "error_p99_us", "error_max_us", "rate_error_percent", "frames")
            spread = series.texts(name, figures)
            table.rows.append((f"{rate / 1e6:g} Mbit/s", name, *spread))
    conditions = (
        f"As for real time: a queue that is never empty, {FRAME_BYTES}-byte frames, stamped by the kernel of the guest "
        "where they arrive; the distance of each from a schedule that sends at exactly the set rate, laid through the "
        "median. Narrows runs as in `narrows run --virtual` at an RTT of 10 ms, every packet reported; tbf is on "
        f"the sender's own interface. The first {SETTLE:.0%} of the time are left out."
    )
    return Outcome(TITLE, conditions, [table], data, ["benchmarks/virtual_accuracy.py SHAPER RATE (in a guest)"])


def _in_a_guest(kernel: Kernel, shaper: str, rate: int) -> dict[str, float]:
    return asyncio.run(_boot(kernel, shaper, rate))


async def _boot(kernel: Kernel, shaper: str, rate: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="narrows-") as scratch:
        init = [sys.executable, str(Path(__file__).resolve()), shaper, str(rate)]
        async with await Guest.start(kernel, MEMORY_BYTES, init, min(os.sched_getaffinity(0)), Path(scratch)) as guest:
            async for line in guest.lines():
                found: dict[str, float] = json.loads(line)
                return found
        raise RunError(f"{shaper} at {rate} bit/s: the guest ended{guest.stderr_tail()}")


@contextmanager
def _narrows(network: Network, rate: int) -> Iterator[tuple[str, str]]:
    bottleneck = {"rate": f"{rate}bit", "buffer": "1bdp", "rtt": RTT}
    experiment = {"name": "accuracy", "bottleneck": bottleneck, "flows": [{"cca": "cubic", "duration": "1s"}]}
    plan = adapted(make_plan(validate(experiment, "accuracy")))
    delay_ns = next(port.delay_ns for port in plan.ports if port.host == plan.receivers[0].name)
    setting = pb.ConfigureRequest(
        port=2, queue=0, rate_bps=rate, limit_bytes=rate // 80, limit_packets=0, delay_ns=delay_ns
    )  # fmt: skip
    # Port 1 is the sender's here, whose reverse path carries nothing; reports leave by port 3.
    back = pb.ConfigureRequest(port=1, queue=0, delay_ns=delay_ns)
    with softswitch(network, setting, back, options=settings(plan).arguments(PORTS)):
        yield RECEIVER, "eth0"


@contextmanager
def _tbf(network: Network, rate: int, shaper: str) -> Iterator[tuple[str, str]]:
    burst = max(FRAME_BYTES, rate * int(shaper.removeprefix("tbf-")) // 8_000_000)
    words = f"tc qdisc add dev eth0 root tbf rate {rate}bit burst {burst} limit {rate // 80}"
    network.call(SENDER, *words.split())
    yield "switch", "p1"


def _departures(shaper: str, rate: int) -> dict[str, float]:
    seconds = RATES[rate]
    with contextlib.ExitStack() as stack:
        network = stack.enter_context(Network())
        shaping = _narrows(network, rate) if shaper == NARROWS else _tbf(network, rate, shaper)
        host, interface = stack.enter_context(shaping)
        path = network.directory / "capture.pcap"
        set_sysctls(network.namespace(RECEIVER), {"net.ipv4.icmp_ratelimit": "1000000"})
        with capturing(network, host, path, interface=interface, buffer_kib=262_144):
            numbers = (OVERLOAD * rate / 8 / FRAME_BYTES, seconds, PAYLOAD_BYTES, rate // 80 // FRAME_BYTES)
            network.call(SENDER, sys.executable, "-c", SEND, address(2), *map(str, numbers))
            time.sleep(0.3)
        times, lengths, _ = read_frames(path)
    return errors(times, lengths, rate, SETTLE * seconds)


def main(shaper: str, rate: int) -> None:
    """The life of a guest: prints what was found, as JSON on its second console."""
    try:
        prepare()
        Channel().tell(**_departures(shaper, rate))
    finally:
        power_off()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
