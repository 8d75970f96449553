# SPDX-License-Identifier: Apache-2.0
"""The least and the most of a setting that varies."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """The least and the most of something that varies."""

    least: int
    most: int
