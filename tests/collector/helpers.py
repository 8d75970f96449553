# SPDX-License-Identifier: Apache-2.0
"""Running the collector binary and sending frames in namespaces made for the test."""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("NARROWS_COLLECTOR", ROOT / "target/release/narrows-collector"))


def collector(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the collector to its end."""
    return subprocess.run([BINARY, *arguments], capture_output=True, text=True, check=False, timeout=300)


def account(directory: Path) -> dict[str, Any]:
    """Contents of collector.json."""
    result: dict[str, Any] = json.loads((directory / "collector.json").read_text())
    return result


def pcap_frames(path: Path) -> Iterator[bytes]:
    """Frames of a little-endian pcap."""
    data = path.read_bytes()
    position = 24
    while position < len(data):
        (length,) = struct.unpack_from("<I", data, position + 8)
        yield data[position + 16 : position + 16 + length]
        position += 16 + length


def send_paced(interface: str, frames: list[bytes], rate: float) -> float:
    """Send frames at `rate` a second, in bursts of up to 1 ms; answers the rate reached."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)
        raw.bind((interface, 0))
        start = time.monotonic()
        burst = max(1, int(rate / 1000))
        for position in range(0, len(frames), burst):
            for frame in frames[position : position + burst]:
                raw.send(frame)
            ahead = start + (position + burst) / rate - time.monotonic()
            if ahead > 0.0005:
                time.sleep(ahead)
        return len(frames) / (time.monotonic() - start)
