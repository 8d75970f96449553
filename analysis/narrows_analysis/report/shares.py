# SPDX-License-Identifier: Apache-2.0
"""Shares of the goodput as data, for bars on a page or with matplotlib."""

from __future__ import annotations

from dataclasses import dataclass

from narrows_formats.flow_names import OTHER_GROUP
from narrows_formats.summary import share_time, shown_other_share

from narrows_analysis.colors import FlowColor
from narrows_analysis.report import units
from narrows_analysis.run_data import RunData

MAX_BARS = 24
# Of traffic that is not the experiment's: a grey that is not a flow's.
OTHER_STYLE, OTHER_HEX = "var(--axis)", "#8a8d91"


@dataclass(frozen=True)
class Bar:
    """The share of a flow, or of a group where flows are too many to compare; `color` is None for other traffic."""

    name: str
    share: float
    color: FlowColor | None

    @property
    def text(self) -> str:
        """As people read it."""
        return units.percent(self.share)

    @property
    def style(self) -> str:
        """Its colour on a page."""
        return OTHER_STYLE if self.color is None else self.color.css

    @property
    def hex(self) -> str:
        """Its colour on white."""
        return OTHER_HEX if self.color is None else self.color.hex


@dataclass(frozen=True)
class Shares:
    """All bars, what they are shares of, and the share that would be fair; None where there is no such share."""

    bars: tuple[Bar, ...]
    fair: float | None
    time: str

    @property
    def most(self) -> float:
        """The longest bar, or the mark of the fair share."""
        return max([bar.share for bar in self.bars] + ([] if self.fair is None else [self.fair]))


def shares(data: RunData) -> Shares | None:
    """A bar for each flow or group; None where one has it all, or a share is not known."""
    summary = data.summary
    known = [(one["name"], one["share"], color) for one, color in zip(summary["flows"], data.colors, strict=True)]
    if by_group := len(known) > MAX_BARS:
        known = [(one["name"], one["share"], FlowColor(n % 8, 0)) for n, one in enumerate(summary["groups"])]
    bars = [Bar(name, share, color) for name, share, color in known if share is not None]
    if len(bars) < len(known):
        return None
    if (other := shown_other_share(summary["bottleneck"]["other_share"])) is not None:
        bars.append(Bar(OTHER_GROUP, other, None))
    if len(bars) < 2:
        return None
    # Flows that share no link have no common fair share.
    competing = len(data.competing)
    fair = 1 / competing if competing > 1 and not by_group and len(summary["links"]) == 1 else None
    return Shares(tuple(bars), fair, share_time(summary))
