# SPDX-License-Identifier: Apache-2.0
"""Cases drawn at random, each tried once: a run is too long for hypothesis to look for a smaller one that fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

T = TypeVar("T")


def try_each(cases: st.SearchStrategy[T], count: int, first_seed: int, attempt: Callable[[T], None]) -> None:
    """Draw so many cases with a seed, and try each."""

    @seed(first_seed)
    @given(cases)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    def one(case: T) -> None:
        attempt(case)

    one()
