# SPDX-License-Identifier: Apache-2.0
"""The SDE's own ``bfrt_grpc.client`` behind our interface, where a lab has it on PYTHONPATH."""

from __future__ import annotations

import importlib
import queue
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from narrows_tofino.bfrt import sde_module
from narrows_tofino.bfrt.client import ALL_PIPES, Client, Endpoint, Operation, Write, describe, while_in_use
from narrows_tofino.bfrt.errors import BfrtError, ConnectionLost, Refusal, SwitchRefused, code_name
from narrows_tofino.bfrt.schema import Schema, Table
from narrows_tofino.bfrt.values import Data, DigestMessage, Entry, Key, KeyValue, Lpm, Ternary, Value

# Without these a MODIFY by this client clears the entry's counters.
_KEEP = {"reset_ttl": False, "reset_stats": False}
_FROM_HARDWARE = {"from_hw": True}
_Answer = TypeVar("_Answer")


class SdeClient(Client):
    """See `Client`."""

    kind = "sde"

    def __init__(self, endpoint: Endpoint) -> None:
        """Subscribe, bind to the program and fetch the schema.

        Raises:
            ConnectionLost: no answer, or the program is bound to another client or absent.
        """
        self._endpoint = endpoint
        self._closed = False
        try:
            self._gc: Any = sde_module.load()
        except (ImportError, TypeError) as error:
            raise BfrtError(
                f"the SDE's client cannot be imported: {error}; fix: its site-packages on PYTHONPATH (docs/tofino.md), "
                "or switch.client: own"
            ) from None
        self._interface: Any = self._subscribe()
        sde_module.add_deadlines(self._interface.stub, endpoint.timeout_s)
        try:
            self._bind()
            self._info: Any = self._answered(lambda: self._interface.bfrt_info_get(endpoint.program))
            self.schema = self._answered(self._fetch_schema)
        except BaseException:
            self.close()
            raise

    def read(self, table: Table, key: Key, *, pipe: int = ALL_PIPES) -> Entry:
        """See `Client.read`."""
        theirs = self._table(table)
        found = self._entries(
            table,
            key,
            pipe,
            lambda target: theirs.entry_get(target, [theirs.make_key(self._key(table, key))], flags=_FROM_HARDWARE),
        )
        if not found:
            raise SwitchRefused(describe(table, key, pipe), (Refusal(0, "NOT_FOUND", "the switch sent no entry"),))
        return found[0]

    def read_all(self, table: Table, *, pipe: int = ALL_PIPES, from_hw: bool = True) -> list[Entry]:
        """See `Client.read_all`."""
        theirs = self._table(table)
        flags = {"from_hw": from_hw}
        found = self._entries(table, None, pipe, lambda target: theirs.entry_get(target, flags=flags))
        return [entry for entry in found if not entry.is_default]

    def read_default(self, table: Table, *, pipe: int = ALL_PIPES) -> Entry:
        """See `Client.read_default`."""
        theirs = self._table(table)
        found = self._entries(table, None, pipe, lambda target: theirs.default_entry_get(target, flags=_FROM_HARDWARE))
        if not found:
            raise SwitchRefused(describe(table, None, pipe), (Refusal(0, "NOT_FOUND", "the switch sent no entry"),))
        return found[0]

    def _apply(self, write: Write) -> None:
        operation, table, key = write.operation, write.table, write.key
        theirs = self._table(table)

        def call(target: Any) -> None:
            payload = None
            if write.data is not None:
                # This client takes exact action names only.
                name = None if write.action is None else table.action(write.action).name
                payload = theirs.make_data(self._data(table, write.data, write.action), name)
            if key is None:
                if operation is Operation.DELETE:
                    theirs.default_entry_reset(target)
                else:
                    theirs.default_entry_set(target, payload)
                return
            keys = [theirs.make_key(self._key(table, key))]
            if operation is Operation.INSERT:
                theirs.entry_add(target, keys, [payload])
            elif operation is Operation.MODIFY:
                theirs.entry_mod(target, keys, [payload], flags=_KEEP)
            else:
                theirs.entry_del(target, keys)

        self._call(str(write), write.pipe, call)

    def clear(self, table: Table) -> None:
        """See `Client.clear`."""
        theirs = self._table(table)
        self._call(f"clear of {table.name}", ALL_PIPES, lambda target: theirs.entry_del(target))

    def execute(self, table: Table, operation: str, *, pipe: int = ALL_PIPES) -> None:
        """See `Client.execute`."""
        theirs = self._table(table)
        self._call(f"{operation} of {table.name}", pipe, lambda target: theirs.operations_execute(target, operation))

    def digests(self, timeout_s: float) -> list[DigestMessage]:
        """See `Client.digests`."""
        found: list[DigestMessage] = []
        wait = timeout_s
        while True:
            try:
                batch = self._interface.digest_get(timeout=max(wait, 0.001))
            except (RuntimeError, queue.Empty):
                return found
            spec = self.schema.digest_by_id(batch.digest_id)
            learn = self._info.learn_get(spec.name)
            for data in learn.make_data_list(batch):
                numbers = {name: value for name, value in data.to_dict().items() if isinstance(value, int)}
                found.append(DigestMessage(spec.name, batch.target.pipe_id, numbers))
            wait = 0

    def alive(self) -> bool:
        """See `Client.alive`. The thread that listens to the stream ends with it."""
        return not self._closed and self._interface.stream_recv_thread.is_alive()

    def close(self) -> None:
        """See `Client.close`."""
        if not self._closed:
            self._closed = True
            self._interface.tear_down_stream()
            self._interface.channel.close()

    def _subscribe(self) -> Any:
        # Only what is read may be asked for: this client's queues have no bound.
        wanted = self._gc.Notifications(
            enable_learn=True,
            enable_idletimeout=False,
            enable_port_status_change=False,
            enable_entry_active=False,
            enable_selector_update_change=False,
        )
        endpoint = self._endpoint
        try:
            return self._gc.ClientInterface(
                grpc_addr=endpoint.address,
                client_id=endpoint.client_id,
                device_id=endpoint.device,
                notifications=wanted,
                timeout=1,
                num_tries=max(1, round(endpoint.timeout_s)),
            )
        except (RuntimeError, self._gc.BfruntimeRpcException):
            # This client does not tell one from the other.
            raise ConnectionLost(
                f"switch {endpoint.name}: no answer in {endpoint.timeout_s:g} s, or the subscription is refused: "
                "client id is taken"
            ) from None

    def _answered(self, call: Callable[[], _Answer]) -> _Answer:
        """Call for the schema.

        Raises:
            ConnectionLost: there is no answer.
            BfrtError: the program is not among what is served, or a document is not JSON.
        """
        endpoint = self._endpoint
        try:
            return call()
        except BfrtError:
            raise
        except ValueError as error:
            raise BfrtError(f"switch {endpoint.name}: the schema of the switch is not JSON: {error}") from None
        except (RuntimeError, StopIteration):
            raise BfrtError(f"switch {endpoint.name} runs no program '{endpoint.program}'") from None
        except self._gc.BfruntimeRpcException as error:
            reason = error.grpc_error_get()
            raise ConnectionLost(
                f"switch {endpoint.name}: no schema: {reason.code().name}: {reason.details()}"
            ) from None

    def _bind(self) -> None:
        try:
            self._interface.bind_pipeline_config(self._endpoint.program)
        except self._gc.BfruntimeForwardingRpcException as error:
            reason = error.grpc_error_get()
            if reason.code().name == "ALREADY_EXISTS":
                raise ConnectionLost(
                    f"switch {self._endpoint.name}: program '{self._endpoint.program}' is bound to another BF "
                    "Runtime client; one client a program is allowed: end the other one"
                ) from None
            raise ConnectionLost(
                f"switch {self._endpoint.name}: cannot bind to program '{self._endpoint.program}': "
                f"{reason.code().name}: {reason.details()}"
            ) from None

    def _fetch_schema(self) -> Schema:
        """The served documents once more, in our reading: names, widths and choices for messages and checks."""
        pb = importlib.import_module("bfrt_grpc.bfruntime_pb2")
        request = pb.GetForwardingPipelineConfigRequest(
            device_id=self._endpoint.device, client_id=self._endpoint.client_id
        )
        answer = self._interface.stub.GetForwardingPipelineConfig(request)
        program = next(config for config in answer.config if config.p4_name == self._endpoint.program)
        return Schema.parse(program.bfruntime_info, answer.non_p4_config.bfruntime_info)

    def _table(self, table: Table) -> Any:
        return self._info.table_get(table.name)

    def _key(self, table: Table, key: Key) -> list[Any]:
        tuples = []
        for name, value in key.items():
            spec = table.key(name)
            if spec.match == "Ternary":
                pattern = value if isinstance(value, Ternary) else Ternary(int(str(value)), (1 << spec.bits) - 1)
                tuples.append(self._gc.KeyTuple(name, pattern.value, mask=pattern.mask))
            elif isinstance(value, Lpm):
                tuples.append(self._gc.KeyTuple(name, value.value, prefix_len=value.prefix_len))
            else:
                tuples.append(self._gc.KeyTuple(name, value))
        return tuples

    def _data(self, table: Table, data: Data, action: str | None) -> list[Any]:
        tuples = []
        for name, value in data.items():
            spec = table.field(name, action)
            if spec.repeated:
                tuples.append(self._gc.DataTuple(name, int_arr_val=value))
            elif spec.type == "bool":
                tuples.append(self._gc.DataTuple(name, bool_val=value))
            elif spec.type == "float":
                tuples.append(self._gc.DataTuple(name, float_val=value))
            elif spec.is_integer:
                tuples.append(self._gc.DataTuple(name, val=value))
            else:
                tuples.append(self._gc.DataTuple(name, str_val=value))
        return tuples

    def _entries(self, table: Table, key: Key | None, pipe: int, get: Callable[[Any], Any]) -> list[Entry]:
        # Reads are lazy: errors come out only while the answer is walked through.
        answers = self._call(f"reading {describe(table, key, pipe)}", pipe, lambda target: list(get(target)))
        return [self._entry(table, answer[0], answer[1]) for answer in answers]

    def _entry(self, table: Table, data: Any, key: Any) -> Entry:
        values: dict[str, Value] = {} if data is None else dict(data.to_dict())
        action = values.pop("action_name", None)
        is_default = bool(values.pop("is_default_entry", False))
        return Entry(
            key={} if key is None else self._decoded_key(table, key.to_dict()),
            data=values,
            action=str(action) if action else None,
            is_default=is_default,
        )

    def _decoded_key(self, table: Table, raw: Mapping[str, Mapping[str, Any]]) -> dict[str, KeyValue]:
        key: dict[str, KeyValue] = {}
        for name, parts in raw.items():
            match table.key(name).match:
                case "Ternary":
                    key[name] = Ternary(parts["value"], parts["mask"])
                case "LPM":
                    key[name] = Lpm(parts["value"], parts["prefix_len"])
                case _:
                    key[name] = parts["value"]
        return key

    def _call(self, what: str, pipe: int, call: Callable[[Any], Any]) -> Any:
        target = self._gc.Target(device_id=self._endpoint.device, pipe_id=pipe)

        def once() -> Any:
            if not self.alive():
                raise ConnectionLost(f"switch {self._endpoint.name}: the switch ended the session")
            try:
                return call(target)
            except self._gc.BfruntimeRpcException as error:
                refusals = tuple(
                    Refusal(index, code_name(one.canonical_code), one.message) for index, one in error.sub_errors_get()
                )
                if refusals:
                    raise SwitchRefused(what, refusals) from None
                reason = error.grpc_error_get()
                raise ConnectionLost(
                    f"switch {self._endpoint.name}: {what}: {reason.code().name}: {reason.details()}"
                ) from None

        return while_in_use(self._endpoint.timeout_s, once)
