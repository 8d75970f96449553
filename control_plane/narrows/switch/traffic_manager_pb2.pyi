from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ConfigureRequest(_message.Message):
    __slots__ = ("port", "queue", "rate_bps", "limit_bytes", "limit_packets", "delay_ns", "election_id", "role")
    PORT_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    RATE_BPS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    LIMIT_PACKETS_FIELD_NUMBER: _ClassVar[int]
    DELAY_NS_FIELD_NUMBER: _ClassVar[int]
    ELECTION_ID_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    port: int
    queue: int
    rate_bps: int
    limit_bytes: int
    limit_packets: int
    delay_ns: int
    election_id: ElectionId
    role: str
    def __init__(self, port: _Optional[int] = ..., queue: _Optional[int] = ..., rate_bps: _Optional[int] = ..., limit_bytes: _Optional[int] = ..., limit_packets: _Optional[int] = ..., delay_ns: _Optional[int] = ..., election_id: _Optional[_Union[ElectionId, _Mapping]] = ..., role: _Optional[str] = ...) -> None: ...

class ElectionId(_message.Message):
    __slots__ = ("high", "low")
    HIGH_FIELD_NUMBER: _ClassVar[int]
    LOW_FIELD_NUMBER: _ClassVar[int]
    high: int
    low: int
    def __init__(self, high: _Optional[int] = ..., low: _Optional[int] = ...) -> None: ...

class ConfigureResponse(_message.Message):
    __slots__ = ("epoch", "timestamp_ns")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_NS_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    timestamp_ns: int
    def __init__(self, epoch: _Optional[int] = ..., timestamp_ns: _Optional[int] = ...) -> None: ...

class ListRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListResponse(_message.Message):
    __slots__ = ("queues", "timestamp_ns", "pool_used_packets", "pool_limit_packets")
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_NS_FIELD_NUMBER: _ClassVar[int]
    POOL_USED_PACKETS_FIELD_NUMBER: _ClassVar[int]
    POOL_LIMIT_PACKETS_FIELD_NUMBER: _ClassVar[int]
    queues: _containers.RepeatedCompositeFieldContainer[Queue]
    timestamp_ns: int
    pool_used_packets: int
    pool_limit_packets: int
    def __init__(self, queues: _Optional[_Iterable[_Union[Queue, _Mapping]]] = ..., timestamp_ns: _Optional[int] = ..., pool_used_packets: _Optional[int] = ..., pool_limit_packets: _Optional[int] = ...) -> None: ...

class Queue(_message.Message):
    __slots__ = ("port", "queue", "rate_bps", "limit_bytes", "limit_packets", "delay_ns", "epoch", "enqueued_packets", "enqueued_bytes", "dequeued_packets", "dequeued_bytes", "dropped_packets", "dropped_bytes", "depth_bytes", "depth_packets", "peak_depth_bytes", "peak_depth_packets", "pool_dropped_packets", "flushed_packets", "flushed_bytes")
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
    PEAK_DEPTH_BYTES_FIELD_NUMBER: _ClassVar[int]
    PEAK_DEPTH_PACKETS_FIELD_NUMBER: _ClassVar[int]
    POOL_DROPPED_PACKETS_FIELD_NUMBER: _ClassVar[int]
    FLUSHED_PACKETS_FIELD_NUMBER: _ClassVar[int]
    FLUSHED_BYTES_FIELD_NUMBER: _ClassVar[int]
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
    peak_depth_bytes: int
    peak_depth_packets: int
    pool_dropped_packets: int
    flushed_packets: int
    flushed_bytes: int
    def __init__(self, port: _Optional[int] = ..., queue: _Optional[int] = ..., rate_bps: _Optional[int] = ..., limit_bytes: _Optional[int] = ..., limit_packets: _Optional[int] = ..., delay_ns: _Optional[int] = ..., epoch: _Optional[int] = ..., enqueued_packets: _Optional[int] = ..., enqueued_bytes: _Optional[int] = ..., dequeued_packets: _Optional[int] = ..., dequeued_bytes: _Optional[int] = ..., dropped_packets: _Optional[int] = ..., dropped_bytes: _Optional[int] = ..., depth_bytes: _Optional[int] = ..., depth_packets: _Optional[int] = ..., peak_depth_bytes: _Optional[int] = ..., peak_depth_packets: _Optional[int] = ..., pool_dropped_packets: _Optional[int] = ..., flushed_packets: _Optional[int] = ..., flushed_bytes: _Optional[int] = ...) -> None: ...

class FlowDropsRequest(_message.Message):
    __slots__ = ("port", "queue", "first_flow")
    PORT_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    FIRST_FLOW_FIELD_NUMBER: _ClassVar[int]
    port: int
    queue: int
    first_flow: int
    def __init__(self, port: _Optional[int] = ..., queue: _Optional[int] = ..., first_flow: _Optional[int] = ...) -> None: ...

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
    __slots__ = ("no_pipeline", "ingress", "egress", "absent_port", "clones", "loopback", "digests")
    NO_PIPELINE_FIELD_NUMBER: _ClassVar[int]
    INGRESS_FIELD_NUMBER: _ClassVar[int]
    EGRESS_FIELD_NUMBER: _ClassVar[int]
    ABSENT_PORT_FIELD_NUMBER: _ClassVar[int]
    CLONES_FIELD_NUMBER: _ClassVar[int]
    LOOPBACK_FIELD_NUMBER: _ClassVar[int]
    DIGESTS_FIELD_NUMBER: _ClassVar[int]
    no_pipeline: int
    ingress: int
    egress: int
    absent_port: int
    clones: int
    loopback: int
    digests: int
    def __init__(self, no_pipeline: _Optional[int] = ..., ingress: _Optional[int] = ..., egress: _Optional[int] = ..., absent_port: _Optional[int] = ..., clones: _Optional[int] = ..., loopback: _Optional[int] = ..., digests: _Optional[int] = ...) -> None: ...

class Port(_message.Message):
    __slots__ = ("port", "interface", "link_up", "rx_packets", "rx_bytes", "tx_packets", "tx_bytes", "rx_ring_drops", "rx_errors", "tx_drops", "tx_errors", "rx_partial_checksums", "tx_late")
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
    def __init__(self, port: _Optional[int] = ..., interface: _Optional[str] = ..., link_up: _Optional[bool] = ..., rx_packets: _Optional[int] = ..., rx_bytes: _Optional[int] = ..., tx_packets: _Optional[int] = ..., tx_bytes: _Optional[int] = ..., rx_ring_drops: _Optional[int] = ..., rx_errors: _Optional[int] = ..., tx_drops: _Optional[int] = ..., tx_errors: _Optional[int] = ..., rx_partial_checksums: _Optional[int] = ..., tx_late: _Optional[int] = ...) -> None: ...
