# SPDX-License-Identifier: Apache-2.0
"""Zeynali et al., PAM 2024: BBRv3 beside its predecessors and CUBIC."""

from __future__ import annotations

import itertools
from dataclasses import replace

from narrows_studies.checks import MORE, Compare, Every, Pick, Readings, Trend, Where, Within, compare, within
from narrows_studies.model import (
    Link,
    Plot,
    Statement,
    Study,
    StudyFigure,
    cards,
    control,
    figure,
    lines,
    over_time,
    says,
    through,
)
from narrows_studies.papers.claims.zeynali2024 import CLAIMS

BUFFER, ALL, EVERY = "bottleneck.buffer", "flows.all.cca", "flows.*.cca"
# Through which differences are judged again.
ELSEWHERE: tuple[Link, ...] = ("tbf", "mahimahi")
FIRST, SECOND, SHORT = "flows.first.cca", "flows.second.cca", "flows.short.rtt"
VERSION, BBRS, CUBICS = "flows.bbr.cca", "flows.bbr.count", "flows.cubic.count"
NAMES = {"bbr": "BBRv1", "bbr2": "BBRv2", "bbr3": "BBRv3", "cubic": "CUBIC"}
SHALLOW = (0.0, 0.75)  # buffers below 1 BDP
FAIR, STARVED = 0.9, 0.8
RESOLVED_S = 1.0  # rates are smoothed over this time before convergence is looked for
WHOLE_RUN = (0.0, 1.0)
BBR_VERSIONS = ("bbr", "bbr2", "bbr3")
NOT_JUDGED = "It was not judged."
NONE_DEEP = (
    "0.1 % or less at every buffer from 8 BDP on, with every algorithm",
    within("retransmit_ratio.all", {BUFFER: (8, 16)}, high=0.001, each=True),
)


def convergence(where: Where) -> Pick:
    """Time to convergence; flows that never converge do so after the end of the run."""
    return Pick("convergence_s", where, absent="common_s")


def even_split(where: Where) -> Pick:
    """Time until two flows have 45 to 55 % each, picked as in `convergence`."""
    return Pick("even_split_s", where, absent="common_s")


def less(measure: str, one: Where, other: Where) -> Compare:
    """A measure is smaller at one setting than at another."""
    return compare(measure, one, other, high=1.0)


TOGETHER = (
    figure("3-4", "together", "two equal flows that start together")
    .states(
        *(
            says("figure 3", f"fair-{cca}", f"{name}: two equal flows are fair")
            .agrees_if("Jain's index 0.9 or more at every buffer", within("jain", {ALL: cca}, low=FAIR, each=True))
            .with_evidence("jain_first_half", "jain_second_half", "window_rtts", "convergence_s")
            for cca, name in NAMES.items()
        ),
        says("figure 4", "retransmits", "in shallow buffers BBRv1 retransmits much, which no other algorithm does")
        .agrees_if(
            "a greater part of its packets below 1 BDP than BBRv2, BBRv3 and CUBIC",
            Every(
                tuple(
                    less("retransmit_ratio.all", {ALL: other, BUFFER: SHALLOW}, {ALL: "bbr", BUFFER: SHALLOW})
                    for other in ("bbr2", "bbr3", "cubic")
                )
            ),
            changed="It asked for 5 times CUBIC's, a factor that is not published.",
        )
        .with_evidence("loss_ratio", "queue_fill", "utilization"),
        says("note to figure 4", "none-deep", "virtually nothing is retransmitted at 8 and 16 BDP")
        .agrees_if(*NONE_DEEP, changed=NOT_JUDGED)
        .with_evidence("loss_ratio", "queue_fill"),
        says("figure 3", "least-oscillation", "BBRv3 oscillates least of all versions")
        .agrees_if(
            "quartiles of its rate closer than those of BBRv1 and of BBRv2",
            Every(tuple(less("rate_iqr.all", {ALL: "bbr3"}, {ALL: prior}) for prior in ("bbr", "bbr2"))),
            changed="It left out BBRv2.",
        )
        .with_evidence("rate_p25.all", "rate_p75.all"),
        says("abstract", "v3-quickest", "BBRv3 converges more quickly than BBRv1 and BBRv2")
        .agrees_if(
            "mean time to convergence over all buffers shorter than that of either; flows that never converge do so "
            "after the run's end, and times of 1 s or less are not told apart",
            Every(
                tuple(
                    Compare(
                        left=convergence({ALL: "bbr3"}),
                        right=convergence({ALL: prior}),
                        high=1.0,
                        resolution=RESOLVED_S,
                    )
                    for prior in ("bbr", "bbr2")
                )
            ),
            changed="Flows that are fair from the first second on, 0 s against 0 s, counted as a difference.",
        )
        .with_evidence("jain_first_half", "jain_second_half", "queue_bdp"),
    )
    .plotted(
        lines("Jain's index by buffer", "jain", x=BUFFER, by=ALL),
        lines("Retransmissions by buffer", "retransmit_ratio.all", x=BUFFER, by=ALL),
    )
)

