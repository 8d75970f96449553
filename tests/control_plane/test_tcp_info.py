# SPDX-License-Identifier: Apache-2.0
"""What a sender's socket says, and what of it is set."""

from __future__ import annotations

import math
import socket
from typing import Any

import pytest
from narrows.api.interval import Interval
from narrows.api.sender import Sender
from narrows.api.tcp_info import LAYOUT, TcpInfo, tcp_info
from narrows.errors import InputError
from narrows.onhost import tcp
from narrows.run.driver import SenderAnswer, SetSender
from narrows.traffic import socket_sampler

PAYLOAD = 1 << 20


def readings() -> tuple[TcpInfo, TcpInfo, dict[str, int]]:
    """Of a connection over the loopback device: before it sent, and after; and what onhost/tcp.py reads then."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as sender:
        sender.connect(server.getsockname())
        receiver, _ = server.accept()
        with receiver:
            before = tcp_info(1_000, sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 280))
            sender.settimeout(10)
            received = 0
            for _ in range(PAYLOAD // 4096):
                sender.sendall(bytes(4096))
                received += len(receiver.recv(4096, socket.MSG_WAITALL))
            assert received == PAYLOAD
            # The receiver acknowledges what it has read at once, as it sends something.
            receiver.sendall(b"x")
            sender.recv(1)
            after = tcp_info(3_001_000, sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 280))
            return before, after, tcp.tcp_info(sender)


def test_a_reading_says_what_was_sent_and_acknowledged() -> None:
    before, after, words = readings()
    assert before.bytes_acked == 1 and before.delivered in (0, 1)  # the SYN takes a number
    assert after.bytes_acked == PAYLOAD + 1 and after.bytes_sent == PAYLOAD and after.bytes_retransmitted == 0
    assert after.in_flight == after.lost == after.retransmits == after.not_sent_bytes == 0
    assert after.pacing_rate_bps is None or after.pacing_rate_bps > 0
    assert after.min_rtt_s is not None and after.rtt_s is not None and 0 <= after.min_rtt_s <= after.rtt_s < 1
    assert after.ca_state == "open" and after.rto_s >= 0.2
    assert (after.cwnd, after.mss, after.retransmits) == (words["cwnd"], words["mss"], words["retransmits"])
    interval = Interval(before, after)
    assert interval.acked_bytes == PAYLOAD and interval.duration_s == pytest.approx(0.003)
    assert interval.lost == 0 and interval.loss_ratio == 0 and interval.delivered >= PAYLOAD // after.mss
    assert interval.throughput_bps == pytest.approx(8 * interval.delivered * after.mss / 0.003)


def test_one_layout_serves_all_who_read_it() -> None:
    """Each of the other two is one file, so that it runs on any host."""
    names = {"delivered_ce": "delivered_ce", "data_packets": "segs_out", "retransmits": "total_retrans"}
    for words in (tcp.WORDS, socket_sampler.WORDS):
        for name, offset in words.items():
            assert LAYOUT[names.get(name, name)][0] == offset


def test_an_older_kernel_lacks_the_last_fields() -> None:
    info = tcp_info(0, bytes(192))
    assert info.delivered == info.bytes_sent == 0 and info.rtt_s is None


def test_what_is_lost_counts_once() -> None:
    """Of three segments that are taken for lost two were sent again, of which one is on its way."""
    data = bytearray(232)
    for name, value in (("lost", 3), ("retrans", 2), ("total_retrans", 2), ("mss", 1448)):
        offset, _ = LAYOUT[name]
        data[offset : offset + 4] = value.to_bytes(4, "little")
    before, now = tcp_info(0, bytes(232)), tcp_info(1_000_000, bytes(data))
    assert Interval(before, now).lost == 3


def sender(asked: list[SetSender]) -> Sender:
    def ask(command: SetSender) -> SenderAnswer:
        asked.append(command)
        return SenderAnswer(5, None)

    return Sender("agent-1", 0.02, ask)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"cwnd": 0}, "cwnd 0: allowed: a whole number from 1 to"),
        ({"cwnd": -3}, "cwnd -3: allowed"),
        ({"cwnd": 2.5}, "cwnd 2.5: allowed"),
        ({"cwnd": True}, "cwnd True: allowed"),
        ({"cwnd": 1 << 31}, "cwnd 2147483648: allowed"),
        ({"pacing_rate": 0}, "pacing_rate 0: allowed: from 8 bit/s"),
        ({"pacing_rate": math.nan}, "pacing_rate nan: allowed"),
        ({"pacing_rate": math.inf}, "pacing_rate inf: allowed"),
        ({"pacing_rate": "fast"}, "pacing_rate .*allowed"),
        ({"pacing_rate": [1]}, "pacing_rate .1.: allowed"),
        ({}, "nothing is set; allowed: cwnd, pacing_rate"),
    ],
)
def test_what_no_sender_can_have_is_refused_before_it_is_asked(setting: dict[str, Any], said: str) -> None:
    asked: list[SetSender] = []
    with pytest.raises(InputError, match=f"flow agent-1: {said}"):
        sender(asked).set(**setting)
    assert asked == []


def test_a_setting_is_passed_on_in_whole_numbers() -> None:
    asked: list[SetSender] = []
    assert sender(asked).set(cwnd=7, pacing_rate="2.5Mbit") is None
    assert sender(asked).info() is None
    assert asked == [SetSender("agent-1", 7, 2_500_000), SetSender("agent-1", None, None)]
