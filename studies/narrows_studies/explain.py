# SPDX-License-Identifier: Apache-2.0
"""Explains BBR's queue or loss at a setting, in sentences that state only measures.

BBR's flows fill path and queue up to the sum of their windows, and send at the sum of their pacing rates. Both are
known from the sockets, so a queue or a loss can be traced to the terms of the window.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from narrows_analysis.study_results import MeasuredPoint

from narrows_studies.checks import Pick, picks
from narrows_studies.evaluate import settings
from narrows_studies.judge import describe
from narrows_studies.model import Statement

Means = Mapping[str, float]

AGGREGATION = {True: "this kernel's BBR has it", False: "this kernel's BBR does not have it"}


def explain(statement: Statement, points: Sequence[MeasuredPoint], aggregation: bool | None = None) -> list[str]:
    """A sentence or two for each setting that the statement is about and that has the measures needed.

    Args:
        statement: with ``explained_by``; without it there is nothing to explain.
        points: of the figure's experiment.
        aggregation: whether the kernel's BBR has the term for acknowledgements in bursts; None if that is not known.
    """
    if not statement.explained_by:
        return []
    make = {"window": _window, "loss": _loss, "model": _model}[statement.explained_by]
    needed = NEEDED[statement.explained_by]
    sentences = []
    for pick in picks(statement.check):
        found = {name: settings(Pick(name, pick.where), points) for name in needed}
        for key in found[needed[0]]:
            if all(key in values for values in found.values()):
                means = {name: values[key].mean for name, values in found.items()}
                sentences.append(f"{describe(key)}{make(means, aggregation)}")
    return list(dict.fromkeys(sentences))


NOTICEABLE = 0.1
WINDOW = ("bbr_window_sum_bdp", "bbr_model_window_bdp", "bbr_budget_bdp", "bbr_aggregation_bdp")
NEEDED = {
    "window": (*WINDOW, "queue_bdp"),
    "loss": (*WINDOW, "bbr_pacing_sum", "loss_ratio", "buffer_bdp"),
    "model": (
        "bbr_window_sum_bdp", "bbr_min_rtt_s", "model_min_rtt_s", "queue_fill", "queue_bdp", "model_share",
        "goodput_fraction.bbr", "goodput_first_half.bbr", "goodput_second_half.bbr", "bbr_inflight_sum_bdp",
        "socket_rtt_s.bbr",
    ),
}  # fmt: skip


def _terms(means: Means) -> str:
    window, model, budget, aggregation = (means[name] for name in WINDOW)
    return (
        f"BBR's windows add up to {window:.2f} BDP: {model:.2f} gain x bandwidth x min RTT, "
        f"{budget:.2f} for the sender's batches, {aggregation:.2f} for ACK aggregation"
    )


def _since(aggregation: bool | None) -> str:
    has = AGGREGATION.get(aggregation) if aggregation is not None else None
    return "in Linux since 5.1" + (f"; {has}" if has else "")


def _window(means: Means, aggregation: bool | None) -> str:
    window, extra = means["bbr_window_sum_bdp"], means["bbr_aggregation_bdp"]
    return (
        f"{_terms(means)}. Minus the 1 BDP on the path this is {window - 1:.2f} BDP; the queue held "
        f"{means['queue_bdp']:.2f}. "
        f"Without the last term ({_since(aggregation)}) it would be {window - extra - 1:.2f} BDP."
    )


def loss_by_pacing(pacing_sum: float) -> float:
    """Loss if ``pacing_sum`` times the link's rate is sent into a full queue."""
    return max(0.0, 1 - 1 / pacing_sum) if pacing_sum > 0 else 0.0


def loss_by_window(window_bdp: float, buffer_bdp: float) -> float:
    """Loss if windows of ``window_bdp`` are sent in every round trip through a path of 1 BDP and a full buffer."""
    return max(0.0, 1 - (1 + buffer_bdp) / window_bdp) if window_bdp > 0 else 0.0


def _loss(means: Means, aggregation: bool | None) -> str:
    window, extra, buffer = means["bbr_window_sum_bdp"], means["bbr_aggregation_bdp"], means["buffer_bdp"]
    pacing = means["bbr_pacing_sum"]
    return (
        f"{_terms(means)}. In a path and buffer of {1 + buffer:.2f} BDP they allow a loss of up to "
        f"{loss_by_window(window, buffer):.1%}, without the last term ({_since(aggregation)}) of "
        f"{loss_by_window(window - extra, buffer):.1%}; pacing rates that add up to {pacing:.2f} of the link's allow "
        f"{loss_by_pacing(pacing):.1%}. The loss was {means['loss_ratio']:.1%}."
    )


def _model(means: Means, _: bool | None) -> str:
    """The model's premises beside the measurements: a full queue, and a min RTT set by what others keep in it."""
    window, total = means["bbr_window_sum_bdp"], 1 + means["queue_bdp"]
    inflight, rtt, least = means["bbr_inflight_sum_bdp"], means["socket_rtt_s.bbr"], means["bbr_min_rtt_s"]
    why = ""
    if inflight < (1 - NOTICEABLE) * window:
        why += (
            f"It had {inflight:.2f} BDP of its window in flight: it was limited by its pacing rate, and not by its "
            "window as in the model. "
        )
    if rtt > (1 + NOTICEABLE) * 2 * least:
        why += (
            "A window of twice bandwidth x min RTT keeps a share only while the RTT is at most twice the estimate, "
            f"{2 * least * 1e3:.0f} ms here; it was {rtt * 1e3:.0f} ms. "
        )
    return (
        f"the model assumes a full queue and expects a min RTT of {means['model_min_rtt_s'] * 1e3:.0f} ms; the "
        f"queue was {means['queue_fill']:.0%} full and BBR's estimate {means['bbr_min_rtt_s'] * 1e3:.0f} ms. BBR's "
        f"window was {window:.2f} BDP of the {total:.2f} BDP in path and queue, {window / total:.0%}. {why}Goodput "
        f"{means['goodput_fraction.bbr']:.0%} of the link ({means['goodput_first_half.bbr']:.0%} in the first half of "
        f"the window, {means['goodput_second_half.bbr']:.0%} in the second), the model's {means['model_share']:.0%}."
    )
