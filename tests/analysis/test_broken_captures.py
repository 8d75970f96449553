# SPDX-License-Identifier: Apache-2.0
"""Damaged pcap, pcapng and telemetry without a run: a clear error, or a summary that is right or says what is wrong."""

from __future__ import annotations

import json
import struct
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from narrows_analysis import AnalysisError, analyze_run, analyze_source, load, write_report
from narrows_formats.programs import COLLECTOR, find_binary

BINARY = find_binary(COLLECTOR)
pytestmark = pytest.mark.needs(COLLECTOR)
FORMATS = ("pcap", "pcapng", "telemetry")
REPORT = 42
REPORTS = 3000
Frames = list[bytes]


def collector(*arguments: object) -> None:
    subprocess.run([str(word) for word in (BINARY, *arguments)], check=True, capture_output=True)


def generated(directory: Path, *options: str) -> tuple[Frames, dict[str, Any]]:
    """Report frames of a queue model and its truth."""
    capture, truth = directory / "generated.pcap", directory / "truth.json"
    scenario = ("--reports", str(REPORTS), "--flows", "5", "--buffer-bytes", "60000")
    collector("generate", capture, "--truth", truth, *scenario, *options)
    content, frames, at = capture.read_bytes(), [], 24
    while at < len(content):
        length = int.from_bytes(content[at + 8 : at + 12], "little")
        frames.append(content[at + 16 : at + 16 + length])
        at += 16 + length
    return frames, json.loads(truth.read_text())["bottlenecks"][0]


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> tuple[Frames, dict[str, Any]]:
    return generated(tmp_path_factory.mktemp("captures"))


def pcap(frames: Frames) -> bytes:
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, 1)
    return head + b"".join(struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame for frame in frames)


def other_format(version: int) -> bytes:
    """A frame to the collector's port whose payload begins with a version that is not the report's."""
    payload = bytes([version]) + bytes(99)
    udp = struct.pack(">HHHH", 4000, 5500, 8 + len(payload), 0)
    ip = struct.pack(">BBHHHBBHII", 0x45, 0, 28 + len(payload), 0, 0, 64, 17, 0, 0x0A000001, 0x0A000002)
    words = sum(struct.unpack(">10H", ip))
    checksum = ~((words & 0xFFFF) + (words >> 16)) & 0xFFFF
    return bytes(12) + b"\x08\x00" + ip[:10] + struct.pack(">H", checksum) + ip[12:] + udp + payload


def pcapng(frames: Frames) -> bytes:
    def block(kind: int, body: bytes) -> bytes:
        body += bytes(-len(body) % 4)
        length = struct.pack(">I", 12 + len(body))
        return struct.pack(">I", kind) + length + body + length

    packets = (struct.pack(">IIIII", 0, 0, 0, len(frame), len(frame)) + frame for frame in frames)
    head = block(0x0A0D0D0A, struct.pack(">IHHq", 0x1A2B3C4D, 1, 0, -1)) + block(1, struct.pack(">HHI", 1, 0, 0))
    return head + b"".join(block(6, packet) for packet in packets)


def analysed(directory: Path, kind: str, frames: Frames, cut: int | None = None) -> Any:
    """Summary of the frames as a source of `kind`, the file ending after `cut` bytes."""
    capture = directory / "capture"
    capture.write_bytes((pcapng(frames) if kind == "pcapng" else pcap(frames))[:cut])
    source = capture
    if kind == "telemetry":
        source = directory / "telemetry"
        collector("convert", capture, "--out", source)
    return analyze_source(source, directory / "out")


def counts(summary: Any) -> list[tuple[int, int, int]]:
    return sorted((flow["departures"], flow["drops"], flow["loss_emulation_drops"]) for flow in summary["flows"])


def true_counts(truth: dict[str, Any]) -> list[tuple[int, int, int]]:
    return sorted((flow["departures"], flow["drops"], flow["loss_drops"]) for flow in truth["flows"])


def codes(summary: Any) -> set[str]:
    return {warning["code"] for warning in summary["warnings"]}


@pytest.mark.parametrize("kind", FORMATS)
def test_every_kind_of_source_gives_the_truth(
    pristine: tuple[Frames, dict[str, Any]], tmp_path: Path, kind: str
) -> None:
    frames, truth = pristine
    summary = analysed(tmp_path, kind, frames)
    assert counts(summary) == true_counts(truth) and codes(summary) == set()
    assert summary["telemetry"]["reports"] == REPORTS and summary["bottleneck"]["utilization"] is None


