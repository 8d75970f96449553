# SPDX-License-Identifier: Apache-2.0
"""Miyazawa et al., CloudNet 2018: cycle and divergence in deep buffers."""

from __future__ import annotations

from narrows_analysis.studies.model import (
    Control,
    Pick,
    Plot,
    Statement,
    Study,
    StudyFigure,
    Where,
    Within,
    through_tbf,
)

BUFFER = "bottleneck.buffer"
# What 16,384 and 65,536 full-size packets are at 1 Gbit/s.
SMALLER: Where = {BUFFER: "198.443008ms"}
LARGER: Where = {BUFFER: "793.772032ms"}

STUDY = Study(
    name="miyazawa2018",
    citation='K. Miyazawa, K. Sasaki, N. Oda, S. Yamaguchi, "Cycle and Divergence of Performance on TCP BBR", '
    "CloudNet 2018",
    conditions="One BBR and one CUBIC flow; one-way delay 5 ms; a queue of 16,384 or 65,536 packets; "
    "windows of up to 100 MiB; very long runs.",
    differences="The publication's rate is not known to us: ours is 1 Gbit/s. Queues are written as the time "
    "that those packets last at that rate. The quick variant has a tenth of rate, queues in packets, and windows.",
    figures=(
        StudyFigure(
            "cycle",
            "deep-buffer",
            "the smaller queue",
            (
                Statement(
                    "full",
                    "the queue reaches its limit again and again",
                    "95 % of the buffer or more at peak",
                    Within(Pick("queue_max_fill", SMALLER), 0.95, 1.0),
                    "%",
                    evidence=("queue_fill", "loss_ratio", "cwnd_bdp.bbr", "cwnd_bdp.cubic"),
                ),
                Statement(
                    "cycles",
                    "unfair and converging phases repeat",
                    "the shares oscillate with a correlation of 0.3 or more",
                    Within(Pick("turn_correlation", SMALLER), 0.3, 1.0),
                    evidence=("turn_period_s", "share.bbr", "jain_first_half", "jain_second_half", "window_rtts"),
                ),
            ),
            (Plot("time", "Goodput and queue: the smaller queue", ("goodput", "queue"), where=SMALLER),),
            (0.1, 1.0),
        ),
        StudyFigure(
            "divergence",
            "deep-buffer",
            "the larger queue",
            (
                Statement(
                    "never-full",
                    "the queue never fills",
                    "below 95 % of the buffer at peak",
                    Within(Pick("queue_max_fill", LARGER), 0.0, 0.95),
                    "%",
                    ("loss_ratio", "queue_fill"),
                ),
                Statement(
                    "converge",
                    "and the flows converge once",
                    "share of BBR 30 to 70 %",
                    Within(Pick("share.bbr", LARGER), 0.3, 0.7),
                    "%",
                    ("jain_first_half", "jain_second_half", "window_rtts"),
                    "model",
                ),
            ),
            (Plot("time", "Goodput and queue: the larger queue", ("goodput", "queue"), where=LARGER),),
            (0.1, 1.0),
        ),
    ),
    controls=(
        Control("longer", "deep-buffer", "for 400 s", ("full", "cycles", "never-full", "converge")),
        Control("much-longer", "deep-buffer", "for 1000 s", ("cycles",)),
        Control(
            "full-size",
            "deep-buffer",
            "at 1 Gbit/s, with all 16,384 or 65,536 packets, for 200 s",
            ("full", "cycles", "never-full", "converge"),
        ),
        through_tbf("deep-buffer", "full", "cycles", "never-full", "converge"),
    ),
)
