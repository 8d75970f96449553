# SPDX-License-Identifier: Apache-2.0
"""Hurtig et al., ITC 30 (2018): mixed workloads. Pairs are written LARGE-train."""

from __future__ import annotations

from narrows_analysis.studies.checks import (
    MORE,
    Compare,
    Condition,
    Every,
    Extreme,
    Farthest,
    Pick,
    Spread,
    Where,
)
from narrows_analysis.studies.model import Control, Plot, Statement, Study, StudyFigure, through_tbf

BUFFER, RATE = "bottleneck.buffer", "bottleneck.rate"
LARGE, TRAIN, RIVAL = "flows.large.cca", "flows.train.cca", "flows.rival.cca"
SIZE, GAP = "flows.train.size", "flows.train.gap"
ALL_OF_IT = (0.0, 1.0)
HARDLY = 0.1  # "hardly depends", "flat", "as long as": means within a tenth of one another
# Completions below which a run says nothing about completion times.
TRAIN_FLOWS = ("completions.train", 3.0)
SUBJECTS = ("completions.subject", 3.0)
REDUCTION = (
    "under certain circumstances BBR's startup phase can result in a significant reduction of the throughput of "
    "competing large CUBIC flows and the utilization of the bottleneck link"
)
BURSTY = (
    "the steady-state operation of BBR can have negative impact on the performance of bursty flows using loss-based "
    "CCAs over bottlenecks with buffer sizes as high as two times the bandwidth-delay product"
)


def pair(large: str, train: str, **more: Condition) -> Where:
    """Points of one pair of algorithms; ``more`` has other conditions by short names."""
    names = {"buffer": BUFFER, "size": SIZE, "gap": GAP, "rate": RATE}
    return {LARGE: large, TRAIN: train, **{names[name]: value for name, value in more.items()}}


def train_time(where: Where) -> Pick:
    """Completion time of a train's flows, of runs with enough of them."""
    return Pick("fct_s.train", where, needs=TRAIN_FLOWS)


def subject_time(rival: str, buffer: str = "", measure: str = "fct_s.subject") -> Pick:
    """Completion time of figure 9's flows, or another measure of it, of runs with enough of them."""
    where = {RIVAL: rival, **({BUFFER: buffer} if buffer else {})}
    return Pick(measure, where, needs=SUBJECTS)


