# SPDX-License-Identifier: Apache-2.0
"""Hurtig et al., ITC 30 (2018): mixed workloads. Pairs are written LARGE-train."""

from __future__ import annotations

from narrows_studies.checks import (
    MORE,
    Compare,
    Condition,
    Every,
    Extreme,
    Farthest,
    Nearest,
    Pick,
    Spread,
    Where,
    compare,
)
from narrows_studies.model import (
    Plot,
    Statement,
    Study,
    before_5_1,
    cards,
    control,
    figure,
    judged_above,
    lines,
    not_tested,
    over_time,
    says,
    through,
    untestable,
)

BUFFER, RATE = "bottleneck.buffer", "bottleneck.rate"
LARGE, TRAIN, RIVAL = "flows.large.cca", "flows.train.cca", "flows.rival.cca"
SIZE, GAP = "flows.train.size", "flows.train.gap"
ALL_OF_IT = (0.0, 1.0)
HARDLY = 0.1  # "hardly depends", "flat", "as long as": means within a tenth of one another
# Runs with fewer completions than these have no completion time.
TRAIN_FLOWS = ("completions.train", 3.0)
SUBJECTS = ("completions.subject", 3.0)


def pair(large: str, train: str, **more: Condition) -> Where:
    """Points with one pair of algorithms; ``more`` has other conditions by short names."""
    names = {"buffer": BUFFER, "size": SIZE, "gap": GAP, "rate": RATE}
    return {LARGE: large, TRAIN: train, **{names[name]: value for name, value in more.items()}}


def train_time(where: Where) -> Pick:
    """Completion time of a train's flows, in runs with enough of them."""
    return Pick("fct_s.train", where, needs=TRAIN_FLOWS)


def at_every_rate(
    id: str, text: str, rule: str, left: Where, right: Where, low: float = 0.0, high: float = MORE, changed: str = ""
) -> Statement:
    """A statement of figure 2 about the completion times of two trains."""
    check = Compare(left=train_time(left), right=train_time(right), low=low, high=high, by=RATE)
    evidence = ("queue_bdp", "loss_ratio.train", "completions.train")
    return says("figure 2", id, text).agrees_if(f"{rule}, at every rate", check, changed).with_evidence(*evidence)


def subject_time(rival: str, buffer: str = "", measure: str = "fct_s.subject") -> Pick:
    """Completion time of figure 9's flows, or another measure of it, in runs with enough of them."""
    where = {RIVAL: rival, **({BUFFER: buffer} if buffer else {})}
    return Pick(measure, where, needs=SUBJECTS)


