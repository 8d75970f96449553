# SPDX-License-Identifier: Apache-2.0
"""State of a host's connected TCP sockets, read every so often from the kernel (sock_diag, as ``ss -ti`` does).

Used as ``socket_sampler.py INTERVAL_S VERSION [programs]`` on a host, or by its functions; writes the names of `FIELDS`
when it begins, and then their values, a line a socket and reading, separated by spaces. Only the standard library is
used, so that it runs on any host.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator, Sequence

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Its import takes as long as all others together.
    from typing import TextIO

FIELDS = (
    "monotonic_s", "dst", "src_port", "dst_port", "cwnd_packets", "mss", "rtt_us", "min_rtt_us", "pacing_rate",
    "delivery_rate", "sent_bytes", "retransmits", "acked_bytes", "data_packets", "bbr_bandwidth", "bbr_min_rtt_us",
    "bbr_pacing_gain", "bbr_cwnd_gain", "busy_us", "buffer_limited_us", "bbr_phase", "bbr_max_bandwidth",
    "bbr_shortterm_bandwidth", "bbr_shortterm_inflight", "bbr_longterm_inflight", "bbr_extra_acked",
)  # fmt: skip
NETLINK_SOCK_DIAG = 4
DIAG = (socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG)
SOCK_DIAG_BY_FAMILY = 20
NLMSG_ERROR, NLMSG_DONE = 2, 3
REQUEST_DUMP = 0x301
ESTABLISHED = 1 << 1
# Closed on this side, or on the other: what was written before may be under way for long (FIN_WAIT1, CLOSE_WAIT,
# LAST_ACK, CLOSING). All of a flow of a set size may be written before anything has arrived.
CLOSING = 1 << 4 | 1 << 8 | 1 << 9 | 1 << 11
INFO, VEGAS_INFO, BBR_INFO = 2, 3, 16  # INET_DIAG_*; asking for Vegas's state gives that of any algorithm
HEADER = struct.Struct("=IHHII")
ATTRIBUTE = struct.Struct("=HH")
MESSAGE_BYTES = 72  # struct inet_diag_msg
MAPPED = bytes(10) + b"\xff\xff"  # an IPv4 address in one of IPv6 (RFC 4291)
# 32-bit words of struct tcp_info (linux/tcp.h), by byte offset. What onhost/tcp.py reads of it is held against these by
# a test: each of the two is one file, so that it runs on any host.
WORDS = {
    "mss": 16, "unacked": 24, "rtt": 68, "cwnd": 80, "retransmits": 100, "min_rtt": 148, "data_packets": 156,
}  # fmt: skip
# Two 64-bit words that kernels before 4.19 do not have: payload sent, and payload sent again.
SENT_BYTES = 200
# struct tcp_bbr_info (linux/inet_diag.h): bandwidth, min RTT and gains of every BBR; what BBRv3 adds is 0 without it.
BBR = struct.Struct("=Q3I")
BBR3 = struct.Struct("=QQxBxx3I")


def dumps(version: int, programs: bool) -> tuple[tuple[int, int], ...]:
    """Families and states of the sockets that matter on a host, by the version of IP.

    Those of ``programs`` may be of IPv6 and carry IPv4.
    """
    own = socket.AF_INET6 if version == 6 else socket.AF_INET
    families = dict.fromkeys((own, socket.AF_INET6)) if programs else (own,)
    return tuple((family, ESTABLISHED | CLOSING) for family in families)


def readings(diag: socket.socket, family: int, states: int) -> Iterator[tuple[str | int, ...]]:
    """One reading: `FIELDS` after the time for each socket in one of the states."""
    request = struct.pack("=BBBBI", family, socket.IPPROTO_TCP, 1 << (INFO - 1) | 1 << (VEGAS_INFO - 1), 0, states)
    request += bytes(48)
    diag.send(HEADER.pack(HEADER.size + len(request), SOCK_DIAG_BY_FAMILY, REQUEST_DUMP, 0, 0) + request)
    while True:
        data = diag.recv(1 << 18)
        position = 0
        while position + HEADER.size <= len(data):
            length, kind, *_ = HEADER.unpack_from(data, position)
            if kind == NLMSG_DONE:
                return
            if kind == NLMSG_ERROR:
                raise OSError(f"sock_diag: error {-struct.unpack_from('=i', data, position + HEADER.size)[0]}")
            if (reading := parse(data[position + HEADER.size : position + length])) is not None:
                yield reading
            position += (length + 3) & ~3


def parse(message: bytes) -> tuple[str | int, ...] | None:
    """Fields of one inet_diag_msg with its attributes; None without TCP_INFO."""
    src_port, dst_port = struct.unpack_from("!HH", message, 4)
    address = message[24:40] if message[0] == socket.AF_INET6 else message[24:28]
    if address.startswith(MAPPED):
        address = address[len(MAPPED) :]
    dst = socket.inet_ntop(socket.AF_INET if len(address) == 4 else socket.AF_INET6, address)
    info, bbr = b"", bytes(BBR.size + BBR3.size)
    position = MESSAGE_BYTES
    while position + ATTRIBUTE.size <= len(message):
        length, kind = ATTRIBUTE.unpack_from(message, position)
        if length < ATTRIBUTE.size:
            break
        value = message[position + ATTRIBUTE.size : position + length]
        if kind == INFO:
            info = value
        elif kind == BBR_INFO:
            bbr = value.ljust(len(bbr), b"\0")
        position += (length + 3) & ~3
    if len(info) < 192:
        return None
    mss, unacked, rtt, cwnd, retransmits, min_rtt, data_packets = (
        struct.unpack_from("=I", info, at)[0] for at in WORDS.values()
    )
    pacing_rate, acked, delivery_rate = (struct.unpack_from("=Q", info, at)[0] for at in (104, 120, 160))
    # By segments, as if each were a full one, only where bytes are not counted.
    sent = acked + unacked * mss
    if len(info) >= SENT_BYTES + 16:
        with_repeats, again = struct.unpack_from("=2Q", info, SENT_BYTES)
        sent = with_repeats - again
    bandwidth, bbr_min_rtt, pacing_gain, cwnd_gain = BBR.unpack_from(bbr)
    most, shortterm, phase, *inflight = BBR3.unpack_from(bbr, BBR.size)
    # Time with data to send, and what of it the receiver's window or the own buffer was in the way.
    busy, by_receiver, by_sender = struct.unpack_from("=3Q", info, 168)
    return (
        dst, src_port, dst_port, cwnd, mss, rtt, min_rtt, pacing_rate, delivery_rate, sent, retransmits, acked,
        data_packets, bandwidth, bbr_min_rtt, pacing_gain, cwnd_gain, busy, by_receiver + by_sender, phase, most,
        shortterm, *inflight,
    )  # fmt: skip


def begin(diag: socket.socket, output: TextIO) -> None:
    """Make a netlink socket ready, and tell what its readings will be."""
    diag.bind((0, 0))
    print(*FIELDS, file=output, flush=True)


def sample(
    interval_s: float,
    hosts: Sequence[tuple[socket.socket, TextIO, tuple[tuple[int, int], ...]]],
    pause: Callable[[float], object],
) -> None:
    """Read every ``interval_s`` seconds until a ``pause`` of that many seconds says that it is the end.

    Args:
        interval_s: from one reading to the next.
        hosts: a netlink socket of each, where its readings go, and what is read (`dumps`).
        pause: waits.
    """
    due = time.monotonic()
    while True:
        for diag, output, wanted in hosts:
            before = time.monotonic()
            found = [reading for dump in wanted for reading in readings(diag, *dump)]
            # On a busy machine the kernel may have answered long after it was asked.
            middle = (before + time.monotonic()) / 2
            lines = [f"{middle:.6f} {' '.join(map(str, reading))}\n" for reading in found]
            output.write("".join(lines))
            output.flush()
        due = max(due + interval_s, time.monotonic())
        if pause(max(0.0, due - time.monotonic())):
            return


if __name__ == "__main__":
    with socket.socket(*DIAG) as own:
        try:
            begin(own, sys.stdout)
            sample(float(sys.argv[1]), [(own, sys.stdout, dumps(int(sys.argv[2]), len(sys.argv) > 3))], time.sleep)
        except OSError as error:
            sys.stderr.write(f"sockets cannot be read, or their state not be written: {error.strerror}\n")
            sys.stderr.flush()
            # Python would try once more to write what could not be written.
            os._exit(1)
