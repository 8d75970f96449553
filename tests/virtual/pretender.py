# SPDX-License-Identifier: Apache-2.0
"""A sender that calls itself L4S and is none: datagrams with ECT(1), whose window answers to a mark as CUBIC's does.

`pretender.py server PORT` says for each datagram whether it was marked; `pretender.py client SERVER PORT SECONDS`
sends.
"""

from __future__ import annotations

import socket
import struct
import sys
import time

PAYLOAD, HEADER = 1200, struct.Struct("!QB")
ECT_1, CE = 1, 3
# RFC 9438, sections 4.3 and 4.6: what a mark or loss leaves of the window, and its growth in a round trip where CUBIC
# is as friendly as Reno, as it is at these RTTs and rates.
BETA = 0.7
GROWTH = 3 * (1 - BETA) / (1 + BETA)
REORDERED, PATIENCE_S = 3, 0.3


def serve(port: int) -> None:
    """Answer each datagram with its number and whether it was marked."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
        server.bind(("", port))
        while True:
            data, control, _, sender = server.recvmsg(PAYLOAD, 64)
            (tos,) = (value[0] for level, kind, value in control if (level, kind) == (socket.IPPROTO_IP, socket.IP_TOS))
            number, _ = HEADER.unpack_from(data)
            server.sendto(HEADER.pack(number, tos & CE == CE), sender)


def send(server: str, port: int, seconds: float) -> None:
    """Keep a window of datagrams under way."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, ECT_1)
        client.connect((server, port))
        client.settimeout(PATIENCE_S)
        end = time.monotonic() + seconds
        window, threshold, following, recovered = 10.0, float("inf"), 0, 0
        under_way: set[int] = set()
        while time.monotonic() < end:
            while len(under_way) < window:
                client.send(HEADER.pack(following, 0).ljust(PAYLOAD, b"\0"))
                under_way.add(following)
                following += 1
            try:
                number, marked = HEADER.unpack(client.recv(HEADER.size))
            except TimeoutError:
                under_way.clear()
                window = 2.0
                continue
            under_way.discard(number)
            lost = {one for one in under_way if one < number - REORDERED}
            under_way -= lost
            if (marked or lost) and number >= recovered:
                window = threshold = max(window * BETA, 2.0)
                recovered = following
            elif window < threshold:
                window += 1
            else:
                window += GROWTH / window


if __name__ == "__main__":
    if sys.argv[1] == "server":
        serve(int(sys.argv[2]))
    else:
        send(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
