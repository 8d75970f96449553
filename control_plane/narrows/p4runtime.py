# SPDX-License-Identifier: Apache-2.0
"""A P4Runtime session with one switch: master arbitration, pipeline, writes and reads by name.

Speaks to the softswitch and to BMv2's simple_switch_grpc alike.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import grpc
from finsy import P4Client, P4ClientError, P4CloneSessionEntry, P4Schema, P4TableEntry
from finsy.p4entity import P4Entity, decode_entity, encode_entities
from finsy.proto import U128, p4r

from narrows.errors import RunError

DEVICE_ID = 1
ELECTION_ID = 1

Writable = P4TableEntry | P4CloneSessionEntry


class P4RuntimeSession:
    """The primary controller of a switch, from `open` to `close`."""

    def __init__(self, address: str, p4info: Path, device_config: Path) -> None:
        """Name the switch and the program.

        Args:
            address: gRPC address, ``unix:/path`` or ``host:port``.
            p4info: P4Info in text form.
            device_config: what the target runs, the BMv2 JSON for v1model targets.
        """
        self.schema = P4Schema(p4info, device_config)
        self._client = P4Client(address)

    @property
    def channel(self) -> grpc.aio.Channel:
        """The open channel, for services that the switch has beside P4Runtime."""
        channel = self._client.channel
        if channel is None:
            raise RunError("the P4Runtime session is not open")
        return channel

    async def open(self) -> None:
        """Connect and become primary.

        Raises:
            RunError: the switch does not answer, or another controller is primary.
        """
        await self._client.open(schema=self.schema, complete_request=self._complete)
        arbitration = p4r.MasterArbitrationUpdate(device_id=DEVICE_ID, election_id=U128.encode(ELECTION_ID))
        try:
            await self._client.send(p4r.StreamMessageRequest(arbitration=arbitration))
            answer = await self._client.receive()
        except (P4ClientError, RuntimeError) as error:
            raise RunError(f"P4Runtime: the switch does not take part in arbitration: {error}") from error
        if answer.arbitration.status.code != 0:
            raise RunError(f"P4Runtime: another controller is primary: {answer.arbitration.status.message}")

    async def close(self) -> None:
        """End the session; safe to call at any time."""
        await self._client.close()

    async def push_pipeline(self) -> None:
        """Load the program and put it to work.

        Raises:
            RunError: the switch refuses the program.
        """
        request = p4r.SetForwardingPipelineConfigRequest(
            action=p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT,
            config=self.schema.get_pipeline_config(),
        )
        try:
            await self._client.request(request)
        except P4ClientError as error:
            raise RunError(f"P4Runtime: the switch refuses the program: {error}") from error

    async def insert(self, entities: Sequence[Writable]) -> None:
        """Insert entities in one request.

        Raises:
            RunError: the switch refuses one of them.
        """
        updates = [p4r.Update(type=p4r.Update.INSERT, entity=entity.encode(self.schema)) for entity in entities]
        try:
            await self._client.request(p4r.WriteRequest(updates=updates))
        except P4ClientError as error:
            raise RunError(f"P4Runtime: the switch refuses an entry: {error}") from error

    async def read(self, entity: P4Entity) -> AsyncIterator[P4Entity]:
        """Read all entities that match one with fields left out.

        Raises:
            RunError: the switch cannot read this.
        """
        request = p4r.ReadRequest(entities=encode_entities([entity], self.schema))
        try:
            async for answer in self._client.request_iter(request):
                for found in answer.entities:
                    yield decode_entity(found, self.schema)
        except P4ClientError as error:
            raise RunError(f"P4Runtime: the switch cannot read: {error}") from error

    def _complete(self, message: object) -> None:
        """Fill in what every request carries."""
        if isinstance(message, p4r.WriteRequest | p4r.SetForwardingPipelineConfigRequest):
            message.election_id.CopyFrom(U128.encode(ELECTION_ID))
        if isinstance(message, p4r.WriteRequest | p4r.SetForwardingPipelineConfigRequest | p4r.ReadRequest):
            message.device_id = DEVICE_ID
