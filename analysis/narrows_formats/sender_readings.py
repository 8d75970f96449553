# SPDX-License-Identifier: Apache-2.0
"""What can be asked of a sender's socket over time: ``bbr_bandwidth_bps.last[STARTUP]``, a statistic of a reading.

``[...]`` chooses readings: by a part of the run (``2s:5s``, ``2s:``, ``:5s``), by a phase of BBR (``DRAIN``), by a
phase that follows another one (``STARTUP/DRAIN``), or by both (``DRAIN,2s:``).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from narrows_formats.columns import BBR_PHASES, SOCKETS, TEXTS
from narrows_formats.units import UnitError, parse_time

# Not in the table, and computed from it: `sender_state` of the analysis says how.
DERIVED = ("acked_bps", "inflight_bdp", "cwnd_bdp")
# Of each visit of a phase, from the first reading that has it to the first reading that has another one.
OF_VISITS = ("begin_s", "end_s", "length_s")
VISIT = "phase"
_NOT_ASKED = ("time_s", "flow", "src_port", "dst_port", *TEXTS)
READINGS = (*(column.name for column in SOCKETS if column.name not in _NOT_ASKED), *DERIVED)
# `growth` is the last value less the first, of counters.
STATISTICS = ("min", "max", "mean", "first", "last", "growth", "count")
ALLOWED = "senders.FLOW.READING.STATISTIC[WHICH], such as senders.bbr.bbr_bandwidth_bps.last[STARTUP] >= 90Mbit"
_FORM = re.compile(r"(?P<reading>[a-z0-9_.]+)\.(?P<statistic>[a-z0-9]+)(?:\[(?P<which>[^\[\]]+)\])?\Z")
_NS = 1e-9


class BadQuestion(ValueError):
    """A question that cannot be; ``allowed`` says what would have been right."""

    def __init__(self, problem: str, allowed: str) -> None:
        """Keep the two apart, so that callers can put the question between them."""
        super().__init__(problem)
        self.allowed = allowed


@dataclass(frozen=True)
class Question:
    """A statistic of a reading.

    Attributes:
        reading: a column of sockets.parquet, one of `DERIVED`, or of `OF_VISITS` behind ``phase.``.
        statistic: one of `STATISTICS`.
        phase: only readings in this phase of BBR; empty: in any.
        after: only visits of the phase that follow this one; empty: any.
        begin_s: only readings from then on, from the start of the experiment.
        end_s: only readings before that.
    """

    reading: str
    statistic: str
    phase: str = ""
    after: str = ""
    begin_s: float = -math.inf
    end_s: float = math.inf

    @property
    def of_visits(self) -> bool:
        """Whether visits of a phase are asked for, and not readings."""
        return self.reading.startswith(f"{VISIT}.")

    @property
    def needs_phase(self) -> bool:
        """Whether the answer depends on BBR's phase."""
        return bool(self.of_visits or self.phase)


def parse(text: str) -> Question:
    """A question as it is written behind the flow's name.

    Raises:
        BadQuestion: it is not of that form, or asks for what there is not.
    """
    match = _FORM.match(text)
    if match is None:
        raise BadQuestion("is not a statistic of a sender's reading", ALLOWED)
    reading, statistic, which = match["reading"], match["statistic"], match["which"]
    readings = (*READINGS, *(f"{VISIT}.{name}" for name in OF_VISITS))
    for found, known, what in ((reading, readings, "reading"), (statistic, STATISTICS, "statistic")):
        if found not in known:
            raise BadQuestion(f"has the unknown {what} '{found}'", ", ".join(known))
    phase = after = ""
    begin_s, end_s = -math.inf, math.inf
    for part in (which or "").split(",") if which else ():
        if ":" in part:
            begin_s, end_s = _window(part)
        else:
            after, _, phase = part.rpartition("/")
            for one in filter(None, (after, phase)):
                if one not in BBR_PHASES:
                    raise BadQuestion(f"has the unknown phase '{one}'", ", ".join(BBR_PHASES))
    if reading.startswith(f"{VISIT}.") and not phase:
        raise BadQuestion("asks for visits of no phase", f"with one in brackets: {', '.join(BBR_PHASES)}")
    return Question(reading, statistic, phase, after, begin_s, end_s)


def _window(part: str) -> tuple[float, float]:
    ends = part.split(":")
    allowed = "BEGIN:END in times, such as 2s:5s, 2s: or :500ms, in that order"
    if len(ends) != 2:
        raise BadQuestion(f"has the time '{part}'", allowed)
    first, last = ends
    try:
        begin_s = parse_time(first) * _NS if first else -math.inf
        end_s = parse_time(last) * _NS if last else math.inf
    except UnitError:
        raise BadQuestion(f"has the time '{part}'", allowed) from None
    if begin_s >= end_s:
        raise BadQuestion(f"has the time '{part}'", allowed)
    return begin_s, end_s
