# SPDX-License-Identifier: Apache-2.0
"""Verdicts worked out again from the committed points, with numpy and SciPy alone, and compared with the pages'."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from narrows_analysis.study_results import Variant, read_results
from narrows_studies.page import findings, results_path
from own_studies import STUDIES
from scipy import stats

DOCS = Path(__file__).parents[2] / "docs" / "studies"
RATE, BUFFER, COUNT, CCA = "bottleneck.rate", "bottleneck.buffer", "flows.all.count", "flows.all.cca"
TWO, PAIR, LARGE, TRAIN = "flows.*.count", ("flows.first.cca", "flows.second.cca"), "flows.large.cca", "flows.train.cca"
Where = Mapping[str, str | tuple[float, float]]
Row = dict[str, Any]


@dataclass(frozen=True)
class Rule:
    """A rule of a page: ``left`` is in [low, high], or ``left / right`` is between them.

    ``each`` is a field, at every value of which it has to be (``*``: at every setting).
    """

    variant: Variant
    name: str
    experiment: str
    measure: str
    left: Where
    low: float | None = None
    high: float | None = None
    right: Where | None = None
    over: str = ""  # another measure of the same runs in the place of `right`
    each: str = ""


FIGURE_6 = {RATE: "80Mbit", BUFFER: "0.5bdp", "flows.bbr.count": "4"}
CLAYPOOL = (
    Rule("full", "4b/fair", "staggered", "jain", {}, low=0.9),
    Rule("full", "4b/probes-coincide", "staggered", "probe_synchrony", {}, low=0.75),
    Rule("full", "4b/probe-gap", "staggered", "probe_gap_s", {}, 9.5, 11),
    Rule("full", "5/bbr-queue", "deep-buffer", "queue_bdp", {CCA: "bbr"}, 0.85, 1.35),
    Rule("full", "5/bbr-probing", "deep-buffer", "queue_p95_bdp", {CCA: "bbr"}, 1.25, 1.75),
    Rule("full", "5/cubic-fills", "deep-buffer", "queue_max_fill", {CCA: "cubic"}, low=0.9),
    Rule("full", "5/bbr-rtt", "deep-buffer", "rtt_ratio", {CCA: "bbr"}, 1.5, 2.5),
    Rule("full", "5/rtt-quarter", "deep-buffer", "rtt_ratio", {CCA: "bbr"}, 0.19, 0.31, {CCA: "cubic"}),
    Rule("full", "6/persists", "loss", "lossy_windows", FIGURE_6, low=0.9),
    Rule("full", "6/average", "loss", "loss_ratio", FIGURE_6, low=0.1),
    Rule("quick", "6/average", "loss", "loss_ratio", FIGURE_6, low=0.1),
    Rule("full", "8/starved", "coexistence", "share.cubic", {TWO: "2", BUFFER: "0.5bdp"}, high=0.2),
    Rule("full", "8/loss", "coexistence", "loss_ratio", {TWO: "2", BUFFER: "0.5bdp"}, 0.08, 0.12),
    Rule("quick", "8/loss", "coexistence", "loss_ratio", {TWO: "2", BUFFER: "0.5bdp"}, 0.08, 0.12),
    Rule("full", "10/cubic-wins", "coexistence", "share.bbr", {TWO: "2", BUFFER: "8bdp"}, high=0.5),
    Rule("quick", "5/bbr-queue", "deep-buffer", "queue_bdp", {CCA: "bbr"}, 0.85, 1.35),
)
ONE, SEVERAL, SMALL = (
    {BUFFER: buffer, CCA: "bbr", COUNT: count}
    for buffer, count in (("8bdp", "1"), ("8bdp", (2.0, 6.0)), ("0.8bdp", "6"))
)
HOCK = (
    Rule("full", "single/rate", "alone", "utilization", ONE, 0.9, 1.01, each="*"),
    Rule("full", "single/queue", "alone", "queue_bdp", ONE, high=0.35, each="*"),
    Rule("full", "small-buffer/massive", "alone", "loss_ratio", SMALL, low=0.04, each="*"),
    Rule("quick", "several/queue", "alone", "queue_bdp", SEVERAL, 0.75, 1.75, each="*"),
    Rule("quick", "several/rtt", "alone", "rtt_ratio", SEVERAL, 1.5, 2.5, each="*"),
    Rule("full", "against-cubic/suppressed", "against-cubic", "share.bbr", {BUFFER: "0.8bdp", TWO: "1"}, 0.8, each="*"),
    Rule(
        "full", "against-cubic/may-lose", "against-cubic", "share.bbr", {BUFFER: "8bdp", TWO: "1"}, high=0.5, each="*"
    ),
    Rule("full", "rtt-fairness/longest", "rtt-fairness", "share.rtt80", {}, 1.0, over="share.rtt40", each=RATE),
    Rule("full", "rtt-fairness/middle", "rtt-fairness", "share.rtt40", {}, 1.0, over="share.rtt20", each=RATE),
)
MIYAZAWA = (
    Rule("quick", "cycle/full", "deep-buffer", "fillings", {BUFFER: "19844301ns"}, low=2),
    Rule("quick", "divergence/never-full", "deep-buffer", "loss_ratio", {BUFFER: "79377204ns"}, high=0),
)
CUBICS = {LARGE: "cubic", TRAIN: "cubic"}
GAP = {"flows.train.gap": "100ms"}
HURTIG = (
    Rule(
        "quick",
        "2-4/cubic-cubic-utilization",
        "trains",
        "utilization",
        {**CUBICS, BUFFER: "0.5bdp"},
        high=1.0,
        right={**CUBICS, BUFFER: "8bdp"},
    ),
    Rule(
        "quick",
        "5/small-window",
        "gaps",
        "cwnd_bdp.large",
        {TRAIN: "bbr", **GAP},
        high=0.8,
        right={TRAIN: "cubic", **GAP},
    ),
    Rule(
        "quick",
        "10-12/longer-at-1",
        "medium",
        "fct_s.train",
        {LARGE: "bbr", BUFFER: "1bdp"},
        1.0,
        right={LARGE: "cubic", BUFFER: "1bdp"},
    ),
    Rule(
        "quick",
        "13-15/pacing-high",
        "small",
        "pacing_fraction.large",
        {LARGE: "bbr", BUFFER: "2bdp"},
        0.95,
        right={LARGE: "bbr", BUFFER: "1bdp"},
    ),
    *(
        Rule(
            "quick",
            name,
            "small",
            "fct_s.train",
            {LARGE: "bbr", BUFFER: buffer},
            1.0,
            right={LARGE: "cubic", BUFFER: buffer},
        )
        for name, buffer in (("13-15/suffers", "2bdp"), ("13-15/one-bdp", "1bdp"))
    ),
    Rule(
        "quick",
        "13-15/retransmissions",
        "small",
        "retransmit_ratio.train",
        {LARGE: "bbr", BUFFER: "2bdp"},
        11 / 81,
        15 / 85,
    ),
)
V1, V2 = (dict(zip(PAIR, (version, "cubic"), strict=True)) for version in ("bbr", "bbr2"))
ZEYNALI = (
    Rule("full", "16-18/v1-starves-cubic", "pairs", "share.first", {**V1, BUFFER: (0.0, 1.0)}, 0.8, each="*"),
    Rule("full", "16-18/v2-better", "pairs", "jain", {**V1, BUFFER: "1bdp"}, high=1.0, right={**V2, BUFFER: "1bdp"}),
    Rule("full", "16-18/v2-cubic-more", "pairs", "share.first", {**V2, BUFFER: "1bdp"}, high=0.5),
)
RULES = {
    "claypool2019": CLAYPOOL,
    "hock2017": HOCK,
    "miyazawa2018": MIYAZAWA,
    "hurtig2018": HURTIG,
    "zeynali2024": ZEYNALI,
}


def rows_of(study: str, variant: str, experiment: str) -> list[Row]:
    """The runs of an experiment, each with its setting."""
    table = pq.read_table(DOCS / "results" / f"{study}.parquet")
    found = [row for row in table.to_pylist() if (row["variant"], row["experiment"]) == (variant, experiment)]
    fields = [name for name in table.column_names if name.startswith(("bottleneck.", "flows."))]
    return [{**row, "setting": tuple((name, row[name]) for name in fields if row[name])} for row in found]


def met(row: Row, where: Where) -> bool:
    """Whether a run is at a setting; ranges are of the number that a value begins with."""
    for field, wanted in where.items():
        value = row[field]
        if value is None:
            return False
        if isinstance(wanted, str):
            if value != wanted:
                return False
        elif not wanted[0] <= float(re.match(r"[\d.]+", value)[0]) <= wanted[1]:  # type: ignore[index]
            return False
    return True


def samples(rows: Sequence[Row], measure: str) -> list[np.ndarray]:
    """The values of the repetitions at each setting, with the digits that results have."""
    settings = dict.fromkeys(row["setting"] for row in rows)
    return [np.array([float(f"{row[measure]:.6g}") for row in rows if row["setting"] == one]) for one in settings]


def p_value(parts: Sequence[tuple[float, np.ndarray]], constant: float) -> tuple[float, float]:
    """A weighted sum of means and a constant, and the probability of one so far from 0 by Welch's t-test."""
    mean = constant + sum(weight * values.mean() for weight, values in parts)
    errors = np.array([weight**2 * values.var(ddof=1) / len(values) for weight, values in parts])
    total = errors.sum()
    if total == 0:
        return mean, float(mean == 0)
    freedom = total**2 / sum(error**2 / (len(values) - 1) for error, (_, values) in zip(errors, parts, strict=True))
    return mean, float(2 * stats.t.sf(abs(mean) / np.sqrt(total), freedom))


