# SPDX-License-Identifier: Apache-2.0
"""What runs on a sender for a calibration: UDP datagrams of one size at a steady rate.

Used as ``udp_host.py ADDRESS PORT PAYLOAD PACKETS_PER_SECOND SECONDS``; prints how many were due. Only the standard
library of Python 3.8 is used, so that it runs on any host.
"""

from __future__ import annotations

import socket
import sys
import time

# Datagrams that are sent one after the other before the clock is looked at again.
BURST = 64
CATCH_UP_S = 0.1


def send(address: str, port: int, payload: int, rate: float, seconds: float) -> int:
    """Send for ``seconds``; returns the datagrams that were due, those included that the host was too slow for."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    data, sent = bytes(payload), 0
    with socket.socket(family, socket.SOCK_DGRAM) as sender:
        started = time.monotonic()
        while (elapsed := time.monotonic() - started) < seconds:
            due = int(elapsed * rate) - sent
            if due <= 0:
                time.sleep(min(1 / rate, 0.001))
                continue
            for _ in range(min(due, BURST)):
                try:
                    sender.sendto(data, (address, port))
                except (BlockingIOError, ConnectionRefusedError):
                    # No room in the NIC's queue, or a closed port, which does not matter.
                    continue
                sent += 1
            # A moment without a processor is made up for; what the host cannot send at all is not.
            sent = max(sent, int((elapsed - CATCH_UP_S) * rate))
    return sent


if __name__ == "__main__":
    print(send(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]), float(sys.argv[5])))
