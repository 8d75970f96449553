# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from narrows.errors import RunError
from narrows.plan import Flow
from narrows.traffic.iperf3 import MAX_BLOCK_BYTES, block_bytes, check_result, client_command

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
SIZED = dataclasses.replace(BULK, duration_ns=None, size=1_000_000, repeat=3)


def result(**changes: Any) -> dict[str, Any]:
    values = {"cca": "bbr", "port": 10000, "bytes": 1_000_000, **changes}
    return {
        "start": {"connected": [{"local_port": values["port"]}]},
        "end": {"sender_tcp_congestion": values["cca"], "sum_sent": {"bytes": values["bytes"]}},
    }


def checked(tmp_path: Path, data: object, flow: Flow = SIZED, number: int = 0, code: int = 0) -> int:
    path = tmp_path / "result.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return check_result(flow, number, path, code, "")


@given(st.integers(1, 10**8))
def test_blocks_add_up_to_the_size(size: int) -> None:
    block = block_bytes(size)
    if block is not None:
        assert size % block == 0
        assert block <= MAX_BLOCK_BYTES


@pytest.mark.parametrize(
    ("size", "block"), [(100_000, 100_000), (1_000_000, 125_000), (90_000_000, 125_000), (1, 1), (1_000_003, None)]
)
def test_block(size: int, block: int | None) -> None:
    assert block_bytes(size) == block


def test_commands() -> None:
    bulk = " ".join(client_command(BULK, 0))
    assert "--client 198.18.0.1 --port 5201 --bind 198.18.0.3 --cport 10000 --congestion bbr" in bulk
    assert bulk.endswith("--time 30")
    sized = " ".join(client_command(SIZED, 2))
    assert "--cport 10002" in sized
    assert sized.endswith("--bytes 1000000 --length 125000")


def test_good_result(tmp_path: Path) -> None:
    assert checked(tmp_path, result()) == 1_000_000
    assert checked(tmp_path, result(port=10002), number=2) == 1_000_000


@pytest.mark.parametrize(
    ("data", "code", "message"),
    [
        (result(cca="cubic"), 0, "ran with cubic, not bbr"),
        (result(port=40001), 0, "ran from port 40001, not 10000"),
        (result(bytes=1_048_576), 0, "sent 1048576 B, not 1000000 B"),
        ({"error": "unable to connect to server"}, 1, "unable to connect to server"),
        (result(), 1, "exit code 1"),
        ("", 1, "wrote no result (exit code 1)"),
        ({"end": {}}, 0, "has no 'sender_tcp_congestion'"),
    ],
)
def test_bad_result(tmp_path: Path, data: object, code: int, message: str) -> None:
    with pytest.raises(RunError) as caught:
        checked(tmp_path, data, code=code)
    assert message in str(caught.value)
    assert str(caught.value).startswith("flow bbr-1, connection 1: ")
