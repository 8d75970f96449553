# SPDX-License-Identifier: Apache-2.0
"""How Narrows starts BMv2's simple_switch_grpc, and what it needs of its Thrift service.

P4Runtime does tables, counters and clone sessions. Queue settings, registers and the clock are Thrift's only, and of
that service five calls are enough, so they are written out here instead of depending on generated code.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.protocol.TMultiplexedProtocol import TMultiplexedProtocol
from thrift.Thrift import TApplicationException, TMessageType, TType
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException

from narrows.errors import RunError

EXECUTABLE = "simple_switch_grpc"
PATH_VARIABLE = "NARROWS_BMV2"
INSTALL_PAGE = "https://github.com/p4lang/behavioral-model#installing-bmv2"
PRIORITY_QUEUES = 8
DEVICE_ID = 1
THRIFT_PORT = 9090
TIMEOUT_MS = 5000
READY_S = 20.0
POLL_S = 0.02

# (Thrift type, value) of the arguments of a call, in order.
_Arguments = tuple[tuple[int, int | str], ...]


class SwitchError(RunError):
    """BMv2 refused a call or does not answer."""


def find(named: Path | None = None) -> Path | None:
    """The executable: the file or directory that was named, else that in ``$NARROWS_BMV2``, else from PATH."""
    if named is None and PATH_VARIABLE in os.environ:
        named = Path(os.environ[PATH_VARIABLE])
    if named is None:
        found = shutil.which(EXECUTABLE)
        return Path(found) if found else None
    executable = named / EXECUTABLE if named.is_dir() else named
    return executable if executable.is_file() and os.access(executable, os.X_OK) else None


def missing(named: Path | None = None) -> str | None:
    """Why this machine cannot run BMv2, or None."""
    if find(named) is not None:
        return None
    variable = os.environ.get(PATH_VARIABLE)
    if named is not None:
        where = f"--bmv2-path {named}: no executable {EXECUTABLE} there"
    elif variable is not None:
        where = f"${PATH_VARIABLE} is {variable}: no executable {EXECUTABLE} there"
    else:
        where = f"{EXECUTABLE} is not on PATH"
    return f"{where}; fix: install BMv2, see {INSTALL_PAGE}, or name it by --bmv2-path or ${PATH_VARIABLE}"


def version(named: Path | None = None) -> str:
    """What the executable says its version is."""
    result = subprocess.run([str(find(named)), "--version"], capture_output=True, text=True, check=False)
    return result.stdout.strip()


def command(
    interfaces: Mapping[int, str], directory: Path, executable: Path | None = None, cpu_port: int | None = None
) -> list[str]:
    """The command line of a switch that waits for its program over P4Runtime, at `grpc_address`.

    Thrift always listens on every address, so run it inside a namespace of its own.

    Args:
        interfaces: interface of each port, in the namespace that it will run in.
        directory: for its sockets; no other switch may use it.
        executable: what `find` found.
        cpu_port: the port of a controller, for packet-ins and packet-outs; None: there is none.
    """
    ports = [argument for port, name in sorted(interfaces.items()) for argument in ("-i", f"{port}@{name}")]
    return [
        str(executable or EXECUTABLE),
        "--no-p4",
        *("--device-id", str(DEVICE_ID)),
        *("--thrift-port", str(THRIFT_PORT)),
        # Its default is one path in /tmp for all switches of a machine, whatever their namespace.
        *("--notifications-addr", f"ipc://{directory}/notifications.ipc"),
        *("--log-level", "warn", "--log-console"),
        *ports,
        "--",
        *("--grpc-server-addr", grpc_address(directory)),
        *("--priority-queues", str(PRIORITY_QUEUES)),
        *(() if cpu_port is None else ("--cpu-port", str(cpu_port))),
    ]


def grpc_socket(directory: Path) -> Path:
    """The Unix socket of a switch's P4Runtime service; it is there once the switch accepts calls."""
    return directory / "bmv2.sock"


def grpc_address(directory: Path) -> str:
    """The same as a gRPC address."""
    return f"unix:{grpc_socket(directory)}"


