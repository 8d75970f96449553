# SPDX-License-Identifier: Apache-2.0
"""What hosts' kernels counted of TCP and UDP, by the names of nstat."""

from __future__ import annotations

import pytest
from narrows.hosts.kernel_counters import of_interface, parse, parse_ipv6

NETSTAT = """\
TcpExt: SyncookiesSent PruneCalled OfoPruned TCPTimeouts
TcpExt: 0 2 3 0
IpExt: InNoRoutes InOctets
IpExt: 5 517
"""
SNMP = """\
Ip: Forwarding DefaultTTL InAddrErrors InDelivers
Ip: 1 64 7 9
Tcp: RtoAlgorithm RtoMin RtoMax MaxConn CurrEstab RetransSegs
Tcp: 1 200 120000 -1 2 17
Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors
Udp: 80 0 3 0 3
UdpLite: InDatagrams
UdpLite: 1
"""
SNMP6 = """\
Ip6InReceives                   	12
Ip6InAddrErrors                 	3
Ip6InHdrErrors                  	0
Udp6InDatagrams                 	0
Udp6RcvbufErrors                	4
UdpLite6InDatagrams             	1
"""


def test_counters_without_zeros_and_settings() -> None:
    assert parse(NETSTAT) == {"TcpExtPruneCalled": 2, "TcpExtOfoPruned": 3, "IpExtInNoRoutes": 5}
    of_udp = {"UdpInDatagrams": 80, "UdpInErrors": 3, "UdpRcvbufErrors": 3}
    assert parse(SNMP) == {"IpInAddrErrors": 7, "TcpRetransSegs": 17, **of_udp}
    assert parse_ipv6(SNMP6) == {"Ip6InAddrErrors": 3, "Udp6RcvbufErrors": 4}


def test_an_interface_without_what_is_not_taken_has_no_counters() -> None:
    assert of_interface("lo") == {}
    with pytest.raises(OSError, match="no interface with this name"):
        of_interface("none")


def test_a_file_of_another_form_is_an_error() -> None:
    with pytest.raises(ValueError, match="zip"):
        parse("TcpExt: PruneCalled OfoPruned\nTcpExt: 2\n")
