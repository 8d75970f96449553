# SPDX-License-Identifier: Apache-2.0
"""What this machine did to packets that the experiment has not: a run that is complete all the same says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from narrows.experiment.plan import Plan
from narrows.switch.readings import PortStats

# Of those that nstat shows (https://docs.kernel.org/networking/snmp_counter.html): losses alone do not count here.
REORDERED = "TcpExtTCPSACKReorder"
FIX = "; fix: --virtual, or a lower rate"


def reordered(plan: Plan, counters: Mapping[str, Mapping[str, int]]) -> list[str]:
    """A line for each host whose TCP has seen reordering; none if a link reorders or duplicates, which TCP counts as
    well, if a peer is beyond the experiment, and in a guest, where nothing but links can.

    Args:
        plan: what was to be, as it was adapted.
        counters: of TCP, by host, as `narrows.hosts.base.Testbed.kernel_counters` has them.
    """
    links = (*plan.links, *plan.unlimited)
    disordering = any(link.duplication or (link.jitter is not None and link.jitter.reorder) for link in links)
    if disordering or plan.in_guest or plan.gateway is not None:
        return []
    what = "no link of the experiment reorders: this machine did, and what was not lost may have been retransmitted"
    return [
        f"warning: TCP at {host} has seen packets reordered ({of_host[REORDERED]} times), but {what}{FIX}"
        for host, of_host in counters.items()
        if REORDERED in of_host
    ]


def late(plan: Plan, ports: Sequence[PortStats]) -> list[str]:
    """A line for each port to a host by which packets left late, in real time; reports may."""
    late_by = "more than 10 ms after their time: the switch's machine was busy"
    return [
        f"warning: port {port.port}: {port.tx_late} of {port.tx_packets} packets left {late_by}{FIX}"
        for port in ports
        if port.tx_late and port.port != plan.collector_host.port and not plan.in_guest
    ]
