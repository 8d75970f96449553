# SPDX-License-Identifier: Apache-2.0
"""Zeynali et al., PAM 2024: BBRv3 beside its predecessors and CUBIC."""

from __future__ import annotations

from narrows_analysis.studies.model import (
    Compare,
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

BUFFER, ALL, EVERY = "bottleneck.buffer", "flows.all.cca", "flows.*.cca"
FIRST, SECOND, SHORT = "flows.first.cca", "flows.second.cca", "flows.short.rtt"
BBRS, CUBICS = "flows.bbr.count", "flows.cubic.count"
SHALLOW = "0.5bdp"
MORE = float("inf")


def against_cubic(version: str, buffer: str) -> Where:
    """Points of a version of BBR beside CUBIC."""
    return {FIRST: version, SECOND: "cubic", BUFFER: buffer}


def _rtt_figures() -> tuple[StudyFigure, ...]:
    figures = []
    for numbers, experiment, order in (
        ("10-12", "rtt-long-first", "the long one first"),
        ("13-15", "rtt-short-first", "the short one first"),
    ):
        statements = [
            Statement(
                f"favours-long-{version}",
                f"{version} favours the flow with the long RTT",
                "share of the flow of 160 ms above 50 % beside 10 ms",
                Within(Pick("share.long", {EVERY: version, SHORT: "10ms"}), 0.5, 1.0),
                "%",
                ("queue_bdp", "bbr_window_sum_bdp", "loss_ratio.long", "loss_ratio.short", "goodput_second_half.long"),
            )
            for version in ("bbr", "bbr3")
        ]
        if experiment == "rtt-long-first":
            statements += [
                Statement(
                    "cubic-short",
                    "CUBIC favours the short one",
                    "share of the flow of 160 ms below 50 % beside 10 ms",
                    Within(Pick("share.long", {EVERY: "cubic", SHORT: "10ms"}), 0.0, 0.5),
                    "%",
                    (
                        "queue_bdp",
                        "loss_ratio.long",
                        "loss_ratio.short",
                        "goodput_first_half.long",
                        "goodput_second_half.long",
                    ),
                ),
                Statement(
                    "gap",
                    "the difference shrinks with the gap between the RTTs",
                    "throughput difference of two BBRv1 flows lower beside 80 ms than beside 10 ms",
                    Compare(
                        Pick("throughput_difference", {EVERY: "bbr", SHORT: "80ms"}),
                        Pick("throughput_difference", {EVERY: "bbr", SHORT: "10ms"}),
                        0.0,
                        1.0,
                    ),
                    "%",
                    evidence=("share.short", "loss_ratio.long", "loss_ratio.short", "queue_bdp"),
                ),
            ]
        figures.append(
            StudyFigure(
                numbers,
                experiment,
                f"RTT 160 ms against 10, 20, 40 and 80 ms, {order}",
                tuple(statements),
                (
                    Plot("lines", f"Jain's index, {order}", ("jain",), SHORT, EVERY),
                    Plot("lines", f"Throughput difference, {order}", ("throughput_difference",), SHORT, EVERY),
                ),
            )
        )
    return tuple(figures)


STUDY = Study(
    name="zeynali2024",
    citation='D. Zeynali, E. Weyulu, S. Fathalli, B. Chandrasekaran, A. Feldmann, "Promises and Potential of BBRv3", '
    "PAM 2024",
    conditions="Linux 5.4 (BBRv1, CUBIC), 5.13.12 (v2) and 6.4.0 (v3); netem and tbf; ECN off; 100 Mbit/s, 100 ms "
    "unless said; 3 repeats.",
    differences="BBRv2 and BBRv3 are not in mainline Linux: without them their points are left out, never replaced. "
    "The workload's distributions are ours, of the families that the publication names.",
    figures=(
        StudyFigure(
            "3-4",
            "together",
            "two equal flows that start together",
            (
                *(
                    Statement(
                        f"fair-{cca}",
                        f"{cca}: two equal flows are fair",
                        "Jain's index 0.9 or more at every buffer",
                        Within(Pick("jain", {ALL: cca}), 0.9, 1.0, each=True),
                        evidence=("jain_first_half", "jain_second_half", "window_rtts", "convergence_s"),
                    )
                    for cca in ("bbr", "bbr2", "bbr3", "cubic")
                ),
                Statement(
                    "retransmits",
                    "BBRv1 retransmits much in shallow buffers",
                    "5 times as much as CUBIC at 0.5 BDP",
                    Compare(
                        Pick("retransmit_ratio.all", {ALL: "bbr", BUFFER: SHALLOW}),
                        Pick("retransmit_ratio.all", {ALL: "cubic", BUFFER: SHALLOW}),
                        5,
                        MORE,
                    ),
                    "%",
                    evidence=("loss_ratio", "queue_fill", "utilization"),
                ),
                Statement(
                    "least-oscillation",
                    "v3 oscillates least",
                    "quartiles of its rate closer than those of v1",
                    Compare(Pick("rate_iqr.all", {ALL: "bbr3"}), Pick("rate_iqr.all", {ALL: "bbr"}), 0.0, 1.0),
                    "x",
                    evidence=("rate_p25.all", "rate_p75.all"),
                ),
            ),
            (
                Plot("lines", "Jain's index by buffer", ("jain",), BUFFER, ALL),
                Plot("lines", "Retransmissions by buffer", ("retransmit_ratio.all",), BUFFER, ALL),
            ),
        ),
        StudyFigure(
            "5-6",
            "staggered",
            "the second flow 15 s later",
            (
                Statement(
                    "retransmits",
                    "v1 retransmits most in shallow buffers",
                    "more than CUBIC at 0.5 BDP",
                    Compare(
                        Pick("retransmit_ratio.all", {ALL: "bbr", BUFFER: SHALLOW}),
                        Pick("retransmit_ratio.all", {ALL: "cubic", BUFFER: SHALLOW}),
                        1.0,
                        MORE,
                    ),
                    "%",
                    evidence=("loss_ratio", "queue_fill", "utilization"),
                ),
                Statement(
                    "v3-slow",
                    "v3 needs over 4 minutes to converge at 16 BDP",
                    "240 s or more",
                    Within(Pick("convergence_s", {ALL: "bbr3", BUFFER: "16bdp"}), 240, MORE),
                    "s",
                    evidence=("jain_first_half", "jain_second_half", "queue_bdp"),
                ),
            ),
            (
                Plot("lines", "Jain's index by buffer, staggered", ("jain",), BUFFER, ALL),
                Plot("time", "Two BBRv1 flows, staggered", ("goodput",), where={ALL: "bbr", BUFFER: SHALLOW}),
            ),
        ),
        StudyFigure(
            "7-9",
            "five-flows",
            "five flows arrive and leave, 32 BDP",
            (
                Statement(
                    "v1-fastest",
                    "v1 converges fastest: faster than v3",
                    "Jain's index of five flows higher while all run",
                    Compare(Pick("jain", {ALL: "bbr"}), Pick("jain", {ALL: "bbr3"}), 1.0, MORE),
                    evidence=("jain_first_half", "jain_second_half", "queue_bdp"),
                ),
                Statement(
                    "v1-faster-than-cubic",
                    "and faster than CUBIC",
                    "Jain's index of five flows higher while all run",
                    Compare(Pick("jain", {ALL: "bbr"}), Pick("jain", {ALL: "cubic"}), 1.0, MORE),
                    evidence=("jain_first_half", "jain_second_half", "window_rtts", "queue_bdp", "probe_synchrony"),
                ),
                Statement(
                    "cubic-many",
                    "CUBIC does better with more flows",
                    "Jain's index higher while five flows run than while two do",
                    Compare(Pick("jain_of_5", {ALL: "cubic"}), Pick("jain_of_2", {ALL: "cubic"}), 1.0, MORE),
                    evidence=("jain_of_3", "jain_of_4", "jain_second_half", "window_rtts", "queue_bdp", "loss_ratio"),
                ),
            ),
            (
                Plot("time", "Five BBRv1 flows arrive and leave", ("goodput",), where={ALL: "bbr"}),
                Plot("time", "Five CUBIC flows arrive and leave", ("goodput",), where={ALL: "cubic"}),
            ),
            (0.0, 1.0),
        ),
        *_rtt_figures(),
        StudyFigure(
            "16-18",
            "pairs",
            "versions of BBR against CUBIC and each other",
            (
                Statement(
                    "v1-starves",
                    "v1 starves CUBIC in shallow buffers",
                    "share of BBR 80 % or more at 0.5 BDP",
                    Within(Pick("share.first", against_cubic("bbr", SHALLOW)), 0.8, 1.0),
                    "%",
                    ("loss_ratio.first", "loss_ratio.second"),
                ),
                Statement(
                    "v2-shares",
                    "v2 shares",
                    "share of BBRv2 35 to 65 % at 1 BDP",
                    Within(Pick("share.first", against_cubic("bbr2", "1bdp")), 0.35, 0.65),
                    "%",
                    evidence=("loss_ratio.first", "loss_ratio.second", "queue_bdp"),
                ),
                Statement(
                    "v3-like-v1",
                    "v3 is much like v1",
                    "share of BBRv3 60 % or more at 0.5 BDP",
                    Within(Pick("share.first", against_cubic("bbr3", SHALLOW)), 0.6, 1.0),
                    "%",
                    evidence=("loss_ratio.first", "loss_ratio.second", "queue_bdp"),
                ),
                Statement(
                    "retransmits",
                    "retransmissions are high where BBR meets CUBIC",
                    "BBR's 3 % or more at 0.5 BDP",
                    Within(Pick("retransmit_ratio.first", against_cubic("bbr", SHALLOW)), 0.03, 1.0),
                    "%",
                    evidence=("retransmit_ratio.second", "loss_ratio.first", "queue_fill", "utilization"),
                    explained_by="loss",
                ),
            ),
            (Plot("lines", "Share of BBR beside CUBIC", ("share.first",), BUFFER, FIRST, {SECOND: "cubic"}),),
        ),
        StudyFigure(
            "19",
            "grid",
            "1-5 BBR against 1-5 CUBIC flows, 1 BDP",
            (
                Statement(
                    "one-beats-several",
                    "one BBRv1 flow beats several CUBIC flows",
                    "share of 1 BBR above its fair 1 in 6 beside 5 CUBIC, and above half",
                    Within(Pick("share.bbr", {"flows.bbr.cca": "bbr", BBRS: "1", CUBICS: "5"}), 0.5, 1.0),
                    "%",
                    ("jain", "loss_ratio.cubic"),
                ),
            ),
            (
                Plot("grid", "Share of BBRv1", ("share.bbr",), CUBICS, BBRS, {"flows.bbr.cca": "bbr"}),
                Plot("grid", "Jain's index", ("jain",), CUBICS, BBRS, {"flows.bbr.cca": "bbr"}),
            ),
        ),
        StudyFigure(
            "20-21",
            "workload",
            "a workload, all of one algorithm",
            (
                Statement(
                    "v1-long",
                    "v1 favours long flows",
                    "slowdown of flows of 1 MB and more lower than CUBIC's",
                    Compare(
                        Pick("slowdown_large.all", {ALL: "bbr"}), Pick("slowdown_large.all", {ALL: "cubic"}), 0.0, 1.0
                    ),
                    "x",
                    ("slowdown_small.all", "slowdown_medium.all", "utilization", "loss_ratio"),
                ),
            ),
            (Plot("ecdf", "Completion times", ("fct_s",), by=ALL, group="all"),),
            (0.0, 1.0),
        ),
        StudyFigure(
            "20-21 mixed",
            "workload-mixed",
            "the workload, every other flow CUBIC",
            (
                *(
                    Statement(
                        f"v1-long-{half}",
                        f"v1's long flows gain on CUBIC's: {half} half of the flows",
                        "as BBR beside CUBIC, slowdown of flows of 1 MB and more lower than that of the same flows as "
                        "CUBIC beside BBR",
                        Compare(
                            Pick(f"slowdown_large.{half}", {mine: "bbr", other: "cubic"}),
                            Pick(f"slowdown_large.{half}", {mine: "cubic", other: "bbr"}),
                            0.0,
                            1.0,
                        ),
                        "x",
                        (f"slowdown_small.{half}", f"loss_ratio.{half}", f"completions.{half}"),
                    )
                    for half, mine, other in (("first", FIRST, SECOND), ("second", SECOND, FIRST))
                ),
            ),
            (
                Plot(
                    "ecdf",
                    "Completion times beside CUBIC, one half of the flows",
                    ("fct_s",),
                    by=FIRST,
                    where={SECOND: "cubic"},
                    group="first",
                ),
            ),
            (0.0, 1.0),
        ),
    ),
    controls=(
        Control("rtt-longer", "rtt-long-first", "for 300 s, as published", ("cubic-short",)),
        Control("rtt-bbr-longer", "rtt-long-first", "for 300 s, as published", ("favours-long-bbr", "gap")),
        Control("five-flows-longer", "five-flows", "100 s apart and for 500 s, as published", ("cubic-many",)),
        Control("pairs-longer", "pairs", "for 300 s, as published", ("v1-starves", "retransmits")),
        through_tbf("five-flows", "cubic-many"),
        through_tbf("pairs", "v1-starves", "retransmits"),
    ),
)
