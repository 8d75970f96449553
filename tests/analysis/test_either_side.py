# SPDX-License-Identifier: Apache-2.0
"""Captures of any packets, of one side of a link or of both: made by scapy, and by dumpcap around Linux's tbf."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from narrows.cli import app
from narrows.errors import InputError
from narrows_analysis import AnalysisError, analyze_captures
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import CookedLinux, CookedLinuxV2, Dot1Q, Ether
from scapy.packet import Raw
from scapy.utils import PcapNgWriter, PcapWriter
from typer.testing import CliRunner

MS = 0.001
RATE_BPS, LIMIT_BYTES, BURST_BYTES = 10_000_000, 30_000, 2_000


def write(path: Path, packets: list[tuple[float, Any]], **options: Any) -> Path:
    """A capture of packets, each at its time in seconds."""
    kind = options.pop("kind", PcapWriter)
    with kind(str(path), **options) as writer:
        for time_s, packet in packets:
            packet = packet.copy()
            packet.time = 1_700_000_000 + time_s
            writer.write(packet)
    return path


def datagram(number: int, payload: int = 100, **header: Any) -> Any:
    head = Ether() / IP(src="10.0.0.1", dst="10.0.1.1", id=number, **header) / UDP(sport=4000, dport=5000)
    return head / Raw(number.to_bytes(4, "big") + bytes(payload - 4))


def segment(number: int, back: bool = False, **fields: Any) -> Any:
    hosts, ports = ("10.0.0.1", "10.0.1.1"), (4001, 80)
    (src, dst), (sport, dport) = (hosts[::-1], ports[::-1]) if back else (hosts, ports)
    stamps, payload = [("Timestamp", fields.pop("stamps"))], Raw(bytes(fields.pop("payload", 0)))
    tcp = TCP(sport=sport, dport=dport, flags="A", options=stamps, **fields)
    return Ether() / IP(src=src, dst=dst, id=number) / tcp / payload


def test_losses_and_delays_between_two_captures(tmp_path: Path) -> None:
    """Every tenth of 100 datagrams is lost, the n-th of the others takes 4 + n/10 ms; the way lowers the hop limit,
    marks CE, and adds a VLAN's tag."""
    front = [(number * MS, datagram(number, ttl=64, tos=2)) for number in range(100)]
    behind = []
    for number in range(100):
        if number % 10 != 5:
            packet = datagram(number, ttl=60, tos=3)
            packet = Ether() / Dot1Q(vlan=7) / packet[IP]
            behind.append((number * MS + (4 + number / 10) * MS, packet))
    for kind, nano in ((PcapWriter, {"nano": True}), (PcapNgWriter, {})):
        first = write(tmp_path / "front", front, kind=kind, **nano)
        found = analyze_captures(first, write(tmp_path / "behind", behind, **nano))
        (flow,) = found["flows"]
        assert (flow["packets"], flow["lost"], flow["duplicated"], flow["ambiguous"]) == (100, 10, 0, 0)
        assert (flow["at_edges"], flow["loss_ratio"]) == (0, 0.1)
        delays = [4 + number / 10 for number in range(100) if number % 10 != 5]
        assert flow["delay_s"] is not None
        assert flow["delay_s"]["min"] == pytest.approx(min(delays) * MS, abs=2e-6)
        assert flow["delay_s"]["mean"] == pytest.approx(sum(delays) / len(delays) * MS, abs=2e-6)
        assert flow["delay_s"]["max"] == pytest.approx(max(delays) * MS, abs=2e-6)
        span_s = behind[-1][0] - behind[0][0]
        assert flow["goodput_bps"] == pytest.approx(90 * 100 * 8 / span_s, rel=1e-3)


def test_what_only_one_capture_was_there_for_is_not_lost(tmp_path: Path) -> None:
    """The other one began with the third of ten packets, and may have ended before the last two left."""
    front = [(n * MS, datagram(n)) for n in range(10)]
    behind = [((n + 0.5) * MS, datagram(n)) for n in range(2, 8) if n != 5]
    (flow,) = analyze_captures(write(tmp_path / "a", front), write(tmp_path / "b", behind))["flows"]
    assert (flow["lost"], flow["at_edges"]) == (1, 4)
    assert flow["loss_ratio"] == pytest.approx(1 / 6)


