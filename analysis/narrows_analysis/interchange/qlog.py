# SPDX-License-Identifier: Apache-2.0
"""qlog files, which QUIC stacks write of a connection: their events as a stream, in JSON or as JSON text sequences.

Sources: draft-ietf-quic-qlog-main-schema (versions until 14), and draft-marx-qlog-main-schema-01, whose events are
arrays. A stack that is ended in the midst of a line leaves the file cut: what is whole counts.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import BinaryIO

from narrows_formats import bounded_json
from narrows_formats.bounded_json import NotJsonError

from narrows_analysis.errors import AnalysisError
from narrows_analysis.interchange.json_stream import Cut, JsonStream

SUFFIXES = (".qlog", ".sqlog")
RECORD_SEPARATOR = b"\x1e"
CHUNK_BYTES = 1 << 20
# No stack writes an event of that length.
MOST_EVENT_BYTES = 16 << 20
_MS = {"ms": 1.0, "us": 1e-3}
_DELTA = ("delta", "relative_to_previous_event")
_FORMATS = (*_DELTA, "relative", "relative_to_epoch", "absolute")
# Of draft-marx-qlog-main-schema-01, whose format is the name of the field.
_TIMES = {"time": None, "relative_time": "relative", "delta_time": "delta"}


class QlogError(AnalysisError):
    """A file that is not qlog as its drafts have it."""


@dataclass(frozen=True)
class Event:
    """``name`` is without its namespace or category, ``time_ms`` counts from the trace's reference."""

    time_ms: float
    name: str
    data: Mapping[str, object]


@dataclass
class Trace:
    """What is said of all events of a trace.

    Attributes:
        vantage: which end has logged: "client", "server", or what else the file says; empty if nothing.
        reference_ms: what times count from, in ms since 1970; None where the file says that this is not known.
        unit_ms: the unit of times and of durations, RTTs too.
        time_format: of times that do not say it themselves.
        fields: names of what stands in events that are arrays.
    """

    vantage: str
    reference_ms: float | None
    unit_ms: float
    time_format: str
    fields: tuple[str, ...]
    _last_ms: float = 0.0

    def event(self, found: object) -> Event | None:
        """An event as it stands in the file; None if it is none, or has no time."""
        if isinstance(found, list):
            found = dict(zip(self.fields, found, strict=False))
        if not isinstance(found, dict):
            return None
        data, name = found.get("data"), found.get("name") or found.get("event") or found.get("event_type")
        key = next((key for key in _TIMES if key in found), None)
        if key is None or not isinstance(data, dict) or not isinstance(name, str):
            return None
        time = number(found[key])
        if time is None:
            return None
        said = found.get("time_format") or _TIMES[key] or self.time_format
        self._last_ms = time * self.unit_ms + (self._last_ms if said in _DELTA else 0.0)
        return Event(self._last_ms, name.lower().rpartition(":")[2], data)


