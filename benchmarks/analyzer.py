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
from mmap import ACCESS_READ, mmap
from pathlib import Path

import host
from measuring import Contestant, alternate
from narrows.errors import RunError
from narrows.paths import binary
from narrows_formats.programs import COLLECTOR
from readers import READERS
from results import Outcome, Table

PORT = 5500
REPORTS = 10_000_000
# To measure what a reader takes to start.
FEW = 1_000
PCAP_HEADER_BYTES, PCAP_RECORD_BYTES, REPORT_BYTES = 24, 16, 184
# Slower readers stop after so many reports of the file, so that a run takes seconds; their rates do not depend on it.
FIRST = {"tshark": 50_000, "scapy": 5_000, "dpkt": 50_000}
RATE_BPS = 100_000_000_000
SCRIPTS = Path(__file__).parent
DECODE, AGGREGATE = "narrows-collector, decode", "narrows-collector, aggregate"
SUMMARY = "Narrows, to all series and summary.json"
ANALYZE = "narrows analyze, whole command with report.html"
PANDAS, PANDAS_AGGREGATE = "pandas, decode", "pandas, aggregate"


def run(runs: int) -> Outcome:
    """All readers in turn on one capture."""
    skipped = []
    with tempfile.TemporaryDirectory(prefix="narrows-bench-", dir=host.scratch()) as name:
        directory = Path(name)
        capture, reports = _generate(directory)
        contestants: dict[str, Contestant] = {
            DECODE: partial(_narrows, capture, directory, "decode_to_columns"),
            AGGREGATE: partial(_narrows, capture, directory, "aggregate"),
            SUMMARY: partial(_summary, capture, directory, reports),
            ANALYZE: partial(_analyze, capture, directory, reports),
            PANDAS: partial(_reader, "pandas", capture, reports),
            PANDAS_AGGREGATE: partial(_reader, "pandas-aggregate", capture, reports),
        }
        for peer, first in FIRST.items():
            if peer == "tshark" and shutil.which(peer) is None:
                skipped.append("tshark: not on PATH; apt-get install tshark")
            elif peer != "tshark" and importlib.util.find_spec(peer) is None:
                skipped.append(f"{peer}: not installed; pip install {peer}")
            else:
                contestants[peer] = partial(_tshark if peer == "tshark" else partial(_reader, peer), capture, first)
        series = alternate(contestants, runs)
    table = Table(("Reader", "Million reports/s, wall clock", "Narrows is faster by"))
    for name in contestants:
        ours = AGGREGATE if name in (AGGREGATE, SUMMARY, ANALYZE, PANDAS_AGGREGATE) else DECODE
        rate = series.spread(name, "reports_per_s").text(1e-6)
        table.rows.append((name, rate, series.ratio(ours, name, "reports_per_s").text()))
    conditions = (
        f"One generated capture of {reports:,} reports of {REPORT_BYTES} bytes (100 Gbit/s, 16 flows), in the page "
        f"cache. tshark, scapy and dpkt stop after its first {FIRST['tshark']:,}, {FIRST['scapy']:,} and "
        f"{FIRST['dpkt']:,} reports. The time that tshark, scapy, dpkt and pandas take for a thousand reports (start, "
        "imports) is taken "
        "off. 'decode' ends with all fields of the report in columns: one thread of narrows-collector, a DataFrame "
        "of pandas, lists of numbers for scapy and dpkt. tshark has no dissector of the report; it prints time, "
        "addresses, ports and payload in hex, which is less work. 'aggregate' of narrows-collector (two threads) "
        "writes all time series, totals, histograms and envelopes. 'To all series and summary.json' is that, as a "
        "process of its own, and all that Python makes of it (flows.parquet, queue.parquet, distributions.parquet, "
        "summary.json), in a Python that has imported everything. 'Whole command' is what a user waits for: the start "
        "of Python, its imports and report.html as well. 'aggregate' of pandas computes packets, bytes, "
        "mean and greatest depth and mean delay by flow in 10 ms. Narrows reads the file once, uncounted, "
        "before each of these measurements but the whole command."
    )
    commands = [
        f"narrows-collector generate --reports {REPORTS} CAPTURE",
        "narrows-collector bench --repeat 1 --out DIR CAPTURE",
        f"python benchmarks/to_summary.py CAPTURE DIR {RATE_BPS}",
        f"narrows analyze CAPTURE --out DIR --rate {RATE_BPS}bit",
        *(f"python benchmarks/readers.py {reader} CAPTURE {PORT} FIRST" for reader in READERS),
        " ".join(_tshark_command(Path("CAPTURE"), FIRST["tshark"])),
    ]
    data = {"reports": reports, "first": FIRST, **series.as_json()}
    return Outcome("Analyzer", conditions, [table], data, commands, skipped)


