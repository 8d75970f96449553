# SPDX-License-Identifier: Apache-2.0
"""From a plan with numbered ports and made-up hosts to the same plan on the ports and machines of a testbed."""

from __future__ import annotations

from dataclasses import replace

from narrows.errors import InputError
from narrows.experiment.plan import Host, Path, Plan, SwitchPort
from narrows.hosts.lab.inventory import DELAY_LINE, Machine
from narrows.hosts.lab.machines import machines_of, only_receivers
from narrows.targets.tofino.rate_steps import refuse_unless_kept
from narrows.targets.tofino.sampling import with_sample_that_fits
from narrows.targets.tofino.testbed.inventory import Inventory

# Reports come from the switch itself; the address is of the range for benchmarking and never routed.
SWITCH_MAC = "02:4e:57:00:00:00"


def bind(plan: Plan, inventory: Inventory) -> Plan:
    """The plan with the inventory's ports, MAC and IP addresses, and a sampling that its collector holds (``auto``).

    Raises:
        InputError: more hosts or loopback ports than the testbed has, a link with a delay of its own, or a machine
            without an address of the plan's IP version or at the port of another one's link.
    """
    _refuse_what_it_lacks(plan, inventory)
    machines = machines_of(plan, inventory)
    hosts = {host.name: _host(host, machines[host.name], inventory) for host in plan.end_hosts}
    collector = inventory.collector
    collector_host = replace(
        plan.collector_host, port=inventory.port_of(collector).dev_port, mac=collector.mac, address=""
    )
    old_ports = {host.port: hosts[host.name].port for host in plan.end_hosts}
    old_ports[plan.collector_host.port] = collector_host.port
    loopbacks = (port.dev_port for port in inventory.loopback_ports)
    old_ports |= dict(zip(plan.loopbacks, loopbacks, strict=False))
    old_macs = {host.mac: hosts[host.name].mac for host in plan.end_hosts}
    addresses = {host.address: hosts[host.name].address for host in plan.end_hosts}
    line = None if inventory.delay_line is None else inventory.port_of(inventory.delay_line).dev_port
    report_address = plan.collector.dst_address if collector.address is None else str(collector.address.ip)
    bound = replace(
        plan,
        end_hosts=tuple(hosts[host.name] for host in plan.end_hosts),
        collector_host=collector_host,
        ports=(
            *(SwitchPort(old_ports[port.number], port.host, port.delay_ns) for port in plan.ports),
            *(() if line is None else (SwitchPort(line, DELAY_LINE, 0),)),
        ),
        paths=tuple(
            hop
            for path in plan.paths
            for hop in _by_way_of(
                line,
                replace(
                    path,
                    ingress_port=old_ports[path.ingress_port],
                    dst_mac=old_macs[path.dst_mac],
                    egress_port=old_ports[path.egress_port],
                ),
                plan.links[0].index,
            )
        ),
        links=tuple(replace(link, port=old_ports[link.port]) for link in plan.links),
        unlimited=tuple(
            link if link.port is None else replace(link, port=old_ports[link.port]) for link in plan.unlimited
        ),
        collector=replace(
            plan.collector,
            port=collector_host.port,
            src_mac=SWITCH_MAC,
            dst_mac=collector.mac,
            dst_address=report_address,
            rings=collector.rings,
        ),
        flows=tuple(replace(flow, src=addresses[flow.src], dst=addresses[flow.dst]) for flow in plan.flows),
    )
    _refuse_shared_ports(bound, inventory)
    return with_sample_that_fits(bound, inventory)


def _refuse_what_it_lacks(plan: Plan, inventory: Inventory) -> None:
    """Raises InputError if the plan has links, hosts or loopback ports that the testbed cannot have."""
    refuse_unless_kept(plan, inventory.calibration)
    for link in plan.links:
        if link.loss_model is not None:
            raise InputError(
                f"{link.field}.loss: Tofino's program loses packets independently of each other only; allowed: a "
                "ratio, or --target soft"
            )
        if link.varies_behind:
            raise InputError(
                f"{link.field}: delay that varies, jitter and duplication are not made on Tofino, which has nothing "
                "that holds packets behind a queue; allowed: none of them, or --target soft"
            )
        if link.delay_ns:
            raise InputError(
                f"{link.field}.delay: Tofino has nothing that holds packets behind a queue; allowed: 0 there, with the "
                "RTT in rtt, or --target soft"
            )
    if len(plan.senders) > len(inventory.senders):
        raise InputError(
            f"flows: {len(plan.senders)} groups need as many senders, the inventory has {len(inventory.senders)}; "
            f"allowed: up to {len(inventory.senders)} groups"
        )
    receivers, machines = only_receivers(plan), inventory.all_receivers
    if len(receivers) > len(machines):
        raise InputError(
            f"flows: {', '.join(host.name for host in receivers)} are {len(receivers)} receivers, the inventory has "
            f"{len(machines)}; allowed: up to {len(machines)}"
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


def _refuse_shared_ports(plan: Plan, inventory: Inventory) -> None:
    """Raises InputError if machines that share a port of the switch cannot be told apart there.

    The queue of a link is that of one host's port alone, and packets for one host go one way from a port.
    """
    for link in plan.links:
        sharing = [host.name for host in plan.end_hosts if host.port == link.port]
        if len(sharing) > 1:
            raise InputError(
                f"{link.field}: is the queue of port {inventory.port(link.port).name}, which {' and '.join(sharing)} "
                "share; allowed: a port of its own for each host behind a link"
            )
    ways: dict[tuple[int, str], Path] = {}
    for path in plan.paths:
        if ways.setdefault((path.ingress_port, path.dst_mac), path) != path:
            raise InputError(
                f"flows: packets for {path.dst_mac} would go two ways from port "
                f"{inventory.port(path.ingress_port).name}, which hosts share; allowed: hosts with ports of their own"
            )


def _by_way_of(line: int | None, path: Path, bottleneck: int) -> tuple[Path, ...]:
    """The reverse path leads through the delay line, if there is one: out to it, and in from it.

    Where it is reported, it is so once, on its way out.
    """
    if line is None or path.link == bottleneck:
        return (path,)
    return (replace(path, egress_port=line), replace(path, ingress_port=line, link=None))


def _host(host: Host, machine: Machine, inventory: Inventory) -> Host:
    address = machine.address if host.ip_version == 4 else machine.address6
    if address is None:
        field = "address" if host.ip_version == 4 else "address6"
        raise InputError(f"inventory: {machine.name} has no {field}, and the experiment is IPv{host.ip_version}")
    return replace(
        host,
        port=inventory.port_of(machine).dev_port,
        mac=machine.mac,
        address=str(address.ip),
        prefix=address.network.prefixlen,
    )
