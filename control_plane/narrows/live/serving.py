# SPDX-License-Identifier: Apache-2.0
"""A web server of a run, from the standard library: a thread that starts and ends with it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

from narrows.errors import InputError


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
