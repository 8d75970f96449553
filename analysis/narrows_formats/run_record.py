# SPDX-License-Identifier: Apache-2.0
"""run.json: what a run was, and what was measured of it beside its telemetry; the model of its writer and its reader.

Fields that are not named here are kept: readings of the switch, what newer versions add.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from itertools import zip_longest
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

from narrows_formats.link_names import ONLY_LINK
from narrows_formats.schedules import DelaySteps, Opportunities, RateSchedule, RateSteps
from narrows_formats.software_timing import AppliedSteps, AppliedUpdates
from narrows_formats.target_profile import TargetProfile
from narrows_formats.units import FULL_FRAME_BYTES
from narrows_formats.validation import refuse

Status = Literal["complete", "partial", "failed"]
TimedBy = Literal["schedule", "software", "host"]


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
    model_config = ConfigDict(extra="allow", frozen=True, use_attribute_docstrings=True)


# Kinds of queue management with a queue for each flow.
FAIR = ("fq", "fq_codel")


class PolicerRecord(_Record):
    """Token buckets: rates in L2 bit/s, bursts in bytes; None where there is no second one. With `marks`, what exceeds
    them is marked where it is ECN-capable."""

    rate_bps: Positive
    burst_bytes: Positive
    peak_rate_bps: Positive | None = None
    peak_burst_bytes: Positive | None = None
    marks: bool = False


class FramingRecord(_Record):
    """Bytes of a frame on a medium."""

    overhead: int = 0
    mpu: Whole = 0
    linklayer: Literal["ethernet", "atm", "ptm"] = "ethernet"


class AggregationRecord(_Record):
    """The limits of a burst, None where there is none, and its overhead."""

    packets: Positive | None = None
    bytes: Positive | None = None
    overhead_ns: Whole = 0


class RateStepsRecord(_Record):
    """`rate_bps` from each of `start_ns` on."""

    start_ns: tuple[Whole, ...]
    rate_bps: tuple[Whole, ...]
    period_ns: Whole | None

    @property
    def schedule(self) -> RateSteps:
        """The rate as it varies."""
        return RateSteps(tuple(zip(self.start_ns, self.rate_bps, strict=True)), self.period_ns)


class OpportunitiesRecord(_Record):
    """Mahimahi's delivery opportunities; `period_ns` is null if they do not begin again."""

    opportunities_ns: tuple[Whole, ...]
    period_ns: Whole | None

    @property
    def schedule(self) -> Opportunities:
        """The rate as it varies."""
        return Opportunities(self.opportunities_ns, self.period_ns is not None)


class GilbertElliottRecord(_Record):
    """Probabilities that the good state turns bad, that the bad one turns good, and that a packet is lost in each."""

    p: Number
    r: Positive
    loss_in_good: Number
    loss_in_bad: Number


class LossPatternRecord(_Record):
    """First and last positions of the packets that are lost among so many, over and over if it is a `loop`."""

    runs: tuple[tuple[Whole, Whole], ...]
    packets: Whole
    loop: bool = True


class JitterRecord(_Record):
    """Exactly one distribution: see `narrows.experiment.impairments.Jitter`."""

    uniform_ns: Whole | None = None
    normal_ns: Whole | None = None
    pareto: tuple[Whole, Number] | None = None
    samples_ns: tuple[StrictInt, ...] = ()
    reorder: bool = False


