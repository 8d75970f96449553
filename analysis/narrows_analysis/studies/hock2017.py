# SPDX-License-Identifier: Apache-2.0
"""Hock, Bless, Zitterbart, ICNP 2017 and their slides at IETF 100: what they say, topic by topic."""

from __future__ import annotations

from narrows_analysis.studies.model import (
    Compare,
    Control,
    Pick,
    Plot,
    Statement,
    Study,
    StudyFigure,
    Where,
    Within,
    through_tbf,
)

BUFFER, CCA, COUNT = "bottleneck.buffer", "flows.all.cca", "flows.all.count"
SMALL, LARGE = "0.8bdp", "8bdp"
BBR_SMALL: Where = {BUFFER: SMALL, CCA: "bbr", COUNT: "6"}
CUBIC_SMALL: Where = {BUFFER: SMALL, CCA: "cubic", COUNT: "6"}
PAIRS = "flows.*.count"

STUDY = Study(
    name="hock2017",
    citation='M. Hock, R. Bless, M. Zitterbart, "Experimental Evaluation of BBR Congestion Control", ICNP 2017, and '
    "their slides at IETF 100",
    conditions="Linux 4.9; 1 and 10 Gbit/s; RTT 20 ms; buffers of 16 ms (0.8 BDP) and 160 ms (8 BDP); iperf3; "
    "5 repeats.",
    differences="The quick variant keeps RTTs and buffers (in BDP) and lowers the rate.",
    figures=(
        StudyFigure(
            "single",
            "alone",
            "1 BBR flow",
            (
                Statement(
                    "rate",
                    "a single flow has the bottleneck's rate",
                    "utilization 90 % or more at 8 BDP",
                    Within(Pick("utilization", {BUFFER: LARGE, CCA: "bbr", COUNT: "1"}), 0.9, 1.01),
                    "%",
                    evidence=("queue_bdp", "bbr_bandwidth_sum", "loss_ratio"),
                ),
                Statement(
                    "queue",
                    "with a queue that is nearly empty",
                    "0.35 BDP or less on average",
                    Within(Pick("queue_bdp", {BUFFER: LARGE, CCA: "bbr", COUNT: "1"}), 0.0, 0.35),
                    "BDP",
                    ("queue_p95_bdp", "bbr_bandwidth_sum", "bbr_min_rtt_s"),
                    "window",
                ),
            ),
            (Plot("time", "A single BBR flow", ("goodput", "queue"), where={BUFFER: LARGE, CCA: "bbr", COUNT: "1"}),),
        ),
        StudyFigure(
            "several",
            "alone",
            "2 to 6 BBR flows, 8 BDP",
            (
                Statement(
                    "queue",
                    "from two flows on a queue of 1 to 1.5 BDP stands",
                    "0.75 to 1.75 BDP with each number of flows",
                    Within(Pick("queue_bdp", {BUFFER: LARGE, CCA: "bbr", COUNT: (2, 6)}), 0.75, 1.75, each=True),
                    "BDP",
                    ("queue_p95_bdp", "bbr_bandwidth_sum", "bbr_min_rtt_s"),
                    "window",
                ),
                Statement(
                    "rtt",
                    "which doubles the RTT",
                    "1.75 to 2.75 times the base with each number of flows",
                    Within(Pick("rtt_ratio", {BUFFER: LARGE, CCA: "bbr", COUNT: (2, 6)}), 1.75, 2.75, each=True),
                    "x",
                    ("queue_bdp",),
                    "window",
                ),
                Statement(
                    "intra",
                    "there is no consistent fairness among 6 BBR flows",
                    "Jain's index below 0.9 at one buffer or both",
                    Within(Pick("jain", {CCA: "bbr", COUNT: "6"}), 0.0, 0.9, some=True),
                    evidence=("rate_p25.all", "rate_p75.all", "loss_ratio", "probe_synchrony"),
                ),
            ),
            (Plot("time", "6 BBR flows in a deep buffer", ("goodput", "queue"), where={**BBR_SMALL, BUFFER: LARGE}),),
        ),
        StudyFigure(
            "small-buffer",
            "alone",
            "6 BBR or 6 CUBIC flows, 0.8 BDP",
            (
                Statement(
                    "massive",
                    "BBR's loss is massive",
                    "4 % or more",
                    Within(Pick("loss_ratio", BBR_SMALL), 0.04, 1.0),
                    "%",
                    evidence=("queue_fill", "bbr_pacing_sum", "bbr_window_sum_bdp"),
                ),
                Statement(
                    "tiny",
                    "CUBIC's is tiny beside it",
                    "BBR's 5 times as high or more",
                    Compare(Pick("loss_ratio", BBR_SMALL), Pick("loss_ratio", CUBIC_SMALL), 5, float("inf")),
                    "%",
                    evidence=("queue_fill", "utilization"),
                ),
            ),
            (Plot("lines", "Loss by number of flows", ("loss_ratio",), x=COUNT, by=CCA, where={BUFFER: SMALL}),),
        ),
        StudyFigure(
            "against-cubic",
            "against-cubic",
            "BBR beside CUBIC, both buffers",
            (
                Statement(
                    "suppressed",
                    "in a small buffer one BBR flow suppresses CUBIC",
                    "share of BBR 80 % or more",
                    Within(Pick("share.bbr", {BUFFER: SMALL, PAIRS: "1"}), 0.8, 1.0),
                    "%",
                    ("loss_ratio.bbr", "loss_ratio.cubic"),
                ),
                Statement(
                    "may-lose",
                    "in a large one it may lose",
                    "share of BBR below 50 %",
                    Within(Pick("share.bbr", {BUFFER: LARGE, PAIRS: "1"}), 0.0, 0.5),
                    "%",
                    ("queue_bdp", "model_share"),
                ),
                Statement(
                    "several",
                    "two BBR flows together suppress two CUBIC flows more than one does one",
                    "their share at 8 BDP is higher",
                    Compare(
                        Pick("share.bbr", {BUFFER: LARGE, PAIRS: "2"}),
                        Pick("share.bbr", {BUFFER: LARGE, PAIRS: "1"}),
                        1.0,
                        float("inf"),
                    ),
                    "%",
                    ("share.bbr",),
                ),
            ),
            (
                Plot("time", "1 BBR against 1 CUBIC, 0.8 BDP", ("goodput", "queue"), where={BUFFER: SMALL, PAIRS: "1"}),
                Plot("time", "2 BBR against 2 CUBIC, 8 BDP", ("goodput", "queue"), where={BUFFER: LARGE, PAIRS: "2"}),
            ),
        ),
        StudyFigure(
            "rtt-fairness",
            "rtt-fairness",
            "3 BBR flows of 20, 40 and 80 ms",
            (
                Statement(
                    "longest",
                    "the longer the RTT the higher the throughput: 80 ms beats 40 ms",
                    "quotient of the shares above 1",
                    Compare(Pick("share.rtt80"), Pick("share.rtt40"), 1.0, float("inf")),
                    "%",
                    ("share.rtt20", "share.rtt40", "share.rtt80"),
                ),
                Statement(
                    "middle",
                    "and 40 ms beats 20 ms",
                    "quotient of the shares above 1",
                    Compare(Pick("share.rtt40"), Pick("share.rtt20"), 1.0, float("inf")),
                    "%",
                    evidence=("share.rtt20", "share.rtt40", "share.rtt80", "queue_bdp"),
                ),
            ),
            (Plot("time", "Three RTTs in one bottleneck", ("goodput", "queue")),),
        ),
    ),
    controls=(
        Control("alone-longer", "alone", "for 120 s", ("intra",)),
        Control("alone-staggered", "alone", "started one after the other, 3 s apart", ("intra",)),
        Control("alone-full-rate", "alone", "at 1 Gbit/s, as published", ("intra",)),
        through_tbf("alone", "intra"),
    ),
)