TRAINS = (
    figure(
        "2-4", "trains", "30 MB beside trains of 1 MB; all pairs, rates and buffers", window=ALL_OF_IT, life_of="large"
    )
    .states(
        says("figure 2", "bbr-bbr", "completion in BBR-bbr hardly depends on the buffer")
        .agrees_if(
            "times at any two buffers within 10 %; runs with 3 completions or more",
            Spread(pick=train_time(pair("bbr", "bbr")), across=BUFFER, most=HARDLY, relative=True),
            changed="It allowed 40 % between 0.5 and 8 BDP, whatever the number of completions.",
        )
        .with_evidence("fct_sd_s.train", "completions.train", "loss_ratio"),
        at_every_rate(
            "cubic-cubic",
            "in CUBIC-cubic it grows with the buffer",
            "longer at 8 BDP than at 0.5 BDP",
            pair("cubic", "cubic", buffer="8bdp"),
            pair("cubic", "cubic", buffer="0.5bdp"),
            low=1.0,
            changed="It averaged over all rates.",
        ),
        at_every_rate(
            "bbr-cubic",
            "in BBR-cubic it grows as the buffer shrinks",
            "longer at 0.5 BDP than at 8 BDP",
            pair("bbr", "cubic", buffer="0.5bdp"),
            pair("bbr", "cubic", buffer="8bdp"),
            low=1.0,
            changed="It averaged over all rates.",
        ),
        says("figure 2", "parity", "small CUBIC flows do beside BBR most like beside CUBIC at 2 BDP")
        .agrees_if(
            "times in BBR-cubic and CUBIC-cubic are nearer to each other at 2 BDP than at any other buffer, over all "
            "rates",
            Nearest(
                left=train_time(pair("bbr", "cubic")), right=train_time(pair("cubic", "cubic")), over=BUFFER, at="2bdp"
            ),
            changed="It asked for times within 10 % at 2 BDP, and at every rate; what is said is that of all sizes "
            "this one is the most comparable.",
        )
        .with_evidence("queue_bdp", "loss_ratio.train", "completions.train"),
        at_every_rate(
            "shallow-like-bloated",
            "BBR-cubic at 0.5 BDP is as slow as CUBIC-cubic at 8 BDP, or slower",
            "quotient of the times 0.9 or more",
            pair("bbr", "cubic", buffer="0.5bdp"),
            pair("cubic", "cubic", buffer="8bdp"),
            low=1 - HARDLY,
        ),
        says("figure 3", "cubic-bbr", "in CUBIC-bbr the large flow loses most at 0.5 BDP")
        .agrees_if(
            "its throughput, relative to that beside cubic trains, is least at 0.5 BDP of 0.5 and 8 BDP, and "
            "lower there than beside cubic trains",
            Every(
                (
                    compare(
                        "goodput_fraction.large",
                        pair("cubic", "bbr", buffer="0.5bdp"),
                        pair("cubic", "bbr", buffer="8bdp"),
                        high=1.0,
                        by=RATE,
                    ),
                    compare(
                        "goodput_fraction.large",
                        pair("cubic", "bbr", buffer="0.5bdp"),
                        pair("cubic", "cubic", buffer="0.5bdp"),
                        high=1.0,
                        by=RATE,
                    ),
                )
            ),
            changed="It compared 0.5 with 8 BDP only, and not with cubic trains.",
        )
        .with_evidence("loss_ratio.large", "utilization"),
        says("figure 4", "utilization", "and the link is used less than beside cubic trains")
        .agrees_if(
            "utilization in CUBIC-bbr at 0.5 BDP below that in CUBIC-cubic, over all rates",
            compare(
                "utilization", pair("cubic", "bbr", buffer="0.5bdp"), pair("cubic", "cubic", buffer="0.5bdp"), high=1.0
            ),
        )
        .with_evidence("loss_ratio.large", "goodput_fraction.large", "goodput_fraction.train"),
    )
    .plotted(
        *(
            lines(
                f"Completion time of the train's flows ({name} large)",
                "fct_s.train",
                x=BUFFER,
                by=TRAIN,
                where={LARGE: large},
            )
            for large, name in (("bbr", "BBR"), ("cubic", "CUBIC"))
        ),
        lines("Throughput of a large CUBIC flow", "goodput_fraction.large", x=BUFFER, by=TRAIN, where={LARGE: "cubic"}),
        lines("Utilization beside a large CUBIC flow", "utilization", x=BUFFER, by=TRAIN, where={LARGE: "cubic"}),
    )
)

WINDOW = (
    figure("5", "gaps", "40 Mbit/s, 0.5 BDP; window of a large CUBIC flow", window=ALL_OF_IT, life_of="large")
    .states(
        says("figure 5", "small-window", "beside bbr trains the large flow's window stays small")
        .agrees_if(
            "its mean below 80 % of that beside cubic trains",
            compare("cwnd_bdp.large", {TRAIN: "bbr", GAP: "100ms"}, {TRAIN: "cubic", GAP: "100ms"}, high=0.8),
        )
        .with_evidence("loss_ratio.large", "utilization")
    )
    .plotted(
        *(
            over_time(f"Window beside {train} trains", "cwnd", where={TRAIN: train, GAP: "100ms"}, group="large")
            for train in ("bbr", "cubic")
        )
    )
)

