# SPDX-License-Identifier: Apache-2.0
"""A snapshot in words: the table under the progress bar, and the line that is printed where there is no terminal."""

from __future__ import annotations

from rich.table import Table

from narrows.run.sampler import FlowRate, Snapshot

NOT_KNOWN = "-"
# More flows are shown as their groups, and of more groups the fastest.
MAX_ROWS = 12


def rows(snapshot: Snapshot) -> tuple[FlowRate, ...]:
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
    """Depth, and what part of the buffer it is."""
    if snapshot.queue_bytes is None:
        return f"{snapshot.departed_packets} packets through"
    part = snapshot.queue_bytes / snapshot.limit_bytes
    return f"queue {snapshot.queue_bytes / 1000:,.0f} kB ({part:.0%})"


def drops(count: int | None) -> str:
    """A count of dropped packets."""
    return NOT_KNOWN if count is None else f"{count}"


def running(snapshot: Snapshot) -> str:
    """How many flows are under way."""
    return f"{snapshot.active} flow{'' if snapshot.active == 1 else 's'}"


def left(snapshot: Snapshot) -> str:
    """Time to the end of the last flow; empty where it is not known."""
    return "" if snapshot.left_s is None else f"{snapshot.left_s:.0f} s left"


def line(snapshot: Snapshot) -> str:
    """Everything in one line."""
    parts = [f"{rate(snapshot.rate_bps)} Mbit/s"]
    shown = rows(snapshot)
    if len(shown) > 1:
        parts[0] += f" ({', '.join(f'{row.name} {rate(row.rate_bps)}' for row in shown)})"
    parts.append(queue(snapshot))
    if snapshot.drops is not None:
        parts.append(f"{snapshot.drops} drops")
    parts.append(running(snapshot))
    parts.append(left(snapshot))
    return f"{snapshot.time_s:.0f} s: " + ", ".join(part for part in parts if part)


def table(snapshot: Snapshot) -> Table:
    """A row for each flow or group, and one for the link."""
    found = Table(box=None, pad_edge=False, header_style="dim")
    found.add_column("")
    found.add_column("CCA")
    for column in ("Mbit/s", "share", "drops"):
        found.add_column(column, justify="right")
    shown = rows(snapshot)
    total = sum(row.rate_bps or 0 for row in shown)
    for row in shown:
        share = f"{row.rate_bps / total:.0%}" if row.rate_bps is not None and total else NOT_KNOWN
        found.add_row(row.name, row.cca, rate(row.rate_bps), share, drops(row.drops))
    used = "" if snapshot.rate_bps is None else f"{snapshot.rate_bps / snapshot.link_bps:.0%} used"
    found.add_row("link", "", rate(snapshot.rate_bps), used, drops(snapshot.drops), style="bold")
    return found
