# SPDX-License-Identifier: Apache-2.0
"""A run's metrics in Prometheus' text format: its collector's, and the switch's of its links."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from http.server import ThreadingHTTPServer
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric

from narrows.errors import InputError
from narrows.experiment.plan import Plan
from narrows.live.serving import Handler, Served
from narrows.run.collector_figures import figures_at
from narrows.switch.readings import QueueStats

DEFAULT_ADDRESS = "127.0.0.1:9464"
CONTENT = "text/plain; version=0.0.4; charset=utf-8"
LINK = ("bottleneck", "link")


class MetricsPage(Served):
    """Serves ``/metrics``; a context manager. Between runs it has the metrics of the last one."""

    def __init__(self, address: str = DEFAULT_ADDRESS) -> None:
        """Take the address, HOST:PORT.

        Raises:
            InputError: it is none, or cannot be had.
        """
        host, _, port = address.rpartition(":")
        self._lock = threading.Lock()
        self._plan: Plan | None = None
        self._collector: Path | None = None
        self._collected = ""
        self._queues: Mapping[str, QueueStats] = {}
        option = f"--metrics-address {address}"
        if not host or not port.isdecimal():
            raise InputError(f"{option}: allowed: HOST:PORT, such as {DEFAULT_ADDRESS}")
        place = (host.removeprefix("[").removesuffix("]"), int(port))
        super().__init__(_Server, place, _handler(self.text, host.lower()), option, "a free port of this machine")

    @property
    def url(self) -> str:
        """Address of the page."""
        host, port = self._server.server_address[:2]
        name = f"[{host!s}]" if ":" in str(host) else str(host)
        return f"http://{name}:{port}/metrics"

    def begin(self, plan: Plan, collector: Path | None) -> None:
        """See `narrows.run.metrics_sink.MetricsSink`."""
        with self._lock:
            self._plan, self._collector, self._collected, self._queues = plan, collector, "", {}

    def queues(self, queues: Mapping[str, QueueStats]) -> None:
        """See `narrows.run.metrics_sink.MetricsSink`."""
        with self._lock:
            self._queues = queues

    def end(self) -> None:
        """See `narrows.run.metrics_sink.MetricsSink`."""
        with self._lock:
            self._collected, self._collector = self._of_collector(), None

    def text(self) -> str:
        """The page of this moment."""
        with self._lock:
            if self._plan is None:
                return ""
            own = _Families(families(self._plan, self._queues))
            return generate_latest(own).decode() + self._of_collector()

    def _of_collector(self) -> str:
        """What the collector shows; nothing before it has begun, or when it has failed, which the run says."""
        if self._collector is None:
            return self._collected
        try:
            return figures_at(self._collector)
        except (OSError, http.client.HTTPException):
            return ""


def families(plan: Plan, queues: Mapping[str, QueueStats]) -> list[Metric]:
    """What the switch says of the links' queues; what a target cannot tell is left out."""
    named = {link.name: (str(link.index), link.name) for link in plan.links}
    found: list[Metric] = []

    def add(family: CounterMetricFamily | GaugeMetricFamily, value: Callable[[QueueStats], int | None]) -> None:
        for name, queue in queues.items():
            if (known := value(queue)) is not None:
                family.add_metric(named[name], known)
        if family.samples:
            found.append(family)

    def gauge(name: str, text: str, value: Callable[[QueueStats], int | None]) -> None:
        add(GaugeMetricFamily(f"narrows_queue_{name}", text, labels=LINK), value)

    def counter(name: str, text: str, value: Callable[[QueueStats], int | None]) -> None:
        add(CounterMetricFamily(f"narrows_queue_{name}", text, labels=LINK), value)

    links = InfoMetricFamily("narrows_link", "Links of the run", labels=LINK)
    for link in plan.reported:
        links.add_metric((str(link.index), link.name), {})
    found.append(links)
    gauge("rate_bits_per_second", "Rate that is set", lambda queue: queue.rate_bps)
    gauge("limit_bytes", "Bytes that may wait; 0: no limit", lambda queue: queue.limit_bytes)
    gauge("limit_packets", "Packets that may wait; 0: no limit", lambda queue: queue.limit_packets)
    gauge("depth_bytes", "Bytes waiting", lambda queue: queue.depth_bytes)
    gauge("depth_packets", "Packets waiting", lambda queue: queue.depth_packets)
    gauge("peak_depth_bytes", "Most bytes that ever waited at once", lambda queue: queue.peak_depth_bytes)
    counter("enqueued_packets", "Packets admitted", lambda queue: queue.enqueued_packets)
    counter("dequeued_packets", "Packets started on the link", lambda queue: queue.dequeued_packets)
    counter("dequeued_bytes", "Bytes started on the link", lambda queue: queue.dequeued_bytes)
    counter("drops_packets", "Packets dropped by the queue", lambda queue: queue.dropped_packets)
    counter("duplicated_packets", "Packets that left the delay line twice", lambda queue: queue.duplicated_packets)
    return found


class _Families(CollectorRegistry):
    """Families of one moment, as the library wants them."""

    def __init__(self, found: Iterable[Metric]) -> None:
        super().__init__()
        self._found = list(found)

    def collect(self) -> Iterable[Metric]:
        return self._found


class _Server(ThreadingHTTPServer):
    daemon_threads = True


def _handler(text: Callable[[], str], name: str) -> type[Handler]:
    class Page(Handler):
        """One page."""

        names = (name,)

        def do_GET(self) -> None:
            """Answer one request."""
            if self.path != "/metrics":
                self.send_error(HTTPStatus.NOT_FOUND, "there is only /metrics")
                return
            body = text().encode()
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", CONTENT)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Page