# The rate at which the publication's figure 7 has the dip, by size of the train's flows.
DIPS = {"500KB": "20Mbit", "1MB": "40Mbit", "2MB": "60Mbit"}
SIZES = (
    figure(
        "6-7", "train-sizes", "trains of 500 KB, 1 MB and 2 MB, 0.5 BDP, all rates", window=ALL_OF_IT, life_of="large"
    )
    .states(
        *(
            says("figures 6 and 7", f"dip-{size}", f"with flows of {size} utilization dips at {rate}/s")
            .agrees_if(
                f"utilization beside bbr trains less at {rate}/s than at any other rate, lower and higher ones",
                Extreme(pick=Pick("utilization", {TRAIN: "bbr", SIZE: size}), over=RATE, at=rate, kind="least"),
                changed="It asked for a dip anywhere that moves with the size, also the other way than published.",
            )
            .with_evidence("goodput_fraction.large", "goodput_fraction.train", "completions.train", "loss_ratio.large")
            for size, rate in DIPS.items()
        )
    )
    .plotted(
        lines(
            "Throughput of the large CUBIC flow (bbr trains)",
            "goodput_fraction.large",
            x=RATE,
            by=SIZE,
            where={TRAIN: "bbr"},
        ),
        *(
            lines(f"Utilization ({train} trains)", "utilization", x=RATE, by=SIZE, where={TRAIN: train})
            for train in ("bbr", "cubic")
        ),
    )
)

GAPS = (
    figure("8", "gaps", "90 MB CUBIC beside trains with gaps of 0 to 0.9 s", window=ALL_OF_IT, life_of="large")
    .states(
        says(
            "figure 8",
            "bbr-at-long-gaps",
            "the difference in utilization between bbr and cubic trains is largest at the longest gap",
        )
        .agrees_if(
            "utilization beside bbr trains is below that beside cubic trains by more at the longest gap than "
            "at any other",
            Farthest(left=Pick("utilization", {TRAIN: "cubic"}), right=Pick("utilization", {TRAIN: "bbr"}), over=GAP),
            changed="It compared the large flow's throughput; the figure is about utilization.",
        )
        .with_evidence("goodput_fraction.large", "goodput_fraction.train")
    )
    .plotted(lines("Utilization by gap", "utilization", x=GAP, by=TRAIN))
)

EQUALS = (
    figure("9", "equals", "1 MB CUBIC beside 1 MB BBR or CUBIC, 20 Mbit/s", window=ALL_OF_IT, life_of="subject")
    .states(
        says("figure 9", "long", "completion beside BBR in small buffers is long")
        .agrees_if(
            "longer than beside CUBIC at 0.5 BDP, by 10 % or more",
            Compare(left=subject_time("bbr", "0.5bdp"), right=subject_time("cubic", "0.5bdp"), low=1.1),
        )
        .with_evidence("loss_ratio.subject", "completions.subject", "queue_bdp"),
        says("figure 9", "variable", "and very variable")
        .agrees_if(
            "coefficient of variation higher than beside CUBIC",
            Compare(
                left=subject_time("bbr", "0.5bdp", "fct_cv.subject"),
                right=subject_time("cubic", "0.5bdp", "fct_cv.subject"),
                low=1.0,
            ),
        )
        .with_evidence("fct_s.subject", "fct_sd_s.subject", "completions.subject"),
        says("figure 9", "flat", "beside CUBIC it hardly depends on the buffer")
        .agrees_if(
            "times at any two buffers within 10 %",
            Spread(pick=subject_time("cubic"), across=BUFFER, most=HARDLY, relative=True),
            changed="It allowed 40 % between 0.5 and 4 BDP.",
        )
        .with_evidence("queue_bdp", "completions.subject"),
    )
    .plotted(lines("Completion time of 1 MB CUBIC flows", "fct_s.subject", x=BUFFER, by=RIVAL))
)

