# SPDX-License-Identifier: Apache-2.0
"""What the drivers of the third-party clients share: requests in, answers out, P4Runtime messages as plain values.

A driver reads one JSON object a line from a socket, does with its client what it says, and answers with one. It runs in
whatever Python environment the client needs, so this module imports nothing but the standard library: protobuf messages
are used by their fields only.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Handler = Callable[[dict[str, Any]], Any]


class Refused(Exception):
    """The switch refused a request.

    Attributes:
        code: canonical code of the RPC, by name.
        updates: index in the batch, canonical code by name and message of each update that failed.
    """

    def __init__(self, code: str, message: str, updates: list[tuple[int, str, str]]) -> None:
        """Keep what the switch said."""
        super().__init__(message)
        self.code, self.updates = code, updates


def serve(make: Callable[[str], Handler]) -> None:
    """Make a client in a process of its own for each connection, until standard input ends.

    What a client imports takes seconds, and this process has imported it for all of them. The command line has the
    path of the socket to listen at, and the address of the switch.

    Args:
        make: a client's handler of requests, by the address of the switch.
    """
    place, address = sys.argv[1:]
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listening, selectors.DefaultSelector() as selector:
        listening.bind(place)
        listening.listen()
        print("ready", flush=True)
        selector.register(sys.stdin, selectors.EVENT_READ)
        selector.register(listening, selectors.EVENT_READ)
        while all(key.fileobj is not sys.stdin for key, _ in selector.select()):
            connection, _ = listening.accept()
            if os.fork() == 0:
                # What was not caught is on standard error, and the connection has no answer.
                try:
                    _answer(connection, make(address))
                finally:
                    # Threads of clients never end when a session was refused.
                    os._exit(0)
            connection.close()


def _answer(connection: socket.socket, handle: Handler) -> None:
    """Say which process this is, then answer requests until there will be none."""
    with connection.makefile("rw", encoding="utf-8") as lines:
        print(os.getpid(), file=lines, flush=True)
        for line in lines:
            try:
                answer: dict[str, Any] = {"answer": handle(json.loads(line))}
            except Refused as refused:
                answer = {"code": refused.code, "message": str(refused), "updates": refused.updates}
            print(json.dumps(answer), file=lines, flush=True)


def number(value: bytes) -> int:
    """The number that a byte string of P4Runtime encodes."""
    return int.from_bytes(value, "big")


class Names:
    """Names of a program's objects by id, from its P4Info."""

    def __init__(self, p4info: Any) -> None:
        """Read a ``p4.config.v1.P4Info``."""
        self.tables = {table.preamble.id: table.preamble.name for table in p4info.tables}
        self.fields = {
            (table.preamble.id, field.id): field.name for table in p4info.tables for field in table.match_fields
        }
        self.actions = {action.preamble.id: action.preamble.name for action in p4info.actions}
        self.params = {
            (action.preamble.id, param.id): param.name for action in p4info.actions for param in action.params
        }

    def table_entry(self, entry: Any) -> dict[str, Any]:
        """A ``p4.v1.TableEntry`` in the form in which requests give it."""
        found: dict[str, Any] = {"table": self.tables[entry.table_id], "priority": entry.priority}
        found["match"] = {self.fields[entry.table_id, field.field_id]: _match(field) for field in entry.match}
        if entry.HasField("action"):
            action = entry.action.action
            found["action"] = self.actions[action.action_id]
            found["params"] = {
                self.params[action.action_id, param.param_id]: number(param.value) for param in action.params
            }
        if entry.HasField("counter_data"):
            found["counter"] = [entry.counter_data.packet_count, entry.counter_data.byte_count]
        return found


def _match(field: Any) -> list[Any]:
    kind = field.WhichOneof("field_match_type")
    value = getattr(field, kind)
    if kind == "lpm":
        return [kind, number(value.value), value.prefix_len]
    if kind == "ternary":
        return [kind, number(value.value), number(value.mask)]
    if kind == "range":
        return [kind, number(value.low), number(value.high)]
    return [kind, number(value.value)]


def artifacts(program: str) -> tuple[Path, Path]:
    """P4Info and BMv2 JSON of a test program."""
    folder = Path(__file__).resolve().parents[1] / "p4" / "compiled"
    return folder / f"{program}.p4info.txtpb", folder / f"{program}.json"
