# SPDX-License-Identifier: Apache-2.0
"""Commands on the testbed's machines, by the ``ssh`` that the lab already uses."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence

from narrows.errors import RunError
from narrows.hosts.lab.inventory import Nic, Ssh
from narrows.paths import data

# What is run on machines: it sets a NIC up and puts it back; it lets a process live as long as its connection.
HOST_SCRIPT = data("deploy") / "host.sh"
REMOTE_SCRIPT = data("deploy") / "remote.sh"
CONNECT_S = 10
COMMAND_S = 60.0
# What ssh itself exits with when it cannot connect.
SSH_FAILED = 255


class SshError(RunError):
    """A machine cannot be reached."""


class CommandFailed(RunError):
    """A command on a machine ended with an error."""

    def __init__(self, machine: str, command: str, code: int, words: str) -> None:
        """``words`` is what it wrote."""
        super().__init__(f"{machine}: '{command}' failed with exit code {code}: {words}")
        self.code = code
        self.words = words


def ssh_command(ssh: Ssh, options: Sequence[str] = (), command: str | None = None) -> list[str]:
    """The ssh call. It never asks: a missing key or an unknown host key is an error."""
    words = ["ssh", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT_S}"]
    words += ["-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"]
    if ssh.port is not None:
        words += ["-p", str(ssh.port)]
    if ssh.identity is not None:
        words += ["-i", str(ssh.identity), "-o", "IdentitiesOnly=yes"]
    if ssh.known_hosts is not None:
        words += ["-o", f'UserKnownHostsFile="{ssh.known_hosts}"']
    if ssh.jump is not None:
        words += ["-J", ssh.jump]
    if ssh.user is not None:
        words += ["-l", ssh.user]
    words += [*options, ssh.host]
    return words if command is None else [*words, "--", command]


def machine_command(machine: Nic, arguments: Sequence[str]) -> list[str]:
    """What to start here so that ``arguments`` run as root on a machine."""
    if machine.ssh is None:
        return list(arguments)
    words = ["sudo", "-n", *arguments] if machine.ssh.sudo else list(arguments)
    return ssh_command(machine.ssh, command=shlex.join(words))


def run(machine: Nic, arguments: Sequence[str], *, text: str = "", timeout_s: float = COMMAND_S) -> str:
    """Run a command on a machine and return what it printed.

    Args:
        machine: where.
        arguments: program and arguments; they need no quoting.
        text: its standard input.
        timeout_s: after this it counts as failed.

    Raises:
        SshError: the machine cannot be reached, or the command takes too long.
        CommandFailed: it ends with an error.
    """
    command = machine_command(machine, arguments)
    try:
        result = subprocess.run(
            command,
            input=text,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            errors="replace",
            # A Ctrl-C on the terminal must not end what puts a machine back.
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        raise SshError(f"{machine.name}: '{shlex.join(arguments)}' did not end in {timeout_s:g} s") from None
    except OSError as error:
        raise SshError(f"{command[0]} cannot be started: {error.strerror}; fix: install it") from None
    words = result.stderr.strip() or result.stdout.strip()
    if machine.ssh is not None and result.returncode == SSH_FAILED:
        host = machine.ssh.host
        raise SshError(
            f"{machine.name}: no ssh to {host}: {words}; fix: 'ssh {host}' must work without a password, with the "
            "host's key accepted"
        )
    if result.returncode != 0:
        raise CommandFailed(machine.name, shlex.join(arguments), result.returncode, words)
    return result.stdout
