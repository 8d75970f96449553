# SPDX-License-Identifier: Apache-2.0
"""The process that makes flows of a host: ``serve.py MODULES SPECIFICATION``.

The first of the modules, comma-separated, has the class of the sockets (``SOCKETS``); the others have kinds of flows.
It prints ``ready``, and a `wire.Event` a line, until SIGTERM or SIGINT. Only the standard library of Python 3.8 is
used, so that it runs on any host.
"""

from __future__ import annotations

import importlib
import os
import signal
import socket
import sys
import threading
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from narrows.onhost import wire
    from narrows.onhost.sockets import Sockets, Surroundings
else:
    sys.path.insert(0, str(Path(__file__).parent))
    import wire
    from sockets import Sockets, Surroundings


def load(modules: str, *_: str) -> type[Sockets]:
    """Import what `main` needs, for its arguments; returns the class of the sockets."""
    first, *_others = [importlib.import_module(name) for name in modules.split(",")]
    found: type[Sockets] = first.SOCKETS
    return found


def main(modules: str, file: str) -> None:
    """Make flows as a specification says; files that it names are next to it, as one named after each group that has
    ended."""
    kind = load(modules)
    specification: wire.Specification = wire.loads(Path(file).read_text(encoding="utf-8"))
    directory, lock = Path(file).parent, threading.Lock()

    def tell(event: wire.Event) -> None:
        with lock:
            print(wire.dumps(event), flush=True)

    def has_ended(group: str) -> bool:
        return (directory / f"{group}.ended").exists()

    sockets = kind(Surroundings(open_here, tell, has_ended, specification.batch_bytes))
    ended = threading.Event()

    def end(*_: object) -> None:
        ended.set()
        sockets.stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    sockets.listen(specification.host, specification.receive)
    sockets.prepare(specification.send)
    if specification.commands is not None:
        commands = os.open(specification.commands, os.O_RDONLY)
        threading.Thread(target=run_commands, args=(sockets, commands), daemon=True).start()
    print("ready", flush=True)
    t0_s = None
    # A host that only receives need not know when the experiment begins.
    if specification.send:
        t0_s = wire.wait_for_origin(directory / specification.origin, ended.is_set)
    sockets.run(t0_s or 0.0)
    sockets.close()


def run_commands(sockets: Sockets, pipe: int) -> None:
    """Do what comes out of a pipe: a `wire.Command` a line."""
    with open(pipe, encoding="utf-8") as lines:
        for line in lines:
            sockets.do(wire.loads(line))


def open_here(_: str, family: int, kind: int) -> socket.socket:
    """Open a socket of this host."""
    return socket.socket(family, kind)


if __name__ == "__main__":
    main(*sys.argv[1:])
