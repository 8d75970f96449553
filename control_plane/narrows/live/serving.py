# SPDX-License-Identifier: Apache-2.0
"""A web server of a run, from the standard library: a thread that starts and ends with it."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import threading
from collections.abc import Callable, Collection
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from narrows.errors import InputError

# Both a whole request and each piece of an answer have to be through by then.
PATIENCE_S = 5.0


def is_own(host: str | None, names: Collection[str] = ()) -> bool:
    """Whether a Host header is an address, or a name of this machine's (also one of ``names``).

    A script of another site whose name it lets resolve to this machine would send that site's name.
    """
    with contextlib.suppress(ValueError):
        name = urlsplit(f"//{host or ''}").hostname
        if name in {"localhost", socket.gethostname().lower(), *names}:
            return True
        return bool(ipaddress.ip_address(name or ""))
    return False


class Handler(BaseHTTPRequestHandler):
    """Answers one request of a client, however slow it is, if it asks for this machine by name or address."""

    timeout = PATIENCE_S
    names: tuple[str, ...] = ()
    """Further names of this machine."""

    def setup(self) -> None:
        """Begin to wait for a request, for a limited time: a byte now and then does not extend it."""
        super().setup()
        self._limit = threading.Timer(PATIENCE_S, self._hang_up)
        self._limit.daemon = True
        self._limit.start()

    def parse_request(self) -> bool:
        """Read the rest of a request; whether it is to be answered."""
        whole = super().parse_request()
        self._limit.cancel()
        if whole and not is_own(self.headers.get("Host"), self.names):
            self.send_error(HTTPStatus.FORBIDDEN)
            return False
        return whole

    def finish(self) -> None:
        """End the connection."""
        self._limit.cancel()
        self._limit.join()
        with contextlib.suppress(OSError):
            super().finish()

    def log_message(self, format: str, *args: object) -> None:
        """Requests are of no interest to the user of a run."""

    def _hang_up(self) -> None:
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)


class Served:
    """Serves what its handler answers; a context manager."""

    def __init__(
        self,
        server: type[ThreadingHTTPServer],
        address: tuple[str, int],
        handler: Callable[..., BaseHTTPRequestHandler],
        option: str,
        allowed: str,
    ) -> None:
        """Take the address.

        Args:
            server: how its connections end.
            address: host and TCP port.
            handler: answers requests.
            option: what the user wrote, for the error.
            allowed: what could be there instead.

        Raises:
            InputError: the address cannot be had.
        """
        try:
            self._server = server(address, handler)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or "is no TCP port"
            raise InputError(f"{option}: {reason}; allowed: {allowed}") from error
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name=option)

    def __enter__(self) -> Self:
        """Begin to serve."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """No thread and no port is left."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
