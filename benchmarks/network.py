# SPDX-License-Identifier: Apache-2.0
"""Sender, receiver and collector in namespaces of their own around one for whatever forwards between them."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType

from narrows.errors import RunError
from narrows.hosts.links import End, add_cable, links, namespace, run, set_offloads, set_sysctls
from narrows.hosts.steering import spread

SENDER, RECEIVER, COLLECTOR = HOSTS = ("sender", "receiver", "collector")
MTU = 1500
BUFFERS = {"net.ipv4.tcp_rmem": "4096 131072 67108864", "net.ipv4.tcp_wmem": "4096 65536 67108864"}


def mac(port: int) -> str:
    """Address of the host at a port of the switch."""
    return f"02:00:00:00:00:{port:02x}"


def address(port: int) -> str:
    """IPv4 address of the host at a port of the switch."""
    return f"10.77.0.{port}"


class Network:
    """Port i (1, 2, 3) of the switch is the interface p<i>; the host's end is eth0. Gone when the block ends.

    Offloads are off on all ends but those of ``nic``, and neighbours are static. The collector has no address: reports
    end at its interface, where they are counted.
    """

    def __init__(self, nic: Collection[str] = (), steered: bool = False) -> None:
        """Choose names; nothing is made yet.

        Args:
            nic: what all interfaces do, by ethtool's short names.
            steered: whether each interface has one processor for what it receives, as in runs at high rates.
        """
        self.nic = nic
        self.steered = steered
        self.prefix = f"nwdev-bench-{os.getpid():x}"
        self.directory = Path()

    def __enter__(self) -> Network:
        """Make everything."""
        self._temporary = tempfile.TemporaryDirectory(prefix="narrows-bench-")
        self.directory = Path(self._temporary.name)
        with ExitStack() as stack:
            stack.callback(self._temporary.cleanup)
            self._make(stack)
            self._made = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End what was started and remove everything."""
        self._made.close()

    def namespace(self, name: str) -> str:
        """Full name of a namespace: a host's, or ``switch``."""
        return f"{self.prefix}-{name}"

    def inside(self, name: str, *command: str) -> list[str]:
        """The command line that runs a command in a namespace."""
        return ["ip", "netns", "exec", self.namespace(name), *command]

    def call(self, name: str, *command: str) -> str:
        """Run a command in a namespace; its output.

        Raises:
            RunError: it fails.
        """
        return run(self.inside(name, *command))

    def start(self, name: str, *command: str, stdout: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
        """Start a process in a namespace; it is ended with the network."""
        process = subprocess.Popen(
            self.inside(name, *command), stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.DEVNULL, text=True
        )
        self._made.callback(end, process)
        return process

    def received(self, name: str) -> int:
        """Packets that a host's interface has received."""
        return links(self.namespace(name))["eth0"].rx_packets

    @contextmanager
    def tcp_server(self, host: str = RECEIVER) -> Iterator[None]:
        """An iperf3 server that accepts while the block runs."""
        # Without reports in between: what it prints is not read, and many flows would fill the pipe.
        words = "iperf3 --server --port 5201 --interval 0 --forceflush"
        process = self.start(host, *words.split(), stdout=subprocess.PIPE)
        assert process.stdout is not None
        while "listening" not in (line := process.stdout.readline()):
            if not line:
                raise RunError("iperf3 --server does not listen")
        try:
            yield
        finally:
            end(process)

    def _make(self, stack: ExitStack) -> None:
        switch = stack.enter_context(namespace(self.namespace("switch")))
        cables = {}
        for port, host in enumerate(HOSTS, 1):
            stack.enter_context(namespace(self.namespace(host)))
            cables[port] = ends = End(self.namespace(host), "eth0"), End(switch, f"p{port}")
            add_cable(*ends, MTU, mac(port))
            for one in ends:
                set_offloads(one, self.nic)
        if self.steered:
            spread(cables)
        self._address_hosts()

    def _address_hosts(self) -> None:
        for port, host, peer in ((1, SENDER, 2), (2, RECEIVER, 1)):
            run(["ip", "-n", self.namespace(host), "address", "add", f"{address(port)}/24", "dev", "eth0"])
            words = f"neighbour add {address(peer)} lladdr {mac(peer)} dev eth0 nud permanent"
            run(["ip", "-n", self.namespace(host), *words.split()])
            set_sysctls(self.namespace(host), BUFFERS)


class DirectNetwork(Network):
    """Sender and receiver at the two ends of one cable; there is neither switch nor collector."""

    def _make(self, stack: ExitStack) -> None:
        sender, receiver = (stack.enter_context(namespace(self.namespace(host))) for host in (SENDER, RECEIVER))
        add_cable(End(sender, "eth0"), End(receiver, "eth0"), MTU, mac(1))
        run(["ip", "-n", receiver, "link", "set", "eth0", "address", mac(2)])
        self._address_hosts()


def end(process: subprocess.Popen[str]) -> None:
    """End a process that `Network.start` has started, if it runs yet."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if process.stdout is not None:
        process.stdout.close()


def ready(process: subprocess.Popen[str], name: str) -> None:
    """Wait until a process says that it is ready.

    Raises:
        RunError: it ends before.
    """
    assert process.stdout is not None
    if process.stdout.readline() != "ready\n":
        raise RunError(f"{name} does not come up")


def iperf3(server: str, seconds: int) -> list[str]:
    """The command line of one CUBIC flow; the first second is not counted."""
    words = f"iperf3 --client {server} --port 5201 --congestion cubic --omit 1 --time {seconds} --json"
    return words.split()


def tcp_figures(output: str) -> dict[str, float]:
    """Goodput at the receiver in bit/s, retransmissions and mean RTT in s, from iperf3's JSON.

    Raises:
        RunError: iperf3 reports an error.
    """
    found = json.loads(output)
    if "error" in found:
        raise RunError(f"iperf3: {found['error']}")
    end = found["end"]
    sender = end["streams"][0]["sender"]
    return {
        "goodput_bps": float(end["sum_received"]["bits_per_second"]),
        "retransmissions": float(end["sum_sent"]["retransmits"]),
        "mean_rtt_s": sender["mean_rtt"] / 1e6,
    }
