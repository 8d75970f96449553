# SPDX-License-Identifier: Apache-2.0
"""What flows' TCP cannot be set to, as others are on the same hosts, or where a run is to be made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from narrows.errors import InputError
from narrows.experiment.plan import Flow
from narrows.flows.tcp_settings import TcpFields

# The window that a SYN-ACK offers is never scaled (RFC 7323, section 2.2).
MAX_FIRST_WINDOW = 65_535
TCP_HEADER_BYTES, IP_HEADER_BYTES = 32, {4: 20, 6: 40}  # TCP's with timestamps


def check(flows: Sequence[Flow], mtu: int, ip_version: int) -> None:
    """Check that no host is asked for two things at once, and that an initial window can be used.

    Args:
        flows: all of them, group by group.
        mtu: of all hosts, in bytes.
        ip_version: that the flows use.

    Raises:
        InputError: it cannot be; the message names the group.
    """
    most = MAX_FIRST_WINDOW // (mtu - IP_HEADER_BYTES[ip_version] - TCP_HEADER_BYTES)
    groups = dict.fromkeys(flow.group for flow in flows)
    places = {group: f"flows.{position}" for position, group in enumerate(groups)}
    asked: dict[tuple[Any, ...], tuple[Any, str]] = {}
    for flow in flows:
        window = flow.tcp.initial_window
        if window is not None and window > most:
            raise InputError(
                f"{places[flow.group]}.tcp.initial_window: {window} segments; allowed: up to {most}, what the window "
                "of a SYN-ACK holds"
            )
        if not flow.has_tcp:
            continue
        for where, name, value in _asked(flow):
            before, group = asked.setdefault((where, name), (value, flow.group))
            if before != value:
                raise InputError(
                    f"{places[flow.group]}.tcp.{name}: '{group}' has another one {where[0]}; allowed: the same"
                    + ("" if name == "hystart" else ", or hosts of its own (from, to)")
                )


def _asked(flow: Flow) -> Iterator[tuple[tuple[str, ...], str, object]]:
    """Settings that flows share: where each is made, its name and its value."""
    tcp = flow.tcp
    pair = ("between the same hosts", *sorted((flow.sender, flow.receiver)))
    yield (*pair, flow.sender), "initial_window", tcp.initial_window
    yield (*pair, flow.sender), "rto_min", tcp.rto_min_ns
    yield pair, "ecn", tcp.ecn
    if flow.cca == "cubic":
        yield ("in the same kernel",), "hystart", tcp.hystart is not False
    for name, value in tcp.sysctls:
        yield ("on the same host", flow.sender), f"sysctls.{name}", value


def unsupported(groups: Sequence[TcpFields], of_hosts: bool, virtual: bool, machines: bool) -> list[str]:
    """What cannot be set where a run is to be made, one message each, with the experiment's field.

    Args:
        groups: those of a run.
        of_hosts: whether hosts are given kernel settings as well.
        virtual: whether its hosts are in a guest.
        machines: whether they are machines of their own.
    """
    found = []
    if machines and of_hosts:
        found.append("hosts.sysctls: set by Narrows in namespaces only; allowed: set them on the hosts")
    for number, group in enumerate(groups):
        if group.bpf is not None and virtual:
            found.append(
                f"flows.{number}.bpf: a guest's kernel has no BPF JIT, which congestion controls in BPF need; "
                "fix: without --virtual"
            )
        elif group.bpf is not None and machines:
            found.append(
                f"flows.{number}.bpf: registered by Narrows for namespaces only; allowed: register it on the hosts"
            )
        if group.tcp is None:
            continue
        names = [name for name in ("initial_window", "rto_min", "ecn") if getattr(group.tcp, name) is not None]
        names += ["sysctls"] if group.tcp.sysctls else []
        if machines:
            found += [
                f"flows.{number}.tcp.{name}: set by Narrows in namespaces only; allowed: set it on the hosts"
                for name in names
            ]
        if group.tcp.hystart is not None and not virtual:
            found.append(
                f"flows.{number}.tcp.hystart: a setting of this machine's kernel, not of a flow; fix: --virtual"
            )
    return found
