# SPDX-License-Identifier: Apache-2.0
"""Ware et al., IMC 2019: a model of BBRv1 beside loss-based flows, checked against runs."""

from __future__ import annotations

from narrows_studies.checks import Every, MedianError, Pick, Spread, within
from narrows_studies.model import (
    Study,
    before_5_1,
    cards,
    control,
    figure,
    lines,
    says,
    through,
)
from narrows_studies.papers.claims.ware2019 import CLAIMS

BUFFER, COUNT = "bottleneck.buffer", "flows.cubic.count"
DEEP = (8.0, 64.0)  # what the other publications here call large or deep begins at 8 BDP
MEDIAN_ERROR = 0.055  # "5 %"
RENO_ERROR = 0.085  # "8 %"
BBRS = "flows.bbr.count"
# Share of all BBR flows beside one of CUBIC at 10 Mbit/s and 40 ms on FABRIC, by buffer (BDP) and number of BBR flows.
MEASURED = {
    ("2", "1"): 0.601, ("8", "1"): 0.465, ("32", "1"): 0.346, ("2", "4"): 0.970, ("8", "4"): 0.630, ("32", "4"): 0.439,
}  # fmt: skip
POINTS = 0.05

STUDY = Study(
    name="ware2019",
    citation="R. Ware, M. Mukerjee, S. Seshan, J. Sherry, \"Modeling BBR's Interactions with Loss-Based Congestion "
    'Control", IMC 2019',
    conditions="10 Mbit/s, 40 ms, queues of up to 32 and 64 BDP; the model is for deep buffers and long flows.",
    differences="The formula is evaluated for the very rate, buffer and frame size of each run.",
    figures=(
        figure("model", "sweep", "1 BBR flow against 1 to 16 CUBIC flows, 2 to 32 BDP", window=(0.5, 1.0))
        .states(
            says(
                "abstract, and the model",
                "share",
                "BBR's share is 1/2 + 1/(2X) + 4N/q, less its time in RTT probes, with a median error of 5 % beside "
                "CUBIC",
            )
            .agrees_if(
                "median error over all settings from 8 BDP on 5 % of capacity, rounded, or less",
                MedianError(
                    pick=Pick("goodput_fraction.bbr", {BUFFER: DEEP}), expected="model_share", most=MEDIAN_ERROR
                ),
                changed="Every setting had to be within 15 % of capacity, those of shallow buffers too, of which the "
                "model says nothing; what is published is a median error, for deep buffers.",
            )
            .with_evidence(
                "probe_gap_s",
                "bbr_bandwidth_sum",
                "bbr_model_window_bdp",
                "loss_ratio.bbr",
                "loss_ratio.cubic",
                explained_by="model",
            ),
            says("the model", "independent", "it does not depend on the number of CUBIC flows")
            .agrees_if(
                "10 % of capacity apart or less", Spread(pick=Pick("goodput_fraction.bbr"), across=COUNT, most=0.1)
            )
            .with_evidence("queue_fill", "bbr_min_rtt_s", "bbr_bandwidth_sum", "bbr_window_sum_bdp"),
        )
        .plotted(
            lines("Share of one BBR flow, and the model's", "goodput_fraction.bbr", "model_share", x=BUFFER, by=COUNT)
        ),
        figure("reno", "reno", "1 BBR flow against 1 to 16 Reno flows, 2 to 32 BDP", window=(0.5, 1.0))
        .states(
            says("abstract", "share", "against Reno the model has a median error of 8 %")
            .agrees_if(
                "median error over all settings from 8 BDP on 8 % of capacity, rounded, or less",
                MedianError(pick=Pick("goodput_fraction.bbr", {BUFFER: DEEP}), expected="model_share", most=RENO_ERROR),
            )
            .with_evidence("queue_fill", "bbr_min_rtt_s", "bbr_window_sum_bdp", explained_by="model"),
        )
        .plotted(
            lines(
                "Share of one BBR flow beside Reno, and the model's",
                "goodput_fraction.bbr",
                "model_share",
                x=BUFFER,
                by="flows.reno.count",
            )
        ),
        figure(
            "fabric", "single-cubic", "1 to 32 BBR flows against a single CUBIC flow, 1 to 64 BDP", window=(0.5, 1.0)
        )
        .states(
            says(
                "evaluation on FABRIC (2025), figures 2a and 2b",
                "single",
                "against a single CUBIC flow the model holds for BBRv1, however many flows of it there are",
            )
            .agrees_if(
                "median error over all settings from 8 BDP on 5 % of capacity, rounded, or less",
                MedianError(
                    pick=Pick("goodput_fraction.bbr", {BUFFER: DEEP}), expected="model_share", most=MEDIAN_ERROR
                ),
                changed="It was not judged.",
            )
            .with_evidence("queue_fill", "bbr_min_rtt_s", "bbr_window_sum_bdp", explained_by="model"),
            says(
                "evaluation on FABRIC (2025), data of figure 2a",
                "measured",
                "one BBR flow has 60, 46 and 35 % of what both algorithms have at 2, 8 and 32 BDP, four have 97, 63 "
                "and 44 %",
            )
            .agrees_if(
                "within 5 points of the mean of its three runs at each of these; the tolerance is ours",
                Every(
                    tuple(
                        within(
                            "share.bbr",
                            {BUFFER: f"{buffer}bdp", BBRS: count},
                            low=share - POINTS,
                            high=share + POINTS,
                        )
                        for (buffer, count), share in MEASURED.items()
                    )
                ),
                changed="It was not judged; it is judged since its first repetitions were here.",
            )
            .with_evidence("goodput_fraction.bbr", "model_share", "queue_fill", "bbr_min_rtt_s"),
        )
        .plotted(
            lines(
                "Share of all BBR flows, and the model's",
                "goodput_fraction.bbr",
                "model_share",
                x=BUFFER,
                by=BBRS,
            )
        ),
    ),
    shown="model",
    account="The text was not at hand: claims are those of an article by its first author about it (2024), and of the "
    "abstract, data and configuration files of the evaluation on FABRIC (F. B. Sarpkaya et al., BBR's Sharing Behavior "
    "with CUBIC and Reno, 2025).",
    claims=CLAIMS,
    controls=(
        cards("sweep", "share", "independent"),
        control("longer", "sweep", "for 240 s", "share", "independent"),
        before_5_1("sweep", "share", "independent"),
        through("tbf", "sweep", "share", "independent"),
        through("mahimahi", "sweep", "share", "independent"),
    ),
)