STAGGERED = (
    figure("5-6", "staggered", "the second flow 15 s later")
    .states(
        says("figure 6", "retransmits", "BBRv1 retransmits most in shallow buffers: more than BBRv2 and BBRv3")
        .agrees_if(
            "more than either below 1 BDP",
            Every(
                tuple(
                    less(
                        "retransmit_ratio.all",
                        {ALL: later, BUFFER: SHALLOW},
                        {ALL: "bbr", BUFFER: SHALLOW},
                    )
                    for later in ("bbr2", "bbr3")
                )
            ),
            changed="It compared BBRv1 with CUBIC, with which the figure does not.",
        )
        .with_evidence("loss_ratio", "queue_fill", "utilization"),
        says("figure 6", "v2-least", "of the versions of BBR, BBRv2 retransmits least in shallow buffers")
        .agrees_if(
            "a smaller part of its packets than BBRv1 and than BBRv3 below 1 BDP",
            Every(
                tuple(
                    less("retransmit_ratio.all", {ALL: "bbr2", BUFFER: SHALLOW}, {ALL: other, BUFFER: SHALLOW})
                    for other in ("bbr", "bbr3")
                )
            ),
            changed="It was not judged; then it was of flows that start together, figure 4, of which the text "
            "does not say it.",
        )
        .with_evidence("loss_ratio", "queue_fill", "utilization"),
        says("figure 6", "v3-fairer-than-v2", "BBRv3 is fairer than BBRv2 but at 16 BDP")
        .agrees_if(
            "mean Jain's index over the buffers up to 8 BDP above BBRv2's, and at 16 BDP below it",
            Every(
                (
                    less("jain", {ALL: "bbr2", BUFFER: (0.25, 8)}, {ALL: "bbr3", BUFFER: (0.25, 8)}),
                    less("jain", {ALL: "bbr3", BUFFER: "16bdp"}, {ALL: "bbr2", BUFFER: "16bdp"}),
                )
            ),
            changed=NOT_JUDGED,
        )
        .with_evidence("convergence_s", "jain_first_half", "jain_second_half"),
        says("figure 6", "v1-fairest", "BBRv1 is fairer than either")
        .agrees_if(
            "mean Jain's index over all buffers above BBRv2's and BBRv3's",
            Every(tuple(less("jain", {ALL: later}, {ALL: "bbr"}) for later in ("bbr2", "bbr3"))),
            changed=NOT_JUDGED,
        )
        .with_evidence("convergence_s", "jain_first_half", "jain_second_half"),
        says("note to figure 6", "none-deep", "virtually nothing is retransmitted at 8 and 16 BDP")
        .agrees_if(*NONE_DEEP, changed=NOT_JUDGED)
        .with_evidence("loss_ratio", "queue_fill"),
        says("figure 5", "v3-slow", "BBRv3 needs over 4 minutes to converge at 16 BDP")
        .agrees_if(
            "240 s or more; a run that never converges says as much as it is long",
            Within(pick=convergence({ALL: "bbr3", BUFFER: "16bdp"}), low=240),
            changed="Runs that never converged counted as not run.",
        )
        .with_evidence("jain_first_half", "jain_second_half", "queue_bdp"),
        says("figure 5", "v3-slow-even", "and that until it shares evenly")
        .agrees_if(
            "240 s or more until both have 45 to 55 % for 5 s",
            Within(pick=even_split({ALL: "bbr3", BUFFER: "16bdp"}), low=240),
            changed="Only the first time of 5 s within 25 % of the fair share was judged, of which flows that go on "
            "diverging have one as well.",
        )
        .with_evidence("convergence_s", "jain_first_half", "jain_second_half"),
    )
    .plotted(
        lines("Jain's index by buffer, staggered", "jain", x=BUFFER, by=ALL),
        over_time("Two BBRv1 flows, staggered", "goodput", where={ALL: "bbr", BUFFER: "0.5bdp"}),
    )
)


def starts(measure: Pick) -> tuple[Pick, Pick]:
    """A measure of flows that start 15 s apart, and of those that start together."""
    apart, together = (
        replace(measure, where={**measure.where, "experiment": experiment}) for experiment in ("staggered", "together")
    )
    return apart, together


def slower(version: str, low: float) -> Compare:
    """The time to convergence, over all buffers, is longer by a factor if flows start 15 s apart."""
    apart, together = starts(convergence({ALL: version}))
    return Compare(left=apart, right=together, low=low)


