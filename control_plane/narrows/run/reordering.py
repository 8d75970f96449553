# SPDX-License-Identifier: Apache-2.0
"""Whether packets were reordered where the experiment says nothing of it, as the senders' TCP has seen."""

from __future__ import annotations

from collections.abc import Mapping

from narrows.experiment.plan import Plan

# Of those that nstat shows (https://docs.kernel.org/networking/snmp_counter.html): losses alone do not count here.
SEEN = "TcpExtTCPSACKReorder"


def notes(plan: Plan, counters: Mapping[str, Mapping[str, int]]) -> list[str]:
    """A line for each host whose TCP has seen reordering; none if a link reorders, or a peer is beyond the experiment.

    Args:
        plan: what was to be.
        counters: of TCP, by host, as `narrows.hosts.base.Testbed.tcp_counters` has them.
    """
    links = (*plan.links, *plan.unlimited)
    if plan.gateway is not None or any(link.jitter is not None and link.jitter.reorder for link in links):
        return []
    fix = "" if plan.in_guest else "; fix: --virtual, or a lower rate"
    return [
        f"warning: TCP at {host} has seen packets reordered ({of_host[SEEN]} times), but no link of the experiment "
        f"reorders: this machine did, and what was not lost may have been retransmitted{fix}"
        for host, of_host in counters.items()
        if SEEN in of_host
    ]
