# SPDX-License-Identifier: Apache-2.0
"""Messages between this program and hosts: what arrives is what was sent; and the process that serves a host."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, cast

import pytest
from narrows.errors import InputError
from narrows.experiment.loader import validate
from narrows.experiment.planning import make_plan
from narrows.hosts import base
from narrows.onhost import serve, wire
from narrows.traffic import datagrams, registry, requests, tcp

LINK = {"rate": "10Mbit", "buffer": "1bdp", "rtt": "20ms"}
GROUPS: list[dict[str, Any]] = [
    {"cca": "cubic", "size": "1kB", "repeat": 2, "tcp": {"options": {"TCP_MAXSEG": 1000}}},
    {"cca": "cubic", "onoff": {"length": "300ms", "pause": "200ms"}, "duration": "1s"},
    {"name": "web", "cca": "reno", "duration": "1s", "requests": {"size": "1kB", "think": "1s"}},
    {"name": "video", "cca": "reno", "duration": "1s", "video": {"bitrates": ["1Mbit"]}},
    {"name": "udp", "udp": {"rate": "1Mbit"}, "duration": "1s"},
    {"name": "call", "cca": "nada", "media": {}, "duration": "1s"},
]
PLAN = make_plan(validate({"name": "wire", "bottleneck": LINK, "flows": GROUPS}, "test"))


def specifications() -> list[wire.FlowSpecification]:
    sized, onoff, web, video, udp, call = PLAN.flows
    return [
        tcp.specify(sized, None), tcp.specify(onoff, ecn=True), requests.specify(web, None),
        requests.specify(video, None), datagrams.specify(udp, one_clock=True),
        datagrams.specify(call, one_clock=False),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "sent",
    [
        *specifications(),
        wire.Specification("sender0", 65_536, [], specifications(), "sender0.origin", None),
        wire.Release("x", 1.5), wire.Finish("x", 2.5), wire.Steer("x", 10, None, None),
        wire.Started("x", 0, 0.1), wire.Ended("x", 1, 0.2, {"kind": "tcp", "samples": [{"rtt_s": None}]}),
        wire.Received("x", {"packets": 1}), wire.Steered("x", 0.1, "00ff", None),
        wire.Failure("x", "Connection refused"), wire.Done("x"),
    ],
    ids=lambda sent: type(sent).__name__,
)  # fmt: skip
def test_what_arrives_is_what_was_sent(sent: object) -> None:
    text = wire.dumps(sent)
    assert "\n" not in text, "a message is a line"
    arrived = wire.loads(text)
    # JSON has no tuples; what was sent again is the same text.
    assert type(arrived) is type(sent) and wire.dumps(arrived) == text


def test_a_message_of_an_unknown_class_is_refused() -> None:
    with pytest.raises(KeyError, match="Unheard"):
        wire.loads(wire.dumps(wire.Done("x")).replace("Done", "Unheard"))


@pytest.mark.parametrize("value", ["mine", "Done"])
def test_an_environment_may_have_any_variable(value: str) -> None:
    """Its names are a user's, and mappings of a message are as they were."""
    sent = {"class": value, "type": value, "Done": value}
    assert wire.loads(wire.dumps([wire.Ended("x", 0, 0.1, sent)])) == [wire.Ended("x", 0, 0.1, sent)]


def test_the_origin_is_read_once_its_line_is_whole(tmp_path: Path) -> None:
    file, polls = tmp_path / "origin", iter([None, "12.", "12.5\n"])

    def poll() -> bool:
        if (text := next(polls)) is not None:
            file.write_text(text)
        return False

    assert wire.wait_for_origin(file, poll) == 12.5
    file.unlink()
    assert wire.wait_for_origin(file, lambda: True) is None


@pytest.mark.parametrize("modules", ["tcp,onoff", "requests", "datagrams", "media,datagrams,nada"])
def test_a_host_needs_no_package_of_ours_and_ends_by_a_signal(tmp_path: Path, modules: str) -> None:
    """As on another machine: only files next to each other, and Python's standard library."""
    for module in ("wire", "payload", "sockets", "loop", "tcp", "serve", *modules.split(",")):
        source = Path(serve.__file__).with_name(f"{module}.py")
        (tmp_path / source.name).write_text(source.read_text())
    file = tmp_path / "specification.json"
    file.write_text(wire.dumps(wire.Specification("here", 0, [], [], "origin", None)))
    command = [sys.executable, "-I", "-S", str(tmp_path / "serve.py"), modules, str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


def test_commands_of_a_pipe_are_done_in_order(tmp_path: Path) -> None:
    done: list[wire.Command] = []

    class Noting:
        def do(self, command: wire.Command) -> None:
            done.append(command)

    commands = [wire.Release("a", 1.0), wire.Steer("a", 10, None, None), wire.Finish("a", 2.0)]
    read, write = os.pipe()
    os.write(write, b"".join(wire.dumps(command).encode() + b"\n" for command in commands))
    os.close(write)
    serve.run_commands(cast("Any", Noting()), read)
    assert done == commands


@pytest.mark.parametrize("name", ["web", "udp-1", "call-1"])
def test_a_flow_without_a_window_is_not_steered(tmp_path: Path, name: str) -> None:
    """Its host would end, and the run with it."""
    made = {
        flow.name: one for one in registry.generators(PLAN, cast("base.Testbed", None), tmp_path) for flow in one.flows
    }
    flow = next(flow for flow in made if flow.startswith(name))
    begun = time.monotonic()
    with pytest.raises(InputError, match="is of a kind whose window cannot be set"):
        asyncio.run(made[flow].steer(flow, 10, None))
    assert time.monotonic() - begun < 5
