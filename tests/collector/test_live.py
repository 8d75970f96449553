# SPDX-License-Identifier: Apache-2.0
"""The collector on a veth link, with frames sent at speed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from helpers import BINARY, account, collector, pcap_frames, send_paced
from narrows.hosts import links

pytestmark = pytest.mark.needs("root", "narrows-collector")


@pytest.fixture
def namespace() -> Iterator[str]:
    """A namespace with the veth pair cs0 (switch side) - cc0 (collector side)."""
    name = f"nwdev-col-{os.getpid()}"
    with links.namespace(name):
        links.add_cable(links.End(name, "cs0"), links.End(name, "cc0"))
        yield name


@pytest.fixture(scope="module")
def frames(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    path = tmp_path_factory.mktemp("capture") / "trace.pcap"
    collector("generate", path, "--reports", "200000", "--bottlenecks", "2")
    return list(pcap_frames(path))


def send_in(namespace: str, frames: list[bytes], rate: float) -> float:
    """Send from inside the namespace."""
    return links.call_inside(namespace, lambda: send_paced("cs0", frames, rate))


def start(namespace: str, out: Path, rings: int = 1, *options: str) -> subprocess.Popen[str]:
    command: list[str | Path] = [
        "ip",
        "netns",
        "exec",
        namespace,
        BINARY,
        "collect",
        "--interface",
        "cc0",
        "--out",
        out,
        "--rings",
        str(rings),
        *options,
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def ended(process: subprocess.Popen[str], within_s: float = 30) -> int:
    """The exit code, with nothing left open."""
    process.communicate(timeout=within_s)
    return process.returncode


@pytest.mark.parametrize("rings", [1, pytest.param(3, marks=pytest.mark.long)])
@pytest.mark.parametrize("stop", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)])
def test_nothing_is_lost_at_100_000_reports_a_second(
    namespace: str, frames: list[bytes], tmp_path: Path, stop: signal.Signals, rings: int
) -> None:
    out = tmp_path / "telemetry"
    process = start(namespace, out, rings)
    send_in(namespace, frames, 100_000)
    # At once: what is still in the ring belongs to the run.
    process.send_signal(stop)
    assert ended(process) == 0
    result = account(out)
    assert result["kernel_ring_drops"] == 0
    assert result["rows"] == len(frames)
    assert result["stop_reason"] == "signal"
    for bottleneck in ("0", "1"):
        assert result["bottlenecks"][bottleneck]["reports"] == len(frames) // 2
        assert result["bottlenecks"][bottleneck]["lost"] == 0
        # Several rings put the frames back in the order in which they came.
        assert result["bottlenecks"][bottleneck]["reordered"] == 0
    table = pq.read_table(out / "reports-00000.parquet", columns=["bottleneck", "sequence"]).to_pandas()
    for _, rows in table.groupby("bottleneck"):
        assert (rows["sequence"].diff().dropna() == 1).all()


@pytest.mark.parametrize("rings", [1, pytest.param(2, marks=pytest.mark.long)])
def test_a_collector_that_is_behind_at_its_end_takes_all_that_has_come(
    namespace: str, tmp_path: Path, rings: int
) -> None:
    reports, capture, out = 800_000, tmp_path / "capture.pcap", tmp_path / "telemetry"
    collector("generate", capture, "--reports", str(reports))
    process = start(namespace, out, rings, "--ring-mib", "768")
    # It sleeps while they come, and ends with all of them before it.
    process.send_signal(signal.SIGSTOP)
    send = f"ip netns exec {namespace} {BINARY} replay {capture} --interface cs0 --rate 400000"
    subprocess.run(send.split(), check=True, capture_output=True)
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGCONT)
    assert ended(process, 60) == 0
    result = account(out)
    assert (result["rows"], result["kernel_ring_drops"]) == (reports, 0)


@pytest.mark.parametrize("rings", [1, 2])
def test_loss_duplicates_reordering_and_noise_are_counted(
    namespace: str, frames: list[bytes], tmp_path: Path, rings: int
) -> None:
    generator = random.Random(7)
    reports = frames[:20000]
    sent: list[bytes] = []
    lost = {0: 0, 1: 0}
    duplicates = {0: 0, 1: 0}
    for index, frame in enumerate(reports):
        bottleneck = frame[44]
        draw = generator.random()
        inner = 10 < index < len(reports) - 10
        if inner and draw < 0.01:
            lost[bottleneck] += 1
            continue
        sent.append(frame)
        if inner and draw > 0.99:
            duplicates[bottleneck] += 1
            sent.append(frame)
    for index in range(100, len(sent) - 100, 50):
        sent[index], sent[index + 3] = sent[index + 3], sent[index]
    wrong_version = bytearray(reports[0])
    wrong_version[42] = 9
    sent[500:500] = [bytes(wrong_version), b"\xff" * 60]
    out = tmp_path / "telemetry"
    process = start(namespace, out, rings)
    send_in(namespace, sent, 50_000)
    process.terminate()
    assert ended(process) == 0
    result = account(out)
    assert result["bad"]["version"] == 1
    assert result["other_traffic"] >= 1
    for bottleneck, counts in result["bottlenecks"].items():
        assert counts["lost"] == lost[int(bottleneck)]
        assert counts["duplicates"] == duplicates[int(bottleneck)]
        assert counts["reordered"] > 0
    sequences = pq.read_table(out / "reports-00000.parquet", columns=["bottleneck", "sequence"]).to_pandas()
    assert len(sequences) == len(reports) - sum(lost.values())
    for _, rows in sequences.groupby("bottleneck"):
        assert (rows["sequence"].diff().dropna() > 0).all()


@pytest.mark.parametrize("rings", [1, 2])
def test_reports_of_others_are_counted_and_not_stored(
    namespace: str, frames: list[bytes], tmp_path: Path, rings: int
) -> None:
    """Whoever does not know the address and the port that the switch sends from is not heard, in whatever order."""
    sent: list[bytes] = []
    for number, frame in enumerate(frames[:6000]):
        other = bytearray(frame)
        if number % 2:
            other[26:30] = bytes([192, 0, 2, 77])
            other[24:26] = ((int.from_bytes(frame[24:26], "big") - 76) % 0xFFFF).to_bytes(2, "big")  # RFC 1624
        else:
            other[34:36] = (5500 + 64).to_bytes(2, "big")
        sent += [frame, bytes(other)]
    out = tmp_path / "telemetry"
    process = start(namespace, out, rings, "--switch", "192.0.2.1:5500")
    send_in(namespace, sent, 50_000)
    process.terminate()
    assert ended(process) == 0
    result = account(out)
    assert (result["rows"], result["bad"]["foreign"]) == (6000, 6000)
    assert [counts["lost"] for counts in result["bottlenecks"].values()] == [0, 0]
    assert [counts["duplicates"] for counts in result["bottlenecks"].values()] == [0, 0]


@pytest.mark.parametrize(("rings", "user"), [(1, 0), (2, 0), (1, 65534)])
def test_no_privilege_is_left_when_reports_come(
    namespace: str, frames: list[bytes], tmp_path: Path, rings: int, user: int
) -> None:
    """Every thread has no capability and is the owner of the directory; files are stored all the same."""
    for directory in (tmp_path, *tmp_path.parents):
        if directory.stat().st_mode & 0o001 == 0:
            directory.chmod(directory.stat().st_mode | 0o011)
    out = tmp_path / "telemetry"
    out.mkdir()
    os.chown(out, user, user)
    process = start(namespace, out, rings, "--rotate-rows", "2000")
    threads = list(Path(f"/proc/{process.pid}/task").iterdir())
    assert len(threads) > rings
    for thread in threads:
        lines = (line.split() for line in (thread / "status").read_text().splitlines())
        status = {words[0]: words[1:] for words in lines if words}
        assert set(status["Uid:"] + status["Gid:"]) == {str(user)}
        assert [int(status[name][0], 16) for name in ("CapPrm:", "CapEff:", "CapInh:", "CapAmb:")] == [0] * 4
        assert status["NoNewPrivs:"] == ["1"]
    send_in(namespace, frames[:6000], 50_000)
    process.terminate()
    assert ended(process) == 0
    assert account(out)["rows"] == 6000
    assert {path.stat().st_uid for path in out.iterdir()} == {user}


def test_a_capture_is_replayed_frame_by_frame_at_its_rate(namespace: str, tmp_path: Path) -> None:
    capture = tmp_path / "trace.pcap"
    collector("generate", capture, "--reports", "20000", "--mixed-headers")
    process = start(namespace, tmp_path / "live", 2)
    inside = ["ip", "netns", "exec", namespace, str(BINARY)]
    command = [*inside, "replay", str(capture), "--interface", "cs0", "--rate", "40000"]
    sent = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    process.terminate()
    assert ended(process) == 0
    # Half a second at that rate; a busy machine may take longer, none is faster.
    assert sent["frames"] == 20_000 and sent["seconds"] > 0.49
    assert sent["rate"] == pytest.approx(20_000 / sent["seconds"], rel=0.01)
    assert collector("convert", capture, "--out", tmp_path / "file").returncode == 0
    for name in ("reports-00000", "flow_keys"):
        live, file = (pq.read_table(tmp_path / way / f"{name}.parquet") for way in ("live", "file"))
        assert live.equals(file), name


def test_a_capture_is_sent_again_and_again_for_a_time(namespace: str, tmp_path: Path) -> None:
    """At 40,000 a second for half a second: 20,000 frames, of a capture of 300."""
    capture = tmp_path / "trace.pcap"
    collector("generate", capture, "--reports", "300")
    before = received(namespace)
    command = ["ip", "netns", "exec", namespace, str(BINARY), "replay", str(capture), "--interface", "cs0"]
    words = [*command, "--rate", "40000", "--seconds", "0.5"]
    sent = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    assert sent["seconds"] > 0.49 and 300 < sent["frames"] <= 20_000 * 1.001
    assert received(namespace) - before == sent["frames"]


def received(namespace: str) -> int:
    words = ["ip", "netns", "exec", namespace, "cat", "/sys/class/net/cc0/statistics/rx_packets"]
    return int(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def test_an_unknown_interface_is_named(tmp_path: Path) -> None:
    result = collector("collect", "--interface", "nosuch0", "--out", tmp_path / "t")
    assert result.returncode == 2
    assert 'no interface "nosuch0"' in result.stderr
    assert not (tmp_path / "t").exists()