class LinkRecord(_Record):
    """A direction of a link: rate in L2 bit/s, buffer and BDP in bytes, times in seconds; None where not known."""

    name: Text = ONLY_LINK
    """What the link is called everywhere; `.reverse` behind it names the opposite direction."""
    direction: Literal["forward", "reverse"] = "forward"
    """Which direction of the link it is."""
    index: Whole = 0
    """The bottleneck, as reports name it."""
    delay_s: Number = 0.0
    """One-way delay behind the queue."""
    rate_bps: Positive | None = None
    """L2 bit/s that was set: of Ethernet frames without preamble, gap and checksum; null: unlimited, only reported."""
    rate_schedule: RateStepsRecord | OpportunitiesRecord | None = None
    """A rate that varies, by itself or by a driver, from the experiment's start on: `rate_bps` from each of `start_ns`
    on, or `opportunities_ns`; `period_ns` after the start it begins again. `rate_bps` of the link is then what its BDP
    is of."""
    rate_steps_applied: AppliedSteps | None = None
    """Where steps are timed by software (Tofino): each change that was due at `planned_ns` from the start on was made
    between `begun_ns` and `achieved_ns`, when it was read back, and is `rate_bps`; `largest_error_ns` is how late the
    latest was achieved, `finest_step_ns` the shortest time between changes that was allowed. null: exact, constant."""
    queue_management: Mapping[str, object] | None = None
    """How waiting packets are managed: `kind`, and what it was set to, times in nanoseconds; null: not at all."""
    queue_updates_applied: AppliedUpdates | None = None
    """Where software keeps the probability of `queue_management` up to date (PI2 and PIE on Tofino), each `period_ns`:
    how many updates were `made`, how many `missed` as the one before came too late, `largest_error_ns`, how late the
    latest was, and the `largest_probability` that a packet was picked with. null: the program does it itself, or
    nothing."""
    rate_layer: str | None = None
    """The layer of `rate_bps`, always l2."""
    rate_packets_s: Number | None = None
    """Full-size frames a second, where the target counts those (BMv2)."""
    written_rate_bps: Positive | None = None
    """Bit/s as the experiment has it."""
    written_rate_layer: str | None = None
    """The layer of `written_rate_bps`."""
    buffer_bytes: Number | None = None
    """Depth of the queue that was set; null: not known, or packets are counted."""
    written_buffer: Text | None = None
    """The same as the experiment has it, where that is a time or a BDP at `rate_bps` and the rate varies: the bytes do
    not."""
    buffer_packets: Number | None = None
    """The same in packets of any size, where these are counted: as the experiment has it, or by BMv2, which counts
    nothing else; null: bytes are."""
    later_buffers_bytes: tuple[Number | None, ...] = ()
    """Depths that were set later, by events or by a driver, in order of time; null: in packets."""
    later_buffers_packets: tuple[Number | None, ...] = ()
    """The same in packets; null: in bytes."""
    rtt_s: Number | None = None
    """What the link adds to the base round-trip time of flows without one of their own."""
    bdp_bytes: Number | None = None
    """Bandwidth-delay product."""
    mtu_frame_bytes: Annotated[Whole, BeforeValidator(lambda value: value or FULL_FRAME_BYTES)] = FULL_FRAME_BYTES
    """A full-size Ethernet frame."""
    loss: Annotated[Number, BeforeValidator(lambda value: value or 0.0)] = 0.0
    """Part of the packets that loss emulation in front of the queue takes, on average."""
    loss_model: GilbertElliottRecord | LossPatternRecord | None = None
    """How they depend on each other: `p`, `r`, `loss_in_good` and `loss_in_bad`, or `runs` of lost positions among so
    many `packets`; null: not at all."""
    burst_bytes: Whole = 0
    """What the link's token bucket holds; 0: it has none."""
    framing: FramingRecord | None = None
    """What a frame takes on the medium, whose bytes `rate_bps` counts: `overhead` more than as an Ethernet frame, `mpu`
    at least, divided as `linklayer` does; null: what it has."""
    ack_filter: Text | None = None
    """Whether acknowledgements that wait go when a later one makes them redundant: `conservative` (two stay) or
    `aggressive`; null: all stay."""
    aggregation: AggregationRecord | None = None
    """Bursts in which the link carries what waits: at most so many `packets` or `bytes`, null: any number, and
    `overhead_ns` for each; null: packet by packet, or those of `delay_steps`."""
    policer: PolicerRecord | None = None
    """Token buckets in front of the queue: `rate_bps` (L2) and `burst_bytes`, and `peak_rate_bps` and
    `peak_burst_bytes` of a second one, or null, and whether it `marks`; null: there is none."""
    delay_steps: DelaySteps | None = None
    """A delay that varies: `steps` of nanoseconds from the experiment's start and the delay from then on, and
    `jitters`, by which packets differ in each; null: it does not."""
    jitter: JitterRecord | None = None
    """What is added to each packet's delay, in nanoseconds."""
    duplication: Number = 0.0
    """Part of the packets that leave the link twice."""
    ecn_threshold_bytes: Number | None = None
    """Depth from which packets are marked with CE; null: no marking, or by a number of packets."""
    ecn_threshold_packets: Number | None = None
    """The same in packets of any size; null: no marking, or by bytes."""
    drops_recorded: bool = False
    """telemetry/drops.parquet has each packet that was dropped here, as many as the switch has counted. Otherwise a
    drop shows in the flow's next report only."""

    scheduling: Literal["strict", "deficit"] | None = None
    """How the queues of a user's program share the link: by priority, or by deficit round robin; null: the link
    has Narrows' own program."""

    @property
    def of_user(self) -> bool:
        """Whether a user's program is the link, so that it made the `aqm_drops`."""
        return self.scheduling is not None

    @cached_property
    def schedule(self) -> RateSchedule | None:
        """The rate where it varies."""
        return None if self.rate_schedule is None else self.rate_schedule.schedule

    @property
    def full_buffer_bytes(self) -> float | None:
        """Bytes of full-size frames that the buffer holds; None: not known."""
        return self._of_full_frames(self.buffer_bytes, self.buffer_packets)

    @property
    def later_buffers(self) -> list[tuple[Number | None, Number | None]]:
        """Depths that were set later, each in bytes or in packets, the shallowest first."""
        pairs = list(zip_longest(self.later_buffers_bytes, self.later_buffers_packets))
        return sorted(pairs, key=lambda pair: self._of_full_frames(*pair) or 0)

    @property
    def deepest_bytes(self) -> float | None:
        """The most that may ever have waited: shorter packets, where packets are counted, are fewer bytes."""
        if self.full_buffer_bytes is None:
            return None
        return max(self.full_buffer_bytes, *(self._of_full_frames(*pair) or 0 for pair in self.later_buffers), 0)

    def _of_full_frames(self, size_bytes: float | None, packets: float | None) -> float | None:
        return size_bytes if packets is None else packets * self.mtu_frame_bytes

    @property
    def queue_kind(self) -> str | None:
        """How waiting packets are managed, by its name in experiments; None: not at all."""
        return None if self.queue_management is None else str(self.queue_management.get("kind"))

    @property
    def pushes_out(self) -> bool:
        """Whether a packet that finds no room drops others, and not itself (docs/queues.md)."""
        return self.queue_kind in ("head-drop", *FAIR)

    @property
    def has_several_queues(self) -> bool:
        """Whether packets of one queue may wait while others come later and leave earlier."""
        return self.scheduling is not None or self.queue_kind in ("dualpi2", *FAIR)

    @model_validator(mode="before")
    @classmethod
    def _counted_in_packets(cls, data: Any) -> Any:
        """Before version 0.3.0, a buffer in packets had bytes as well: those of full-size frames."""
        if isinstance(data, dict) and data.get("buffer_packets") is not None:
            return {**data, "buffer_bytes": None}
        return data

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


