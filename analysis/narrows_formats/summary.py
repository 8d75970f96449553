# SPDX-License-Identifier: Apache-2.0
"""summary.json: the numbers of a run, as its writer and its readers see them; docs/metrics.md defines each.

SI units, ratios in 0..1; None where a number cannot be given.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any, Literal, NotRequired

from pydantic import ConfigDict, TypeAdapter, with_config
from typing_extensions import TypedDict

from narrows_formats.kinds.datagrams import DatagramSummary
from narrows_formats.kinds.requests import ResponseSummary
from narrows_formats.kinds.video import VideoSummary

# To be raised whenever a field is added to summary.json, renamed or given another meaning.
FORMAT = 12

# Traffic that is not the experiment's is shown beside its flows from this part of the goodput on: below are iperf3's
# control connections.
_OTHER_SHOWN = 0.001

_exactly = with_config(ConfigDict(extra="forbid"))


@_exactly
class Distribution(TypedDict):
    """Of a quantity over the packets that left."""

    mean: float | None
    p50: float | None
    p99: float | None
    max: float | None


@_exactly
class QueueSummary(TypedDict):
    """One of a link's queues, by the packets that left it. What is dropped has no record of its queue.

    ``queue_bytes`` is what they left behind in it, of packets that left later; known where each has a report.
    """

    name: str
    departures: int
    bytes: int
    ce_marks: int
    queue_bytes: Distribution
    queue_delay_s: Distribution


@_exactly
class LinkErrors(TypedDict):
    """Standard errors of what is estimated from a sample of a link's packets, in the units of the estimates."""

    utilization: float | None
    queue_bytes_mean: float | None
    queue_delay_mean_s: float | None
    ce_marks: float | None


@_exactly
class FlowErrors(TypedDict):
    """Standard errors of what is estimated from a sample of a flow's packets, in the units of the estimates."""

    goodput_bps: float | None
    throughput_bps: float | None
    ce_marks: float | None


@_exactly
class GroupErrors(TypedDict):
    """Standard error of what is estimated from samples of a group's packets, in the unit of the estimate."""

    goodput_bps: float | None


@_exactly
class BottleneckSummary(TypedDict):
    """The link and its queue; the reasons say why a number is not there.

    ``standard_errors`` is None where every packet is in a report, and nothing is estimated.
    """

    rate_bps: float | None
    rate_mean_bps: float | None
    rate_least_bps: float | None
    rate_most_bps: float | None
    down_s: float | None
    down_reason: str | None
    buffer_bytes: float | None
    buffer_packets: float | None
    utilization: float | None
    loss_ratio: float | None
    total_loss_ratio: float | None
    share_window_s: list[float] | None
    run_window_s: list[float] | None
    other_share: float | None
    other_share_of_run: float | None
    queue_bytes: Distribution
    queue_delay_s: Distribution
    saturated_rate_bps: float | None
    saturated_rate_reason: str | None
    standing_queue_bytes: float | None
    standing_queue_bdp: float | None
    drops: int | None
    probe_drops: int | None
    drops_after_reports: int | None
    aqm_drops: int | None
    policer_drops: int | None
    ack_filter_drops: int | None
    loss_emulation_drops: int | None
    ce_marks: int | None
    queues: list[QueueSummary]
    standard_errors: LinkErrors | None
    sampling_reason: str | None


@_exactly
class FairnessSummary(TypedDict):
    """How the flows share the link while all of them run; the reasons say why a number is not there."""

    jain_index: float | None
    interval_s: float | None
    convergence_s: float | None
    convergence_reason: str | None
    jain_index_steady: float | None
    window_s: list[float] | None
    reason: str | None


@_exactly
class DynamicsSummary(TypedDict):
    """How queue and flows move together."""

    oscillation_period_s: float | None
    oscillation_amplitude_bytes: float | None
    oscillation_correlation: float | None
    oscillation_reason: str | None
    loss_synchronization: float | None
    rate_synchronization: float | None


@_exactly
class LinkFlowSummary(TypedDict):
    """A flow at one link: its data, or its acknowledgements (`packets`)."""

    name: str
    packets: str
    share: float | None
    share_of_run: float | None
    throughput_bps: float | None
    arrivals: int | None
    departures: int | None
    drops: int | None
    loss_ratio: float | None
    aqm_drops: int | None
    policer_drops: int | None
    ack_filter_drops: int | None
    loss_emulation_drops: int | None
    ce_marks: int | None
    queue_delay_mean_s: float | None


@_exactly
class GroupSummary(TypedDict):
    """Flows that the experiment names together; ``standard_errors`` is None where every packet is in a report."""

    name: str
    cca: str | None
    flows: int
    goodput_bps: float | None
    share: float | None
    share_of_run: float | None
    loss_ratio: float | None
    standard_errors: GroupErrors | None


@_exactly
class RttSummary(TypedDict):
    """Round-trip times of a flow in seconds."""

    min: float | None
    mean: float | None


@_exactly
class InflightSummary(TypedDict):
    """Bytes of a flow in flight."""

    mean: float | None
    max: float | None


