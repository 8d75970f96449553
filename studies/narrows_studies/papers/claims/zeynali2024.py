# SPDX-License-Identifier: Apache-2.0
"""The claims of Zeynali et al. (2024)."""

from __future__ import annotations

from narrows_studies.model import judged, untestable

BBRS = ("bbr", "bbr2", "bbr3")
FAIR = tuple(f"3-4/fair-{version}" for version in BBRS)
FAVOURS = {numbers: tuple(f"{numbers}/favours-long-{version}" for version in BBRS) for numbers in ("10-12", "13-15")}

CLAIMS = (
    untestable(
        "abstract, and 1",
        "packet losses are among the conditions that are varied; BBR carries much of one operator's traffic",
        "no experiment of the text has random loss; the rest is about deployment",
    ),
    # Section 4.1.
    judged("4.1, paragraph 1; figure 3", "two flows of any BBR version that start together share evenly", *FAIR),
    judged(
        "4.1, paragraph 1; figure 3", "BBRv3's throughput oscillates least of the versions", "3-4/least-oscillation"
    ),
    judged("4.1, paragraph 1; figure 3", "BBRv3's flows converge more quickly than the others'", "3-4/v3-quickest"),
    judged("4.1, paragraphs 1 and 2; figure 4b", "all of it in every buffer from 0.25 to 16 BDP", *FAIR),
    judged(
        "4.1, paragraph 2; figure 4a",
        "in shallow buffers BBRv1 retransmits much",
        "3-4/retransmits",
    ),
    judged(
        "4.1, paragraph 2, and its note; figure 4a",
        "all other algorithms and buffers do without much loss, with virtually no retransmission at 8 and 16 BDP",
        "3-4/fair-cubic",
        "3-4/none-deep",
    ),
    untestable(
        "4.1, paragraph 2",
        "BBRv1's retransmissions are due to how it probes, and to its indifference to loss",
        "an explanation, not an observation",
    ),
    untestable(
        "4.1, paragraph 2; figure 4b",
        "if BBRv3 improves fairness at all it does so marginally",
        "a word without a scale",
    ),
    # Section 4.2.
    judged(
        "4.2, paragraph 2; figure 5",
        "when the second flow starts 15 s later no version converges quickly, unlike when both start together",
        "3-6/slower",
    ),
    judged(
        "4.2, paragraph 2; figure 5",
        "at 16 BDP BBRv3 takes more than 4 minutes",
        "5-6/v3-slow",
        "5-6/v3-slow-even",
    ),
    untestable("4.2, paragraph 2", "such buffers are not uncommon in the Internet", "about deployment"),
    judged(
        "4.2, paragraph 3; figure 6a",
        "more is retransmitted than when both start together",
        "3-6/retransmits-more",
    ),
    judged("4.2, paragraph 3; figure 6a", "by BBRv1 in particular, in shallow buffers", "5-6/retransmits"),
    judged(
        "4.2, paragraph 3; figure 6a",
        "BBRv2 retransmits least of the versions, and less than BBRv3 in shallow buffers",
        "5-6/v2-least",
    ),
    untestable(
        "4.2, paragraph 3",
        "BBRv3 retransmits little, as its authors say",
        "a word without a scale",
    ),
    judged(
        "4.2, paragraph 3; figure 6b",
        "BBRv3 is fairer than BBRv2 but for the largest buffer, of 16 BDP",
        "5-6/v3-fairer-than-v2",
    ),
    judged("4.2, paragraph 3; figure 6b", "BBRv1 is fairer than BBRv2 and BBRv3", "5-6/v1-fairest"),
    judged("4.2, note", "virtually nothing is retransmitted at 8 and 16 BDP", "5-6/none-deep"),
    judged(
        "4.2, last paragraph, and 6",
        "a small difference of arrival times delays BBRv3's convergence substantially",
        "3-6/v3-deteriorates",
    ),
    # Section 4.3.
    judged(
        "4.3, paragraph 2; figures 7 and 9b",
        "while five flows run BBRv3 is less fair than both other versions, and than CUBIC",
        "7-9/v3-worst",
    ),
    judged("4.3, paragraph 2; figure 7", "BBRv1 converges fastest as flows arrive and leave", "7-9/v1-fastest"),
    judged(
        "4.3, paragraph 2; figure 8",
        "on average over all of the time BBRv3 is fairer than BBRv2, and less fair than BBRv1",
        "7-9/order",
    ),
    judged("4.3, paragraph 2; figure 9a", "CUBIC is the fairer the more flows there are", "7-9/cubic-many"),
    judged("4.3, paragraph 2; figure 8", "BBRv3 is the less fair the more flows there are", "7-9/v3-many"),
    judged(
        "4.3, paragraph 2; figure 9b",
        "with five flows BBR is less fair than CUBIC on average",
        "7-9/below-cubic",
    ),
    untestable("4.3, paragraph 2; figure 9b", "and varies widely", "a word without a scale"),
    untestable(
        "4.3",
        "BBRv3 does worse because it probes less aggressively, and BBRv1 better because it does so more",
        "an explanation, not an observation",
    ),
    # Section 4.4.
    judged(
        "4.4, paragraph 3; figure 10",
        "the flow of 160 ms, which starts first, has much more with every BBR version",
        *FAVOURS["10-12"],
    ),
    judged("4.4, paragraph 3; figures 10c and 12a", "and less so where RTTs differ less", "10-12/gap"),
    judged(
        "4.4, paragraph 3; figure 12",
        "where they differ less BBRv2 and BBRv3 do much better than BBRv1",
        "10-12/later-better",
    ),
    judged(
        "4.4, paragraph 3; figures 13 and 15",
        "all of that holds if the flow with the short RTT starts first",
        *FAVOURS["13-15"],
        "13-15/gap",
        "13-15/later-better",
    ),
    untestable(
        "4.4, paragraph 3",
        "BBRv3 does not differ substantially from BBRv2 in this",
        "a word without a scale",
    ),
    judged(
        "4.4, paragraph 3; figures 10 and 12",
        "CUBIC favours the flow with the short RTT, though it starts second, in almost every buffer",
        "10-12/cubic-short",
    ),
    judged(
        "4.4, paragraph 4; figures 11 and 14",
        "all versions of BBR are unfair where RTTs differ much, whichever flow starts first",
        "10-12/unfair",
        "13-15/unfair",
    ),
    judged(
        "4.4, paragraph 4; figures 11 and 14",
        "CUBIC is fair at all RTTs and in all buffers",
        "10-12/cubic-fair",
        "13-15/cubic-fair",
    ),
    judged(
        "4.4, paragraph 4",
        "BBR favours the long RTT less in shallow buffers, where RTTs do not differ substantially",
        "10-12/shallow-less",
        "13-15/shallow-less",
    ),
    judged(
        "4.4, paragraph 5; figures 11 and 14",
        "every version is fairer if the flow with the short RTT starts first",
        "10-15/short-first-fairer",
    ),
    judged(
        "4.4, paragraph 5; figures 12 and 15", "the smaller the gap of the RTTs the fairer", "10-12/gap", "13-15/gap"
    ),
    untestable(
        "4.4, paragraph 5",
        "the flow with the short RTT sees a queue sooner, and slows down before the other one does",
        "an explanation, not an observation",
    ),
    judged("4.4, last paragraph", "CUBIC is fairer than BBR in nearly all cases", "10-15/cubic-fairer"),
    # Section 4.5.
    judged("4.5, paragraph 2; figure 16a", "BBRv1 is extremely unfair to CUBIC", "16-18/v1-starves-cubic"),
    judged(
        "4.5, paragraph 2; figure 16b",
        "BBRv2 does better, and even leaves CUBIC more than half",
        "16-18/v2-better",
        "16-18/v2-cubic-more",
    ),
    judged(
        "4.5, paragraph 2; figure 16c",
        "BBRv3 is slightly worse than BBRv1, and leaves CUBIC no room",
        "16-18/v3-below-v1",
        "16-18/v3-like-v1",
    ),
    judged(
        "4.5, paragraph 3; figure 17a",
        "in shallow buffers none has a fair share beside BBRv1, which larger buffers ease substantially",
        "16-18/v1-starves-bbr2",
        "16-18/v1-starves-bbr3",
        "16-18/v1-eases",
    ),
    judged("4.5, paragraph 3; figure 17b", "BBRv2 is fair in all buffers, to CUBIC too", "16-18/v2-shares"),
    judged(
        "4.5, paragraph 3; figure 17c, and abstract",
        "BBRv3 is quite unfair, to CUBIC above all, much like BBRv1 in shallow buffers, and less so in deep ones",
        "16-18/v3-like-v1",
        "16-18/v3-below-v2",
        "16-18/v3-deep",
    ),
    judged(
        "4.5, paragraph 4; figure 18",
        "beside CUBIC BBRv3 retransmits almost as much as BBRv1 does",
        "16-18/retransmits-bbr3",
    ),
    judged("4.5, paragraph 6; figure 19a", "one BBRv1 flow has more than several CUBIC flows", "19/one-beats-several"),
    judged(
        "4.5, paragraph 6; figure 19b",
        "with BBRv2 the opposite holds: the more CUBIC flows the fairer",
        "19/v2-improves",
        "19/v2-shares",
    ),
    judged(
        "4.5, paragraph 6; figure 19c",
        "BBRv3 is less fair than BBRv2, but leaves CUBIC more than BBRv1 does",
        "19/v3-no-room",
        "19/v3-leaves-more",
    ),
    # Section 4.6.
    judged(
        "4.6, paragraph 2; figure 20",
        "BBRv1 favours long flows, from 300 kB on, BBRv2 and BBRv3 short ones; flows are slower with BBRv3 than BBRv2",
        "20-21/v1-long",
        "20-21/v2-short",
        "20-21/v3-short",
        "20-21/v3-above-v2",
    ),
    judged(
        "4.6, paragraph 3; figure 21",
        "beside CUBIC all BBRv1 flows are faster; of BBRv2's and BBRv3's only the long ones are, and long CUBIC "
        "flows do "
        "worst beside BBRv3",
        "20-21 mixed/v1-faster",
        "20-21 mixed/v2-short-alike",
        "20-21 mixed/v2-long",
        "20-21 mixed/v3-short-alike",
        "20-21 mixed/v3-long",
        "20-21 mixed/cubic-long",
    ),
)
