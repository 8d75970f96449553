# SPDX-License-Identifier: Apache-2.0
"""Claypool et al., "Sharing but not Caring" (2019): what it says, figure by figure."""

from __future__ import annotations

from narrows_analysis.studies.model import (
    Compare,
    Control,
    Crossing,
    Pick,
    Plot,
    Statement,
    Study,
    StudyFigure,
    Trend,
    Where,
    Within,
    through_tbf,
)

BUFFER, RATE, CCA = "bottleneck.buffer", "bottleneck.rate", "flows.all.cca"
MINUTES_2_TO_4 = (0.2, 0.8)
BBR, CUBIC = {CCA: "bbr"}, {CCA: "cubic"}
TWO: Where = {"flows.*.count": "2"}


def two(buffer: str | tuple[float, float]) -> Where:
    """Points of two BBR and two CUBIC flows at some buffers."""
    return {**TWO, BUFFER: buffer}


STUDY = Study(
    name="claypool2019",
    citation='M. Claypool, S. Claypool, J. Chung, F. Li, "Sharing but not Caring - Performance of TCP BBR and TCP '
    'CUBIC at the Network Bottleneck", AICT 2019',
    conditions="Eight Raspberry Pi 3B+ hosts, a flow each, Linux 4.17; a Linux router with netem (25 ms in all) and "
    "tbf; buffers from 0.25 to 8 BDP; minutes 2 to 4 of 5.",
    differences="All senders of a group share a host here. The first fifth and the last fifth of a run are left out.",
    figures=(
        StudyFigure(
            "4b",
            "staggered",
            "4 BBR flows, 80 Mbit/s, staggered starts",
            (
                Statement(
                    "fair",
                    "all flows have their fair share after about 30 s",
                    "Jain's index 0.9 or more",
                    Within(Pick("jain"), 0.9, 1.0),
                    evidence=("rate_p25.bbr", "rate_p75.bbr"),
                ),
                Statement(
                    "probes-coincide",
                    "the RTT probes of all flows coincide",
                    "75 % of the probes or more",
                    Within(Pick("probe_synchrony"), 0.75, 1.0),
                    "%",
                    ("probe_gap_s", "bbr_min_rtt_s"),
                ),
                Statement(
                    "probe-gap",
                    "they probe every 10 s",
                    "9.5 to 11 s",
                    Within(Pick("probe_gap_s"), 9.5, 11),
                    "s",
                    evidence=("probe_synchrony", "bbr_min_rtt_s"),
                ),
            ),
            (Plot("time", "Throughput and RTT of staggered BBR flows", ("goodput", "delay")),),
            (0.3, 1.0),
        ),
        StudyFigure(
            "5",
            "deep-buffer",
            "4 BBR or 4 CUBIC flows, 80 Mbit/s, 8 BDP",
            (
                Statement(
                    "bbr-queue",
                    "BBR's standing queue is about 1.1 BDP",
                    "0.85 to 1.35 BDP",
                    Within(Pick("queue_bdp", BBR), 0.85, 1.35),
                    "BDP",
                    ("queue_bdp", "bbr_bandwidth_sum", "bbr_min_rtt_s", "bbr_inflight_sum_bdp"),
                    "window",
                ),
                Statement(
                    "bbr-probing",
                    "and 1.5 BDP while probing",
                    "95th percentile 1.25 to 1.75 BDP",
                    Within(Pick("queue_p95_bdp", BBR), 1.25, 1.75),
                    "BDP",
                    ("queue_bdp", "queue_max_bdp"),
                    "window",
                ),
                Statement(
                    "cubic-fills",
                    "CUBIC fills all 8 BDP",
                    "90 % of the buffer at peak",
                    Within(Pick("queue_max_fill", CUBIC), 0.9, 1.0),
                    "%",
                    ("queue_bdp",),
                ),
                Statement(
                    "bbr-rtt",
                    "BBR's RTT is about twice the base",
                    "1.5 to 2.5",
                    Within(Pick("rtt_ratio", BBR), 1.5, 2.5),
                    "x",
                    ("queue_bdp",),
                    "window",
                ),
                Statement(
                    "rtt-quarter",
                    "and about a quarter of CUBIC's",
                    "quotient 0.19 to 0.31",
                    Compare(Pick("rtt_ratio", BBR), Pick("rtt_ratio", CUBIC), 0.19, 0.31),
                    "x",
                    ("queue_bdp", "queue_fill"),
                ),
            ),
            (
                Plot("time", "Queue, goodput and delay: BBR", ("queue", "goodput", "delay"), where=BBR),
                Plot("time", "Queue, goodput and delay: CUBIC", ("queue", "goodput", "delay"), where=CUBIC),
            ),
            MINUTES_2_TO_4,
        ),
        StudyFigure(
            "6",
            "loss",
            "4 BBR flows, 80 Mbit/s, 0.5 BDP; loss in 500 ms windows",
            (
                Statement(
                    "persists",
                    "loss persists",
                    "in 90 % of the windows or more",
                    Within(Pick("lossy_windows", {BUFFER: "0.5bdp", "flows.bbr.count": "4"}), 0.9, 1.0),
                    "%",
                    evidence=("loss_ratio", "queue_fill", "utilization"),
                ),
                Statement(
                    "average",
                    "above 10 % on average",
                    "10 % or more",
                    Within(Pick("loss_ratio", {BUFFER: "0.5bdp", "flows.bbr.count": "4"}), 0.1, 1.0),
                    "%",
                    ("utilization", "queue_fill", "bbr_bandwidth_sum", "bbr_min_rtt_s"),
                    "loss",
                ),
            ),
            (Plot("time", "Loss in 500 ms windows at 0.5 BDP", ("loss", "goodput"), where={BUFFER: "0.5bdp"}),),
            MINUTES_2_TO_4,
        ),
        StudyFigure(
            "7",
            "loss",
            "BBR flows, 40, 80, 120 Mbit/s, 0.25 to 8 BDP",
            (
                Statement(
                    "half-bdp",
                    "loss is 11 % at 0.5 BDP",
                    "9 to 13 %",
                    Within(Pick("loss_ratio", {BUFFER: "0.5bdp"}), 0.09, 0.13),
                    "%",
                    ("queue_fill", "bbr_bandwidth_sum", "bbr_min_rtt_s"),
                    "loss",
                ),
                Statement(
                    "one-bdp",
                    "5.5 % at 1 BDP",
                    "3.5 to 7.5 %",
                    Within(Pick("loss_ratio", {BUFFER: "1bdp"}), 0.035, 0.075),
                    "%",
                    ("queue_fill", "bbr_bandwidth_sum", "bbr_min_rtt_s"),
                    "loss",
                ),
                Statement(
                    "none",
                    "none from about 1.5 BDP on",
                    "below 1 % from 1.75 BDP on",
                    Within(Pick("loss_ratio", {BUFFER: (1.75, 8)}), 0.0, 0.01, each=True),
                    "%",
                    ("queue_max_fill",),
                    "loss",
                ),
                Statement(
                    "falls",
                    "it falls as the buffer grows to 1.5 BDP",
                    "falls by 5 points or more",
                    Trend(Pick("loss_ratio", {BUFFER: (0.25, 1.5)}), BUFFER, rising=False, least=0.05),
                    "%",
                    ("queue_fill",),
                    "loss",
                ),
            ),
            (Plot("lines", "Loss by buffer", ("loss_ratio",), x=BUFFER, by=RATE),),
            MINUTES_2_TO_4,
        ),
        StudyFigure(
            "8",
            "coexistence",
            "BBR against CUBIC, 80 Mbit/s, 0.5 BDP",
            (
                Statement(
                    "starved",
                    "CUBIC gets far less than BBR",
                    "share of CUBIC below 20 %",
                    Within(Pick("share.cubic", two("0.5bdp")), 0.0, 0.2),
                    "%",
                    ("loss_ratio.bbr", "loss_ratio.cubic"),
                ),
            ),
            (Plot("time", "BBR against CUBIC at 0.5 BDP", ("goodput",), where=two("0.5bdp")),),
            MINUTES_2_TO_4,
        ),
        StudyFigure(
            "9",
            "coexistence",
            "2 BBR and 2 CUBIC flows, 80 Mbit/s, 1.75 BDP",
            (
                Statement(
                    "cycle",
                    "they take turns with a period of about 20 s",
                    "15 to 25 s",
                    Within(Pick("turn_period_s", two("1.75bdp")), 15, 25, must_exist=True),
                    "s",
                    ("turn_correlation", "share.bbr", "probe_gap_s"),
                ),
                Statement(
                    "not-drained",
                    "not every RTT probe drains the queue",
                    "more than 10 % of the probes leave 0.1 BDP or more",
                    Within(Pick("probes_not_draining", two("1.75bdp")), 0.1, 1.0),
                    "%",
                    ("probe_synchrony",),
                ),
                Statement(
                    "loss-peaks",
                    "loss peaks at up to about 6 %",
                    "4 to 8 % in the worst 500 ms window",
                    Within(Pick("loss_max", two("1.75bdp")), 0.04, 0.08),
                    "%",
                    ("loss_ratio",),
                ),
                Statement(
                    "loss-after-wrong-probes",
                    "just after BBR's wrong RTT probes",
                    "twice as high while BBR takes the least RTT for too long as while it does not, or more",
                    Compare(
                        Pick("loss_after_wrong_probe", two("1.75bdp")),
                        Pick("loss_after_right_probe", two("1.75bdp")),
                        2,
                        float("inf"),
                    ),
                    "%",
                    ("bbr_min_rtt_s", "loss_ratio"),
                ),
            ),
            (
                Plot(
                    "time",
                    "2 BBR and 2 CUBIC flows at 1.75 BDP",
                    ("goodput", "delay", "queue", "loss"),
                    where=two("1.75bdp"),
                ),
            ),
            MINUTES_2_TO_4,
        ),
        StudyFigure(
            "10",
            "coexistence",
            "2 BBR and 2 CUBIC flows, 80 Mbit/s, 0.25 to 8 BDP",
            (
                Statement(
                    "bbr-wins",
                    "BBR wins below 1.5 BDP",
                    "share of BBR above 55 % at each such buffer",
                    Within(Pick("share.bbr", two((0.25, 1.25))), 0.55, 1.0, each=True),
                    "%",
                    evidence=("queue_fill", "loss_ratio.bbr", "loss_ratio.cubic", "bbr_min_rtt_s"),
                ),
                Statement(
                    "equal",
                    "they are equal near 5 BDP",
                    "share of 50 % between 3.75 and 6.25 BDP",
                    Crossing(Pick("share.bbr", TWO), BUFFER, 0.5, 3.75, 6.25),
                    "%",
                    evidence=("queue_fill", "bbr_min_rtt_s", "bbr_window_sum_bdp"),
                ),
                Statement(
                    "cubic-wins",
                    "CUBIC wins above",
                    "share of BBR below 50 % at 8 BDP",
                    Within(Pick("share.bbr", two("8bdp")), 0.0, 0.5),
                    "%",
                    evidence=("queue_bdp", "bbr_min_rtt_s", "bbr_window_sum_bdp"),
                ),
                Statement(
                    "spread",
                    "the spread of throughput jumps above 1.5 BDP",
                    "quartiles 1.5 times as far apart at 1.75 BDP as at 0.5 BDP",
                    Compare(
                        Pick("rate_iqr.bbr", two("1.75bdp")),
                        Pick("rate_iqr.bbr", two("0.5bdp")),
                        1.5,
                        float("inf"),
                    ),
                    "x",
                    evidence=("rate_p25.bbr", "rate_p75.bbr", "rate_iqr.cubic", "turn_correlation"),
                ),
            ),
            (Plot("quartiles", "Throughput of a flow by buffer", ("bbr", "cubic"), x=BUFFER, where=TWO),),
            MINUTES_2_TO_4,
        ),
    ),
    controls=(
        Control(
            "coexistence-longer",
            "coexistence",
            "for 300 s, as published",
            ("cycle", "not-drained", "loss-peaks", "loss-after-wrong-probes"),
        ),
        Control("coexistence-again", "coexistence", "three repetitions", ("cycle", "not-drained", "loss-peaks")),
        through_tbf("loss", "average", "half-bdp", "one-bdp", "none"),
        through_tbf("deep-buffer", "bbr-queue", "rtt-quarter"),
        through_tbf("coexistence", "cycle", "not-drained", "loss-peaks"),
    ),
)
