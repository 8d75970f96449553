# SPDX-License-Identifier: Apache-2.0
"""A shell behind the bottleneck, at a real terminal: job control, exit codes, and what is left when it is killed."""

from __future__ import annotations

import contextlib
import ipaddress
import itertools
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from narrows.errors import EXIT_BAD_INPUT
from narrows.hosts.links import namespace, run
from narrows.hosts.state import STATE_ROOT, RunState, existing_namespaces
from narrows.hosts.users import invoking_user
from narrows.python import places
from narrows_formats.programs import COLLECTOR, SOFTSWITCH
from needs import python_for_all

pytestmark = pytest.mark.needs("root", SOFTSWITCH, COLLECTOR, "nft")

NARROWS = shutil.which("narrows", path=str(Path(sys.executable).parent)) or "narrows"
PROMPT = "outer> "
INNER = "env PS1='inner> ' bash --norc --noprofile -i"
LIMIT_S = 40.0
SIZE = 3_000_000
ORDINARY = invoking_user()
TITLE = re.compile("\x1b\\]2;([^\x07]*)\x07|\x1b\\[2[23];0t|\x1b\\[\\?2004[hl]\r?")


class Terminal:
    """An interactive shell at a terminal of its own, and what the terminal shows."""

    def __init__(self, directory: Path) -> None:
        self.shown = ""
        self.titles: list[str] = []
        self.state: RunState | None = None
        self._directory = directory
        self.pid, self._master = pty.fork()
        if self.pid == 0:
            os.chdir(directory)
            os.environ |= {"PS1": PROMPT, "TERM": "xterm", "SHELL": "/bin/bash", "HISTFILE": ""}
            os.environ.pop("SUDO_UID", None)
            # Tests may run under nohup; a terminal of its own hangs up.
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
            os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
        self.expect(PROMPT)

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def expect(self, pattern: str, limit_s: float = LIMIT_S) -> re.Match[str]:
        """Wait until what has not been looked at yet matches, and take it."""
        deadline = time.monotonic() + limit_s
        while not (found := re.search(pattern, self.shown)):
            ready, _, _ = select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"no {pattern!r} in {self.shown[-2000:]!r}"
            try:
                data = os.read(self._master, 1 << 16)
            except OSError:
                data = b""
            assert data, f"the terminal ended without {pattern!r}: {self.shown[-2000:]!r}"
            self.shown += data.decode(errors="replace")
            # Titles may come in the middle of a line, and readline brackets what is pasted.
            self.titles += filter(None, TITLE.findall(self.shown))
            self.shown = TITLE.sub("", self.shown)
        self.shown = self.shown[found.end() :]
        return found

    def begin(self, command: str = INNER, options: str = "") -> None:
        """Have a command run, and note which run it is; its prompt, if it is a shell, has been shown then."""
        self.type(f"{NARROWS} shell {options} --out {self._directory}/r -- {command}; echo code $?\n")
        self.expect("traffic\r\n")
        if command == INNER:
            self.expect("inner> ")
        states = [RunState.load(path) for path in STATE_ROOT.glob("*.json")]
        (self.state,) = [one for one in states if any(str(self._directory) in each for each in one.directories)]

    @property
    def owner(self) -> int:
        """Process of the run."""
        assert self.state is not None
        return self.state.owner_pid

    def close(self) -> None:
        """As when its window is closed."""
        os.close(self._master)
        self._master = -1

    def end(self) -> None:
        if self._master >= 0:
            self.close()
        try:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that any user can work in, which pytest's own are not."""
    with tempfile.TemporaryDirectory(prefix="narrows-shell-") as name:
        Path(name).chmod(0o777)
        yield Path(name)


@pytest.fixture
def terminal(place: Path) -> Iterator[Terminal]:
    forwarding = forwarded()
    made = Terminal(place)
    yield made
    made.end()
    if made.state is not None:
        assert eventually_none_of(made.state.run_id) == set()
    assert forwarded() == forwarding


def forwarded() -> dict[str, str]:
    """Whether each link of this machine forwards; those of other runs come and go."""
    found = {}
    for path in Path("/proc/sys/net/ipv4/conf").glob("*/forwarding"):
        if not path.parent.name.startswith(("narrows", "nws", "port", "veth")):
            found[path.parent.name] = path.read_text().strip()
    return found


def left_of(run_id: str) -> set[str]:
    """Whatever has a run's id in its name: namespaces, links, tables, its record, and processes that were given it."""
    found = set(existing_namespaces()) | {path.name for path in Path("/sys/class/net").iterdir()}
    found |= {path.name for path in STATE_ROOT.iterdir()}
    found |= set(subprocess.run(["nft", "list", "tables"], capture_output=True, text=True).stdout.splitlines())
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            for name in ("cmdline", "environ"):
                if run_id.encode() in (process / name).read_bytes():
                    found.add(f"process {process.name}, {run_id}: {(process / 'cmdline').read_bytes()!r}")
    return {one for one in found if run_id in one}


