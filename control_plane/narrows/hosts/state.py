# SPDX-License-Identifier: Apache-2.0
"""What a run has created, on disk while it lives: how `narrows clean` finds what a killed run left.

One file a run in /run/narrows. A run lasts as long as the process that owns it, which holds a lock: a pid means nothing
in another PID namespace, or on another machine that has the same home directory.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from narrows_formats import storage

from narrows import python
from narrows.errors import RunError
from narrows.hosts import bpf
from narrows.hosts.machine import kernel_ccas
from narrows.hosts.process import Launch, ProcessNamespace, only_waits_for_children, start_time
from narrows.hosts.read_back import require
from narrows.hosts.run_lock import RunLock

STATE_ROOT = Path("/run/narrows")
NAMESPACE_PREFIX = "narrows-"
KILL_WAIT_S = 5.0
# For what ran to be cleared away by its parent, where that does so at all.
CLEAR_WAIT_S = 1.0
# Other users do not see what is there; processes of a run that are not root's find in it what they know by name.
SEARCHED = 0o711
LINKS, SETTINGS = Path("/sys/class/net"), Path("/proc/sys")
# Of a record's fields.
NOT_STORED = ("root", "inside", "guardian", "lock")


@dataclass
class RunState:
    """The record of one run: who owns it and what has to go when it ends.

    ``interfaces`` and nftables ``tables`` (family ip) are this machine's own, outside of namespaces, and so are the
    kernel's ``settings``, with the values that they are to have again, and congestion controls in BPF, ``bpf``.
    """

    run_id: str
    owner_pid: int
    owner_start: int
    namespaces: list[str] = field(default_factory=list)
    processes: dict[str, int] = field(default_factory=dict)
    directories: list[str] = field(default_factory=list)
    interfaces: list[str] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    bpf: list[str] = field(default_factory=list)
    root: Path = STATE_ROOT
    inside: ProcessNamespace | None = field(default=None, compare=False, repr=False)
    guardian: subprocess.Popen[bytes] | None = field(default=None, compare=False, repr=False)
    lock: RunLock | None = field(default=None, compare=False, repr=False)

    @classmethod
    def create(cls, root: Path = STATE_ROOT) -> RunState:
        """Begin a record owned by this process.

        Raises:
            RunError: the state directory cannot be written.
        """
        own = start_time(os.getpid())
        assert own is not None
        state = cls(secrets.token_hex(3), os.getpid(), own, root=root)
        try:
            root.mkdir(parents=True, exist_ok=True)
            state.lock = RunLock(root)
            state.lock.take([state._locked])
            if root.stat().st_uid == os.geteuid():
                root.chmod(SEARCHED)
            state.save()
            state.directory.mkdir(mode=SEARCHED)
        except OSError as error:
            raise RunError(f"{root}: cannot be written: {error.strerror}") from error
        except KeyboardInterrupt:
            state.destroy()
            raise
        return state

    @classmethod
    def load(cls, path: Path) -> RunState:
        """Read a record.

        Raises:
            ValueError: the file is not a record.
        """
        data: dict[str, Any] = json.loads(path.read_text())
        try:
            return cls(**data, root=path.parent)
        except TypeError as error:
            raise ValueError(str(error)) from error

    @property
    def file(self) -> Path:
        """The record's file."""
        return self.root / f"{self.run_id}.json"

    @property
    def directory(self) -> Path:
        """Sockets and logs of the run; goes away with it."""
        return self.root / self.run_id

    @property
    def _locked(self) -> str:
        """What the owner's lock is on."""
        return f"run {self.run_id}"

    @property
    def alive(self) -> bool:
        """Whether the process that owns the run still exists, here or elsewhere; yes where that cannot be told."""
        if start_time(self.owner_pid) == self.owner_start:
            return True
        probe = RunLock(self.root)
        try:
            probe.take([self._locked])
        except RunError:
            return True
        probe.give_back()
        return False

    def namespace(self, host: str) -> str:
        """Name of a host's network namespace."""
        return f"{NAMESPACE_PREFIX}{self.run_id}-{host}"

    def add_namespace(self, name: str) -> None:
        """Record a namespace, before it is made."""
        self.namespaces.append(name)
        self.save()

    def launch(self) -> Launch:
        """A launcher for processes of the run, all of whose descendants can be ended, wherever they hide.

        Raises:
            RunError: the kernel refuses.
        """
        if self.inside is None:
            self.inside = ProcessNamespace()
            self.add_process(self.inside.pid)
        return self.inside.launch

    def add_process(self, pid: int) -> None:
        """Record a process, just after it was started."""
        started = start_time(pid)
        if started is not None:
            self.processes[str(pid)] = started
            self.save()

    def add_interface(self, name: str) -> None:
        """Record a link of this machine, before it is made."""
        self.interfaces.append(name)
        self.save()

    def add_table(self, name: str) -> None:
        """Record a table of this machine's packet filter, before it is made."""
        self.tables.append(name)
        self.save()

    def change_setting(self, name: str, value: str) -> None:
        """Set one of this machine's kernel settings (``net/ipv4/...``) for as long as a run needs it, and read it back.

        Raises:
            RunError: it cannot be set.
        """
        with self._settings_locked():
            # Of several runs that need it the last one puts it back.
            others = [run.settings[name] for run in all_runs(self.root) if name in run.settings]
            self.settings[name] = others[0] if others else setting(name)
            self.save()
            try:
                (SETTINGS / name).write_text(value)
            except OSError as error:
                raise RunError(f"{name} cannot be set to {value}: {error.strerror}") from error
            require("this machine", {name: value}, {name: setting(name)})

    def register_bpf(self, cca: str, file: Path) -> None:
        """Register a congestion control in BPF for as long as the run.

        Raises:
            RunError: another run has one of this name, or the kernel does not take it.
        """
        with self._settings_locked():
            if cca in kernel_ccas():
                raise RunError(f"{file}: the kernel has a congestion control '{cca}' already; allowed: another name")
            self.bpf.append(cca)
            self.save()
            try:
                bpf.register(cca, file)
            except RunError:
                self.bpf.remove(cca)
                self._save_less()
                raise

    def _unregister_bpf(self) -> list[str]:
        if not self.bpf:
            return []
        with self._settings_locked():
            found = [cca for cca in self.bpf if bpf.unregister(cca)]
            self.bpf = []
            self._save_less()
        return [f"congestion control {cca} of BPF" for cca in found]

    def _put_settings_back(self) -> list[str]:
        if not self.settings:
            return []
        with self._settings_locked():
            own, self.settings = self.settings, {}
            self.save()
            needed = {name for run in all_runs(self.root) for name in run.settings}
            # A link that is gone has none any more.
            found = {name: value for name, value in own.items() if name not in needed and (SETTINGS / name).exists()}
            for name, value in found.items():
                (SETTINGS / name).write_text(value)
        return [f"setting {name}, which is {value} again" for name, value in found.items()]

    @contextmanager
    def _settings_locked(self) -> Iterator[None]:
        directory = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(directory, fcntl.LOCK_EX)
            yield
        finally:
            os.close(directory)

    def guard(self) -> None:
        """Let another process take the run down if its owner is killed, since it changes things that others depend on.

        Raises:
            RunError: the guard cannot be started.
        """
        quiet = subprocess.DEVNULL
        command = python.module("narrows.hosts.guardian", str(self.file))
        try:
            self.guardian = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, start_new_session=True
            )
        except OSError as error:
            raise RunError(f"the guard of the run cannot be started: {error.strerror}") from error

    def remove_process(self, pid: int) -> None:
        """Forget a process that has ended."""
        if self.processes.pop(str(pid), None) is not None:
            self._save_less()

    def add_directory(self, path: Path) -> None:
        """Record a directory of half-written results."""
        self.directories.append(str(path))
        self.save()

    def remove_directory(self, path: Path) -> None:
        """Forget a directory that has become a result."""
        self.directories.remove(str(path))
        self._save_less()

    def save(self) -> None:
        """Write the record in one step, so that it is never read half written."""
        data = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in NOT_STORED}
        storage.write_json(self.file, data, indent=None, mode=storage.PRIVATE)

    def _save_less(self) -> None:
        """Write the record after something has gone; where the disk is full it names more than there is."""
        with suppress(OSError):
            self.save()

    def release(self) -> list[str]:
        """End the run's processes and remove its namespaces; returns what was removed, for the user.

        Processes are those on record whose start time agrees, and those that are inside the run's namespaces.

        Raises:
            RunError: something cannot be removed, all else is; the record stays, so that `narrows clean` can try again.
        """
        removed: list[str] = []
        left = Left()
        existing = existing_namespaces()
        namespaces = [name for name in self.namespaces if name in existing]
        victims = {int(pid) for pid, started in self.processes.items() if start_time(int(pid)) == started}
        for name in namespaces:
            victims |= namespace_pids(name)
        victims.discard(os.getpid())
        removed += [f"process {pid}" for pid in sorted(victims)]
        if self.inside is not None:
            self.inside.close()
            self.inside = None
        with left.what_fails():
            kill(victims)
        with left.what_fails():
            removed += self._put_settings_back()
        with left.what_fails():
            removed += self._unregister_bpf()
        existing_links = {path.name for path in LINKS.iterdir()}
        for name in [name for name in self.interfaces if name in existing_links]:
            with left.what_fails():
                _remove(["ip", "link", "delete", name], f"link {name}")
                removed.append(f"link {name}")
        for name in self.tables:
            # Adding one that is there changes nothing: so it may be deleted whether it had been made or not.
            with left.what_fails():
                _remove(["nft", f"add table ip {name}; delete table ip {name}"], f"table {name}")
                removed.append(f"table {name} of the packet filter")
        for name in namespaces:
            # Deleting a namespace deletes its veth ends and with them their peers.
            with left.what_fails():
                try:
                    _remove(["ip", "netns", "delete", name], f"namespace {name}")
                except RunError:
                    # The run's guardian may have been faster.
                    if name in existing_namespaces():
                        raise
                removed.append(f"namespace {name}")
        shutil.rmtree(self.directory, ignore_errors=True)
        left.complain()
        self.namespaces, self.processes, self.interfaces, self.tables = [], {}, [], []
        self._save_less()
        return removed

    def destroy(self) -> list[str]:
        """Remove everything on record, unfinished results too, then the record; returns what was removed.

        Raises:
            RunError: something cannot be removed, all else is; the record stays, so that `narrows clean` can try again.
        """
        removed: list[str] = []
        left = Left()
        with left.what_fails():
            removed = self.release()
        for directory in self.directories:
            if Path(directory).exists():
                with left.what_fails():
                    shutil.rmtree(directory)
                    removed.append(f"unfinished results {directory}")
        left.complain()
        self.file.unlink(missing_ok=True)
        if self.lock is not None:
            self.lock.give_back()
        if self.guardian is not None:
            self.guardian.communicate()
        return removed


