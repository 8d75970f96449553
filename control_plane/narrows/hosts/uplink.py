# SPDX-License-Identifier: Apache-2.0
"""How hosts reach this machine's network: from a gateway's namespace across a link to here, and masqueraded.

This machine forwards for this link only. Changes to it are recorded before, and undone with the run.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Collection, Sequence
from ipaddress import IPv4Network, ip_address
from pathlib import Path

from narrows.errors import RunError
from narrows.experiment.plan import Host
from narrows.hosts.links import End, run, set_offloads, set_sysctls, wait_for_carrier
from narrows.hosts.read_back import require
from narrows.hosts.state import RunState, all_runs, setting

# This machine's, with the run's id behind it; and the gateway's, towards this machine.
PREFIX = "narrows"
INTERFACE = "uplink"
# For links between providers (RFC 6598), so that hardly anything else of this machine has them.
NETWORKS = IPv4Network("100.127.192.0/18")
RESOLVER, UPSTREAM = Path("/etc/resolv.conf"), Path("/run/systemd/resolve/resolv.conf")
RESOLVER_FILE = "resolv.conf"
# With slashes: names of interfaces may have dots.
FORWARDING = "net/ipv4/conf/{}/forwarding"


def problems() -> list[str]:
    """What this machine lacks for it, each with how to get it."""
    if shutil.which("nft") is None:
        return ["--nat needs the command 'nft'; fix: apt-get install nftables"]
    return []


def notes() -> list[str]:
    """What may keep packets from this machine's network, or names from being resolved."""
    found = []
    shown = subprocess.run(["nft", "-j", "list", "chains"], capture_output=True, text=True)
    for entry in json.loads(shown.stdout or "{}").get("nftables", []) if shown.returncode == 0 else []:
        chain = entry.get("chain", {})
        if (chain.get("hook"), chain.get("policy")) == ("forward", "drop"):
            place = f"{chain['family']} {chain['table']} {chain['name']}"
            found.append(f"this machine's firewall ({place}) forwards only what its rules let through")
    if resolver() is None:
        found.append(f"names are not resolved: {RESOLVER} names servers of this machine only")
    return found


def resolver() -> str | None:
    """The file of name servers, without those on this machine's loopback; None if there are no others."""
    for path in (RESOLVER, UPSTREAM):
        try:
            lines = path.read_text().splitlines()
        except OSError:
            continue
        kept = [line for line in lines if not _is_here(line)]
        if any(line.split()[:1] == ["nameserver"] for line in kept):
            return "\n".join(kept) + "\n"
    return None


def _is_here(line: str) -> bool:
    words = line.split()
    if len(words) < 2 or words[0] != "nameserver":
        return False
    try:
        return ip_address(words[1].partition("%")[0]).is_loopback
    except ValueError:
        return False


def connect(state: RunState, gateway: Host, hosts: Sequence[Host], interface: str) -> dict[str, object]:
    """Connect a gateway to this machine's network, and let other hosts reach it through it.

    Args:
        state: where what is made or changed is put on record before.
        gateway: host whose namespace leads here.
        hosts: those that it is the gateway of.
        interface: what theirs is called.

    Returns:
        What was set and read back, for run.json.

    Raises:
        RunError: it cannot be made as asked.
    """
    here, there = f"{PREFIX}{state.run_id}", state.namespace(gateway.name)
    network = _free_network(int(state.run_id, 16))
    ours, theirs = network[1], network[2]
    state.add_interface(here)
    run(["ip", "link", "add", here, "type", "veth", "peer", "name", INTERFACE, "netns", there])
    set_offloads(End(there, INTERFACE))
    run(["ip", "address", "add", f"{ours}/30", "dev", here])
    run(["ip", "link", "set", here, "up"])
    commands = (
        f"address add {theirs}/30 dev {INTERFACE}", f"link set {INTERFACE} up", f"route add default via {ours}"
    )  # fmt: skip
    run(["ip", "-n", there, "-batch", "-"], "\n".join(commands))
    wait_for_carrier(End(there, INTERFACE))
    set_sysctls(there, {"net.ipv4.ip_forward": "1"})
    _translate(there, f"add table ip narrows\n{_masquerade('narrows', f'oifname {INTERFACE}')}")
    for host in hosts:
        namespace = state.namespace(host.name)
        route = f"default via {gateway.address} dev {interface}"
        # Like the route to the hosts of a run: this machine's default is not another one's.
        run(["ip", "-n", namespace, "route", "add", *route.split(), "congctl", "cubic"])
        shown = run(["ip", "-n", namespace, "route", "show", "default"])
        require(namespace, {"default route": route}, {"default route": shown.partition(" congctl")[0].strip()})
    forwarding = _forward(state, here, network)
    return {"interface": here, "network": str(network), "forwarding": forwarding}


