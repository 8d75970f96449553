# SPDX-License-Identifier: Apache-2.0
"""A P4Runtime session with one switch: master arbitration, pipeline, writes and reads by name.

Speaks to the softswitch and to BMv2's simple_switch_grpc alike.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Literal, cast

import grpc
from finsy import P4ClientError, P4CloneSessionEntry, P4DigestEntry, P4DigestList, P4Schema, P4TableEntry
from finsy.p4entity import P4Entity, decode_entity, encode_entities
from finsy.proto import U128, p4r, p4r_grpc

from narrows.errors import RunError
from narrows.experiment.plan import FIRST_DEVICE
from narrows.switch.left_entries import canonical
from narrows.switch.readings import DIGEST_RECORDS, DIGEST_WAIT_NS

ELECTION_ID = U128.encode(1)
TIMEOUT_S = 10.0
MAX_MESSAGE_BYTES = 64 << 20

Writable = P4TableEntry | P4CloneSessionEntry | P4DigestEntry


class P4RuntimeSession:
    """The primary controller of a switch, from `open` to `close`."""

    def __init__(
        self,
        address: str,
        p4info: Path,
        device_config: Path,
        prompt: bool = False,
        role: str = "",
        device_id: int = FIRST_DEVICE,
    ) -> None:
        """Name the switch and the program.

        Args:
            address: gRPC address, ``unix:/path`` or ``host:port``.
            p4info: P4Info in text form.
            device_config: what the target runs, the BMv2 JSON for v1model targets.
            prompt: no call waits for the clock; of an ``address`` that is a Unix socket only.
            role: in which it is the primary.
            device_id: of the part of the switch that runs the program.
        """
        self.schema = P4Schema(p4info, device_config)
        self._address = address
        self._prompt = prompt
        self._role = role
        self._device_id = device_id
        self._channel: grpc.aio.Channel | None = None
        self._stub: Any = None
        self._stream: Any = None
        self._listener: asyncio.Task[None] | None = None
        self._digests: list[Any] = []

    @property
    def channel(self) -> grpc.aio.Channel:
        """The open channel, for services that the switch has beside P4Runtime."""
        if self._channel is None:
            raise RunError("the P4Runtime session is not open")
        return self._channel

    async def open(self) -> None:
        """Connect and become primary.

        Raises:
            RunError: the switch does not answer, or another controller is primary.
        """
        self._channel = self._connect()
        self._stub = p4r_grpc.P4RuntimeStub(self._channel)
        role = p4r.Role(name=self._role) if self._role else None
        arbitration = p4r.MasterArbitrationUpdate(device_id=self._device_id, election_id=ELECTION_ID, role=role)
        self._stream = self._stub.StreamChannel(wait_for_ready=True)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await self._stream.write(p4r.StreamMessageRequest(arbitration=arbitration))
                answer = await self._stream.read()
        except TimeoutError:
            raise RunError(f"P4Runtime: the switch at {self._address} does not answer") from None
        except grpc.aio.AioRpcError as error:
            raise _refused("arbitration", error) from error
        if not isinstance(answer, p4r.StreamMessageResponse):
            raise RunError("P4Runtime: the switch ended the session during arbitration")
        if answer.arbitration.status.code != 0:
            raise RunError(f"P4Runtime: another controller is primary: {answer.arbitration.status.message}")

    async def wait_for_other_primary(self) -> None:
        """Wait until another client is the primary of the default role; this one must have a role of its own.

        Raises:
            RunError: the switch ends the session.
        """
        stream = self._stub.StreamChannel(wait_for_ready=True)
        try:
            # Without an election id it is never the primary, and hears who is.
            backup = p4r.MasterArbitrationUpdate(device_id=self._device_id)
            await stream.write(p4r.StreamMessageRequest(arbitration=backup))
            while isinstance(answer := await stream.read(), p4r.StreamMessageResponse):
                if answer.arbitration.status.code == grpc.StatusCode.ALREADY_EXISTS.value[0]:
                    return
        finally:
            stream.cancel()
        raise RunError("P4Runtime: the switch ended the session")

    async def wait_until_replaced(self) -> None:
        """Wait until another client has become the primary in place of this one, where a switch knows no roles.

        Raises:
            RunError: the switch ends the session.
        """
        while isinstance(message := await self._stream.read(), p4r.StreamMessageResponse):
            if message.WhichOneof("update") == "arbitration" and message.arbitration.status.code:
                return
        raise RunError("P4Runtime: the switch ended the session")

    def _connect(self) -> grpc.aio.Channel:
        if self._prompt:
            # Most runs have no use for it.
            from narrows.switch.asyncio_channel import AsyncioChannel

            return cast("grpc.aio.Channel", AsyncioChannel(self._address.removeprefix("unix:")))
        options = [
            # For a Unix socket gRPC would send its path, which is not a valid :authority: strict servers refuse it.
            ("grpc.default_authority", "localhost"),
            ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
        ]
        return grpc.aio.insecure_channel(self._address, options=options)

    async def close(self) -> None:
        """End the session; safe to call at any time."""
        if self._listener is not None:
            self._listener.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._listener
            self._listener = None
        if self._stream is not None:
            self._stream.cancel()
            self._stream = None
        if self._channel is not None:
            await self._channel.close(None)
            self._channel = None

    async def push_pipeline(self) -> None:
        """Load the program and put it to work.

        Raises:
            RunError: the switch refuses the program.
        """
        request = p4r.SetForwardingPipelineConfigRequest(
            device_id=self._device_id,
            role=self._role,
            election_id=ELECTION_ID,
            action=p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT,
            config=self.schema.get_pipeline_config(),
        )
        try:
            await self._stub.SetForwardingPipelineConfig(request, timeout=TIMEOUT_S)
        except grpc.aio.AioRpcError as error:
            raise _refused("the switch refuses the program", error) from error

    async def insert(self, entities: Sequence[Writable]) -> None:
        """Insert entities in one request.

        Raises:
            RunError: the switch refuses one of them.
        """
        await self._write("INSERT", entities)

    async def modify(self, entities: Sequence[Writable]) -> None:
        """Change entities in one request.

        Raises:
            RunError: the switch refuses one of them.
        """
        await self._write("MODIFY", entities)

    async def delete(self, entities: Sequence[Writable]) -> None:
        """Delete entities in one request.

        Raises:
            RunError: the switch refuses one of them.
        """
        await self._write("DELETE", entities)

    async def _write(self, kind: Literal["INSERT", "MODIFY", "DELETE"], entities: Sequence[Writable]) -> None:
        what = p4r.Update.Type.Value(kind)
        await self.update([p4r.Update(type=what, entity=entity.encode(self.schema)) for entity in entities])

    async def update(self, updates: Sequence[p4r.Update]) -> None:
        """Make updates in one request.

        Raises:
            RunError: the switch refuses one of them.
        """
        request = p4r.WriteRequest(device_id=self._device_id, role=self._role, election_id=ELECTION_ID, updates=updates)
        try:
            await self._stub.Write(request, timeout=TIMEOUT_S)
        except grpc.aio.AioRpcError as error:
            raise _refused("the switch refuses an entry", error, request) from error

    async def read(self, entities: Sequence[P4Entity]) -> AsyncIterator[P4Entity]:
        """Read all entities that match those given; a field that is left out matches everything.

        Raises:
            RunError: the switch cannot read this.
        """
        request = p4r.ReadRequest(device_id=self._device_id, entities=encode_entities(entities, self.schema))
        try:
            async for answer in self._stub.Read(request, timeout=TIMEOUT_S):
                for found in answer.entities:
                    yield decode_entity(found, self.schema)
        except grpc.aio.AioRpcError as error:
            raise _refused("the switch cannot read", error) from error

    async def read_registers(self, cells: Sequence[p4r.RegisterEntry]) -> list[int]:
        """The values of cells of registers, in their order, read in one request.

        Raises:
            RunError: the switch cannot read one of them.
        """
        request = p4r.ReadRequest(
            device_id=self._device_id, entities=[p4r.Entity(register_entry=cell) for cell in cells]
        )
        found: dict[tuple[int, int], int] = {}
        try:
            async for answer in self._stub.Read(request, timeout=TIMEOUT_S):
                for entity in answer.entities:
                    entry = entity.register_entry
                    found[entry.register_id, entry.index.index] = int.from_bytes(entry.data.bitstring, "big")
        except grpc.aio.AioRpcError as error:
            raise _refused("the switch cannot read a register", error) from error
        return [found[cell.register_id, cell.index.index] for cell in cells]

    async def require(self, entities: Sequence[Writable]) -> None:
        """Read back entries that were inserted: their loss, ECN threshold and ports are what a run rests on.

        Raises:
            RunError: the switch does not have one of them as it was asked for, or cannot read it.
        """
        await self.require_encoded([entity.encode(self.schema) for entity in entities])

    async def require_encoded(self, asked: Sequence[p4r.Entity]) -> None:
        """`require` of table entries and clone sessions as they are sent."""
        # Whole tables: asked for one entry that is not there, a switch answers with an error.
        request = p4r.ReadRequest(device_id=self._device_id)
        request.entities.add().packet_replication_engine_entry.clone_session_entry.SetInParent()
        entries = [entity.table_entry for entity in asked if entity.HasField("table_entry")]
        metered = {entry.table_id for entry in entries if entry.HasField("meter_config")}
        for table in {entry.table_id for entry in entries}:
            wanted = request.entities.add().table_entry
            wanted.table_id = table
            if table in metered:
                wanted.meter_config.SetInParent()
        found: set[bytes] = set()
        try:
            async for answer in self._stub.Read(request, timeout=TIMEOUT_S):
                found.update(_form(entity) for entity in answer.entities)
        except grpc.aio.AioRpcError as error:
            raise _refused("the switch cannot read its entries", error) from error
        wrong = [decode_entity(entity, self.schema) for entity in asked if _form(entity) not in found]
        if wrong:
            raise RunError("\n".join(f"the switch does not have the entry that was asked for: {one}" for one in wrong))

    async def subscribe(self, digest: str, records: int = DIGEST_RECORDS) -> None:
        """Have the switch report so many records of a digest at once from now on; `take_digests` gives them.

        Raises:
            RunError: the switch refuses.
        """
        await self.insert([P4DigestEntry(digest, max_list_size=records, max_timeout_ns=DIGEST_WAIT_NS)])
        if self._listener is None:
            self._listener = asyncio.create_task(self._listen())

    def take_digests(self) -> list[Any]:
        """Records that have arrived since the last call, in order."""
        taken, self._digests = self._digests, []
        return taken

    async def _listen(self) -> None:
        """Sort what the switch sends by itself, until the session ends; that it ended shows in the next call."""
        with contextlib.suppress(grpc.aio.AioRpcError):
            while isinstance(message := await self._stream.read(), p4r.StreamMessageResponse):
                if message.WhichOneof("update") == "digest":
                    self._digests += P4DigestList.decode(message, self.schema).data


def _form(entity: p4r.Entity) -> bytes:
    """What two equal entities have in common."""
    return canonical(entity).SerializeToString(deterministic=True)


def _refused(what: str, error: grpc.aio.AioRpcError, request: p4r.WriteRequest | None = None) -> RunError:
    """An error whose message has the details that P4Runtime hides in the trailing metadata."""
    return RunError(f"P4Runtime: {what}: {P4ClientError(error, what, msg=request)}")
