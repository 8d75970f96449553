# SPDX-License-Identifier: Apache-2.0
"""Claypool et al., "Sharing but not Caring" (2019): its claims, figure by figure."""

from __future__ import annotations

from narrows_studies.checks import (
    AtOneOf,
    Compare,
    Crossing,
    Every,
    Pick,
    Straight,
    Trend,
    Where,
    Within,
    compare,
    within,
)
from narrows_studies.model import (
    Plot,
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
from narrows_studies.papers.claims.claypool2019 import CLAIMS

BUFFER, RATE, CCA = "bottleneck.buffer", "bottleneck.rate", "flows.all.cca"
MINUTES_2_TO_4 = (0.2, 0.8)
BBR, CUBIC = {CCA: "bbr"}, {CCA: "cubic"}
COUNT = "flows.bbr.count"
FIGURE_6: Where = {RATE: "80Mbit", BUFFER: "0.5bdp", COUNT: "4"}
CYCLIC = 0.3  # correlation of the shares one period apart from which they are called cyclic
CCA_BBR = "flows.bbr.cca"
SHALLOW: Where = {BUFFER: (0.25, 1.25)}
TWO: Where = {"flows.*.count": "2"}


def two(buffer: str | tuple[float, float]) -> Where:
    """Points with two BBR and two CUBIC flows at some buffers."""
    return {**TWO, BUFFER: buffer}


STUDY = Study(
    name="claypool2019",
    citation='S. Claypool, M. Claypool, J. Chung, F. Li, "Sharing but not Caring - Performance of TCP BBR and TCP '
    'CUBIC at the Network Bottleneck", 4th IARIA ACCSE, 2019',
    conditions="Eight Raspberry Pi 3B+ hosts, a flow each, Linux 4.17; a Linux router with netem (25 ms in all) and "
    "two tbf in a chain, with small buckets; buffers from 0.25 to 8 BDP; minutes 2 to 4 of 5; three trials.",
    differences="One link in place of the chain, and all senders of a group share a host. The first fifth and "
    "the last fifth of a run are left out.",
    figures=(
        figure("4b", "staggered", "4 BBR flows, 80 Mbit/s, staggered starts", window=(0.3, 1.0))
        .states(
            says("figure 4b", "fair", "all flows have their fair share after about 30 s")
            .agrees_if("Jain's index 0.9 or more", within("jain", low=0.9))
            .with_evidence("rate_p25.bbr", "rate_p75.bbr"),
            says("figure 4b", "probes-coincide", "the RTT probes of all flows coincide")
            .agrees_if("75 % of the probes or more", within("probe_synchrony", low=0.75))
            .with_evidence("probe_gap_s", "bbr_min_rtt_s"),
            says("figure 4b", "probe-gap", "they probe every 10 s")
            .agrees_if("9.5 to 11 s", within("probe_gap_s", low=9.5, high=11))
            .with_evidence("probe_synchrony", "bbr_min_rtt_s"),
        )
        .plotted(over_time("Throughput and RTT of staggered BBR flows", "goodput", "delay")),
        figure("5", "deep-buffer", "4 BBR or 4 CUBIC flows, 80 Mbit/s, 8 BDP", window=MINUTES_2_TO_4)
        .states(
            says("figure 5", "bbr-queue", "BBR's standing queue is about 1.1 BDP")
            .agrees_if("0.85 to 1.35 BDP", within("queue_bdp", BBR, low=0.85, high=1.35))
            .with_evidence(
                "queue_bdp", "bbr_bandwidth_sum", "bbr_min_rtt_s", "bbr_inflight_sum_bdp", explained_by="window"
            ),
            says("figure 5", "bbr-probing", "and 1.5 BDP while probing")
            .agrees_if("95th percentile 1.25 to 1.75 BDP", within("queue_p95_bdp", BBR, low=1.25, high=1.75))
            .with_evidence("queue_bdp", "queue_max_bdp", explained_by="window"),
            says("figure 5", "cubic-fills", "CUBIC fills all 8 BDP")
            .agrees_if("90 % of the buffer at peak", within("queue_max_fill", CUBIC, low=0.9))
            .with_evidence("queue_bdp"),
            says("figure 5", "bbr-rtt", "BBR's RTT is about twice the base")
            .agrees_if("1.5 to 2.5", within("rtt_ratio", BBR, low=1.5, high=2.5))
            .with_evidence("queue_bdp", explained_by="window"),
            says("figure 5", "rtt-quarter", "and about a quarter of CUBIC's")
            .agrees_if("quotient 0.19 to 0.31", compare("rtt_ratio", BBR, CUBIC, low=0.19, high=0.31))
            .with_evidence("queue_bdp", "queue_fill"),
        )
        .plotted(
            over_time("Queue, goodput and delay: BBR", "queue", "goodput", "delay", where=BBR),
            over_time("Queue, goodput and delay: CUBIC", "queue", "goodput", "delay", where=CUBIC),
        ),
        figure("6", "loss", "4 BBR flows, 80 Mbit/s, 0.5 BDP; loss in 500 ms windows", window=MINUTES_2_TO_4)
        .states(
            says("figure 6", "persists", "loss persists")
            .agrees_if("in 90 % of the windows or more", within("lossy_windows", FIGURE_6, low=0.9))
            .with_evidence("loss_ratio", "queue_fill", "utilization"),
            says("figure 6", "average", "above 10 % on average")
            .agrees_if("10 % or more", within("loss_ratio", FIGURE_6, low=0.1))
            .with_evidence("utilization", "queue_fill", "bbr_bandwidth_sum", "bbr_min_rtt_s", explained_by="loss"),
        )
        .plotted(over_time("Loss in 500 ms windows at 0.5 BDP", "loss", "goodput", where={BUFFER: "0.5bdp"})),
        figure("7", "loss", "BBR flows, 40, 80, 120 Mbit/s, 0.25 to 8 BDP", window=MINUTES_2_TO_4)
        .states(
            *(
                says("figure 7 and V, answer B", id, text)
                .agrees_if(
                    f"{low:g} to {high:g} % at every rate; no number of flows is named, so with each, or it cannot be "
                    "compared",
                    AtOneOf(
                        over=COUNT,
                        check=within("loss_ratio", {BUFFER: buffer}, low=low / 100, high=high / 100, each=True),
                    ),
                    changed="It averaged over rates and numbers of flows, then asked for it with each number of flows: "
                    "the text does not name one.",
                )
                .with_evidence("queue_fill", "bbr_bandwidth_sum", "bbr_min_rtt_s", explained_by="loss")
                for id, text, buffer, low, high in (
                    ("half-bdp", "loss is 11 % at 0.5 BDP", "0.5bdp", 9, 13),
                    ("one-bdp", "5.5 % at 1 BDP", "1bdp", 3.5, 7.5),
                )
            ),
            says("V, answer B", "doubles", "which is half of the loss at 0.5 BDP")
            .agrees_if(
                "quotient 1.5 to 2.5 at every rate, with each number of flows, or it cannot be compared",
                AtOneOf(
                    over=COUNT,
                    check=compare("loss_ratio", {BUFFER: "0.5bdp"}, {BUFFER: "1bdp"}, low=1.5, high=2.5, by=RATE),
                ),
                changed="It was not judged: only the factor was known, not what it is of.",
            )
            .with_evidence("queue_fill", "bbr_bandwidth_sum", explained_by="loss"),
            says("figure 7", "none", "none from about 1.5 BDP on")
            .agrees_if(
                "0.1 % or less at every buffer from 1.5 BDP on and every rate, with each number of flows, or it "
                "cannot be "
                "compared",
                AtOneOf(over=COUNT, check=within("loss_ratio", {BUFFER: (1.5, 8)}, high=0.001, each=True)),
                changed="It allowed 1 %, and began at 1.75 BDP; then it asked for it with each number of flows, "
                "none of "
                "which the text names.",
            )
            .with_evidence("queue_max_fill", explained_by="loss"),
            says("figure 7", "falls", "it falls as the buffer grows to 1.5 BDP")
            .agrees_if(
                "falls by 5 points or more",
                Trend(pick=Pick("loss_ratio", {BUFFER: (0.25, 1.5)}), over=BUFFER, rising=False, least=0.05),
            )
            .with_evidence("queue_fill", explained_by="loss"),
            says("V, answer B", "linearly", "and it falls linearly")
            .agrees_if(
                "loss between the least buffer and 1.5 BDP within 2 points of the line between these, over all "
                "rates, with "
                "each number of flows, or it cannot be compared",
                AtOneOf(
                    over=COUNT,
                    check=Straight(pick=Pick("loss_ratio", {BUFFER: (0.25, 1.5)}), over=BUFFER, tolerance=0.02),
                ),
                changed="It was not judged; then it had four flows at 80 Mbit/s from 0.5 BDP on, none of which the "
                "sentence says.",
            )
            .with_evidence("queue_fill", explained_by="loss"),
            says("IV-A, and figure 7", "queue-everywhere", "several flows keep a queue of 1 to 1.5 BDP everywhere")
            .agrees_if(
                "0.75 to 1.75 BDP at each buffer that holds it, from 1.75 BDP on, each rate and number of flows",
                within("queue_bdp", {BUFFER: (1.75, 8)}, low=0.75, high=1.75, each=True),
                changed="Only 8 BDP was judged, then four flows at 80 Mbit/s by the 1.1 BDP of figure 5: the "
                "text has 1 "
                "to 1.5 BDP, with all flows, capacities and queue sizes.",
            )
            .with_evidence("queue_max_bdp", "bbr_bandwidth_sum", explained_by="window"),
        )
        .plotted(lines("Loss by buffer", "loss_ratio", x=BUFFER, by=RATE)),
        figure("8", "coexistence", "BBR against CUBIC, 80 Mbit/s, 0.5 BDP", window=MINUTES_2_TO_4)
        .states(
            says("figure 8", "starved", "CUBIC gets far less than BBR")
            .agrees_if("share of CUBIC below 20 %", within("share.cubic", two("0.5bdp"), high=0.2))
            .with_evidence("loss_ratio.bbr", "loss_ratio.cubic"),
            says("figure 8", "loss", "and about 10 % of the packets are lost")
            .agrees_if(
                "8 to 12 %",
                within("loss_ratio", two("0.5bdp"), low=0.08, high=0.12),
                changed="It was not judged.",
            )
            .with_evidence("loss_ratio.bbr", "loss_ratio.cubic", explained_by="loss"),
        )
        .plotted(over_time("BBR against CUBIC at 0.5 BDP", "goodput", where=two("0.5bdp"))),
        figure("9", "coexistence", "2 BBR and 2 CUBIC flows, 80 Mbit/s, 1.75 BDP", window=MINUTES_2_TO_4)
        .states(
            says("figure 9", "cycle", "they take turns with a period of about 20 s")
            .agrees_if(
                "15 to 25 s, and a correlation of the shares of 0.3 or more one period apart",
                Every(
                    (
                        Within(pick=Pick("turn_period_s", two("1.75bdp"), absent="differs"), low=15, high=25),
                        within("turn_correlation", two("1.75bdp"), low=CYCLIC),
                    )
                ),
                changed="Any period was enough, however weak the correlation.",
            )
            .with_evidence("turn_correlation", "share.bbr", "probe_gap_s"),
            says("figure 9", "not-drained", "not every RTT probe drains the queue")
            .agrees_if(
                "10 to 90 % of the probes leave 0.1 BDP or more",
                within("probes_not_draining", two("1.75bdp"), low=0.1, high=0.9),
                changed="It had no upper limit: probes of which none drains the queue agreed, while the text has the "
                "next one find it empty.",
            )
            .with_evidence("probe_synchrony"),
            says("figure 9", "loss-after-wrong-probes", "much is lost just after BBR's wrong RTT probes")
            .agrees_if(
                "twice as high while BBR takes the least RTT for too long as while it does not, or more",
                Compare(
                    left=Pick("loss_after_wrong_probe", two("1.75bdp")),
                    right=Pick("loss_after_right_probe", two("1.75bdp")),
                    low=2,
                ),
            )
            .with_evidence("bbr_min_rtt_s", "loss_ratio"),
        )
        .plotted(
            over_time("2 BBR and 2 CUBIC flows at 1.75 BDP", "goodput", "delay", "queue", "loss", where=two("1.75bdp"))
        ),
        figure("10", "coexistence", "2 BBR and 2 CUBIC flows, 80 Mbit/s, 0.25 to 8 BDP", window=MINUTES_2_TO_4)
        .states(
            says("figure 10", "bbr-wins", "BBR wins below 1.5 BDP")
            .agrees_if(
                "share of BBR above 55 % at each such buffer",
                within("share.bbr", two((0.25, 1.25)), low=0.55, each=True),
            )
            .with_evidence("queue_fill", "loss_ratio.bbr", "loss_ratio.cubic", "bbr_min_rtt_s"),
            says("figure 10", "equal", "they are equal near 5 BDP")
            .agrees_if(
                "share of 50 % between 3.75 and 6.25 BDP",
                Crossing(pick=Pick("share.bbr", TWO), over=BUFFER, level=0.5, low=3.75, high=6.25),
            )
            .with_evidence("queue_fill", "bbr_min_rtt_s", "bbr_window_sum_bdp"),
            says("IV-D2; figure 10", "cubic-gains", "as the buffer grows CUBIC has more and more")
            .agrees_if(
                "BBR's share falls from 1.75 to 8 BDP, with no step up of more than a quarter of that",
                Trend(pick=Pick("share.bbr", two((1.75, 8))), over=BUFFER, rising=False, least=0.0),
                changed="It was not judged.",
            )
            .with_evidence("queue_bdp", "bbr_min_rtt_s", "bbr_window_sum_bdp"),
            says("figure 10", "cubic-wins", "CUBIC wins above")
            .agrees_if("share of BBR below 50 % at 8 BDP", within("share.bbr", two("8bdp"), high=0.5))
            .with_evidence("queue_bdp", "bbr_min_rtt_s", "bbr_window_sum_bdp"),
            says("figure 10", "spread", "the spread of throughput jumps above 1.5 BDP")
            .agrees_if(
                "quartiles 1.5 times as far apart at 1.75 BDP as at 0.5 BDP",
                compare("rate_iqr.bbr", two("1.75bdp"), two("0.5bdp"), low=1.5),
            )
            .with_evidence("rate_p25.bbr", "rate_p75.bbr", "rate_iqr.cubic", "turn_correlation"),
        )
        .plotted(
            Plot(
                kind="quartiles",
                title="Throughput of a flow by buffer",
                panels=("bbr", "cubic"),
                x=BUFFER,
                where=TWO,
            )
        ),
        figure("11", "shallow", "BBR_Shallow: 4 flows, 80 Mbit/s", window=MINUTES_2_TO_4)
        .states(
            says(
                "figure 11",
                "shallow-loses-less",
                "BBR_Shallow, the authors' change of BBR, loses less in shallow buffers",
            )
            .agrees_if(
                "loss below BBR's at each buffer below 1.5 BDP",
                compare(
                    "loss_ratio", {**SHALLOW, CCA_BBR: "bbr_shallow"}, {**SHALLOW, CCA_BBR: "bbr"}, high=1.0, by=BUFFER
                ),
                changed="It was not judged: BBR_Shallow was thought to be nowhere, and is described in the text as "
                "BBR with windows of 1.5 BDP in place of 2. Then it looked at 0.5 and 1 BDP only.",
            )
            .with_evidence("queue_fill", "utilization", explained_by="loss"),
        )
        .plotted(lines("Loss by buffer, BBR and BBR_Shallow", "loss_ratio", x=BUFFER, by=CCA_BBR)),
    ),
    claims=CLAIMS,
    shown="7",
    account="Claims are those of the whole text, without its plots. No longer judged: that loss peaks at about 6 % in "
    "figure 9, of which the text has no number.",
    controls=(
        cards("loss", "half-bdp", "one-bdp", "none"),
        control(
            "coexistence-longer",
            "coexistence",
            "for 300 s, as published",
            "cycle",
            "not-drained",
            "loss-after-wrong-probes",
        ),
        through("tbf", "loss", "average", "half-bdp", "one-bdp", "none"),
        through("tbf", "deep-buffer", "bbr-queue", "rtt-quarter"),
        through("tbf", "coexistence", "cycle", "not-drained", "equal", "loss"),
        through("tbf", "loss", "queue-everywhere", of="full"),
        through("tbf_chain", "loss", "average", "half-bdp", "one-bdp", "none"),
        through("tbf_chain", "coexistence", "cycle", "not-drained", "loss"),
        before_5_1("loss", "half-bdp", "one-bdp", "none"),
        through("mahimahi", "loss", "half-bdp", "one-bdp", "none"),
    ),
)
