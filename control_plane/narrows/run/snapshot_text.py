# SPDX-License-Identifier: Apache-2.0
"""A snapshot in words: the table under the progress bar, and the line that is printed where there is no terminal."""

from __future__ import annotations

from collections.abc import Sequence

from narrows_formats.flow_names import OTHER_GROUP
from rich.table import Table

from narrows.run.sampler import FlowRate, LinkSnapshot, Snapshot

NOT_KNOWN = "-"
# More flows are shown as their groups, and of more groups the fastest.
MAX_ROWS = 12


def rows(snapshot: Snapshot) -> Sequence[FlowRate]:
    """What gets a row: every flow, or every group when flows are many; in the plan's order."""
    if len(snapshot.flows) <= MAX_ROWS:
        return snapshot.flows
    if len(snapshot.groups) <= MAX_ROWS:
        return snapshot.groups
    fastest = sorted(snapshot.groups, key=lambda group: -(group.rate_bps or 0))[:MAX_ROWS]
    return tuple(group for group in snapshot.groups if group in fastest)


def rate(bps: float | None) -> str:
    """Mbit/s, with the digits that can be read."""
    if bps is None:
        return NOT_KNOWN
    megabits = bps / 1e6
    return f"{megabits:.1f}" if megabits < 1000 else f"{megabits:,.0f}"


def queue(snapshot: Snapshot) -> str:
    """Depth of each link's queue, and what part of the buffer it is."""
    if len(snapshot.links) > 1:
        return "queues " + ", ".join(f"{link.name} {_depth(link)}" for link in snapshot.links)
    (link,) = snapshot.links
    return _depth(link) if link.queue_bytes is None else f"queue {_depth(link)}"


def _depth(link: LinkSnapshot) -> str:
    if link.queue_bytes is None:
        return f"{link.departed_packets} packets through"
    filled = "" if link.filled is None else f" ({link.filled:.0%})"
    return f"{link.queue_bytes / 1000:,.0f} kB{filled}"


def drops(count: int | None) -> str:
    """A count of dropped packets."""
    return NOT_KNOWN if count is None else f"{count}"


def running(snapshot: Snapshot) -> str:
    """How many flows are under way."""
    return f"{snapshot.active} flow{'' if snapshot.active == 1 else 's'}"


def left(snapshot: Snapshot) -> str:
    """Time to the end of the last flow; empty where it is not known."""
    return "" if snapshot.remaining_s is None else f"{snapshot.remaining_s:.0f} s left"


def _other(snapshot: Snapshot) -> float:
    """Rate of what is not the experiment's, 0 where it is not known."""
    return sum(link.other_bps or 0.0 for link in snapshot.links)


def line(snapshot: Snapshot) -> str:
    """Everything in one line."""
    alone = len(snapshot.links) == 1
    named = (f"{'' if alone else f'{link.name} '}{rate(link.rate_bps)}" for link in snapshot.links)
    parts = [f"{', '.join(named)} Mbit/s"]
    shown = [(row.name, row.rate_bps) for row in rows(snapshot)]
    if other := _other(snapshot):
        shown.append((OTHER_GROUP, other))
    if len(shown) > 1:
        parts[0] += f" ({', '.join(f'{name} {rate(bps)}' for name, bps in shown)})"
    parts.append(queue(snapshot))
    dropped = [link.drops for link in snapshot.links if link.drops is not None]
    if dropped:
        parts.append(f"{sum(dropped)} drops")
    parts.append(running(snapshot))
    parts.append(left(snapshot))
    return f"{snapshot.time_s:.0f} s: " + ", ".join(part for part in parts if part)


def table(snapshot: Snapshot) -> Table:
    """A row for each flow or group, and one for each link."""
    found = Table(box=None, pad_edge=False, header_style="dim")
    found.add_column("")
    found.add_column("CCA")
    for column in ("Mbit/s", "share", "drops"):
        found.add_column(column, justify="right")
    shown = rows(snapshot)
    other = _other(snapshot)
    total = sum(row.rate_bps or 0 for row in shown) + other
    for row in shown:
        share = f"{row.rate_bps / total:.0%}" if row.rate_bps is not None and total else NOT_KNOWN
        found.add_row(row.name, row.cca, rate(row.rate_bps), share, drops(row.drops))
    if other:
        found.add_row(OTHER_GROUP, "", rate(other), f"{other / total:.0%}", NOT_KNOWN)
    for link in snapshot.links:
        used = "" if link.rate_bps is None or not link.link_bps else f"{link.rate_bps / link.link_bps:.0%} used"
        name = "link" if len(snapshot.links) == 1 else link.name
        found.add_row(name, "", rate(link.rate_bps), used, drops(link.drops), style="bold")
    return found
