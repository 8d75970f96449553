# SPDX-License-Identifier: Apache-2.0
"""How far departures are from the ideal schedule of a byte clock: Narrows and tc-tbf at the same rate."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
from measuring import Contestant, Series, alternate
from narrows.errors import RunError
from narrows.hosts.links import set_sysctls
from narrows.switch import traffic_manager_pb2 as pb
from network import RECEIVER, SENDER, Network, address
from results import Outcome, Table, with_programs
from switches import bridge, collected_softswitch

TITLE = "Accuracy of departure times"
RATES_BPS = (10_000_000, 100_000_000, 500_000_000)
SECONDS = 2.0
# Cut off at the start: a token bucket begins full, and buffers and caches are cold.
SETTLE_S = 0.3
OVERLOAD = 1.2
FRAME_BYTES = 1514
PAYLOAD_BYTES = FRAME_BYTES - 42
# The queue holds this much of its rate, filled at once: it covers pauses of a sender that the scheduler holds up.
QUEUE_S = 0.1
SNAP_BYTES = 64
Shaper = Callable[[Network, int], AbstractContextManager[None]]

# Fills the queue, then offers more than its rate in bursts of a millisecond: the shaper alone sets the times.
# Prints the longest pause between two bursts in seconds.
SEND = """
import socket, sys, time
host, rate, seconds, payload, ahead = sys.argv[1], *map(float, sys.argv[2:4]), bytes(int(sys.argv[4])), int(sys.argv[5])
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect((host, 9))
start = last = time.monotonic()
sent, longest = -ahead, 0.0
while (now := time.monotonic()) - start < seconds:
    longest, last = max(longest, now - last), now
    while sent < (now - start) * rate:
        try:
            s.send(payload)
        except ConnectionRefusedError:
            continue
        sent += 1
    time.sleep(0.001)
print(longest)
"""


@with_programs(TITLE, "tcpdump")
def run(runs: int) -> Outcome:
    """A saturated queue at each rate; errors of each frame's arrival at the receiver."""
    shapers: dict[str, Shaper] = {
        "Narrows": _narrows,
        "tbf, burst of 1 frame": partial(_tbf, burst_s=0.0),
        "tbf, burst of 4 ms": partial(_tbf, burst_s=0.004),
    }
    header = ("Rate", "Shaper", "p50, us", "p99, us", "max, us", "Rate error, %", "Sender's longest pause, ms")
    table = Table(header)
    data: dict[str, object] = {"seconds": SECONDS}
    for rate in RATES_BPS:
        contestants: dict[str, Contestant] = {
            name: partial(_departures, shaper, rate) for name, shaper in shapers.items()
        }
        series = alternate(contestants, runs)
        data[str(rate)] = series.as_json()
        table.rows += [_row(series, rate, name) for name in shapers]
    conditions = (
        f"A queue that is never empty ({OVERLOAD:g} times the rate offered, {FRAME_BYTES}-byte frames, a report on "
        "every packet at Narrows, which a collector stores, the kernel's bridge with tbf on its egress interface "
        "otherwise). The kernel stamps each frame at the receiving interface. The ideal schedule sends the bits seen "
        "so far at exactly the set rate; it is laid through the median of the frames, and the error of a frame is its "
        f"distance from it, early or late. The queue holds {QUEUE_S * 1e3:g} ms and is filled at once: only a longer "
        f"pause of the sender could empty it. The first {SETTLE_S:g} s of {SECONDS:g} s are left out. The rate error "
        "is that of all bytes over the whole time."
    )
    commands = [
        "switch$   narrows-softswitch serve ... (queue 0 of port 2: rate_bps=RATE)",
        "switch$   tc qdisc add dev p2 root tbf rate RATEbit burst BYTES limit LIMIT",
        f"receiver$ {' '.join(_capture(Path('capture.pcap')))}",
    ]
    return Outcome(TITLE, conditions, [table], data, commands)


def _row(series: Series, rate: int, name: str) -> tuple[str, ...]:
    errors = [series.spread(name, f"error_{part}_us").text() for part in ("p50", "p99", "max")]
    rate_error = series.spread(name, "rate_error_percent").text()
    return (
        f"{rate // 1_000_000} Mbit/s",
        name,
        *errors,
        rate_error,
        series.spread(name, "sender_longest_pause_ms").text(),
    )


@contextmanager
def _narrows(network: Network, rate: int) -> Iterator[None]:
    setting = pb.ConfigureRequest(port=2, queue=0, rate_bps=rate, limit_bytes=limit_bytes(rate), limit_packets=0)
    with collected_softswitch(network, setting):
        yield


