# SPDX-License-Identifier: Apache-2.0
"""The claims of Hurtig et al. (2018). Pairs are written LARGE-train."""

from __future__ import annotations

from narrows_studies.model import judged, not_tested, untestable

CLAIMS = (
    judged("IV, paragraph 2; figure 2", "completion in CUBIC-cubic tends to grow with the buffer", "2-4/cubic-cubic"),
    judged(
        "IV, paragraph 2; figure 3",
        "the large flow in CUBIC-cubic has less in a small buffer than in a large one",
        "2-4/cubic-cubic-throughput",
    ),
    judged("IV, paragraph 2; figure 4", "and the link is used less there", "2-4/cubic-cubic-utilization"),
    judged(
        "IV, paragraph 3; figures 2 and 3",
        "in BBR-bbr neither completion nor the large flow's throughput depends on the buffer",
        "2-4/bbr-bbr",
        "2-4/bbr-bbr-throughput",
    ),
    untestable(
        "IV, paragraph 3",
        "because a large BBR flow neither halves its window at a loss nor fills the buffer",
        "an explanation, not an observation",
    ),
    judged(
        "IV, paragraph 4; figure 2",
        "completion in CUBIC-bbr is longer in large buffers, but less so than in CUBIC-cubic",
        "2-4/cubic-bbr-longer",
        "2-4/cubic-bbr-less",
    ),
    judged(
        "IV, paragraph 4, and V-A; figure 3",
        "in small buffers a large CUBIC flow loses much more throughput to bbr trains than to cubic trains",
        "2-4/cubic-bbr",
    ),
    judged(
        "IV, paragraph 4; figure 4",
        "and at some rates the link is used less, in buffers of up to 1 BDP",
        "2-4/utilization",
    ),
    judged("IV, paragraph 5; figure 2", "completion in BBR-cubic grows as the buffer shrinks", "2-4/bbr-cubic"),
    judged(
        "IV, paragraph 5; figure 3",
        "where the large BBR flow has more, at the expense of the others",
        "2-4/bbr-cubic-throughput",
    ),
    judged(
        "IV, paragraph 5; figure 2",
        "BBR-cubic at 0.5 and 1 BDP takes about as long as CUBIC-cubic at 4 and 8 BDP",
        "2-4/shallow-like-bloated",
    ),
    judged(
        "IV, paragraph 5; figure 2",
        "of all sizes it is at 2 BDP, which is recommended for large flows, that the two are most alike",
        "2-4/parity",
    ),
    judged(
        "V-A; figure 5",
        "each BBR flow's start fills the path, and confines the large CUBIC flow to a very small window",
        "5/small-window",
    ),
    judged(
        "V-B, paragraph 2; figures 6 and 7",
        "the larger the train's flows the higher the rates at which they do so; small ones are over too soon there",
        "6-7/dip-500KB",
        "6-7/dip-1MB",
        "6-7/dip-2MB",
    ),
    judged("V-B, paragraph 3; figure 7", "with flows of 500 KB utilization dips at 20 Mbit/s", "6-7/dip-500KB"),
    judged("V-B, paragraph 3; figure 7", "with flows of 1 MB at 40 Mbit/s", "6-7/dip-1MB"),
    judged("V-B, paragraph 3; figure 7", "with flows of 2 MB at 60 Mbit/s", "6-7/dip-2MB"),
    judged(
        "V-B, paragraph 3; figure 7",
        "at low rates utilization is high",
        "6-7/high-at-low-rates",
    ),
    untestable(
        "V-B, paragraph 4",
        "at the dip BBR flows are in their steady state for the shortest time, and their start does most harm",
        "an explanation, not an observation",
    ),
    judged(
        "V-C; figure 8",
        "the difference in utilization between bbr and cubic trains is largest at the longest gap",
        "8/bbr-at-long-gaps",
    ),
    untestable(
        "V-C",
        "because in longer gaps the large flow's window does not grow by much more",
        "a word without a scale",
    ),
    judged(
        "V-D; figure 9",
        "completion of CUBIC flows beside CUBIC flows of their size does not depend on the buffer",
        "9/flat",
    ),
    judged(
        "V-D; figure 9",
        "beside BBR flows, in small buffers, it is very long, and varies much more",
        "9/long",
        "9/variable",
    ),
    not_tested(
        "V-D",
        "who arrives after the BBR flow takes long, who arrives before it does not",
        "completion times are not told apart by who was there first",
        "completion times by the number of BBR flows that run when a flow arrives",
    ),
    judged(
        "VI-A, paragraph 1; figure 10",
        "what completion beside BBR takes longer than beside CUBIC is most at 0.5 BDP, where a single CUBIC flow does "
        "badly",
        "10-12/worst",
    ),
    judged(
        "VI-A, paragraph 1; figure 10",
        "at 1 BDP it still is significantly longer",
        "10-12/longer-at-1",
    ),
    judged(
        "VI-A, paragraph 2; figure 11",
        "windows of the train's flows are very small at 1 BDP, and at 2 BDP larger and nearer to those beside CUBIC",
        "10-12/windows",
        "10-12/windows-closer",
    ),
    judged(
        "VI-A, paragraph 2; figure 12",
        "BBR's pacing rate is significantly lower at 2 BDP than at 1 BDP",
        "10-12/pacing",
    ),
    not_tested(
        "VI-A, paragraph 2",
        "at 2 BDP the first flow suffers most, and those after it gain",
        "completion times are not told apart by their place in a train",
        "`fct_s` of a train's first flow",
    ),
    judged(
        "VI-B, paragraph 1; figures 13 and 14",
        "flows of 100 KB take longer next to BBR even at 2 BDP; that it is about as long as BBR remembers its maximum "
        "has no rule, as that is counted in round trips, which vary with the queue",
        "13-15/suffers",
    ),
    judged(
        "VI-B, paragraph 1",
        "most of them retransmit 11 to 15 packets; next to CUBIC, at 2 BDP, only a train's first two retransmit any, "
        "of which there is no rule: a train's flows are not told apart by their place in it",
        "13-15/retransmissions",
    ),
    judged("VI-B, paragraph 1; figure 15", "BBR's rate stays high beside them", "13-15/pacing-high"),
    judged("VI-B, paragraph 1", "at 1 BDP they fare as larger ones do", "13-15/one-bdp"),
    judged(
        "VI-B, paragraph 2; figures 10 and 13",
        "in larger buffers flows of 1 MB and of 100 KB are faster beside BBR than beside CUBIC",
        "13-15/gains",
        "10-12/gains",
    ),
    judged("VI-B, paragraph 2; figure 13", "by most at 8 BDP", "13-15/most-at-8"),
    untestable(
        "VII",
        "a shorter memory of the maximum, or an earlier end of BBR's start, would help; more BBR flows would do "
        "more harm",
        "suggestions and expectations, of which the text has no results",
    ),
)
