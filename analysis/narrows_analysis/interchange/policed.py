# SPDX-License-Identifier: Apache-2.0
"""Which of the drops that reports show were a link's policer's: reports count all of a link, records have the cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
from narrows_formats.units import NANOSECONDS

from narrows_analysis.interchange.raw import Report
from narrows_analysis.records.drops import POLICER, drop_batches
from narrows_analysis.records.reports import ReportClock
from narrows_analysis.records.run_directory import Run


class Policed:
    """The policer's part of the drops of one link's reports, asked for in order of the packets' arrival.

    A policer drops as packets arrive, so what it dropped until a packet came is in that packet's drops. Packets of one
    flow and one instant have no recorded order: a drop of the policer and one of the queue may be exchanged there.
    """

    def __init__(self, view: Run, clock: ReportClock) -> None:
        """Records are read as they are needed.

        Raises:
            narrows_analysis.AnalysisError: the table of drops is damaged.
        """
        link = view.bottleneck
        self._link = link
        self._known = link.policer is None or link.drops_recorded
        self._records = iter(()) if link.policer is None or not self._known else _records(view, clock)
        self._next = next(self._records, None)
        self._dropped: Counter[int] = Counter()

    @property
    def others(self) -> str:
        """What made the other drops of the link."""
        makers = [
            "the queue",
            *([] if self._link.ack_filter is None else ["its ACK filter"]),
            *(["the program"] if self._link.of_user else []),
        ]
        return " or ".join(makers)

    @property
    def marker(self) -> str:
        """What marks packets of the link."""
        return "the program" if self._link.of_user else "the queue"

    def of(self, report: Report) -> int | None:
        """How many of the report's drops; None where the link has a policer and its drops are not recorded."""
        if not self._known:
            return None
        while self._next is not None and self._next[0] <= report.arrived_ns:
            self._dropped[self._next[1]] += 1
            self._next = next(self._records, None)
        index = report.fields["flow"]
        found = min(report.drops, self._dropped[index])
        self._dropped[index] -= found
        return found


def _records(view: Run, clock: ReportClock) -> Iterator[tuple[int, int]]:
    """Time in ns from the experiment's start, and flow index, of each packet that the policer dropped."""
    for batch in drop_batches(view):
        mine = batch["cause"] == POLICER
        times = np.rint(clock.ticks(batch["timestamp"][mine]) * (clock.unit_s * NANOSECONDS)).astype(np.int64)
        yield from zip(times.tolist(), batch["flow"][mine].tolist(), strict=True)