def retransmits_more(version: str) -> Compare:
    """A greater part of the packets, over all buffers, is retransmitted if flows start 15 s apart."""
    apart, together = starts(Pick("retransmit_ratio.all", {ALL: version}))
    return Compare(left=apart, right=together, low=1.0)


BOTH_STARTS = figure("3-6", "staggered", "started 15 s apart beside started together", beside=("together",)).states(
    says("section 4.2", "slower", "no version converges as quickly when the second flow starts 15 s later")
    .agrees_if(
        "mean time to convergence over all buffers longer, with each version",
        Every(tuple(slower(version, low=1.0) for version in BBR_VERSIONS)),
        changed=NOT_JUDGED,
    )
    .with_evidence("jain_first_half", "jain_second_half", "queue_bdp"),
    says("section 4.2, figure 6", "retransmits-more", "and more is retransmitted")
    .agrees_if(
        "a greater part of the packets over all buffers, with each version",
        Every(tuple(retransmits_more(version) for version in BBR_VERSIONS)),
        changed="It was not judged; then it was below 1 BDP only: the text names no buffer.",
    )
    .with_evidence("loss_ratio", "queue_fill"),
    says(
        "section 6",
        "v3-deteriorates",
        "BBRv3's convergence is substantially slower when flows do not start together",
    )
    .agrees_if(
        "mean time to convergence over all buffers twice as long or longer",
        slower("bbr3", low=2),
    )
    .with_evidence("jain_first_half", "jain_second_half", "queue_bdp"),
)


def higher(measure: str, *ccas: str) -> Every:
    """A measure is higher for each algorithm than for the next."""
    return Every(tuple(less(measure, {ALL: after}, {ALL: before}) for before, after in itertools.pairwise(ccas)))


FIVE = (
    figure("7-9", "five-flows", "five flows arrive and leave, 32 BDP", window=WHOLE_RUN)
    .states(
        says("figure 7", "v1-fastest", "BBRv1 converges fastest of the versions")
        .agrees_if(
            "Jain's index above BBRv2's and BBRv3's while 2, 3, 4 and 5 flows run, as they arrive and leave; where "
            "these do not say the same it cannot be compared",
            Readings(
                tuple(
                    Every(tuple(less(f"jain_of_{count}", {ALL: later}, {ALL: "bbr"}) for later in ("bbr2", "bbr3")))
                    for count in range(2, 6)
                )
            ),
            changed="It left out BBRv2; then it looked at the time in which all five run: the text has it as they "
            "arrive and leave.",
        )
        .with_evidence("jain_first_half", "jain_second_half", "queue_bdp"),
        says("figure 8", "order", "on average over the run BBRv3 is between BBRv1 and BBRv2")
        .agrees_if(
            "Jain's index of BBRv1 above BBRv3's above BBRv2's while 2, 3, 4 and 5 flows run; where these do "
            "not say the "
            "same it cannot be compared",
            Readings(tuple(higher(f"jain_of_{count}", "bbr", "bbr3", "bbr2") for count in range(2, 6))),
            changed="It looked at the time in which all five run only, of which the text says that BBRv3 is worst.",
        )
        .with_evidence("jain_first_half", "jain_second_half", "queue_bdp", "window_rtts"),
        says("figures 7 and 9b", "v3-worst", "while five flows run BBRv3 is less fair than all others")
        .agrees_if(
            "Jain's index below BBRv1's, BBRv2's and CUBIC's",
            Every(tuple(less("jain_of_5", {ALL: "bbr3"}, {ALL: other}) for other in ("bbr", "bbr2", "cubic"))),
            changed="It was compared with CUBIC only.",
        )
        .with_evidence("jain_of_2", "jain_of_3", "jain_of_4", "queue_bdp"),
        says("figure 8", "v3-many", "BBRv3 does worse with more flows")
        .agrees_if(
            "Jain's index lower while five flows run than while two do",
            Compare(left=Pick("jain_of_5", {ALL: "bbr3"}), right=Pick("jain_of_2", {ALL: "bbr3"}), high=1.0),
        )
        .with_evidence("jain_of_3", "jain_of_4", "queue_bdp"),
        says("figure 9b", "below-cubic", "with five flows BBR is less fair than CUBIC")
        .agrees_if(
            "Jain's index of each version below CUBIC's while five flows run",
            Every(tuple(less("jain_of_5", {ALL: version}, {ALL: "cubic"}) for version in BBR_VERSIONS)),
            changed="It was not judged; then it was of BBRv3 only.",
        )
        .with_evidence("jain_of_2", "jain_of_3", "jain_of_4", "queue_bdp"),
        says("figure 9", "cubic-many", "CUBIC does better with more flows")
        .agrees_if(
            "Jain's index higher while five flows run than while two do",
            Compare(left=Pick("jain_of_5", {ALL: "cubic"}), right=Pick("jain_of_2", {ALL: "cubic"}), low=1.0),
        )
        .with_evidence("jain_of_3", "jain_of_4", "jain_second_half", "window_rtts", "queue_bdp", "loss_ratio"),
    )
    .plotted(
        *(over_time(f"Five {name} flows arrive and leave", "goodput", where={ALL: cca}) for cca, name in NAMES.items())
    )
)


