# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import socket
import struct
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import pyarrow.parquet as pq
import pytest
from narrows.errors import RunError
from narrows.experiment.plan import Flow, Plan
from narrows.hosts import base, process
from narrows.onhost import program, tcp
from narrows.traffic import socket_sampler
from narrows.traffic.connection import Connection
from narrows.traffic.socket_table import tabulate, write
from narrows.traffic.sockets import SamplingProcesses, SamplingThread
from narrows_formats.columns import SOCKETS, TEXTS

ASKED = ("cwnd_packets", "acked_bytes", "data_packets")
FLOW = Flow(
    "bbr-1", "bbr", "bbr", "sender0", "receiver", ("bottleneck",), (), "198.18.0.3", "198.18.0.1", 10000, 5201,
    0, 10**9, 0, tcp.Bulk(),
)  # fmt: skip


def message(length: int = 232, **info: int) -> bytes:
    """An inet_diag_msg with TCP_INFO and, for a bandwidth, BBR's state."""
    tcp_info = bytearray(232)
    for at, name in (
        (16, "mss"),
        (24, "unacked"),
        (68, "rtt"),
        (80, "cwnd"),
        (100, "retransmits"),
        (148, "min_rtt"),
        (156, "sent"),
    ):
        struct.pack_into("=I", tcp_info, at, info.get(name, 0))
    for at, name in (
        (104, "pacing_rate"),
        (120, "acked"),
        (160, "delivery_rate"),
        (168, "busy"),
        (176, "by_receiver"),
        (184, "by_sender"),
        (200, "sent_bytes"),
        (208, "sent_again"),
    ):
        struct.pack_into("=Q", tcp_info, at, info.get(name, 0))
    tcp_info = tcp_info[:length]
    head = bytearray(72)
    head[0] = socket.AF_INET
    struct.pack_into("!HH", head, 4, 10000, 5201)
    head[24:28] = socket.inet_aton("198.18.0.1")
    attributes = struct.pack("=HH", 5, 8) + b"\1\0\0\0" + struct.pack("=HH", 4 + len(tcp_info), 2) + tcp_info
    if "bandwidth" in info:
        high, low = divmod(info["bandwidth"], 1 << 32)
        bbr = struct.pack("=5I", low, high, 20_000, 320, 512)
        if "phase" in info:
            # linux/inet_diag.h: bw_hi and bw_lo in two words each, mode, phase, padding, version, three counts.
            bbr += struct.pack("=4I4B3I", 7, 1, 2**32 - 1, 2**32 - 1, 2, info["phase"], 0, 3, 11, 12, 13)
        attributes += struct.pack("=HH", 4 + len(bbr), 16) + bbr
    return bytes(head) + attributes


def test_a_netlink_message_is_read_field_by_field() -> None:
    values = {"cwnd": 10, "mss": 1448, "rtt": 25_000, "min_rtt": 24_000, "pacing_rate": 5 << 32, "unacked": 7}
    values |= {"retransmits": 2, "delivery_rate": 9, "acked": 7 << 32, "sent": 11}
    values |= {"sent_bytes": (7 << 32) + 900, "sent_again": 100}
    values |= {"busy": 8_000, "by_receiver": 2_000, "by_sender": 3_000}
    reading = socket_sampler.parse(message(**values, bandwidth=3 << 32 | 5))
    first = (
        "198.18.0.1",
        10000,
        5201,
        10,
        1448,
        25_000,
        24_000,
        5 << 32,
        9,
        (7 << 32) + 800,
        2,
        7 << 32,
        11,
        3 << 32 | 5,
        20_000,
        320,
        512,
    )
    expected = (*first, 8_000, 5_000, *[0] * 6)
    assert reading == expected
    assert len(expected) == len(socket_sampler.FIELDS) - 1
    plain = socket_sampler.parse(message(**values))
    assert plain is not None
    assert plain[-12:-8] == (0, 0, 0, 0)
    third = socket_sampler.parse(message(**values, bandwidth=3 << 32 | 5, phase=4))
    assert third == (*first, 8_000, 5_000, 4, 1 << 32 | 7, 2**64 - 1, 11, 12, 13)
    assert socket_sampler.parse(bytes(72)) is None
    # A kernel before 4.19 counts segments only.
    old = socket_sampler.parse(message(length=200, **values))
    assert old is not None and old[socket_sampler.FIELDS.index("sent_bytes") - 1] == (7 << 32) + 7 * 1448