@dataclass
class QlogFile:
    """A file, read once. ``cut`` and ``broken``, records that were left out, are known when its events have been."""

    stream: BinaryIO
    cut: bool = False
    broken: int = 0
    _ahead: bytes = field(default=b"", init=False)

    def events(self) -> Iterator[tuple[Trace, Event]]:
        """The events of all traces, in the file's order.

        Raises:
            QlogError: it is not qlog.
        """
        try:
            self._ahead = self.stream.read(CHUNK_BYTES)
            if self._ahead.startswith(RECORD_SEPARATOR):
                yield from self._sequence(RECORD_SEPARATOR)
            elif self._is_a_line_each():
                yield from self._sequence(b"\n")
            else:
                yield from self._contained()
        except NotJsonError as error:
            raise QlogError(f"{error}; allowed: qlog in JSON, or as JSON text sequences") from None

    def _is_a_line_each(self) -> bool:
        """Whether the first line is a file's head (NDJSON, before there were text sequences)."""
        try:
            head = bounded_json.parse(self._ahead.partition(b"\n")[0])
        except NotJsonError:
            return False
        return isinstance(head, dict) and "trace" in head

    def _sequence(self, separator: bytes) -> Iterator[tuple[Trace, Event]]:
        trace = None
        for record, is_last in self._records(separator):
            try:
                found = bounded_json.parse(record)
            except NotJsonError:
                # The end of a file has no separator behind it: then the record may be cut.
                self.cut |= is_last
                self.broken += not is_last
                continue
            if trace is None:
                if not isinstance(found, dict) or not isinstance(found.get("trace"), dict):
                    raise QlogError("does not begin with a trace; allowed: qlog in JSON, or as JSON text sequences")
                trace = _trace(found["trace"])
            elif (event := trace.event(found)) is not None:
                yield trace, event
            else:
                self.broken += 1
        if trace is None:
            raise QlogError("has no trace; allowed: qlog in JSON, or as JSON text sequences")

    def _records(self, separator: bytes) -> Iterator[tuple[bytes, bool]]:
        """Each record, and whether it is the last one."""
        rest, chunk = b"", self._ahead
        while chunk:
            *whole, rest = (rest + chunk).split(separator)
            if len(rest) > MOST_EVENT_BYTES:
                raise QlogError(f"has an event of more than {MOST_EVENT_BYTES >> 20} MiB")
            yield from ((record, False) for record in whole if record.strip())
            chunk = self.stream.read(CHUNK_BYTES)
        if rest.strip():
            yield rest, True

    def _contained(self) -> Iterator[tuple[Trace, Event]]:
        text = JsonStream(io.BufferedReader(_Rejoined(self._ahead, self.stream)), MOST_EVENT_BYTES)
        has_traces = False
        try:
            for key in text.members():
                if key != "traces":
                    text.value()
                    continue
                has_traces = True
                for _ in text.elements():
                    yield from self._events_of_a_trace(text)
        except Cut:
            self.cut = True
        if not has_traces:
            raise QlogError("has no traces; allowed: qlog in JSON, or as JSON text sequences")

    def _events_of_a_trace(self, text: JsonStream) -> Iterator[tuple[Trace, Event]]:
        head: dict[str, object] = {}
        trace = None
        for key in text.members():
            if key == "events":
                trace = _trace(head)
                for _ in text.elements():
                    if (event := trace.event(text.value())) is not None:
                        yield trace, event
                    else:
                        self.broken += 1
            else:
                head[key] = text.value()
                if trace is not None and _trace(head) != _trace({**head, key: None}):
                    raise QlogError(f"has {key} behind the events that it is of; allowed: in front of them")


class _Rejoined(io.RawIOBase):
    """A stream with what has been read of it in front again."""

    def __init__(self, ahead: bytes, stream: BinaryIO) -> None:
        self._ahead, self._stream = io.BytesIO(ahead), stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._ahead.read(len(buffer)) or self._stream.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def number(value: object) -> float | None:
    """A finite number, also one that stands in a text, as in the first drafts; None if it is none."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def _trace(head: Mapping[str, object]) -> Trace:
    common, configuration, vantage = (
        found if isinstance(found := head.get(name), dict) else {}
        for name in ("common_fields", "configuration", "vantage_point")
    )
    unit_ms = _MS.get(str(configuration.get("time_units", "ms")))
    if unit_ms is None:
        raise QlogError(f"has the time_units {configuration['time_units']!r:.40}; allowed: {', '.join(_MS)}")
    time_format = common.get("time_format", "relative")
    if time_format not in _FORMATS:
        raise QlogError(f"has the time_format {time_format!r:.40}; allowed: {', '.join(_FORMATS)}")
    reference_ms = 0.0 if time_format == "absolute" else _reference_ms(common.get("reference_time", 0.0), unit_ms)
    fields = head.get("event_fields")
    names = tuple(str(name).lower() for name in fields) if isinstance(fields, list) else ()
    return Trace(str(vantage.get("type", "")).lower(), reference_ms, unit_ms, str(time_format), names)


def _reference_ms(said: object, unit_ms: float) -> float | None:
    if isinstance(said, dict):
        # `wall_clock_time` is not to be relied on, as the draft says.
        said = said.get("epoch", 0.0)
    if (value := number(said)) is not None:
        return value * unit_ms
    try:
        date = datetime.fromisoformat(str(said))
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() * 1e3
    except (ValueError, OverflowError):
        return None