class ProgramRecord(_Record):
    """What became of a program: see `narrows.onhost.program.Outcome`."""

    command: tuple[str, ...] = ()
    exit_code: int | None = None
    signal: str | None = None
    stopped: bool = False
    killed: bool = False
    left_processes: Whole = 0
    cpu_s: Number | None = None
    stdout_bytes: Whole | None = None
    stderr_bytes: Whole | None = None


class ApplicationRecord(_Record):
    """Programs that made a flow."""

    user: Whole | None = None
    group: Whole | None = None
    client: ProgramRecord | None = None
    server: ProgramRecord | None = None
    notes: tuple[str, ...] = ()
    files: Text | None = None


class FlowRecord(_Record):
    """One connection; times in seconds from the experiment's start. ``record`` is a path in the run's directory."""

    name: str | None = None
    """What the flow is called everywhere; of several connections of one flow, each has its own: `web-1.3`."""
    group: Text | None = None
    """Its group in the experiment's flows; of a capture, its source address."""
    cca: Text | None = None
    """Congestion control; null for captures, and for what has none."""
    protocol: Whole | None = None
    """IP protocol: 6, TCP, or 17, UDP; null: identified by addresses and ports alone (before version 0.3.0)."""
    src: Text
    """IP address of the sender."""
    dst: Text
    """IP address of the receiver."""
    src_port: Whole | None = None
    """TCP or UDP port of the sender."""
    dst_port: Whole | None = None
    """TCP or UDP port of the receiver."""
    by_addresses: bool = False
    """It is all packets between its two addresses, whatever protocol and ports: what programs send. Of the hosts of a
    shell that reaches another network the address at the other end is 0.0.0.0: any."""
    application: ApplicationRecord | None = None
    """Programs that made it: `user` and `group` as which they ran; of `client` and `server` the command, exit code or
    signal, processor time (`cpu_s`), bytes of both outputs, processes left behind; `notes`; `files` has the outputs."""
    probe: bool = False
    """It measures the round-trip time, and does not compete with flows."""
    links: tuple[Text, ...] = ()
    """Links that its data cross, in order."""
    ack_links: tuple[Text, ...] = ()
    """Links that its acknowledgements cross, in order."""
    connection: Whole | None = None
    """Which connection of a repeated flow it is, from 0."""
    start_s: Number | None = None
    """When it was to start, from the start of the experiment."""
    duration_s: Number | None = None
    """How long it was to send; null for flows of a set size."""
    size_bytes: Whole | None = None
    """Payload it was to carry; null for bulk flows."""
    rtt_s: Number | None = None
    """Its base round-trip time."""
    started_s: float | None = None
    """When the sender began."""
    ended_s: float | None = None
    """When the sender ended."""
    bytes_sent: Whole | None = None
    """Payload that the sender handed to its socket."""
    record: Text | None = None
    """What its sender says of it, a path in the run's directory; null: nothing more than this."""
    flow: Whole | None = None
    """Flow index in reports, of captures."""
    signature: Whole | None = None
    """Signature in reports, of captures."""

    @model_validator(mode="before")
    @classmethod
    def _of_iperf3(cls, data: Any) -> Any:
        """Before version 0.3.0 the record was iperf3's result."""
        if not isinstance(data, dict) or "iperf3" not in data:
            return data
        return {"record": data["iperf3"], **{name: value for name, value in data.items() if name != "iperf3"}}