MEDIUM = (
    figure(
        "10-12", "medium", "1 MB CUBIC beside a large BBR or CUBIC flow, 20 Mbit/s", window=ALL_OF_IT, life_of="large"
    )
    .states(
        says("figure 10", "worst", "what it takes longer beside BBR than beside CUBIC is most at 0.5 BDP")
        .agrees_if(
            "completion beside BBR longer than beside CUBIC at 0.5 BDP, and by more than at any other buffer",
            Farthest(left=train_time({LARGE: "bbr"}), right=train_time({LARGE: "cubic"}), over=BUFFER, at="0.5bdp"),
            changed="It asked for a fall by 0.2 s from 0.5 to 2 BDP, then for the longest time beside BBR; the figure "
            "shows the increase over CUBIC.",
        )
        .with_evidence("loss_ratio.train", "completions.train", "fct_sd_s.train"),
        says("figure 11", "windows", "the train's windows are larger at 2 BDP than at 1 BDP")
        .agrees_if(
            "mean congestion window of the small CUBIC flows beside BBR, in bytes",
            compare("cwnd_bdp.train", {LARGE: "bbr", BUFFER: "2bdp"}, {LARGE: "bbr", BUFFER: "1bdp"}, low=1.0),
        )
        .with_evidence("cwnd_bdp.large", "loss_ratio.train", "retransmit_ratio.train"),
        says(
            "figure 12",
            "pacing",
            "BBR's pacing rate is markedly lower at 2 BDP than at 1 BDP",
        )
        .agrees_if(
            "the mean at 2 BDP is 95 % or less of that at 1 BDP",
            compare("pacing_fraction.large", {LARGE: "bbr", BUFFER: "2bdp"}, {LARGE: "bbr", BUFFER: "1bdp"}, high=0.95),
            changed="Any quotient below 1 was enough, such as 0.994.",
        )
        .with_evidence("pacing_median.large", "goodput_fraction.large", "bbr_bandwidth_sum", "utilization"),
    )
    .plotted(
        lines("Completion time of 1 MB CUBIC flows", "fct_s.train", x=BUFFER, by=LARGE),
        *(
            Plot(kind="box", title=title, panels=(column,), x=BUFFER, where={LARGE: "bbr"}, group=group)
            for title, column, group in (
                ("Congestion window of the large flow (BBR)", "cwnd_bytes", "large"),
                ("Congestion window of the train's flows", "cwnd_bytes", "train"),
                ("Pacing rate of BBR", "pacing_rate_bps", "large"),
            )
        ),
    )
)


def beside_bbr(measure: str, buffer: str, low: float = 0.0, high: float = MORE) -> Compare:
    """A measure of small flows beside BBR, compared with that beside CUBIC."""
    bbr, cubic = ({LARGE: large, BUFFER: buffer} for large in ("bbr", "cubic"))
    return compare(measure, bbr, cubic, low=low, high=high, needs=TRAIN_FLOWS)


SMALL = (
    figure("13-15", "small", "100 KB CUBIC, 5 Mbit/s", window=ALL_OF_IT, life_of="large")
    .states(
        says("figure 13", "suffers", "small flows suffer from BBR even at 2 BDP")
        .agrees_if("longer beside BBR than beside CUBIC at 2 BDP", beside_bbr("fct_s.train", "2bdp", low=1.0))
        .with_evidence("loss_ratio.train", "queue_bdp"),
        says("figure 13", "gains", "and gain at 4 and 8 BDP")
        .agrees_if(
            "shorter beside BBR than beside CUBIC at 4 and at 8 BDP",
            Every((beside_bbr("fct_s.train", "4bdp", high=1.0), beside_bbr("fct_s.train", "8bdp", high=1.0))),
            changed="It looked at 8 BDP only, and later at the mean of 4 and 8 BDP, after a difference had been seen.",
        )
        .with_evidence("queue_bdp", "loss_ratio.train"),
        says("figure 14", "tail", "the slowest of them are slower beside BBR at 1 and 2 BDP")
        .agrees_if(
            "95th percentile of completion times longer beside BBR, at both buffers",
            Every(tuple(beside_bbr("fct_p95_s.train", buffer, low=1.0) for buffer in ("1bdp", "2bdp"))),
        )
        .with_evidence("fct_s.train", "loss_ratio.train", "completions.train"),
    )
    .plotted(
        lines("Completion time of 100 KB CUBIC flows", "fct_s.train", x=BUFFER, by=LARGE),
        lines("Retransmissions", "retransmit_ratio.train", x=BUFFER, by=LARGE),
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
    )
)

