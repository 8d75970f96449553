# SPDX-License-Identifier: Apache-2.0
"""Our own BF Runtime client: gRPC and the messages of bfruntime.proto, nothing of the SDE."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

import grpc

from narrows_tofino.bfrt import bfruntime_pb2 as pb
from narrows_tofino.bfrt.client import (
    ALL_PIPES,
    WHOLE_TABLE_FACTOR,
    Client,
    Endpoint,
    Operation,
    Tls,
    Write,
    describe,
    while_in_use,
)
from narrows_tofino.bfrt.errors import BfrtError, ConnectionLost, Refusal, SwitchRefused, code_name
from narrows_tofino.bfrt.schema import Schema, Table
from narrows_tofino.bfrt.values import (
    DigestMessage,
    Entry,
    Key,
    decode_data,
    decode_key,
    encode_data,
    encode_key,
)

SERVICE = "/bfrt_proto.BfRuntime/"
# The pipeline configuration carries the whole compiled program.
MAX_MESSAGE_BYTES = 1 << 30
ALL_DIRECTIONS = 0xFF
ALL_PARSERS = 0xFF
CLOSE_TIMEOUT_S = 2.0
STATUS_TRAILER = "grpc-status-details-bin"

_TYPES = {
    Operation.INSERT: pb.Update.INSERT,
    Operation.MODIFY: pb.Update.MODIFY,
    Operation.DELETE: pb.Update.DELETE,
}


class OwnClient(Client):
    """See `Client`."""

    kind = "own"

    def __init__(self, endpoint: Endpoint) -> None:
        """Subscribe, bind to the program and fetch the schema.

        Raises:
            ConnectionLost: no answer, refused subscription, or the program is bound to someone else or absent.
        """
        self._endpoint = endpoint
        self._channel = _channel(endpoint)
        self._requests: queue.SimpleQueue[pb.StreamMessageRequest | None] = queue.SimpleQueue()
        self._subscribed: queue.SimpleQueue[pb.Status] = queue.SimpleQueue()
        self._digests: queue.SimpleQueue[pb.DigestList] = queue.SimpleQueue()
        self._stream_error: str | None = None
        self._closed = False
        self._listener: threading.Thread | None = None
        self._write = self._unary("Write", pb.WriteRequest, pb.WriteResponse)
        self._bind = self._unary(
            "SetForwardingPipelineConfig", pb.SetForwardingPipelineConfigRequest, pb.SetForwardingPipelineConfigResponse
        )
        self._config = self._unary(
            "GetForwardingPipelineConfig", pb.GetForwardingPipelineConfigRequest, pb.GetForwardingPipelineConfigResponse
        )
        self._read = self._channel.unary_stream(
            SERVICE + "Read",
            request_serializer=pb.ReadRequest.SerializeToString,
            response_deserializer=pb.ReadResponse.FromString,
        )
        try:
            self._subscribe()
            self._bind_program()
            self.schema = self._fetch_schema()
        except BaseException:
            self.close()
            raise

    def read(self, table: Table, key: Key, *, pipe: int = ALL_PIPES) -> Entry:
        """See `Client.read`."""
        entry = pb.TableEntry(table_id=table.id, key=encode_key(table, key))
        found = self._entries(table, key, entry, pipe)
        if not found:
            raise SwitchRefused(describe(table, key, pipe), (Refusal(0, "NOT_FOUND", "the switch sent no entry"),))
        return found[0]

    def read_all(self, table: Table, *, pipe: int = ALL_PIPES, from_hw: bool = True) -> list[Entry]:
        """See `Client.read_all`."""
        found = self._entries(table, None, pb.TableEntry(table_id=table.id), pipe, from_hw)
        return [entry for entry in found if not entry.is_default]

    def read_default(self, table: Table, *, pipe: int = ALL_PIPES) -> Entry:
        """See `Client.read_default`."""
        found = self._entries(table, None, pb.TableEntry(table_id=table.id, is_default_entry=True), pipe)
        if not found:
            raise SwitchRefused(describe(table, None, pipe), (Refusal(0, "NOT_FOUND", "the switch sent no entry"),))
        return found[0]

    def _apply(self, write: Write) -> None:
        table, key = write.table, write.key
        # Without reset flags a MODIFY keeps counters and ageing.
        entry = pb.TableEntry(table_id=table.id, is_default_entry=key is None, table_flags=pb.TableFlags())
        if key is not None:
            entry.key.CopyFrom(encode_key(table, key))
        if write.data is not None:
            entry.data.CopyFrom(encode_data(table, write.data, write.action))
        update = pb.Update(type=_TYPES[write.operation], entity=pb.Entity(table_entry=entry))
        self._update(str(write), update, write.pipe)

    def clear(self, table: Table) -> None:
        """See `Client.clear`."""
        entity = pb.Entity(table_entry=pb.TableEntry(table_id=table.id))
        self._update(f"clear of {table.name}", pb.Update(type=pb.Update.DELETE, entity=entity), ALL_PIPES)

    def execute(self, table: Table, operation: str, *, pipe: int = ALL_PIPES) -> None:
        """See `Client.execute`."""
        request = pb.TableOperation(table_id=table.id, table_operations_type=operation)
        update = pb.Update(type=pb.Update.INSERT, entity=pb.Entity(table_operation=request))
        self._update(f"{operation} of {table.name}", update, pipe)

    def digests(self, timeout_s: float) -> list[DigestMessage]:
        """See `Client.digests`. Digests are never acknowledged: the switch does that itself and refuses ours."""
        found: list[DigestMessage] = []
        try:
            batch = self._digests.get(timeout=timeout_s) if timeout_s > 0 else self._digests.get_nowait()
            while True:
                spec = self.schema.digest_by_id(batch.digest_id)
                for data in batch.data:
                    values = decode_data(spec.fields, data, spec.name)
                    numbers = {name: value for name, value in values.items() if isinstance(value, int)}
                    found.append(DigestMessage(spec.name, batch.target.pipe_id, numbers))
                batch = self._digests.get_nowait()
        except queue.Empty:
            pass
        return found

    def alive(self) -> bool:
        """See `Client.alive`."""
        return not self._closed and self._stream_error is None

    def close(self) -> None:
        """See `Client.close`."""
        if not self._closed:
            self._closed = True
            self._requests.put(None)
            if self._listener is not None:
                # The switch frees client id and program before it ends the stream; the next session needs both.
                self._listener.join(CLOSE_TIMEOUT_S)
            self._channel.close()

    def _unary(self, method: str, request: Any, response: Any) -> Callable[..., Any]:
        return cast(
            "Callable[..., Any]",
            self._channel.unary_unary(
                SERVICE + method,
                request_serializer=request.SerializeToString,
                response_deserializer=response.FromString,
            ),
        )

    def _subscribe(self) -> None:
        stream = self._channel.stream_stream(
            SERVICE + "StreamChannel",
            request_serializer=pb.StreamMessageRequest.SerializeToString,
            response_deserializer=pb.StreamMessageResponse.FromString,
        )
        subscribe = pb.Subscribe(
            device_id=self._endpoint.device,
            notifications=pb.Subscribe.Notifications(enable_learn_notifications=True),
        )
        self._requests.put(pb.StreamMessageRequest(client_id=self._endpoint.client_id, subscribe=subscribe))
        answers = stream(iter(self._requests.get, None))
        self._listener = threading.Thread(target=self._listen, args=(answers,), name="bfrt-stream", daemon=True)
        self._listener.start()
        try:
            status = self._subscribed.get(timeout=self._endpoint.timeout_s)
        except queue.Empty:
            raise self._lost(self._stream_error or f"no answer in {self._endpoint.timeout_s:g} s") from None
        if status.code != 0:
            raise self._lost(f"the subscription is refused: {status.message or code_name(status.code)}")

    def _listen(self, answers: Iterator[pb.StreamMessageResponse]) -> None:
        try:
            for answer in answers:
                match answer.WhichOneof("update"):
                    case "subscribe":
                        self._subscribed.put(answer.subscribe.status)
                    case "digest":
                        self._digests.put(answer.digest)
            self._stream_error = "the switch ended the session"
        except grpc.RpcError as error:
            self._stream_error = _reason(error)
        # Wakes a subscription that is still waiting for its answer.
        self._subscribed.put(pb.Status(code=14, message=self._stream_error))

    def _bind_program(self) -> None:
        request = pb.SetForwardingPipelineConfigRequest(
            device_id=self._endpoint.device,
            client_id=self._endpoint.client_id,
            action=pb.SetForwardingPipelineConfigRequest.BIND,
            config=[pb.ForwardingPipelineConfig(p4_name=self._endpoint.program)],
        )
        try:
            self._bind(request, timeout=self._endpoint.timeout_s)
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.ALREADY_EXISTS:
                raise ConnectionLost(
                    f"switch {self._endpoint.name}: program '{self._endpoint.program}' is bound to another BF "
                    "Runtime client; one client a program is allowed: end the other one"
                ) from None
            raise self._lost(f"cannot bind to program '{self._endpoint.program}': {_reason(error)}") from None

    def _fetch_schema(self) -> Schema:
        request = pb.GetForwardingPipelineConfigRequest(
            device_id=self._endpoint.device, client_id=self._endpoint.client_id
        )
        try:
            answer = self._config(request, timeout=self._endpoint.timeout_s)
        except grpc.RpcError as error:
            raise self._lost(f"no schema: {_reason(error)}") from None
        for config in answer.config:
            if config.p4_name == self._endpoint.program:
                return Schema.parse(config.bfruntime_info, answer.non_p4_config.bfruntime_info)
        loaded = ", ".join(config.p4_name for config in answer.config) or "none"
        raise BfrtError(f"switch {self._endpoint.name} runs no program '{self._endpoint.program}'; it runs: {loaded}")

    def _target(self, pipe: int) -> pb.TargetDevice:
        # The defaults of the messages would mean pipe 0, ingress, parser 0.
        return pb.TargetDevice(
            device_id=self._endpoint.device, pipe_id=pipe, direction=ALL_DIRECTIONS, prsr_id=ALL_PARSERS
        )

    def _entries(
        self, table: Table, key: Key | None, entry: pb.TableEntry, pipe: int, from_hw: bool = True
    ) -> list[Entry]:
        entry.table_flags.from_hw = from_hw
        request = pb.ReadRequest(
            target=self._target(pipe),
            client_id=self._endpoint.client_id,
            entities=[pb.Entity(table_entry=entry)],
        )

        timeout = self._endpoint.timeout_s * (1 if key is not None or entry.is_default_entry else WHOLE_TABLE_FACTOR)

        def call() -> list[pb.ReadResponse]:
            return list(self._read(request, timeout=timeout))

        answers = self._answered(f"reading {describe(table, key, pipe)}", call)
        return [
            _entry(table, entity.table_entry)
            for answer in answers
            for entity in answer.entities
            if entity.WhichOneof("entity") == "table_entry"
        ]

    def _update(self, what: str, update: pb.Update, pipe: int) -> None:
        request = pb.WriteRequest(target=self._target(pipe), client_id=self._endpoint.client_id, updates=[update])
        self._answered(what, lambda: self._write(request, timeout=self._endpoint.timeout_s))

    def _answered(self, what: str, call: Callable[[], Any]) -> Any:
        def once() -> Any:
            if not self.alive():
                raise self._lost(self._stream_error or "the session is closed")
            try:
                return call()
            except grpc.RpcError as error:
                refusals = _refusals(error)
                if not refusals:
                    raise self._lost(f"{what}: {_reason(error)}") from None
                raise SwitchRefused(what, refusals) from None

        return while_in_use(self._endpoint.timeout_s, once)

    def _lost(self, reason: str) -> ConnectionLost:
        return ConnectionLost(f"switch {self._endpoint.name}: {reason}")


def _channel(endpoint: Endpoint) -> grpc.Channel:
    options: list[tuple[str, Any]] = [
        ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
        ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
        ("grpc.enable_http_proxy", 0),
    ]
    if endpoint.address.startswith("unix:"):
        # gRPC would send the socket's path, which is not a valid :authority.
        options.append(("grpc.default_authority", "localhost"))
    if endpoint.tls is None:
        return grpc.insecure_channel(endpoint.address, options=options)
    if endpoint.tls.server_name is not None:
        options.append(("grpc.ssl_target_name_override", endpoint.tls.server_name))
    return grpc.secure_channel(endpoint.address, _credentials(endpoint.tls), options=options)


def _credentials(tls: Tls) -> grpc.ChannelCredentials:
    try:
        return grpc.ssl_channel_credentials(
            root_certificates=tls.ca.read_bytes(),
            private_key=None if tls.key is None else tls.key.read_bytes(),
            certificate_chain=None if tls.certificate is None else tls.certificate.read_bytes(),
        )
    except OSError as error:
        raise BfrtError(f"switch.tls: {error.filename}: {error.strerror}") from None


def _entry(table: Table, message: pb.TableEntry) -> Entry:
    action = None
    for candidate in table.actions:
        if candidate.id == message.data.action_id:
            action = candidate.name
    fields = table.data(action)
    return Entry(
        key=decode_key(table, message.key),
        data=decode_data(fields, message.data, table.name),
        action=action,
        is_default=message.is_default_entry,
    )


def _refusals(error: grpc.RpcError) -> tuple[Refusal, ...]:
    """What the switch says about each item; empty when the call failed as a whole."""
    trailers = cast("Iterable[tuple[str, bytes]]", error.trailing_metadata() or ())
    for name, value in trailers:
        if name == STATUS_TRAILER:
            status = pb.Status.FromString(value)
            errors = [(index, pb.Error.FromString(detail.value)) for index, detail in enumerate(status.details)]
            return tuple(
                Refusal(index, code_name(one.canonical_code), one.message)
                for index, one in errors
                if one.canonical_code != 0
            )
    return ()


def _reason(error: grpc.RpcError) -> str:
    return f"{error.code().name}: {error.details()}"
