# SPDX-License-Identifier: Apache-2.0
"""Miyazawa et al., CloudNet 2018: cycle and divergence in deep buffers."""

from __future__ import annotations

from narrows_studies.checks import Every, Where, within
from narrows_studies.model import (
    Study,
    before_5_1,
    cards,
    control,
    figure,
    over_time,
    says,
    through,
)
from narrows_studies.papers.claims.miyazawa2018 import CLAIMS

BUFFER = "bottleneck.buffer"
# The time that 16,384 and 65,536 full-size packets take at 10 Gbit/s, or a tenth of them at a tenth of the rate.
SMALLER: Where = {BUFFER: "19844301ns"}
LARGER: Where = {BUFFER: "79377204ns"}
TWICE = 2.0
WHOLE_RUN = (0.0, 1.0)  # what converges may have done so before any later time

STUDY = Study(
    name="miyazawa2018",
    citation='K. Miyazawa, K. Sasaki, N. Oda, S. Yamaguchi, "Cycle and Divergence of Performance on TCP BBR", '
    "CloudNet 2018",
    conditions="One BBR and one CUBIC flow; one-way delay 5 ms; a queue of 16,384 or 65,536 packets; "
    "windows of up to 100 MiB.",
    differences="The text names neither rate nor duration: ours are 400 s and 10 Gbit/s, at which windows of "
    "100 MiB, or the "
    "80 MiB here, are what keeps the larger queue from being full; pages until now had 1 Gbit/s, at which they limit "
    "nothing. Queues are written as the time that those packets last at that rate. The quick variant has a tenth of "
    "rate, queues in packets, and windows.",
    figures=(
        figure("cycle", "deep-buffer", "the smaller queue", window=WHOLE_RUN)
        .states(
            says("results with 16,384 packets", "full", "the queue reaches its limit again and again")
            .agrees_if(
                "95 % of the buffer, then below 80 %, twice or more often",
                within("fillings", SMALLER, low=TWICE),
                changed="Reaching it once was enough.",
            )
            .with_evidence("queue_max_fill", "queue_fill", "loss_ratio", "cwnd_bdp.bbr", "cwnd_bdp.cubic"),
            says("results with 16,384 packets", "cycles", "unfair and converging phases repeat")
            .agrees_if(
                "the flows converge (Jain's index of 10 s 0.95 or more) after an unfair phase (below "
                "0.8) twice or more often, and the queue fills as often",
                Every(
                    (
                        within("convergences", SMALLER, low=TWICE),
                        within("fillings", SMALLER, low=TWICE),
                    )
                ),
                changed="A correlation of the shares of 0.3 was enough, which the larger queue's runs, that do not "
                "cycle, reach too.",
            )
            .with_evidence("turn_period_s", "share.bbr", "jain_first_half", "jain_second_half", "window_rtts"),
        )
        .plotted(over_time("Goodput and queue: the smaller queue", "goodput", "queue", where=SMALLER)),
        figure("divergence", "deep-buffer", "the larger queue", window=WHOLE_RUN)
        .states(
            says("results with 65,536 packets", "never-full", "the queue never fills")
            .agrees_if(
                "no packet is lost at it",
                within("loss_ratio", LARGER, high=0.0),
                changed="A peak below 95 % of the buffer was asked for, a number that is not published; that a queue "
                "is never full is that it never loses a packet, which is counted exactly. It left out the first tenth "
                "of a run.",
            )
            .with_evidence("queue_max_fill", "queue_fill", "cwnd_bdp.bbr", "cwnd_bdp.cubic"),
            says("results with 65,536 packets", "converge", "and the flows converge once")
            .agrees_if(
                "one convergence (as above), and Jain's index 0.9 or more in the second half",
                Every(
                    (
                        within("convergences", LARGER, low=1, high=1),
                        within("jain_second_half", LARGER, low=0.9),
                    )
                ),
                changed="A mean share of 30 to 70 % was enough, which flows that take turns have too; then the first "
                "tenth of a run was left out, in which they may converge.",
            )
            .with_evidence("share.bbr", "jain_first_half", "window_rtts", explained_by="model"),
        )
        .plotted(over_time("Goodput and queue: the larger queue", "goodput", "queue", where=LARGER)),
    ),
    claims=CLAIMS,
    shown="divergence",
    account="Claims are those of the whole text, without its plots.",
    controls=(
        cards("deep-buffer", "full", "cycles", "never-full", "converge"),
        control("longer", "deep-buffer", "for 400 s", "full", "cycles", "never-full", "converge"),
        control(
            "windows-maximum",
            "deep-buffer",
            "both windows as large as Linux allows, so that none of them limits",
            "full",
            "cycles",
            "never-full",
            "converge",
        ),
        control(
            "full-rate",
            "deep-buffer",
            "at 10 Gbit/s, with all 16,384 or 65,536 packets, for 60 s",
            "full",
            "never-full",
            "converge",
        ),
        before_5_1("deep-buffer", "full", "cycles", "never-full", "converge"),
        through("tbf", "deep-buffer", "full", "cycles", "never-full", "converge"),
        through("mahimahi", "deep-buffer", "full", "cycles", "never-full", "converge"),
    ),
)
