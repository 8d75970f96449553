# SPDX-License-Identifier: Apache-2.0
"""The values of a swept field, ranked by a quantity."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from narrows_analysis.metrics.confidence import Estimate, estimate
from narrows_analysis.sweep import COMPLETE, Quantity, Sweep


@dataclass(frozen=True)
class Ranked:
    """A value of the field: its mean, in SI units, and by how much the best one is better.

    ``found`` is None where a setting of the other fields has no complete run of it; ``behind`` is None there too, and
    of the best one.
    """

    value: str
    found: Estimate | None
    behind: Estimate | None

    @property
    def is_worse(self) -> bool | None:
        """Whether it is worse than the best one by more than chance (Welch, 95 %); None where that is not known."""
        if self.behind is None or (ends := self.behind.interval) is None:
            return None
        return ends[0] > 0


def ranking(sweep: Sweep, field: str, quantity: Quantity, group: str) -> list[Ranked]:
    """The values of a field, the best first, those without a result last.

    Each setting of the other fields has the same weight: the mean is that of their means, and its interval that of a
    sum of independent samples (`narrows_analysis.metrics.confidence`).

    Args:
        sweep: its table.
        field: one that is swept.
        quantity: by which.
        group: whose, of a quantity that each group has its own of.
    """
    others = {name: values for name, values in sweep.fields.items() if name != field}
    settings = [dict(zip(others, values, strict=True)) for values in itertools.product(*others.values())]
    samples = {
        value: [_values(sweep, quantity, group, {field: value, **setting}) for setting in settings]
        for value in sweep.fields[field]
    }
    means = {value: _mean(found) for value, found in samples.items()}
    sign = 1 if quantity.less_is_better else -1
    known = sorted((mean.mean * sign, value) for value, mean in means.items() if mean is not None)
    ranked = []
    for _, value in known:
        mean, best = means[value], known[0][1]
        behind = None if value == best else _mean(samples[value], [[-one for one in row] for row in samples[best]])
        if behind is not None and not quantity.less_is_better:
            behind = replace(behind, mean=-behind.mean)
        bounded = None if mean is None else replace(mean, possible=(0.0, quantity.greatest))
        ranked.append(Ranked(value, bounded, behind))
    return ranked + [Ranked(value, None, None) for value, mean in means.items() if mean is None]


def _mean(*samples: Sequence[Sequence[float]]) -> Estimate | None:
    """The mean over settings of a value's samples, or of two values' the sum of both."""
    return estimate(*([one / len(rows) for one in row] for rows in samples for row in rows))


def _values(sweep: Sweep, quantity: Quantity, group: str, fixed: dict[str, str]) -> list[float]:
    frame = sweep.frame[sweep.frame["status"] == COMPLETE]
    for name, value in fixed.items():
        frame = frame[frame[name] == value]
    rows = frame[frame["group"] == group] if quantity.per_group else frame.drop_duplicates("directory")
    numbers = pd.to_numeric(rows[quantity.column], errors="coerce").to_numpy(dtype=np.float64)
    return [float(one) for one in numbers if np.isfinite(one)]
