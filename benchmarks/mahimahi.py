# SPDX-License-Identifier: Apache-2.0
"""The link that is Mahimahi's mm-link: the senders' packets are its downlink, the receiver is behind its shell.

senders' cables -- routes -- tun [ mm-link ] tun -- routes -- receiver's cable
"""

from __future__ import annotations

import asyncio
import io
import json
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pandas as pd
from narrows.errors import RunError
from narrows.hosts.links import run, set_sysctls
from narrows.hosts.netns import HOST_INTERFACE
from narrows.hosts.unprivileged import NOBODY
from passage import QUEUE, Place

PROGRAM = "mm-link"
NEEDS = "CONFIG_TUN=y"  # of a kernel
PROGRAMS = (PROGRAM,)  # that are not everywhere
SHELL = "mahimahi"  # our name of the namespace that mm-link makes
TUNNEL = "link-"  # how mm-link calls its device outside of the shell, with its process behind it
HEAD_CHARACTERS = 4096
PACKET_BYTES = 1504  # that a delivery opportunity is for, an IP packet and the header of a tun device
HEADER_BYTES = 10  # by which an Ethernet frame is longer than what a tun device gives for it
TRACE_MS = 60_000  # a trace repeats; one of a second can be off by a packet a second
READY_S = 10.0
# It has no other purpose than to keep the shell: mm-link ends with its command.
COMMAND = "echo $$ > {pid} && exec sleep infinity"
# With it Mahimahi masks what comes out of its shell, which our routes make needless, and guests do not have.
FIREWALL = "iptables"