def _gap(short: str, version: str = "bbr") -> Pick:
    """The difference of two flows of a version of BBR, with an RTT of 160 ms and a shorter one."""
    return Pick("throughput_difference", {EVERY: version, SHORT: short}, absolute=True)


CUBIC_SHORT = (
    says("figures 10 and 12", "cubic-short", "CUBIC favours the short one, though it starts second")
    .agrees_if(
        "share of the flow of 160 ms below 50 % over all other RTTs and buffers",
        within("share.long", {EVERY: "cubic"}, high=0.5),
        changed="It looked at 10 ms and 1 BDP only; then it asked for it at every RTT and buffer: the text has almost "
        "all buffers.",
    )
    .with_evidence("queue_bdp", "loss_ratio.long", "loss_ratio.short", "goodput_first_half.long")
)


def _rtt_figure(numbers: str, experiment: str, order: str, *more: Statement) -> StudyFigure:
    favours = tuple(
        says(
            f"figures {numbers}",
            f"favours-long-{version}",
            f"{name} favours the flow with the long RTT",
        )
        .agrees_if(
            "share of the flow of 160 ms above 50 % beside every other RTT at every buffer",
            within("share.long", {EVERY: version}, low=0.5, each=True),
            changed="It looked at 10 ms and 1 BDP only.",
        )
        .with_evidence("queue_bdp", "bbr_window_sum_bdp", "loss_ratio.long", "loss_ratio.short")
        for version, name in NAMES.items()
        if version != "cubic"
    )
    gap = (
        says(f"figures {numbers}", "gap", "the difference shrinks with the gap between the RTTs")
        .agrees_if(
            "throughput difference, whichever flow is ahead, lower beside 80 ms than beside 10 ms, over all buffers, "
            "with each version",
            Every(
                tuple(
                    Compare(left=_gap("80ms", version), right=_gap("10ms", version), high=1.0)
                    for version in BBR_VERSIONS
                )
            ),
            changed="Its sign counted, which is of who arrives first: where the long one is ahead and arrives second "
            "the difference is negative, and the greater one was taken for the smaller. Then it asked for it with "
            "BBRv1 only, and at every buffer: the text says it of all versions, and names no buffer.",
        )
        .with_evidence("share.short", "loss_ratio.long", "loss_ratio.short", "queue_bdp")
    )
    unfair = (
        says(f"figures {numbers}", "unfair", "every version of BBR is unfair where RTTs differ much")
        .agrees_if(
            "Jain's index below 0.9 beside 10 ms, over all buffers, with each version",
            Every(tuple(within("jain", {EVERY: version, SHORT: "10ms"}, high=FAIR) for version in BBR_VERSIONS)),
            changed=NOT_JUDGED,
        )
        .with_evidence("share.short", "queue_bdp")
    )
    cubic_fair = (
        says(f"figures {numbers}", "cubic-fair", "CUBIC is fair at all RTTs and in all buffers")
        .agrees_if(
            "Jain's index 0.9 or more beside every other RTT at every buffer",
            within("jain", {EVERY: "cubic"}, low=FAIR, each=True),
            changed=NOT_JUDGED,
        )
        .with_evidence("share.short", "queue_bdp")
    )
    later_better = (
        says(f"figures {numbers}", "later-better", "where RTTs differ less BBRv2 and BBRv3 do better than BBRv1")
        .agrees_if(
            "throughput difference beside 80 ms below BBRv1's, over all buffers",
            Every(
                tuple(Compare(left=_gap("80ms", version), right=_gap("80ms"), high=1.0) for version in ("bbr2", "bbr3"))
            ),
            changed=NOT_JUDGED,
        )
        .with_evidence("share.short", "queue_bdp")
    )
    shallow_less = (
        says(f"figures {numbers}", "shallow-less", "which it does less in shallow buffers, where RTTs differ less")
        .agrees_if(
            "share of the flow of 160 ms beside 80 ms lower below 1 BDP than from 1 BDP on, with each version",
            Every(
                tuple(
                    less(
                        "share.long",
                        {EVERY: version, SHORT: "80ms", BUFFER: SHALLOW},
                        {EVERY: version, SHORT: "80ms", BUFFER: (1, 16)},
                    )
                    for version in BBR_VERSIONS
                )
            ),
            changed=NOT_JUDGED,
        )
        .with_evidence("share.short", "queue_bdp")
    )
    return (
        figure(numbers, experiment, f"RTT 160 ms against 10, 20, 40 and 80 ms, all buffers, {order}")
        .states(*favours, *more, gap, unfair, cubic_fair, later_better, shallow_less)
        .plotted(
            *(
                lines(f"{title}, {NAMES[version]}, {order}", measure, x=BUFFER, by=SHORT, where={EVERY: version})
                for measure, title in (("jain", "Jain's index"), ("throughput_difference", "Throughput difference"))
                for version in ("bbr", "bbr3", "cubic")
            )
        )
    )


