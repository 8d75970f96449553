# SPDX-License-Identifier: Apache-2.0
"""The exported packets in tshark and tcptrace: drops, departures and bytes are the run's."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import synthetic
from narrows.cli import app
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
