# SPDX-License-Identifier: Apache-2.0
"""What a run directory says about itself: run.json, hosts/*.json and the flow keys, checked and typed."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from narrows_formats.files import REPORT_FILES

from narrows_analysis.errors import AnalysisError

DEPTH_LEFT_UNREPORTED = ("tofino", "tofino2")
STATUSES = ("complete", "partial", "failed")


@dataclass(frozen=True)
class TargetProfile:
    """Units of a target's telemetry: seconds a time unit, bytes a depth unit, and the clock's width in bits.

    A unit without a fixed size (packets) is taken for a full-size frame, and `depth_is_estimate` says so.
    """

    name: str
    time_unit_s: float
    depth_unit: str
    depth_unit_bytes: float
    timestamp_bits: int = 48
    depth_is_estimate: bool = False
    # Tofino's mirror header has no room for the depth that a packet leaves behind (docs/limitations.md).
    depth_left_reported: bool = True


@dataclass(frozen=True)
class Bottleneck:
    """The link under test: rate in L2 bit/s, buffer and BDP in bytes, base RTT in seconds; None where not known."""

    index: int
    rate_bps: float | None
    buffer_bytes: float | None
    rtt_s: float | None
    bdp_bytes: float | None
    mtu_frame_bytes: int
    loss: float
    ecn_threshold_bytes: float | None


@dataclass(frozen=True)
class FlowSpec:
    """One flow of the experiment as run.json lists it; times in seconds from the experiment's origin."""

    number: int
    group: str
    cca: str | None
    src: str
    dst: str
    src_port: int | None
    dst_port: int | None
    start_s: float
    duration_s: float | None
    size_bytes: int | None
    rtt_s: float | None
    iperf3: str | None
    # Flow index and signature, where run.json knows them.
    key: tuple[int, int] | None = None


@dataclass(frozen=True)
class Run:
    """A run directory, parsed."""

    path: Path
    status: str
    reason: str | None
    profile: TargetProfile
    bottleneck: Bottleneck
    flows: tuple[FlowSpec, ...]
    clock_origin_ns: int | None
    raw: dict[str, Any] = field(repr=False)

    @property
    def telemetry_files(self) -> list[Path]:
        """Report files in the order in which they were written."""
        return sorted((self.path / "telemetry").glob(REPORT_FILES))

    @property
    def planned_end_s(self) -> float | None:
        """Latest end that the experiment states, in seconds from its origin; None if no flow has a duration."""
        ends = [flow.start_s + flow.duration_s for flow in self.flows if flow.duration_s is not None]
        return max(ends) if ends else None


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object from `path`; raise AnalysisError naming the file if it is missing or is not one."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise AnalysisError(f"{path}: no such file; a run directory holds run.json and telemetry/") from None
    except (OSError, ValueError) as error:
        raise AnalysisError(f"{path}: not readable as JSON: {error}") from None
    if not isinstance(value, dict):
        raise AnalysisError(f"{path}: a JSON object is expected, not {type(value).__name__}")
    return value


class _Section:
    """A JSON object whose fields are read with a check each; errors name file and field."""

    def __init__(self, path: Path, name: str, value: object) -> None:
        if not isinstance(value, dict):
            raise AnalysisError(f"{path}: {name}: a JSON object is expected")
        self._path, self._name, self._value = path, name, value

    def _fail(self, key: str, allowed: str) -> AnalysisError:
        return AnalysisError(f"{self._path}: {self._name}.{key}: {self._value.get(key)!r} is not {allowed}")

    def text(self, key: str) -> str:
        value = self._value.get(key)
        if not isinstance(value, str) or not value:
            raise self._fail(key, "a non-empty string")
        return value

    def optional_text(self, key: str) -> str | None:
        return None if self._value.get(key) is None else self.text(key)

    def number(self, key: str, *, positive: bool = False) -> float:
        value = self._value.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or (value <= 0 if positive else value < 0):
            raise self._fail(key, "a positive number" if positive else "a number of 0 or more")
        return float(value)

    def optional_number(self, key: str, *, positive: bool = False) -> float | None:
        return None if self._value.get(key) is None else self.number(key, positive=positive)

    def optional_integer(self, key: str) -> int | None:
        value = self.optional_number(key)
        return None if value is None else int(value)