def test_the_other_end_is_an_address_of_its_family() -> None:
    """A socket of IPv6 that carries IPv4 has the address of IPv4 (RFC 4291, 2.5.5.2), as packets have."""
    plain = message(mss=1448)
    for address, seen in (("2001:db8::1", "2001:db8::1"), ("::ffff:198.18.0.1", "198.18.0.1")):
        read = bytearray(plain)
        read[0], read[24:40] = socket.AF_INET6, socket.inet_pton(socket.AF_INET6, address)
        reading = socket_sampler.parse(bytes(read))
        assert reading is not None and reading[0] == seen


def test_both_programs_of_hosts_know_tcp_info_alike() -> None:
    """Each is one file, so that it runs on any host: a field's offset is in both."""
    shared = socket_sampler.WORDS.keys() & tcp.WORDS.keys()
    assert shared == {"mss", "rtt", "cwnd", "retransmits", "min_rtt"}
    assert {name: socket_sampler.WORDS[name] for name in shared} == {name: tcp.WORDS[name] for name in shared}


def test_the_kernel_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client, server.accept()[0] as peer:
            own = client.getsockname()[1]
            assert _asked(own, port) == (10, 1, 0)  # the initial window of every algorithm; the SYN counts as a byte
            for _ in range(3):
                client.sendall(bytes(1000))
                assert peer.recv(1000, socket.MSG_WAITALL) == bytes(1000)
            deadline = time.monotonic() + 5  # acknowledgements may be delayed
            while (found := _asked(own, port)[1:]) != (3001, 3) and time.monotonic() < deadline:
                time.sleep(0.01)
            assert found == (3001, 3)


def _asked(src_port: int, dst_port: int) -> tuple[int, ...]:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket_sampler.NETLINK_SOCK_DIAG) as diag:
        ((family, states),) = socket_sampler.dumps(4, programs=False)
        found = {reading[1:3]: reading for reading in socket_sampler.readings(diag, family, states)}
    return tuple(found[(src_port, dst_port)][socket_sampler.FIELDS.index(name) - 1] for name in ASKED)  # type: ignore[misc]


def test_what_programs_have_closed_is_read_until_it_has_arrived() -> None:
    """Of a server of IPv6 that a client reaches by IPv4, closed with 8 MB that the client has not read."""
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            peer = server.accept()[0]
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8 << 20)
            peer.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    peer.send(bytes(1 << 16))
            peer.close()
            key = ("127.0.0.1", port, client.getsockname()[1])
            with socket.socket(*socket_sampler.DIAG) as diag:

                def seen(*, programs: bool) -> bool:
                    dumps = socket_sampler.dumps(4, programs=programs)
                    return key in {one[:3] for dump in dumps for one in socket_sampler.readings(diag, *dump)}

                assert seen(programs=True)
                assert not seen(programs=False)


