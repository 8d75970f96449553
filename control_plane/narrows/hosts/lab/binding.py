# SPDX-License-Identifier: Apache-2.0
"""From a plan with numbered ports and made-up hosts to the same plan on a switch's ports and a lab's machines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from narrows.errors import InputError
from narrows.experiment.plan import ForwardingRule, Host, Plan, SwitchPort
from narrows.hosts.lab.inventory import Lab, Machine
from narrows.hosts.lab.machines import end_machines


@dataclass(frozen=True)
class Ports:
    """A switch's ports: the number of the one that a machine is cabled to, and what people call a number.

    ``loopbacks`` are numbers of those that can be loopback ports. ``vlan_of`` is how machines that share one are
    distinguished.
    """

    number_of: Callable[[Machine], int]
    name_of: Callable[[int], str]
    loopbacks: Sequence[int]
    vlan_of: Callable[[Machine], int | None] = lambda _: None


def place(plan: Plan, lab: Lab, ports: Ports) -> Plan:
    """The plan with a lab's ports, MAC and IP addresses, and reports to its collector.

    Raises:
        InputError: the plan has more hosts than the lab has machines, or a machine has no address of the plan's IP
            version, or is at the port of another one's link.
    """
    machines = end_machines(plan, lab)
    hosts = {host.name: _host(host, machines[host.name], ports) for host in plan.end_hosts}
    collector = lab.collecting
    collector_host = replace(plan.collector_host, port=ports.number_of(collector), mac=collector.mac, address="")
    old_ports = {host.port: hosts[host.name].port for host in plan.end_hosts}
    old_ports[plan.collector_host.port] = collector_host.port
    old_ports |= dict(zip(plan.loopbacks, ports.loopbacks, strict=False))
    vlans = {host.port: ports.vlan_of(machines[host.name]) for host in plan.end_hosts}
    old_macs = {host.mac: hosts[host.name].mac for host in plan.end_hosts}
    addresses = {host.address: hosts[host.name].address for host in plan.end_hosts}
    report_address = plan.collector.dst_address if collector.address is None else str(collector.address.ip)
    bound = replace(
        plan,
        end_hosts=tuple(hosts[host.name] for host in plan.end_hosts),
        collector_host=collector_host,
        ports=tuple(SwitchPort(old_ports[port.number], port.host, port.delay_ns) for port in plan.ports),
        paths=tuple(
            replace(
                path,
                ingress_port=old_ports[path.ingress_port],
                dst_mac=old_macs[path.dst_mac],
                egress_port=old_ports[path.egress_port],
                vlan=vlans.get(path.ingress_port),
            )
            for path in plan.paths
        ),
        links=tuple(replace(link, port=old_ports[link.port]) for link in plan.links),
        unlimited=tuple(
            link if link.port is None else replace(link, port=old_ports[link.port]) for link in plan.unlimited
        ),
        collector=replace(
            plan.collector,
            port=collector_host.port,
            dst_mac=collector.mac,
            dst_address=report_address,
            rings=collector.rings,
        ),
        flows=tuple(replace(flow, src=addresses[flow.src], dst=addresses[flow.dst]) for flow in plan.flows),
    )
    _refuse_shared_ports(bound, ports)
    return bound


def _refuse_shared_ports(plan: Plan, ports: Ports) -> None:
    """Raises InputError if machines that share a port of the switch cannot be distinguished there.

    The queue of a link is that of one host's port alone, and packets for one host go one way from a port.
    """
    for link in plan.links:
        sharing = [host.name for host in plan.end_hosts if host.port == link.port]
        if len(sharing) > 1:
            raise InputError(
                f"{link.field}: is the queue of port {ports.name_of(link.port)}, which {' and '.join(sharing)} "
                "share; allowed: a port of its own for each host behind a link"
            )
    ways: dict[tuple[int, int | None, str], ForwardingRule] = {}
    for path in plan.paths:
        if ways.setdefault((path.ingress_port, path.vlan, path.dst_mac), path) != path:
            raise InputError(
                f"flows: packets for {path.dst_mac} would take two routes from port "
                f"{ports.name_of(path.ingress_port)}, which hosts share; allowed: hosts with ports of their own"
            )


def _host(host: Host, machine: Machine, ports: Ports) -> Host:
    address = machine.address if host.ip_version == 4 else machine.address6
    if address is None:
        field = "address" if host.ip_version == 4 else "address6"
        raise InputError(f"inventory: {machine.name} has no {field}, and the experiment is IPv{host.ip_version}")
    return replace(
        host,
        port=ports.number_of(machine),
        mac=machine.mac,
        address=str(address.ip),
        prefix=address.network.prefixlen,
    )