def _profile(path: Path, value: object, frame_bytes: int) -> TargetProfile:
    section = _Section(path, "target_profile", value)
    depth_unit_bytes = section.optional_number("depth_unit_bytes", positive=True)
    name = section.text("name")
    return TargetProfile(
        name=name,
        time_unit_s=section.number("time_unit_s", positive=True),
        depth_unit=section.text("depth_unit"),
        depth_unit_bytes=frame_bytes if depth_unit_bytes is None else depth_unit_bytes,
        timestamp_bits=section.optional_integer("timestamp_bits") or 48,
        depth_is_estimate=depth_unit_bytes is None,
        depth_left_reported=name not in DEPTH_LEFT_UNREPORTED,
    )


def _bottleneck(path: Path, value: object) -> Bottleneck:
    section = _Section(path, "bottleneck", value)
    rate_bps = section.optional_number("rate_bps", positive=True)
    rtt_s = section.optional_number("rtt_s")
    bdp_bytes = section.optional_number("bdp_bytes")
    if bdp_bytes is None and rtt_s and rate_bps:
        bdp_bytes = rate_bps * rtt_s / 8
    return Bottleneck(
        index=section.optional_integer("index") or 0,
        rate_bps=rate_bps,
        buffer_bytes=section.optional_number("buffer_bytes"),
        rtt_s=rtt_s,
        bdp_bytes=bdp_bytes or None,
        mtu_frame_bytes=section.optional_integer("mtu_frame_bytes") or 1514,
        loss=section.optional_number("loss") or 0.0,
        ecn_threshold_bytes=section.optional_number("ecn_threshold_bytes"),
    )


def _flow(path: Path, number: int, value: object) -> FlowSpec:
    section = _Section(path, f"flows[{number}]", value)
    cca = section.optional_text("cca")
    index, signature = section.optional_integer("flow"), section.optional_integer("signature")
    return FlowSpec(
        number=number,
        group=section.optional_text("group") or cca or "flows",
        cca=cca,
        src=section.text("src"),
        dst=section.text("dst"),
        src_port=section.optional_integer("src_port"),
        dst_port=section.optional_integer("dst_port"),
        start_s=section.optional_number("start_s") or 0.0,
        duration_s=section.optional_number("duration_s"),
        size_bytes=section.optional_integer("size_bytes"),
        rtt_s=section.optional_number("rtt_s"),
        iperf3=section.optional_text("iperf3"),
        key=None if index is None or signature is None else (index, signature),
    )


def read_run(run_dir: Path) -> Run:
    """Parse `run_dir`/run.json; raise AnalysisError that names file and field if it breaks the contract."""
    path = run_dir / "run.json"
    raw = read_json(path)
    status = raw.get("status", "partial")
    if status not in STATUSES:
        raise AnalysisError(f"{path}: status: {status!r} is not one of {', '.join(STATUSES)}")
    flows = raw.get("flows") or []
    if not isinstance(flows, list):
        raise AnalysisError(f"{path}: flows: a list is expected")
    origin = raw.get("clock_origin_ns")
    bottleneck = _bottleneck(path, raw.get("bottleneck"))
    if origin is not None and (isinstance(origin, bool) or not isinstance(origin, int)):
        raise AnalysisError(f"{path}: clock_origin_ns: {origin!r} is not an integer or null")
    return Run(
        path=run_dir,
        status=status,
        reason=raw.get("reason") or None,
        profile=_profile(path, raw.get("target_profile"), bottleneck.mtu_frame_bytes),
        bottleneck=bottleneck,
        flows=tuple(_flow(path, number, value) for number, value in enumerate(flows)),
        clock_origin_ns=origin,
        raw=raw,
    )
