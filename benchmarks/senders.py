# SPDX-License-Identifier: Apache-2.0
"""How fast the sockets of a run's flows send and receive, beside iperf3: without a switch, through the softswitch."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from measuring import Contestant, alternate
from narrows.errors import RunError
from narrows.hosts.links import links
from narrows.onhost import tcp
from narrows.switch import traffic_manager_pb2 as pb
from network import RECEIVER, SENDER, DirectNetwork, Network, address, iperf3, ready
from results import Outcome, Table, with_programs
from switches import softswitch

TITLE = "Senders and receivers"
# Slow start is over after the first second; both tools send on for a moment after the last.
WARM_UP_S, SECONDS, AFTER_S = 1.0, 3, 1
OURS, IPERF3 = "Narrows", "iperf3"
RATE_BPS = 1_000_000_000
BUFFER_BYTES = RATE_BPS // 8 // 100  # 10 ms
AT_RATE = pb.ConfigureRequest(port=2, queue=0, rate_bps=RATE_BPS, limit_bytes=BUFFER_BYTES, limit_packets=0)
# Settings of the softswitch; None: there is none.
PATHS: dict[str, tuple[pb.ConfigureRequest, ...] | None] = {
    "no switch": None, "softswitch at 1 Gbit/s": (AT_RATE,), "softswitch, no rate": ()
}  # fmt: skip


@with_programs(TITLE, "iperf3")
def run(runs: int) -> Outcome:
    """One CUBIC flow by each tool in turn, on each path."""
    contestants: dict[str, Contestant] = {
        f"{tool}, {path}": partial(_flow, tool, path) for path in PATHS for tool in (OURS, IPERF3)
    }
    series = alternate(contestants, runs)
    table = Table(("Path", "Narrows, Gbit/s", "iperf3, Gbit/s", "Narrows over iperf3"))
    ratios = {path: series.ratio(f"{OURS}, {path}", f"{IPERF3}, {path}", "received_bps") for path in PATHS}
    for path, ratio in ratios.items():
        spreads = (series.spread(f"{tool}, {path}", "received_bps").text(1e-9) for tool in (OURS, IPERF3))
        table.rows.append((path, *spreads, ratio.text()))
    conditions = (
        f"One CUBIC flow through network namespaces, {SECONDS} s after {WARM_UP_S:g} s that are not counted; 1500-byte "
        "MTU, no segmentation or checksum offloads. What arrives is counted at the receiver's interface, L2 bytes. "
        "Sender, receiver and switch share all processors of the machine; the softswitch reports every packet. All "
        "contestants take turns within one run; each has fresh namespaces."
    )
    data = {"seconds": SECONDS, "ratios": {path: ratio.__dict__ for path, ratio in ratios.items()}, **series.as_json()}
    commands = [
        "receiver$ python tcp.py receive.json | iperf3 --server --port 5201",
        "sender$   python tcp.py send.json    | " + " ".join(_iperf3()),
    ]
    return Outcome(TITLE, conditions, [table], data, commands, [])


def _flow(tool: str, path: str) -> dict[str, float]:
    """L2 bit/s that arrived."""
    settings = PATHS[path]
    with Network() if settings is not None else DirectNetwork() as network:
        if settings is None:
            return _received(tool, network)
        with softswitch(network, *settings):
            return _received(tool, network)


def _received(tool: str, network: Network) -> dict[str, float]:
    with (_sending if tool == OURS else _iperf3_sending)(network):
        time.sleep(WARM_UP_S)
        before, began = _bytes(network), time.monotonic()
        time.sleep(SECONDS)
        after, ended = _bytes(network), time.monotonic()
    return {"received_bps": (after - before) * 8 / (ended - began)}


def _bytes(network: Network) -> int:
    return links(network.namespace(RECEIVER))["eth0"].rx_bytes


def _iperf3() -> list[str]:
    return iperf3(address(2), int(SECONDS + AFTER_S))


@contextmanager
def _iperf3_sending(network: Network) -> Iterator[None]:
    with network.tcp_server():
        network.start(SENDER, *_iperf3())
        yield


@contextmanager
def _sending(network: Network) -> Iterator[None]:
    flow = {
        "name": "bulk", "host": SENDER, "cca": "cubic", "ecn": False, "src": address(1), "dst": address(2),
        "dst_port": 5201, "duration_s": WARM_UP_S + SECONDS + AFTER_S, "sequence": True, "gap_s": 0.0,
        "last_start_s": None, "until": None, "options": [], "receiver_options": [], "initial_window": None,
        "rto_min_s": None,
        "connections": [{"number": 0, "start_s": 0.0, "size": None, "src_port": 10_000}],
    }  # fmt: skip
    for host, role, receive, send in ((RECEIVER, "receive", [flow], []), (SENDER, "send", [], [flow])):
        specification = network.directory / f"{role}.json"
        words = {"host": host, "batch_bytes": 0, "receive": receive, "send": send, "origin": "origin"}
        specification.write_text(json.dumps(words))
        command = [sys.executable, tcp.__file__, str(specification)]
        process = network.start(host, *command, stdout=subprocess.PIPE)
        ready(process, f"the process that is to {role}")
    (network.directory / "origin").write_text(f"{time.monotonic()!r}\n")
    yield
    if process.poll() is not None:
        raise RunError("the flow has ended by itself")
