# SPDX-License-Identifier: Apache-2.0
"""A sender's state over time: statistics of its socket's readings, and the visits of BBR's phases."""

from __future__ import annotations

import pandas as pd
from narrows_formats.sender_readings import DERIVED, VISIT, Question

# BBRv3 has no value of these while nothing bounds them; that it would say so is seen from what it always has.
SHOWN_BY = dict.fromkeys(
    ("bbr_shortterm_bandwidth_bps", "bbr_shortterm_inflight_bytes", "bbr_longterm_inflight_bytes"),
    "bbr_extra_acked_bytes",
)
# A model of the path is needed for what is given in its BDPs.
OF_THE_MODEL = ("inflight_bdp", "cwnd_bdp")


class NotObservable(Exception):
    """The sender's kernel, or its congestion control, does not give what is asked for; the message says what."""


def answer(question: Question, rows: pd.DataFrame) -> float | None:
    """The statistic that is asked for; None where no reading is chosen, of a count 0.

    Args:
        question: what is asked.
        rows: readings of one socket in order of time, columns as `narrows_formats.columns.SOCKETS` has them.

    Raises:
        NotObservable: the readings cannot have it.
    """
    _refuse_unobservable(question, rows)
    seen = visits(rows) if question.needs_phase else pd.DataFrame()
    if question.phase:
        seen = seen[seen["phase"] == question.phase]
    if question.after:
        seen = seen[seen["after"] == question.after]
    if question.of_visits:
        seen = seen[seen["begin_s"].between(question.begin_s, question.end_s, inclusive="left")]
        return _statistic(seen[question.reading.removeprefix(f"{VISIT}.")], question.statistic)
    values = _values(question.reading, rows)
    chosen = rows["time_s"].between(question.begin_s, question.end_s, inclusive="left")
    if question.phase:
        inside = pd.Series(False, index=rows.index)
        for begin_s, end_s in zip(seen["begin_s"], seen["end_s"], strict=True):
            inside |= rows["time_s"].between(begin_s, end_s) & (rows["bbr_phase"] == question.phase).fillna(False)
        chosen &= inside
    return _statistic(values[chosen.astype(bool)].dropna(), question.statistic)


def visits(rows: pd.DataFrame) -> pd.DataFrame:
    """Each visit of a phase: its name, the one before it (``after``, empty at first), begin, end and length in seconds.

    A visit ends with the first reading in another phase, the last one with the last reading: shorter ones than the time
    between two readings may be missed.
    """
    known = rows[rows["bbr_phase"].notna()]
    begins = known[known["bbr_phase"].ne(known["bbr_phase"].shift()).fillna(True).astype(bool)]
    last_s = float(known["time_s"].iloc[-1]) if len(known) else 0.0
    ends = begins["time_s"].shift(-1, fill_value=last_s)
    return pd.DataFrame(
        {
            "phase": begins["bbr_phase"],
            "after": begins["bbr_phase"].shift().fillna(""),
            "begin_s": begins["time_s"],
            "end_s": ends,
            "length_s": ends - begins["time_s"],
        }
    ).reset_index(drop=True)


def _values(reading: str, rows: pd.DataFrame) -> pd.Series[float]:
    if reading not in DERIVED:
        return rows[reading]
    if reading == "acked_bps":
        # Between two readings, at the later one.
        return rows["acked_bytes"].diff() * 8 / rows["time_s"].diff()
    bdp_bytes = rows["bbr_bandwidth_bps"] / 8 * rows["bbr_min_rtt_s"]
    return rows[reading.replace("_bdp", "_bytes")] / bdp_bytes


def _refuse_unobservable(question: Question, rows: pd.DataFrame) -> None:
    if rows.empty:
        raise NotObservable("its state, by a TCP socket or by qlog")
    column = "bbr_bandwidth_bps" if question.reading in OF_THE_MODEL else question.reading
    needed = [SHOWN_BY.get(column, column)] if column in rows else []
    if question.needs_phase:
        needed.append("bbr_phase")
    for name in needed:
        if not rows[name].notna().any():
            raise NotObservable(name if name in ("bbr_phase", column) else column)


def _statistic(values: pd.Series[float], statistic: str) -> float | None:
    if statistic == "count":
        return float(len(values))
    if not len(values):
        return None
    if statistic == "growth":
        return float(values.iloc[-1] - values.iloc[0])
    if statistic in ("first", "last"):
        return float(values.iloc[0 if statistic == "first" else -1])
    return float(getattr(values, statistic)())
