# SPDX-License-Identifier: Apache-2.0
"""A BF Runtime server that refuses what the real one refuses, over real gRPC on loopback, with faults on demand."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import grpc
from google.protobuf import any_pb2
from narrows.targets.tofino.bfrt import bfruntime_pb2 as pb
from narrows.targets.tofino.bfrt.errors import CODES
from narrows.targets.tofino.bfrt.schema import Schema, Table
from narrows.targets.tofino.bfrt.values import encode_field

from fakeswitch.faults import Fault
from fakeswitch.fixed_schema import fixed_schema
from fakeswitch.program_schema import program_schema
from fakeswitch.tables import Programs, check_data, check_key
from fakeswitch.traffic_manager import ALL_PIPES, KINDS, Refused, TrafficManager

SERVICE = "bfrt_proto.BfRuntime"
PROGRAM = "narrows"
NAMES = {pb.Update.INSERT: "tableEntryAdd", pb.Update.MODIFY: "tableEntryMod", pb.Update.DELETE: "tableEntryDel"}
DEFAULTS = {pb.Update.MODIFY: "tableDefaultEntrySet", pb.Update.DELETE: "tableDefaultEntryReset"}
SERVICED = ("MatchAction_Direct", "Register", "Counter")


class FakeSwitch:
    """One switch. Everything behind the wire may be looked at and changed by tests."""

    def __init__(self, chip: str = "tofino", *, asic: bool = True, pipes: int = 4, tls: Any = None) -> None:
        self.chip = chip
        self.kind = KINDS[chip]
        self.asic = asic
        self.pipes = pipes
        self.documents = (program_schema(chip), fixed_schema(self.kind.prefix))
        self.schema = Schema.parse(*self.documents)
        self.faults: list[Fault] = []
        self.requests: list[tuple[str, str]] = []
        self.programs_loaded = [PROGRAM]
        self.lock = threading.RLock()
        self.streams: dict[int, queue.SimpleQueue[pb.StreamMessageResponse | None]] = {}
        self.bound: dict[str, int] = {}
        self.digest_acks = 0
        self.reset()
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

    def reset(self) -> None:
        """bf_switchd starts anew: nothing of what was set is left."""
        self.tm = TrafficManager(self.kind, self.pipes, self.asic)
        self.programs = Programs(self.pipes)
        self.mirrors: dict[int, dict[str, Any]] = {}
        self.statistics: dict[int, dict[str, int]] = {}

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

    def state(self) -> dict[str, Any]:
        """Everything that was set, comparable: settings (not counters), ports, mirror sessions, table entries."""
        with self.lock:
            return {
                "settings": self.tm.changed(),
                "ports": {port: dict(data) for port, data in self.tm.ports.items()},
                "mirrors": {sid: dict(data) for sid, data in self.mirrors.items()},
                "entries": {name: dict(entries) for name, entries in self.programs.entries.items() if entries},
            }  # fmt: skip

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
                errors.append(pb.Error(canonical_code=CODES.index(refused.code), message=str(refused)))
        self._fail_if_any(errors, context)
        return pb.WriteResponse()

    def _read(self, request: pb.ReadRequest, context: grpc.ServicerContext) -> Iterator[pb.ReadResponse]:
        errors: list[pb.Error] = []
        for entity in request.entities:
            try:
                self._authorised(request.client_id, request.p4_name)
                table = self.schema.by_id(entity.table_entry.table_id)
                self.requests.append(("read", table.name))
                self._faults("read", table.name, "before", context)
                with self.lock:
                    entries = list(self._entries(table, entity.table_entry, request.target.pipe_id))
                for start in range(0, len(entries), 256):
                    yield pb.ReadResponse(
                        entities=[pb.Entity(table_entry=entry) for entry in entries[start : start + 256]]
                    )
                errors.append(pb.Error())
            except Refused as refused:
                errors.append(pb.Error(canonical_code=CODES.index(refused.code), message=str(refused)))
        self._fail_if_any(errors, context)

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
            table = self.schema.by_id(operation.table_id)
            if operation.table_operations_type not in table.operations:
                raise Refused("INVALID_ARGUMENT", "Invalid operation Invalid arguments")
            self.requests.append((operation.table_operations_type, table.name))
            self.programs.sync(table)
            return
        entry = update.entity.table_entry
        table = self.schema.by_id(entry.table_id)
        self.requests.append((pb.Update.Type.Name(update.type).lower(), table.name))
        self._faults("write", table.name, "before", context)
        if self._faults("write", table.name, "instead", context):
            return
        with self.lock:
            if table.type in SERVICED:
                self._update_program(table, update.type, entry)
            elif table.name == "$PORT":
                self._update_port(table, update.type, entry)
            elif table.name == "$mirror.cfg":
                self._update_mirror(table, update.type, entry)
            else:
                self._update_fixed(table, update.type, entry, target.pipe_id)
        self._faults("write", table.name, "after", context)

    def _update_fixed(self, table: Table, kind: Any, entry: pb.TableEntry, pipe: int) -> None:
        has_key = entry.WhichOneof("value") == "key"
        if entry.is_default_entry and kind == pb.Update.INSERT:
            raise Refused("UNIMPLEMENTED", "INSERT of default entry is not supported. Please use MODIFY instead")
        api = (NAMES if has_key else DEFAULTS).get(kind, "")
        self._target(table, api, pipe)
        key = check_key(table, entry.key) if has_key else ()
        action, values = check_data(table, entry.data, complete=False)
        if kind == pb.Update.DELETE:
            self.tm.settings.pop((self._short(table), key, self._place(table, pipe)), None)
            return
        if action is not None:
            values["action"] = action.name
        self.tm.modify(self._short(table), key, self._place(table, pipe), values)

    def _update_port(self, table: Table, kind: Any, entry: pb.TableEntry) -> None:
        port = check_key(table, entry.key)[0]
        _, values = check_data(table, entry.data, complete=False)
        if kind == pb.Update.INSERT:
            self.tm.add_port(port, values)
        elif kind == pb.Update.MODIFY:
            self.tm.modify_port(port, values)
        else:
            self.tm.delete_port(port)

    def _update_mirror(self, table: Table, kind: Any, entry: pb.TableEntry) -> None:
        sid = check_key(table, entry.key)[0]
        if not 1 <= sid <= (1014 if self.chip == "tofino" else 255):
            raise Refused("INVALID_ARGUMENT", "Invalid arguments")
        if kind == pb.Update.DELETE:
            if self.mirrors.pop(sid, None) is None:
                raise Refused("NOT_FOUND", "Object not found")
            return
        action, values = check_data(table, entry.data, complete=False)
        if kind == pb.Update.INSERT and sid in self.mirrors:
            raise Refused("INVALID_ARGUMENT", "Table Add failed Invalid arguments")
        if kind == pb.Update.MODIFY and sid not in self.mirrors:
            raise Refused("NOT_FOUND", "Table Entry modify failed Object not found")
        assert action is not None
        defaults = {spec.name: _zero(spec) for spec in table.fields}
        self.mirrors[sid] = {**self.mirrors.get(sid, defaults), **values, "action": action.name}

    def _update_program(self, table: Table, kind: Any, entry: pb.TableEntry) -> None:
        if kind == pb.Update.DELETE and entry.WhichOneof("value") is None and not entry.is_default_entry:
            self.programs.clear(table)
            return
        if table.type != "MatchAction_Direct":
            index = check_key(table, entry.key)[0]
            _, values = check_data(table, entry.data, complete=False)
            for pipe in range(self.pipes):
                self.programs.hardware[table.name, index, pipe].update(values)
            return
        if entry.is_default_entry:
            raise Refused("UNIMPLEMENTED", "const default action Operation not supported")
        entries = self.programs.entries[table.name]
        key = check_key(table, entry.key)
        if kind == pb.Update.DELETE:
            if entries.pop(key, None) is None:
                raise Refused("NOT_FOUND", "Table Entry delete failed Object not found")
            return
        action, values = check_data(table, entry.data, complete=True)
        assert action is not None
        if kind == pb.Update.INSERT:
            if key in entries:
                raise Refused("ALREADY_EXISTS", "Table Add failed Already exists")
            if len(entries) >= table.size:
                raise Refused("RESOURCE_EXHAUSTED", "Table Add failed Not enough space")
        elif key not in entries:
            raise Refused("NOT_FOUND", "Table Entry modify failed Object not found")
        entries[key] = (action.id, values)

    # Reading

    def _entries(self, table: Table, asked: pb.TableEntry, pipe: int) -> Iterator[pb.TableEntry]:
        has_key = asked.WhichOneof("value") == "key"
        if table.type in ("Register", "Counter"):
            indices = [check_key(table, asked.key)[0]] if has_key else range(table.size)
            for index in indices:
                yield self._cell(table, index, pipe, asked.table_flags.from_hw)
        elif table.type == "MatchAction_Direct":
            entries = self.programs.entries[table.name]
            keys = [check_key(table, asked.key)] if has_key else list(entries)
            for key in keys:
                if key not in entries:
                    raise Refused("NOT_FOUND", "Object not found")
                action, values = entries[key]
                yield self._entry(table, key, values, action)
        elif table.name == "$PORT":
            port = check_key(table, asked.key)[0]
            yield self._entry(table, (port,), self.tm.port(port))
        elif table.name == "$PORT_STAT":
            port = check_key(table, asked.key)[0]
            self.tm.port(port)
            yield self._entry(table, (port,), self.statistics.get(port, {spec.name: 0 for spec in table.fields}))
        elif table.name == "$PORT_STR_INFO":
            name = check_key(table, asked.key)[0]
            found = [port for port in self.tm.ports if self.tm.port(port)["$PORT_NAME"] == name]
            if not found:
                raise Refused("NOT_FOUND", "Object not found")
            yield self._entry(table, (name,), {"$DEV_PORT": found[0]})
        elif table.name == "$mirror.cfg":
            sid = check_key(table, asked.key)[0]
            if sid not in self.mirrors:
                raise Refused("NOT_FOUND", "Object not found")
            yield self._entry(table, (sid,), self.mirrors[sid])
        elif table.name.endswith("device_configuration"):
            yield self._entry(table, None, {"sku": "fake", "num_pipes": self.pipes, "num_stages": 12})
        else:
            self._target(table, "tableEntryGet" if has_key else "tableDefaultEntryGet", pipe)
            key = check_key(table, asked.key) if has_key else ()
            data = self.tm.read(self._short(table), key, self._place(table, pipe))
            yield self._entry(table, key if has_key else None, data)

    def _cell(self, table: Table, index: int, pipe: int, from_hw: bool) -> pb.TableEntry:
        entry = pb.TableEntry(table_id=table.id)
        entry.key.fields.add(field_id=table.keys[0].id).exact.value = index.to_bytes(4, "big")
        for spec in table.fields:
            for number in self.programs.cell(table, index, spec, pipe, from_hw):
                entry.data.fields.add(field_id=spec.id).stream = number.to_bytes(spec.bytes, "big")
        return entry

    def _entry(self, table: Table, key: tuple[Any, ...] | None, data: dict[str, Any], action: int = 0) -> pb.TableEntry:
        entry = pb.TableEntry(table_id=table.id, is_default_entry=key is None)
        for spec, part in zip(table.keys, key or (), strict=bool(key)):
            item = entry.key.fields.add(field_id=spec.id)
            if spec.match == "Ternary":
                item.ternary.value, item.ternary.mask = (n.to_bytes(spec.bytes, "big") for n in part)
            elif spec.match == "LPM":
                item.lpm.value, item.lpm.prefix_len = part[0].to_bytes(spec.bytes, "big"), part[1]
            else:
                item.exact.value = part.to_bytes(spec.bytes, "big") if spec.is_integer else part.encode()
        named = data.get("action")
        chosen = next((one for one in table.actions if one.name == named or one.id == action), None)
        if chosen is not None:
            entry.data.action_id = chosen.id
        for spec in (chosen.fields if chosen else ()) + table.fields:
            if spec.name in data:
                encode_field(table, spec, data[spec.name], entry.data.fields.add())
        return entry

    def _target(self, table: Table, api: str, pipe: int) -> None:
        if api not in table.targets:
            raise Refused("UNIMPLEMENTED", "Operation not supported")
        wants = table.targets[api]
        if "pipe_id" not in wants:
            return
        if pipe == ALL_PIPES and "pipe_all" not in wants:
            raise Refused("INVALID_ARGUMENT", "a single pipe is needed Invalid arguments")
        if pipe != ALL_PIPES and pipe >= self.pipes:
            raise Refused("INVALID_ARGUMENT", "no such pipe Invalid arguments")

    def _place(self, table: Table, pipe: int) -> int:
        """Tables of the whole device have one place, whatever pipe was asked for."""
        per_pipe = any("pipe_id" in wants for api, wants in table.targets.items() if api != "tableDefaultEntryGet")
        return pipe if per_pipe else ALL_PIPES

    def _short(self, table: Table) -> str:
        return table.name.partition(".tm.")[2]


def _zero(spec: Any) -> Any:
    if spec.choices:
        return spec.choices[0]
    return False if spec.type == "bool" else 0
