# SPDX-License-Identifier: Apache-2.0
"""Flows that ports which only count up would let meet in one cell of the switch, with drops of their own."""

from __future__ import annotations

import json
import struct
import zlib
from collections import Counter
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from test_in_a_guest import PATIENCE_S, start

pytestmark = pytest.mark.needs("guest-kernel", "narrows-softswitch", "narrows-collector", "ip")

TEXT = """
name: cells
ip_version: {version}
links:
  a: {{rate: 5Mbit, rtt: 10ms, buffer: 20packets}}
  b: {{rate: 5Mbit, rtt: 10ms, buffer: 20packets}}
flows:
- {{name: left, cca: cubic, duration: 3s, path: [a], count: {left}}}
- {{name: right, cca: cubic, duration: 3s, path: [b], count: {right}}}
- {{name: both, cca: cubic, duration: 3s, path: [a, b], count: {both}}}
"""


def index_of(bottleneck: int, key: Any) -> int:
    """As docs/report-format.md and p4src say."""
    ends = b"".join(int(ip_address(key[end])).to_bytes(16, "big") for end in ("src", "dst"))
    rest = struct.pack("!BHH", key["protocol"], key["src_port"], key["dst_port"])
    return zlib.crc32(bytes([bottleneck]) + ends + rest) & 0xFFFF


@pytest.mark.long
@pytest.mark.parametrize(
    ("version", "counts", "one", "other"),
    [
        (4, {"left": 7, "right": 1, "both": 2}, ("left-7", "a"), ("both-2", "a")),
        (6, {"left": 22, "right": 3, "both": 1}, ("left-20", "a"), ("right-3", "b")),
    ],
)
def test_flows_that_would_meet_have_their_drops(
    version: int, counts: dict[str, int], one: tuple[str, str], other: tuple[str, str], tmp_path: Path
) -> None:
    """From ports that only count up, ``one`` flow at a link and the ``other`` at its link would have one index."""
    assert start(tmp_path, TEXT.format(version=version, **counts)).wait(PATIENCE_S) == 0, (
        tmp_path / "said"
    ).read_text()
    run, summary = (json.loads((tmp_path / "out" / name).read_text()) for name in ("run.json", "summary.json"))
    assert (run["status"], [each for each in summary["warnings"] if each["code"] == "collision"]) == ("complete", [])
    links = {link["name"]: link["index"] for link in run["links"]}
    flows = {flow["name"]: flow for flow in run["flows"]}
    counted_up = {name: 9_999 + int(name.partition("-")[2]) for name in flows}
    ports = {name: flow["src_port"] for name, flow in flows.items()}
    moved = max(counted_up[name] for name in flows if flows[name]["group"] == flows[other[0]]["group"]) + 1
    assert ports == {**counted_up, other[0]: moved}
    met = [index_of(links[link], {**flows[name], "src_port": counted_up[name]}) for name, link in (one, other)]
    assert met[0] == met[1]

    # The compiled program has counted each flow where planning says.
    keys = pd.read_parquet(tmp_path / "out" / "telemetry" / "flow_keys.parquet").to_dict("records")
    assert [key["flow"] for key in keys] == [index_of(key["bottleneck"], key) for key in keys]
    assert len(keys) == len({key["flow"] for key in keys}) == sum(len(flow["links"]) for flow in flows.values())

    # What each has lost is what the traffic manager counted, which keeps links apart.
    lost: Counter[str] = Counter()
    for summed in summary["links"]:
        check = run["drop_cross_check"][summed["name"]]
        by_index = {each["flow"]: each for each in check["flows_with_drops"]}
        assert check["holds"] and not any(each["counted_at_other_links"] for each in by_index.values())
        assert summed["drops"] == check["port_drops"] > 0
        for name, flow in flows.items():
            index = index_of(links[summed["name"]], flow)
            if summed["name"] in flow["links"] and index in by_index:
                lost[name] += by_index[index]["counted_by_switch"]
    found = {flow["name"]: flow for flow in summary["flows"]}
    assert {name: found[name]["drops"] for name in flows} == {name: lost[name] for name in flows}
    assert min(lost[one[0]], lost[other[0]]) > 0
    assert all(flow["loss_ratio"] == pytest.approx(flow["drops"] / flow["arrivals"]) for flow in found.values())
