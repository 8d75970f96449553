# SPDX-License-Identifier: Apache-2.0
"""Values of measures in words."""

from __future__ import annotations

from dataclasses import replace

from narrows_analysis.metrics.confidence import Estimate

from narrows_studies.units import Unit, is_ratio, unit_of


def show(value: float | Estimate | None, measure: str, is_mean: bool = True) -> str:
    """A value in its measure's unit, with its confidence interval, if any, and the number of repetitions without it.

    An interval is shown by half its width, or by its ends if it is cut at a bound: a ratio is between 0 and 1.

    Args:
        value: of the measure, or a sum of such values.
        measure: its name.
        is_mean: whether the value lies where the measure's values do, and is not a difference of them.
    """
    if value is None:
        return "-"
    unit = unit_of(measure)
    if not isinstance(value, Estimate):
        return _number(value, unit)
    parts = [] if value.interval is None else [_interval(value, measure, is_mean), f"n={value.count}"]
    parts += [f"{value.missing} without it"] if value.missing else []
    return _number(value.mean, unit) + (f" ({', '.join(parts)})" if parts else "")


def _interval(value: Estimate, measure: str, is_mean: bool) -> str:
    unit = unit_of(measure)
    free = value.interval or (value.mean, value.mean)
    if is_mean and is_ratio(measure):
        # More can leave in a window than the link carries in it: packets that were in the queue before.
        value = replace(value, possible=(0.0, max(1.0, value.mean)))
    low, high = value.interval or free
    if (low, high) != free:
        return f"{_number(low, unit)} to {_number(high, unit)}"
    return f"±{_number((high - low) / 2, unit)}"


def _number(value: float, unit: Unit) -> str:
    scale = 100.0 if unit == "%" else 1.0
    text = f"{value * scale:.3g}"
    return f"{text} {unit}".strip() if unit != "x" else f"{text}x"
