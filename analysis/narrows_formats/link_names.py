# SPDX-License-Identifier: Apache-2.0
"""What links are called, in experiments and in all results."""

from __future__ import annotations

# The name of the link of an experiment that has one, written as `bottleneck`.
ONLY_LINK = "bottleneck"
# What follows a link's name for its opposite direction.
REVERSE = ".reverse"
