# SPDX-License-Identifier: Apache-2.0
"""The exported packets in tshark and tcptrace, the tables in R and Octave by the examples of docs/export.md: drops,
departures and bytes are the run's."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pandas as pd
import pytest
import synthetic
from narrows.cli import app
from narrows_analysis import analyze_run
from typer.testing import CliRunner


def _output(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, synthetic.Truth]:
    """The packets of a run of two flows."""
    directory = tmp_path_factory.mktemp("exported")
    truth = synthetic.write_run(directory / "run", synthetic.two_flows(3.0))
    packets = directory / "packets.pcapng"
    command = ["export", str(directory / "run"), "--pcapng", str(packets)]
    result = CliRunner().invoke(app, command, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return packets, truth


@pytest.mark.needs("tshark")
def test_tshark_finds_the_drops_in_the_comments(exported: tuple[Path, synthetic.Truth]) -> None:
    packets, truth = exported
    dropped = 'frame.comment contains "dropped by the queue"'
    comments = _output("tshark", "-r", packets, "-Y", dropped, "-T", "fields", "-e", "frame.comment")
    # Those behind a flow's last departure are in no report.
    reported = sum(
        int(truth.rows["arrivals"][truth.rows["flow"] == 1000 + 7 * n][-1]) - truth.departures[n] for n in (0, 1)
    )
    assert sum(map(int, re.findall(r"(\d+) dropped by the queue", comments))) == reported > 10


@pytest.mark.needs("tshark")
def test_tshark_has_the_names_of_the_flows(exported: tuple[Path, synthetic.Truth]) -> None:
    hosts = _output("tshark", "-r", exported[0], "-q", "-z", "hosts").splitlines()
    named = {tuple(line.split()) for line in hosts if line and line[0] != "#"}
    assert named == {("10.0.0.1", "bbr-1"), ("10.0.1.1", "cubic-1")}


@pytest.mark.needs("tshark", "tcptrace")
def test_tcptrace_finds_what_left_the_queue(exported: tuple[Path, synthetic.Truth], tmp_path: Path) -> None:
    packets, truth = exported
    behind = tmp_path / "out.pcap"
    _output("tshark", "-r", packets, "-Y", "frame.interface_id == 1", "-F", "pcap", "-w", behind)
    text = _output("tcptrace", "-n", "-l", behind)
    found = {
        name: [int(number) for number in re.findall(rf"{name}: +(\d+) +\w", text)]
        for name in ("total packets", "actual data pkts", "actual data bytes", "outoforder pkts")
    }
    assert found == {
        "total packets": truth.departures,
        "actual data pkts": truth.data_packets,
        "actual data bytes": truth.unique_bytes,
        # What the queue dropped is sent again: behind the queue it comes out of order, and once.
        "outoforder pkts": truth.retransmitted,
    }


def _example(language: str) -> str:
    """The code block of docs/export.md in this language."""
    text = (Path(__file__).parents[2] / "docs" / "export.md").read_text()
    (code,) = re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)
    return str(code)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run's exported tables, as the examples name them."""
    directory = tmp_path_factory.mktemp("tables")
    synthetic.write_run(directory / "run", synthetic.two_flows(3.0))
    analyze_run(directory / "run")
    command = ["export", str(directory / "run"), "--csv", str(directory / "tables")]
    assert CliRunner().invoke(app, command, catch_exceptions=False).exit_code == 0
    return directory


@pytest.mark.needs("Rscript")
def test_the_example_for_r_sums_the_drops(tables: Path) -> None:
    flows = pd.read_parquet(tables / "run" / "flows.parquet")
    expected = {str(name): int(drops) for name, drops in flows.groupby("name")["drops"].sum().items()}
    assert sum(expected.values()) > 10
    said = subprocess.run(
        ("Rscript", "-e", _example("r")), cwd=tables, check=True, capture_output=True, text=True, timeout=60
    ).stdout
    assert {name: int(drops) for _, name, drops in re.findall(r"^(\d+) +(\S+) +(\d+)$", said, re.MULTILINE)} == expected
    assert (tables / "goodput.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.needs("octave")
def test_the_example_for_octave_reads_the_queue(tables: Path) -> None:
    queue = pd.read_parquet(tables / "run" / "queue.parquet")
    (tables / "example.m").write_text(_example("matlab"))
    command = ("octave", "--no-gui", "--quiet", "--norc", "example.m")
    said = subprocess.run(command, cwd=tables, check=True, capture_output=True, text=True, timeout=120).stdout
    assert queue["drops"].sum() > 10
    assert said == f"{queue['drops'].sum()} drops, {queue['delay_max_s'].max() * 1e3:.3f} ms at most\n"