TRAINS = StudyFigure(
    id="2-4",
    experiment="trains",
    title="30 MB beside trains of 1 MB; all pairs, rates and buffers",
    statements=(
        Statement(
            id="bbr-bbr",
            says="completion in BBR-bbr hardly depends on the buffer",
            source="figure 2",
            agrees_if="times at any two buffers within 10 %; runs with 3 completions or more",
            check=Spread(pick=train_time(pair("bbr", "bbr")), across=BUFFER, most=HARDLY, relative=True),
            unit="s",
            evidence=("fct_sd_s.train", "completions.train", "loss_ratio"),
            changed="It allowed 40 % between 0.5 and 8 BDP, whatever the number of completions.",
        ),
        Statement(
            id="cubic-cubic",
            says="in CUBIC-cubic it grows with the buffer",
            source="figure 2",
            agrees_if="longer at 8 BDP than at 0.5 BDP, at every rate",
            check=Compare(
                left=train_time(pair("cubic", "cubic", buffer="8bdp")),
                right=train_time(pair("cubic", "cubic", buffer="0.5bdp")),
                low=1.0,
                by=RATE,
            ),
            unit="s",
            evidence=("queue_bdp", "loss_ratio.train", "completions.train"),
            changed="It averaged over all rates.",
        ),
        Statement(
            id="bbr-cubic",
            says="in BBR-cubic it grows as the buffer shrinks",
            source="figure 2",
            agrees_if="longer at 0.5 BDP than at 8 BDP, at every rate",
            check=Compare(
                left=train_time(pair("bbr", "cubic", buffer="0.5bdp")),
                right=train_time(pair("bbr", "cubic", buffer="8bdp")),
                low=1.0,
                by=RATE,
            ),
            unit="s",
            evidence=("queue_bdp", "loss_ratio.train", "completions.train"),
            changed="It averaged over all rates.",
        ),
        Statement(
            id="parity",
            says="at 2 BDP small CUBIC flows complete as fast beside BBR as beside CUBIC",
            source="figure 2",
            agrees_if="times in BBR-cubic and CUBIC-cubic within 10 % at 2 BDP, at every rate",
            check=Compare(
                left=train_time(pair("bbr", "cubic", buffer="2bdp")),
                right=train_time(pair("cubic", "cubic", buffer="2bdp")),
                low=1 - HARDLY,
                high=1 / (1 - HARDLY),
                by=RATE,
            ),
            unit="s",
            evidence=("queue_bdp", "loss_ratio.train", "completions.train"),
        ),
        Statement(
            id="shallow-like-bloated",
            says="BBR-cubic at 0.5 BDP is as slow as CUBIC-cubic at 8 BDP, or slower",
            source="figure 2",
            agrees_if="quotient of the times 0.9 or more, at every rate",
            check=Compare(
                left=train_time(pair("bbr", "cubic", buffer="0.5bdp")),
                right=train_time(pair("cubic", "cubic", buffer="8bdp")),
                low=1 - HARDLY,
                by=RATE,
            ),
            unit="s",
            evidence=("queue_bdp", "loss_ratio.train", "completions.train"),
        ),
        Statement(
            id="cubic-bbr",
            says="in CUBIC-bbr the large flow loses most at 0.5 BDP",
            source="figure 3",
            quote=REDUCTION,
            agrees_if="its throughput, relative to that beside cubic trains, is least at 0.5 BDP of 0.5 and 8 BDP, and "
            "lower there than beside cubic trains",
            check=Every(
                (
                    Compare(
                        left=Pick("goodput_fraction.large", pair("cubic", "bbr", buffer="0.5bdp")),
                        right=Pick("goodput_fraction.large", pair("cubic", "bbr", buffer="8bdp")),
                        high=1.0,
                        by=RATE,
                    ),
                    Compare(
                        left=Pick("goodput_fraction.large", pair("cubic", "bbr", buffer="0.5bdp")),
                        right=Pick("goodput_fraction.large", pair("cubic", "cubic", buffer="0.5bdp")),
                        high=1.0,
                        by=RATE,
                    ),
                )
            ),
            unit="%",
            evidence=("loss_ratio.large", "utilization"),
            changed="It compared 0.5 with 8 BDP only, and not with cubic trains.",
        ),
        Statement(
            id="utilization",
            says="and the link is used less than beside cubic trains",
            source="figure 4",
            quote=REDUCTION,
            agrees_if="utilization in CUBIC-bbr at 0.5 BDP below that in CUBIC-cubic, over all rates",
            check=Compare(
                left=Pick("utilization", pair("cubic", "bbr", buffer="0.5bdp")),
                right=Pick("utilization", pair("cubic", "cubic", buffer="0.5bdp")),
                high=1.0,
            ),
            unit="%",
            evidence=("loss_ratio.large", "goodput_fraction.large", "goodput_fraction.train"),
        ),
    ),
    plots=(
        *(
            Plot(
                kind="lines",
                title=f"Completion time of the train's flows ({name} large)",
                panels=("fct_s.train",),
                x=BUFFER,
                by=TRAIN,
                where={LARGE: large},
            )
            for large, name in (("bbr", "BBR"), ("cubic", "CUBIC"))
        ),
        Plot(
            kind="lines",
            title="Throughput of a large CUBIC flow",
            panels=("goodput_fraction.large",),
            x=BUFFER,
            by=TRAIN,
            where={LARGE: "cubic"},
        ),
        Plot(
            kind="lines",
            title="Utilization beside a large CUBIC flow",
            panels=("utilization",),
            x=BUFFER,
            by=TRAIN,
            where={LARGE: "cubic"},
        ),
    ),
    window=ALL_OF_IT,
    life_of="large",
)

