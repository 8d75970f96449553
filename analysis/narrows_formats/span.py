# SPDX-License-Identifier: Apache-2.0
"""The lowest and highest value of a setting that varies."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """The lowest and highest value of something that varies."""

    least: int
    most: int
