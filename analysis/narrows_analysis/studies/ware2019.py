# SPDX-License-Identifier: Apache-2.0
"""Ware et al., IMC 2019: a model of BBRv1 beside loss-based flows, checked against runs."""

from __future__ import annotations

from narrows_analysis.studies.checks import Model, Pick, Spread
from narrows_analysis.studies.model import Study, before_5_1, control, figure, lines, says, through

BUFFER, COUNT = "bottleneck.buffer", "flows.cubic.count"

STUDY = Study(
    name="ware2019",
    citation="R. Ware, M. Mukerjee, S. Seshan, J. Sherry, \"Modeling BBR's Interactions with Loss-Based Congestion "
    'Control", IMC 2019',
    conditions="10 Mbit/s, 40 ms, queues of up to 32 and 64 BDP; the model is for deep buffers and long flows.",
    differences="The formula is evaluated for the very rate, buffer and frame size of each run.",
    figures=(
        figure("model", "sweep", "1 BBR flow against 1 to 16 CUBIC flows, 2 to 32 BDP", window=(0.5, 1.0))
        .states(
            says("the model", "share", "BBR's share is 1/2 + 1/(2X) + 4N/q, less its time in RTT probes")
            .agrees_if(
                "within 15 % of capacity at every setting",
                Model(pick=Pick("goodput_fraction.bbr"), expected="model_share", tolerance=0.15),
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
    ),
    controls=(
        control("longer", "sweep", "for 240 s", "share", "independent"),
        before_5_1("sweep", "share", "independent"),
        through("tbf", "sweep", "share", "independent"),
        through("mahimahi", "sweep", "share", "independent"),
    ),
)