def test_what_is_under_way_behind_the_end_of_a_flow_is_read() -> None:
    """All of a flow of a set size is written at once: it may be closed before any of it has arrived."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as sender:
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8 << 20)
        sender.connect(server.getsockname())
        with server.accept()[0], socket.socket(*socket_sampler.DIAG) as diag:
            sender.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    sender.send(bytes(1 << 16))
            sender.shutdown(socket.SHUT_WR)
            key = (*server.getsockname()[:1], sender.getsockname()[1], server.getsockname()[1])
            dumps = socket_sampler.dumps(4, programs=False)
            assert key in {one[:3] for dump in dumps for one in socket_sampler.readings(diag, *dump)}


class SlowHost:
    """A host on which Python takes a while to start."""

    def __init__(self, state_dir: Path) -> None:
        self.state_dir = state_dir

    async def clock_offset_s(self, _host: str) -> float:
        return 0.0

    async def python(self, _host: str, script: Path) -> list[str]:
        return ["sh", "-c", 'sleep 0.3; exec "$@"', "sh", sys.executable, str(script)]

    async def spawn(self, host: str, arguments: list[str], *, stdout: Path, stderr: Path) -> process.Process:
        return await process.spawn(arguments, host, stdout=stdout, stderr=stderr)


def test_no_flow_starts_before_its_host_reads_sockets(tmp_path: Path) -> None:
    sender = SimpleNamespace(name="sender0", address="127.0.0.1")
    plan = cast("Plan", SimpleNamespace(senders=(sender,), ip_version=4, flows=()))

    async def started() -> list[str]:
        sampler = SamplingProcesses(plan, cast("base.Testbed", SlowHost(tmp_path)), tmp_path, 10**8)
        await sampler.start()
        try:
            # It has begun with the first byte of its first line.
            while "\n" not in (said := (tmp_path / "sender0-sockets.txt").read_text()):
                await asyncio.sleep(0.01)
            return said.splitlines()[0].split()
        finally:
            await sampler.stop()

    assert asyncio.run(started()) == list(socket_sampler.FIELDS)


class ThisHost(SlowHost):
    """Senders that are this machine; what opens their sockets."""

    def open_socket(self, _host: str, *kind: int) -> socket.socket:
        return socket.socket(*kind)


def here(tmp_path: Path) -> SamplingThread:
    senders = tuple(SimpleNamespace(name=name, address="127.0.0.1") for name in ("sender0", "sender1"))
    plan = cast("Plan", SimpleNamespace(senders=senders, ip_version=4, flows=()))
    return SamplingThread(plan, cast("base.Testbed", ThisHost(tmp_path)), tmp_path, 10**8)


def test_one_thread_reads_all_senders_until_it_is_stopped(tmp_path: Path) -> None:
    async def sampled() -> list[list[str]]:
        sampler = here(tmp_path)
        await sampler.start()
        await asyncio.sleep(0.55)
        await sampler.stop()
        await sampler.stop()
        return [reading.path.read_text().splitlines() for reading in sampler.readings]

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            own = str(client.getsockname()[1])
            for lines in asyncio.run(sampled()):
                assert lines[0].split() == list(socket_sampler.FIELDS)
                times = [float(line.split()[0]) for line in lines[1:] if line.split()[2] == own]
                assert len(times) >= 5
                assert times == sorted(set(times))


def test_a_thread_that_can_read_no_more_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError("sock_diag: error 12")

    async def sampled() -> None:
        sampler = here(tmp_path)
        await sampler.start()
        await sampler.stop()

    monkeypatch.setattr(socket_sampler, "readings", refused)
    with pytest.raises(RunError, match="the sampling of sockets ended early: sock_diag: error 12"):
        asyncio.run(sampled())


def test_readings_become_a_table_in_si_units(tmp_path: Path) -> None:
    names = list(socket_sampler.FIELDS)
    row: dict[str, Any] = dict.fromkeys(names, "0")
    row |= {"monotonic_s": "101.5", "src_port": "10000", "dst_port": "5201", "cwnd_packets": "10", "mss": "1448"}
    row |= {
        "acked_bytes": "2897",
        "sent_bytes": "3000",
        "data_packets": "3",
        "rtt_us": "25000",
        "busy_us": "1500000",
        "buffer_limited_us": "250000",
        "pacing_rate": str(2**64 - 1),
        "src": "198.18.0.3",
        "dst": "198.18.0.1",
    }
    bbr = {**row, "monotonic_s": "100.5", "src_port": "10001", "bbr_bandwidth": "1000", "bbr_pacing_gain": "320"}
    bbr |= {"pacing_rate": "1000000"}
    control = {**row, "src_port": "40001"}
    other = {**row, "src": "198.18.0.4"}
    first = Connection(FLOW, 0, 0.0)
    second = Connection(dataclasses.replace(FLOW, payload=tcp.Finite(1, 2)), 1, 0.0)
    table = tabulate(pd.DataFrame([bbr, row, control, other]), [first, second], 100.0)
    assert list(table["flow"]) == [0, 1]
    assert list(table["time_s"]) == [1.5, 0.5]
    assert (table["src_port"][0], table["dst_port"][0], table["cwnd_bytes"][0]) == (10000, 5201, 14_480)
    assert table["rtt_s"][0] == 0.025
    assert (table["busy_s"][0], table["buffer_limited_s"][0]) == (1.5, 0.25)
    # A SYN is acknowledged like a byte; the segments behind it need not be full ones.
    assert (table["acked_bytes"][0], table["inflight_bytes"][0], table["data_packets"][0]) == (2896, 104, 3)
    assert pd.isna(table["pacing_rate_bps"][0])
    assert pd.isna(table["bbr_bandwidth_bps"][0])
    assert table["pacing_rate_bps"][1] == 8_000_000
    assert (table["bbr_bandwidth_bps"][1], table["bbr_pacing_gain"][1]) == (8000, 1.25)
    write(table, tmp_path / "sockets.parquet")
    schema = pq.read_schema(tmp_path / "sockets.parquet")
    assert schema.names == [column.name for column in SOCKETS]
    assert [field.metadata[b"unit"].decode() for field in schema] == [column.unit for column in SOCKETS]
    read = pd.read_parquet(tmp_path / "sockets.parquet").astype(dict.fromkeys(TEXTS, "string"))
    pd.testing.assert_frame_equal(read[table.columns], table)
    assert read.drop(columns=table.columns).isna().all(axis=None)


def test_the_phase_is_bbr3s_own_and_that_of_bbr1_follows_from_its_gains() -> None:
    """BBR_HIGH_GAIN is 2.885 x 256 + 1, its inverse 88, the gains of the cycle 1.25 and 0.75 (net/ipv4/tcp_bbr.c)."""
    row: dict[str, Any] = dict.fromkeys(socket_sampler.FIELDS, "0") | {"src": FLOW.src, "dst": FLOW.dst}
    row |= {"src_port": "10000", "dst_port": "5201", "mss": "1000"}
    gains = [(739, 739), (88, 739), (320, 512), (192, 512), (256, 512), (256, 256), (300, 512)]
    first = [
        {**row, "monotonic_s": str(at), "bbr_bandwidth": "9", "bbr_pacing_gain": str(one), "bbr_cwnd_gain": str(other)}
        for at, (one, other) in enumerate(gains)
    ]
    other = {**row, "monotonic_s": "10", "bbr_pacing_gain": "256", "bbr_cwnd_gain": "256"}
    third = {**first[-1], "monotonic_s": "11", "bbr_phase": "7", "bbr_max_bandwidth": "5"}
    third |= {"bbr_shortterm_bandwidth": str(2**64 - 1), "bbr_longterm_inflight": str(2**32 - 1)}
    bounded = third | {"monotonic_s": "12", "bbr_shortterm_bandwidth": "4", "bbr_longterm_inflight": "3"}
    table = tabulate(pd.DataFrame([*first, other, third, bounded]), [Connection(FLOW, 0, 0.0)], 0.0)
    shown = ["STARTUP", "DRAIN", "PROBE_UP", "PROBE_DOWN", "PROBE_CRUISE", "PROBE_RTT"]
    assert table["bbr_phase"].tolist() == [*shown, pd.NA, pd.NA, "PROBE_REFILL", "PROBE_REFILL"]
    assert table["bbr_max_bandwidth_bps"].isna().tolist() == [True] * 8 + [False] * 2
    assert table["bbr_max_bandwidth_bps"][9] == 40
    assert table["bbr_shortterm_bandwidth_bps"].isna().tolist() == [True] * 9 + [False]
    assert table["bbr_shortterm_bandwidth_bps"][9] == 32
    assert table["bbr_longterm_inflight_bytes"].isna().tolist() == [True] * 9 + [False]
    assert table["bbr_longterm_inflight_bytes"][9] == 3000
    assert tabulate(pd.DataFrame(columns=[*socket_sampler.FIELDS, "src"]), [], 0.0)["bbr_phase"].empty


def test_a_socket_without_a_sample_has_no_rtt() -> None:
    """As one whose SYN was lost and which has no timestamps (Karn's algorithm): Linux has 0, and for the smallest 2^32
    - 1."""
    row: dict[str, Any] = dict.fromkeys(socket_sampler.FIELDS, "0") | {"src": FLOW.src, "dst": FLOW.dst}
    row |= {"src_port": "10000", "dst_port": "5201", "min_rtt_us": str(2**32 - 1)}
    measured = {**row, "monotonic_s": "1", "rtt_us": "25000", "min_rtt_us": "20000"}
    table = tabulate(pd.DataFrame([row, measured]), [Connection(FLOW, 0, 0.0)], 0.0)
    assert table["rtt_s"].isna().tolist() == table["min_rtt_s"].isna().tolist() == [True, False]
    assert (table["rtt_s"][1], table["min_rtt_s"][1]) == (0.025, 0.02)


def test_sockets_that_programs_open_are_their_flows_by_both_addresses() -> None:
    """Whatever their ports; not those to another host, and not those within their own host."""
    web = dataclasses.replace(
        FLOW, name="web-1", payload=program.Program(("true",), None, None, None, None, "server", 0, (), None)
    )
    row: dict[str, Any] = dict.fromkeys(socket_sampler.FIELDS, "0") | {"src": FLOW.src, "dst": FLOW.dst, "mss": "1448"}
    opened = [
        {**row, "src_port": "80", "dst_port": str(port), "monotonic_s": at} for at in "12" for port in (4001, 4000)
    ]
    elsewhere = [{**row, "dst": address} for address in ("127.0.0.1", "198.18.0.9")]
    connections = [Connection(dataclasses.replace(FLOW, src="198.18.0.7"), 0, 0.0), Connection(web, 0, 0.0)]
    table = tabulate(pd.DataFrame([*opened, *elsewhere]), connections, 0.0)
    assert list(table["flow"]) == [1] * 4
    # Its server has sent no SYN.
    answered = [{**one, "sent_bytes": "500", "acked_bytes": "400"} for one in opened]
    served = tabulate(pd.DataFrame(answered), connections, 0.0)
    assert set(served["acked_bytes"]) == {400} and set(served["inflight_bytes"]) == {100}
    assert list(zip(table["src_port"], table["dst_port"], table["time_s"], strict=True)) == [
        (80, 4000, 1.0), (80, 4000, 2.0), (80, 4001, 1.0), (80, 4001, 2.0),
    ]  # fmt: skip
