# SPDX-License-Identifier: Apache-2.0
"""How long responses took."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from narrows_formats.summary import DelayDistribution


def distribution(values: Sequence[float]) -> DelayDistribution | None:
    """Least, mean, percentiles (nearest rank) and most of values in any unit; None of none.

    Source of the percentiles: R. Hyndman, Y. Fan, "Sample Quantiles in Statistical Packages", American Statistician
    50(4), 1996, definition 1.
    """
    if not values:
        return None
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    p50, p95, p99 = np.percentile(ordered, (50, 95, 99), method="inverted_cdf")
    return {
        "min": float(ordered[0]),
        "mean": float(ordered.mean()),
        "p50": float(p50),
        "p95": float(p95),
        "p99": float(p99),
        "max": float(ordered[-1]),
    }
