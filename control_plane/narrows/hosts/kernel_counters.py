# SPDX-License-Identifier: Apache-2.0
"""What a network namespace's kernel has counted of TCP and UDP, and of packets that it did not take.

Names and figures are those of ``nstat``, and of the kernel's statistics of an interface.
"""

from __future__ import annotations

import socket
import struct
from pathlib import Path

# Of the thread, since that is what enters a namespace.
FILES = (Path("/proc/thread-self/net/snmp"), Path("/proc/thread-self/net/netstat"))
OF_IPV6 = Path("/proc/thread-self/net/snmp6")
GROUPS = ("Tcp", "TcpExt", "Udp")
# Packets that came in and were not for this host, or broken: the rest of what is counted of IP says nothing of a run.
NOT_TAKEN = (
    "IpInHdrErrors", "IpInAddrErrors", "IpExtInNoRoutes", "IpExtInCsumErrors",
    "Ip6InHdrErrors", "Ip6InAddrErrors", "Ip6InNoRoutes",
)  # fmt: skip
# What the kernel is set to, and what is open now.
NO_COUNTERS = ("RtoAlgorithm", "RtoMin", "RtoMax", "MaxConn", "CurrEstab")
# struct nlmsghdr and struct ifinfomsg (linux/netlink.h, linux/rtnetlink.h), and what is asked for by them.
_REQUEST = struct.Struct("=IHHIIBxHiII")
_ATTRIBUTE = struct.Struct("=HH")
_RTM_GETLINK, _NLM_F_REQUEST, _NLMSG_ERROR, _IFLA_STATS64 = 18, 1, 2, 23
# 64-bit words of struct rtnl_link_stats64 (linux/if_link.h): frames of a protocol that is not spoken here, and those
# for another Ethernet address, which kernels before 5.19 do not count.
_OF_INTERFACE = {"rx_nohandler": 23, "rx_otherhost_dropped": 24}


def parse(text: str) -> dict[str, int]:
    """Counters that are not zero, as ``TcpRetransSegs`` and ``TcpExtTCPTimeouts``, from a file of the kernel.

    A group has two lines: its name and those of its counters, then its name and their values.
    """
    lines = [line.split() for line in text.splitlines()]
    found: dict[str, int] = {}
    for names, values in zip(lines[::2], lines[1::2], strict=True):
        group = names[0].rstrip(":")
        counted = zip(names[1:], map(int, values[1:]), strict=True)
        is_whole = group in GROUPS
        found |= {
            group + name: value
            for name, value in counted
            if value and ((is_whole and name not in NO_COUNTERS) or group + name in NOT_TAKEN)
        }
    return found


def parse_ipv6(text: str) -> dict[str, int]:
    """Those of IPv6 and of UDP over it, from a file with one counter on each line."""
    counted = ((name, int(value)) for name, value in map(str.split, text.splitlines()))
    return {name: value for name, value in counted if value and (name.startswith("Udp6") or name in NOT_TAKEN)}


def of_interface(name: str) -> dict[str, int]:
    """Frames that an interface of this thread's namespace has received and that the kernel took nothing of, without
    zeros.

    Raises:
        OSError: there is no such interface.
    """
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as route:
        index = socket.if_nametoindex(name)
        route.send(_REQUEST.pack(_REQUEST.size, _RTM_GETLINK, _NLM_F_REQUEST, 0, 0, 0, 0, index, 0, 0))
        answer = route.recv(1 << 16)
    length, kind = struct.unpack_from("=IH", answer)
    if kind == _NLMSG_ERROR:
        raise OSError(-struct.unpack_from("=i", answer, 16)[0], f"statistics of {name}")
    position = _REQUEST.size
    while position + _ATTRIBUTE.size <= length:
        size, attribute = _ATTRIBUTE.unpack_from(answer, position)
        if attribute == _IFLA_STATS64:
            words = struct.unpack_from(f"={(size - _ATTRIBUTE.size) // 8}Q", answer, position + _ATTRIBUTE.size)
            return {name: words[at] for name, at in _OF_INTERFACE.items() if at < len(words) and words[at]}
        position += (size + 3) & ~3
    return {}


def read(interface: str) -> dict[str, int]:
    """Those of the namespace that this thread is in, and of its interface."""
    found = {name: value for path in FILES for name, value in parse(path.read_text()).items()}
    # A kernel without IPv6 has no such file.
    return found | (parse_ipv6(OF_IPV6.read_text()) if OF_IPV6.exists() else {}) | of_interface(interface)