class EventRecord(_Record):
    """Something that was asked for at a time; nanoseconds from the experiment's start."""

    what: Text
    """What it was, in words."""
    at_ns: Whole | None
    """When it was to happen; of a link that a driver changed, when it asked for that; of an event with a condition, the
    reading at which that held, null: it has not."""
    achieved_ns: StrictInt | None = None
    """When it did: as the switch or the flow's host has it; null: not before the end of the run."""
    timed_by: TimedBy
    """`schedule`: the switch had it before, and is exact. `software`: asked for at its time; in virtual time the switch
    stands still meanwhile. `host`: a flow's host started or stopped it, or its application changed."""
    when: Text | None = None
    """Its condition; null: it has a time."""
    asked_by: Literal["experiment", "driver"] = "experiment"
    """`experiment`: its `events`. `driver`: the program that drove the run (`narrows.api.testbed`)."""


class SharedHost(_Record):
    """A host that sent several flows: of its ``packets`` so many were ``held``, as its link was busy with others."""

    host: Text
    """Its name in the plan."""
    flows: Whole
    """How many it sent."""
    packets: Whole
    """How many packets it sent, of all flows."""
    held: Whole
    """How many of them waited for its link."""
    longest_held_s: Number
    """The longest that one waited, in seconds."""


class UndeliveredFlows(_Record):
    """Flows between two hosts, through a user's program, of which nothing was delivered."""

    flows: tuple[Text, ...]
    """Their names."""
    found: tuple[Text, ...]
    """What became of their packets, in words: of the whole run, as the switch and the kernels of hosts have counted."""


