# SPDX-License-Identifier: Apache-2.0
"""``narrows collect`` and ``narrows analyze SOURCE --out DIR``: the collector binary behind the command line."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from narrows.cli import app
from narrows.cli.collector_command import FORWARDED, options, run_collector
from narrows.errors import EXIT_BAD_INPUT, EXIT_INTERRUPTED, EXIT_OK, InputError
from narrows.hosts import links
from narrows_formats.programs import COLLECTOR, find_binary
from typer.testing import CliRunner

BINARY = find_binary(COLLECTOR)
pytestmark = pytest.mark.needs(COLLECTOR)
NARROWS = [sys.executable, "-c", "from narrows.cli import main; main()"]
REPORTS = 20_000


def collector(*arguments: str | Path) -> str:
    assert BINARY is not None
    return subprocess.run([BINARY, *arguments], check=True, capture_output=True, text=True, timeout=60).stdout


def narrows(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*NARROWS, *arguments], capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("capture") / "trace.pcap"
    collector("generate", path, "--reports", str(REPORTS), "--flows", "3", "--truth", path.with_suffix(".json"))
    return path


def test_options_become_arguments() -> None:
    assert options(port=1, ring_mib=None, from_reset=True, x=False) == ["--port", "1", "--from-reset"]


@pytest.mark.parametrize(("end", "code"), [("exit 3", 3), ("kill -INT $$", EXIT_INTERRUPTED), ("kill -9 $$", 137)])
def test_its_exit_code_becomes_ours(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, end: str, code: int) -> None:
    fake = tmp_path / COLLECTOR
    fake.write_text(f"#!/bin/sh\n{end}\n")
    fake.chmod(0o755)
    monkeypatch.setenv("NARROWS_BIN", str(tmp_path))
    before = [signal.getsignal(number) for number in FORWARDED]
    assert run_collector([], tmp_path / "none") == code
    assert [signal.getsignal(number) for number in FORWARDED] == before


# What only a run gives it: in virtual time, whose switch is on the same machine, of a program, and driven from Python.
OF_RUNS = {"--pipe", "--watch", "--arrow-file"}


def test_collect_offers_every_option_of_the_collector() -> None:
    offered = set(re.findall(r"--[a-z-]+", collector("collect", "--help"))) - OF_RUNS
    ours = CliRunner().invoke(app, ["collect", "--help"], env={"COLUMNS": "200", "TERM": "dumb"}).output
    assert offered <= set(re.findall(r"--[a-z-]+", ours))


def test_collect_passes_every_option_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given: list[str] = []

    def note(arguments: list[str], _: Path) -> int:
        given.extend(arguments)
        return EXIT_OK

    monkeypatch.setattr("narrows.cli.collect.run_collector", note)
    fixed_or_none = {"--help", "--interface", "--out"} | OF_RUNS
    names = sorted(set(re.findall(r"--[a-z-]+", collector("collect", "--help"))) - fixed_or_none)
    wanted = [text for number, name in enumerate(names, 1) for text in (name, str(number))]
    fixed = ["--interface", "lo", "--out", str(tmp_path)]
    assert CliRunner().invoke(app, ["collect", *fixed, *wanted], catch_exceptions=False).exit_code == EXIT_OK
    assert given[0] == "collect"
    pairs = set(zip(given[1::2], given[2::2], strict=True))
    assert pairs == {*zip(fixed[::2], fixed[1::2], strict=True), *zip(wanted[::2], wanted[1::2], strict=True)}


@pytest.mark.long
def test_a_capture_becomes_series_and_summary(capture: Path, tmp_path: Path) -> None:
    done = narrows("analyze", capture, "--out", tmp_path / "out", "--interval", "250us")
    assert done.returncode == EXIT_OK, done.stderr
    truth = json.loads(capture.with_suffix(".json").read_text())["bottlenecks"][0]
    found = json.loads((tmp_path / "out" / "aggregate.json").read_text())
    assert found["interval_s"] == pytest.approx(250e-6)
    assert found["bottlenecks"]["0"]["departures"] == truth["departures"]
    totals = pq.read_table(tmp_path / "out" / "flow_totals.parquet").to_pandas()
    assert len(totals) == len(truth["flows"]) == 3
    assert pq.read_metadata(tmp_path / "out" / "flow_series.parquet").num_rows > 3
    assert str(tmp_path / "out" / "report.html") in done.stdout
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["telemetry"]["reports"] == truth["departures"]
    assert sum(flow["drops"] for flow in summary["flows"]) == sum(flow["drops"] for flow in truth["flows"])


@pytest.mark.long
def test_telemetry_gives_what_its_capture_gives(capture: Path, tmp_path: Path) -> None:
    collector("convert", capture, "--out", tmp_path / "telemetry")
    for source, out in ((capture, "a"), (tmp_path / "telemetry", "b")):
        assert narrows("analyze", source, "--out", tmp_path / out).returncode == EXIT_OK
    first, second = (json.loads((tmp_path / out / "aggregate.json").read_text()) for out in "ab")
    assert first["bottlenecks"] == second["bottlenecks"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "flows_s", "queue_s"),
    [
        ([], 0.1, 0.001),
        (["--rtt", "300ms", "--rate", "1Mbit"], 0.3, 0.05),
        (["--rtt", "300ms", "--interval", "50ms"], 0.05, 0.001),
        (["--rate", "1Mbit", "--interval", "50ms"], 0.05, 0.005),
    ],
)
def test_intervals_suit_the_link(
    capture: Path, tmp_path: Path, arguments: list[str], flows_s: float, queue_s: float
) -> None:
    """As those of a run: 0.1 s or the RTT, and 1 ms or four packets, of 12.1 ms here."""
    done = narrows("analyze", capture, "--out", tmp_path / "out", *arguments)
    assert done.returncode == EXIT_OK, done.stderr
    for name, expected in (("flows", flows_s), ("queue", queue_s)):
        lengths = pq.read_table(tmp_path / "out" / f"{name}.parquet")["interval_s"].unique().to_pylist()
        assert lengths == [pytest.approx(expected)]


@pytest.mark.parametrize(("option", "value"), [("--time-unit-s", "0"), ("--time-unit-s", "nan"), ("--port", "70000")])
def test_an_option_that_cannot_be_is_named(capture: Path, tmp_path: Path, option: str, value: str) -> None:
    done = narrows("analyze", capture, "--out", tmp_path / "out", option, value)
    assert done.returncode == EXIT_BAD_INPUT
    assert option in done.stderr
    assert not (tmp_path / "out").exists()


def test_the_page_has_the_columns_of_every_table_of_sums(capture: Path, tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "analysis" / "README.md").read_text()
    rows = re.findall(r"^\| (`[\w`, .]+) \|[^|]*\|(.*)$", page, re.MULTILINE)
    named = {name: set(re.findall(r"`(\w+)`", text)) for names, text in rows for name in re.findall(r"`(\S+)`", names)}
    shared = {name for name, text in named.items() if "." not in name}
    collector("aggregate", capture, "--out", tmp_path / "sums", "--interval", "10ms", "--queue-interval", "1ms")
    tables = {path.name: set(pq.read_schema(path).names) for path in (tmp_path / "sums").glob("*.parquet")}
    del tables["flow_keys.parquet"]  # Made by the program: reference.md.
    assert tables.keys() < named.keys()
    # What a row calls "the shared ones", or delay and depth.
    short = {"flow_series.parquet", "flow_totals.parquet", "bottleneck_series.parquet"}
    for table, columns in tables.items():
        assert columns == named[table] if table not in short else columns <= named[table] | shared, table


def test_what_cannot_be_analysed_is_named(capture: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text("{}")
    for arguments, message in (
        ([str(tmp_path / "none")], "none: no such file or directory"),
        ([str(capture)], "--out: is needed"),
        ([str(capture), "--out", str(tmp_path / "run")], "exists already"),
        ([str(capture), "--out", str(tmp_path / "o"), "--interval", "3"], "--interval: '3' has no unit"),
        ([str(capture), "--out", str(tmp_path / "o"), "--interval", "0s"], "--interval: '0s' is not a length"),
        ([str(tmp_path / "run"), "--out", str(tmp_path / "o")], "--out: "),
        ([str(tmp_path / "run"), "--port", "1"], "--port: "),
        ([str(tmp_path)], "run.json"),
    ):
        with pytest.raises(InputError, match=re.escape(message)):
            CliRunner().invoke(app, ["analyze", *arguments], catch_exceptions=False)
    (tmp_path / "text").write_text("no capture, but long enough to be looked at")
    done = narrows("analyze", tmp_path / "text", "--out", tmp_path / "o")
    assert (done.returncode, "neither a pcap nor a pcapng" in done.stderr) == (EXIT_BAD_INPUT, True)


@pytest.fixture
def namespace() -> Iterator[str]:
    name = f"narrows-test-{os.getpid()}"
    with links.namespace(name):
        yield name


@pytest.mark.needs("root")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_collect_stores_until_it_is_stopped(
    namespace: str, capture: Path, tmp_path: Path, number: signal.Signals
) -> None:
    out = tmp_path / "telemetry"
    inside = ["ip", "netns", "exec", namespace]
    with subprocess.Popen(
        [*inside, *NARROWS, "collect", "--interface", "lo", "--out", str(out), "--ring-mib", "8"],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        send = "import socket, sys; s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); s.bind(('lo', 0)); "
        send += "d = open(sys.argv[1], 'rb').read(); p = 24\n"
        send += "for _ in range(100):\n"
        send += "    n = int.from_bytes(d[p + 8 : p + 12], 'little'); s.send(d[p + 16 : p + 16 + n]); p += 16 + n\n"
        subprocess.run([*inside, sys.executable, "-c", send, str(capture)], check=True)
        time.sleep(0.2)
        process.send_signal(number)
        try:
            assert process.wait(30) == EXIT_OK
        finally:
            process.kill()
    found = json.loads((out / "collector.json").read_text())
    assert found["bottlenecks"]["0"]["reports"] >= 100
