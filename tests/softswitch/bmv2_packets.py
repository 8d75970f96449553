# SPDX-License-Identifier: Apache-2.0
"""BMv2 fed packets one by one, without interfaces: what leaves it of a program with entries.

Entries are lines of p4c's tests (STF), in the part of that language that random scripts are written in. Packets go in
and come out by the service that simple_switch_grpc has for tests (``--dp-grpc-server-addr``): a call ends when BMv2 has
done with its packet. Its other services stay in a network namespace of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from narrows.targets.bmv2.simple_switch import EXECUTABLE

CLI = "simple_switch_CLI"
READY_S = 60.0
CALL_S = 30.0
# Loopback, the switch, and its entries; then nothing until all are ended together.
SCRIPT = """
ip link set lo up
"$1" --thrift-port 9090 --notifications-addr "ipc://$4/notifications.ipc" --log-level off "$3" \
  -- --priority-queues 8 --grpc-server-addr "unix:$4/p4runtime.sock" --dp-grpc-server-addr "unix:$4/packets.sock" &
until "$5" "$2" --thrift-port 9090 < "$4/commands" > "$4/said" 2>&1; do sleep 0.1; kill -0 $! || exit 1; done
touch "$4/ready"
wait
"""
_WRONG = re.compile(r"error|invalid|unknown|exception", re.IGNORECASE)


def _messages() -> tuple[Any, Any]:
    """The request and the response of its service: id, device, port, packet."""
    file = descriptor_pb2.FileDescriptorProto(name="bmv2_packets.proto", package="p4.bm", syntax="proto3")
    field = descriptor_pb2.FieldDescriptorProto
    for name in ("PacketStreamRequest", "PacketStreamResponse"):
        message = file.message_type.add(name=name)
        for number, (called, kind) in enumerate(
            (("id", field.TYPE_UINT64), ("device_id", field.TYPE_UINT64), ("port", field.TYPE_UINT32),
             ("packet", field.TYPE_BYTES)), 1
        ):  # fmt: skip
            message.field.add(name=called, number=number, type=kind, label=field.LABEL_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())  # type: ignore[no-untyped-call]
    found = message_factory.GetMessageClassesForFiles([file.name], pool)
    return found["p4.bm.PacketStreamRequest"], found["p4.bm.PacketStreamResponse"]


_REQUEST, _RESPONSE = _messages()


class Bmv2Packets:
    """A running switch."""

    def __init__(self, channel: grpc.Channel) -> None:
        """Packets go by the channel."""
        self._stream = channel.stream_stream(
            "/p4.bm.DataplaneInterface/PacketStream", _REQUEST.SerializeToString, _RESPONSE.FromString
        )

    def send(self, port: int, packet: bytes) -> list[tuple[int, bytes]]:
        """What leaves of a packet: port and bytes of each that does, in order at each port."""
        answers = self._stream(iter([_REQUEST(port=port, packet=packet)]), timeout=CALL_S, wait_for_ready=True)
        return [(answer.port, answer.packet) for answer in answers]


@contextlib.contextmanager
def running(program: Path, entries: Sequence[str], directory: Path) -> Iterator[Bmv2Packets]:
    """BMv2 with a program and its entries; gone at the end.

    Args:
        program: BMv2 JSON.
        entries: lines of a script.
        directory: for its sockets and what it says.

    Raises:
        RuntimeError: it does not come up, or refuses an entry.
    """
    (directory / "commands").write_text("\n".join(commands(json.loads(program.read_text()), entries)) + "\n")
    executables = [str(shutil.which(name)) for name in (EXECUTABLE, CLI)]
    shell = ["sh", "-c", SCRIPT, "sh", *executables, str(program), str(directory), sys.executable]
    unshare = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--net", "--map-root-user"]
    log = directory / "log"
    with log.open("wb") as output:
        process = subprocess.Popen([*unshare, *shell], stdout=output, stderr=output, start_new_session=True)
    try:
        deadline = time.monotonic() + READY_S
        while not (directory / "ready").exists():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"BMv2 does not come up: {log.read_text(errors='replace')[-500:]}")
            time.sleep(0.05)
        said = (directory / "said").read_text()
        if wrong := [line for line in said.splitlines() if _WRONG.search(line)]:
            raise RuntimeError("\n".join(wrong))
        with grpc.insecure_channel(
            f"unix:{directory}/packets.sock", options=[("grpc.default_authority", "localhost")]
        ) as channel:
            yield Bmv2Packets(channel)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def commands(program: dict[str, Any], lines: Iterable[str]) -> Iterator[str]:
    """The same entries for simple_switch_CLI, which has actions' arguments by position, and priorities upside down."""
    tables = {table["name"]: table for pipeline in program["pipelines"] for table in pipeline["tables"]}
    parameters = {action["name"]: [one["name"] for one in action["runtime_data"]] for action in program["actions"]}
    members: dict[str, dict[int, int]] = {}
    groups: dict[str, dict[int, int]] = {}
    entries = 0

    def call(text: str) -> tuple[str, str]:
        name, _, rest = text.rstrip(")").partition("(")
        given = dict(one.split(":") for one in rest.split(",") if one)
        return name, " ".join(given[parameter] for parameter in parameters[name])

    for line in lines:
        words = line.split()
        match words[0]:
            case "add":
                table, (*keys, target) = tables[words[1]], words[2:]
                entries += 1
                given = zip((key.split(":", 1)[1] for key in keys), table["key"], strict=True)
                values = " ".join(f"{one}->{one}" if key["match_type"] == "range" else one for one, key in given)
                ranked = any(one["match_type"] in ("ternary", "range", "optional") for one in table["key"])
                priority = f" {entries}" if ranked else ""
                if target.startswith(("member(", "group(")):
                    kind, number = target.rstrip(")").split("(")
                    of = members if kind == "member" else groups
                    command = "table_indirect_add" + ("" if kind == "member" else "_with_group")
                    yield f"{command} {words[1]} {values} => {of[table['action_profile']][int(number)]}{priority}"
                else:
                    name, arguments = call(target)
                    yield f"table_add {words[1]} {name} {values} => {arguments}{priority}"
            case "setdefault":
                yield f"table_set_default {words[1]} {' '.join(call(words[2]))}"
            case "member_add":
                known = members.setdefault(words[1], {})
                known[int(words[2])] = len(known)
                yield f"act_prof_create_member {words[1]} {' '.join(call(words[3]))}"
            case "group_add":
                known = groups.setdefault(words[1], {})
                known[int(words[2])] = handle = len(known)
                yield f"act_prof_create_group {words[1]}"
                for member in words[3:]:
                    yield f"act_prof_add_member_to_group {words[1]} {members[words[1]][int(member)]} {handle}"
            case _:
                yield line
