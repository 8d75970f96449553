# SPDX-License-Identifier: Apache-2.0
"""What a run directory says about itself: run.json, hosts/*.json and the flow keys, checked and typed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from narrows_formats.files import REPORT_FILES, RUN, SWEEP, TELEMETRY
from narrows_formats.flow_names import group_of, recorded_names
from narrows_formats.run_record import (
    EventRecord,
    FlowRecord,
    LinkRecord,
    Number,
    RunRecord,
    SharedHost,
    UndeliveredFlows,
)
from narrows_formats.target_profile import TargetProfile
from narrows_formats.units import NANOSECONDS
from narrows_formats.validation import problems
from pydantic import ValidationError

from narrows_analysis.errors import AnalysisError
from narrows_analysis.records.connection import read_host_record
from narrows_analysis.records.host_record import HostRecord
from narrows_analysis.records.json_files import only_files, read_json


class FlowSpec(FlowRecord):
    """One flow of the experiment as run.json lists it, with its number there, a name, a group and a start.

    At a link that its acknowledgements cross it is these: source and destination are swapped.
    """

    number: int
    name: str
    group: str
    start_s: Number
    packets: Literal["data", "acks"] = "data"

    @property
    def late_s(self) -> float:
        """How long after its planned start the sender began; 0 where that is not known."""
        return 0.0 if self.started_s is None else self.started_s - self.start_s

    @property
    def key(self) -> tuple[int, int] | None:
        """Flow index and signature, where run.json knows them."""
        return None if self.flow is None or self.signature is None else (self.flow, self.signature)


@dataclass(frozen=True)
class Run:
    """A run directory, parsed.

    ``bottleneck`` is the link that is looked at: the first one, or that of `at`.
    """

    path: Path
    status: str
    reason: str | None
    profile: TargetProfile
    links: tuple[LinkRecord, ...]
    bottleneck: LinkRecord
    flows: tuple[FlowSpec, ...]
    clock_origin_ns: int | None
    raw: dict[str, Any] = field(repr=False)
    events: tuple[EventRecord, ...] = ()
    shared_hosts: tuple[SharedHost, ...] = ()
    undelivered: tuple[UndeliveredFlows, ...] = ()
    # By number of the flow; each link's view has the same.
    _said: dict[int, HostRecord] = field(default_factory=dict, repr=False, compare=False)

    @property
    def flow_names(self) -> list[str]:
        """What each flow is called, everywhere."""
        return [flow.name for flow in self.flows]

    @property
    def views(self) -> tuple[Run, ...]:
        """The run at each link that has a rate or that data cross, see `at`."""
        crossed = {name for flow in self.flows for name in flow.links}
        shown = [link for link in self.links if link.rate_bps is not None or link.name in crossed]
        return tuple(self.at(link) for link in shown or self.links[:1])

    def at(self, link: LinkRecord) -> Run:
        """The run as one link sees it, with the flows whose data cross it, then those whose acknowledgements do."""
        data = (flow for flow in self.flows if link.name in flow.links)
        acks = (_turned(flow) for flow in self.flows if link.name in flow.ack_links)
        return replace(self, bottleneck=link, flows=(*data, *acks))

    @property
    def data_flows(self) -> int:
        """How many of the flows are looked at as data; the others, behind them, as acknowledgements."""
        return sum(flow.packets == "data" for flow in self.flows)

    @cached_property
    def host_records(self) -> list[HostRecord]:
        """What each flow's sender says."""
        for flow in self.flows:
            if flow.number not in self._said:
                self._said[flow.number] = read_host_record(self.path, flow.record, flow.start_s)
        return [self._said[flow.number] for flow in self.flows]

    @property
    def telemetry_files(self) -> list[Path]:
        """Report files in the order in which they were written."""
        return sorted((self.path / TELEMETRY).glob(REPORT_FILES))

    @property
    def depth_unit_bytes(self) -> float:
        """Bytes of frames in a unit of depth; packets, which have no fixed size, are taken for full-size frames."""
        unit, overhead = self.profile.depth_unit_bytes, self.profile.depth_overhead_bytes
        frame = self.bottleneck.mtu_frame_bytes
        if unit is None:
            return frame
        return unit if overhead is None else frame / -(-(frame + overhead) // unit)

    @property
    def modelled_hosts(self) -> Mapping[str, object]:
        """What is modelled of hosts and their NICs; empty where they are real ones."""
        guest = self.raw.get("virtual_time")
        hosts = guest.get("hosts") if isinstance(guest, dict) else None
        return hosts if isinstance(hosts, dict) else {}

    @property
    def host_jitter_s(self) -> float | None:
        """The most that a sender takes for a frame, in seconds; None where that is not modelled."""
        by_port = self.modelled_hosts.get("jitter_ns")
        known = [one for one in by_port.values() if isinstance(one, int)] if isinstance(by_port, dict) else []
        return max(known) / NANOSECONDS if known else None

    @property
    def base_rtts_s(self) -> dict[float, list[str]]:
        """RTTs without queue in seconds, shortest first, each with the groups that have it."""
        link = self.bottleneck.rtt_s
        found: dict[float, dict[str, None]] = {}
        for flow in self.flows:
            rtt_s = link if flow.rtt_s is None else flow.rtt_s
            if rtt_s is not None:
                found.setdefault(rtt_s, {})[flow.group] = None
        if not found and link is not None:
            return {link: []}
        return {rtt_s: list(found[rtt_s]) for rtt_s in sorted(found)}

    @property
    def planned_end_s(self) -> float | None:
        """Latest end that the experiment states, in seconds from its origin; None if no flow has a duration."""
        ends = [flow.start_s + flow.duration_s for flow in self.flows if flow.duration_s is not None]
        return max(ends) if ends else None


def _whole(directory: Path) -> None:
    """Refuse what a run never holds."""
    only_files(directory)
    for path in directory.rglob("*"):
        if path.suffix and path.is_dir():
            raise AnalysisError(f"{path}: is a directory, not a file")


def _turned(flow: FlowSpec) -> FlowSpec:
    """A flow's acknowledgements."""
    ends = {"src": flow.dst, "dst": flow.src, "src_port": flow.dst_port, "dst_port": flow.src_port}
    return flow.model_copy(update=ends | {"packets": "acks", "size_bytes": None})


def _flow(number: int, name: str, flow: FlowRecord) -> FlowSpec:
    own = {"number": number, "name": name, "group": group_of(flow), "start_s": flow.start_s or 0.0}
    return FlowSpec.model_validate(dict(flow) | own)


def read_run(run_dir: Run | Path | str) -> Run:
    """Parse `run_dir`/run.json; raise AnalysisError that names file and fields if it is not as its model says.

    A run that was read already is given back.
    """
    if isinstance(run_dir, Run):
        return run_dir
    run_dir = Path(run_dir)
    _whole(run_dir)
    path = run_dir / RUN
    if not path.exists() and (run_dir / SWEEP).exists():
        runs = sorted(found.parent.name for found in run_dir.glob(f"*/{RUN}"))
        such = f", such as '{runs[0]}'" if runs else ""
        raise AnalysisError(
            f"{run_dir}: holds a sweep, not one run; allowed: the directory of one{such}, "
            "or load() for the table of all"
        )
    raw = read_json(run_dir, RUN)
    try:
        record = RunRecord.model_validate(raw)
    except ValidationError as error:
        raise AnalysisError("\n".join(f"{path}: {problem}" for problem in problems(error, RunRecord))) from None
    try:
        names = recorded_names(record.flows)
    except ValueError as error:
        raise AnalysisError(f"{path}: flows: {error}; allowed: one name per flow") from None
    return Run(
        path=run_dir,
        status=record.status,
        reason=record.reason or None,
        profile=record.target_profile,
        links=record.links,
        bottleneck=record.links[0],
        flows=tuple(_flow(number, names[number], flow) for number, flow in enumerate(record.flows)),
        clock_origin_ns=record.clock_origin_ns,
        raw=record.as_json(),
        events=record.events,
        shared_hosts=record.shared_hosts,
        undelivered=record.undelivered,
    )
