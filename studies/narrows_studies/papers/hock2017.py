# SPDX-License-Identifier: Apache-2.0
"""Hock, Bless, Zitterbart, ICNP 2017 and their slides at IETF 100: their claims, topic by topic."""

from __future__ import annotations

from narrows_studies.checks import AtOneOf, Compare, Every, Pick, Sometimes, Where, compare, within
from narrows_studies.model import (
    Study,
    before_5_1,
    cards,
    control,
    figure,
    lines,
    over_time,
    says,
    through,
)
from narrows_studies.papers.claims.hock2017 import CLAIMS

RATE, BUFFER, CCA, COUNT = "bottleneck.rate", "bottleneck.buffer", "flows.all.cca", "flows.all.count"
SMALL, LARGE = "0.8bdp", "8bdp"
ONE_BBR: Where = {BUFFER: LARGE, CCA: "bbr", COUNT: "1"}
SEVERAL_BBR: Where = {BUFFER: LARGE, CCA: "bbr", COUNT: (2, 6)}
BBR_SMALL: Where = {BUFFER: SMALL, CCA: "bbr", COUNT: "6"}
CUBIC_SMALL: Where = {BUFFER: SMALL, CCA: "cubic", COUNT: "6"}
PAIRS = "flows.*.count"
FAIR = 0.9
SUPPRESSED = 0.8  # share of BBR from which CUBIC is called suppressed: a fourth of BBR's is left