LONG_FIRST, SHORT_FIRST = ({"experiment": f"rtt-{which}-first"} for which in ("long", "short"))
BOTH_ORDERS = figure(
    "10-15", "rtt-long-first", "RTT 160 ms against 10 to 80 ms, either first", beside=("rtt-short-first",)
).states(
    says("section 4.4", "short-first-fairer", "every version is fairer if the flow with the short RTT starts first")
    .agrees_if(
        "mean Jain's index over all RTTs and buffers higher, with each version",
        Every(tuple(less("jain", {EVERY: one, **LONG_FIRST}, {EVERY: one, **SHORT_FIRST}) for one in BBR_VERSIONS)),
        changed=NOT_JUDGED,
    )
    .with_evidence("share.short", "queue_bdp"),
    says("section 4.4", "cubic-fairer", "CUBIC is fairer than BBR")
    .agrees_if(
        "mean Jain's index over all RTTs and buffers above that of each version, in either order",
        Every(
            tuple(
                less("jain", {EVERY: version, **order}, {EVERY: "cubic", **order})
                for order in (LONG_FIRST, SHORT_FIRST)
                for version in BBR_VERSIONS
            )
        ),
        changed=NOT_JUDGED,
    )
    .with_evidence("share.short", "queue_bdp"),
)


def beside(version: str, other: str = "cubic", buffer: str | tuple[float, float] = SHALLOW) -> Where:
    """Points with a version of BBR beside another algorithm."""
    return {FIRST: version, SECOND: other, BUFFER: buffer}


PAIRS = (
    figure("16-18", "pairs", "versions of BBR against CUBIC and each other")
    .states(
        says("figures 16a and 17a", "v1-starves-cubic", "BBRv1 starves CUBIC in shallow buffers")
        .agrees_if(
            "share of BBRv1 80 % or more at every buffer up to 1 BDP",
            within("share.first", beside("bbr", buffer=(0.0, 1.0)), low=STARVED, each=True),
            changed="It left out 1 BDP, which is the buffer of figure 16a.",
        )
        .with_evidence("loss_ratio.first", "loss_ratio.second"),
        *(
            says("figure 17a", f"v1-starves-{other}", f"nor has {NAMES[other]} a fair share beside BBRv1 there")
            .agrees_if(
                "Jain's index below 0.9 at every buffer below 1 BDP",
                within("jain", beside("bbr", other), high=FAIR, each=True),
                changed="It asked for a share of BBRv1 of 80 % or more: the text says that nothing has a fair share.",
            )
            .with_evidence("share.first", "loss_ratio.first", "loss_ratio.second")
            for other in ("bbr2", "bbr3")
        ),
        says("figure 17a", "v1-eases", "which larger buffers ease substantially")
        .agrees_if(
            "mean Jain's index of BBRv1 beside all others higher from 1 BDP on than below",
            less("jain", {FIRST: "bbr", BUFFER: SHALLOW}, {FIRST: "bbr", BUFFER: (1, 16)}),
            changed=NOT_JUDGED,
        )
        .with_evidence("share.first", "queue_bdp"),
        says("figure 17b", "v2-shares", "BBRv2 shares with CUBIC in all buffers")
        .agrees_if(
            "Jain's index 0.9 or more at every buffer",
            within("jain", {FIRST: "bbr2", SECOND: "cubic"}, low=FAIR, each=True),
            changed="It looked at 1 BDP only, then at a share of 35 to 65 % at every buffer: the text has high "
            "indices.",
        )
        .with_evidence("share.first", "loss_ratio.first", "loss_ratio.second", "queue_bdp"),
        says("figure 16b", "v2-better", "BBRv2 does better beside CUBIC than BBRv1")
        .agrees_if(
            "Jain's index at 1 BDP above BBRv1's",
            less("jain", beside("bbr", buffer="1bdp"), beside("bbr2", buffer="1bdp")),
            changed=NOT_JUDGED,
        )
        .with_evidence("share.first", "queue_bdp"),
        says("figure 16b", "v2-cubic-more", "and even leaves CUBIC more than half")
        .agrees_if(
            "share of BBRv2 below 50 % at 1 BDP",
            within("share.first", beside("bbr2", buffer="1bdp"), high=0.5),
            changed=NOT_JUDGED,
        )
        .with_evidence("jain", "queue_bdp"),
        says("figure 16c", "v3-below-v1", "at 1 BDP BBRv3 is slightly worse beside CUBIC than BBRv1")
        .agrees_if(
            "its share above BBRv1's",
            less("share.first", beside("bbr", buffer="1bdp"), beside("bbr3", buffer="1bdp")),
            changed="It was not judged; then it was by the mean of figure 19's grid, of which the text says the "
            "opposite.",
        )
        .with_evidence("jain", "queue_bdp"),
        says("figure 17c", "v3-below-v2", "BBRv3 is less fair to CUBIC than BBRv2")
        .agrees_if(
            "mean Jain's index over all buffers below BBRv2's",
            less("jain", {FIRST: "bbr3", SECOND: "cubic"}, {FIRST: "bbr2", SECOND: "cubic"}),
            changed=NOT_JUDGED,
        )
        .with_evidence("share.first", "queue_bdp"),
        says("figure 17c", "v3-deep", "and less unfair in deep buffers than in shallow ones")
        .agrees_if(
            "mean Jain's index of BBRv3 beside CUBIC higher from 4 BDP on than below 1 BDP",
            less("jain", beside("bbr3"), beside("bbr3", buffer=(4, 16))),
            changed=NOT_JUDGED,
        )
        .with_evidence("share.first", "queue_bdp"),
        says("figure 17c and abstract", "v3-like-v1", "BBRv3 is much like BBRv1")
        .agrees_if(
            "share of BBRv3 beside CUBIC 80 % or more at every buffer below 1 BDP, as for BBRv1",
            within("share.first", beside("bbr3"), low=STARVED, each=True),
            changed="A share of 60 % was enough.",
        )
        .with_evidence("loss_ratio.first", "loss_ratio.second", "queue_bdp"),
        says("figure 18", "retransmits-bbr3", "beside CUBIC BBRv3 retransmits almost as much as BBRv1 does")
        .agrees_if(
            "quotient of the parts of their packets 0.75 to 1.25, over all buffers",
            compare(
                "retransmit_ratio.first",
                {FIRST: "bbr3", SECOND: "cubic"},
                {FIRST: "bbr", SECOND: "cubic"},
                low=0.75,
                high=1.25,
            ),
            changed="3 % or more was asked for, a number that is not published; then more than of the CUBIC "
            "flow beside it, "
            "with which the text does not compare.",
        )
        .with_evidence("retransmit_ratio.second", "loss_ratio.first", "queue_fill", "utilization", explained_by="loss"),
    )
    .plotted(
        lines("Share of BBR beside CUBIC", "share.first", x=BUFFER, by=FIRST, where={SECOND: "cubic"}),
        lines(
            "Retransmissions of BBR beside CUBIC", "retransmit_ratio.first", x=BUFFER, by=FIRST, where={SECOND: "cubic"}
        ),
    )
)

