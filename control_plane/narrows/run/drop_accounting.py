# SPDX-License-Identifier: Apache-2.0
"""The check that every run ends with: drops seen by telemetry against the traffic manager's own counters.

A flow's last report says how many of its packets were offered to the queue and how many left it; the difference is its
drops, to the packet. Packets that arrived after that report's packet and were dropped are in no report: they are the
remainder of the program's own arrival counter.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from narrows_formats.files import DROPS, REPORT_FILES

from narrows.switch.readings import FlowDrops, FlowTotals

MODULUS = 1 << 32
# Value of the column `cause` of recorded drops.
LOSS_EMULATION = 1
BY_PROGRAM = {6: "ingress", 7: "egress"}
HALF = MODULUS // 2


@dataclass(frozen=True)
class LastReport:
    """Totals of one flow index in its last report (32 bits, wrapping)."""

    flow: int
    arrivals: int
    departures: int


@dataclass(frozen=True)
class FlowCheck:
    """One flow index: drops by its last report, drops after it, and drops by the traffic manager.

    ``unreported`` packets left after its last report, and should have been in one.
    Flows of several links may have the same one, and count in the same cells: then reports are of all of them, and so
    are the traffic manager's drops together with those ``counted_at_other_links``.
    """

    flow: int
    in_last_report: int
    after_last_report: int
    counted_by_switch: int
    counted_at_other_links: int = 0
    unreported: int = 0

    @property
    def agrees(self) -> bool:
        """Whether both sides have the same drops to the packet."""
        # Reports carry 32 bits: after days the switch has counted more.
        counted = self.counted_by_switch + self.counted_at_other_links
        return (self.in_last_report + self.after_last_report - counted) % MODULUS == 0

    @property
    def holds(self) -> bool:
        """Whether they have, and no report is missing at the end."""
        return self.agrees and not self.unreported


@dataclass(frozen=True)
class CrossCheck:
    """The outcome for a run; ``port_drops`` is the drop counter of the bottleneck's queue, None if it has none."""

    flows: tuple[FlowCheck, ...]
    port_drops: int | None
    problems: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether every flow and the sum agree to the packet."""
        return not self.problems

    def as_json(self) -> dict[str, object]:
        """The outcome as run.json has it; flows without any drop are left out."""
        return {
            "holds": self.holds,
            "port_drops": self.port_drops,
            "sum_of_flows": sum(flow.counted_by_switch for flow in self.flows),
            "flows_checked": len(self.flows),
            "flows_with_drops": [asdict(flow) for flow in self.flows if flow.counted_by_switch or not flow.holds],
            "problems": list(self.problems),
        }


def last_reports(telemetry: Path) -> dict[int, dict[int, LastReport]]:
    """The last report of every flow index, by bottleneck, from the Parquet files of a run."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    found: dict[int, dict[int, LastReport]] = defaultdict(dict)
    for path in sorted(telemetry.glob(REPORT_FILES)):
        try:
            file = pq.ParquetFile(path)
        except pa.ArrowInvalid:  # not written to its end; the analysis says so
            continue
        for group in range(file.num_row_groups):
            frame = file.read_row_group(group, columns=["bottleneck", "flow", "arrivals", "departures"]).to_pandas()
            # Reports leave the switch, and are written, in the order of departures; both totals only grow.
            for row in frame.drop_duplicates(["bottleneck", "flow"], keep="last").itertuples(index=False):
                last = LastReport(int(row.flow), int(row.arrivals), int(row.departures))
                found[int(row.bottleneck)][last.flow] = last
    return found


@dataclass
class RecordedDrops:
    """Packets of a link whose drop has a record: at its queue by flow index, and by loss emulation before that.

    ``by_program`` are those of the first that a user's program dropped, by flow index and where (`BY_PROGRAM`).
    """

    at_queue: Counter[int] = field(default_factory=Counter)
    emulated: int = 0
    by_program: Counter[tuple[int, str]] = field(default_factory=Counter)


def recorded_drops(telemetry: Path) -> dict[int, RecordedDrops]:
    """Recorded drops by bottleneck."""
    import pyarrow.parquet as pq

    found: dict[int, RecordedDrops] = defaultdict(RecordedDrops)
    path = telemetry / DROPS
    if path.exists():
        table = pq.read_table(path, columns=["bottleneck", "flow", "cause"])
        for row in table.group_by(["bottleneck", "flow", "cause"]).aggregate([([], "count_all")]).to_pylist():
            link, count = found[row["bottleneck"]], int(row["count_all"])
            if row["cause"] == LOSS_EMULATION:
                link.emulated += count
            else:
                link.at_queue[row["flow"]] += count
            if where := BY_PROGRAM.get(row["cause"]):
                link.by_program[row["flow"], where] += count
    return found


def check(
    reports: dict[int, LastReport],
    totals: Sequence[FlowTotals],
    drops: Sequence[FlowDrops],
    port_drops: int | None,
    sampled: bool = False,
    others: Sequence[tuple[Mapping[int, LastReport], Sequence[FlowDrops]]] = (),
) -> CrossCheck:
    """Compare the last reports, the program's counters and the traffic manager's counters, flow by flow.

    Args:
        reports: last report of each flow index.
        totals: the program's counters of these indices.
        drops: drops by flow index.
        port_drops: drops of the queue in all, None if the target does not count them.
        sampled: not every departure is reported, so that some may follow a flow's last report.
        others: of other links the last reports and the drops.
    """
    counted = {drop.flow: drop.packets for drop in drops}
    elsewhere = Counter[int]()
    for _, of_link in others:
        elsewhere.update({drop.flow: drop.packets for drop in of_link})
    by_flow = {total.flow: total for total in totals}
    flows = []
    problems = []
    for flow in sorted(reports.keys() | counted.keys()):
        report = reports.get(flow, LastReport(flow, 0, 0))
        for seen in (of_link[flow] for of_link, _ in others if flow in of_link):
            report = max(report, seen, key=lambda one: (one.departures - report.departures + HALF) % MODULUS)
        total = by_flow.get(flow, FlowTotals(flow, report.arrivals, report.departures))
        departed_later = total.departures - report.departures
        result = FlowCheck(
            flow=flow,
            in_last_report=(report.arrivals - report.departures) % MODULUS,
            after_last_report=(total.arrivals - report.arrivals - departed_later) % MODULUS,
            counted_by_switch=counted.get(flow, 0),
            counted_at_other_links=elsewhere[flow],
            unreported=0 if sampled else departed_later % MODULUS,
        )
        flows.append(result)
        if result.unreported:
            problems.append(f"flow index {flow}: {result.unreported} packets left after its last report")
        if not result.agrees:
            problems.append(
                f"flow index {flow}: {result.in_last_report} drops by its last report and "
                f"{result.after_last_report} later, but "
                f"{result.counted_by_switch + result.counted_at_other_links} drops counted by the switch"
            )
    in_all = sum(counted.values())
    if port_drops is not None and in_all != port_drops:
        problems.append(f"the drops of all flows are {in_all}, but the queue's drop counter says {port_drops}")
    return CrossCheck(tuple(flows), port_drops, tuple(problems))