class RunRecord(_Record):
    """The whole file. ``clock_origin_ns`` is the switch's time at the experiment's start."""

    narrows_version: str | None = None
    """What made the run."""
    commit: str | None = None
    """The commit of the checkout that made it, with `-dirty-` and a digest of the changes if files of it were changed;
    null if it was installed."""
    name: str | None = None
    """Name of the experiment."""
    started: str | None = None
    """When the measurement began, UTC."""
    ended: str | None = None
    """When it ended, UTC."""
    status: Status = "partial"
    """complete, partial (cut short; what there is can be used) or failed."""
    reason: str | None = None
    """Why it is not complete."""
    source: str | None = None
    """The capture or telemetry directory that the run was made from; null for a run."""
    seed: int | None = None
    """Of loss emulation and workloads."""
    target_profile: TargetProfile
    """Units of the reports and abilities of the target; the numbers in reports are in these units."""
    host: Mapping[str, object] | None = None
    """The machine: kernel, processor, tools; offloads, sysctls, RPS, counters of TCP and UDP of hosts, and of packets
    that their kernels did not take (`testbed`)."""
    programs: dict[str, str] | None = None
    """SHA-256 of each program and file that shaped the run, when it began: the softswitch, the collector, the compiled
    P4 program, in virtual time the kernel's image, users' programs and the files that their command lines name, but for
    those that were written meanwhile."""
    switch: Mapping[str, object] | None = None
    """SHA-256 of the P4 programs that ran, a user's with its first link in front where there are several, and notes of
    the target."""
    links: Annotated[tuple[LinkRecord, ...], Field(min_length=1)]
    """Every direction of a link that was reported, see below."""
    shared_hosts: tuple[SharedHost, ...] = ()
    """Hosts that send several flows and whose link, as modelled in virtual time, held some of their packets."""
    undelivered: tuple[UndeliveredFlows, ...] = ()
    """Flows through users' programs of which nothing was delivered, by pairs of hosts, and what became of them."""
    telemetry: Mapping[str, object] | None = None
    """`sample`: N, where one report is made for each N departures."""
    clock_origin_ns: StrictInt | None = None
    """The switch's time at the experiment's start: t = 0 of all times in seconds."""
    clock_origin_source: str | None = None
    """What that is known by: the switch clock, or the first report."""
    clock_origin_unix_ns: StrictInt | None = None
    """The same in ns since 1970, by the controlling machine; in virtual time by the hosts."""
    events: tuple[EventRecord, ...] = ()
    """What the experiment's `events`, and what a driver asked for, came to, in order of time, see below."""
    flows: Annotated[tuple[FlowRecord, ...], BeforeValidator(lambda value: [] if value is None else value)] = ()
    """One entry for each TCP connection, see below. Its position is the flow's number in all tables."""

    @model_validator(mode="before")
    @classmethod
    def _of_one_link(cls, data: Any) -> Any:
        """Before version 0.3.0 a run had one link, `bottleneck`, which all of its flows crossed."""
        if not isinstance(data, dict) or "bottleneck" not in data:
            return data
        data = dict(data)
        data["links"] = [data.pop("bottleneck")]
        if isinstance(data.get("identity"), dict):
            data["drop_cross_check"] = {ONLY_LINK: data.pop("identity")}
        manager = data.get("traffic_manager")
        if isinstance(manager, dict) and isinstance(manager.get("flow_drops"), list):
            data["traffic_manager"] = {**manager, "flow_drops": {ONLY_LINK: manager["flow_drops"]}}
        if isinstance(data.get("flows"), list):
            data["flows"] = [
                {"links": [ONLY_LINK], **flow} if isinstance(flow, dict) else flow for flow in data["flows"]
            ]
        return data

    def as_json(self) -> dict[str, object]:
        """What is written: the fields that were given."""
        return self.model_dump(mode="json", exclude_unset=True)