def eventually_none_of(run_id: str, limit_s: float = 15.0) -> set[str]:
    """What is left of a run when it does not become less any more."""
    deadline = time.monotonic() + limit_s
    while (left := left_of(run_id)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


def narrows(*words: str, cwd: Path, text: str = "", **options: Any) -> subprocess.CompletedProcess[str]:
    command = [NARROWS, "shell", "-q", *words]
    return subprocess.run(command, cwd=cwd, input=text, capture_output=True, text=True, timeout=90, **options)


def test_a_shell_at_a_terminal_has_job_control_and_leaves_with_control_d(terminal: Terminal, place: Path) -> None:
    terminal.begin()
    terminal.type("sleep 4242\n")
    terminal.expect("sleep 4242\r\n")
    time.sleep(0.5)
    terminal.type("\x1a")  # Ctrl-Z: the job stops, and the shell goes on
    terminal.expect("Stopped(?s:.*)inner> ")
    terminal.type("bg; jobs\n")
    terminal.expect(r"Running\s+sleep 4242(?s:.*)inner> ")
    terminal.type("fg\n")
    terminal.expect("sleep 4242\r\n")
    time.sleep(0.5)
    terminal.type("\x03")  # Ctrl-C: the job ends, and the shell goes on
    terminal.expect("inner> ")
    terminal.type("tty; id -u; (exit 5)\n")
    terminal.expect(r"/dev/pts/\d+\r\n65533\r\n(?s:.*)inner> ")
    terminal.type("\x04")
    terminal.expect("report: ")
    terminal.expect("code 5")
    terminal.expect(PROMPT)
    run = json.loads((place / "r/run.json").read_text())
    assert run["status"] == "complete"
    # The shell around it has its terminal again, with job control.
    terminal.type("sleep 1 & fg\n")
    terminal.expect("sleep 1\r\n")
    terminal.expect(PROMPT)


@pytest.mark.long
def test_figures_are_in_the_title_and_in_a_file_and_nowhere_else(terminal: Terminal, place: Path) -> None:
    terminal.begin("sh -c 'sleep 3; cat $NARROWS_FIGURES'")
    shown = terminal.expect(r"(?s)(.*)code 0")[1]
    figures = (
        r"\d s: bottleneck [0-9.]+, bottleneck\.reverse [0-9.]+ Mbit/s \(download-1 0\.0, upload-1 0\.0\), queues .*"
    )
    assert re.fullmatch(figures, terminal.titles[-1])
    assert re.search(rf"(?m)^{figures}\r$", shown)
    assert shown.count("Mbit/s (download") == 1


@pytest.mark.long
def test_a_command_that_is_suspended_suspends_narrows(terminal: Terminal, place: Path) -> None:
    command = "echo begun; read line; echo got $line"
    terminal.begin(f"sh -c '{command}'")
    terminal.expect("begun\r\n")
    terminal.type("\x1a")
    terminal.expect(r"Stopped|code 1\d\d")
    terminal.expect(PROMPT)
    terminal.type("fg\n")
    time.sleep(1)
    terminal.type("words\n")
    terminal.expect("got words")
    terminal.expect(PROMPT)


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_nothing_is_left_when_it_is_killed(terminal: Terminal, place: Path, number: signal.Signals) -> None:
    terminal.begin()
    terminal.type("setsid sleep 4242 & echo so far\n")
    terminal.expect("\nso far\r\n")
    os.kill(terminal.owner, number)
    code = terminal.expect(r"code (\d+)")[1]
    assert code == {signal.SIGKILL: "137"}.get(number, "129")
    terminal.type("echo still here\n")
    terminal.expect("still here\r\n")


@pytest.mark.long
def test_a_command_is_asked_to_end_until_it_does(terminal: Terminal) -> None:
    """As bash, to which a signal may come just before it waits for a line, so that it does not heed this one."""
    terminal.begin("""sh -c 'trap "trap - HUP" HUP; echo so far; while :; do sleep 0.1; done'""")
    terminal.expect("so far\r\n")
    os.kill(terminal.owner, signal.SIGTERM)
    assert terminal.expect(r"code (\d+)")[1] == "129"


@pytest.mark.fault("terminal closed", "traffic", "real")
def test_nothing_is_left_when_the_terminal_is_closed(terminal: Terminal, place: Path) -> None:
    terminal.begin()
    terminal.close()


@pytest.mark.long
@pytest.mark.fault("terminal closed", "traffic", "real")
def test_a_run_whose_terminal_was_closed_can_be_stopped(terminal: Terminal) -> None:
    """It cannot say so there; its command goes on without a terminal, as with nohup."""
    terminal.begin("""sh -c 'trap "" HUP; echo so far; sleep 4242'""")
    terminal.expect("so far\r\n")
    terminal.close()
    time.sleep(1)
    os.kill(terminal.owner, signal.SIGTERM)


@pytest.mark.long
def test_nothing_is_left_when_the_shell_around_it_is_killed(terminal: Terminal, place: Path) -> None:
    terminal.begin()
    os.kill(terminal.pid, signal.SIGKILL)


@pytest.mark.long
def test_without_a_terminal_files_and_exit_code_are_the_commands(place: Path) -> None:
    done = narrows("--out", f"{place}/r", "--", "sh", "-c", "cat; echo bad >&2; exit 9", cwd=place, text="words\n")
    assert (done.returncode, done.stdout, done.stderr) == (9, "words\n", "bad\n")
    done = narrows("--out", f"{place}/s", "--", "sh", "-c", "kill -SEGV $$", cwd=place)
    assert done.returncode == 128 + signal.SIGSEGV


@pytest.mark.long
def test_flows_of_a_file_end_with_the_command(place: Path) -> None:
    """A flow that would last ten minutes shares the link with a command of three seconds."""
    (place / "x.yaml").write_text(
        "name: beside\nbottleneck: {rate: 10Mbit, buffer: 1bdp, rtt: 40ms}\nflows: [{cca: cubic, duration: 600s}]\n"
    )
    done = narrows("--out", f"{place}/r", "x.yaml", "--", "sleep", "3", cwd=place)
    assert (done.returncode, done.stderr) == (0, "")
    run = json.loads((place / "r/run.json").read_text())
    assert run["status"] == "complete"
    # Without a reverse there is no other direction that is reported.
    assert [flow["name"] for flow in run["flows"]] == ["cubic-1", "download-1"]
    assert all(3 <= flow["ended_s"] < 5 for flow in run["flows"])
    assert json.loads((place / "r/summary.json").read_text())["bottleneck"]["utilization"] > 0.8


WORLDS = itertools.count()


@pytest.fixture
def world(place: Path) -> Iterator[str]:
    """A web server's address on a network of this machine's, with a file of 3 MB; it keeps who has asked."""
    # The link of a namespace that was deleted is there for a moment longer.
    name, link = f"nwshell-{os.getpid()}", f"nws{os.getpid()}-{next(WORLDS)}"
    (place / "file").write_bytes(os.urandom(SIZE))
    with namespace(name):
        run(["ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", name])
        run(["ip", "address", "add", "203.0.113.1/24", "dev", link])
        run(["ip", "link", "set", link, "up"])
        commands = ("address add 203.0.113.2/24 dev eth0", "link set eth0 up", "route add default via 203.0.113.1")
        run(["ip", "-n", name, "-batch", "-"], "\n".join(commands))
        nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        serve = ["python3", "-m", "http.server", "8000", "--directory", str(place)]
        with (place / "asked").open("wb") as log:
            server = subprocess.Popen(
                ["ip", "netns", "exec", name, *nobody, *serve], stdout=log, stderr=log, env={"PATH": os.defpath}
            )
        try:
            yield "203.0.113.2"
        finally:
            server.kill()
            server.wait()


@pytest.mark.long
def test_a_command_reaches_this_machines_network_through_the_link(place: Path, world: str) -> None:
    """Of the link's 20 Mbit/s a TCP segment of 1448 bytes has 1448/1514."""
    before = forwarded()
    url = f"http://{world}:8000/file"
    fetch = f"curl -sS --retry 5 --retry-connrefused -o {place}/got -w '%{{speed_download}}' {url}"
    done = narrows("--nat", "--out", f"{place}/r", "--", "sh", "-c", fetch, cwd=place)
    assert (done.returncode, done.stderr) == (0, "")
    assert (place / "got").read_bytes() == (place / "file").read_bytes()
    most = 20e6 * 1448 / 1514 / 8
    assert 0 < float(done.stdout) <= most
    summary = json.loads((place / "r/summary.json").read_text())
    assert [link["other_share"] for link in summary["links"]] == [0, 0]
    down, up = ([one for one in flow["connections"] if one["protocol"] == 6] for flow in summary["flows"])
    assert (down[0]["src"], down[0]["src_port"], up[0]["dst"], up[0]["dst_port"]) == (world, 8000, world, 8000)
    assert down[0]["dst_port"] == up[0]["src_port"]
    # Drops apart, each byte crossed once; a header of HTTP beside them.
    assert SIZE < down[0]["payload_bytes"] < SIZE + 1000
    assert "203.0.113.1" in (place / "asked").read_text()
    assert forwarded() == before


@pytest.mark.long
def test_this_machine_is_as_before_when_it_is_killed(terminal: Terminal, world: str) -> None:
    # As new links have it: 1 where another program, such as Docker, makes this machine forward.
    before = forwarded()["default"]
    terminal.begin(options="--nat")
    assert terminal.state is not None
    assert set(terminal.state.settings.values()) == {before}
    assert any(terminal.state.run_id in one for one in left_of(terminal.state.run_id) if one.startswith("table"))
    terminal.type(f"curl -sS --retry 5 --retry-connrefused http://{world}:8000/ >/dev/null && echo reached\n")
    terminal.expect("\nreached\r\n")
    # No host out there reaches the shell's side of the link, though this machine forwards.
    (route,) = json.loads(run(["ip", "-j", "route", "show", "dev", f"narrows{terminal.state.run_id}"]))
    gateway = str(ipaddress.ip_network(route["dst"])[2])
    assert subprocess.run(["ping", "-q", "-c", "1", gateway], stdout=subprocess.DEVNULL).returncode == 0
    from_outside = ["ip", "netns", "exec", f"nwshell-{os.getpid()}", "ping", "-q", "-c", "1", "-W", "1", gateway]
    assert subprocess.run(from_outside, stdout=subprocess.DEVNULL).returncode == 1
    os.kill(terminal.owner, signal.SIGKILL)
    terminal.expect("code 137")


def as_ordinary_user(place: Path, *words: str) -> subprocess.Popen[str]:
    """``narrows shell`` as a user without rights; all processes that come of it have the directory's name."""
    python = python_for_all()
    assert python is not None
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": places(), "HOME": str(place), "MADE_IN": str(place)}
    command = [python, "-c", "import narrows.cli; narrows.cli.main()", "shell", "-q", *words]
    return subprocess.Popen(
        command, cwd=place, env=env, user=ORDINARY.uid, group=ORDINARY.gid, extra_groups=[],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def processes_in(place: Path) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"MADE_IN={place}".encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_text())
    return found


@pytest.mark.long
@pytest.mark.needs("python-for-all")
def test_without_root_it_is_in_a_user_namespace_of_its_own(place: Path) -> None:
    """The round trip is the link's; the command has its own user's number and no rights over the network."""
    look = "id -u; ping -q -c 3 $NARROWS_SERVER; ip link set eth0 down; exit 4"
    out, errors = (process := as_ordinary_user(place, "--out", f"{place}/r", "--", "sh", "-c", look)).communicate()
    assert (process.returncode, out.split()[0]) == (4, str(ORDINARY.uid)), errors
    assert 0.04 <= float(out.partition("mdev = ")[2].partition("/")[0]) / 1000 < 0.06
    assert "Operation not permitted" in errors
    run = json.loads((place / "r/run.json").read_text())
    assert (run["status"], run["flows"][0]["application"]["user"]) == ("complete", ORDINARY.uid)
    assert (place / "r").stat().st_uid == ORDINARY.uid
    assert processes_in(place) == []


@pytest.mark.long
@pytest.mark.needs("python-for-all")
def test_nothing_is_left_without_root_when_it_is_killed(place: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    command = ["sh", "-c", "echo begun; setsid sleep 4242"]
    process = as_ordinary_user(place, "--live-port", port, "--out", f"{place}/r", "--", *command)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    assert len(processes_in(place)) > 3
    # The page is on this machine's loopback, not on one of its own; who does not know its path has no page.
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5)
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 15
    while (left := processes_in(place)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left == []


@pytest.mark.needs("python-for-all", "unshare")
@pytest.mark.fault("user namespaces switched off", "set-up", "real")
def test_without_root_and_without_user_namespaces_it_says_so(place: Path) -> None:
    """The kernel refuses them to who is in another root directory, for which nothing of this machine is changed."""
    root = place / "root"
    root.mkdir()
    inside = f'mount --rbind / "$0" && exec chroot --userspec={ORDINARY.uid}:{ORDINARY.gid} "$0" "$@"'
    command = ["unshare", "--mount", "sh", "-c", inside, str(root)]
    narrows = [str(python_for_all()), "-c", "import narrows.cli; narrows.cli.main()", "shell", "-q", "--", "true"]
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": places(), "HOME": str(place), "MADE_IN": str(place)}
    done = subprocess.run([*command, *narrows], capture_output=True, text=True, env=env, cwd=place)
    assert done.returncode == EXIT_BAD_INPUT
    assert done.stderr == (
        "narrows: network namespaces need root, and users may not create their own on this machine (Operation not "
        "permitted); fix: run with sudo, or --virtual with a command\n"
    )
    assert processes_in(place) == [] and list(root.iterdir()) == []
