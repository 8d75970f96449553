# SPDX-License-Identifier: Apache-2.0
"""run.json: what a run was, and what was measured of it beside its telemetry; the model of its writer and its reader.

Fields that are not named here are kept: readings of the switch, what newer versions add.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    StrictInt,
    StrictStr,
    model_validator,
)

from narrows_formats.target_profile import TargetProfile
from narrows_formats.validation import refuse

Status = Literal["complete", "partial", "failed"]
FULL_FRAME_BYTES = 1514  # Ethernet, without FCS


# Whole numbers are written as such.
_as_it_is = PlainSerializer(lambda value: value, return_type=Any)


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise refuse("is not a number of 0 or more", "a number of 0 or more")
    return value


def _positive(value: object) -> float:
    number = _number(value)
    if number == 0:
        raise refuse("is not more than 0", "a number above 0")
    return number


Number = Annotated[float, PlainValidator(_number), _as_it_is]
Positive = Annotated[float, PlainValidator(_positive), _as_it_is]
Text = Annotated[StrictStr, Field(min_length=1)]
Whole = Annotated[StrictInt, Field(ge=0)]


class _Record(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)


class BottleneckRecord(_Record):
    """The link under test: rate in L2 bit/s, buffer and BDP in bytes, base RTT in seconds; None where not known."""

    index: Whole = 0
    rate_bps: Positive | None = None
    rate_layer: str | None = None
    rate_packets_s: Number | None = None
    written_rate_bps: Positive | None = None
    written_rate_layer: str | None = None
    buffer_bytes: Number | None = None
    buffer_packets: Number | None = None
    rtt_s: Number | None = None
    bdp_bytes: Number | None = None
    mtu_frame_bytes: Annotated[Whole, BeforeValidator(lambda value: value or FULL_FRAME_BYTES)] = FULL_FRAME_BYTES
    loss: Annotated[Number, BeforeValidator(lambda value: value or 0.0)] = 0.0
    ecn_threshold_bytes: Number | None = None

    @model_validator(mode="before")
    @classmethod
    def _bdp(cls, data: Any) -> Any:
        """Rate times RTT, where it is not given."""
        if isinstance(data, dict) and not data.get("bdp_bytes"):
            rate, rtt = data.get("rate_bps"), data.get("rtt_s")
            if isinstance(rate, int | float) and isinstance(rtt, int | float):
                return {**data, "bdp_bytes": rate * rtt / 8 or None}
            return {**data, "bdp_bytes": None}
        return data


class FlowRecord(_Record):
    """One TCP connection; times in seconds from the experiment's start. ``iperf3`` is a path in the run's directory."""

    name: str | None = None
    group: Text | None = None
    cca: Text | None = None
    src: Text
    dst: Text
    src_port: Whole | None = None
    dst_port: Whole | None = None
    connection: Whole | None = None
    start_s: Number | None = None
    duration_s: Number | None = None
    size_bytes: Whole | None = None
    rtt_s: Number | None = None
    started_s: float | None = None
    ended_s: float | None = None
    bytes_sent: Whole | None = None
    iperf3: Text | None = None
    # Flow index and signature, where they are known (captures).
    flow: Whole | None = None
    signature: Whole | None = None


class RunRecord(_Record):
    """The whole file. ``clock_origin_ns`` is the switch's time at the experiment's start."""

    narrows_version: str | None = None
    name: str | None = None
    started: str | None = None
    ended: str | None = None
    status: Status = "partial"
    reason: str | None = None
    source: str | None = None
    seed: int | None = None
    target_profile: TargetProfile
    host: dict[str, Any] | None = None
    switch: dict[str, Any] | None = None
    bottleneck: BottleneckRecord
    telemetry: dict[str, Any] | None = None
    clock_origin_ns: StrictInt | None = None
    clock_origin_source: str | None = None
    flows: Annotated[tuple[FlowRecord, ...], BeforeValidator(lambda value: [] if value is None else value)] = ()

    def as_json(self) -> dict[str, Any]:
        """What is written: the fields that were given."""
        return self.model_dump(mode="json", exclude_unset=True)
