# SPDX-License-Identifier: Apache-2.0
"""What a run's collector shows of the reports while they come: its page for Prometheus, at a Unix socket."""

from __future__ import annotations

import http.client
import re
import socket
from collections import defaultdict
from http import HTTPStatus
from pathlib import Path

PATIENCE_S = 5.0
_MARKS = re.compile(r'^narrows_flow_marks_packets_total\{bottleneck="(\d+)".*\} (\d+)', re.MULTILINE)


def figures_at(path: Path) -> str:
    """The page that a program serves at a Unix socket.

    Raises:
        OSError: it does not.
        http.client.HTTPException: its answer is not a page.
    """
    connection = http.client.HTTPConnection("localhost", timeout=PATIENCE_S)
    connection.sock = socket.socket(socket.AF_UNIX)
    with connection.sock:
        connection.sock.settimeout(PATIENCE_S)
        connection.sock.connect(str(path))
        connection.request("GET", "/metrics", headers={"Connection": "close"})
        answer = connection.getresponse()
        return answer.read().decode() if answer.status == HTTPStatus.OK else ""


def ce_marks_at(path: Path) -> dict[int, int] | None:
    """Packets that each link has marked CE, by the link's index, up to the latest report; None if it is not known."""
    try:
        page = figures_at(path)
    except (OSError, http.client.HTTPException):
        return None
    found: defaultdict[int, int] = defaultdict(int)
    for index, packets in _MARKS.findall(page):
        found[int(index)] += int(packets)
    return dict(found)
