# SPDX-License-Identifier: Apache-2.0
"""Drives a switch with finsy."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import client_common
import finsy
from client_common import Names, Refused
from finsy.p4schema import P4ConfigAction
from finsy.proto import p4r
from google.protobuf import empty_pb2, text_format

WAIT_S = 5.0


def table_entry(given: dict[str, Any]) -> finsy.P4TableEntry:
    """A table entry as a user of finsy makes it."""
    match = {
        name: values[0] if len(values) == 1 else tuple(values) for name, (_, *values) in given.get("match", {}).items()
    }
    action = finsy.P4TableAction(given["action"], **given.get("params", {})) if given.get("action") else None
    return finsy.P4TableEntry(
        given["table"],
        match=finsy.P4TableMatch(match) if match else None,
        action=action,
        priority=given.get("priority", 0),
        is_default_action=given.get("default", False),
    )


class Driver:
    """One client."""

    def __init__(self, address: str) -> None:
        """Take the switch's address; nothing is sent."""
        self.address = address
        # Finsy lives on its loop: it answers arbitration messages while it is not asked for anything.
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self.arbitration: asyncio.Queue[list[Any]] = asyncio.Queue()
        self.digests: asyncio.Queue[finsy.P4DigestList] = asyncio.Queue()
        self.last: finsy.P4DigestList | None = None
        self.listening = False

    def handle(self, request: dict[str, Any]) -> Any:
        """Do what a request says."""
        done = asyncio.run_coroutine_threadsafe(getattr(self, request.pop("do"))(**request), self.loop)
        try:
            return done.result()
        except finsy.P4ClientError as error:
            updates = [(i, found.canonical_code.name, found.message) for i, found in error.details.items()]
            raise Refused(error.code.name, error.message, updates) from error

    async def connect(self, election_id: int, program: str | None = None, role: str | None = None) -> bool:
        """Open a session, and load a program; whether this client is the primary."""
        options = finsy.SwitchOptions(initial_election_id=election_id)
        if program is not None:
            p4info, device_config = client_common.artifacts(program)
            options = options(p4info=p4info, p4blob=device_config, p4force=True)
        if role is not None:
            options = options(role_name=role, role_config=empty_pb2.Empty())
        self.switch = finsy.Switch("switch", self.address, options)
        for event, code in ((finsy.SwitchEvent.BECOME_PRIMARY, "OK"), (finsy.SwitchEvent.BECOME_BACKUP, "BACKUP")):
            self.switch.ee.add_listener(event, lambda _, code=code: self._arbitrated(code))
        await asyncio.wait_for(self.switch.__aenter__(), WAIT_S)
        return self.switch.is_primary

    def _arbitrated(self, code: str) -> None:
        self.arbitration.put_nowait([{"BACKUP": "ALREADY_EXISTS"}.get(code, code), self.switch.primary_id])

    async def adopt(self) -> None:
        """Take the program that the switch has."""
        adopt: Any = self.switch._get_pipeline
        await adopt()

    async def status(self) -> list[Any]:
        """Code and election id of the next arbitration message that comes by itself."""
        return await asyncio.wait_for(self.arbitration.get(), WAIT_S)

    async def version(self) -> str:
        """The P4Runtime version that the switch tells."""
        return str(self.switch.p4runtime_version)

    async def pipeline(self, action: str, program: str | None = None, device_config: str | None = None) -> None:
        """SetForwardingPipelineConfig with any action."""
        config = p4r.ForwardingPipelineConfig()
        if program is not None:
            schema = finsy.P4Schema(*client_common.artifacts(program))
            config = schema.get_pipeline_config()
            if device_config is not None:
                config.p4_device_config = device_config.encode()
        request = p4r.SetForwardingPipelineConfigRequest(
            device_id=1, action=P4ConfigAction[action].vt(), config=config if program is not None else None
        )
        assert self.switch._p4client is not None
        await self.switch._p4client.request(request)

    async def write(self, kind: str, entry: dict[str, Any]) -> None:
        """Insert, modify or delete a table entry."""
        await getattr(self.switch, kind)([table_entry(entry)])

    async def batch(self, updates: list[tuple[str, dict[str, Any]]]) -> None:
        """Several updates in one request."""
        sign = {"insert": lambda entry: +entry, "modify": lambda entry: ~entry, "delete": lambda entry: -entry}
        await self.switch.write([sign[kind](table_entry(entry)) for kind, entry in updates])

    def _described(self, entry: finsy.P4TableEntry) -> dict[str, Any]:
        names = Names(self.switch.p4info.p4info)
        return names.table_entry(entry.encode_entry(self.switch.p4info))

    async def read(self, entry: dict[str, Any], counters: bool = False) -> list[dict[str, Any]]:
        """Table entries that match one with fields left out."""
        wanted = table_entry(entry)
        if counters:
            wanted.counter_data = finsy.P4CounterData()
        answers: Any = self.switch.read(wanted)
        return [self._described(found) async for found in answers]

    async def clear(self) -> None:
        """Delete all entries, as finsy does it."""
        await self.switch.delete_all()

    async def raw_write(self, kind: str, entity: str) -> None:
        """Any entity, in protobuf's text form."""
        update = p4r.Update(type=p4r.Update.Type.Value(kind.upper()))
        text_format.Parse(entity, update.entity)
        await self.switch.write([update])

    async def raw_read(self, entity: str) -> list[str]:
        """Any entities, in protobuf's text form."""
        request = p4r.ReadRequest(device_id=1)
        text_format.Parse(entity, request.entities.add())
        assert self.switch._p4client is not None
        answers = self.switch._p4client.request_iter(request)
        return [
            text_format.MessageToString(found, as_one_line=True)
            async for answer in answers
            for found in answer.entities
        ]

    async def counters(self, name: str, index: int | None = None) -> dict[int, list[int]]:
        """Packets and bytes by index."""
        found: Any = self.switch.read(finsy.P4CounterEntry(name, index=index))
        return {cell.index or 0: [cell.packet_count, cell.byte_count] async for cell in found}

    async def set_counter(self, name: str, index: int, packets: int, octets: int) -> None:
        """Write one cell."""
        data = finsy.P4CounterData(packet_count=packets, byte_count=octets)
        await self.switch.modify([finsy.P4CounterEntry(name, index=index, data=data)])

    async def direct_counters(self, name: str, entry: dict[str, Any] | None = None) -> list[list[Any]]:
        """Entry, packets and bytes of each direct counter, or of an entry's."""
        wanted = finsy.P4DirectCounterEntry(name, table_entry=table_entry(entry) if entry is not None else None)
        found: Any = self.switch.read(wanted)
        return [
            [self._described(counter.table_entry), counter.packet_count, counter.byte_count]
            async for counter in found
            if counter.table_entry is not None
        ]

    async def set_direct_counter(self, name: str, entry: dict[str, Any], packets: int) -> None:
        """Write the packets of an entry's counter."""
        data = finsy.P4CounterData(packet_count=packets)
        await self.switch.modify([finsy.P4DirectCounterEntry(name, table_entry=table_entry(entry), data=data)])

    async def clone_session(self, kind: str, session: int, ports: list[int], length: int = 0) -> None:
        """Insert, modify or delete a clone session."""
        entry = finsy.P4CloneSessionEntry(session, packet_length_bytes=length, replicas=ports)
        await getattr(self.switch, kind)([entry])

    async def clone_sessions(self) -> list[list[Any]]:
        """Number, ports and length of each clone session."""
        found: Any = self.switch.read(finsy.P4CloneSessionEntry())
        return [[session.session_id, list(session.replicas), session.packet_length_bytes] async for session in found]

    async def digest(self, kind: str, name: str, size: int = 0, wait_ns: int = 0, ack_ns: int = 0) -> None:
        """Insert, modify or delete a digest's configuration."""
        entry = finsy.P4DigestEntry(name, max_list_size=size, max_timeout_ns=wait_ns, ack_timeout_ns=ack_ns)
        if not self.listening:
            self.listening = True
            listening = asyncio.Event()
            self.switch.create_task(self._listen(name, listening), background=True)
            await listening.wait()
        await getattr(self.switch, kind)([entry])

    async def _listen(self, name: str, listening: asyncio.Event) -> None:
        lists = self.switch.read_digests(name)
        # Its queue exists once it is asked for the first list.
        asyncio.get_running_loop().call_soon(listening.set)
        async for found in lists:
            self.digests.put_nowait(found)

    async def next_digest(self, name: str, wait_s: float) -> list[Any] | None:
        """Number and records of the next list, or nothing for so long."""
        try:
            found = await asyncio.wait_for(self.digests.get(), wait_s)
        except TimeoutError:
            return None
        self.last = found
        return [found.list_id, [list(record.values()) for record in found.data]]

    async def acknowledge(self, list_id: int) -> None:
        """Acknowledge a list."""
        assert self.last is not None and self.last.list_id == list_id
        await self.switch.write([self.last.ack()])


if __name__ == "__main__":
    client_common.serve(lambda address: Driver(address).handle)
