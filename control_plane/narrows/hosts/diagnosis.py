# SPDX-License-Identifier: Apache-2.0
"""One thing that ``narrows doctor`` looked at."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Diagnosis:
    """One thing looked at; ``problem`` says what is wrong and how to fix it, empty when nothing is.

    ``absent``: it is not there, and need not be.
    """

    subject: str
    found: str
    problem: str = ""
    absent: bool = False
