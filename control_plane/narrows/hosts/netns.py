# SPDX-License-Identifier: Apache-2.0
"""Hosts as network namespaces on this machine, each with a veth pair into the switch's namespace.

Everything that could disturb a measurement is set here and read back: segmentation and checksum offloads off on both
ends (but for those that the experiment or the target asks for), at high rates one processor for what each interface
receives (or frames could be reordered), neighbours static (no ARP or ND in the bottleneck), TCP buffers
large, TCP metrics not cached.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Collection, Sequence
from functools import partial
from ipaddress import ip_interface
from pathlib import Path

from narrows_formats import storage
from narrows_formats.units import MIN_IPV6_MTU

from narrows import python
from narrows.experiment.plan import EPHEMERAL_PORTS, Host, Plan
from narrows.hosts import kernel_counters, routes, unprivileged, uplink
from narrows.hosts.base import SWITCH, SharedFiles, SwitchAttachment
from narrows.hosts.hystart import set_hystart
from narrows.hosts.links import (
    QUIET,
    End,
    call_inside,
    is_up,
    not_sent,
    require_interface,
    run,
    set_offloads,
    set_sysctls,
    show_state,
    wait_for_carrier,
)
from narrows.hosts.process import Process, spawn
from narrows.hosts.read_back import require
from narrows.hosts.state import RunState
from narrows.hosts.steering import spread
from narrows.hosts.users import in_user_namespace

HOST_INTERFACE = "eth0"
DEFAULT_CCA = "cubic"
# Below, a processor is done with a frame before the next one comes; to hand it to another one takes time.
STEERED_BPS = 1_000_000_000
LEAD_S = 0.05
# For a switch that completes checksums: without these the kernel copies every payload at both ends.
NIC_CHECKSUM_OFFLOADS = ("tx", "sg")
# For a switch that also does TCP segmentation; and at its own end of a link, to deliver segments joined by LRO.
NIC_SEGMENTATION = (*NIC_CHECKSUM_OFFLOADS, "tso")
# As `narrows.hosts.unprivileged`, for programs that every user may read; root's TMPDIR may be out of reach.
AS_NOBODY = (
    "setpriv", f"--reuid={unprivileged.NOBODY}", f"--regid={unprivileged.NOBODY}", "--clear-groups", "--no-new-privs",
    "--inh-caps=-all,+net_admin", "--ambient-caps=-all,+net_admin", "--bounding-set=-all,+net_admin",
    "env", "--unset=TMPDIR", "--unset=TEMP", "--unset=TMP",
)  # fmt: skip


class NetnsTestbed(SharedFiles):
    """The namespaces of one run. Everything made is on record in the run's state before it is made."""

    def __init__(self, plan: Plan, state: RunState, mtu: int, nic: Collection[str] = ()) -> None:
        """Take the plan; nothing is created before `create`.

        Args:
            plan: what hosts there are, and what they are asked for.
            state: where everything that is made is put on record.
            mtu: of all links, in bytes.
            nic: what hosts' NICs do without being asked: nothing, `NIC_CHECKSUM_OFFLOADS` or `NIC_SEGMENTATION`.
        """
        self._plan = plan
        self._state = state
        self._mtu = mtu
        self._nic = tuple(nic)
        self._offloads: dict[str, dict[str, str]] = {}
        self._processors: dict[str, int] = {}
        self._sysctls: dict[str, dict[str, str]] = {}
        self._ccas: dict[str, str] = {}
        self._routes: dict[str, dict[str, dict[str, str]]] = {}
        self._uplink: dict[str, object] = {}

    @property
    def state_dir(self) -> Path:
        """Directory for sockets and logs that goes away with the run."""
        return self._state.directory

    @property
    def lead_s(self) -> float:
        """See `narrows.hosts.base.Testbed.lead_s`: files are seen at once."""
        return LEAD_S

    @property
    def attachments(self) -> tuple[SwitchAttachment, ...]:
        """The switch's ports and their interfaces in the switch's namespace."""
        namespace = self._state.namespace(SWITCH)
        return tuple(SwitchAttachment(host.port, f"port{host.port}", namespace) for host in self._plan.hosts)

    def interface(self, host: str) -> str:
        """Name of a host's interface; the same in every namespace."""
        return HOST_INTERFACE

    def create(self) -> None:
        """Make the namespaces and links, and check that they are as asked.

        Raises:
            RunError: a command fails, or a setting reads back differently.
        """
        if self._plan.hystart is not None:
            set_hystart(self._plan.hystart)
        for cca, file in self._plan.bpf:
            self._state.register_bpf(cca, Path(file))
        switch = self._state.namespace(SWITCH)
        hosts = self._plan.hosts
        if self._plan.shell is not None and not self._plan.in_guest:
            self._state.guard()
        self._add_namespaces(switch, *(self._state.namespace(host.name) for host in hosts))
        # The switch's kernel must not speak on its ports.
        set_sysctls(switch, QUIET)
        if self._plan.has_controller:
            self._ip(SWITCH, ["link set lo up"])
        run(["ip", "-batch", "-"], "\n".join(self._link(host) for host in hosts))
        for host in hosts:
            self._set_sysctls(host)
            asked = self._plan.offloads if host.address else ()
            self._set_offloads(host.name, HOST_INTERFACE, (*self._nic, "gro") if "gro" in asked else self._nic)
            self._set_offloads(SWITCH, f"port{host.port}", NIC_SEGMENTATION if "lro" in asked else self._nic)
        fast = sum(link.rates_bps.most for link in self._plan.links) >= STEERED_BPS
        if fast and os.cpu_count() != 1 and not self._plan.in_guest and not in_user_namespace():
            self._spread()
        # Links come up last: with offloads and neighbours in place nothing unwanted is ever sent.
        self._ip(SWITCH, [f"link set port{host.port} up" for host in hosts])
        late = []
        for host in hosts:
            up = ["link set lo up", f"link set {HOST_INTERFACE} up", *self._neighbours(host)]
            shown = self._ip(host.name, [*self._address(host), *up, show_state(HOST_INTERFACE)], "-brief")
            self._set_default_cca(host)
            self._set_routes(host)
            late += [] if is_up(shown) else [self._ends(host)[0]]
        wait_for_carrier(*late)
        for host in hosts:
            address = f"{host.address}/{host.prefix}" if host.address else None
            end, port = self._ends(host)
            require_interface(end, self._mtu, host.mac, address)
            require_interface(port, self._mtu)
        if self._plan.gateway is not None:
            gateway = self._plan.host(self._plan.gateway)
            self._uplink = uplink.connect(self._state, gateway, self._plan.peers(gateway), HOST_INTERFACE)
            uplink.give_resolver(self.state_dir)

    def remove(self) -> None:
        """Remove the namespaces and what runs in them.

        Raises:
            RunError: something cannot be removed; it stays on record.
        """
        self._state.release()

    async def spawn(
        self,
        host: str,
        arguments: Sequence[str],
        *,
        stdout: Path | None = None,
        stderr: Path | None = None,
        nobody: bool = False,
        inherited: Sequence[int] | None = None,
    ) -> Process:
        """Start a process in a host's namespace and put it on record; ``inherited`` as for `process.spawn`."""
        command = [
            "ip",
            "netns",
            "exec",
            self._state.namespace(host),
            *(AS_NOBODY if nobody and not in_user_namespace() else ()),
            *arguments,
        ]
        name = f"{Path(arguments[0]).name} on {host}"
        launch = self._state.launch()
        process = await spawn(command, name, stdout=stdout, stderr=stderr, launch=launch, inherited=inherited)
        self._state.add_process(process.pid)
        return process

    async def python(self, host: str, script: Path) -> list[str]:
        """See `narrows.hosts.base.Testbed.python`. What the user has in the environment must not change the script."""
        # A guest has no users, and its root may write where the results are.
        if self._plan.in_guest or in_user_namespace():
            return python.script(script)
        return python.script(unprivileged.__file__, str(script))

    def open_socket(self, host: str, family: int, kind: int, protocol: int = 0) -> socket.socket:
        """See `narrows.hosts.base.Testbed.open_socket`."""
        return call_inside(self._state.namespace(host), lambda: socket.socket(family, kind, protocol))

    async def put(self, host: str, name: str, text: str, private: bool = False) -> str:
        """See `narrows.hosts.base.Testbed.put`: namespaces share this machine's files."""
        path = self.state_dir / name
        storage.write_text(path, text, storage.PRIVATE if private else 0o644)
        return str(path)

    async def clock_offset_s(self, host: str) -> float:
        """0: the clock is this machine's."""
        return 0.0

    def ended(self, process: Process) -> None:
        """Take a process that has ended off the record."""
        self._state.remove_process(process.pid)

    def take_senders_down(self) -> None:
        """Take the senders' links down: nothing arrives at the bottleneck any more."""
        for host in self._plan.sources:
            self._ip(host.name, [f"link set {HOST_INTERFACE} down"])

    def losses(self) -> list[str]:
        """See `narrows.hosts.base.Testbed.losses`: what the kernel dropped on a link, each way."""
        # veth counts at the sending end what the other has no room for: net.core.netdev_max_backlog packets may wait.
        ports = not_sent(self._state.namespace(SWITCH))
        found = []
        for host in self._plan.end_hosts:
            end, port = self._ends(host)
            from_host, to_host = not_sent(end.namespace)[end.interface], ports[port.interface]
            ways = (f"{host.name} to the switch", from_host), (f"the switch to {host.name}", to_host)
            found += [
                f"{count} packets lost from {way}: the kernel had no room for them" for way, count in ways if count
            ]
        return found

    def kernel_counters(self) -> dict[str, dict[str, int]]:
        """See `narrows.hosts.base.Testbed.kernel_counters`: a namespace has its own, from its beginning."""
        hosts = [host.name for host in self._plan.hosts if host.address]
        read = partial(kernel_counters.read, HOST_INTERFACE)
        return {host: call_inside(self._state.namespace(host), read) for host in hosts}

    def describe(self) -> dict[str, object]:
        """Offloads and kernel settings as read back, for run.json."""
        return {
            "kind": "namespaces",
            "mtu": self._mtu,
            "offloads": self._offloads,
            "sysctls": self._sysctls,
            "neighbours": "static",
            **({"receive_processors": self._processors} if self._processors else {}),
            **({"default_ccas": self._ccas} if self._ccas else {}),
            **({"routes": self._routes} if self._routes else {}),
            **({} if self._plan.hystart is None else {"hystart": self._plan.hystart}),
            **({"uplink": self._uplink} if self._uplink else {}),
        }

    def _ends(self, host: Host) -> tuple[End, End]:
        """The ends of a host's link: its own and the switch's."""
        own, switch = self._state.namespace(host.name), self._state.namespace(SWITCH)
        return End(own, HOST_INTERFACE), End(switch, f"port{host.port}")

    def _spread(self) -> None:
        """Give each interface a processor. An ordinary user may not."""
        cables = {host.port: self._ends(host) for host in self._plan.hosts}
        chosen = spread(cables)
        for host in self._plan.hosts:
            for name, end in zip((host.name, SWITCH), cables[host.port], strict=True):
                self._processors[f"{name}/{end.interface}"] = chosen[end]

    def _add_namespaces(self, *names: str) -> None:
        for name in names:
            self._state.add_namespace(name)
        run(["ip", "-batch", "-"], "\n".join(f"netns add {name}" for name in names))

    def _link(self, host: Host) -> str:
        """A command of `ip` that makes a host's link to the switch."""
        ends = (
            f"{HOST_INTERFACE} address {host.mac} netns {self._state.namespace(host.name)}",
            f"port{host.port} netns {self._state.namespace(SWITCH)}",
        )
        one, other = (f"name {end} mtu {self._mtu}" for end in ends)
        return f"link add {one} type veth peer {other}"

    def _set_sysctls(self, host: Host) -> None:
        namespace = self._state.namespace(host.name)
        ipv6 = "0" if host.ip_version == 6 and host.address else "1"
        buffer = self._plan.tcp_buffer_bytes
        settings = {
            "net.ipv6.conf.all.disable_ipv6": ipv6,
            "net.ipv6.conf.default.disable_ipv6": ipv6,
            "net.ipv4.tcp_rmem": f"4096\t{buffer if self._plan.in_guest else 131072}\t{buffer}",
            "net.ipv4.tcp_wmem": f"4096\t65536\t{buffer}",
            "net.ipv4.tcp_no_metrics_save": "1",
            "net.ipv4.tcp_ecn": routes.ecn_setting(self._plan),
            # A lost SYN would make a connection one without ECN (RFC 3168, 6.1.1.1).
            "net.ipv4.tcp_ecn_fallback": "0",
            "net.ipv4.ip_local_port_range": f"{EPHEMERAL_PORTS[0]}\t{EPHEMERAL_PORTS[1]}",
        }
        if in_user_namespace():
            # No user gets the right to raw sockets by a file there.
            settings["net.ipv4.ping_group_range"] = "0\t0"
        if self._mtu >= MIN_IPV6_MTU:
            interface = f"net.ipv6.conf.{HOST_INTERFACE}"
            settings |= {
                f"{interface}.disable_ipv6": ipv6,
                f"{interface}.accept_dad": "0",
                f"{interface}.accept_ra": "0",
                f"{interface}.router_solicitations": "0",
                f"{interface}.addr_gen_mode": "1",
            }
        if host.address:
            settings |= dict(self._plan.sysctls)
            for flow in self._plan.flows:
                settings |= dict(flow.tcp.sysctls) if flow.sender == host.name else {}
        set_sysctls(namespace, settings)
        self._sysctls[host.name] = settings

    def _set_default_cca(self, host: Host) -> None:
        """Give the TCP sockets of programs a congestion control: this machine's default is not another one's.

        Raises:
            RunError: the kernel does not have it.
        """
        asked = {f.cca or DEFAULT_CCA for f in self._plan.flows if f.payload.is_program and f.sender == host.name}
        for cca in asked:
            network = str(ip_interface(f"{host.address}/{host.prefix}").network)
            # Namespaces have no default of their own for algorithms that are not open to every user.
            self._ip(host.name, [f"route replace {network} dev {HOST_INTERFACE} src {host.address} congctl {cca}"])
            shown = self._ip(host.name, [f"route show {network}"], f"-{host.ip_version}")
            require(host.name, {"congctl": cca}, {"congctl": shown.partition("congctl ")[2].partition(" ")[0].strip()})
            self._ccas[host.name] = cca

    def _set_routes(self, host: Host) -> None:
        """Give the routes to other hosts what flows ask of them, and read it back.

        Raises:
            RunError: the kernel refuses, or has something else.
        """
        for other, asked in routes.metrics(self._plan, host).items() if host.address else ():
            if host.name in self._ccas:
                # Programs' sockets go by this route, not by that which has their default.
                asked["congctl"] = self._ccas[host.name]
            words = " ".join(f"{name} {value}" for name, value in asked.items())
            self._ip(host.name, [f"route replace {other} dev {HOST_INTERFACE} src {host.address} {words}"])
            shown = self._ip(host.name, [f"route show {other}"], f"-{host.ip_version}", "-json")
            routes.require_metrics(f"{host.name}: route to {other}", asked, shown)
            self._routes.setdefault(host.name, {})[other] = asked

    def _set_offloads(self, host: str, interface: str, on: Collection[str] = ()) -> None:
        self._offloads[f"{host}/{interface}"] = set_offloads(End(self._state.namespace(host), interface), on)

    def _address(self, host: Host) -> list[str]:
        nodad = " nodad" if host.ip_version == 6 else ""
        return [f"address add {host.address}/{host.prefix} dev {HOST_INTERFACE}{nodad}"] if host.address else []

    def _neighbours(self, host: Host) -> list[str]:
        if not host.address:
            return []
        peers = self._plan.peers(host)
        return [f"neighbour add {peer.address} lladdr {peer.mac} dev {HOST_INTERFACE} nud permanent" for peer in peers]

    def _ip(self, host: str, commands: Sequence[str], *options: str) -> str:
        return run(["ip", "-n", self._state.namespace(host), *options, "-batch", "-"], "\n".join(commands))