@asynccontextmanager
async def link(place: Place) -> AsyncIterator[Callable[[], pd.DataFrame]]:
    """See `passage.Link`; the queue is that of mm-link's log, which counts milliseconds.

    Raises:
        RunError: it cannot be made.
    """
    namespace, bottleneck = place.receiver.namespace, place.plan.bottleneck
    with tempfile.TemporaryDirectory(prefix="narrows-mahimahi-") as scratch:
        directory = Path(scratch)
        directory.chmod(0o777)
        trace, log, pid = (directory / name for name in ("trace", "log", "pid"))
        trace.write_text(opportunities(bottleneck.rate_bps / (8 * (PACKET_BYTES + HEADER_BYTES))))
        limit = bottleneck.limit_bytes * PACKET_BYTES // (PACKET_BYTES + HEADER_BYTES)
        run(["mount", "--bind", "/bin/true", str(Path(shutil.which(FIREWALL) or FIREWALL).resolve())])
        set_sysctls(namespace, {"net.ipv4.ip_forward": "1"})
        # It wants to be set-uid to root, and run by somebody else.
        process = await asyncio.create_subprocess_exec(
            *("ip", "netns", "exec", namespace, "setpriv", f"--ruid={NOBODY}", f"--rgid={NOBODY}", "--clear-groups"),
            *(PROGRAM, "--downlink-queue=droptail", f"--downlink-queue-args=bytes={limit}", f"--downlink-log={log}"),
            *(str(trace), str(trace), "--", "sh", "-c", COMMAND.format(pid=pid)),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            await _ready(process, pid)
            run(["ip", "netns", "attach", SHELL, pid.read_text().strip()])
            _make_routes(place)
            yield lambda: queue_of(log.read_text(), time.time() - time.monotonic())
        finally:
            if process.returncode is None:
                process.terminate()
                await process.wait()


async def _ready(process: asyncio.subprocess.Process, pid: Path) -> None:
    """Wait until mm-link runs its command."""
    deadline = time.monotonic() + READY_S
    while not (pid.exists() and pid.read_text()):
        if process.returncode is not None or time.monotonic() > deadline:
            said = await process.stderr.read() if process.stderr and process.returncode is not None else b""
            raise RunError(f"{PROGRAM} does not start: {said.decode().strip() or 'it says nothing'}")
        await asyncio.sleep(0.01)


def _make_routes(place: Place) -> None:
    """Hosts reach each other through the shell, by the addresses that they have: both its sides are routers."""
    outside, port = place.receiver.namespace, place.receiver.interface
    (receiver,), hosts = place.plan.receivers, place.state.namespace
    run(["ip", "-n", outside, "link", "set", port, "netns", SHELL])
    run(["ip", "-n", SHELL, "link", "set", port, "up"])
    set_sysctls(SHELL, {"net.ipv4.ip_forward": "1"})
    inside_mac, addresses = _links(SHELL)[port], _links(outside)
    tunnel = next(name for name in addresses if name.startswith(TUNNEL))
    run(["ip", "-n", outside, "route", "add", f"{receiver.address}/32", "dev", tunnel])
    _reach(SHELL, port, receiver.address, receiver.mac)
    for sender in place.plan.senders:
        own = place.ports[sender.port].interface
        _reach(outside, own, sender.address, sender.mac)
        _neighbour(hosts(sender.name), HOST_INTERFACE, receiver.address, addresses[own])
        _neighbour(hosts(receiver.name), HOST_INTERFACE, sender.address, inside_mac)


def _links(namespace: str) -> dict[str, str]:
    """The addresses of a namespace's interfaces."""
    return {one["ifname"]: one.get("address", "") for one in json.loads(run(["ip", "-n", namespace, "-json", "link"]))}


def _reach(namespace: str, interface: str, address: str, mac: str) -> None:
    run(["ip", "-n", namespace, "route", "add", f"{address}/32", "dev", interface])
    _neighbour(namespace, interface, address, mac)


def _neighbour(namespace: str, interface: str, address: str, mac: str) -> None:
    words = f"neighbour replace {address} lladdr {mac} dev {interface} nud permanent"
    run(["ip", "-n", namespace, *words.split()])


def opportunities(packets_per_s: float, lasts_ms: int = TRACE_MS) -> str:
    """A trace of a constant rate: a line with the millisecond for each packet that may leave."""
    due = np.arange(1, round(packets_per_s * lasts_ms / 1000) + 1) * 1000 / packets_per_s
    return "".join(f"{millisecond}\n" for millisecond in np.ceil(due).astype(int))


def queue_of(log: str, clock_offset_s: float) -> pd.DataFrame:
    """The queue of a link in each millisecond, from mm-link's log.

    Args:
        log: lines of `TIME + BYTES` for an arrival, `TIME - BYTES DELAY` for a departure, `TIME d PACKETS BYTES` for
            drops, and `TIME # BYTES` for an opportunity, below lines with the begin.
        clock_offset_s: the clock of the log minus ours.
    """
    head = [line for line in log[:HEAD_CHARACTERS].splitlines() if line.startswith("#")]
    begin_ms = next(int(line.split()[-1]) for line in head if line.startswith("# init timestamp"))
    names = ["ms", "what", "first", "second"]
    lines = pd.read_csv(io.StringIO(log), sep=" ", skiprows=len(head), names=names, dtype={"what": "category"})
    arrivals, departures, drops = (lines[lines["what"] == what] for what in "+-d")
    every = np.arange(lines["ms"].min(), lines["ms"].max() + 1)

    def so_far(ms: pd.Series, amounts: pd.Series) -> pd.Series:
        return amounts.groupby(ms).sum().reindex(every, fill_value=0).cumsum()

    sent = so_far(departures["ms"], departures["first"] + HEADER_BYTES)
    dropped = so_far(drops["ms"], drops["first"])
    came = so_far(arrivals["ms"], arrivals["first"] + HEADER_BYTES)
    lost = so_far(drops["ms"], drops["second"] + drops["first"] * HEADER_BYTES)
    columns = {
        "time_s": (begin_ms + every) / 1000 - clock_offset_s,
        "depth_bytes": came - lost - sent,
        "bytes": sent,
        "packets": so_far(departures["ms"], departures["first"] > 0),
        "drops": dropped,
    }
    return pd.DataFrame(columns, columns=list(QUEUE)).reset_index(drop=True)