@dataclass
class Left:
    """What could not be removed, and why."""

    problems: list[str] = field(default_factory=list)

    @contextmanager
    def what_fails(self) -> Iterator[None]:
        """Note what fails here: it keeps nothing else from being removed."""
        try:
            yield
        except RunError as error:
            self.problems.append(str(error))
        except OSError as error:
            self.problems.append(f"{error.filename} cannot be removed: {error.strerror}")

    def complain(self) -> None:
        """Say all of it, if there is any.

        Raises:
            RunError: there is.
        """
        if self.problems:
            raise RunError("\n".join(self.problems))


def _remove(command: Sequence[str], what: str) -> None:
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        raise RunError(f"{what} cannot be removed: {result.stderr.strip()}")


def setting(name: str) -> str:
    """One of this machine's kernel settings (``net/ipv4/ip_forward``)."""
    return (SETTINGS / name).read_text().strip()


def existing_namespaces() -> set[str]:
    """Names of all network namespaces."""
    result = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=False)
    return {line.split()[0] for line in result.stdout.splitlines() if line.strip()}


def namespace_pids(name: str) -> set[int]:
    """Processes inside a namespace."""
    result = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=False)
    return {int(pid) for pid in result.stdout.split()}


def kill(pids: set[int]) -> None:
    """SIGKILL processes and wait until they have ended, and shortly until they are cleared away.

    Raises:
        RunError: some of them may not be ended, or are still there after five seconds; the message names them.
    """
    refused = []
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
        except PermissionError:
            refused.append(pid)
    killed = pids.difference(refused)
    left = _those_left(killed, KILL_WAIT_S, lambda pid: start_time(pid) is None or only_waits_for_children(pid))
    _those_left(killed.difference(left), CLEAR_WAIT_S, lambda pid: start_time(pid) is None)
    problems = [f"process {pid} does not end" for pid in left]
    problems += [f"process {pid} cannot be ended: it is another user's" for pid in refused]
    if problems:
        raise RunError("\n".join(problems))


def _those_left(pids: set[int], longest_s: float, has_ended: Callable[[int], bool]) -> list[int]:
    """Processes that are still there when all have ended, or after so many seconds."""
    deadline = time.monotonic() + longest_s
    while (left := [pid for pid in pids if not has_ended(pid)]) and time.monotonic() < deadline:
        time.sleep(0.01)
    return left


def dead_runs(root: Path = STATE_ROOT) -> list[RunState]:
    """Records of runs whose owner is gone."""
    return [state for state in all_runs(root) if not state.alive]


def all_runs(root: Path = STATE_ROOT) -> list[RunState]:
    """All records that can be read."""
    runs = []
    for path in sorted(root.glob("*.json")):
        try:
            runs.append(RunState.load(path))
        except (OSError, ValueError):
            continue
    return runs
