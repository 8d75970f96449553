from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LinkLayer(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ETHERNET: _ClassVar[LinkLayer]
    ATM: _ClassVar[LinkLayer]
    PTM: _ClassVar[LinkLayer]

class Cause(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TAIL: _ClassVar[Cause]
    DUPLICATE: _ClassVar[Cause]
    MANAGED: _ClassVar[Cause]
    POLICED: _ClassVar[Cause]
    REDUNDANT: _ClassVar[Cause]
ETHERNET: LinkLayer
ATM: LinkLayer
PTM: LinkLayer
TAIL: Cause
DUPLICATE: Cause
MANAGED: Cause
POLICED: Cause
REDUNDANT: Cause

class ConfigureRequest(_message.Message):
    __slots__ = ("port", "queue", "rate_bps", "limit_bytes", "limit_packets", "delay_ns", "election_id", "role", "unlimited", "rate_schedule", "delay_schedule", "variation", "head_drop", "management", "policer", "burst_bytes", "aggregation", "ack_filter", "framing")
    PORT_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    RATE_BPS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    LIMIT_PACKETS_FIELD_NUMBER: _ClassVar[int]
    DELAY_NS_FIELD_NUMBER: _ClassVar[int]
    ELECTION_ID_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    UNLIMITED_FIELD_NUMBER: _ClassVar[int]
    RATE_SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    DELAY_SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    VARIATION_FIELD_NUMBER: _ClassVar[int]
    HEAD_DROP_FIELD_NUMBER: _ClassVar[int]
    MANAGEMENT_FIELD_NUMBER: _ClassVar[int]
    POLICER_FIELD_NUMBER: _ClassVar[int]
    BURST_BYTES_FIELD_NUMBER: _ClassVar[int]
    AGGREGATION_FIELD_NUMBER: _ClassVar[int]
    ACK_FILTER_FIELD_NUMBER: _ClassVar[int]
    FRAMING_FIELD_NUMBER: _ClassVar[int]
    port: int
    queue: int
    rate_bps: int
    limit_bytes: int
    limit_packets: int
    delay_ns: int
    election_id: ElectionId
    role: str
    unlimited: bool
    rate_schedule: RateSchedule
    delay_schedule: DelaySchedule
    variation: Variation
    head_drop: bool
    management: Management
    policer: Policer
    burst_bytes: int
    aggregation: Aggregation
    ack_filter: AckFilter
    framing: Framing
    def __init__(self, port: _Optional[int] = ..., queue: _Optional[int] = ..., rate_bps: _Optional[int] = ..., limit_bytes: _Optional[int] = ..., limit_packets: _Optional[int] = ..., delay_ns: _Optional[int] = ..., election_id: _Optional[_Union[ElectionId, _Mapping]] = ..., role: _Optional[str] = ..., unlimited: _Optional[bool] = ..., rate_schedule: _Optional[_Union[RateSchedule, _Mapping]] = ..., delay_schedule: _Optional[_Union[DelaySchedule, _Mapping]] = ..., variation: _Optional[_Union[Variation, _Mapping]] = ..., head_drop: _Optional[bool] = ..., management: _Optional[_Union[Management, _Mapping]] = ..., policer: _Optional[_Union[Policer, _Mapping]] = ..., burst_bytes: _Optional[int] = ..., aggregation: _Optional[_Union[Aggregation, _Mapping]] = ..., ack_filter: _Optional[_Union[AckFilter, _Mapping]] = ..., framing: _Optional[_Union[Framing, _Mapping]] = ...) -> None: ...

class Framing(_message.Message):
    __slots__ = ("overhead", "mpu", "link_layer")
    OVERHEAD_FIELD_NUMBER: _ClassVar[int]
    MPU_FIELD_NUMBER: _ClassVar[int]
    LINK_LAYER_FIELD_NUMBER: _ClassVar[int]
    overhead: int
    mpu: int
    link_layer: LinkLayer
    def __init__(self, overhead: _Optional[int] = ..., mpu: _Optional[int] = ..., link_layer: _Optional[_Union[LinkLayer, str]] = ...) -> None: ...

class AckFilter(_message.Message):
    __slots__ = ("enabled", "keep")
    ENABLED_FIELD_NUMBER: _ClassVar[int]
    KEEP_FIELD_NUMBER: _ClassVar[int]
    enabled: bool
    keep: int
    def __init__(self, enabled: _Optional[bool] = ..., keep: _Optional[int] = ...) -> None: ...

class Aggregation(_message.Message):
    __slots__ = ("enabled", "packets", "bytes", "overhead_ns")
    ENABLED_FIELD_NUMBER: _ClassVar[int]
    PACKETS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    OVERHEAD_NS_FIELD_NUMBER: _ClassVar[int]
    enabled: bool
    packets: int
    bytes: int
    overhead_ns: int
    def __init__(self, enabled: _Optional[bool] = ..., packets: _Optional[int] = ..., bytes: _Optional[int] = ..., overhead_ns: _Optional[int] = ...) -> None: ...

class Policer(_message.Message):
    __slots__ = ("enabled", "committed", "peak", "marks")
    ENABLED_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_FIELD_NUMBER: _ClassVar[int]
    PEAK_FIELD_NUMBER: _ClassVar[int]
    MARKS_FIELD_NUMBER: _ClassVar[int]
    enabled: bool
    committed: Bucket
    peak: Bucket
    marks: bool
    def __init__(self, enabled: _Optional[bool] = ..., committed: _Optional[_Union[Bucket, _Mapping]] = ..., peak: _Optional[_Union[Bucket, _Mapping]] = ..., marks: _Optional[bool] = ...) -> None: ...

class Bucket(_message.Message):
    __slots__ = ("rate_bps", "burst_bytes")
    RATE_BPS_FIELD_NUMBER: _ClassVar[int]
    BURST_BYTES_FIELD_NUMBER: _ClassVar[int]
    rate_bps: int
    burst_bytes: int
    def __init__(self, rate_bps: _Optional[int] = ..., burst_bytes: _Optional[int] = ...) -> None: ...

class Management(_message.Message):
    __slots__ = ("enabled", "index", "period_ns", "coupled", "fair", "strict", "deficit")
    ENABLED_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    PERIOD_NS_FIELD_NUMBER: _ClassVar[int]
    COUPLED_FIELD_NUMBER: _ClassVar[int]
    FAIR_FIELD_NUMBER: _ClassVar[int]
    STRICT_FIELD_NUMBER: _ClassVar[int]
    DEFICIT_FIELD_NUMBER: _ClassVar[int]
    enabled: bool
    index: int
    period_ns: int
    coupled: Coupled
    fair: Fair
    strict: Strict
    deficit: Deficit
    def __init__(self, enabled: _Optional[bool] = ..., index: _Optional[int] = ..., period_ns: _Optional[int] = ..., coupled: _Optional[_Union[Coupled, _Mapping]] = ..., fair: _Optional[_Union[Fair, _Mapping]] = ..., strict: _Optional[_Union[Strict, _Mapping]] = ..., deficit: _Optional[_Union[Deficit, _Mapping]] = ...) -> None: ...

class Coupled(_message.Message):
    __slots__ = ("classic_percent", "mtu")
    CLASSIC_PERCENT_FIELD_NUMBER: _ClassVar[int]
    MTU_FIELD_NUMBER: _ClassVar[int]
    classic_percent: int
    mtu: int
    def __init__(self, classic_percent: _Optional[int] = ..., mtu: _Optional[int] = ...) -> None: ...

class Strict(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Deficit(_message.Message):
    __slots__ = ("quanta",)
    QUANTA_FIELD_NUMBER: _ClassVar[int]
    quanta: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, quanta: _Optional[_Iterable[int]] = ...) -> None: ...

class Fair(_message.Message):
    __slots__ = ("queues", "quantum", "batch")
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    QUANTUM_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    queues: int
    quantum: int
    batch: int
    def __init__(self, queues: _Optional[int] = ..., quantum: _Optional[int] = ..., batch: _Optional[int] = ...) -> None: ...

class RateSchedule(_message.Message):
    __slots__ = ("steps", "opportunities", "epoch_ns")
    STEPS_FIELD_NUMBER: _ClassVar[int]
    OPPORTUNITIES_FIELD_NUMBER: _ClassVar[int]
    EPOCH_NS_FIELD_NUMBER: _ClassVar[int]
    steps: RateSteps
    opportunities: Opportunities
    epoch_ns: int
    def __init__(self, steps: _Optional[_Union[RateSteps, _Mapping]] = ..., opportunities: _Optional[_Union[Opportunities, _Mapping]] = ..., epoch_ns: _Optional[int] = ...) -> None: ...

class RateSteps(_message.Message):
    __slots__ = ("steps", "period_ns")
    STEPS_FIELD_NUMBER: _ClassVar[int]
    PERIOD_NS_FIELD_NUMBER: _ClassVar[int]
    steps: _containers.RepeatedCompositeFieldContainer[RateStep]
    period_ns: int
    def __init__(self, steps: _Optional[_Iterable[_Union[RateStep, _Mapping]]] = ..., period_ns: _Optional[int] = ...) -> None: ...

class RateStep(_message.Message):
    __slots__ = ("start_ns", "rate_bps")
    START_NS_FIELD_NUMBER: _ClassVar[int]
    RATE_BPS_FIELD_NUMBER: _ClassVar[int]
    start_ns: int
    rate_bps: int
    def __init__(self, start_ns: _Optional[int] = ..., rate_bps: _Optional[int] = ...) -> None: ...

class Opportunities(_message.Message):
    __slots__ = ("at_ns", "loop")
    AT_NS_FIELD_NUMBER: _ClassVar[int]
    LOOP_FIELD_NUMBER: _ClassVar[int]
    at_ns: _containers.RepeatedScalarFieldContainer[int]
    loop: bool
    def __init__(self, at_ns: _Optional[_Iterable[int]] = ..., loop: _Optional[bool] = ...) -> None: ...

class DelaySchedule(_message.Message):
    __slots__ = ("steps", "period_ns", "epoch_ns", "gathers")
    STEPS_FIELD_NUMBER: _ClassVar[int]
    PERIOD_NS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_NS_FIELD_NUMBER: _ClassVar[int]
    GATHERS_FIELD_NUMBER: _ClassVar[int]
    steps: _containers.RepeatedCompositeFieldContainer[DelayStep]
    period_ns: int
    epoch_ns: int
    gathers: bool
    def __init__(self, steps: _Optional[_Iterable[_Union[DelayStep, _Mapping]]] = ..., period_ns: _Optional[int] = ..., epoch_ns: _Optional[int] = ..., gathers: _Optional[bool] = ...) -> None: ...

class DelayStep(_message.Message):
    __slots__ = ("start_ns", "delay_ns", "jitter_ns")
    START_NS_FIELD_NUMBER: _ClassVar[int]
    DELAY_NS_FIELD_NUMBER: _ClassVar[int]
    JITTER_NS_FIELD_NUMBER: _ClassVar[int]
    start_ns: int
    delay_ns: int
    jitter_ns: int
    def __init__(self, start_ns: _Optional[int] = ..., delay_ns: _Optional[int] = ..., jitter_ns: _Optional[int] = ...) -> None: ...

class Variation(_message.Message):
    __slots__ = ("uniform_ns", "normal_ns", "pareto", "samples", "reorder", "duplicate", "seed")
    UNIFORM_NS_FIELD_NUMBER: _ClassVar[int]
    NORMAL_NS_FIELD_NUMBER: _ClassVar[int]
    PARETO_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    REORDER_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    uniform_ns: int
    normal_ns: int
    pareto: Pareto
    samples: Samples
    reorder: bool
    duplicate: float
    seed: int
    def __init__(self, uniform_ns: _Optional[int] = ..., normal_ns: _Optional[int] = ..., pareto: _Optional[_Union[Pareto, _Mapping]] = ..., samples: _Optional[_Union[Samples, _Mapping]] = ..., reorder: _Optional[bool] = ..., duplicate: _Optional[float] = ..., seed: _Optional[int] = ...) -> None: ...

class Pareto(_message.Message):
    __slots__ = ("scale_ns", "shape")
    SCALE_NS_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    scale_ns: int
    shape: float
    def __init__(self, scale_ns: _Optional[int] = ..., shape: _Optional[float] = ...) -> None: ...

class Samples(_message.Message):
    __slots__ = ("delay_ns",)
    DELAY_NS_FIELD_NUMBER: _ClassVar[int]
    delay_ns: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, delay_ns: _Optional[_Iterable[int]] = ...) -> None: ...

class StartSchedulesRequest(_message.Message):
    __slots__ = ("epoch_ns", "election_id", "role")
    EPOCH_NS_FIELD_NUMBER: _ClassVar[int]
    ELECTION_ID_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    epoch_ns: int
    election_id: ElectionId
    role: str
    def __init__(self, epoch_ns: _Optional[int] = ..., election_id: _Optional[_Union[ElectionId, _Mapping]] = ..., role: _Optional[str] = ...) -> None: ...

class StartSchedulesResponse(_message.Message):
    __slots__ = ("schedules", "timestamp_ns")
    SCHEDULES_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_NS_FIELD_NUMBER: _ClassVar[int]
    schedules: int
    timestamp_ns: int
    def __init__(self, schedules: _Optional[int] = ..., timestamp_ns: _Optional[int] = ...) -> None: ...

class HoldRequest(_message.Message):
    __slots__ = ("at_ns", "election_id", "role", "list")
    AT_NS_FIELD_NUMBER: _ClassVar[int]
    ELECTION_ID_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    LIST_FIELD_NUMBER: _ClassVar[int]
    at_ns: int
    election_id: ElectionId
    role: str
    list: ListRequest
    def __init__(self, at_ns: _Optional[int] = ..., election_id: _Optional[_Union[ElectionId, _Mapping]] = ..., role: _Optional[str] = ..., list: _Optional[_Union[ListRequest, _Mapping]] = ...) -> None: ...

class HoldResponse(_message.Message):
    __slots__ = ("timestamp_ns", "list")
    TIMESTAMP_NS_FIELD_NUMBER: _ClassVar[int]
    LIST_FIELD_NUMBER: _ClassVar[int]
    timestamp_ns: int
    list: ListResponse
    def __init__(self, timestamp_ns: _Optional[int] = ..., list: _Optional[_Union[ListResponse, _Mapping]] = ...) -> None: ...

class ElectionId(_message.Message):
    __slots__ = ("high", "low")
    HIGH_FIELD_NUMBER: _ClassVar[int]
    LOW_FIELD_NUMBER: _ClassVar[int]
    high: int
    low: int
    def __init__(self, high: _Optional[int] = ..., low: _Optional[int] = ...) -> None: ...

class ConfigureResponse(_message.Message):
    __slots__ = ("epoch", "timestamp_ns", "queue")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_NS_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    timestamp_ns: int
    queue: Queue
    def __init__(self, epoch: _Optional[int] = ..., timestamp_ns: _Optional[int] = ..., queue: _Optional[_Union[Queue, _Mapping]] = ...) -> None: ...

class ListRequest(_message.Message):
    __slots__ = ("flow_drops",)
    FLOW_DROPS_FIELD_NUMBER: _ClassVar[int]
    flow_drops: _containers.RepeatedCompositeFieldContainer[FlowDropsRequest]
    def __init__(self, flow_drops: _Optional[_Iterable[_Union[FlowDropsRequest, _Mapping]]] = ...) -> None: ...

class ListResponse(_message.Message):
    __slots__ = ("queues", "timestamp_ns", "pool_used_packets", "pool_limit_packets", "flow_drops")
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_NS_FIELD_NUMBER: _ClassVar[int]
    POOL_USED_PACKETS_FIELD_NUMBER: _ClassVar[int]
    POOL_LIMIT_PACKETS_FIELD_NUMBER: _ClassVar[int]
    FLOW_DROPS_FIELD_NUMBER: _ClassVar[int]
    queues: _containers.RepeatedCompositeFieldContainer[Queue]
    timestamp_ns: int
    pool_used_packets: int
    pool_limit_packets: int
    flow_drops: _containers.RepeatedCompositeFieldContainer[FlowDropsResponse]
    def __init__(self, queues: _Optional[_Iterable[_Union[Queue, _Mapping]]] = ..., timestamp_ns: _Optional[int] = ..., pool_used_packets: _Optional[int] = ..., pool_limit_packets: _Optional[int] = ..., flow_drops: _Optional[_Iterable[_Union[FlowDropsResponse, _Mapping]]] = ...) -> None: ...

class Queue(_message.Message):
    __slots__ = ("port", "queue", "rate_bps", "limit_bytes", "limit_packets", "delay_ns", "epoch", "enqueued_packets", "enqueued_bytes", "dequeued_packets", "dequeued_bytes", "dropped_packets", "dropped_bytes", "depth_bytes", "depth_packets", "waited_ns", "peak_depth_bytes", "peak_depth_packets", "pool_dropped_packets", "flushed_packets", "flushed_bytes", "unlimited", "rate_schedule", "delay_schedule", "duplicated_packets", "variation", "pushed_out_packets", "pushed_out_bytes", "managed_drop_packets", "managed_drop_bytes", "head_drop", "management", "policer", "policed_packets", "policed_bytes", "burst_bytes", "aggregation", "ack_filter", "framing", "redundant_packets", "redundant_bytes")
    PORT_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    RATE_BPS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    LIMIT_PACKETS_FIELD_NUMBER: _ClassVar[int]
    DELAY_NS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ENQUEUED_PACKETS_FIELD_NUMBER: _ClassVar[int]
    ENQUEUED_BYTES_FIELD_NUMBER: _ClassVar[int]
    DEQUEUED_PACKETS_FIELD_NUMBER: _ClassVar[int]
    DEQUEUED_BYTES_FIELD_NUMBER: _ClassVar[int]
    DROPPED_PACKETS_FIELD_NUMBER: _ClassVar[int]
    DROPPED_BYTES_FIELD_NUMBER: _ClassVar[int]
    DEPTH_BYTES_FIELD_NUMBER: _ClassVar[int]
    DEPTH_PACKETS_FIELD_NUMBER: _ClassVar[int]
    WAITED_NS_FIELD_NUMBER: _ClassVar[int]
    PEAK_DEPTH_BYTES_FIELD_NUMBER: _ClassVar[int]
    PEAK_DEPTH_PACKETS_FIELD_NUMBER: _ClassVar[int]
    POOL_DROPPED_PACKETS_FIELD_NUMBER: _ClassVar[int]
    FLUSHED_PACKETS_FIELD_NUMBER: _ClassVar[int]
    FLUSHED_BYTES_FIELD_NUMBER: _ClassVar[int]
    UNLIMITED_FIELD_NUMBER: _ClassVar[int]
    RATE_SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    DELAY_SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    DUPLICATED_PACKETS_FIELD_NUMBER: _ClassVar[int]
    VARIATION_FIELD_NUMBER: _ClassVar[int]
    PUSHED_OUT_PACKETS_FIELD_NUMBER: _ClassVar[int]
    PUSHED_OUT_BYTES_FIELD_NUMBER: _ClassVar[int]
    MANAGED_DROP_PACKETS_FIELD_NUMBER: _ClassVar[int]
    MANAGED_DROP_BYTES_FIELD_NUMBER: _ClassVar[int]
    HEAD_DROP_FIELD_NUMBER: _ClassVar[int]
    MANAGEMENT_FIELD_NUMBER: _ClassVar[int]
    POLICER_FIELD_NUMBER: _ClassVar[int]
    POLICED_PACKETS_FIELD_NUMBER: _ClassVar[int]
    POLICED_BYTES_FIELD_NUMBER: _ClassVar[int]
    BURST_BYTES_FIELD_NUMBER: _ClassVar[int]
    AGGREGATION_FIELD_NUMBER: _ClassVar[int]
    ACK_FILTER_FIELD_NUMBER: _ClassVar[int]
    FRAMING_FIELD_NUMBER: _ClassVar[int]
    REDUNDANT_PACKETS_FIELD_NUMBER: _ClassVar[int]
    REDUNDANT_BYTES_FIELD_NUMBER: _ClassVar[int]
    port: int
    queue: int
    rate_bps: int
    limit_bytes: int
    limit_packets: int
    delay_ns: int
    epoch: int
    enqueued_packets: int
    enqueued_bytes: int
    dequeued_packets: int
    dequeued_bytes: int
    dropped_packets: int
    dropped_bytes: int
    depth_bytes: int
    depth_packets: int
    waited_ns: int
    peak_depth_bytes: int
    peak_depth_packets: int
    pool_dropped_packets: int
    flushed_packets: int
    flushed_bytes: int
    unlimited: bool
    rate_schedule: ScheduleStatus
    delay_schedule: ScheduleStatus
    duplicated_packets: int
    variation: Variation
    pushed_out_packets: int
    pushed_out_bytes: int
    managed_drop_packets: int
    managed_drop_bytes: int
    head_drop: bool
    management: Management
    policer: Policer
    policed_packets: int
    policed_bytes: int
    burst_bytes: int
    aggregation: Aggregation
    ack_filter: AckFilter
    framing: Framing
    redundant_packets: int
    redundant_bytes: int
    def __init__(self, port: _Optional[int] = ..., queue: _Optional[int] = ..., rate_bps: _Optional[int] = ..., limit_bytes: _Optional[int] = ..., limit_packets: _Optional[int] = ..., delay_ns: _Optional[int] = ..., epoch: _Optional[int] = ..., enqueued_packets: _Optional[int] = ..., enqueued_bytes: _Optional[int] = ..., dequeued_packets: _Optional[int] = ..., dequeued_bytes: _Optional[int] = ..., dropped_packets: _Optional[int] = ..., dropped_bytes: _Optional[int] = ..., depth_bytes: _Optional[int] = ..., depth_packets: _Optional[int] = ..., waited_ns: _Optional[int] = ..., peak_depth_bytes: _Optional[int] = ..., peak_depth_packets: _Optional[int] = ..., pool_dropped_packets: _Optional[int] = ..., flushed_packets: _Optional[int] = ..., flushed_bytes: _Optional[int] = ..., unlimited: _Optional[bool] = ..., rate_schedule: _Optional[_Union[ScheduleStatus, _Mapping]] = ..., delay_schedule: _Optional[_Union[ScheduleStatus, _Mapping]] = ..., duplicated_packets: _Optional[int] = ..., variation: _Optional[_Union[Variation, _Mapping]] = ..., pushed_out_packets: _Optional[int] = ..., pushed_out_bytes: _Optional[int] = ..., managed_drop_packets: _Optional[int] = ..., managed_drop_bytes: _Optional[int] = ..., head_drop: _Optional[bool] = ..., management: _Optional[_Union[Management, _Mapping]] = ..., policer: _Optional[_Union[Policer, _Mapping]] = ..., policed_packets: _Optional[int] = ..., policed_bytes: _Optional[int] = ..., burst_bytes: _Optional[int] = ..., aggregation: _Optional[_Union[Aggregation, _Mapping]] = ..., ack_filter: _Optional[_Union[AckFilter, _Mapping]] = ..., framing: _Optional[_Union[Framing, _Mapping]] = ..., redundant_packets: _Optional[int] = ..., redundant_bytes: _Optional[int] = ...) -> None: ...

class ScheduleStatus(_message.Message):
    __slots__ = ("entries", "period_ns", "epoch_ns")
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    PERIOD_NS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_NS_FIELD_NUMBER: _ClassVar[int]
    entries: int
    period_ns: int
    epoch_ns: int
    def __init__(self, entries: _Optional[int] = ..., period_ns: _Optional[int] = ..., epoch_ns: _Optional[int] = ...) -> None: ...

class FlowDropsRequest(_message.Message):
    __slots__ = ("port", "queue", "first_flow", "cause")
    PORT_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    FIRST_FLOW_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    port: int
    queue: int
    first_flow: int
    cause: Cause
    def __init__(self, port: _Optional[int] = ..., queue: _Optional[int] = ..., first_flow: _Optional[int] = ..., cause: _Optional[_Union[Cause, str]] = ...) -> None: ...

class FlowDropsResponse(_message.Message):
    __slots__ = ("flows", "next_flow")
    FLOWS_FIELD_NUMBER: _ClassVar[int]
    NEXT_FLOW_FIELD_NUMBER: _ClassVar[int]
    flows: _containers.RepeatedCompositeFieldContainer[FlowDrop]
    next_flow: int
    def __init__(self, flows: _Optional[_Iterable[_Union[FlowDrop, _Mapping]]] = ..., next_flow: _Optional[int] = ...) -> None: ...

class FlowDrop(_message.Message):
    __slots__ = ("flow", "packets", "bytes")
    FLOW_FIELD_NUMBER: _ClassVar[int]
    PACKETS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    flow: int
    packets: int
    bytes: int
    def __init__(self, flow: _Optional[int] = ..., packets: _Optional[int] = ..., bytes: _Optional[int] = ...) -> None: ...

class PortStatsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PortStatsResponse(_message.Message):
    __slots__ = ("ports", "discards")
    PORTS_FIELD_NUMBER: _ClassVar[int]
    DISCARDS_FIELD_NUMBER: _ClassVar[int]
    ports: _containers.RepeatedCompositeFieldContainer[Port]
    discards: Discards
    def __init__(self, ports: _Optional[_Iterable[_Union[Port, _Mapping]]] = ..., discards: _Optional[_Union[Discards, _Mapping]] = ...) -> None: ...

class Discards(_message.Message):
    __slots__ = ("no_pipeline", "ingress", "egress", "absent_port", "clones", "loopback", "digests", "packet_ins")
    NO_PIPELINE_FIELD_NUMBER: _ClassVar[int]
    INGRESS_FIELD_NUMBER: _ClassVar[int]
    EGRESS_FIELD_NUMBER: _ClassVar[int]
    ABSENT_PORT_FIELD_NUMBER: _ClassVar[int]
    CLONES_FIELD_NUMBER: _ClassVar[int]
    LOOPBACK_FIELD_NUMBER: _ClassVar[int]
    DIGESTS_FIELD_NUMBER: _ClassVar[int]
    PACKET_INS_FIELD_NUMBER: _ClassVar[int]
    no_pipeline: int
    ingress: int
    egress: int
    absent_port: int
    clones: int
    loopback: int
    digests: int
    packet_ins: int
    def __init__(self, no_pipeline: _Optional[int] = ..., ingress: _Optional[int] = ..., egress: _Optional[int] = ..., absent_port: _Optional[int] = ..., clones: _Optional[int] = ..., loopback: _Optional[int] = ..., digests: _Optional[int] = ..., packet_ins: _Optional[int] = ...) -> None: ...

class Port(_message.Message):
    __slots__ = ("port", "interface", "link_up", "rx_packets", "rx_bytes", "tx_packets", "tx_bytes", "rx_ring_drops", "rx_errors", "tx_drops", "tx_errors", "rx_partial_checksums", "tx_late", "rx_held", "rx_longest_held_ns")
    PORT_FIELD_NUMBER: _ClassVar[int]
    INTERFACE_FIELD_NUMBER: _ClassVar[int]
    LINK_UP_FIELD_NUMBER: _ClassVar[int]
    RX_PACKETS_FIELD_NUMBER: _ClassVar[int]
    RX_BYTES_FIELD_NUMBER: _ClassVar[int]
    TX_PACKETS_FIELD_NUMBER: _ClassVar[int]
    TX_BYTES_FIELD_NUMBER: _ClassVar[int]
    RX_RING_DROPS_FIELD_NUMBER: _ClassVar[int]
    RX_ERRORS_FIELD_NUMBER: _ClassVar[int]
    TX_DROPS_FIELD_NUMBER: _ClassVar[int]
    TX_ERRORS_FIELD_NUMBER: _ClassVar[int]
    RX_PARTIAL_CHECKSUMS_FIELD_NUMBER: _ClassVar[int]
    TX_LATE_FIELD_NUMBER: _ClassVar[int]
    RX_HELD_FIELD_NUMBER: _ClassVar[int]
    RX_LONGEST_HELD_NS_FIELD_NUMBER: _ClassVar[int]
    port: int
    interface: str
    link_up: bool
    rx_packets: int
    rx_bytes: int
    tx_packets: int
    tx_bytes: int
    rx_ring_drops: int
    rx_errors: int
    tx_drops: int
    tx_errors: int
    rx_partial_checksums: int
    tx_late: int
    rx_held: int
    rx_longest_held_ns: int
    def __init__(self, port: _Optional[int] = ..., interface: _Optional[str] = ..., link_up: _Optional[bool] = ..., rx_packets: _Optional[int] = ..., rx_bytes: _Optional[int] = ..., tx_packets: _Optional[int] = ..., tx_bytes: _Optional[int] = ..., rx_ring_drops: _Optional[int] = ..., rx_errors: _Optional[int] = ..., tx_drops: _Optional[int] = ..., tx_errors: _Optional[int] = ..., rx_partial_checksums: _Optional[int] = ..., tx_late: _Optional[int] = ..., rx_held: _Optional[int] = ..., rx_longest_held_ns: _Optional[int] = ...) -> None: ...

class ObserveRequest(_message.Message):
    __slots__ = ("collector", "ports", "election_id", "role")
    COLLECTOR_FIELD_NUMBER: _ClassVar[int]
    PORTS_FIELD_NUMBER: _ClassVar[int]
    ELECTION_ID_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    collector: ReportCollector
    ports: _containers.RepeatedCompositeFieldContainer[ObservedPort]
    election_id: ElectionId
    role: str
    def __init__(self, collector: _Optional[_Union[ReportCollector, _Mapping]] = ..., ports: _Optional[_Iterable[_Union[ObservedPort, _Mapping]]] = ..., election_id: _Optional[_Union[ElectionId, _Mapping]] = ..., role: _Optional[str] = ...) -> None: ...

class ReportCollector(_message.Message):
    __slots__ = ("port", "source_mac", "destination_mac", "source_address", "destination_address", "source_port", "destination_port", "length")
    PORT_FIELD_NUMBER: _ClassVar[int]
    SOURCE_MAC_FIELD_NUMBER: _ClassVar[int]
    DESTINATION_MAC_FIELD_NUMBER: _ClassVar[int]
    SOURCE_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    DESTINATION_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    SOURCE_PORT_FIELD_NUMBER: _ClassVar[int]
    DESTINATION_PORT_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    port: int
    source_mac: int
    destination_mac: int
    source_address: int
    destination_address: int
    source_port: int
    destination_port: int
    length: int
    def __init__(self, port: _Optional[int] = ..., source_mac: _Optional[int] = ..., destination_mac: _Optional[int] = ..., source_address: _Optional[int] = ..., destination_address: _Optional[int] = ..., source_port: _Optional[int] = ..., destination_port: _Optional[int] = ..., length: _Optional[int] = ...) -> None: ...

class ObservedPort(_message.Message):
    __slots__ = ("port", "bottleneck", "ingress_ports", "sample_shift", "sample_seed")
    PORT_FIELD_NUMBER: _ClassVar[int]
    BOTTLENECK_FIELD_NUMBER: _ClassVar[int]
    INGRESS_PORTS_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_SHIFT_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_SEED_FIELD_NUMBER: _ClassVar[int]
    port: int
    bottleneck: int
    ingress_ports: _containers.RepeatedScalarFieldContainer[int]
    sample_shift: int
    sample_seed: int
    def __init__(self, port: _Optional[int] = ..., bottleneck: _Optional[int] = ..., ingress_ports: _Optional[_Iterable[int]] = ..., sample_shift: _Optional[int] = ..., sample_seed: _Optional[int] = ...) -> None: ...

class ObserveResponse(_message.Message):
    __slots__ = ("timestamp_ns",)
    TIMESTAMP_NS_FIELD_NUMBER: _ClassVar[int]
    timestamp_ns: int
    def __init__(self, timestamp_ns: _Optional[int] = ...) -> None: ...

class ObservedFlowsRequest(_message.Message):
    __slots__ = ("skip",)
    SKIP_FIELD_NUMBER: _ClassVar[int]
    skip: int
    def __init__(self, skip: _Optional[int] = ...) -> None: ...

class ObservedFlowsResponse(_message.Message):
    __slots__ = ("flows", "seen")
    FLOWS_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    flows: _containers.RepeatedCompositeFieldContainer[ObservedFlow]
    seen: int
    def __init__(self, flows: _Optional[_Iterable[_Union[ObservedFlow, _Mapping]]] = ..., seen: _Optional[int] = ...) -> None: ...

class ObservedFlow(_message.Message):
    __slots__ = ("bottleneck", "flow", "signature", "source", "destination", "protocol", "source_port", "destination_port", "arrivals", "departures", "ingress_drops", "egress_drops", "losses")
    BOTTLENECK_FIELD_NUMBER: _ClassVar[int]
    FLOW_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    DESTINATION_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    SOURCE_PORT_FIELD_NUMBER: _ClassVar[int]
    DESTINATION_PORT_FIELD_NUMBER: _ClassVar[int]
    ARRIVALS_FIELD_NUMBER: _ClassVar[int]
    DEPARTURES_FIELD_NUMBER: _ClassVar[int]
    INGRESS_DROPS_FIELD_NUMBER: _ClassVar[int]
    EGRESS_DROPS_FIELD_NUMBER: _ClassVar[int]
    LOSSES_FIELD_NUMBER: _ClassVar[int]
    bottleneck: int
    flow: int
    signature: int
    source: str
    destination: str
    protocol: int
    source_port: int
    destination_port: int
    arrivals: FrameCount
    departures: FrameCount
    ingress_drops: FrameCount
    egress_drops: FrameCount
    losses: FrameCount
    def __init__(self, bottleneck: _Optional[int] = ..., flow: _Optional[int] = ..., signature: _Optional[int] = ..., source: _Optional[str] = ..., destination: _Optional[str] = ..., protocol: _Optional[int] = ..., source_port: _Optional[int] = ..., destination_port: _Optional[int] = ..., arrivals: _Optional[_Union[FrameCount, _Mapping]] = ..., departures: _Optional[_Union[FrameCount, _Mapping]] = ..., ingress_drops: _Optional[_Union[FrameCount, _Mapping]] = ..., egress_drops: _Optional[_Union[FrameCount, _Mapping]] = ..., losses: _Optional[_Union[FrameCount, _Mapping]] = ...) -> None: ...

class FrameCount(_message.Message):
    __slots__ = ("packets", "bytes")
    PACKETS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    packets: int
    bytes: int
    def __init__(self, packets: _Optional[int] = ..., bytes: _Optional[int] = ...) -> None: ...
