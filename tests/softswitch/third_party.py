# SPDX-License-Identifier: Apache-2.0
"""Third-party P4Runtime clients, each a process in the switch's network namespace, and frames that ask the switch.

The clients speak TCP: neither of them lets its user set the channel option that gRPC needs for Unix sockets.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import BINARY, ROOT, Network
from narrows.hosts.links import call_inside

CLIENTS = Path(__file__).parent / "clients"
SHELL_PYTHON = ROOT / ".venv/p4runtime-shell/bin/python"
PYTHON = {"finsy": Path(sys.executable), "p4runtime-shell": SHELL_PYTHON}
SCRIPT = {"finsy": "finsy_client.py", "p4runtime-shell": "shell_client.py"}
ADDRESS = "127.0.0.1:9559"

ETHERTYPE = 0x88B5
PROBE = struct.Struct("!BHIHHHI")
MARK, EXACT, LPM, TERNARY, RANGE, OPTIONAL, MIXED, CONSTANT, COUNT, REGISTER, LEARN, COPY = range(12)
FRAME_BYTES = 60
ANSWER_S = 5.0


class RefusedByTheSwitch(Exception):
    """What a client reports of a request that failed.

    Attributes:
        code: canonical code of the RPC.
        updates: index, canonical code and message of each update of a batch that failed.
    """

    def __init__(self, answer: dict[str, Any]) -> None:
        """Take a driver's answer."""
        super().__init__(f"{answer['code']}: {answer['message']} {answer['updates']}")
        self.code: str = answer["code"]
        self.message: str = answer["message"]
        self.updates = [(index, code) for index, code, _ in answer["updates"]]


class Driver:
    """The process that third-party clients of a kind are forked from."""

    def __init__(self, kind: str, network: Network, place: Path) -> None:
        """Start it; ``place`` is the socket that it is to listen at, a path that does not exist."""
        command = [str(PYTHON[kind]), str(CLIENTS / SCRIPT[kind]), str(place), ADDRESS]
        self._process = subprocess.Popen(
            ["ip", "netns", "exec", network.namespace("switch"), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n", f"{kind} does not start"
        self.place = place

    def close(self) -> None:
        """End it; its clients have ended."""
        self._process.communicate(timeout=10)


class Client:
    """One third-party client, a process. Its methods are those of the drivers in ``clients/``."""

    def __init__(self, driver: Driver) -> None:
        """Start the client; it does not connect to the switch yet."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(60)
            connection.connect(str(driver.place))
            self._lines = connection.makefile("rw", encoding="utf-8")
        self._pid = int(self._lines.readline())

    def __getattr__(self, name: str) -> Any:
        """A request to the driver by its name; keyword arguments only."""

        def request(**arguments: Any) -> Any:
            print(json.dumps({"do": name, **arguments}), file=self._lines, flush=True)
            line = self._lines.readline()
            assert line, f"the driver ended during {name}"
            answer = json.loads(line)
            if "code" in answer:
                raise RefusedByTheSwitch(answer)
            return answer["answer"]

        return request

    def close(self) -> None:
        """End the client, and with it the session."""
        self._lines.close()
        _wait_for_end(self._pid)

    def kill(self) -> None:
        """End it without a word."""
        os.kill(self._pid, signal.SIGKILL)
        _wait_for_end(self._pid)


def _wait_for_end(pid: int) -> None:
    """Wait until a client's process, which is the driver's child, has ended."""
    deadline = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < deadline, f"process {pid} does not end"
        time.sleep(0.01)


@dataclass(frozen=True)
class Answer:
    """A probe that came out of the switch."""

    port: int
    tag: int
    length: int


class Prober:
    """Sends probes into port 1 of the switch and sees what comes out of ports 2 and 3."""

    def __init__(self, network: Network) -> None:
        """Open raw sockets at the hosts."""
        self._send = call_inside(network.namespace("sender"), _raw_socket)
        self._ports = {
            port: call_inside(network.namespace(host), _raw_socket)
            for port, host in ((2, "receiver"), (3, "collector"))
        }
        self._marks = 0

    def send(self, kind: int, *, exact: int = 0, lpm: int = 0, ternary: int = 0, range_: int = 0, optional: int = 0,
             tag: int = 0, length: int = FRAME_BYTES) -> None:  # fmt: skip
        """Send one probe."""
        header = bytes.fromhex("020000000002020000000001") + ETHERTYPE.to_bytes(2, "big")
        frame = header + PROBE.pack(kind, exact, lpm, ternary, range_, optional, tag)
        self._send.send(frame.ljust(length, b"\0"))

    def ask(self, kind: int, **fields: int) -> list[Answer]:
        """Send one probe; everything that comes out for it, known to be all by a mark sent behind it to each port."""
        self.send(kind, **fields)
        return self.answers()

    def tag(self, kind: int, **fields: int) -> int | None:
        """The tag with which a probe comes out, or nothing when it is dropped."""
        answers = self.ask(kind, **fields)
        assert len(answers) <= 1, answers
        return answers[0].tag if answers else None

    def answers(self) -> list[Answer]:
        """Everything that has come out since the last call."""
        self._marks += 1
        found = []
        for port, receiver in self._ports.items():
            self.send(MARK, exact=port, tag=self._marks)
            deadline = time.monotonic() + ANSWER_S
            while True:
                assert time.monotonic() < deadline, f"the mark does not come out of port {port}"
                frame = receiver.recv(16_384)
                kind, *_, tag = PROBE.unpack_from(frame, 14)
                if kind == MARK:
                    if tag == self._marks:
                        break
                    continue
                found.append(Answer(port, tag, len(frame)))
        return found

    def close(self) -> None:
        """Close the sockets."""
        for opened in (self._send, *self._ports.values()):
            opened.close()


def _raw_socket() -> socket.socket:
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHERTYPE))
    opened.bind(("eth0", ETHERTYPE))
    opened.settimeout(ANSWER_S)
    return opened


def start_switch(network: Network, *options: str) -> subprocess.Popen[str]:
    """A softswitch without a pipeline, its gRPC server at ADDRESS in its own namespace."""
    ports = [word for port in (1, 2, 3) for word in ("--port", f"{port}@p{port}")]
    process = subprocess.Popen(
        ["ip", "netns", "exec", network.namespace("switch"), str(BINARY), "serve", "--grpc", ADDRESS, *ports, *options],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process
