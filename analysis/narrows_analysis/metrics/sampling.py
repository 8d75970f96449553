# SPDX-License-Identifier: Apache-2.0
"""How well a random sample of packets, one of each row of n, knows what is estimated from it.

Rows are strata of one draw each. What a mean of draws varies by is the variance within rows, which one draw of each
does not tell; the variance of all draws, which is taken for it, is that between rows more (Cochran, Sampling
Techniques, 1977, section 5.6). So the errors are upper bounds, and exact for packets in step with the rows.
"""

from __future__ import annotations

from math import sqrt


def variance(total: float, squares: float, count: int) -> float:
    """Variance of ``count`` draws by the sums of their values and of these squared; 0 with less than two."""
    return max(squares - total**2 / count, 0.0) / (count - 1) if count > 1 else 0.0


def mean_error(spread: float, count: int) -> float | None:
    """Standard error of the mean of ``count`` draws with the variance ``spread``; None without any."""
    return sqrt(spread / count) if count else None


def ends_error(count: int) -> float:
    """The part of a flow's packets, in quadratic mean, that is before the first or behind the last of ``count`` drawn.

    A rate is known between these two, and that of the rest is taken to be off by as much as itself. The range of
    uniform order statistics is Beta(n - 1, 2), so that what it lacks has the second moment 6 / ((n + 1) (n + 2)).
    """
    return sqrt(6 / ((count + 1) * (count + 2)))
