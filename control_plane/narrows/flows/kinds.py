# SPDX-License-Identifier: Apache-2.0
"""The kinds of flows, by the payloads that plans have of them."""

from __future__ import annotations

from narrows.onhost import datagrams, program, requests, shell, tcp
from narrows.onhost.payload import Payload

PAYLOADS: tuple[type[Payload], ...] = (
    tcp.Bulk, tcp.Finite, tcp.Workload, datagrams.Udp, datagrams.Probe, requests.Requests, requests.Video,
    program.Program, shell.Shell,
)  # fmt: skip
LASTING = [payload.kind for payload in PAYLOADS if payload.lasts]
"""Those that send until they are stopped."""