def judged_again(study: str, rule: Rule) -> tuple[float, bool, int]:
    """The p-value of what the runs of a rule suggest, whether it holds, and the least number of repetitions."""
    rows = rows_of(study, rule.variant, rule.experiment)
    lefts = [row for row in rows if met(row, rule.left)]
    rights = [row for row in rows if rule.right is not None and met(row, rule.right)]
    groups = dict.fromkeys(
        {"": None, "*": row["setting"]}.get(rule.each, row.get(rule.each)) for row in lefts
    )  # fmt: skip
    holds, fails, counts = [], [], []
    for group in groups:
        mine = [row for row in lefts if rule.each == "" or group in (row["setting"], row.get(rule.each))]
        left = samples(mine, rule.measure)
        counts += [len(values) for values in left]
        sides = []
        for sign, limit in ((1, rule.low), (-1, rule.high)):
            if limit is None:
                continue
            if rule.over:
                # Of one run: what both measures have in common does not count twice.
                both = zip(left, samples(mine, rule.over), strict=True)
                parts, constant = [(1.0, sign * (one - limit * other)) for one, other in both], 0.0
                parts = [(1 / len(parts), values) for _, values in parts]
            elif rule.right is not None:
                right = samples(rights, rule.measure)
                counts += [len(values) for values in right]
                parts = [(sign / len(left), values) for values in left]
                parts += [(-sign * limit / len(right), values) for values in right]
                constant = 0.0
            else:
                parts, constant = [(sign / len(left), values) for values in left], -sign * limit
            mean, p = p_value(parts, constant)
            if mean == 0 and p == 1:
                # Every value is the limit, which is allowed.
                p = 0.0
            sides.append((p, 1.0) if mean >= 0 else (1.0, p))
        holds.append(max(one for one, _ in sides))
        fails.append(min(other for _, other in sides))
    simes = min(len(fails) * p / rank for rank, p in enumerate(sorted(fails), 1))
    return min(max(holds), simes), max(holds) < simes, min(counts)


