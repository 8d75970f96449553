# SPDX-License-Identifier: Apache-2.0
"""Ware et al., IMC 2019: a model of BBRv1 beside loss-based flows, checked against runs."""

from __future__ import annotations

from narrows_analysis.studies.model import (
    Control,
    Model,
    Pick,
    Plot,
    Spread,
    Statement,
    Study,
    StudyFigure,
    through_tbf,
)

BUFFER, COUNT = "bottleneck.buffer", "flows.cubic.count"

STUDY = Study(
    name="ware2019",
    citation="R. Ware, M. Mukerjee, S. Seshan, J. Sherry, \"Modeling BBR's Interactions with Loss-Based Congestion "
    'Control", IMC 2019',
    conditions="10 Mbit/s, 40 ms, queues of up to 32 and 64 BDP; the model is for deep buffers and long flows.",
    differences="The formula is evaluated for the very rate, buffer and frame size of each run.",
    figures=(
        StudyFigure(
            "model",
            "sweep",
            "1 BBR flow against 1 to 16 CUBIC flows, 2 to 32 BDP",
            (
                Statement(
                    "share",
                    "BBR's share is 1/2 + 1/(2X) + 4N/q, less its time in RTT probes",
                    "within 15 % of capacity at every setting",
                    Model(Pick("goodput_fraction.bbr"), "model_share", 0.15),
                    "%",
                    ("probe_gap_s", "bbr_bandwidth_sum", "bbr_model_window_bdp", "loss_ratio.bbr", "loss_ratio.cubic"),
                    "model",
                ),
                Statement(
                    "independent",
                    "it does not depend on the number of CUBIC flows",
                    "10 % of capacity apart or less",
                    Spread(Pick("goodput_fraction.bbr"), COUNT, most=0.10),
                    "%",
                    ("queue_fill", "bbr_min_rtt_s", "bbr_bandwidth_sum", "bbr_window_sum_bdp"),
                ),
            ),
            (
                Plot(
                    "lines",
                    "Share of one BBR flow, and the model's",
                    ("goodput_fraction.bbr", "model_share"),
                    BUFFER,
                    COUNT,
                ),
            ),
            (0.5, 1.0),
        ),
    ),
    controls=(
        Control("longer", "sweep", "for 240 s", ("share", "independent")),
        through_tbf("sweep", "share", "independent"),
    ),
)
