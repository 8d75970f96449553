# SPDX-License-Identifier: Apache-2.0
"""How constant a constant delay is: Narrows and tc-netem."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
from accuracy import capturing, read_frames
from measuring import Contestant, Series, alternate
from narrows.errors import RunError
from narrows.hosts.links import set_sysctls
from narrows.switch import traffic_manager_pb2 as pb
from network import RECEIVER, SENDER, Network, address
from results import Outcome, Table, with_programs
from switches import bridge, softswitch

TITLE = "Accuracy of a constant delay"
DELAY_S = 0.02
RATES_PPS = (1_000, 10_000)
SECONDS = 3.0
FRAME_BYTES = 1514
# Ethernet, IPv4 and UDP headers; the number of the datagram follows.
HEADER_BYTES = 42
Switch = Callable[[Network], AbstractContextManager[None]]

# Numbered datagrams at a steady rate.
SEND = """
import socket, sys, time
host, rate, seconds, payload = sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), bytes(int(sys.argv[4]) - 8)
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect((host, 9))
start, sent = time.monotonic(), 0
while (now := time.monotonic()) - start < seconds:
    while sent < (now - start) * rate:
        try:
            s.send(sent.to_bytes(8, "little") + payload)
        except ConnectionRefusedError:
            continue
        sent += 1
    time.sleep(0.5 / rate)
"""


@with_programs(TITLE, "tcpdump")
def run(runs: int) -> Outcome:
    """A steady stream through each contestant at each rate; how far each frame's delay is from the set one."""
    switches: dict[str, Switch] = {"Narrows": _narrows}
    skipped = []
    if _has_netem():
        switches["netem"] = _netem
    else:
        skipped.append("netem: not in this kernel")
    table = Table(("Frames/s", "Delay by", "p50, us", "p99, us", "max, us", "Mean, us"))
    data: dict[str, object] = {"seconds": SECONDS, "delay_s": DELAY_S}
    for rate in RATES_PPS:
        contestants: dict[str, Contestant] = {name: partial(delays, switch, rate) for name, switch in switches.items()}
        series = alternate(contestants, runs)
        data[str(rate)] = series.as_json()
        table.rows += [_row(series, rate, name) for name in switches]
    conditions = (
        f"A constant delay of {DELAY_S * 1e3:g} ms, no rate limit; {FRAME_BYTES}-byte frames at a steady rate for "
        f"{SECONDS:g} s; a report on every packet at Narrows, the kernel's bridge with netem on its egress interface "
        "otherwise. The kernel stamps each frame at the sender's and at the receiver's interface; the error is the "
        "distance of their difference from the set delay, and includes what forwarding itself takes."
    )
    commands = [
        "switch$   narrows-softswitch serve ... (port 2: delay_ns=DELAY)",
        f"switch$   tc qdisc add dev p2 root netem delay {DELAY_S * 1e3:g}ms limit 100000",
    ]
    return Outcome(TITLE, conditions, [table], data, commands, skipped)


def _row(series: Series, rate: int, name: str) -> tuple[str, ...]:
    errors = [series.spread(name, f"error_{part}_us").text() for part in ("p50", "p99", "max", "mean")]
    return (f"{rate:,}", name, *errors)


@contextmanager
def _narrows(network: Network) -> Iterator[None]:
    with softswitch(network, pb.ConfigureRequest(port=2, queue=0, delay_ns=int(DELAY_S * 1e9))):
        yield


def _has_netem() -> bool:
    with Network() as network:
        try:
            network.call("switch", "tc", "qdisc", "add", "dev", "p2", "root", "netem", "delay", "1ms")
        except RunError:
            return False
    return True


@contextmanager
def _netem(network: Network) -> Iterator[None]:
    with bridge(network):
        network.call("switch", *f"tc qdisc add dev p2 root netem delay {DELAY_S * 1e3:g}ms limit 100000".split())
        yield


def delays(switch: Switch, rate: int) -> dict[str, float]:
    """Errors of the delay of each frame, in us."""
    with Network() as network, switch(network):
        paths = {host: network.directory / f"{host}.pcap" for host in (SENDER, RECEIVER)}
        set_sysctls(network.namespace(RECEIVER), {"net.ipv4.icmp_ratelimit": "1000000"})
        with ExitStack() as captures:
            for host, path in paths.items():
                captures.enter_context(capturing(network, host, path, FRAME_BYTES))
            numbers = (rate, SECONDS, FRAME_BYTES - HEADER_BYTES)
            network.call(SENDER, sys.executable, "-c", SEND, address(2), *map(str, numbers))
            # tcpdump hands over what it has once a second.
            time.sleep(1.2)
        sent, received = (_times(path) for path in paths.values())
    common, left, right = np.intersect1d(sent[0], received[0], return_indices=True)
    if len(common) < len(sent[0]):
        raise RunError(f"{len(sent[0]) - len(common)} of {len(sent[0])} frames were lost")
    error = np.abs(received[1][right] - sent[1][left] - int(DELAY_S * 1e9)) / 1e3
    return {
        "error_p50_us": float(np.percentile(error, 50)),
        "error_p99_us": float(np.percentile(error, 99)),
        "error_max_us": float(error.max()),
        "error_mean_us": float(error.mean()),
        "frames": float(len(error)),
    }


def _times(path: Path) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Numbers of the frames of a capture and their times in ns."""
    times, _, data = read_frames(path)
    return data[:, HEADER_BYTES : HEADER_BYTES + 8].copy().view("<i8").ravel(), times