STUDY = Study(
    name="hock2017",
    citation='M. Hock, R. Bless, M. Zitterbart, "Experimental Evaluation of BBR Congestion Control", ICNP 2017, and '
    "their slides at IETF 100",
    conditions="Linux 4.9; 1 and 10 Gbit/s; RTT 20 ms; buffers of 16 ms (0.8 BDP) and 160 ms (8 BDP); iperf3; "
    "5 repeats.",
    differences="The quick variant keeps RTTs and buffers (in BDP) and lowers the rate. Statements are to hold at each "
    "rate, although the slides show both rates for RTT fairness only, and 1 Gbit/s, or none, for the rest; until the "
    "first run at 10 Gbit/s rules looked at the mean over rates.",
    figures=(
        figure("single", "alone", "1 BBR flow")
        .states(
            says("slides: single flow", "rate", "a single flow has the bottleneck's rate")
            .agrees_if(
                "utilization 90 % or more at 8 BDP, at each rate",
                within("utilization", ONE_BBR, low=0.9, high=1.01, each=True),
            )
            .with_evidence("queue_bdp", "bbr_bandwidth_sum", "loss_ratio"),
            says("slides: single flow", "queue", "with a queue that is nearly empty")
            .agrees_if("0.35 BDP or less on average, at each rate", within("queue_bdp", ONE_BBR, high=0.35, each=True))
            .with_evidence("queue_p95_bdp", "bbr_bandwidth_sum", "bbr_min_rtt_s", explained_by="window"),
        )
        .plotted(over_time("A single BBR flow", "goodput", "queue", where=ONE_BBR)),
        figure("several", "alone", "2 to 6 BBR flows, 8 BDP")
        .states(
            says("slides: several flows, large buffer", "queue", "from two flows on a queue of 1 to 1.5 BDP stands")
            .agrees_if(
                "0.75 to 1.75 BDP with each number of flows, at each rate",
                within("queue_bdp", SEVERAL_BBR, low=0.75, high=1.75, each=True),
            )
            .with_evidence("queue_p95_bdp", "bbr_bandwidth_sum", "bbr_min_rtt_s", explained_by="window"),
            says("slides: several flows, large buffer", "rtt", "which doubles the RTT")
            .agrees_if(
                "1.5 to 2.5 times the base with each number of flows, at each rate",
                within("rtt_ratio", SEVERAL_BBR, low=1.5, high=2.5, each=True),
                changed="It was 1.75 to 2.75 times, from the queue of 1 to 1.5 BDP: the slides have 40 ms in "
                "place of 20.",
            )
            .with_evidence("queue_bdp", explained_by="window"),
            says("slides: several flows", "overestimate", "all flows together take the link for more than it is")
            .agrees_if(
                "what they take the bandwidth for adds up to more than the link's with each number of flows, at "
                "each rate",
                within("bbr_bandwidth_sum", SEVERAL_BBR, low=1.0, each=True),
                changed="It was called an explanation; the sum is measured.",
            )
            .with_evidence("queue_bdp", "bbr_pacing_sum", "bbr_window_sum_bdp"),
            says("slides: intra-protocol fairness", "intra", "there is no consistent fairness among 6 BBR flows")
            .agrees_if(
                "some runs have a Jain's index below 0.9, at either buffer; it differs if none of so many has that "
                "fewer than a tenth of all can",
                Sometimes(pick=Pick("jain", {CCA: "bbr", COUNT: "6"}), high=FAIR),
                changed="It looked at the mean over runs. What is said is that runs are not alike: in some of them "
                "flows are unfair.",
            )
            .with_evidence("rate_p25.all", "rate_p75.all", "loss_ratio", "probe_synchrony"),
        )
        .plotted(over_time("6 BBR flows in a deep buffer", "goodput", "queue", where={**BBR_SMALL, BUFFER: LARGE})),
        figure("small-buffer", "alone", "6 BBR or 6 CUBIC flows, 0.8 BDP")
        .states(
            says("slides: small buffer", "massive", "BBR's loss is massive")
            .agrees_if("4 % or more at each rate", within("loss_ratio", BBR_SMALL, low=0.04, each=True))
            .with_evidence("queue_fill", "bbr_pacing_sum", "bbr_window_sum_bdp"),
            says("slides: small buffer", "tiny", "three orders of magnitude above CUBIC's")
            .agrees_if(
                "more than 10 to the power of 2.5 times CUBIC's, which rounds to three orders, at each rate",
                compare("loss_ratio", BBR_SMALL, CUBIC_SMALL, low=10**2.5, by=RATE),
                changed="A factor of 5 was enough.",
            )
            .with_evidence("queue_fill", "utilization"),
        )
        .plotted(lines("Loss by number of flows", "loss_ratio", x=COUNT, by=CCA, where={BUFFER: SMALL})),
        figure("against-cubic", "against-cubic", "BBR beside CUBIC, both buffers")
        .states(
            says("slides: inter-protocol fairness", "suppressed", "in a small buffer one BBR flow suppresses CUBIC")
            .agrees_if(
                "share of BBR 80 % or more at each rate",
                within("share.bbr", {BUFFER: SMALL, PAIRS: "1"}, low=SUPPRESSED, each=True),
            )
            .with_evidence("loss_ratio.bbr", "loss_ratio.cubic"),
            says("slides: inter-protocol fairness", "may-lose", "in a large one it may lose")
            .agrees_if(
                "share of BBR below 50 % at each rate",
                within("share.bbr", {BUFFER: LARGE, PAIRS: "1"}, high=0.5, each=True),
            )
            .with_evidence("queue_bdp", "model_share"),
            says(
                "slides: inter-protocol fairness",
                "several",
                "two BBR flows together suppress two CUBIC flows severely, and more than one does; no buffer is named",
            )
            .agrees_if(
                "share of two BBR flows beside two CUBIC flows, each started separately, 80 % or more, and above that "
                "of one beside one, at each rate; at both buffers, or it cannot be compared",
                AtOneOf(
                    over=BUFFER,
                    check=Every(
                        (
                            within("share.bbr", {PAIRS: "2"}, low=SUPPRESSED, each=True),
                            compare("share.bbr", {PAIRS: "2"}, {PAIRS: "1"}, low=1.0, by=RATE),
                        )
                    ),
                ),
                changed="Any increase was enough, and the second flows of both algorithms started together; then 8 "
                "BDP was assumed, which the slide does not say.",
            )
            .with_evidence("queue_bdp", "bbr_min_rtt_s", "loss_ratio.bbr", "loss_ratio.cubic"),
        )
        .plotted(
            over_time("1 BBR against 1 CUBIC, 0.8 BDP", "goodput", "queue", where={BUFFER: SMALL, PAIRS: "1"}),
            over_time("2 BBR against 2 CUBIC, 8 BDP", "goodput", "queue", where={BUFFER: LARGE, PAIRS: "2"}),
        ),
        figure("rtt-fairness", "rtt-fairness", "3 BBR flows of 20, 40 and 80 ms")
        .states(
            says("slides: RTT fairness", "longest", "the longer the RTT the higher the throughput: 80 ms beats 40 ms")
            .agrees_if(
                "quotient of the shares above 1 at each rate",
                Compare(left=Pick("share.rtt80"), right=Pick("share.rtt40"), low=1.0, by=RATE),
            )
            .with_evidence("share.rtt20", "share.rtt40", "share.rtt80"),
            says("slides: RTT fairness", "middle", "and 40 ms beats 20 ms")
            .agrees_if(
                "quotient of the shares above 1 at each rate",
                Compare(left=Pick("share.rtt40"), right=Pick("share.rtt20"), low=1.0, by=RATE),
            )
            .with_evidence("share.rtt20", "share.rtt40", "share.rtt80", "queue_bdp"),
        )
        .plotted(over_time("Three RTTs in one bottleneck", "goodput", "queue")),
    ),
    claims=CLAIMS,
    shown="small-buffer",
    account="Claims are those of the slides, without their plots; the paper itself was not at hand.",
    controls=(
        cards("alone", "intra"),
        control("alone-longer", "alone", "for 120 s", "intra"),
        control("alone-staggered", "alone", "started one after the other, 3 s apart", "intra"),
        control("alone-full-rate", "alone", "at 1 Gbit/s, as published", "intra"),
        before_5_1("against-cubic", "several"),
        through("tbf", "alone", "intra"),
        through("tbf", "against-cubic", "several"),
        through("mahimahi", "alone", "intra"),
        through("mahimahi", "against-cubic", "several"),
    ),
)