WINDOW = StudyFigure(
    id="5",
    experiment="gaps",
    title="40 Mbit/s, 0.5 BDP; window of a large CUBIC flow",
    statements=(
        Statement(
            id="small-window",
            says="beside bbr trains the large flow's window stays small",
            source="figure 5",
            agrees_if="its mean below 80 % of that beside cubic trains",
            check=Compare(
                left=Pick("cwnd_bdp.large", {TRAIN: "bbr", GAP: "100ms"}),
                right=Pick("cwnd_bdp.large", {TRAIN: "cubic", GAP: "100ms"}),
                high=0.8,
            ),
            unit="BDP",
            evidence=("loss_ratio.large", "utilization"),
        ),
    ),
    plots=tuple(
        Plot(
            kind="time",
            title=f"Window beside {train} trains",
            panels=("cwnd",),
            where={TRAIN: train, GAP: "100ms"},
            group="large",
        )
        for train in ("bbr", "cubic")
    ),
    window=ALL_OF_IT,
    life_of="large",
)

# Where the publication's figure 7 has the dip, by size of the train's flows.
DIPS = {"500KB": "20Mbit", "1MB": "40Mbit", "2MB": "60Mbit"}
SIZES = StudyFigure(
    id="6-7",
    experiment="train-sizes",
    title="trains of 500 KB, 1 MB and 2 MB, 0.5 BDP, all rates",
    statements=tuple(
        Statement(
            id=f"dip-{size}",
            says=f"with flows of {size} utilization dips at {rate}/s",
            source="figures 6 and 7",
            agrees_if=f"utilization beside bbr trains less at {rate}/s than at any other rate, lower and higher ones",
            check=Extreme(pick=Pick("utilization", {TRAIN: "bbr", SIZE: size}), over=RATE, at=rate, kind="least"),
            unit="%",
            evidence=("goodput_fraction.large", "goodput_fraction.train", "completions.train", "loss_ratio.large"),
            changed="It asked for a dip anywhere that moves with the size, also the other way than published.",
        )
        for size, rate in DIPS.items()
    ),
    plots=(
        Plot(
            kind="lines",
            title="Throughput of the large CUBIC flow (bbr trains)",
            panels=("goodput_fraction.large",),
            x=RATE,
            by=SIZE,
            where={TRAIN: "bbr"},
        ),
        *(
            Plot(
                kind="lines",
                title=f"Utilization ({train} trains)",
                panels=("utilization",),
                x=RATE,
                by=SIZE,
                where={TRAIN: train},
            )
            for train in ("bbr", "cubic")
        ),
    ),
    window=ALL_OF_IT,
    life_of="large",
)

GAPS = StudyFigure(
    id="8",
    experiment="gaps",
    title="90 MB CUBIC beside trains with gaps of 0 to 0.9 s",
    statements=(
        Statement(
            id="bbr-at-long-gaps",
            says="the difference in utilization between bbr and cubic trains is largest at the longest gap",
            source="figure 8",
            agrees_if="utilization beside bbr trains is below that beside cubic trains by more at the longest gap than "
            "at any other",
            check=Farthest(
                left=Pick("utilization", {TRAIN: "cubic"}), right=Pick("utilization", {TRAIN: "bbr"}), over=GAP
            ),
            unit="%",
            evidence=("goodput_fraction.large", "goodput_fraction.train"),
            changed="It compared the large flow's throughput; the figure is about utilization.",
        ),
    ),
    plots=(Plot(kind="lines", title="Utilization by gap", panels=("utilization",), x=GAP, by=TRAIN),),
    window=ALL_OF_IT,
    life_of="large",
)