def test_the_result_reads_like_a_run(pristine: tuple[Frames, dict[str, Any]], tmp_path: Path) -> None:
    summary = analysed(tmp_path, "pcap", pristine[0])
    run = load(tmp_path / "out")
    assert run.summary == summary and write_report(tmp_path / "out").exists()
    assert run.queue["departures"].sum() == REPORTS == run.flows["departures"].sum()
    with pytest.raises(AnalysisError, match="analyse that instead"):
        analyze_run(tmp_path / "out")
    assert load(tmp_path / "out").summary == summary


@pytest.mark.parametrize("kind", FORMATS)
def test_shuffled_and_doubled_reports_change_nothing(
    pristine: tuple[Frames, dict[str, Any]], tmp_path: Path, kind: str
) -> None:
    frames, truth = pristine
    rng = np.random.default_rng(3)
    place = np.concatenate((np.arange(REPORTS), rng.integers(REPORTS, size=40))).astype(float)
    order = np.argsort(place + rng.integers(0, 30, len(place)), kind="stable")
    summary = analysed(tmp_path, kind, [frames[int(place[index])] for index in order])
    assert counts(summary) == true_counts(truth)
    assert summary["telemetry"]["lost"] == 0 and summary["telemetry"]["reports"] == REPORTS
    # A collector has dropped them already when it stores telemetry.
    if kind != "telemetry":
        assert summary["telemetry"]["duplicates"] == 40 and "reports_skipped" in codes(summary)


@pytest.mark.parametrize("kind", FORMATS)
def test_reports_of_another_version_are_counted(
    pristine: tuple[Frames, dict[str, Any]], tmp_path: Path, kind: str
) -> None:
    frames, truth = list(pristine[0]), pristine[1]
    for number in range(100, 110):
        frames[number] = frames[number][:REPORT] + b"\x03" + frames[number][REPORT + 1 :]
    summary = analysed(tmp_path, kind, frames)
    assert summary["telemetry"]["lost"] == 10 and {"reports_missing", "collector_bad"} <= codes(summary)
    assert any("version 10" in warning["message"] for warning in summary["warnings"])
    assert counts(summary) == true_counts(truth)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("seed", range(12))
def test_damage_is_harmless_or_reported(
    pristine: tuple[Frames, dict[str, Any]], tmp_path: Path, kind: str, seed: int
) -> None:
    """Random bytes in a few reports: counts are right, or a warning stands above them."""
    frames, truth = list(pristine[0]), pristine[1]
    rng = np.random.default_rng(seed)
    for number in rng.choice(REPORTS - 200, size=1 + seed % 4, replace=False):
        frame = bytearray(frames[number])
        for at in rng.choice(48, size=1 + seed % 3, replace=False):
            frame[REPORT + at] ^= int(rng.integers(1, 256))
        frames[number] = bytes(frame)
    summary = analysed(tmp_path, kind, frames)
    if any(flow["drops"] is None for flow in summary["flows"]):
        # A damaged flow index or signature looks like two flows on one index: drops are withheld.
        assert "collision" in codes(summary)
        return
    totals = [sum(column) for column in zip(*counts(summary), strict=True)]
    right = [sum(column) for column in zip(*true_counts(truth), strict=True)]
    # Damage to a report's flow makes one packet another's; sums over the flows stay.
    assert totals == right or codes(summary), (totals, right)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_cut_file_is_used_up_to_there(pristine: tuple[Frames, dict[str, Any]], tmp_path: Path, kind: str) -> None:
    frames, _ = pristine
    whole = len(pcapng(frames[:1000]) if kind == "pcapng" else pcap(frames[:1000]))
    summary = analysed(tmp_path, kind, frames, whole + 50)
    assert summary["telemetry"]["reports"] == 1000 and "source_truncated" in codes(summary)


@pytest.mark.parametrize("kind", FORMATS)
def test_two_runs_are_refused(pristine: tuple[Frames, dict[str, Any]], tmp_path: Path, kind: str) -> None:
    second, _ = generated(tmp_path, "--seed", "2")
    with pytest.raises(AnalysisError, match="bottleneck 0 begins anew: more than one run"):
        analysed(tmp_path, kind, pristine[0] + second)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "too short to be a pcap"),
        (b"neither of the two, but long enough", "neither a pcap nor a pcapng file"),
        (pcap([]), "no reports to UDP port 5500"),
        (pcap([b"x" * 100]), "no reports to UDP port 5500"),
        (pcap([other_format(100)] * 3), "3 of them bad reports; they begin with version 100, of another format"),
        (pcap([])[:20] + struct.pack("<I", 113), "link type 113"),
    ],
)
def test_what_holds_no_reports_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(AnalysisError, match=message):
        analyze_source(tmp_path / "file", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_conversion_names_the_version_that_it_cannot_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(pcap([other_format(100)]))
    command = [str(BINARY), "convert", str(tmp_path / "file"), "--out", str(tmp_path / "out")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2 and "1 of them bad reports; they begin with version 100" in result.stderr
