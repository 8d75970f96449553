# SPDX-License-Identifier: Apache-2.0
"""The live view as a web page: on this machine only, from the standard library, gone when the runs are over."""

from __future__ import annotations

import json
import secrets
import threading
from collections import deque
from http import HTTPStatus
from http.server import ThreadingHTTPServer
from importlib.resources import files
from types import TracebackType
from typing import Any

from narrows.live.serving import Handler, Served

ADDRESS = "127.0.0.1"
# Ten minutes at two snapshots a second: what a page that is opened late can still show.
HISTORY = 1200
OF_A_RUN = ("run", "phase", "pace")
KEEP_ALIVE_S = 5.0
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:"

Event = tuple[int, str]


class LivePage(Served):
    """Serves one page and a stream of events to any number of browsers; a context manager.

    Events are JSON objects with a ``kind``. ``runs`` names all runs that there will be, and most others say by ``run``
    which one they are of (the first without it): ``run`` begins it and empties its history, ``phase``, ``pace`` and
    ``snapshot`` belong to it, ``ended`` says what became of it. ``report`` has its page as ``html``: this server is
    gone when it is read. ``end`` is the last of all. A page that comes late gets the snapshots of the runs under
    way, and the latest event of each other kind.
    """

    def __init__(self, port: int = 0) -> None:
        """Take the TCP port, any free one if 0.

        Raises:
            InputError: it cannot be had.
        """
        self._news = threading.Condition()
        # Of each run under way, and the latest of each kind that is kept, of each run.
        self._snapshots: dict[int, deque[Event]] = {}
        self._latest: dict[tuple[int, str], Event] = {}
        self._number = 0
        self._closed = False
        # Other users of this machine can connect, too.
        self._token = secrets.token_urlsafe(16)
        super().__init__(_Server, (ADDRESS, port), _handler(self), f"--live-port {port}", "a free port, 0 for any")

    @property
    def port(self) -> int:
        """TCP port."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """Address of the page."""
        return f"http://{ADDRESS}:{self.port}{self.path}"

    @property
    def path(self) -> str:
        """Path of the page, which only those know to whom it was said."""
        return f"/{self._token}/"

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End every page; no thread and no port is left."""
        self.publish("end", {})
        with self._news:
            self._closed = True
            self._news.notify_all()
        super().__exit__(kind, error, trace)

    def publish(self, kind: str, data: dict[str, Any]) -> None:
        """Send an event to all pages, now and later."""
        run = int(data.get("run", 0))
        with self._news:
            if kind in ("run", "ended"):
                self._snapshots.pop(run, None)
                for old in OF_A_RUN:
                    self._latest.pop((run, old), None)
            self._number += 1
            event = (self._number, json.dumps({"kind": kind, **data}, allow_nan=False))
            if kind == "snapshot":
                self._snapshots.setdefault(run, deque(maxlen=HISTORY)).append(event)
            else:
                self._latest[run, kind] = event
            self._news.notify_all()

    def wait(self, after: int) -> tuple[list[Event], bool]:
        """Events later than number ``after``, once there are any (none after a while); and whether it is over."""
        with self._news:
            if self._number <= after and not self._closed:
                self._news.wait(KEEP_ALIVE_S)
            kept = (self._latest.values(), *self._snapshots.values())
            events = [event for events in kept for event in events if event[0] > after]
            return sorted(events), self._closed


class _Server(ThreadingHTTPServer):
    """Waits for its threads on closing: they end by themselves when the page is closed."""

    daemon_threads = False
    block_on_close = True


def page() -> str:
    """The page, self-contained, in the style of the reports and with their charts."""
    body = (files("narrows") / "live" / "page.html").read_text(encoding="utf-8")
    for name in ("report.css", "charts.js"):
        body = body.replace(f"/* {name} */", (files("narrows_analysis") / "static" / name).read_text(encoding="utf-8"))
    return body


def _handler(live: LivePage) -> type[Handler]:
    class Page(Handler):
        """The page, and its events as server-sent events."""

        def do_GET(self) -> None:
            """Answer one request."""
            asked = self.path.encode()
            if secrets.compare_digest(asked, live.path.encode()):
                self._send(page().encode())
            elif secrets.compare_digest(asked, f"{live.path}events".encode()):
                self._stream()
            else:
                self.send_error(HTTPStatus.NOT_FOUND, "no such page")

        def _head(self, kind: str) -> None:
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Cache-Control", "no-store")
            self.send_header("Content-Security-Policy", POLICY)
            self.send_header("Referrer-Policy", "no-referrer")
            self.send_header("X-Content-Type-Options", "nosniff")

        def _send(self, body: bytes) -> None:
            self._head("text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _stream(self) -> None:
            self._head("text/event-stream")
            self.end_headers()
            last = self._last_event()
            try:
                while True:
                    events, closed = live.wait(last)
                    if closed and not events:
                        return
                    text = "".join(f"id: {number}\ndata: {data}\n\n" for number, data in events) or ": still here\n\n"
                    self.wfile.write(text.encode())
                    last = events[-1][0] if events else last
            except OSError:
                return  # The page was closed.

        def _last_event(self) -> int:
            """Where a page that lost its connection goes on."""
            text = self.headers.get("Last-Event-ID", "0")
            return int(text) if text.isascii() and text.isdigit() else 0

    return Page
