# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from narrows.errors import RunError
from narrows.experiment.plan import Flow
from narrows.traffic.iperf3 import check_result, client_command

BULK = Flow(
    name="bbr-1",
    group="bbr",
    cca="bbr",
    sender="sender0",
    src="198.18.0.3",
    dst="198.18.0.1",
    src_port=10000,
    dst_port=5201,
    start_ns=0,
    duration_ns=30_000_000_000,
    size=None,
    repeat=1,
    gap_ns=0,
    rtt_ns=0,
)


def result(**changes: Any) -> dict[str, Any]:
    values = {"cca": "bbr", "port": 10000, "bytes": 1_000_000, **changes}
    return {
        "start": {"connected": [{"local_port": values["port"]}]},
        "end": {"sender_tcp_congestion": values["cca"], "sum_sent": {"bytes": values["bytes"]}},
    }


def checked(tmp_path: Path, data: object, code: int = 0) -> int:
    path = tmp_path / "result.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return check_result(BULK, path, code, "")


def test_the_client_is_bound_to_its_plan() -> None:
    command = " ".join(client_command(BULK))
    assert "--client 198.18.0.1 --port 5201 --bind 198.18.0.3 --cport 10000 --congestion bbr" in command
    assert command.endswith("--time 30")


def test_a_good_result_gives_the_bytes_sent(tmp_path: Path) -> None:
    assert checked(tmp_path, result()) == 1_000_000


@pytest.mark.parametrize(
    ("data", "code", "message"),
    [
        (result(cca="cubic"), 0, "ran with cubic, not bbr"),
        (result(port=40001), 0, "ran from port 40001, not 10000"),
        ({"error": "unable to connect to server"}, 1, "unable to connect to server"),
        (result(), 1, "exit code 1"),
        ("", 1, "wrote no result (exit code 1)"),
        ({"end": {}}, 0, "has no 'sender_tcp_congestion'"),
    ],
)
def test_a_bad_result_names_the_flow_and_why(tmp_path: Path, data: object, code: int, message: str) -> None:
    with pytest.raises(RunError) as caught:
        checked(tmp_path, data, code=code)
    assert message in str(caught.value)
    assert str(caught.value).startswith("flow bbr-1: ")