GRID = (
    figure("19", "grid", "1-5 BBR against 1-5 CUBIC flows, 1 BDP")
    .states(
        says("figure 19a", "one-beats-several", "one BBRv1 flow beats several CUBIC flows")
        .agrees_if(
            "share of one BBRv1 flow above half beside each of 2 to 5 CUBIC flows",
            within("share.bbr", {VERSION: "bbr", BBRS: "1", CUBICS: (2, 5)}, low=0.5, each=True),
            changed="It looked at 5 CUBIC flows only.",
        )
        .with_evidence("jain", "loss_ratio.cubic"),
        says("figure 19b", "v2-shares", "BBRv2 shares with any number of CUBIC flows")
        .agrees_if("mean Jain's index of the grid above BBRv1's", less("jain", {VERSION: "bbr"}, {VERSION: "bbr2"}))
        .with_evidence("share.bbr", "loss_ratio.cubic"),
        says("figure 19b", "v2-improves", "the more CUBIC flows the fairer is BBRv2")
        .agrees_if(
            "mean Jain's index rises with the number of CUBIC flows, with no step down of more than a quarter of that",
            Trend(pick=Pick("jain", {VERSION: "bbr2"}), over=CUBICS, rising=True, least=0.0),
            changed=NOT_JUDGED,
        )
        .with_evidence("share.bbr", "loss_ratio.cubic"),
        says("figure 19c", "v3-leaves-more", "BBRv3 leaves CUBIC more than BBRv1 does")
        .agrees_if(
            "mean share of BBRv3 in the grid below BBRv1's",
            less("share.bbr", {VERSION: "bbr3"}, {VERSION: "bbr"}),
            changed="The opposite was judged, which the text says of one flow of each.",
        )
        .with_evidence("jain", "loss_ratio.cubic"),
        says("figure 19c", "v3-no-room", "BBRv3 leaves CUBIC little room")
        .agrees_if("mean Jain's index of the grid below BBRv2's", less("jain", {VERSION: "bbr3"}, {VERSION: "bbr2"}))
        .with_evidence("share.bbr", "loss_ratio.cubic"),
    )
    .plotted(
        *(
            Plot(
                kind="grid",
                title=f"{title}, {NAMES[version]}",
                panels=(measure,),
                x=CUBICS,
                by=BBRS,
                where={VERSION: version},
            )
            for version in ("bbr", "bbr2", "bbr3")
            for measure, title in (("share.bbr", "Share of BBR"), ("jain", "Jain's index"))
        )
    )
)