def _forward(state: RunState, here: str, network: IPv4Network) -> list[str]:
    """Have this machine forward between the link and its other ones, and nothing else that it did not before."""
    table = f"narrows_{state.run_id}"
    state.add_table(table)
    # A value that another run has set is not the original one.
    changed = {name for run in all_runs(state.root) for name in run.settings}
    others = [name for name in _interfaces() if not name.startswith(PREFIX)]
    turned = [name for name in others if (path := FORWARDING.format(name)) in changed or setting(path) == "0"]
    rules = [
        f"oifname {here} ct state established,related accept",
        f"oifname {here} drop",
        *(f'iifname "{name}" oifname != "{PREFIX}*" drop' for name in turned),
    ]
    _translate(
        None,
        "\n".join(
            [
                f"add table ip {table}",
                _masquerade(table, f"ip saddr {network} oifname != {here}"),
                f"add chain ip {table} forward {{ type filter hook forward priority filter; }}",
                *(f"add rule ip {table} forward {rule}" for rule in rules),
            ]
        ),
    )
    for name in [here, *turned]:
        state.change_setting(FORWARDING.format(name), "1")
    return turned


def _masquerade(table: str, which: str) -> str:
    return (
        f"add chain ip {table} postrouting {{ type nat hook postrouting priority srcnat; }}\n"
        f"add rule ip {table} postrouting {which} masquerade"
    )


def _translate(namespace: str | None, rules: str) -> None:
    run([*(() if namespace is None else ("ip", "netns", "exec", namespace)), "nft", "-f", "-"], rules)


def _interfaces() -> list[str]:
    """Links of this machine by which others can be reached."""
    routes = json.loads(run(["ip", "-4", "-j", "route", "show", "table", "main"]))
    return sorted({hop["dev"] for route in routes for hop in route.get("nexthops", [route]) if "dev" in hop} - {"lo"})


def _free_network(first: int) -> IPv4Network:
    """One of `NETWORKS` with four addresses that this machine has no route into; ``first`` says where to begin.

    Raises:
        RunError: there is none.
    """
    routes = json.loads(run(["ip", "-4", "-j", "route", "show", "table", "all"]))
    taken = [IPv4Network(text, strict=False) for route in routes if (text := route["dst"]) != "default"]
    return _choose(taken, first)


def _choose(taken: Collection[IPv4Network], first: int) -> IPv4Network:
    candidates = list(NETWORKS.subnets(new_prefix=30))
    for number in range(len(candidates)):
        network = candidates[(first + number) % len(candidates)]
        if not any(network.overlaps(other) for other in taken):
            return network
    raise RunError(f"--nat: this machine has routes into all of {NETWORKS}; allowed: one part of it free")


def give_resolver(directory: Path) -> None:
    """Write down the name servers for programs of hosts, if there are any."""
    if (text := resolver()) is not None:
        path = directory / RESOLVER_FILE
        path.write_text(text)
        os.chmod(path, 0o644)  # noqa: PTH101
