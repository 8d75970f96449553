# SPDX-License-Identifier: Apache-2.0
"""How many reports a second the collector holds: live over a veth link, and from rings that were filled before.

Once more with its figures for Prometheus, read every second.
"""

from __future__ import annotations

import json
import signal
import subprocess
import tempfile
import threading
import time
from contextlib import suppress
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any

import host
from measuring import alternate
from narrows.errors import RunError
from narrows.hosts.links import run as call
from narrows.paths import binary
from narrows.run.collector_figures import figures_at
from narrows_formats.programs import COLLECTOR
from network import ready
from replaying import FAR, highest_held, inside, replay, veth_link
from results import Outcome, Table

REPORTS = 1_000_000
CONTESTANTS: dict[str, tuple[str, ...]] = {
    "1 ring": (),
    "2 rings, merged": ("--rings", "2"),
    "1 ring, --metrics": ("--metrics", "unix:{out}/metrics", "--depth-unit-bytes", "1"),
}
SCRAPE_S = 1.0
RING_MIB = 1024
# Live rates that are tried one after the other until one is not held, in reports a second.
RATES = (100_000, 200_000, 300_000, 400_000, 600_000, 800_000, 1_000_000)
# What the kernel may take to hand over its last block; the collector waits as long before it ends.
RETIRE_S = 0.15
STOP_S = 120


def run(runs: int) -> Outcome:
    """Both measurements with one ring and with two."""
    with (
        tempfile.TemporaryDirectory(prefix="narrows-bench-", dir=host.scratch()) as name,
        veth_link("collect") as namespace,
    ):
        directory = Path(name)
        capture = directory / "capture.pcap"
        call([str(binary(COLLECTOR)), "generate", "--reports", str(REPORTS), str(capture)])
        contestants = {
            name: partial(_measure, namespace, directory, capture, options) for name, options in CONTESTANTS.items()
        }
        series = alternate(contestants, runs)
    table = Table(("Collector", "Live, reports/s without a loss", "Stored from full rings, million reports/s"))
    for name_ in contestants:
        live, drained = (series.spread(name_, figure) for figure in ("live_per_s", "drained_per_s"))
        table.rows.append((name_, live.text(1), drained.text(1e-6)))
    with_metrics = [series.ratio("1 ring, --metrics", "1 ring", figure) for figure in ("live_per_s", "drained_per_s")]
    table.rows.append(("--metrics over without", *(ratio.text() for ratio in with_metrics)))
    rates = ", ".join(f"{rate:,}" for rate in RATES)
    conditions = (
        f"{REPORTS:,} generated reports of 100 Gbit/s and 16 flows. Live: `narrows-collector replay` sends them over a "
        f"veth link, whose receiving side is work of the sender's processor, at {rates} a second until some are lost; "
        "sender and collector share all processors. From full rings: the collector is stopped while they are sent and "
        "then goes on, so that nothing but itself, the order over rings and the files' making are measured, by wall "
        f"clock. With `--metrics` the page is read every {SCRAPE_S:g} s."
    )
    commands = [
        "narrows-collector collect --interface far0 --out DIR [--rings 2 | --metrics unix:DIR/metrics]",
        "narrows-collector replay CAPTURE --interface near0 --rate R",
    ]
    return Outcome("Collector", conditions, [table], {"reports": REPORTS, **series.as_json()}, commands)


def _measure(namespace: str, directory: Path, capture: Path, options: tuple[str, ...]) -> dict[str, float]:
    return {
        "live_per_s": _live(namespace, directory, capture, options),
        "drained_per_s": _drained(namespace, directory, capture, options),
    }


def _live(namespace: str, directory: Path, capture: Path, options: tuple[str, ...]) -> float:
    """The highest rate of which nothing was lost; 0 if there is none."""

    def attempt(rate: int) -> tuple[dict[str, Any], int]:
        with tempfile.TemporaryDirectory(dir=directory) as out:
            process = _start(namespace, Path(out), options)
            sent = replay(namespace, capture, rate)
            return sent, int(_stop(process, Path(out))["rows"])

    return highest_held(RATES, attempt)


def _drained(namespace: str, directory: Path, capture: Path, options: tuple[str, ...]) -> float:
    """Reports a second from rings that hold them all to files."""
    with tempfile.TemporaryDirectory(dir=directory) as out:
        process = _start(namespace, Path(out), options)
        process.send_signal(signal.SIGSTOP)
        replay(namespace, capture, RATES[2])
        started = time.monotonic()
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGCONT)
        stored = int(_stop(process, Path(out))["rows"])
        elapsed: float = time.monotonic() - started - RETIRE_S
    if stored < REPORTS:
        raise RunError(f"rings of {RING_MIB} MiB held {stored} of {REPORTS} reports")
    return stored / elapsed


def _start(namespace: str, out: Path, options: tuple[str, ...]) -> subprocess.Popen[str]:
    command = inside(namespace, str(binary(COLLECTOR)), "collect", "--interface", FAR)
    command += ["--out", str(out / "telemetry"), "--ring-mib", str(RING_MIB)]
    command += [option.format(out=out) for option in options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    ready(process, "the collector")
    if (metrics := out / "metrics").exists():
        threading.Thread(target=_scrape, args=(process, metrics), daemon=True).start()
    return process


def _scrape(process: subprocess.Popen[str], metrics: Path) -> None:
    # Stopped, it answers late; ended, not at all.
    while process.poll() is None:
        with suppress(OSError, HTTPException):
            figures_at(metrics)
        time.sleep(SCRAPE_S)


def _stop(process: subprocess.Popen[str], out: Path) -> dict[str, Any]:
    process.terminate()
    if process.wait(STOP_S) != 0:
        raise RunError(f"the collector ended with exit code {process.returncode}")
    account: dict[str, Any] = json.loads((out / "telemetry" / "collector.json").read_text())
    return account