def conversation() -> tuple[list[tuple[float, Any]], list[tuple[float, Any]]]:
    """Ten segments, of which the third is lost and sent again, and their acknowledgements, which enter behind: 3 ms to
    the other side, 20 ms to the receiver and back from there, 4 ms back."""
    front, behind = [], []
    order = [0, 1, 2, 3, 4, 2, 5, 6, 7, 8, 9]
    for place, number in enumerate(order):
        at = place * 10 * MS
        sent = segment(place, seq=1000 + number * 1000, ack=1, payload=1000, stamps=(100 + place, 7))
        front.append((at, sent))
        if place != 2:
            behind.append((at + 3 * MS, sent))
            answer = segment(500 + place, back=True, seq=1, ack=2000 + number * 1000, stamps=(900 + place, 100 + place))
            behind.append((at + 23 * MS, answer))
            front.append((at + 27 * MS, answer))
    return sorted(front, key=lambda one: one[0]), sorted(behind, key=lambda one: one[0])


def test_both_directions_of_a_connection(tmp_path: Path) -> None:
    front, behind = (write(tmp_path / name, side) for name, side in zip(("a", "b"), conversation(), strict=True))
    for sides in ((front, behind), (behind, front)):
        flows: Any = analyze_captures(*sides)["flows"]
        data, acks = flows
        assert (data["src"], data["packets"], data["lost"], data["loss_ratio"]) == ("10.0.0.1", 11, 1, 1 / 11)
        assert data["retransmit_ratio"] == pytest.approx(1 / 11)
        assert (data["delay_s"]["min"], data["delay_s"]["max"]) == pytest.approx((3 * MS, 3 * MS), abs=2e-6)
        # They enter behind, and leave in front.
        assert (acks["lost"], acks["delay_s"]["mean"]) == (0, pytest.approx(4 * MS, abs=2e-6))
        assert data["rtt_s"]["min"] == pytest.approx(27 * MS, abs=2e-6)
        # 10,000 bytes reached the other side, none of them twice.
        assert data["goodput_bps"] == pytest.approx(10_000 * 8 / (10 * 10 * MS), rel=1e-3)


def test_one_capture_shows_no_loss_and_no_delay(tmp_path: Path) -> None:
    found: Any = analyze_captures(write(tmp_path / "a", conversation()[0]))
    data = found["flows"][0]
    unknown = ("lost", "loss_ratio", "duplicated", "at_edges", "ambiguous", "delay_s")
    assert [data[name] for name in unknown] == [None] * 6 and found["reason"]
    assert data["retransmit_ratio"] == pytest.approx(1 / 11)
    assert data["rtt_s"] is not None and data["rtt_s"]["min"] == pytest.approx(27 * MS, abs=2e-6)


def test_round_trips_are_whole_nanoseconds(tmp_path: Path) -> None:
    """Also a thousand seconds after the first packet, where doubles of seconds have no more than 0.1 ps."""
    front = [(at + (1000 if at else 0), packet) for at, packet in conversation()[0]]
    found: Any = analyze_captures(write(tmp_path / "a", front))["flows"][0]["rtt_s"]
    assert [found[name] for name in ("min", "p50", "max")] == [round(found[name], 9) for name in ("min", "p50", "max")]


def test_duplicates_and_packets_that_look_alike(tmp_path: Path) -> None:
    """Of two alike, one of which was lost, nobody can tell which; what leaves twice has no delay either."""
    alike = datagram(1)
    front = [(0.0, datagram(0)), (0.1, alike), (0.2, alike), (0.3, datagram(3)), (0.4, datagram(4)), (0.5, datagram(5))]
    behind = [(0.01, datagram(0)), (0.11, alike), (0.32, datagram(3)), (0.33, datagram(3)), (0.42, datagram(4)),
              (0.52, datagram(5))]  # fmt: skip
    (flow,) = analyze_captures(write(tmp_path / "a", front), write(tmp_path / "b", behind))["flows"]
    assert (flow["lost"], flow["duplicated"], flow["ambiguous"]) == (1, 1, 3)
    assert flow["delay_s"] is not None and flow["delay_s"]["max"] == pytest.approx(0.02, abs=2e-6)


def test_a_capture_that_is_cut_to_headers_is_matched(tmp_path: Path) -> None:
    """The two may store different parts of a packet."""
    front = write(tmp_path / "a", [(n * MS, datagram(n)) for n in range(20)])
    behind = write(tmp_path / "b", [((n + 2) * MS, datagram(n)) for n in range(20)], snaplen=60)
    (flow,) = analyze_captures(front, behind)["flows"]
    assert (flow["lost"], flow["at_edges"], flow["ambiguous"]) == (0, 0, 0)


