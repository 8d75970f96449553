# SPDX-License-Identifier: Apache-2.0
"""Probes of link_monitor.p4 and queue_inspection.p4: sends them, and prints the records that they bring.

``python3 probes.py send SERVER INTERVAL_MS COUNT [PORT...]``: ports of the switch that a probe visits, of which the
last one leads to the server; none where the switch knows the way.

``python3 probes.py links`` and ``python3 probes.py queues`` print a line for each record, in the order of the visits:
the number of its probe, and the record's fields.
"""

from __future__ import annotations

import socket
import struct
import sys
import time

UDP_PORT = 6100
# What follows the lists: the number of the probe.
NUMBER = struct.Struct(">I")
RECORDS = {
    # Port, bytes, and microseconds, of 48 bits.
    "links": struct.Struct(">HQHI"),
    # Hop, packets behind it, microseconds of waiting.
    "queues": struct.Struct(">HII"),
}


def send(server: str, interval_s: float, count: int, ports: list[int]) -> None:
    """Send probes at a constant interval."""
    lists = struct.pack(f">BB{len(ports)}H", len(ports), 0, *ports) if ports else b"\0"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as to:
        due = time.monotonic()
        for number in range(count):
            time.sleep(max(0.0, due - time.monotonic()))
            to.sendto(lists + NUMBER.pack(number), (server, UDP_PORT))
            due += interval_s


def receive(kind: str) -> None:
    """Print the records of probes, until this is ended."""
    record = RECORDS[kind]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as here:
        here.bind(("", UDP_PORT))
        print("ready", flush=True)
        while True:
            data = here.recv(2048)
            (number,) = NUMBER.unpack(data[-NUMBER.size :])
            # How many ports are left to visit, which are none, is in front of how many records there are.
            begin = 2 if kind == "links" else 1
            for fields in reversed(list(record.iter_unpack(data[begin : -NUMBER.size]))):
                if kind == "links":
                    port, sent, high, low = fields
                    fields = (port, sent, high << 32 | low)
                print(number, *fields, flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "send":
        send(sys.argv[2], float(sys.argv[3]) / 1_000, int(sys.argv[4]), [int(port) for port in sys.argv[5:]])
    else:
        receive(sys.argv[1])
