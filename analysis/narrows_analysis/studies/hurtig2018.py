# SPDX-License-Identifier: Apache-2.0
"""Hurtig et al., ITC 30 (2018): mixed workloads. Pairs are written LARGE-train."""

from __future__ import annotations

from narrows_analysis.studies.model import (
    Compare,
    Condition,
    Control,
    Dip,
    Farthest,
    Pick,
    Plot,
    Statement,
    Study,
    StudyFigure,
    Trend,
    through_tbf,
)

BUFFER, RATE = "bottleneck.buffer", "bottleneck.rate"
LARGE, TRAIN, RIVAL = "flows.large.cca", "flows.train.cca", "flows.rival.cca"
SIZE, GAP = "flows.train.size", "flows.train.gap"
MORE = float("inf")


def pair(large: str, train: str, **more: Condition) -> dict[str, Condition]:
    """Points of one pair of algorithms; ``more`` has other conditions by short names."""
    names = {"buffer": BUFFER, "size": SIZE, "gap": GAP, "rate": RATE}
    return {LARGE: large, TRAIN: train, **{names[name]: value for name, value in more.items()}}


STUDY = Study(
    name="hurtig2018",
    citation='P. Hurtig, H. Haile, K.-J. Grinnemo, A. Brunstrom, E. Atxutegi, F. Liberal, A. Arvidsson, "Impact of '
    'TCP BBR on CUBIC Traffic: A Mixed Workload Evaluation", ITC 30, 2018',
    conditions="Linux 4.10 and 4.11; htb and netem; RTT 45 ms; 5 to 70 Mbit/s; 0.5 to 8 BDP; iperf3; 10 repeats; a "
    "train's next flow 0.1 s after the last one has finished, its first 0.5 s after the large flow's start.",
    differences="A train lasts as long as the large flow. Flows end when the receiver has read their last byte.",
    figures=(
        StudyFigure(
            "2-4",
            "trains",
            "30 MB beside trains of 1 MB; all pairs, rates and buffers",
            (
                Statement(
                    "bbr-bbr",
                    "completion in BBR-bbr hardly depends on the buffer",
                    "times at 0.5 and 8 BDP within 40 %",
                    Compare(
                        Pick("fct_s.train", pair("bbr", "bbr", buffer="0.5bdp")),
                        Pick("fct_s.train", pair("bbr", "bbr", buffer="8bdp")),
                        1 / 1.4,
                        1.4,
                    ),
                    "s",
                    ("fct_sd_s.train", "completions.train", "loss_ratio"),
                ),
                Statement(
                    "cubic-cubic",
                    "in CUBIC-cubic it grows with the buffer",
                    "longer at 8 BDP than at 0.5 BDP",
                    Compare(
                        Pick("fct_s.train", pair("cubic", "cubic", buffer="8bdp")),
                        Pick("fct_s.train", pair("cubic", "cubic", buffer="0.5bdp")),
                        1.05,
                        MORE,
                    ),
                    "s",
                    ("queue_bdp", "loss_ratio.train", "completions.train"),
                ),
                Statement(
                    "bbr-cubic",
                    "in BBR-cubic it grows as the buffer shrinks",
                    "longer at 0.5 BDP than at 8 BDP",
                    Compare(
                        Pick("fct_s.train", pair("bbr", "cubic", buffer="0.5bdp")),
                        Pick("fct_s.train", pair("bbr", "cubic", buffer="8bdp")),
                        1.05,
                        MORE,
                    ),
                    "s",
                    ("queue_bdp", "loss_ratio.train", "completions.train"),
                ),
                Statement(
                    "cubic-bbr",
                    "in CUBIC-bbr the large flow loses most at 0.5 BDP",
                    "its throughput beside bbr is lower at 0.5 BDP than at 8 BDP",
                    Compare(
                        Pick("goodput_fraction.large", pair("cubic", "bbr", buffer="0.5bdp")),
                        Pick("goodput_fraction.large", pair("cubic", "bbr", buffer="8bdp")),
                        0.0,
                        0.98,
                    ),
                    "%",
                    ("loss_ratio.large",),
                ),
            ),
            (
                Plot(
                    "lines",
                    "Completion time of the train's flows (BBR large)",
                    ("fct_s.train",),
                    BUFFER,
                    TRAIN,
                    {LARGE: "bbr"},
                ),
                Plot(
                    "lines",
                    "Completion time of the train's flows (CUBIC large)",
                    ("fct_s.train",),
                    BUFFER,
                    TRAIN,
                    {LARGE: "cubic"},
                ),
                Plot(
                    "lines",
                    "Throughput of a large CUBIC flow",
                    ("goodput_fraction.large",),
                    BUFFER,
                    TRAIN,
                    {LARGE: "cubic"},
                ),
                Plot(
                    "lines", "Utilization beside a large CUBIC flow", ("utilization",), BUFFER, TRAIN, {LARGE: "cubic"}
                ),
            ),
            (0.0, 1.0),
            "large",
        ),
        StudyFigure(
            "5",
            "gaps",
            "40 Mbit/s, 0.5 BDP; window of a large CUBIC flow",
            (
                Statement(
                    "small-window",
                    "beside bbr trains the large flow's window stays small",
                    "its mean below 80 % of that beside cubic trains",
                    Compare(
                        Pick("cwnd_bdp.large", {TRAIN: "bbr", GAP: "100ms"}),
                        Pick("cwnd_bdp.large", {TRAIN: "cubic", GAP: "100ms"}),
                        0.0,
                        0.8,
                    ),
                    "BDP",
                    ("loss_ratio.large", "utilization"),
                ),
            ),
            (
                Plot("time", "Window beside bbr trains", ("cwnd",), where={TRAIN: "bbr", GAP: "100ms"}, group="large"),
                Plot(
                    "time", "Window beside cubic trains", ("cwnd",), where={TRAIN: "cubic", GAP: "100ms"}, group="large"
                ),
            ),
            (0.0, 1.0),
            "large",
        ),
        StudyFigure(
            "6-7",
            "train-sizes",
            "trains of 500 KB, 1 MB and 2 MB, 0.5 BDP, all rates",
            (
                Statement(
                    "dip",
                    "utilization dips at a rate that moves with the size of the train's flows",
                    "a dip of 2 points or more inside the range of rates, at another rate for another size",
                    Dip(Pick("utilization", {TRAIN: "bbr"}), RATE, SIZE, 0.02),
                    "%",
                    ("goodput_fraction.large", "goodput_fraction.train", "completions.train", "loss_ratio.large"),
                ),
            ),
            (
                Plot(
                    "lines",
                    "Throughput of the large CUBIC flow (bbr trains)",
                    ("goodput_fraction.large",),
                    RATE,
                    SIZE,
                    {TRAIN: "bbr"},
                ),
                Plot("lines", "Utilization (bbr trains)", ("utilization",), RATE, SIZE, {TRAIN: "bbr"}),
                Plot("lines", "Utilization (cubic trains)", ("utilization",), RATE, SIZE, {TRAIN: "cubic"}),
            ),
            (0.0, 1.0),
            "large",
        ),
        StudyFigure(
            "8",
            "gaps",
            "90 MB CUBIC beside trains with gaps of 0 to 0.9 s",
            (
                Statement(
                    "bbr-at-long-gaps",
                    "the difference between bbr and cubic trains is largest at the longest gap",
                    "the large flow's throughput beside bbr trains is below that beside cubic trains by more at the "
                    "longest gap than at any other",
                    Farthest(
                        Pick("goodput_fraction.large", {TRAIN: "cubic"}),
                        Pick("goodput_fraction.large", {TRAIN: "bbr"}),
                        GAP,
                    ),
                    "%",
                    ("utilization", "goodput_fraction.train"),
                ),
            ),
            (Plot("lines", "Throughput of the large flow by gap", ("goodput_fraction.large",), GAP, TRAIN),),
            (0.0, 1.0),
            "large",
        ),
        StudyFigure(
            "9",
            "equals",
            "1 MB CUBIC beside 1 MB BBR or CUBIC, 20 Mbit/s",
            (
                Statement(
                    "long",
                    "completion beside BBR in small buffers is long",
                    "longer than beside CUBIC at 0.5 BDP",
                    Compare(
                        Pick("fct_s.subject", {RIVAL: "bbr", BUFFER: "0.5bdp"}),
                        Pick("fct_s.subject", {RIVAL: "cubic", BUFFER: "0.5bdp"}),
                        1.1,
                        MORE,
                    ),
                    "s",
                    evidence=("loss_ratio.subject", "completions.subject", "queue_bdp"),
                ),
                Statement(
                    "variable",
                    "and very variable",
                    "coefficient of variation higher than beside CUBIC",
                    Compare(
                        Pick("fct_cv.subject", {RIVAL: "bbr", BUFFER: "0.5bdp"}),
                        Pick("fct_cv.subject", {RIVAL: "cubic", BUFFER: "0.5bdp"}),
                        1.0,
                        MORE,
                    ),
                    "x",
                    ("fct_s.subject", "fct_sd_s.subject", "completions.subject"),
                ),
                Statement(
                    "flat",
                    "beside CUBIC it hardly depends on the buffer",
                    "times at 0.5 and 4 BDP within 40 %",
                    Compare(
                        Pick("fct_s.subject", {RIVAL: "cubic", BUFFER: "4bdp"}),
                        Pick("fct_s.subject", {RIVAL: "cubic", BUFFER: "0.5bdp"}),
                        1 / 1.4,
                        1.4,
                    ),
                    "s",
                    ("queue_bdp",),
                ),
            ),
            (Plot("lines", "Completion time of 1 MB CUBIC flows", ("fct_s.subject",), BUFFER, RIVAL),),
            (0.0, 1.0),
            "subject",
        ),
        StudyFigure(
            "10-12",
            "medium",
            "1 MB CUBIC beside a large BBR or CUBIC flow, 20 Mbit/s",
            (
                Statement(
                    "worst",
                    "beside BBR it is worst at 0.5 BDP",
                    "completion falls by 0.2 s or more from 0.5 to 2 BDP",
                    Trend(Pick("fct_s.train", {LARGE: "bbr", BUFFER: (0.5, 2)}), BUFFER, rising=False, least=0.2),
                    "s",
                    ("loss_ratio.train", "completions.train", "fct_sd_s.train"),
                ),
                Statement(
                    "pacing",
                    "BBR's pacing rate is lower at 2 BDP than at 1 BDP",
                    "quotient of the means below 1",
                    Compare(
                        Pick("pacing_fraction.large", {LARGE: "bbr", BUFFER: "2bdp"}),
                        Pick("pacing_fraction.large", {LARGE: "bbr", BUFFER: "1bdp"}),
                        0.0,
                        1.0,
                    ),
                    "%",
                    ("pacing_median.large", "goodput_fraction.large", "bbr_bandwidth_sum", "utilization"),
                ),
            ),
            (
                Plot("lines", "Completion time of 1 MB CUBIC flows", ("fct_s.train",), BUFFER, LARGE),
                Plot(
                    "box",
                    "Congestion window of the large flow (BBR)",
                    ("cwnd_bytes",),
                    BUFFER,
                    where={LARGE: "bbr"},
                    group="large",
                ),
                Plot(
                    "box",
                    "Congestion window of the train's flows",
                    ("cwnd_bytes",),
                    BUFFER,
                    where={LARGE: "bbr"},
                    group="train",
                ),
                Plot("box", "Pacing rate of BBR", ("pacing_rate_bps",), BUFFER, where={LARGE: "bbr"}, group="large"),
            ),
            (0.0, 1.0),
            "large",
        ),
        StudyFigure(
            "13-15",
            "small",
            "100 KB CUBIC, 5 Mbit/s",
            (
                Statement(
                    "suffers",
                    "small flows suffer from BBR even at 2 BDP",
                    "longer beside BBR than beside CUBIC",
                    Compare(
                        Pick("fct_s.train", {LARGE: "bbr", BUFFER: "2bdp"}),
                        Pick("fct_s.train", {LARGE: "cubic", BUFFER: "2bdp"}),
                        1.0,
                        MORE,
                    ),
                    "s",
                    ("loss_ratio.train", "queue_bdp"),
                ),
                Statement(
                    "gains",
                    "and gain at 4 and 8 BDP",
                    "shorter beside BBR than beside CUBIC, by 5 % or more, on average over these buffers",
                    Compare(
                        Pick("fct_s.train", {LARGE: "bbr", BUFFER: (4, 8)}),
                        Pick("fct_s.train", {LARGE: "cubic", BUFFER: (4, 8)}),
                        0.0,
                        0.95,
                    ),
                    "s",
                    ("queue_bdp",),
                ),
            ),
            (
                Plot("lines", "Completion time of 100 KB CUBIC flows", ("fct_s.train",), BUFFER, LARGE),
                Plot("ecdf", "Completion times at 2 BDP", ("fct_s",), by=LARGE, where={BUFFER: "2bdp"}, group="train"),
            ),
            (0.0, 1.0),
            "large",
        ),
    ),
    controls=(
        Control("trains-larger", "trains", "a large flow of 30 MB, as published, and three repetitions", ("bbr-bbr",)),
        Control("medium-larger", "medium", "a large flow of 60 MB and four repetitions", ("worst", "pacing")),
        Control("sizes-larger", "train-sizes", "a large flow of 30 MB, as published", ("dip",)),
        Control("gaps-larger", "gaps", "a large flow of 90 MB, as published", ("bbr-at-long-gaps",)),
        Control("equals-more", "equals", "40 completions each instead of 8", ("long", "variable", "flat")),
        Control("equals-many", "equals", "100 completions each, 20 a run", ("long", "variable")),
        through_tbf("equals", "long", "variable", "flat"),
    ),
)