def test_data_that_is_sent_again_in_other_pieces_is_no_offload(tmp_path: Path) -> None:
    """The first two of four are lost, and come again as one, which both captures have."""
    front = [(0.01 * n, segment(n, seq=n * 500, payload=500, stamps=(n + 1, 0))) for n in range(4)]
    front.append((0.2, segment(9, seq=0, payload=1000, stamps=(9, 0))))
    behind = [(at + 0.005, packet) for at, packet in front[2:]]
    (flow,) = analyze_captures(write(tmp_path / "a", front), write(tmp_path / "b", behind))["flows"]
    assert (flow["packets"], flow["lost"], flow["at_edges"]) == (5, 0, 2)


def test_a_length_that_no_link_carries_is_not_read(tmp_path: Path) -> None:
    """Kernels set the length to 0 in packets above 64 kB, which NICs segment."""
    long = datagram(1)
    long[IP].len = 0
    found = analyze_captures(write(tmp_path / "a", [(0, datagram(0)), (1, long), (2, datagram(2))]))
    assert (found["not_read"], found["flows"][0]["packets"]) == (1, 2)
    assert found["flows"][0]["goodput_bps"] == pytest.approx(200 * 8 / 2)


def test_seconds_that_a_pcapng_adds_are_added(tmp_path: Path) -> None:
    """if_tsoffset, of an interface whose times count from elsewhere."""
    front = write(tmp_path / "a", [(n, datagram(n)) for n in range(5)])
    behind = write(tmp_path / "b", [(n + 0.25 - 1000, datagram(n)) for n in range(5)], kind=PcapNgWriter)
    data = bytearray(behind.read_bytes())
    at = struct.unpack_from("<I", data, 4)[0]
    size = struct.unpack_from("<I", data, at + 4)[0]
    option = struct.pack("<HHqHH", 14, 8, 1000, 0, 0)
    block = data[at : at + size - 4]
    block = block[:16] + option + struct.pack("<I", 16 + len(option) + 4)
    struct.pack_into("<I", block, 4, len(block))
    behind.write_bytes(data[:at] + block + data[at + size :])
    (flow,) = analyze_captures(front, behind)["flows"]
    assert flow["delay_s"] is not None and flow["delay_s"]["mean"] == pytest.approx(0.25, abs=2e-6)


def test_ipv6_is_read(tmp_path: Path) -> None:
    packets = [
        Ether() / IPv6(src="fd00::1", dst="fd00::2") / UDP(sport=1, dport=2) / Raw(bytes([n] * 40)) for n in range(5)
    ]
    found = analyze_captures(write(tmp_path / "a", list(zip([0, 1, 2, 3, 4], packets, strict=True))))
    assert [(one["src"], one["src_port"], one["packets"]) for one in found["flows"]] == [("fd00::1", 1, 5)]