def _slowdown(length: str, version: str) -> Pick:
    """Slowdown of the short or the long flows of a workload in which all use one algorithm."""
    return Pick(f"slowdown_{length}.all", {ALL: version})


WORKLOAD = (
    figure("20-21", "workload", "a workload, all of one algorithm", window=WHOLE_RUN)
    .states(
        says("figure 20", "v1-long", "BBRv1 favours long flows, from 300 kB on")
        .agrees_if(
            "slowdown of its flows of 300 kB and more below that of its shorter ones",
            Compare(left=_slowdown("long", "bbr"), right=_slowdown("short", "bbr"), high=1.0),
            changed="It compared BBRv1's long flows with CUBIC's, then with BBRv1's short ones, and called flows short "
            "below 100 kB and long from 1 MB on; then both readings were judged. The text compares with its "
            "short flows.",
        )
        .with_evidence("slowdown_small.all", "slowdown_medium.all", "slowdown_large.all", "utilization", "loss_ratio"),
        *(
            says("figure 20", f"{id}-short", f"{NAMES[version]} favours short ones")
            .agrees_if(
                "slowdown of its flows below 300 kB below that of its longer ones"
                + ("; the text has times of BBRv2, which are shorter for any short flow" if version == "bbr2" else ""),
                Compare(left=_slowdown("short", version), right=_slowdown("long", version), high=1.0),
                changed=NOT_JUDGED,
            )
            .with_evidence("slowdown_small.all", "slowdown_medium.all", "slowdown_large.all")
            for id, version in (("v2", "bbr2"), ("v3", "bbr3"))
        ),
        says("figure 20", "v3-above-v2", "flows are slower with BBRv3 than with BBRv2")
        .agrees_if(
            "slowdown of short and of long flows above BBRv2's",
            Every(
                tuple(
                    Compare(left=_slowdown(length, "bbr3"), right=_slowdown(length, "bbr2"), low=1.0)
                    for length in ("short", "long")
                )
            ),
            changed=NOT_JUDGED,
        )
        .with_evidence("slowdown_small.all", "slowdown_medium.all", "slowdown_large.all"),
    )
    .plotted(Plot(kind="ecdf", title="Completion times", panels=("fct_s",), by=ALL, group="all"))
)


def _beside_cubic(length: str, version: str, low: float = 0.0, high: float = MORE) -> Every:
    """The slowdown of a version's flows over that of CUBIC's in the same runs, whichever half of the flows is which."""
    first, second = {FIRST: version, SECOND: "cubic"}, {FIRST: "cubic", SECOND: version}
    return Every(
        tuple(
            Compare(
                left=Pick(f"slowdown_{length}.{mine}", where),
                right=Pick(f"slowdown_{length}.{other}", where),
                low=low,
                high=high,
            )
            for where, mine, other in ((first, "first", "second"), (second, "second", "first"))
        )
    )


def _long_cubic(version: str) -> Pick:
    """The slowdown of long CUBIC flows beside a version of BBR."""
    return Pick("slowdown_long.second", {FIRST: version, SECOND: "cubic"})


MIXED = (
    figure("20-21 mixed", "workload-mixed", "the workload, every other flow CUBIC", window=WHOLE_RUN)
    .states(
        says("figure 21", "v1-faster", "beside CUBIC all flows of BBRv1 are faster")
        .agrees_if(
            "slowdown of its short and of its long flows below CUBIC's in the same runs",
            Every((_beside_cubic("short", "bbr", high=1.0), _beside_cubic("long", "bbr", high=1.0))),
            changed="It was judged by size classes of our own, then not judged.",
        )
        .with_evidence("slowdown_short.first", "slowdown_short.second", "slowdown_long.first", "slowdown_long.second"),
        *(
            says("figure 21", f"{id}-short-alike", f"short flows of {NAMES[version]} and of CUBIC are alike")
            .agrees_if(
                "quotient of their slowdowns 0.9 to 1.1", _beside_cubic("short", version, 0.9, 1.1), changed=NOT_JUDGED
            )
            .with_evidence("slowdown_short.first", "slowdown_short.second")
            for id, version in (("v2", "bbr2"), ("v3", "bbr3"))
        ),
        *(
            says("figure 21", f"{id}-long", f"long flows of {NAMES[version]} are faster than CUBIC's")
            .agrees_if("slowdown below CUBIC's", _beside_cubic("long", version, high=1.0), changed=NOT_JUDGED)
            .with_evidence("slowdown_long.first", "slowdown_long.second")
            for id, version in (("v2", "bbr2"), ("v3", "bbr3"))
        ),
        says("figure 21", "cubic-long", "long CUBIC flows are slower beside BBRv3 than beside BBRv1")
        .agrees_if(
            "slowdown of long CUBIC flows beside BBRv3 above that beside BBRv1",
            Compare(left=_long_cubic("bbr3"), right=_long_cubic("bbr"), low=1.0),
            changed=NOT_JUDGED,
        )
        .with_evidence("slowdown_long.first", "slowdown_long.second"),
    )
    .plotted(
        Plot(
            kind="ecdf",
            title="Completion times beside CUBIC, one half of the flows",
            panels=("fct_s",),
            by=FIRST,
            where={SECOND: "cubic"},
            group="first",
        )
    )
)

