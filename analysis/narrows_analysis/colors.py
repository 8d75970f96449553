# SPDX-License-Identifier: Apache-2.0
"""Which colour a flow has: the same one in every figure and table, on the page and in matplotlib."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

# Okabe and Ito's colour-blind-safe palette, its two lightest colours darkened to be readable on white. The page's style
# sheet holds these as --c0..--c7 and brighter ones for dark backgrounds.
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#b8578f", "#c98500", "#3f9fd8", "#6b6f76", "#2b2d31")
_MAX_TINT = 55


@dataclass(frozen=True)
class FlowColor:
    """Position in PALETTE, and how much of the background is mixed in, in percent."""

    index: int
    tint: int

    @property
    def css(self) -> str:
        """As a CSS value that follows the page's theme."""
        base = f"var(--c{self.index})"
        return base if not self.tint else f"color-mix(in srgb, {base} {100 - self.tint}%, var(--paper))"

    @property
    def hex(self) -> str:
        """As a hexadecimal value on white."""
        channels = [int(PALETTE[self.index][i : i + 2], 16) for i in (1, 3, 5)]
        mixed = [round(value + (255 - value) * self.tint / 100) for value in channels]
        return "#" + "".join(f"{value:02x}" for value in mixed)


def flow_colors(groups: Sequence[str]) -> list[FlowColor]:
    """A colour for each flow, given each flow's group: a hue a group, its flows differ in tint; a hue a flow where
    there is one group only and hues suffice."""
    names = list(dict.fromkeys(groups))
    if len(names) == 1 and len(groups) <= len(PALETTE) - 2:
        return [FlowColor(number, 0) for number in range(len(groups))]
    seen: dict[str, int] = {}
    sizes = Counter(groups)
    colors = []
    for group in groups:
        position = seen.get(group, 0)
        seen[group] = position + 1
        size = sizes[group]
        tint = round(_MAX_TINT * position / (size - 1)) if size > 1 else 0
        colors.append(FlowColor(names.index(group) % len(PALETTE), tint))
    return colors