def refusals(path: Path) -> Iterator[tuple[list[tuple[float, Any]], list[tuple[float, Any]], str]]:
    """Pairs that do not go together, and what is said."""
    front, behind = conversation()
    yield front, [(at + 1, packet) for at, packet in behind], "go the same way"
    yield [(0, datagram(0)), (1, datagram(1)), (2, datagram(2))], [(5, datagram(0)), (0.9, datagram(1))], "before it"
    joined, said = [(0.0, datagram(0, payload=9000))], "without offloads"
    yield joined, [(0.0, datagram(n, payload=1400)) for n in range(6)], said
    # Both were taken with offloads: 12,000 bytes as four packets here and as three there.
    front, behind = (
        [(0.01 * n + side, segment(n, seq=n * size, payload=size, stamps=(1, 0))) for n in range(12_000 // size)]
        for side, size in enumerate((3_000, 4_000))
    )
    opening = segment(100, seq=0, stamps=(1, 0))
    yield [(0.0, opening), *front], [(1.0, opening), *behind], said
    # The same of datagrams; the first went alone.
    front, behind = (
        [(0.01 * n + later, datagram(100 + n * joined, payload=1_000 * joined)) for n in range(12 // joined)]
        for later, joined in ((0.001, 3), (0.002, 4))
    )
    yield (
        [(0.0, datagram(0)), *front],
        [(0.001, datagram(0)), *behind],
        "3000 bytes entered, and 4000 that begin alike left",
    )


@pytest.mark.parametrize("number", range(5))
def test_captures_that_do_not_go_together_are_refused(tmp_path: Path, number: int) -> None:
    front, behind, said = list(refusals(tmp_path))[number]
    with pytest.raises(AnalysisError, match=said):
        analyze_captures(write(tmp_path / "a", front), write(tmp_path / "b", behind))


def test_datagrams_that_begin_alike_are_not_taken_for_joined_ones(tmp_path: Path) -> None:
    """One is lost; another of another size was under way when the capture in front began."""
    alike = [datagram(n, payload=size) for n, size in ((1, 700), (1, 900))]
    alike[0][IP].id = 7
    crossing = [(n * MS, datagram(10 + n)) for n in range(5)]
    front = [*crossing, (2.5 * MS, alike[0])]
    behind = [(-MS, alike[1]), *((at + 1.5 * MS, packet) for at, packet in crossing)]
    (flow,) = analyze_captures(write(tmp_path / "a", front), write(tmp_path / "b", behind))["flows"]
    assert (flow["lost"], flow["at_edges"]) == (1, 1)


def test_a_flow_of_one_side_only_may_not_cross_the_link(tmp_path: Path) -> None:
    front = [(n * MS, datagram(n)) for n in range(10)]
    local = [
        (n * MS, Ether() / IP(src="10.9.0.1", dst="10.9.0.2") / UDP(sport=1, dport=2) / Raw(b"x" * 9)) for n in range(9)
    ]
    behind = [((n + 1) * MS, datagram(n)) for n in range(10)]
    flows = analyze_captures(write(tmp_path / "a", front + local), write(tmp_path / "b", behind))["flows"]
    assert [(one["src"], one["lost"]) for one in flows] == [("10.0.0.1", 0), ("10.9.0.1", None)]


@pytest.mark.parametrize(
    ("data", "said"),
    [(b"not a capture, but text", "allowed: a pcap or pcapng file"), (b"", "allowed: a pcap or pcapng file")],
)
def test_what_is_no_capture_is_refused(tmp_path: Path, data: bytes, said: str) -> None:
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(AnalysisError, match=said):
        analyze_captures(tmp_path / "x")


def test_a_capture_that_was_cut_short_has_what_came_before(tmp_path: Path) -> None:
    path = write(tmp_path / "a", [(n * MS, datagram(n)) for n in range(10)])
    path.write_bytes(path.read_bytes()[:-30])
    assert analyze_captures(path)["flows"][0]["packets"] == 9


@pytest.mark.needs("narrows-collector")
def test_the_command_analyses_captures_of_any_packets(tmp_path: Path) -> None:
    front, behind = (write(tmp_path / f"{name}.pcap", side) for name, side in zip("ab", conversation(), strict=True))
    options = ["analyze", str(front), "--behind", str(behind), "--out", str(tmp_path / "both")]
    result = CliRunner().invoke(app, options, catch_exceptions=False)
    assert result.exit_code == 0 and "9.09" in result.output
    assert json.loads((tmp_path / "both" / "capture.json").read_text())["flows"][0]["lost"] == 1
    # By itself: it has no report, and is a capture all the same.
    result = CliRunner().invoke(app, ["analyze", str(front), "--out", str(tmp_path / "one")], catch_exceptions=False)
    assert result.exit_code == 0 and "--behind FILE is the other side" in result.output
    for more in (["--rate", "1Mbit"], ["--interval", "1s"]):
        for source in (options[:4], options[:2]):
            with pytest.raises(InputError):
                command = [*source, "--out", str(tmp_path / "no"), *more]
                CliRunner().invoke(app, command, catch_exceptions=False)
    assert not (tmp_path / "no").exists()


@pytest.mark.needs("narrows-collector")
@pytest.mark.parametrize("head", [None, CookedLinux(), CookedLinuxV2()])
@pytest.mark.parametrize("kind", [PcapWriter, PcapNgWriter])
def test_the_command_reads_captures_without_ethernet(tmp_path: Path, head: Any, kind: Any) -> None:
    """As tcpdump writes them of a tunnel, and of all interfaces (``-i any``)."""
    packets = [datagram(number)[IP] for number in range(10)]
    capture = write(
        tmp_path / "one", [(n * MS, head / packet if head else packet) for n, packet in enumerate(packets)], kind=kind
    )
    options = ["analyze", str(capture), "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(app, options, catch_exceptions=False)
    assert result.exit_code == 0
    (flow,) = json.loads((tmp_path / "out" / "capture.json").read_text())["flows"]
    assert flow["packets"] == 10 and flow["ip_bytes"] == 10 * 128


def run(*command: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, check=True, text=True, capture_output=True, **options)


@contextmanager
def namespaces() -> Iterator[tuple[str, str, str]]:
    """A sender, a router whose link to the receiver is Linux's tbf, and the receiver."""
    names = sender, router, receiver = [f"nrw-{os.getpid()}-{role}" for role in "srd"]
    try:
        for name in names:
            run("ip", "netns", "add", name)
            run("ip", "-n", name, "link", "set", "lo", "up")
        for left, right, net in ((sender, router, 0), (router, receiver, 1)):
            run("ip", "-n", left, "link", "add", f"out{net}", "type", "veth", "peer", f"in{net}", "netns", right)
            for name, device, host in ((left, f"out{net}", 1), (right, f"in{net}", 2)):
                run("ip", "-n", name, "addr", "add", f"10.77.{net}.{host}/24", "dev", device)
                run("ip", "-n", name, "link", "set", device, "up")
                run("ip", "netns", "exec", name, "ethtool", "-K", device, "tso", "off", "gso", "off", "gro", "off")
        run("ip", "-n", sender, "route", "add", "default", "via", "10.77.0.2")
        run("ip", "-n", receiver, "route", "add", "default", "via", "10.77.1.1")
        run("ip", "netns", "exec", router, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        shaper = ["rate", f"{RATE_BPS}bit", "burst", str(BURST_BYTES), "limit", str(LIMIT_BYTES)]
        run("tc", "-n", router, "qdisc", "add", "dev", "out1", "root", "tbf", *shaper)
        yield sender, router, receiver
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


@contextmanager
def capturing(name: str, device: str, path: Path) -> Iterator[None]:
    command = ["ip", "netns", "exec", name, "dumpcap", "-q", "-i", device, "-s", "100", "-w", str(path)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 20
        while not path.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(0.5)
        yield
        time.sleep(1)
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)


SENDER = """
import socket, sys, time
tcp = socket.create_connection(("10.77.1.2", 5001))
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
end = time.monotonic() + 2
tcp.setblocking(False)
number = 0
while time.monotonic() < end:
    try:
        tcp.send(bytes(60000))
    except BlockingIOError:
        pass
    udp.sendto(number.to_bytes(4, "big") + bytes(396), ("10.77.1.2", 5002))
    number += 1
    time.sleep(0.002)
"""
RECEIVER = """
import socket, sys
listening = socket.create_server(("", 5001))
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(("", 5002))
print("ready", flush=True)
taken, _ = listening.accept()
while taken.recv(1 << 16):
    pass
"""


@pytest.mark.needs("root", "tshark", "tc", "ip", "ethtool")
def test_captures_around_linux_tbf_have_its_drops_and_its_delay(tmp_path: Path) -> None:
    """tbf counts its own drops; what waits longest waits for its limit, at its rate."""
    with namespaces() as (sender, router, receiver), ExitStack() as stack:
        command = ["ip", "netns", "exec", receiver, sys.executable, "-c", RECEIVER]
        listening = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        stack.callback(listening.kill)
        assert listening.stdout is not None and listening.stdout.readline()
        front, behind = tmp_path / "front.pcapng", tmp_path / "behind.pcapng"
        with capturing(router, "in0", front), capturing(receiver, "in1", behind):
            run("ip", "netns", "exec", sender, sys.executable, "-c", SENDER)
        said = json.loads(run("tc", "-n", router, "-s", "-j", "qdisc", "show", "dev", "out1").stdout)
    flows = analyze_captures(front, behind)["flows"]
    data = [one for one in flows if one["dst"] == "10.77.1.2"]
    assert {one["protocol"] for one in data} == {socket.IPPROTO_TCP, socket.IPPROTO_UDP}
    drops = next(one["drops"] for one in said if one["kind"] == "tbf")
    lost, edges = (sum(one[name] or 0 for one in data) for name in ("lost", "at_edges"))
    assert drops > 10 and lost <= drops <= lost + edges and edges <= 0.1 * drops
    # A busy machine may be late with a few.
    longest_s = max(one["delay_s"]["p95"] for one in data if one["delay_s"] is not None)
    full_s = LIMIT_BYTES * 8 / RATE_BPS
    assert 0.7 * full_s < longest_s < full_s + 0.02
    tcp = next(one for one in data if one["protocol"] == socket.IPPROTO_TCP)
    assert tcp["rtt_s"] is not None and tcp["rtt_s"]["min"] < 0.02
    assert tcp["retransmit_ratio"] and tcp["goodput_bps"] and tcp["goodput_bps"] < RATE_BPS


@pytest.mark.parametrize("kind", [PcapWriter, PcapNgWriter])
def test_damaged_captures_are_read_or_refused(tmp_path: Path, kind: Any) -> None:
    whole = write(tmp_path / "a", conversation()[0], kind=kind).read_bytes()
    draw = random.Random(20)
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(draw.randint(1, 8)):
            data[draw.randrange(len(data))] = draw.randrange(256)
        (tmp_path / "b").write_bytes(data[: draw.randint(0, len(data))])
        with suppress(AnalysisError):
            analyze_captures(tmp_path / "b")