def _generate(directory: Path) -> tuple[Path, int]:
    """A capture of about as many reports, all equally long, as pandas needs it; also how many they are."""
    found, path = directory / "generated", directory / "capture.pcap"
    _collector("generate", "--reports", str(REPORTS), str(found))
    count, start, kept_from = 0, PCAP_HEADER_BYTES, 0
    with found.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as content, path.open("wb") as kept:
        while start < len(content):
            length = int.from_bytes(content[start + 8 : start + 12], "little")
            if length == REPORT_BYTES:
                count += 1
            else:
                kept.write(content[kept_from:start])
                kept_from = start + PCAP_RECORD_BYTES + length
            start += PCAP_RECORD_BYTES + length
        kept.write(content[kept_from:])
    found.unlink()
    return path, count


def _collector(*arguments: str) -> None:
    subprocess.run([str(binary(COLLECTOR)), *arguments], check=True)


def _summary(capture: Path, directory: Path, reports: int) -> dict[str, float]:
    """What Python takes, its start and imports not counted."""
    out = directory / "summarised"
    shutil.rmtree(out, ignore_errors=True)
    command = [sys.executable, str(SCRIPTS / "to_summary.py"), str(capture), str(out), str(RATE_BPS)]
    taken_s = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return {"reports_per_s": reports / taken_s}


def _analyze(capture: Path, directory: Path, reports: int) -> dict[str, float]:
    """The whole command."""
    out = directory / "analysed"
    shutil.rmtree(out, ignore_errors=True)
    program = Path(sys.executable).with_name("narrows")
    taken_s = _timed([str(program), "analyze", str(capture), "--out", str(out), "--rate", f"{RATE_BPS}bit"])
    return {"reports_per_s": reports / taken_s, "seconds": taken_s}


def _narrows(capture: Path, directory: Path, stage: str) -> dict[str, float]:
    command = [str(binary(COLLECTOR)), "bench", "--repeat", "1", "--out", str(directory / "tables"), str(capture)]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)[stage]
    return {"reports_per_s": found["wall_median"] * 1e6, "cpu_reports_per_s": found["cpu_median"] * 1e6}


def _reader(reader: str, capture: Path, first: int) -> dict[str, float]:
    command = [sys.executable, str(SCRIPTS / "readers.py"), reader, str(capture), str(PORT)]
    start_s = _timed([*command, str(FEW)])
    started = time.monotonic()
    output = subprocess.run([*command, str(first)], check=True, capture_output=True, text=True).stdout
    taken = time.monotonic() - started
    if int(output.split()[0]) != first:
        raise RunError(f"{reader} found {output.split()[0]} reports of {first}")
    return {"reports_per_s": (first - FEW) / (taken - start_s)}


def _tshark_command(capture: Path, first: int) -> list[str]:
    fields = ["frame.time_epoch", "ip.src", "ip.dst", "udp.srcport", "udp.dstport", "udp.payload"]
    chosen = [word for field in fields for word in ("-e", field)]
    return ["tshark", "-n", "-r", str(capture), "-c", str(first), "-T", "fields", *chosen]


def _tshark(capture: Path, first: int) -> dict[str, float]:
    start_s = _timed(_tshark_command(capture, FEW))
    return {"reports_per_s": (first - FEW) / (_timed(_tshark_command(capture, first)) - start_s)}


def _timed(command: list[str]) -> float:
    started = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.monotonic() - started
