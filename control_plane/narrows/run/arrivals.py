# SPDX-License-Identifier: Apache-2.0
"""When the first packets of connections came to a link, by the stored reports and drops."""

from __future__ import annotations

import socket
from ipaddress import ip_address
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from narrows_formats.files import DROPS, FLOW_KEYS, REPORT_FILES
from narrows_formats.target_profile import TargetProfile
from narrows_formats.units import NANOSECONDS

FloatArray = npt.NDArray[np.float64]
Ports = tuple[int, int]
COLUMNS = ("bottleneck", "flow", "signature", "timestamp")


def over_udp(
    telemetry: Path, link: int, ends: tuple[str, str], profile: TargetProfile, origin_ns: int, most: int
) -> dict[Ports, FloatArray]:
    """Of each connection over UDP its first packets, up to ``most``: seconds from the experiment's start, in order.

    Args:
        telemetry: the collector's directory.
        link: index of the link.
        ends: addresses of sender and receiver.
        profile: of the target.
        origin_ns: the switch's time at the experiment's start.
        most: how many packets of each.
    """
    try:
        keys = pq.read_table(telemetry / FLOW_KEYS).to_pylist()
    except (OSError, pa.ArrowInvalid):
        return {}
    src, dst = map(ip_address, ends)
    wanted = {
        (key["flow"], key["signature"]): (key["src_port"], key["dst_port"])
        for key in keys
        if key["src"] and key["protocol"] == socket.IPPROTO_UDP and key["bottleneck"] == link
        and (ip_address(key["src"]), ip_address(key["dst"])) == (src, dst)
    }  # fmt: skip
    half = 1 << profile.timestamp_bits - 1
    origin = round(origin_ns / NANOSECONDS / profile.time_unit_s)
    found: dict[Ports, list[FloatArray]] = {ports: [] for ports in wanted.values()}
    for path in (*sorted(telemetry.glob(REPORT_FILES)), telemetry / DROPS):
        # What was dropped has come, too.
        is_drops = path.name == DROPS
        waits, empty = ("waited", 0) if is_drops else ("queue_delay", profile.empty_queue_delay)
        asked = {key: ports for key, ports in wanted.items() if is_drops or sum(map(len, found[ports])) < most}
        if not asked:
            continue
        try:
            table = pq.read_table(path, columns=[*COLUMNS, waits])
        except (OSError, pa.ArrowInvalid):
            # A collector that was killed leaves its last file open; where nothing was dropped there is no file.
            continue
        for (flow, signature), ports in asked.items():
            mine = pc.and_(pc.equal(table["bottleneck"], link), pc.equal(table["flow"], flow))
            rows = table.filter(pc.and_(mine, pc.equal(table["signature"], signature))).slice(0, most)
            left, waited = (rows[name].to_numpy().astype(np.int64) for name in ("timestamp", waits))
            came = left - np.maximum(waited - empty, 0) - origin
            found[ports].append(((came + half) % (2 * half) - half) * profile.time_unit_s)
    return {ports: np.sort(np.concatenate(parts))[:most] for ports, parts in found.items() if sum(map(len, parts))}
