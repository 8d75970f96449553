# SPDX-License-Identifier: Apache-2.0
"""What hosts' kernels counted of TCP and UDP, by the names of nstat."""

from __future__ import annotations

import pytest
from narrows.hosts.kernel_counters import parse, parse_udp6

NETSTAT = """\
TcpExt: SyncookiesSent PruneCalled OfoPruned TCPTimeouts
TcpExt: 0 2 3 0
IpExt: InNoRoutes InOctets
IpExt: 0 517
"""
SNMP = """\
Ip: Forwarding DefaultTTL
Ip: 1 64
Tcp: RtoAlgorithm RtoMin RtoMax MaxConn CurrEstab RetransSegs
Tcp: 1 200 120000 -1 2 17
Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors
Udp: 80 0 3 0 3
UdpLite: InDatagrams
UdpLite: 1
"""
SNMP6 = """\
Ip6InReceives                   	12
Udp6InDatagrams                 	0
Udp6RcvbufErrors                	4
UdpLite6InDatagrams             	1
"""


def test_counters_without_zeros_and_settings() -> None:
    assert parse(NETSTAT) == {"TcpExtPruneCalled": 2, "TcpExtOfoPruned": 3}
    assert parse(SNMP) == {"TcpRetransSegs": 17, "UdpInDatagrams": 80, "UdpInErrors": 3, "UdpRcvbufErrors": 3}
    assert parse_udp6(SNMP6) == {"Udp6RcvbufErrors": 4}


def test_a_file_of_another_form_is_an_error() -> None:
    with pytest.raises(ValueError, match="zip"):
        parse("TcpExt: PruneCalled OfoPruned\nTcpExt: 2\n")
