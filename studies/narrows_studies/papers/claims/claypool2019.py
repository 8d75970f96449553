# SPDX-License-Identifier: Apache-2.0
"""The claims of Claypool et al. (2019)."""

from __future__ import annotations

from narrows_studies.model import judged, not_tested, untestable

CLAIMS = (
    untestable(
        "III, hosts",
        "up to their limit of about 225 Mbit/s the small computers that were used as hosts behave as a PC does",
        "about their hosts, of which there are none here",
    ),
    judged("III, validation; figure 4b", "staggered BBR flows have equal shares within about 30 s", "4b/fair"),
    judged(
        "III, validation; figure 4b",
        "they probe for the RTT at the same time, every 10 s",
        "4b/probes-coincide",
        "4b/probe-gap",
    ),
    judged(
        "IV-A, paragraphs 1 and 3",
        "several BBR flows keep a queue of 1 to 1.5 BDP with all numbers of flows, capacities and queue sizes",
        "7/queue-everywhere",
    ),
    judged("IV-A, paragraph 2; figure 5", "BBR's queue is about 1.1 BDP", "5/bbr-queue"),
    judged("IV-A, paragraph 2; figure 5", "which becomes about 1.5 BDP while it probes for bandwidth", "5/bbr-probing"),
    judged("IV-A, paragraph 2; figure 5", "CUBIC fills the whole queue of 8 BDP", "5/cubic-fills"),
    judged(
        "IV-A, paragraph 3; figure 5",
        "BBR's RTT is about a quarter of CUBIC's, and about double that of the path",
        "5/rtt-quarter",
        "5/bbr-rtt",
    ),
    judged(
        "IV-B, paragraph 2; figure 6",
        "at 0.5 BDP loss varies with time, but never ends, and is more than 10 % on average",
        "6/persists",
        "6/average",
    ),
    judged(
        "IV-C, paragraph 3; figure 7",
        "loss is extremely high below 1 BDP, and high up to 1.5 BDP",
        "7/half-bdp",
        "7/one-bdp",
        "7/falls",
    ),
    judged("IV-C, paragraph 3, and V, answer B; figure 7", "from 1.5 BDP on nothing is lost", "7/none"),
    judged("V, answer B", "loss grows linearly as the buffer shrinks", "7/linearly"),
    judged("V, answer B", "loss is 5.5 % at 1 BDP", "7/one-bdp"),
    judged("V, answer B", "and about 11 % at 0.5 BDP", "7/half-bdp"),
    judged("V, answer B", "which is double", "7/doubles"),
    judged(
        "IV-C, paragraphs 3 and 4",
        "the queue always grows to 1.5 BDP, which with the path's makes 2.5 BDP in flight",
        "5/bbr-probing",
        "7/queue-everywhere",
    ),
    untestable(
        "IV-C, paragraph 4",
        "BBR's throughput stays relatively high despite its loss",
        "a word without a scale; the figure is not in the text. Pages have `utilization` where losses differ",
    ),
    judged("IV-D1; figures 8 and 12", "at 0.5 BDP CUBIC's throughput is much lower than BBR's", "8/starved"),
    judged("IV-D1", "with a loss of about 10 %", "8/loss"),
    not_tested(
        "IV-D1",
        "which is similar at 40 and 120 Mbit/s, and with 2 and 8 flows",
        "the experiment has one rate, and the rule four flows, as in the figure",
        "`coexistence` with `bottleneck.rate` swept, and the rule with each `flows.*.count`",
    ),
    judged("IV-D2, paragraph 1; figure 9", "at 1.75 BDP BBR and CUBIC take turns, regularly, in 20 s", "9/cycle"),
    untestable(
        "IV-D2, paragraphs 2 and 3; figure 9",
        "CUBIC grows into what BBR's cap leaves of the queue, BBR sees less throughput and sends less, and so on",
        "an explanation, not an observation",
    ),
    judged(
        "IV-D2, paragraphs 4 and 6; figures 9b and 9d",
        "one RTT probe finds CUBIC's queue, and an RTT of 60 ms in place of 25; the next one finds the queue empty",
        "9/not-drained",
    ),
    judged(
        "IV-D2, paragraph 5; figure 9c",
        "much is lost just after a wrong probe, and so every 20 s",
        "9/loss-after-wrong-probes",
    ),
    judged(
        "IV-D2, paragraph 7; figure 10",
        "below 1.5 BDP, where BBR loses packets all the time, CUBIC has little",
        "10/bbr-wins",
    ),
    judged(
        "IV-D2, paragraph 7; figure 10",
        "above 1.5 BDP the spread of throughput is much wider, by the turns",
        "10/spread",
    ),
    judged(
        "IV-D2, paragraph 8; figure 10",
        "as the buffer grows CUBIC has more and more of the throughput",
        "10/cubic-gains",
        "10/cubic-wins",
    ),
    judged("IV-E1, paragraph 5; figure 10", "shares are equal near 5 BDP", "10/equal"),
    judged(
        "IV-E1, paragraph 4; figure 11",
        "BBR with a cap of 1.5 BDP, BBR_Shallow, loses less in buffers below 1.5 BDP",
        "11/shallow-loses-less",
    ),
    not_tested(
        "IV-E1, paragraph 5; figure 12",
        "beside BBR_Shallow shares are equal near 3 BDP",
        "the experiment of figure 11 has BBR_Shallow alone",
        "`coexistence` with `flows.bbr.cca: bbr_shallow`, on a kernel that has it (`narrows kernel build --patch`)",
    ),
    untestable(
        "IV-E",
        "the cap should follow loss, throughput and RTT, and the least RTT should hardly ever rise",
        "suggestions, of which the text has no results but BBR_Shallow's",
    ),
    judged(
        "abstract, and V, answer C",
        "BBR is very unfair in shallow buffers, has long cycles in deeper ones, and is fair on average at some "
        "sizes only",
        "8/starved",
        "9/cycle",
        "10/equal",
    ),
)
