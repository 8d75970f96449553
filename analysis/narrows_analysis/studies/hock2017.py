# SPDX-License-Identifier: Apache-2.0
"""Hock, Bless, Zitterbart, ICNP 2017 and their slides at IETF 100: what they say, topic by topic."""

from __future__ import annotations

from narrows_analysis.studies.checks import Compare, Every, Pick, Where, Within
from narrows_analysis.studies.model import Control, Plot, Statement, Study, StudyFigure, through_tbf

BUFFER, CCA, COUNT = "bottleneck.buffer", "flows.all.cca", "flows.all.count"
SMALL, LARGE = "0.8bdp", "8bdp"
ONE_BBR: Where = {BUFFER: LARGE, CCA: "bbr", COUNT: "1"}
SEVERAL_BBR: Where = {BUFFER: LARGE, CCA: "bbr", COUNT: (2, 6)}
BBR_SMALL: Where = {BUFFER: SMALL, CCA: "bbr", COUNT: "6"}
CUBIC_SMALL: Where = {BUFFER: SMALL, CCA: "cubic", COUNT: "6"}
PAIRS = "flows.*.count"
SUPPRESSED = 0.8  # share of BBR from which CUBIC is called suppressed: a fourth of BBR's is left

STUDY = Study(
    name="hock2017",
    citation='M. Hock, R. Bless, M. Zitterbart, "Experimental Evaluation of BBR Congestion Control", ICNP 2017, and '
    "their slides at IETF 100",
    conditions="Linux 4.9; 1 and 10 Gbit/s; RTT 20 ms; buffers of 16 ms (0.8 BDP) and 160 ms (8 BDP); iperf3; "
    "5 repeats.",
    differences="The quick variant keeps RTTs and buffers (in BDP) and lowers the rate.",
    figures=(
        StudyFigure(
            id="single",
            experiment="alone",
            title="1 BBR flow",
            statements=(
                Statement(
                    id="rate",
                    says="a single flow has the bottleneck's rate",
                    source="slides: single flow",
                    agrees_if="utilization 90 % or more at 8 BDP",
                    check=Within(pick=Pick("utilization", ONE_BBR), low=0.9, high=1.01),
                    unit="%",
                    evidence=("queue_bdp", "bbr_bandwidth_sum", "loss_ratio"),
                ),
                Statement(
                    id="queue",
                    says="with a queue that is nearly empty",
                    source="slides: single flow",
                    agrees_if="0.35 BDP or less on average",
                    check=Within(pick=Pick("queue_bdp", ONE_BBR), high=0.35),
                    unit="BDP",
                    evidence=("queue_p95_bdp", "bbr_bandwidth_sum", "bbr_min_rtt_s"),
                    explained_by="window",
                ),
            ),
            plots=(Plot(kind="time", title="A single BBR flow", panels=("goodput", "queue"), where=ONE_BBR),),
        ),
        StudyFigure(
            id="several",
            experiment="alone",
            title="2 to 6 BBR flows, 8 BDP",
            statements=(
                Statement(
                    id="queue",
                    says="from two flows on a queue of 1 to 1.5 BDP stands",
                    source="slides: several flows, large buffer",
                    agrees_if="0.75 to 1.75 BDP with each number of flows",
                    check=Within(pick=Pick("queue_bdp", SEVERAL_BBR), low=0.75, high=1.75, each=True),
                    unit="BDP",
                    evidence=("queue_p95_bdp", "bbr_bandwidth_sum", "bbr_min_rtt_s"),
                    explained_by="window",
                ),
                Statement(
                    id="rtt",
                    says="which doubles the RTT",
                    source="slides: several flows, large buffer",
                    agrees_if="1.75 to 2.75 times the base with each number of flows",
                    check=Within(pick=Pick("rtt_ratio", SEVERAL_BBR), low=1.75, high=2.75, each=True),
                    unit="x",
                    evidence=("queue_bdp",),
                    explained_by="window",
                ),
                Statement(
                    id="intra",
                    says="there is no consistent fairness among 6 BBR flows",
                    source="slides: intra-protocol fairness",
                    agrees_if="Jain's index below 0.9 at one buffer or both",
                    check=Within(pick=Pick("jain", {CCA: "bbr", COUNT: "6"}), high=0.9, some=True),
                    evidence=("rate_p25.all", "rate_p75.all", "loss_ratio", "probe_synchrony"),
                ),
            ),
            plots=(
                Plot(
                    kind="time",
                    title="6 BBR flows in a deep buffer",
                    panels=("goodput", "queue"),
                    where={**BBR_SMALL, BUFFER: LARGE},
                ),
            ),
        ),
        StudyFigure(
            id="small-buffer",
            experiment="alone",
            title="6 BBR or 6 CUBIC flows, 0.8 BDP",
            statements=(
                Statement(
                    id="massive",
                    says="BBR's loss is massive",
                    source="slides: small buffer",
                    agrees_if="4 % or more",
                    check=Within(pick=Pick("loss_ratio", BBR_SMALL), low=0.04),
                    unit="%",
                    evidence=("queue_fill", "bbr_pacing_sum", "bbr_window_sum_bdp"),
                ),
                Statement(
                    id="tiny",
                    says="three orders of magnitude above CUBIC's",
                    source="slides: small buffer",
                    agrees_if="more than 10 to the power of 2.5 times CUBIC's, which rounds to three orders",
                    check=Compare(
                        left=Pick("loss_ratio", BBR_SMALL), right=Pick("loss_ratio", CUBIC_SMALL), low=10**2.5
                    ),
                    unit="%",
                    evidence=("queue_fill", "utilization"),
                    changed="A factor of 5 was enough.",
                ),
            ),
            plots=(
                Plot(
                    kind="lines",
                    title="Loss by number of flows",
                    panels=("loss_ratio",),
                    x=COUNT,
                    by=CCA,
                    where={BUFFER: SMALL},
                ),
            ),
        ),
        StudyFigure(
            id="against-cubic",
            experiment="against-cubic",
            title="BBR beside CUBIC, both buffers",
            statements=(
                Statement(
                    id="suppressed",
                    says="in a small buffer one BBR flow suppresses CUBIC",
                    source="slides: inter-protocol fairness",
                    agrees_if="share of BBR 80 % or more",
                    check=Within(pick=Pick("share.bbr", {BUFFER: SMALL, PAIRS: "1"}), low=SUPPRESSED),
                    unit="%",
                    evidence=("loss_ratio.bbr", "loss_ratio.cubic"),
                ),
                Statement(
                    id="may-lose",
                    says="in a large one it may lose",
                    source="slides: inter-protocol fairness",
                    agrees_if="share of BBR below 50 %",
                    check=Within(pick=Pick("share.bbr", {BUFFER: LARGE, PAIRS: "1"}), high=0.5),
                    unit="%",
                    evidence=("queue_bdp", "model_share"),
                ),
                Statement(
                    id="several",
                    says="several BBR flows together suppress CUBIC severely, and more than one does",
                    source="slides: inter-protocol fairness",
                    quote="severely suppressed",
                    agrees_if="share of two BBR flows beside two CUBIC flows, each started separately, 80 % or more, "
                    "and above that of one beside one, at 8 BDP",
                    check=Every(
                        (
                            Within(pick=Pick("share.bbr", {BUFFER: LARGE, PAIRS: "2"}), low=SUPPRESSED),
                            Compare(
                                left=Pick("share.bbr", {BUFFER: LARGE, PAIRS: "2"}),
                                right=Pick("share.bbr", {BUFFER: LARGE, PAIRS: "1"}),
                                low=1.0,
                            ),
                        )
                    ),
                    unit="%",
                    evidence=("queue_bdp", "bbr_min_rtt_s", "loss_ratio.bbr", "loss_ratio.cubic"),
                    changed="Any increase was enough, and the second flows of both algorithms started together.",
                ),
            ),
            plots=(
                Plot(
                    kind="time",
                    title="1 BBR against 1 CUBIC, 0.8 BDP",
                    panels=("goodput", "queue"),
                    where={BUFFER: SMALL, PAIRS: "1"},
                ),
                Plot(
                    kind="time",
                    title="2 BBR against 2 CUBIC, 8 BDP",
                    panels=("goodput", "queue"),
                    where={BUFFER: LARGE, PAIRS: "2"},
                ),
            ),
        ),
        StudyFigure(
            id="rtt-fairness",
            experiment="rtt-fairness",
            title="3 BBR flows of 20, 40 and 80 ms",
            statements=(
                Statement(
                    id="longest",
                    says="the longer the RTT the higher the throughput: 80 ms beats 40 ms",
                    source="slides: RTT fairness",
                    agrees_if="quotient of the shares above 1",
                    check=Compare(left=Pick("share.rtt80"), right=Pick("share.rtt40"), low=1.0),
                    unit="%",
                    evidence=("share.rtt20", "share.rtt40", "share.rtt80"),
                ),
                Statement(
                    id="middle",
                    says="and 40 ms beats 20 ms",
                    source="slides: RTT fairness",
                    agrees_if="quotient of the shares above 1",
                    check=Compare(left=Pick("share.rtt40"), right=Pick("share.rtt20"), low=1.0),
                    unit="%",
                    evidence=("share.rtt20", "share.rtt40", "share.rtt80", "queue_bdp"),
                ),
            ),
            plots=(Plot(kind="time", title="Three RTTs in one bottleneck", panels=("goodput", "queue")),),
        ),
    ),
    controls=(
        Control(id="alone-longer", experiment="alone", change="for 120 s", statements=("intra",)),
        Control(
            id="alone-staggered",
            experiment="alone",
            change="started one after the other, 3 s apart",
            statements=("intra",),
        ),
        Control(id="alone-full-rate", experiment="alone", change="at 1 Gbit/s, as published", statements=("intra",)),
        through_tbf("alone", "intra"),
    ),
)