EQUALS = StudyFigure(
    id="9",
    experiment="equals",
    title="1 MB CUBIC beside 1 MB BBR or CUBIC, 20 Mbit/s",
    statements=(
        Statement(
            id="long",
            says="completion beside BBR in small buffers is long",
            source="figure 9",
            agrees_if="longer than beside CUBIC at 0.5 BDP, by 10 % or more",
            check=Compare(left=subject_time("bbr", "0.5bdp"), right=subject_time("cubic", "0.5bdp"), low=1.1),
            unit="s",
            evidence=("loss_ratio.subject", "completions.subject", "queue_bdp"),
        ),
        Statement(
            id="variable",
            says="and very variable",
            source="figure 9",
            agrees_if="coefficient of variation higher than beside CUBIC",
            check=Compare(
                left=subject_time("bbr", "0.5bdp", "fct_cv.subject"),
                right=subject_time("cubic", "0.5bdp", "fct_cv.subject"),
                low=1.0,
            ),
            unit="x",
            evidence=("fct_s.subject", "fct_sd_s.subject", "completions.subject"),
        ),
        Statement(
            id="flat",
            says="beside CUBIC it hardly depends on the buffer",
            source="figure 9",
            agrees_if="times at any two buffers within 10 %",
            check=Spread(pick=subject_time("cubic"), across=BUFFER, most=HARDLY, relative=True),
            unit="s",
            evidence=("queue_bdp", "completions.subject"),
            changed="It allowed 40 % between 0.5 and 4 BDP.",
        ),
    ),
    plots=(
        Plot(kind="lines", title="Completion time of 1 MB CUBIC flows", panels=("fct_s.subject",), x=BUFFER, by=RIVAL),
    ),
    window=ALL_OF_IT,
    life_of="subject",
)

MEDIUM = StudyFigure(
    id="10-12",
    experiment="medium",
    title="1 MB CUBIC beside a large BBR or CUBIC flow, 20 Mbit/s",
    statements=(
        Statement(
            id="worst",
            says="beside BBR it is worst at 0.5 BDP",
            source="figure 10",
            agrees_if="completion longer at 0.5 BDP than at any other buffer",
            check=Extreme(pick=train_time({LARGE: "bbr"}), over=BUFFER, at="0.5bdp", kind="greatest", ends=True),
            unit="s",
            evidence=("loss_ratio.train", "completions.train", "fct_sd_s.train"),
            changed="It asked for a fall by 0.2 s from 0.5 to 2 BDP.",
        ),
        Statement(
            id="windows",
            says="the train's windows are larger at 2 BDP than at 1 BDP",
            source="figure 11",
            agrees_if="mean congestion window of the small CUBIC flows beside BBR, in bytes",
            check=Compare(
                left=Pick("cwnd_bdp.train", {LARGE: "bbr", BUFFER: "2bdp"}),
                right=Pick("cwnd_bdp.train", {LARGE: "bbr", BUFFER: "1bdp"}),
                low=1.0,
            ),
            unit="BDP",
            evidence=("cwnd_bdp.large", "loss_ratio.train", "retransmit_ratio.train"),
        ),
        Statement(
            id="pacing",
            says="BBR's pacing rate is significantly lower at 2 BDP than at 1 BDP",
            source="figure 12",
            quote="significantly lower",
            agrees_if="the mean at 2 BDP is 95 % or less of that at 1 BDP",
            check=Compare(
                left=Pick("pacing_fraction.large", {LARGE: "bbr", BUFFER: "2bdp"}),
                right=Pick("pacing_fraction.large", {LARGE: "bbr", BUFFER: "1bdp"}),
                high=0.95,
            ),
            unit="%",
            evidence=("pacing_median.large", "goodput_fraction.large", "bbr_bandwidth_sum", "utilization"),
            changed="Any quotient below 1 was enough, such as 0.994.",
        ),
    ),
    plots=(
        Plot(kind="lines", title="Completion time of 1 MB CUBIC flows", panels=("fct_s.train",), x=BUFFER, by=LARGE),
        *(
            Plot(kind="box", title=title, panels=(column,), x=BUFFER, where={LARGE: "bbr"}, group=group)
            for title, column, group in (
                ("Congestion window of the large flow (BBR)", "cwnd_bytes", "large"),
                ("Congestion window of the train's flows", "cwnd_bytes", "train"),
                ("Pacing rate of BBR", "pacing_rate_bps", "large"),
            )
        ),
    ),
    window=ALL_OF_IT,
    life_of="large",
)


def beside_bbr(measure: str, buffer: str, low: float = 0.0, high: float = MORE) -> Compare:
    """A measure of small flows beside BBR against that beside CUBIC."""
    return Compare(
        left=Pick(measure, {LARGE: "bbr", BUFFER: buffer}, needs=TRAIN_FLOWS),
        right=Pick(measure, {LARGE: "cubic", BUFFER: buffer}, needs=TRAIN_FLOWS),
        low=low,
        high=high,
    )


