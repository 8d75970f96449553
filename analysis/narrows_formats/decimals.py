# SPDX-License-Identifier: Apache-2.0
"""Numbers as text has them: with 15 significant digits.

A double keeps each decimal number of 15 digits (C's DBL_DIG): nanoseconds of a run of eleven days have as many, so that
nothing that was measured is lost. Without this what arithmetic adds is written, too: 0.0036282870000000004.
"""

from __future__ import annotations

from typing import Any

# For one number, as C's printf and pandas take it.
DECIMAL = "%.15g"


def as_decimals(data: Any) -> Any:
    """Data of JSON with each float rounded to 15 significant digits."""
    if isinstance(data, float):
        return float(DECIMAL % data)
    if isinstance(data, dict):
        return {name: as_decimals(value) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [as_decimals(value) for value in data]
    return data