STUDY = Study(
    name="hurtig2018",
    citation='P. Hurtig, H. Haile, K.-J. Grinnemo, A. Brunstrom, E. Atxutegi, F. Liberal, A. Arvidsson, "Impact of '
    'TCP BBR on CUBIC Traffic: A Mixed Workload Evaluation", ITC 30, 2018',
    conditions="Linux 4.10 and 4.11; htb and netem; RTT 45 ms; 5 to 70 Mbit/s; 0.5 to 8 BDP; iperf3; 10 repeats; a "
    "train's next flow 0.1 s after the last one has finished, its first 0.5 s after the large flow's start.",
    differences="A train lasts as long as the large flow. Flows end when the receiver has read their last byte.",
    figures=(TRAINS, WINDOW, SIZES, GAPS, EQUALS, MEDIUM, SMALL),
    claims=36,
    shown="9",
    account="The text was not at hand but for its abstract: claims are those of that, of a summary of the figures, "
    "and of what a reader reported of figures 2, 8, 10, 14 and 15 (marked as changed).",
    left_out=(
        judged_above(
            "abstract",
            "BBR's start can take much throughput from large CUBIC flows, and leave the link less used",
            "figures 3 and 4: a large CUBIC flow beside bbr trains at 0.5 BDP",
        ),
        judged_above(
            "abstract",
            "BBR in its steady state can slow down small flows of loss-based algorithms in buffers of up to 2 BDP",
            "figures 2, 10 and 13: completion beside a large BBR flow at 0.5 to 2 BDP",
        ),
        not_tested(
            "figure 15",
            "how BBR's pacing rate differs between 1 and 2 BDP beside flows of 100 KB",
            "an earlier rule took this figure for one of completion times, and another for one of retransmissions; "
            "what is said of pacing was not at hand",
        ),
        not_tested(
            "section on the experiments",
            "with confidence intervals of ten repetitions, which differences are significant",
            "the sentences were not at hand",
        ),
        untestable(
            "abstract",
            "a new algorithm takes a thorough evaluation beside those that are deployed, with flows of all sizes",
            "a motive, not an observation",
        ),
    ),
    controls=(
        cards("train-sizes", "dip-1MB"),
        cards("gaps", "bbr-at-long-gaps"),
        control("medium-larger", "medium", "a large flow of 60 MB and four repetitions", "worst", "windows", "pacing"),
        control("small-larger", "small", "a large flow of 30 MB, as published", "suffers", "gains", "tail"),
        control("equals-more", "equals", "40 completions a run instead of 20", "long", "variable", "flat"),
        before_5_1("train-sizes", "dip-1MB"),
        before_5_1("gaps", "bbr-at-long-gaps"),
        through("tbf", "trains", "bbr-bbr", "parity", "shallow-like-bloated"),
        through("tbf", "train-sizes", *(f"dip-{size}" for size in DIPS)),
        through("tbf", "gaps", "bbr-at-long-gaps"),
        through("tbf", "equals", "long", "variable", "flat"),
        through("mahimahi", "train-sizes", "dip-1MB"),
        through("mahimahi", "gaps", "bbr-at-long-gaps"),
    ),
)
