# SPDX-License-Identifier: Apache-2.0
"""What a run directory says about itself: run.json, hosts/*.json and the flow keys, checked and typed."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from narrows_formats.files import REPORT_FILES, RUN, TELEMETRY
from narrows_formats.flow_names import flow_names
from narrows_formats.run_record import BottleneckRecord, FlowRecord, Number, RunRecord
from narrows_formats.target_profile import TargetProfile
from narrows_formats.validation import problems
from pydantic import ValidationError

from narrows_analysis.errors import AnalysisError
from narrows_analysis.records.iperf3 import HostRecord, read_host_record
from narrows_analysis.records.json_files import read_json


class FlowSpec(FlowRecord):
    """One flow of the experiment as run.json lists it, with its number there, a group and a start."""

    number: int
    group: str
    start_s: Number

    @property
    def key(self) -> tuple[int, int] | None:
        """Flow index and signature, where run.json knows them."""
        return None if self.flow is None or self.signature is None else (self.flow, self.signature)


@dataclass(frozen=True)
class Run:
    """A run directory, parsed."""

    path: Path
    status: str
    reason: str | None
    profile: TargetProfile
    bottleneck: BottleneckRecord
    flows: tuple[FlowSpec, ...]
    clock_origin_ns: int | None
    raw: dict[str, Any] = field(repr=False)

    @property
    def flow_names(self) -> list[str]:
        """What each flow is called, everywhere."""
        return flow_names([flow.group for flow in self.flows])

    @cached_property
    def host_records(self) -> list[HostRecord]:
        """What iperf3 said of each flow."""
        return [read_host_record(self.path, flow.iperf3, flow.start_s) for flow in self.flows]

    @property
    def telemetry_files(self) -> list[Path]:
        """Report files in the order in which they were written."""
        return sorted((self.path / TELEMETRY).glob(REPORT_FILES))

    @property
    def depth_unit_bytes(self) -> int:
        """Bytes of a unit of depth; a packet, which has no fixed size, is taken for a full-size frame."""
        return self.profile.depth_unit_bytes or self.bottleneck.mtu_frame_bytes

    @property
    def planned_end_s(self) -> float | None:
        """Latest end that the experiment states, in seconds from its origin; None if no flow has a duration."""
        ends = [flow.start_s + flow.duration_s for flow in self.flows if flow.duration_s is not None]
        return max(ends) if ends else None


def _only_files(directory: Path) -> None:
    """Refuse what a run never holds: a link may lead to what only the reader may read, a device has no end."""
    for path in directory.rglob("*"):
        if path.suffix and path.is_dir():
            raise AnalysisError(f"{path}: is a directory, not a file")
        if not path.is_dir() and (path.is_symlink() or not path.is_file()):
            raise AnalysisError(f"{path}: is a link or a device; a run directory holds files only")


def _flow(number: int, flow: FlowRecord) -> FlowSpec:
    own = {"number": number, "group": flow.group or flow.cca or "flows", "start_s": flow.start_s or 0.0}
    return FlowSpec.model_validate(dict(flow) | own)


def read_run(run_dir: Run | Path | str) -> Run:
    """Parse `run_dir`/run.json; raise AnalysisError that names file and fields if it is not as its model says.

    A run that was read already is given back.
    """
    if isinstance(run_dir, Run):
        return run_dir
    run_dir = Path(run_dir)
    _only_files(run_dir)
    path = run_dir / RUN
    raw = read_json(path)
    try:
        record = RunRecord.model_validate(raw)
    except ValidationError as error:
        raise AnalysisError("\n".join(f"{path}: {problem}" for problem in problems(error, RunRecord))) from None
    return Run(
        path=run_dir,
        status=record.status,
        reason=record.reason or None,
        profile=record.target_profile,
        bottleneck=record.bottleneck,
        flows=tuple(_flow(number, flow) for number, flow in enumerate(record.flows)),
        clock_origin_ns=record.clock_origin_ns,
        raw=raw,
    )
