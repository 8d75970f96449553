# SPDX-License-Identifier: Apache-2.0
"""How fast reports are read from a capture and analysed: Narrows, tshark, scapy, dpkt and pandas."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import host
from measuring import Contestant, alternate
from narrows.errors import RunError
from narrows.paths import COLLECTOR, binary
from readers import READERS
from results import Outcome, Table

PORT = 5500
REPORTS = 2_000_000
# For the whole command, whose start would drown less.
MANY_REPORTS = 10_000_000
# Slower readers get fewer reports, so that a run takes seconds; their rates do not depend on it.
# To measure what a reader takes to start.
FEW = 1_000
PCAP_HEADER_BYTES, PCAP_RECORD_BYTES, REPORT_BYTES = 24, 16, 176
SLICES = {"tshark": 50_000, "scapy": 5_000, "dpkt": 50_000}
LINK = ("--rate", "100Gbit")
SCRIPT = Path(__file__).parent / "readers.py"
DECODE, AGGREGATE = "narrows-collector, decode", "narrows-collector, aggregate"
ANALYZE = "narrows analyze, to summary.json and report"
PANDAS, PANDAS_AGGREGATE = "pandas, decode", "pandas, aggregate"


def run(runs: int) -> Outcome:
    """All readers in turn on captures of the same scenario."""
    skipped = []
    with tempfile.TemporaryDirectory(prefix="narrows-bench-", dir=host.scratch()) as name:
        directory = Path(name)
        capture, few = _generate(directory, REPORTS), _generate(directory, FEW)
        many = directory / f"{MANY_REPORTS}.pcap"
        _collector("generate", "--reports", str(MANY_REPORTS), str(many))
        contestants: dict[str, Contestant] = {
            DECODE: partial(_narrows, capture, directory, "decode_to_columns"),
            AGGREGATE: partial(_narrows, capture, directory, "aggregate"),
            ANALYZE: partial(_analyze, many, few, directory),
            PANDAS: partial(_reader, "pandas", capture, few),
            PANDAS_AGGREGATE: partial(_reader, "pandas-aggregate", capture, few),
        }
        for peer, reports in SLICES.items():
            if peer == "tshark" and shutil.which(peer) is None:
                skipped.append("tshark: not on PATH; apt-get install tshark")
            elif peer != "tshark" and importlib.util.find_spec(peer) is None:
                skipped.append(f"{peer}: not installed; pip install {peer}")
            else:
                part = _generate(directory, reports)
                contestants[peer] = partial(_tshark if peer == "tshark" else partial(_reader, peer), part, few)
        series = alternate(contestants, runs)
    table = Table(("Reader", "Million reports/s, wall clock", "Narrows is faster by"))
    for name in contestants:
        ours = AGGREGATE if name in (AGGREGATE, ANALYZE, PANDAS_AGGREGATE) else DECODE
        rate = series.spread(name, "reports_per_s").text(1e-6)
        table.rows.append((name, rate, series.ratio(ours, name, "reports_per_s").text()))
    conditions = (
        f"A generated capture of {REPORTS:,} reports of {REPORT_BYTES} bytes (100 Gbit/s, 16 flows) in memory: "
        f"tshark, scapy and dpkt get captures of {SLICES['tshark']:,}, {SLICES['scapy']:,} and {SLICES['dpkt']:,} "
        "reports. The time that a reader takes for a thousand reports (starting Python or tshark, imports) is taken "
        "off. 'decode' ends with all fields of the report in columns: one thread of narrows-collector, a DataFrame "
        "of pandas, lists of numbers for scapy and dpkt. tshark has no dissector of the report; it prints time, "
        "addresses, ports and payload in hex, which is less work. 'aggregate' of narrows-collector (two threads) "
        "writes all time series, totals, histograms and envelopes; 'narrows analyze' is the whole command on "
        f"{MANY_REPORTS:,} reports, to summary.json and report.html; 'aggregate' of pandas computes packets, bytes, "
        "mean and greatest depth and mean delay by flow in 10 ms. narrows-collector reads it once, uncounted, before "
        "each measurement."
    )
    commands = [
        f"narrows-collector generate --reports {REPORTS} CAPTURE",
        "narrows-collector bench --repeat 1 --out DIR CAPTURE",
        "narrows analyze CAPTURE --out DIR --rate 100Gbit",
        *(f"python benchmarks/readers.py {reader} CAPTURE {PORT}" for reader in READERS),
        " ".join(_tshark_command(Path("CAPTURE"))),
    ]
    data = {"reports": REPORTS, "slices": SLICES, **series.as_json()}
    return Outcome("Analyzer", conditions, [table], data, commands, skipped)


def _generate(directory: Path, reports: int) -> Path:
    """A capture of about as many reports, all equally long, as pandas needs it; its name is their number."""
    found, path = directory / "generated", directory / "equal"
    _collector("generate", "--reports", str(reports), str(found))
    content = found.read_bytes()
    kept, start = [content[:PCAP_HEADER_BYTES]], PCAP_HEADER_BYTES
    while start < len(content):
        length = int.from_bytes(content[start + 8 : start + 12], "little")
        if length == REPORT_BYTES:
            kept.append(content[start : start + PCAP_RECORD_BYTES + length])
        start += PCAP_RECORD_BYTES + length
    path.write_bytes(b"".join(kept))
    found.unlink()
    return path.rename(directory / f"{len(kept) - 1}.pcap")


def _collector(*arguments: str) -> None:
    subprocess.run([str(binary(COLLECTOR)), *arguments], check=True)


def _analyze(capture: Path, few: Path, directory: Path) -> dict[str, float]:
    """The whole command; what it takes to start and to draw the report is taken off."""

    def taken(source: Path) -> float:
        out = directory / "analysed"
        shutil.rmtree(out, ignore_errors=True)
        return _timed(
            [str(Path(sys.executable).with_name("narrows")), "analyze", str(source), "--out", str(out), *LINK]
        )

    start_s = taken(few)
    return {"reports_per_s": (_count(capture) - _count(few)) / (taken(capture) - start_s)}


def _narrows(capture: Path, directory: Path, stage: str) -> dict[str, float]:
    command = [str(binary(COLLECTOR)), "bench", "--repeat", "1", "--out", str(directory / "tables"), str(capture)]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)[stage]
    return {"reports_per_s": found["wall_median"] * 1e6, "cpu_reports_per_s": found["cpu_median"] * 1e6}


def _reader(reader: str, capture: Path, few: Path) -> dict[str, float]:
    command = [sys.executable, str(SCRIPT), reader]
    reports = _count(capture)
    start_s = _timed([*command, str(few), str(PORT)])
    started = time.monotonic()
    output = subprocess.run([*command, str(capture), str(PORT)], check=True, capture_output=True, text=True).stdout
    taken = time.monotonic() - started
    if int(output.split()[0]) != reports:
        raise RunError(f"{reader} found {output.split()[0]} reports of {reports}")
    return {"reports_per_s": (reports - _count(few)) / (taken - start_s)}


def _tshark_command(capture: Path) -> list[str]:
    fields = ["frame.time_epoch", "ip.src", "ip.dst", "udp.srcport", "udp.dstport", "udp.payload"]
    return ["tshark", "-n", "-r", str(capture), "-T", "fields", *(word for field in fields for word in ("-e", field))]


def _tshark(capture: Path, few: Path) -> dict[str, float]:
    start_s = _timed(_tshark_command(few))
    return {"reports_per_s": (_count(capture) - _count(few)) / (_timed(_tshark_command(capture)) - start_s)}


def _count(capture: Path) -> int:
    return int(capture.stem)


def _timed(command: list[str]) -> float:
    started = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.monotonic() - started
