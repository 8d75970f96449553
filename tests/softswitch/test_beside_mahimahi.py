# SPDX-License-Identifier: Apache-2.0
"""A trace of delivery opportunities beside Mahimahi's own mm-link: the same arrivals leave at the same opportunities.

mm-link runs in real time, on a tun device in a network namespace of its own. Its log says in which millisecond each
packet came and at which opportunity it left, so that nothing of the comparison is the machine's: what came there is
replayed through the softswitch, and has to leave at the very same opportunities.
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from harness import ROOT, replay, write_frames

MILLISECOND = 1_000_000
# A tun device gives an IP packet and so many bytes more; an Ethernet frame is longer by its header.
TUN_HEADER, ETHERNET_HEADER = 4, 14
# mm-link is to be set-uid to root, and run by another user.
NOBODY = 65534
READY_S = 10.0
# With it Mahimahi masks what comes out of its shell, which is not needed here and not in every kernel.
FIREWALL = "iptables"
OWN = ROOT / "experiments/traces/lte.mahimahi"
# Another trace to take, for as long as it lasts.
GIVEN = "NARROWS_MAHIMAHI_TRACE"


@dataclass(frozen=True)
class Log:
    """What mm-link says of its link: ms after the trace's begin, and packets' sizes as the tun device gave them."""

    arrivals: list[tuple[int, int]]
    departures: list[tuple[int, int]]
    last_opportunity: int


def read(path: Path) -> Log:
    """Lines are `TIME + BYTES` for an arrival, `- BYTES DELAY` for a departure, `# BYTES` for an opportunity."""
    lines = [line.split() for line in path.read_text().splitlines()]
    (base,) = (int(words[-1]) for words in lines if words[:3] == ["#", "base", "timestamp:"])
    lines = [words for words in lines if words[0] != "#"]
    of = {what: [(int(words[0]) - base, int(words[2])) for words in lines if words[1] == what] for what in "+-#"}
    return Log(of["+"], of["-"], of["#"][-1][0])


def through_mahimahi(trace: Path, directory: Path, seconds: float) -> Log:
    """Offer bursts of packets of all sizes to mm-link's downlink for some time."""
    directory.chmod(0o777)
    copy, log, address = (directory / name for name in ("trace", "log", "address"))
    shutil.copy(trace, copy)
    prepare = "ip link set lo up && sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.default.disable_ipv6=1"
    if firewall := shutil.which(FIREWALL):
        prepare += f" && mount --bind /bin/true {Path(firewall).resolve()}"
    user = f"setpriv --ruid={NOBODY} --rgid={NOBODY} --clear-groups"
    command = f"echo $MAHIMAHI_BASE > {address} && exec sleep infinity"
    link = f"exec {user} mm-link --downlink-log={log} {copy} {copy} -- sh -c '{command}'"
    process = subprocess.Popen(
        ["unshare", "--net", "--mount", "sh", "-c", f"{prepare} && {link}"],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + READY_S
        while not (address.exists() and address.read_text().strip()):
            assert process.poll() is None and time.monotonic() < deadline, process.stderr and process.stderr.read()
            time.sleep(0.01)
        # The shell's address follows that of the side outside.
        *network, outside = address.read_text().strip().split(".")
        inside = ".".join([*network, str(int(outside) + 1)])
        sender = ["nsenter", f"--net=/proc/{process.pid}/ns/net", sys.executable, __file__, inside, str(seconds)]
        subprocess.run(sender, check=True)
    finally:
        process.terminate()
        process.communicate()
    return read(log)


def send(target: str, seconds: float) -> None:
    """Bursts of random sizes at random times, of about 8 Mbit/s."""
    draw = random.Random(38)
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    begun = time.monotonic()
    while time.monotonic() < begun + seconds:
        for _ in range(draw.randint(1, 20)):
            out.sendto(bytes(draw.choice([1, draw.randint(2, 1471), 1472, 1472])), (target, 9))
        time.sleep(draw.expovariate(100))


def through_ours(trace: Path, directory: Path, log: Log) -> list[tuple[int, int]]:
    """When what came leaves the softswitch, as the log has it; packets of one millisecond come at its begin."""
    frames = (
        (came * MILLISECOND + number, size - TUN_HEADER + ETHERNET_HEADER)
        for came, packets in itertools.groupby(log.arrivals, key=lambda arrival: arrival[0])
        for number, (_, size) in enumerate(packets)
    )
    write_frames(directory / "came.pcap", frames)
    source = {"pcap": "came.pcap", "start_ns": log.arrivals[0][0] * MILLISECOND}
    _, left = replay(directory, {"mahimahi": {"file": str(trace)}}, source)
    assert all(time_ns % MILLISECOND == 0 for time_ns, _ in left)
    return [(time_ns // MILLISECOND, length - ETHERNET_HEADER + TUN_HEADER) for time_ns, length in left]


@pytest.mark.needs("root", "mm-link", "narrows-softswitch", "unshare", "mount", "sysctl", "ip")
def test_packets_leave_at_mahimahis_opportunities(tmp_path: Path) -> None:
    trace, seconds = OWN, 3.0
    if GIVEN in os.environ:
        trace = Path(os.environ[GIVEN])
        # Into the second round.
        seconds = int(trace.read_text().split()[-1]) / 1000 + 3
    # Its user may not look into ours.
    with tempfile.TemporaryDirectory(prefix="narrows-mahimahi-") as scratch:
        log = through_mahimahi(trace, Path(scratch), seconds)
    # Of the last opportunity the log may lack packets.
    expected = [packet for packet in log.departures if packet[0] < log.last_opportunity]
    assert len(expected) > 50 * seconds
    found = [packet for packet in through_ours(trace, tmp_path, log) if packet[0] < log.last_opportunity]
    assert found == expected


if __name__ == "__main__":
    send(sys.argv[1], float(sys.argv[2]))
