# SPDX-License-Identifier: Apache-2.0
"""The claims of the slides of Hock et al. (2017)."""

from __future__ import annotations

from narrows_studies.model import judged, not_tested, untestable

CLAIMS = (
    untestable("overview", "BBR aims at a high throughput with a small queue", "an aim, not an observation"),
    judged(
        "single flow, in theory",
        "what a probe sends too much is in the queue for a short time, and then leaves it",
        "single/queue",
    ),
    judged("single flow, measured", "at 1 Gbit/s a single flow works as it should", "single/rate", "single/queue"),
    judged(
        "several flows, in theory",
        "a probe gets more of a full link, of which the maximum is kept, so that all together send too much",
        "several/overestimate",
    ),
    judged(
        "several flows, in theory", "so that more and more is in flight, and the link is overloaded", "several/queue"
    ),
    judged(
        "large buffer, in theory", "with all that BBR's cap allows in flight the queue is 1 to 1.5 BDP", "several/queue"
    ),
    judged("small buffer, in theory", "BBR does not take loss for congestion", "small-buffer/massive"),
    judged("two flows, large buffer", "two flows of one RTT double it", "several/rtt"),
    judged("six flows, 0.8 BDP", "BBR's loss is massive", "small-buffer/massive"),
    judged("comparison to CUBIC", "it is three orders of magnitude above CUBIC's", "small-buffer/tiny"),
    judged("1 BBR and 1 CUBIC flow, small buffer", "CUBIC is suppressed", "against-cubic/suppressed"),
    judged(
        "2 BBR and 2 CUBIC flows",
        "several BBR flows are more aggressive, and suppress CUBIC severely",
        "against-cubic/several",
    ),
    judged("six flows of one RTT", "they are not consistently fair", "several/intra"),
    not_tested(
        "three RTTs",
        "each flow has in flight what its cap of 2 BDP allows",
        "windows of flows with different RTTs are measured in one unit, the BDP of the shortest",
        "`cwnd_bdp` in the BDP of each group's own RTT",
    ),
    judged(
        "three RTTs, 1 and 10 Gbit/s",
        "the longer the RTT the higher the throughput",
        "rtt-fairness/longest",
        "rtt-fairness/middle",
    ),
    judged(
        "backup: 1, 2, 4 and 6 flows",
        "the RTT is 40 ms in place of 20 from two flows on, and not with one",
        "several/rtt",
        "single/queue",
    ),
    judged(
        "backup: 1 BBR and 1 CUBIC flow, large buffer",
        "BBR's cap grows with the queue that CUBIC makes; BBR may lose all the same",
        "against-cubic/may-lose",
    ),
    untestable(
        "summary",
        "flows that use BBR now are probably limited by their applications",
        "about deployment, not about an experiment",
    ),
)