SMALL = StudyFigure(
    id="13-15",
    experiment="small",
    title="100 KB CUBIC, 5 Mbit/s",
    statements=(
        Statement(
            id="suffers",
            says="small flows suffer from BBR even at 2 BDP",
            source="figure 13",
            quote=BURSTY,
            agrees_if="longer beside BBR than beside CUBIC at 2 BDP",
            check=beside_bbr("fct_s.train", "2bdp", low=1.0),
            unit="s",
            evidence=("loss_ratio.train", "queue_bdp"),
        ),
        Statement(
            id="gains",
            says="and gain at 4 and 8 BDP",
            source="figure 13",
            agrees_if="shorter beside BBR than beside CUBIC at 4 and at 8 BDP",
            check=Every((beside_bbr("fct_s.train", "4bdp", high=1.0), beside_bbr("fct_s.train", "8bdp", high=1.0))),
            unit="s",
            evidence=("queue_bdp", "loss_ratio.train"),
            changed="It looked at 8 BDP only, and later at the mean of 4 and 8 BDP, after a difference had been seen.",
        ),
        Statement(
            id="retransmits",
            says="they retransmit more beside BBR at 1 and 2 BDP",
            source="figure 14",
            agrees_if="retransmitted part of the train's data packets higher beside BBR, at both buffers",
            check=Every(tuple(beside_bbr("retransmit_ratio.train", buffer, low=1.0) for buffer in ("1bdp", "2bdp"))),
            unit="%",
            evidence=("loss_ratio.train", "completions.train"),
        ),
        Statement(
            id="tail",
            says="the slowest of them are slower beside BBR at 1 and 2 BDP",
            source="figure 15",
            quote=BURSTY,
            agrees_if="95th percentile of completion times longer beside BBR, at both buffers",
            check=Every(tuple(beside_bbr("fct_p95_s.train", buffer, low=1.0) for buffer in ("1bdp", "2bdp"))),
            unit="s",
            evidence=("fct_s.train", "loss_ratio.train", "completions.train"),
        ),
    ),
    plots=(
        Plot(kind="lines", title="Completion time of 100 KB CUBIC flows", panels=("fct_s.train",), x=BUFFER, by=LARGE),
        Plot(kind="lines", title="Retransmissions", panels=("retransmit_ratio.train",), x=BUFFER, by=LARGE),
        *(
            Plot(
                kind="ecdf",
                title=f"Completion times at {buffer[0]} BDP",
                panels=("fct_s",),
                by=LARGE,
                where={BUFFER: buffer},
                group="train",
            )
            for buffer in ("1bdp", "2bdp")
        ),
    ),
    window=ALL_OF_IT,
    life_of="large",
)

STUDY = Study(
    name="hurtig2018",
    citation='P. Hurtig, H. Haile, K.-J. Grinnemo, A. Brunstrom, E. Atxutegi, F. Liberal, A. Arvidsson, "Impact of '
    'TCP BBR on CUBIC Traffic: A Mixed Workload Evaluation", ITC 30, 2018',
    conditions="Linux 4.10 and 4.11; htb and netem; RTT 45 ms; 5 to 70 Mbit/s; 0.5 to 8 BDP; iperf3; 10 repeats; a "
    "train's next flow 0.1 s after the last one has finished, its first 0.5 s after the large flow's start.",
    differences="A train lasts as long as the large flow. Flows end when the receiver has read their last byte.",
    figures=(TRAINS, WINDOW, SIZES, GAPS, EQUALS, MEDIUM, SMALL),
    controls=(
        Control(
            id="medium-larger",
            experiment="medium",
            change="a large flow of 60 MB and four repetitions",
            statements=("worst", "windows", "pacing"),
        ),
        Control(
            id="small-larger",
            experiment="small",
            change="a large flow of 30 MB, as published",
            statements=("suffers", "gains", "retransmits", "tail"),
        ),
        Control(
            id="equals-more",
            experiment="equals",
            change="40 completions a run instead of 20",
            statements=("long", "variable", "flat"),
        ),
        through_tbf("equals", "long", "variable", "flat"),
    ),
)
