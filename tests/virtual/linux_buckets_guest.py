# SPDX-License-Identifier: Apache-2.0
"""The first process of a guest in which Linux polices or shapes a train of frames at a bridge's way out.

    first -- bridge -- last, with qdiscs on the bridge's side of it

Reads task.json: ``commands`` of tc, with DEV for the interface, and ``train``, each frame's gap to the one before, in
ns, and its length. Tells ``came`` and ``left``: of each frame that reached the bridge, and of each that left it, the
time in ns and the length. The kernel stamps frames before qdiscs and behind them.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from pathlib import Path

from narrows.virtual.init import Channel, power_off, prepare

# The first process of a guest does not have its own directory on sys.path.
sys.path.append(str(Path(__file__).parent))
from launches import HEADER, PROTOCOL, SO_RCVBUFFORCE, SO_TIMESTAMPNS, TIME

EVERY_PROTOCOL = 3  # ETH_P_ALL of linux/if_ether.h
BUFFER_BYTES = 256 << 20
QUIET_S = 5.0  # longer than any queue
LINKS = (
    "add first type veth peer name in", "add last type veth peer name out", "add bridge type bridge",
    "set in master bridge", "set out master bridge",
    *(f"set {name} up" for name in ("bridge", "first", "in", "out", "last")),
)  # fmt: skip


def stamped(interface: str) -> socket.socket:
    """A socket that keeps what arrives at an interface, with its time."""
    found = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    found.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
    found.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    # A bridge takes frames before who asks for one protocol sees them.
    found.bind((interface, EVERY_PROTOCOL))
    found.setblocking(False)
    return found


def arrived(receiver: socket.socket) -> list[tuple[int, int]]:
    """Time in ns and length of each frame that has arrived."""
    found = []
    try:
        while True:
            frame, ((_, _, stamp),), _, _ = receiver.recvmsg(2048, 64)
            seconds, nanoseconds = TIME.unpack(stamp)
            found.append((seconds * 10**9 + nanoseconds, len(frame)))
    except BlockingIOError:
        return found


def main() -> None:
    """The life of the guest."""
    try:
        task = json.loads(Path("/proc/self/cwd/task.json").read_text())
        prepare()
        Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")
        for words in LINKS:
            subprocess.run(["ip", "link", *words.split()], check=True)
        for words in task["commands"]:
            subprocess.run(["tc", *words.replace("DEV", "dev out").split()], check=True)
        came, left = stamped("in"), stamped("last")
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
            sender.bind(("first", PROTOCOL))
            for gap_ns, length in task["train"]:
                if gap_ns:
                    time.sleep(gap_ns / 1e9)
                sender.send(HEADER.ljust(length, b"\0"))
        time.sleep(QUIET_S)
        Channel().tell(came=arrived(came), left=arrived(left))
    finally:
        power_off()


if __name__ == "__main__":
    main()
