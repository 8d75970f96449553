# SPDX-License-Identifier: Apache-2.0
"""A BF Runtime server that refuses what the real one refuses, over real gRPC on loopback, with faults on demand."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import grpc
from google.protobuf import any_pb2
from narrows_tofino.bfrt import bfruntime_pb2 as pb
from narrows_tofino.bfrt.schema import Table
from narrows_tofino.testbed.inventory import MANAGED_PROGRAM

from fakeswitch.device import Device
from fakeswitch.faults import Fault
from fakeswitch.reading import entries
from fakeswitch.tables import named
from fakeswitch.traffic_manager import Refused
from fakeswitch.writing import write

SERVICE = "bfrt_proto.BfRuntime"
PROGRAM = "narrows"


class FakeSwitch(Device):
    """One switch. Everything behind the wire may be looked at and changed by tests."""

    def __init__(
        self, chip: str = "tofino", *, asic: bool = True, pipes: int = 4, tls: Any = None, managed: bool = False
    ) -> None:
        super().__init__(chip, asic=asic, pipes=pipes, managed=managed)
        self.faults: list[Fault] = []
        # Operation and table of all requests; of writes that were carried out the whole of them, with their pipe.
        self.requests: list[tuple[str, str]] = []
        self.written: list[tuple[pb.Update, int]] = []
        self.programs_loaded = [MANAGED_PROGRAM if managed else PROGRAM]
        self.streams: dict[int, queue.SimpleQueue[pb.StreamMessageResponse | None]] = {}
        self.bound: dict[str, int] = {}
        self.digest_acks = 0
        self.release_s = 0.0  # from the end of a client's requests until its id and program are free
        self._server = grpc.server(
            futures.ThreadPoolExecutor(16),
            options=[("grpc.max_send_message_length", 1 << 30), ("grpc.so_reuseport", 0)],
        )
        self._server.add_generic_rpc_handlers((self._handlers(),))
        self.port = (
            self._server.add_insecure_port("127.0.0.1:0")
            if tls is None
            else self._server.add_secure_port("127.0.0.1:0", tls)
        )
        self._server.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def restart(self) -> None:
        """bf_switchd dies and comes back."""
        with self.lock:
            self.end_sessions()
            self.reset()

    def end_sessions(self) -> None:
        """All streams break."""
        with self.lock:
            for stream in self.streams.values():
                stream.put(None)
            self.streams.clear()
            self.bound.clear()

    def stop(self) -> None:
        self.end_sessions()
        self._server.stop(0.2).wait()

    def send_digest(self, pipe: int = 0, **values: int) -> None:
        """The data plane learns of a flow."""
        spec = next(iter(self.schema.digests.values()))
        data = pb.TableData()
        for one in spec.fields:
            item = data.fields.add(field_id=one.id)
            item.stream = values.get(one.name, 0).to_bytes(one.bytes, "big")
        message = pb.DigestList(digest_id=spec.id, list_id=0, data=[data], target=pb.TargetDevice(pipe_id=pipe))
        with self.lock:
            for stream in self.streams.values():
                stream.put(pb.StreamMessageResponse(digest=message))

    # Faults

    def _faults(self, rpc: str, table: str, when: str, context: grpc.ServicerContext) -> bool:
        """Carry out the faults that are due; True if one stands in for the request."""
        for fault in list(self.faults):
            if fault.rpc != rpc or fault.when != when or not table.endswith(fault.table) or fault.times == 0:
                continue
            fault.seen += 1
            if fault.seen < fault.nth:
                continue
            fault.times -= 1
            fault.act(context)
            if when == "instead":
                return True
        return False

    # Calls

    def _handlers(self) -> grpc.GenericRpcHandler[Any, Any]:
        def unary(method: Any, request: Any, response: Any) -> grpc.RpcMethodHandler[Any, Any]:
            return grpc.unary_unary_rpc_method_handler(
                method, request_deserializer=request.FromString, response_serializer=response.SerializeToString
            )

        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "Write": unary(self._write, pb.WriteRequest, pb.WriteResponse),
                "SetForwardingPipelineConfig": unary(
                    self._bind, pb.SetForwardingPipelineConfigRequest, pb.SetForwardingPipelineConfigResponse
                ),
                "GetForwardingPipelineConfig": unary(
                    self._config, pb.GetForwardingPipelineConfigRequest, pb.GetForwardingPipelineConfigResponse
                ),
                "Read": grpc.unary_stream_rpc_method_handler(
                    self._read,
                    request_deserializer=pb.ReadRequest.FromString,
                    response_serializer=pb.ReadResponse.SerializeToString,
                ),
                "StreamChannel": grpc.stream_stream_rpc_method_handler(
                    self._stream,
                    request_deserializer=pb.StreamMessageRequest.FromString,
                    response_serializer=pb.StreamMessageResponse.SerializeToString,
                ),
            },
        )

    def _stream(
        self, requests: Iterator[pb.StreamMessageRequest], context: grpc.ServicerContext
    ) -> Iterator[pb.StreamMessageResponse]:
        first = next(requests)
        self._faults("subscribe", "", "before", context)
        client = first.client_id
        outbox: queue.SimpleQueue[pb.StreamMessageResponse | None] = queue.SimpleQueue()
        with self.lock:
            if client in self.streams:
                status = pb.Status(code=6, message="client id is taken")
                yield pb.StreamMessageResponse(subscribe=pb.Subscribe(status=status))
                return
            self.streams[client] = outbox
        context.add_callback(lambda: outbox.put(None))
        threading.Thread(target=self._listen, args=(requests, outbox), daemon=True).start()
        yield pb.StreamMessageResponse(subscribe=pb.Subscribe(status=pb.Status(code=0)))
        while (message := outbox.get()) is not None:
            yield message
        time.sleep(self.release_s)
        with self.lock:
            if self.streams.get(client) is outbox:
                del self.streams[client]
            self.bound = {name: owner for name, owner in self.bound.items() if owner != client}

    def _listen(self, requests: Iterator[pb.StreamMessageRequest], outbox: Any) -> None:
        try:
            for request in requests:
                if request.WhichOneof("update") is None:
                    # An acknowledgement of digests is not supported and ends the session.
                    self.digest_acks += 1
                    outbox.put(None)
        except grpc.RpcError:
            pass
        outbox.put(None)

    def _bind(self, request: pb.SetForwardingPipelineConfigRequest, context: grpc.ServicerContext) -> Any:
        self._faults("bind", "", "before", context)
        with self.lock:
            name = request.config[0].p4_name if len(request.config) == 1 else ""
            if request.client_id not in self.streams:
                context.abort(grpc.StatusCode.PERMISSION_DENIED, "client is not subscribed")
            if name not in self.programs_loaded:
                context.abort(grpc.StatusCode.NOT_FOUND, f"{name} Object not found")
            if self.bound.get(name, request.client_id) != request.client_id:
                context.abort(grpc.StatusCode.ALREADY_EXISTS, f"{name} Already exists")
            self.bound[name] = request.client_id
        return pb.SetForwardingPipelineConfigResponse()

    def _config(self, request: pb.GetForwardingPipelineConfigRequest, context: grpc.ServicerContext) -> Any:
        self._faults("config", "", "before", context)
        program, fixed = self.documents
        # The real answer carries the compiled program as well: well above gRPC's default limit.
        profile = pb.ForwardingPipelineConfig.Profile(profile_name="pipe", binary=bytes(5 << 20))
        return pb.GetForwardingPipelineConfigResponse(
            config=[
                pb.ForwardingPipelineConfig(p4_name=name, bfruntime_info=program, profiles=[profile])
                for name in self.programs_loaded
            ],
            non_p4_config=pb.NonP4Config(bfruntime_info=fixed),
        )

    def _write(self, request: pb.WriteRequest, context: grpc.ServicerContext) -> pb.WriteResponse:
        errors: list[pb.Error] = []
        for update in request.updates:
            try:
                self._authorised(request.client_id, request.p4_name)
                self._update(update, request.target, context)
                errors.append(pb.Error())
            except Refused as refused:
                errors.append(pb.Error(canonical_code=grpc.StatusCode[refused.code].value[0], message=str(refused)))
        self._fail_if_any(errors, context)
        return pb.WriteResponse()

    def _read(self, request: pb.ReadRequest, context: grpc.ServicerContext) -> Iterator[pb.ReadResponse]:
        errors: list[pb.Error] = []
        for entity in request.entities:
            try:
                self._authorised(request.client_id, request.p4_name)
                table = self.tables_by_id[entity.table_entry.table_id]
                self.requests.append(("read", table.name))
                self._faults("read", table.name, "before", context)
                found = self._found(table, entity.table_entry, request.target.pipe_id)
                for start in range(0, len(found), 256):
                    yield pb.ReadResponse(
                        entities=[pb.Entity(table_entry=entry) for entry in found[start : start + 256]]
                    )
                errors.append(pb.Error())
            except Refused as refused:
                errors.append(pb.Error(canonical_code=grpc.StatusCode[refused.code].value[0], message=str(refused)))
        self._fail_if_any(errors, context)

    def _found(self, table: Table, asked: pb.TableEntry, pipe: int) -> list[pb.TableEntry]:
        try:
            with self.lock:
                return list(entries(self, table, asked, pipe))
        except Refused as refused:
            raise Refused(refused.code, named(table, str(refused))) from None

    def _authorised(self, client: int, p4_name: str) -> None:
        if not p4_name and client not in self.bound.values():
            raise Refused("UNKNOWN", "Unable to get bound_program Unexpected error")

    def _fail_if_any(self, errors: list[pb.Error], context: grpc.ServicerContext) -> None:
        if any(error.canonical_code for error in errors):
            details = []
            for error in errors:
                packed = any_pb2.Any(type_url="type.googleapis.com/bfrt_proto.Error", value=error.SerializeToString())
                details.append(packed)
            status = pb.Status(code=2, details=details)
            context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
            context.abort(grpc.StatusCode.UNKNOWN, "")

    # Updates

    def _update(self, update: pb.Update, target: pb.TargetDevice, context: grpc.ServicerContext) -> None:
        if update.entity.WhichOneof("entity") == "table_operation":
            operation = update.entity.table_operation
            table = self.tables_by_id[operation.table_id]
            if operation.table_operations_type not in table.operations:
                raise Refused("UNIMPLEMENTED", "Invalid operation Operation not supported")
            self.requests.append((operation.table_operations_type, table.name))
            self.programs.sync(table)
            return
        entry = update.entity.table_entry
        table = self.tables_by_id[entry.table_id]
        self.requests.append((pb.Update.Type.Name(update.type).lower(), table.name))
        self._faults("write", table.name, "before", context)
        if self._faults("write", table.name, "instead", context):
            return
        write(self, table, update.type, entry, target.pipe_id)
        self.written.append((update, target.pipe_id))
        self._faults("write", table.name, "after", context)
