# SPDX-License-Identifier: Apache-2.0
"""What runs on the hosts for flows of a set size: a sink, and a sender that waits until all has arrived.

Used as ``sized_host.py sink ADDRESS PORT`` and ``sized_host.py send FLOWS.json ORIGIN``, the origin being the
experiment's start on this host's monotonic clock. Only the standard library of Python 3.8 is used, so that it runs on
any host.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import time
from pathlib import Path
from typing import Any

CHUNK = bytes(1 << 16)
BACKLOG = 4096
CONNECT_S = 30.0
# TCP_INFO (linux/tcp.h): tcpi_total_retrans is the 32-bit word at byte 100.
TOTAL_RETRANSMITS = slice(100, 104)


async def _drain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Read to the end, then close: the sender knows by that that all has arrived."""
    try:
        while await reader.read(1 << 20):
            pass
    except ConnectionError:
        pass
    finally:
        writer.close()


async def sink(address: str, port: int) -> None:
    """Take everything that arrives at a port, until killed; prints ``ready`` when it listens."""
    server = await asyncio.start_server(_drain, address, port, backlog=BACKLOG, limit=1 << 22)
    print("ready", flush=True)
    await server.serve_forever()


async def _flow(spec: dict[str, Any], flow: dict[str, Any], origin_s: float) -> None:
    """One flow: from its start to the moment at which the sink has closed it; a line on stdout for both."""
    loop = asyncio.get_running_loop()
    family = socket.AF_INET6 if ":" in spec["dst"] else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as connection:
        connection.setblocking(False)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, spec["cca"].encode())
        used = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()
        connection.bind((spec["src"], flow["src_port"]))
        _tell(number=flow["number"], cca=used, started_s=time.monotonic() - origin_s)
        await asyncio.wait_for(loop.sock_connect(connection, (spec["dst"], spec["dst_port"])), CONNECT_S)
        left = flow["size"]
        while left:
            part = min(left, len(CHUNK))
            await loop.sock_sendall(connection, CHUNK[:part])
            left -= part
        connection.shutdown(socket.SHUT_WR)
        # The sink closes when it has read the last byte.
        await loop.sock_recv(connection, 1)
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 192)
        _tell(
            number=flow["number"],
            cca=used,
            ended_s=time.monotonic() - origin_s,
            bytes_sent=flow["size"],
            retransmits=int.from_bytes(info[TOTAL_RETRANSMITS], sys.byteorder),
        )


async def _at_its_time(spec: dict[str, Any], flow: dict[str, Any], origin_s: float) -> None:
    await asyncio.sleep(origin_s + flow["start_s"] - time.monotonic())
    await _flow(spec, flow, origin_s)


async def _one_after_the_other(spec: dict[str, Any], origin_s: float, stop_file: Path) -> None:
    """Each flow ``gap_s`` after the end of the one before, none after ``last_start_s`` or once ``stop_file`` exists."""
    await asyncio.sleep(origin_s + spec["flows"][0]["start_s"] - time.monotonic())
    for flow in spec["flows"]:
        if flow["number"]:
            await asyncio.sleep(spec["gap_s"])
            late = spec["last_start_s"] is not None and time.monotonic() - origin_s >= spec["last_start_s"]
            if late or stop_file.exists():
                return
        await _flow(spec, flow, origin_s)


async def send(specification: Path, origin_s: float) -> None:
    """Send all flows of a specification."""
    spec = json.loads(specification.read_text(encoding="utf-8"))
    if spec["sequence"]:
        await _one_after_the_other(spec, origin_s, specification.parent / spec["stop_file"])
        return
    # The first that fails ends all.
    await asyncio.gather(*(_at_its_time(spec, flow, origin_s) for flow in spec["flows"]))


def _tell(**values: Any) -> None:
    print(json.dumps(values), flush=True)


if __name__ == "__main__":
    role, *arguments = sys.argv[1:]
    if role == "sink":
        asyncio.run(sink(arguments[0], int(arguments[1])))
    else:
        asyncio.run(send(Path(arguments[0]), float(arguments[1])))