@_exactly
class ConnectionSummary(TypedDict):
    """One connection of a program, data only; counts are of packets, and null where its flow index is shared.

    ``rtt_s`` and ``inflight_bytes`` are what its sender's socket said, of TCP.
    """

    protocol: int
    src: str
    dst: str
    src_port: int
    dst_port: int
    start_s: float
    end_s: float
    payload_bytes: int
    arrivals: int | None
    departures: int
    drops: int | None
    ce_marks: int | None
    queue_delay_mean_s: float | None
    queue_delay_max_s: float | None
    rtt_s: RttSummary
    inflight_bytes: InflightSummary


@_exactly
class FlowSummary(TypedDict):
    """One flow; ``fct_reason`` says why it has no completion time, ``standard_errors`` how well estimates are known; a
    ``probe`` does not compete.

    ``limited_by`` is the part of its time in which each link of its path was its bottleneck. ``ack_compression`` is
    null where acknowledgements are not reported, or only some of them. ``datagrams`` is null of TCP, ``responses`` of
    all but requests and video, ``video`` of all but that, ``connections`` of all but those and what programs make; they
    are those behind the last link of the path. ``figures`` are there of kinds that have some
    (`narrows_formats.kinds`).
    """

    name: str
    group: str
    cca: str | None
    probe: bool
    src: str
    dst: str
    goodput_bps: float | None
    arrivals: int | None
    departures: int | None
    drops: int | None
    loss_ratio: float | None
    retransmit_ratio: float | None
    rtt_s: RttSummary
    start_s: float | None
    end_s: float | None
    bytes: int | None
    fct_s: float | None
    fct_reason: str | None
    throughput_bps: float | None
    share: float | None
    share_of_run: float | None
    aqm_drops: int | None
    policer_drops: int | None
    ack_filter_drops: int | None
    loss_emulation_drops: int | None
    ce_marks: int | None
    inflight_bytes: InflightSummary
    inflight_source: str | None
    ack_compression: float | None
    host_retransmits: int | None
    rtt_source: str | None
    links: list[str]
    limited_by: dict[str, float]
    datagrams: DatagramSummary | None
    responses: ResponseSummary | None
    video: VideoSummary | None
    figures: NotRequired[dict[str, float | int | None]]
    connections: list[ConnectionSummary] | None
    standard_errors: FlowErrors | None


@_exactly
class TelemetrySummary(TypedDict):
    """Reports used and missing; one report in ``sample`` packets."""

    reports: int
    lost: int
    sample: int | None
    duplicates: int
    late: int


@_exactly
class LinkSummary(BottleneckSummary):
    """A direction of a link, its queue, and the flows that share it."""

    name: str
    direction: Literal["forward", "reverse"]
    fairness: FairnessSummary
    dynamics: DynamicsSummary
    flows: list[LinkFlowSummary]
    telemetry: TelemetrySummary


@_exactly
class WarningSummary(TypedDict):
    """What a reader must know: "error" where a number is withheld or wrong to compare."""

    code: str
    severity: Literal["error", "warning"]
    message: str


@_exactly
class Summary(TypedDict):
    """The whole file.

    `bottleneck`, `fairness` and `dynamics` are those of the link where there is one; with several links they are empty,
    and `links` has them. `share_window_s` and `run_window_s` are begin and end of what shares are of.
    """

    format: int
    status: str
    links: list[LinkSummary]
    bottleneck: BottleneckSummary
    fairness: FairnessSummary
    dynamics: DynamicsSummary
    share_window_s: list[float] | None
    run_window_s: list[float] | None
    groups: list[GroupSummary]
    flows: list[FlowSummary]
    telemetry: TelemetrySummary
    warnings: list[WarningSummary]


def check(data: Any) -> Summary:
    """The data as they are, if they are a summary.

    Raises:
        pydantic.ValidationError: a field is missing, unknown or of the wrong kind.
    """
    _validator().validate_python(data)
    summary: Summary = data
    return summary


# Part of the run from which on the time in which all flows were running says nearly the same as the whole run.
_NEARLY_ALL = 0.9


def is_nearly_the_run(summary: Summary) -> bool:
    """Whether shares are of nearly the whole run, so that they need not be told of both."""
    part, run = summary["share_window_s"], summary["run_window_s"]
    return part is None or run is None or part[1] - part[0] >= _NEARLY_ALL * (run[1] - run[0])


def share_seconds(window_s: Sequence[float]) -> str:
    """Begin and end of a time in seconds, to a thousandth of it."""
    begin, end = window_s
    digits = 3 - math.floor(math.log10(end - begin)) if end > begin else 3
    return " to ".join(f"{round(time_s, digits):.12g}" for time_s in window_s) + " s"


def share_time(summary: Summary) -> str:
    """The time that shares and the goodput of groups are of, in words; empty where there are none."""
    part = summary["share_window_s"]
    if part is None:
        return ""
    when = share_seconds(part)
    if part == summary["run_window_s"]:
        return f"the whole run ({when})"
    return f"the time in which all flows were running ({when})"


@cache
def _validator() -> TypeAdapter[Summary]:
    """Made when it is needed: that takes longer than what it does."""
    return TypeAdapter(Summary)


def shown_other_share(share: float | None) -> float | None:
    """A link's share of traffic that is not the experiment's, where it is enough to be shown; else None."""
    return share if share is not None and share >= _OTHER_SHOWN else None
