# SPDX-License-Identifier: Apache-2.0
"""From a plan to the same plan on a Tofino's ports and the machines of its testbed."""

from __future__ import annotations

from dataclasses import replace

from narrows.errors import InputError
from narrows.experiment.plan import ForwardingRule, Plan, SwitchPort
from narrows.experiment.port_choice import avoid_index_collisions
from narrows.hosts.lab.binding import Ports, place
from narrows.hosts.lab.inventory import DELAY_LINE

from narrows_tofino import queue_management
from narrows_tofino.rate_steps import refuse_unless_kept
from narrows_tofino.sampling import with_sample_that_fits
from narrows_tofino.testbed.inventory import Inventory
from narrows_tofino.writes.entries import flow_table
from narrows_tofino.writes.losses import refuse_losses_it_lacks, refuse_separate_states

# Reports come from the switch itself; the address is of the range for benchmarking and never routed.
SWITCH_MAC = "02:4e:57:00:00:00"


def bind(plan: Plan, inventory: Inventory) -> Plan:
    """The plan with the inventory's ports, MAC and IP addresses, and source ports and a sampling that suit them.

    Source ports are those of `narrows.experiment.port_choice`, a sampling that is ``auto`` is what the collector holds.

    Raises:
        InputError: more hosts or loopback ports than the testbed has, a link with a delay of its own, with two queues
            and a port that it shares, or with loss in bursts and senders in several pipes, or a machine without an
            address of the plan's IP version or at the port of another one's link.
    """
    _refuse_what_it_lacks(plan, inventory)
    loopbacks = [port.dev_port for port in inventory.loopback_ports]
    ports = Ports(
        number_of=lambda machine: inventory.port_of(machine).dev_port,
        name_of=lambda number: inventory.port(number).name,
        loopbacks=loopbacks,
        vlan_of=lambda machine: inventory.vlans.get(machine.name),
    )
    bound = place(plan, inventory, ports)
    bound = replace(bound, collector=replace(bound.collector, src_mac=SWITCH_MAC))
    if inventory.delay_line is not None:
        line = inventory.port_of(inventory.delay_line).dev_port
        bound = replace(
            bound,
            ports=(*bound.ports, SwitchPort(line, DELAY_LINE, 0)),
            paths=tuple(hop for path in bound.paths for hop in _by_way_of(line, path, bound.links[0].index)),
        )
    queue_management.refuse_shared_ports(bound, inventory)
    refuse_separate_states(bound)
    return with_sample_that_fits(avoid_index_collisions(bound, flow_table(bound)), inventory)


def _refuse_what_it_lacks(plan: Plan, inventory: Inventory) -> None:
    """Raises InputError if the plan has links or loopback ports that the testbed cannot have."""
    refuse_unless_kept(plan, inventory.calibration)
    queue_management.refuse_what_it_lacks(plan, inventory)
    refuse_losses_it_lacks(plan)
    for link in plan.links:
        if link.burst_bytes:
            raise InputError(
                f"{link.field}.burst: a Tofino's shapers have bursts of their own, which are no setting here; allowed: "
                "none, or --target soft"
            )
        if link.policer is not None:
            raise InputError(
                f"{link.field}.policer: Tofino's program has none (a meter whose drops its reports would have to count "
                "by cause); allowed: none, or --target soft"
            )
        if link.framing is not None:
            raise InputError(
                f"{link.field}.framing: a Tofino's shapers count Ethernet frames, with or without preamble and gap "
                "(rate_layer); allowed: none, or --target soft"
            )
        if link.ack_filter is not None:
            raise InputError(
                f"{link.field}.ack_filter: a Tofino's traffic manager lets nothing leave the middle of a queue; "
                "allowed: none, or --target soft"
            )
        if link.aggregates:
            raise InputError(
                f"{link.field}.aggregation: Tofino's program cannot hold packets behind a queue, nor its shaper wait "
                "for several; allowed: none, or --target soft"
            )
        if link.varies_behind:
            raise InputError(
                f"{link.field}: delay that varies, jitter and duplication are not made on Tofino: its program holds "
                "acknowledgements only (delay.at: switch), as a bandwidth-delay product of data would go round a port "
                "many times, and makes no copies (multicast or a mirror); allowed: none of them, or --target soft"
            )
        if link.delay_ns:
            raise InputError(
                f"{link.field}.delay: Tofino's program holds acknowledgements only (delay.at: switch), as a "
                "bandwidth-delay product of data would go round a port many times; allowed: 0 there, with the RTT in "
                "rtt, or --target soft"
            )
    ports = inventory.loopback_ports
    if len(plan.loopbacks) > len(ports):
        names = ", ".join(link.name for link in plan.reported if link.loopback)
        raise InputError(
            f"links: {names} need {len(plan.loopbacks)} loopback ports, the inventory names {len(ports)} (loopback); "
            f"allowed: {f'up to {len(ports)} such links' if ports else 'links that each lead to a host of their own'}, "
            "or --target soft"
        )
    if inventory.delay_line is not None and (len(plan.links) > 1 or plan.loopbacks):
        raise InputError(
            "links: the testbed's delay line (delay.at: line) holds what comes back from one link to one receiver; "
            "allowed: that, or delay.at: receiver or none in the inventory"
        )


def _by_way_of(line: int, path: ForwardingRule, bottleneck: int) -> tuple[ForwardingRule, ...]:
    """The reverse path leads through the delay line: out to it, and in from it.

    Where it is reported, it is so once, on its way out.
    """
    if path.link == bottleneck:
        return (path,)
    return (replace(path, egress_port=line), replace(path, ingress_port=line, link=None))
