# SPDX-License-Identifier: Apache-2.0
"""Sender, receiver and collector in namespaces of their own around one for whatever forwards between them."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from narrows.errors import RunError
from narrows.hosts.links import links, run, set_offloads

SENDER, RECEIVER, COLLECTOR = HOSTS = ("sender", "receiver", "collector")
MTU = 1500
CARRIER_S = 5.0
BUFFERS = {"net.ipv4.tcp_rmem": "4096 131072 67108864", "net.ipv4.tcp_wmem": "4096 65536 67108864"}


def mac(port: int) -> str:
    """Address of the host at a port of the switch."""
    return f"02:00:00:00:00:{port:02x}"


def address(port: int) -> str:
    """IPv4 address of the host at a port of the switch."""
    return f"10.77.0.{port}"


class Network:
    """Port i (1, 2, 3) of the switch is the interface p<i>; the host's end is eth0. Gone when the block ends.

    Offloads are off on all ends and neighbours are static. The collector has no address: reports end at its interface,
    where they are counted.
    """

    def __init__(self) -> None:
        """Choose names; nothing is made yet."""
        self.prefix = f"nwdev-bench-{os.getpid():x}"
        self.directory = Path()
        self._processes: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Network:
        """Make everything."""
        self._temporary = tempfile.TemporaryDirectory(prefix="narrows-bench-")
        self.directory = Path(self._temporary.name)
        try:
            self._make()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End what was started and remove everything."""
        self._remove()

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
        self._processes.append(process)
        return process

    def received(self, name: str) -> int:
        """Packets that a host's interface has received."""
        return links(self.namespace(name))["eth0"].rx_packets

    @contextmanager
    def tcp_server(self, host: str = RECEIVER) -> Iterator[None]:
        """An iperf3 server that accepts while the block runs."""
        # Without reports in between: nobody reads what it prints, and many flows would fill the pipe.
        words = "iperf3 --server --port 5201 --interval 0 --forceflush"
        process = self.start(host, *words.split(), stdout=subprocess.PIPE)
        assert process.stdout is not None
        while "listening" not in (line := process.stdout.readline()):
            if not line:
                raise RunError("iperf3 --server does not listen")
        try:
            yield
        finally:
            _end(process)

    def _make(self) -> None:
        for name in ("switch", *HOSTS):
            run(["ip", "netns", "add", self.namespace(name)])
            run(["ip", "-n", self.namespace(name), "link", "set", "lo", "up"])
            self.call(name, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1")
        for port, host in enumerate(HOSTS, 1):
            pair = f"link add eth0 address {mac(port)} mtu {MTU} type veth peer name p{port} mtu {MTU} netns"
            run(["ip", "-n", self.namespace(host), *pair.split(), self.namespace("switch")])
            set_offloads(self.namespace(host), "eth0")
            set_offloads(self.namespace("switch"), f"p{port}")
            run(["ip", "-n", self.namespace("switch"), "link", "set", f"p{port}", "up"])
            run(["ip", "-n", self.namespace(host), "link", "set", "eth0", "up"])
        for port, host, peer in ((1, SENDER, 2), (2, RECEIVER, 1)):
            run(["ip", "-n", self.namespace(host), "address", "add", f"{address(port)}/24", "dev", "eth0"])
            words = f"neighbour add {address(peer)} lladdr {mac(peer)} dev eth0 nud permanent"
            run(["ip", "-n", self.namespace(host), *words.split()])
            self.call(host, "sysctl", "-qw", *(f"{name}={value}" for name, value in BUFFERS.items()))
        self._wait_for_carrier()

    def _wait_for_carrier(self) -> None:
        """The kernel notices a carrier up to a second later, and drops what is sent before."""
        deadline = time.monotonic() + CARRIER_S
        while not all(links(self.namespace(host))["eth0"].up for host in HOSTS):
            if time.monotonic() > deadline:
                raise RunError("the links do not come up")
            time.sleep(0.01)

    def _remove(self) -> None:
        for process in reversed(self._processes):
            _end(process)
        for name in ("switch", *HOSTS):
            subprocess.run(["ip", "netns", "del", self.namespace(name)], capture_output=True)
        self._temporary.cleanup()


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if process.stdout is not None:
        process.stdout.close()


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
