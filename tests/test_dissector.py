# SPDX-License-Identifier: Apache-2.0
"""deploy/narrows.lua in tshark: every field of a report, and the original packet behind it."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import wrpcap

ROOT = Path(__file__).resolve().parents[1]
DISSECTOR = ROOT / "deploy" / "narrows.lua"
pytestmark = pytest.mark.needs("tshark")


def _layout() -> list[tuple[str, int]]:
    """Name and bytes of each field, from the table in docs/report-format.md, which tests compare with the program."""
    rows = re.findall(r"^\| \d+ \| (\d+) \| `(\w+)` \|", (ROOT / "docs" / "report-format.md").read_text(), re.MULTILINE)
    assert rows
    return [(name, int(width)) for width, name in rows]


def _frame(payload: bytes, port: int = 5500) -> Any:
    ethernet = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
    return ethernet / IP(src="192.0.2.1", dst="192.0.2.2") / UDP(sport=49152, dport=port, chksum=0) / payload


def _values() -> dict[str, int]:
    """A value for each field that fills its width, so that no byte is left unread."""
    values = {name: (0xA1B2C3D4E5F6 + 0x010101010101 * number) % 256**width for number, (name, width) in
              enumerate(_layout())}  # fmt: skip
    return values | {"version": _version(), "flags": 0x05, "arrivals": 5, "departures": 0xFFFFFFFF}


def _version() -> int:
    found = re.search(r"`version` \| - \| layout version, (\d+)", (ROOT / "docs" / "report-format.md").read_text())
    assert found
    return int(found[1])


def _report(values: dict[str, int]) -> bytes:
    return b"".join(values[name].to_bytes(width) for name, width in _layout())


def _tshark(capture: Path, *options: str) -> str:
    command = ["tshark", "-X", f"lua_script:{DISSECTOR}", "-r", str(capture), *options]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


ORIGINAL = Ether(src="02:00:00:00:00:03", dst="02:00:00:00:00:04") / IP(src="10.0.0.1", dst="10.0.0.2")
ORIGINAL /= TCP(sport=40000, dport=5201, seq=0xFEDCBA98, flags="A") / (b"x" * 20)


def test_every_field_has_its_value(tmp_path: Path) -> None:
    values = _values()
    wrpcap(str(tmp_path / "reports.pcap"), [_frame(_report(values) + bytes(ORIGINAL))])
    (packet,) = json.loads(_tshark(tmp_path / "reports.pcap", "-T", "json", "--no-duplicate-keys"))
    layers = packet["_source"]["layers"]
    found = {name: int(layers["narrows"][f"narrows.{name}"], 0) for name in values}
    assert found == values
    assert {name: layers["narrows"]["narrows.flags_tree"][f"narrows.flags.{name}"] for name in
            ("ce_marked", "collision", "not_ip")} == {"ce_marked": "1", "collision": "0", "not_ip": "1"}  # fmt: skip
    # 5 - (2^32 - 1), modulo 2^32.
    assert layers["narrows"]["narrows.drops"] == "6"


def test_the_original_packet_is_dissected_and_filters_work(tmp_path: Path) -> None:
    values = _values()
    reports = [values | {"sequence": number} for number in (7, 8)]
    frames = [_frame(_report(one) + bytes(ORIGINAL)) for one in reports]
    wrpcap(str(tmp_path / "reports.pcap"), frames)
    fields = [part for name in ("narrows.sequence", "ip.src", "tcp.seq_raw", "tcp.dstport", "_ws.col.Protocol") for
              part in ("-e", name)]  # fmt: skip
    output = _tshark(tmp_path / "reports.pcap", "-T", "fields", *fields, "-Y", "narrows.sequence == 8")
    assert output.splitlines() == ["8\t192.0.2.1,10.0.0.1\t4275878552\t5201\tNARROWS"]


def test_another_version_and_a_short_report_are_reported(tmp_path: Path) -> None:
    whole = _report(_values())
    other = bytes([_version() + 1]) + whole[1:]
    wrpcap(str(tmp_path / "reports.pcap"), [_frame(other), _frame(whole[:20]), _frame(whole)])
    output = _tshark(tmp_path / "reports.pcap", "-T", "fields", "-e", "frame.number", "-Y", "narrows.other_version")
    assert output.split() == ["1", "2"]
    output = _tshark(tmp_path / "reports.pcap", "-T", "fields", "-e", "frame.number", "-Y", "narrows.sequence")
    assert output.split() == ["3"]


def test_the_port_is_a_preference(tmp_path: Path) -> None:
    wrpcap(str(tmp_path / "reports.pcap"), [_frame(_report(_values()), port=6000)])
    chosen = ("-T", "fields", "-e", "frame.number", "-Y", "narrows.sequence")
    assert _tshark(tmp_path / "reports.pcap", *chosen) == ""
    assert _tshark(tmp_path / "reports.pcap", "-o", "narrows.port:6000", *chosen).split() == ["1"]