STUDY = Study(
    name="zeynali2024",
    citation='D. Zeynali, E. Weyulu, S. Fathalli, B. Chandrasekaran, A. Feldmann, "Promises and Potential of BBRv3", '
    "PAM 2024",
    conditions="Linux 5.4 (BBRv1, CUBIC), 5.13.12 (v2) and 6.4.0 (v3); netem and tbf; ECN off; 100 Mbit/s, 100 ms "
    "unless said; 3 repeats.",
    differences="BBRv2 and BBRv3 are not in mainline Linux: without them their points are left out, never replaced. "
    "The workload's distributions are ours, of the families that the publication names. Convergence is a first "
    "passage, which BBR's probes make in steps: BBRv3 at 16 BDP took 51 to 58 s in three runs here, 33 to 59 s in "
    "three others of the very same settings, 11 to 12 s through tbf, and 12 and 64 s through Mahimahi's link, while "
    "queue (0.77 to 0.86 BDP), loss (none), utilization (97 %) and spread were the same in all of them. Runs that "
    "were repeated with nothing varied stay near one path, so that their intervals are too narrow for this measure: "
    "what differed was the path, and not the link. Runs now vary, and the time to an even split is judged beside it.",
    figures=(
        TOGETHER,
        STAGGERED,
        BOTH_STARTS,
        FIVE,
        _rtt_figure("10-12", "rtt-long-first", "the long one first", CUBIC_SHORT),
        _rtt_figure("13-15", "rtt-short-first", "the short one first"),
        BOTH_ORDERS,
        PAIRS,
        GRID,
        WORKLOAD,
        MIXED,
    ),
    controls=(
        cards("together", "fair-cubic"),
        control(
            "together-loss",
            "together",
            "with random loss of 0.1 % of the packets in front of the queue",
            "fair-bbr",
            "fair-bbr2",
            "fair-bbr3",
        ),
        cards("five-flows", "cubic-many"),
        control("rtt-longer", "rtt-long-first", "for 300 s, as published", "cubic-short", "cubic-fair"),
        control("rtt-bbr-longer", "rtt-long-first", "for 300 s, as published", "favours-long-bbr"),
        control("rtt-short-longer", "rtt-short-first", "for 300 s, as published", "cubic-fair"),
        control("five-flows-longer", "five-flows", "100 s apart and for 500 s, as published", "cubic-many"),
        control("pairs-longer", "pairs", "for 300 s, as published", "v1-starves-cubic"),
        control("staggered-longer", "staggered", "for 300 s at 16 BDP, as published", "v3-slow"),
        through("tbf", "five-flows", "cubic-many", "order", "v3-worst"),
        through("tbf", "pairs", *(statement.id for statement in PAIRS.statements if statement.id != "v1-starves-bbr2")),
        through("mahimahi", "five-flows", "cubic-many", "v3-worst"),
        through("mahimahi", "pairs", "v2-shares", "retransmits-bbr3"),
        *(through(link, "staggered", "v3-slow", of="full") for link in ELSEWHERE),
        through("tbf", "together", "none-deep", of="full"),
        *(
            through(link, experiment, *statements)
            for link in ELSEWHERE
            for experiment, statements in (
                ("together", ("fair-cubic", "v3-quickest", "least-oscillation")),
                ("rtt-long-first", ("cubic-short", "cubic-fair")),
                ("rtt-short-first", ("favours-long-bbr2", "favours-long-bbr3", "gap")),
                ("workload", ("v1-long",)),
            )
        ),
    ),
    claims=CLAIMS,
    shown="16-18",
    account="Claims are those of the whole text, without its plots. No longer judged: that BBRv1 retransmits "
    "more than the "
    "CUBIC flow beside it, with which the text does not compare, and that CUBIC favours the short RTT where that flow "
    "starts first, which the text does not say.",
)