@contextmanager
def _tbf(network: Network, rate: int, burst_s: float) -> Iterator[None]:
    burst = max(FRAME_BYTES, int(rate / 8 * burst_s))
    words = f"tc qdisc add dev p2 root tbf rate {rate}bit burst {burst} limit {limit_bytes(rate)}"
    with bridge(network):
        network.call("switch", *words.split())
        yield


def _capture(
    path: Path, frame_bytes: int = FRAME_BYTES, interface: str = "eth0", buffer_kib: int = 65_536
) -> list[str]:
    filters = f"udp and greater {frame_bytes}".split()
    options = f"-i {interface} -s {SNAP_BYTES} -B {buffer_kib} --time-stamp-precision=nano -w {path}".split()
    return ["tcpdump", *options, *filters]


def _departures(shaper: Shaper, rate: int) -> dict[str, float]:
    with Network() as network, shaper(network, rate):
        path = network.directory / "capture.pcap"
        # The port is closed; the kernel's answers must not pass the switch.
        set_sysctls(network.namespace(RECEIVER), {"net.ipv4.icmp_ratelimit": "1000000"})
        with capturing(network, RECEIVER, path):
            packets = OVERLOAD * rate / 8 / FRAME_BYTES
            numbers = (packets, SECONDS, PAYLOAD_BYTES, limit_bytes(rate) // FRAME_BYTES)
            pause_s = float(network.call(SENDER, sys.executable, "-c", SEND, address(2), *map(str, numbers)))
            time.sleep(0.3)
        times, lengths, _ = read_frames(path)
    # Longer than the queue lasts: then it may have run empty, and that would be no fault of the shaper.
    return {**errors(times, lengths, rate), "sender_longest_pause_ms": pause_s * 1e3}


@contextmanager
def capturing(
    network: Network,
    host: str,
    path: Path,
    frame_bytes: int = FRAME_BYTES,
    interface: str = "eth0",
    buffer_kib: int = 65_536,
) -> Iterator[None]:
    """Capture the UDP frames of at least this length at a host's interface while the block runs.

    Raises:
        RunError: the capture does not start, or has not kept up.
    """
    command = network.inside(host, *_capture(path, frame_bytes, interface, buffer_kib))
    capture = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    assert capture.stderr is not None
    try:
        while "listening on" not in (line := capture.stderr.readline()):
            if not line:
                raise RunError("tcpdump does not start")
        yield
    finally:
        capture.terminate()
        words = capture.stderr.read()
        capture.wait()
    lost = re.search(r"(\d+) packets? dropped by kernel", words)
    if lost is None or lost[1] != "0":
        raise RunError(f"the capture is not complete: {words.strip()}")


def limit_bytes(rate: int) -> int:
    """The queue's limit at a rate in bit/s: ``QUEUE_S`` of it."""
    return int(rate * QUEUE_S / 8)


def read_frames(path: Path) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Read a nanosecond pcap file with equally long records.

    Returns:
        Times in ns, lengths on the wire in bytes, and the captured bytes (a row for each frame).

    Raises:
        RunError: it is another kind of file.
    """
    content = path.read_bytes()
    if struct.unpack_from("<I", content)[0] != 0xA1B23C4D:
        raise RunError(f"{path} is not a little-endian pcap file with nanoseconds")
    fields = [("s", "<u4"), ("ns", "<u4"), ("kept", "<u4"), ("length", "<u4"), ("data", "u1", SNAP_BYTES)]
    record = np.dtype(fields)
    count = (len(content) - 24) // record.itemsize
    rows = np.frombuffer(content, record, count, offset=24)
    if not count or np.any(rows["kept"] != SNAP_BYTES):
        raise RunError(f"{path} has frames of other lengths, or none")
    times = rows["s"].astype(np.int64) * 1_000_000_000 + rows["ns"]
    return times, rows["length"].astype(np.int64), rows["data"]


def errors(
    times: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64], rate: int, settle_s: float = SETTLE_S
) -> dict[str, float]:
    """Distances from the ideal schedule.

    Args:
        times: ns, of each frame.
        lengths: bytes, of each frame.
        rate: bit/s.
        settle_s: left out at the start, s.

    Returns:
        Absolute errors' p50, p99 and maximum in us, the rate's error in percent, and the number of frames.
    """
    kept = times >= times[0] + int(settle_s * 1e9)
    times, lengths = times[kept], lengths[kept]
    ideal = np.cumsum(lengths) * (8e9 / rate)
    distance = (times - times[0]) - ideal
    distance = np.abs(distance - np.median(distance)) / 1e3
    # The first frame starts the clock; its own bits came before.
    measured = lengths[1:].sum() * 8e9 / (times[-1] - times[0])
    return {
        "error_p50_us": float(np.percentile(distance, 50)),
        "error_p99_us": float(np.percentile(distance, 99)),
        "error_max_us": float(distance.max()),
        "rate_error_percent": float((measured / rate - 1) * 100),
        "frames": float(len(times)),
    }
