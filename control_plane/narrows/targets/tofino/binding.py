# SPDX-License-Identifier: Apache-2.0
"""From a plan with numbered ports and made-up hosts to the same plan on the ports and machines of a testbed."""

from __future__ import annotations

from dataclasses import replace

from narrows.errors import InputError
from narrows.experiment.plan import Host, Path, Plan, SwitchPort
from narrows.targets.tofino.sampling import with_sample_that_fits
from narrows.targets.tofino.testbed.inventory import DELAY_LINE, Inventory, Machine

# Reports come from the switch itself; the address is of the range for benchmarking and never routed.
SWITCH_MAC = "02:4e:57:00:00:00"


def bind(plan: Plan, inventory: Inventory) -> Plan:
    """The plan with the inventory's ports, MAC and IP addresses, and a sampling that its collector holds (``auto``).

    Raises:
        InputError: more senders than the testbed has, or a machine without an address of the plan's IP version.
    """
    if len(plan.senders) > len(inventory.senders):
        raise InputError(
            f"flows: {len(plan.senders)} groups need as many senders, the inventory has {len(inventory.senders)}; "
            f"allowed: up to {len(inventory.senders)} groups"
        )
    hosts = {
        host.name: _host(host, machine, inventory)
        for host, machine in (
            *zip(plan.senders, inventory.senders, strict=False),
            (plan.receiver, inventory.receiver),
        )
    }
    collector = inventory.collector
    collector_host = replace(
        plan.collector_host, port=inventory.port_of(collector).dev_port, mac=collector.mac, address=""
    )
    old_ports = {host.port: hosts[host.name].port for host in (*plan.senders, plan.receiver)}
    old_ports[plan.collector_host.port] = collector_host.port
    old_macs = {host.mac: hosts[host.name].mac for host in (*plan.senders, plan.receiver)}
    addresses = {host.address: hosts[host.name].address for host in (*plan.senders, plan.receiver)}
    line = None if inventory.delay_line is None else inventory.port_of(inventory.delay_line).dev_port
    report_address = plan.collector.dst_address if collector.address is None else str(collector.address.ip)
    bound = replace(
        plan,
        senders=tuple(hosts[host.name] for host in plan.senders),
        receiver=hosts[plan.receiver.name],
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
                plan.bottleneck.index,
                replace(
                    path,
                    ingress_port=old_ports[path.ingress_port],
                    dst_mac=old_macs[path.dst_mac],
                    egress_port=old_ports[path.egress_port],
                ),
            )
        ),
        bottleneck=replace(plan.bottleneck, port=old_ports[plan.bottleneck.port]),
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
    return with_sample_that_fits(bound, inventory)


def _by_way_of(line: int | None, bottleneck: int, path: Path) -> tuple[Path, ...]:
    """The way back from the receiver leads through the delay line, if there is one: out to it, and in from it.

    Where it is reported, it is so once, on its way out.
    """
    if line is None or path.bottleneck == bottleneck:
        return (path,)
    return (replace(path, egress_port=line), replace(path, ingress_port=line, bottleneck=None))


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