def connect() -> Thrift:
    """Connect to Thrift from inside the switch's namespace; the service comes up some time after P4Runtime.

    Raises:
        SwitchError: it does not come up.
    """
    deadline = time.monotonic() + READY_S
    while True:
        try:
            return Thrift()
        except SwitchError:
            if time.monotonic() > deadline:
                raise
            time.sleep(POLL_S)


class Thrift:
    """A connection to the Thrift service; use it inside the switch's network namespace."""

    def __init__(self, host: str = "127.0.0.1", port: int = THRIFT_PORT) -> None:
        """Connect.

        Raises:
            SwitchError: there is no answer.
        """
        socket = TSocket(host, port)
        socket.setTimeout(TIMEOUT_MS)
        self._transport = TBufferedTransport(socket)
        try:
            self._transport.open()
        except TTransportException as error:
            raise SwitchError(f"BMv2's Thrift service at {host}:{port}: {error}") from error
        binary = TBinaryProtocol(self._transport)
        self._standard = TMultiplexedProtocol(binary, "standard")
        self._simple_switch = TMultiplexedProtocol(binary, "simple_switch")

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()

    def read_register(self, name: str, index: int) -> int:
        """One cell of a register array, by its full name in the JSON file."""
        return self._call(
            self._standard, "bm_register_read", ((TType.I32, 0), (TType.STRING, name), (TType.I32, index))
        )

    def write_register(self, name: str, index: int, value: int) -> None:
        """Set one cell of a register array."""
        arguments = ((TType.I32, 0), (TType.STRING, name), (TType.I32, index), (TType.I64, value))
        self._call(self._standard, "bm_register_write", arguments)

    def clock_us(self) -> int:
        """The clock that stamps packets: microseconds since the switch started."""
        return self._call(self._simple_switch, "get_time_elapsed_us", ())

    def set_queue_rate(self, port: int, priority: int, packets_per_second: int) -> None:
        """Rate of one queue, 0 for no limit. Frames that wait already keep the departure times they were given."""
        arguments = ((TType.I32, port), (TType.I32, priority), (TType.I64, packets_per_second))
        self._call(self._simple_switch, "set_egress_priority_queue_rate", arguments)

    def set_queue_depth(self, port: int, priority: int, packets: int) -> None:
        """Most packets that may wait in one queue."""
        arguments = ((TType.I32, port), (TType.I32, priority), (TType.I32, packets))
        self._call(self._simple_switch, "set_egress_priority_queue_depth", arguments)

    @staticmethod
    def _call(protocol: TMultiplexedProtocol, name: str, arguments: _Arguments) -> int:
        """A call with numbers and strings as arguments whose answer is a number or nothing (then 0)."""
        protocol.writeMessageBegin(name, TMessageType.CALL, 0)
        protocol.writeStructBegin(name)
        writers = {TType.I32: protocol.writeI32, TType.I64: protocol.writeI64, TType.STRING: protocol.writeString}
        for number, (kind, value) in enumerate(arguments, 1):
            protocol.writeFieldBegin("", kind, number)
            writers[kind](value)
            protocol.writeFieldEnd()
        protocol.writeFieldStop()
        protocol.writeStructEnd()
        protocol.writeMessageEnd()
        protocol.trans.flush()
        _, message, _ = protocol.readMessageBegin()
        if message == TMessageType.EXCEPTION:
            problem = TApplicationException()
            problem.read(protocol)
            protocol.readMessageEnd()
            raise SwitchError(f"BMv2: {name}: {problem}")
        return _read_answer(protocol, name)


def _read_answer(protocol: TMultiplexedProtocol, name: str) -> int:
    """The result struct of a call: field 0 is the answer, any other an exception that the call declares."""
    answer = 0
    refused = False
    protocol.readStructBegin()
    while True:
        _, kind, number = protocol.readFieldBegin()
        if kind == TType.STOP:
            break
        if number == 0 and kind == TType.I32:
            answer = protocol.readI32()
        elif number == 0 and kind == TType.I64:
            answer = protocol.readI64()
        else:
            refused = True
            protocol.skip(kind)
        protocol.readFieldEnd()
    protocol.readStructEnd()
    protocol.readMessageEnd()
    if refused:
        raise SwitchError(f"BMv2 refuses {name}: unknown name, or index out of range")
    return answer
