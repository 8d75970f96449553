# SPDX-License-Identifier: Apache-2.0
"""Servers for tests: network namespaces, each with a NIC and an OpenSSH server of its own, reached by real ssh."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any

from narrows.hosts.links import remove_namespace

PREFIX = "nwdev-tofino-"
SSHD = "/usr/sbin/sshd"
MANAGEMENT = "192.0.2"
CLOCKS_APART_S = 10_000


def _do(*command: str, check: bool = True) -> None:
    subprocess.run(command, check=check, capture_output=True, stdin=subprocess.DEVNULL)


class Machines:
    """Namespaces on a management network, one NIC each towards a bridge that stands in for a switch's cables.

    Not `bridged`, they have no NIC but those of `wire`.
    """

    def __init__(self, names: list[str], directory: Path, bridged: bool = True) -> None:
        self.names = names
        self.bridged = bridged
        self.directory = directory
        self.daemons: list[subprocess.Popen[bytes]] = []
        self._tag = f"{os.getpid() % 10_000}"

    def namespace(self, name: str) -> str:
        return f"{PREFIX}{self._tag}-{name}"

    def create(self) -> None:
        """Make them all."""
        _do("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.directory / "user"))
        _do("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.directory / "host"))
        (self.directory / "authorized_keys").write_text((self.directory / "user.pub").read_text())
        hub = self.namespace("hub")
        _do("ip", "netns", "add", hub)
        _do("ip", "-n", hub, "link", "set", "lo", "up")
        for bridge in ("management", "cables"):
            _do("ip", "-n", hub, "link", "add", bridge, "type", "bridge")
            _do("ip", "-n", hub, "link", "set", bridge, "up")
        _do("ip", "-n", hub, "address", "add", f"{MANAGEMENT}.254/24", "dev", "management")
        for number, name in enumerate(self.names, start=1):
            self._create_one(hub, number, name)
        self._wait()

    def _create_one(self, hub: str, number: int, name: str) -> None:
        space = self.namespace(name)
        _do("ip", "netns", "add", space)
        nics = [("mgmt0", "management"), *([("ens1f0", "cables")] if self.bridged else [])]
        for inner, bridge in nics:
            outer = f"{bridge[0]}{number}"
            _do("ip", "-n", space, "link", "add", inner, "type", "veth", "peer", "name", outer, "netns", hub)
            _do("ip", "-n", hub, "link", "set", outer, "master", bridge, "up")
            _do("ip", "-n", space, "link", "set", inner, "up")
        if self.bridged:
            _do("ip", "-n", space, "link", "set", "ens1f0", "address", self.mac(name))
        _do("ip", "-n", space, "link", "set", "lo", "up")
        _do("ip", "-n", space, "address", "add", f"{MANAGEMENT}.{number}/24", "dev", "mgmt0")
        config = self.directory / f"sshd-{name}"
        # A home of its own: what this user's shell does whenever it begins belongs to no machine of these.
        config.write_text(
            f"Port 22\nListenAddress {MANAGEMENT}.{number}\nHostKey {self.directory}/host\n"
            f"AuthorizedKeysFile {self.directory}/authorized_keys\nPasswordAuthentication no\n"
            f"PermitRootLogin prohibit-password\nStrictModes no\nUsePAM no\nPidFile none\n"
            f"SetEnv HOME={self.directory}\n"
        )
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        # Each has a clock of its own, which is far from all others.
        clock = (
            ["unshare", "-T", "--monotonic", str(CLOCKS_APART_S * number)]
            if Path("/proc/self/ns/time").exists()
            else []
        )
        command = ["ip", "netns", "exec", space, *clock, SSHD, "-D", "-e", "-f", str(config)]
        with (self.directory / f"sshd-{name}.log").open("wb") as log:
            self.daemons.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log))

    def mac(self, name: str) -> str:
        """Address of a machine's first NIC."""
        return f"02:00:00:00:00:{self.names.index(name) + 1:02x}"

    def wire(self, name: str, interface: str, other: str, other_interface: str, queues: int = 1) -> None:
        """Connect two NICs; the other one has several queues."""
        ends = (
            ["name", interface, "address", self.mac(name), "netns", self.namespace(name)],
            ["name", other_interface, "netns", self.namespace(other), "numrxqueues", str(queues)],
        )
        _do("ip", "link", "add", *ends[0], "type", "veth", "peer", *ends[1])
        self.inside(other, "ethtool", "-L", other_interface, "rx", str(queues))
        _do("ip", "-n", self.namespace(name), "link", "set", interface, "up")
        _do("ip", "-n", self.namespace(other), "link", "set", other_interface, "up")

    def add_nic(self, name: str, interface: str, mac: str) -> None:
        """One more NIC on the cables."""
        space, hub, outer = self.namespace(name), self.namespace("hub"), f"x{self.names.index(name)}"
        _do("ip", "-n", space, "link", "add", interface, "type", "veth", "peer", "name", outer, "netns", hub)
        _do("ip", "-n", hub, "link", "set", outer, "master", "cables", "up")
        _do("ip", "-n", space, "link", "set", interface, "address", mac, "up")

    def remove_nic(self, name: str, interface: str) -> None:
        """Take one away."""
        _do("ip", "-n", self.namespace(name), "link", "del", interface)

    def ssh(self, name: str) -> dict[str, Any]:
        """How the inventory reaches one of them: through the hub, which this process is not in."""
        number = self.names.index(name) + 1
        return {
            "host": f"{MANAGEMENT}.{number}",
            "user": "root",
            "identity": str(self.directory / "user"),
            "known_hosts": str(self.directory / "known_hosts"),
            "sudo": False,
        }

    def visits(self, name: str) -> int:
        """How often somebody has come to one of them by ssh."""
        return (self.directory / f"sshd-{name}.log").read_text().count("Accepted publickey")

    def _wait(self) -> None:
        key = (self.directory / "host.pub").read_text().split()
        lines = [f"{MANAGEMENT}.{number} {key[0]} {key[1]}" for number in range(1, len(self.names) + 1)]
        (self.directory / "known_hosts").write_text("\n".join(lines) + "\n")
        deadline = time.monotonic() + 10
        for number in range(1, len(self.names) + 1):
            probe = ["ip", "netns", "exec", self.namespace("hub"), "ssh-keyscan", "-T", "1", f"{MANAGEMENT}.{number}"]
            while not subprocess.run(probe, capture_output=True, stdin=subprocess.DEVNULL).stdout:
                if time.monotonic() > deadline:
                    raise RuntimeError((self.directory / f"sshd-{self.names[number - 1]}.log").read_text())
                time.sleep(0.1)

    def inside(self, name: str, *command: str) -> str:
        """Run something in a namespace, past ssh."""
        full = ["ip", "netns", "exec", self.namespace(name), *command]
        return subprocess.run(full, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout

    def remove(self) -> None:
        """Take them all down."""
        for daemon in self.daemons:
            daemon.terminate()
            daemon.wait(5)
        for name in [*self.names, "hub"]:
            # With what a connection that has lost its other end still holds.
            remove_namespace(self.namespace(name))