def holm(p_values: Sequence[float], mine: int) -> float:
    """The p-value of one of several hypotheses as Holm's step-down procedure corrects it."""
    order = np.argsort(p_values, kind="stable")
    corrected = np.maximum.accumulate(np.minimum(1.0, np.array(p_values)[order] * np.arange(len(order), 0, -1)))
    return float(corrected[list(order).index(mine)])


def test_there_are_thirty() -> None:
    assert sum(len(rules) for rules in RULES.values()) >= 30


@pytest.mark.parametrize("study", RULES)
def test_verdicts_are_those_of_plain_arithmetic(study: str) -> None:
    for variant in dict.fromkeys(rule.variant for rule in RULES[study]):
        results = read_results(results_path(STUDIES[study], DOCS), variant)
        assert results is not None
        there = [
            (f"{figure.id}/{one.statement.id}", one)
            for figure, one in findings(STUDIES[study], results)
            if one.verdict != "not run here"
        ]
        names = [name for name, _ in there]
        for rule in RULES[study]:
            if rule.variant != variant:
                continue
            place = names.index(rule.name)
            found = there[place][1]
            p, agrees, count = judged_again(study, rule)
            assert found.count == count, rule.name
            assert found.decision.p_value == pytest.approx(p, rel=1e-6, abs=1e-12), rule.name
            together = holm([p if at == place else one.decision.p_value for at, (_, one) in enumerate(there)], place)
            decided = together <= 0.05 and (p <= 0.01 or count >= 10)
            expected = ("agrees" if agrees else "differs") if decided else "undecided"
            assert found.verdict == expected, rule.name
