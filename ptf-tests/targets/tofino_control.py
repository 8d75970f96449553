# SPDX-License-Identifier: Apache-2.0
"""The program's tables, mirror sessions, counters, registers and digests through BF Runtime.

Cases speak of ports 1 to 9 and the loopback, of priorities of which the larger wins, and of values and masks. Here
these become dev_ports, `$MATCH_PRIORITY` (the smaller wins) and BF Runtime's keys.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from narrows_tofino.bfrt.client import ALL_PIPES, Client, Operation
from narrows_tofino.bfrt.schema import Table
from narrows_tofino.bfrt.values import Data, DigestMessage, Key, KeyValue, Lpm, Ternary, Value, per_pipe
from narrows_tofino.chip.model import Chip
from narrows_tofino.chip.red import Wred
from narrows_tofino.writes.entries import AQM_TABLES, tables
from narrows_tofino.writes.mirror import MIRROR_HEADER_BYTES, session_length
from narrows_tofino.writes.planned import number
from narrows_tofino.writes.queue_aqms import meter_write
from p4runtime import Entry

from targets.base import CERTAIN, State

REGISTERS = (
    "flow_arrivals",
    "flow_departures",
    "flow_loss_drops",
    "flow_owner",
    "bottleneck_departures",
    "high_watermark",
    "bad_states",
    "taken_in",
    "next_out",
)
COUNTERS = ("arrival_counter", "departure_counter", "loss_counter", "delay_histogram")
# Which of them, and of those below, have a cell for each flow: too many to clear them all for every case.
FLOW_TABLES = (
    *("flow_arrivals", "flow_departures", "flow_loss_drops", "flow_owner", "flow_enqueue_drops", "flow_dequeue_drops"),
    *("arrival_counter", "departure_counter", "loss_counter"),
)
# Above this many flows it is quicker all the same.
BULK_FROM = 2000
# The same of the program that manages queues.
MANAGED_REGISTERS = ("flow_enqueue_drops", "flow_dequeue_drops")
MANAGED_COUNTERS = ("enqueue_drops", "dequeue_drops")
LARGEST_PRIORITY = (1 << 24) - 1
REPORT_BYTES = 98
EXACT_PORT = 0x1FF


def longest_report(chip: Chip) -> int:
    """Bytes of the longest report that a mirror session can carry: the limit counts the mirror header."""
    return (chip.max_mirror_length - 4) // 4 * 4 - MIRROR_HEADER_BYTES + REPORT_BYTES


class TofinoControl:
    """See `targets.base.Control`. ``ports`` are the dev_ports of the cases' ports, all in the pipe ``pipe``.

    Digests may come ``late_s`` after what they tell of. ``model``: it is the SDE's model of a chip.
    """

    def __init__(
        self, client: Client, chip: Chip, ports: Mapping[int, int], pipe: int, late_s: float, model: bool = False
    ) -> None:
        """Take a connected client.

        Raises:
            SchemaError: the switch serves another program.
        """
        self._client = client
        self._chip = chip
        self._ports = ports
        self._pipe = pipe
        self._late_s = late_s
        self._model = model
        self._sessions: dict[int, int] = {}
        self._report_lengths: dict[int, int] = {}
        # Flow indices that may have counts: a case, a digest or a report named them. None: any, as on a switch that was
        # in use before, where a model was started for this suite.
        self._touched: set[int] | None = set() if model else None
        schema = client.schema
        self.manages = any(name.endswith(f".{AQM_TABLES[0]}") for name in schema.tables)
        self._tables = tables(self.manages)
        registers = (*REGISTERS, *MANAGED_REGISTERS) if self.manages else REGISTERS
        counters = (*COUNTERS, *MANAGED_COUNTERS) if self.manages else COUNTERS
        self._registers = {name: schema.part(name, "Register") for name in registers}
        self._counters = {name: schema.part(name, "Counter") for name in counters}
        (digest,) = schema.digests.values()
        self._digest_fields = [field.name for field in digest.fields]

    def clear(self) -> None:
        """No entries, no mirror sessions, every register and counter 0, and no digest left to read."""
        for session in sorted(self._sessions):
            self.remove_mirror(session)
        for name in self._tables:
            self._client.clear(self._client.schema.table(name))
        while self._take_digests(self._late_s):
            pass
        for name, table in (*self._registers.items(), *self._counters.items()):
            if self._touched is None or name not in FLOW_TABLES or len(self._touched) >= BULK_FROM:
                self._client.clear(table)
                continue
            zeros = {field.name: 0 for field in table.fields}
            for index in sorted(self._touched):
                self._client.write(Operation.MODIFY, table, {table.keys[0].name: index}, zeros, pipe=ALL_PIPES)
        self._touched = set()
        self._report_lengths.clear()

    # --- entries

    def insert(self, *entries: Entry) -> None:
        """Add table entries."""
        for entry in entries:
            self._write(Operation.INSERT, entry)

    def modify(self, *entries: Entry) -> None:
        """Change what existing entries do."""
        for entry in entries:
            self._write(Operation.MODIFY, entry)

    def delete(self, *entries: Entry) -> None:
        """Remove table entries."""
        for entry in entries:
            table = self._table(entry)
            self._client.write(Operation.DELETE, table, self._key(table, entry))

    def _table(self, entry: Entry) -> Table:
        return self._client.schema.table(entry.table)

    def _write(self, operation: Operation, entry: Entry) -> None:
        table = self._table(entry)
        self._client.write(operation, table, self._key(table, entry), self._data(entry), entry.action or None)
        if entry.action == "encapsulate":
            bottleneck = entry.match["bottleneck"]
            assert isinstance(bottleneck, int)
            self._report_lengths[bottleneck] = entry.params["length"]
            for session, port in self._sessions.items():
                self._set_mirror(Operation.MODIFY, session, port)

    def _key(self, table: Table, entry: Entry) -> Key:
        key: dict[str, KeyValue] = {}
        for name, value in entry.match.items():
            if isinstance(value, int):
                key[name] = self._ports[value] if name.endswith("ingress_port") else value
            elif table.key(name).match == "LPM":
                key[name] = Lpm(*value)
            elif name == "ingress_port" and value[1] == EXACT_PORT:
                key[name] = Ternary(self._ports[value[0]], EXACT_PORT)
            else:
                key[name] = Ternary(*value)
        if any(field.name == "$MATCH_PRIORITY" for field in table.keys):
            key["$MATCH_PRIORITY"] = LARGEST_PRIORITY - entry.priority
        return key

    def _data(self, entry: Entry) -> Data:
        data: dict[str, Value] = dict(entry.params)
        for name in ("port", "loopback"):
            if name in entry.params:
                data[name] = self._ports[entry.params[name]]
        return data

    def set_average(self, index: int, settings: Wred) -> None:
        """The meter that RED decides by."""
        write = meter_write(index, settings)
        assert write.key is not None
        self._client.write(write.operation, self._client.schema.table(write.table), write.key, write.data)

    def lose_by_state(self, bottleneck: int, good: State, bad: State) -> None:
        """Lose frames as two states say; the program adds one to the chance of a loss in the bad one."""
        chances = {
            "enter_chance": good[1],
            "stay_chance": CERTAIN - bad[1],
            "good_chance": good[0],
            "bad_chance": bad[0] - 1,
        }
        self.insert(Entry("loss_states", {"bottleneck": bottleneck}, "set_chances", chances))

    # --- mirror sessions

    def add_mirror(self, session: int, port: int) -> None:
        """Let copies of a mirror session leave by a port."""
        self._set_mirror(Operation.INSERT, session, port)
        self._sessions[session] = port

    def remove_mirror(self, session: int) -> None:
        """Remove a mirror session."""
        self._client.write(Operation.DELETE, self._client.schema.table("$mirror.cfg"), {"$sid": session})
        del self._sessions[session]

    def _set_mirror(self, operation: Operation, session: int, port: int) -> None:
        """A session truncates: it is as long as the longest report that may go through it."""
        longest = min(max(self._report_lengths.values(), default=REPORT_BYTES), longest_report(self._chip))
        data: Data = {
            "$session_enable": True,
            "$direction": "EGRESS",
            "$ucast_egress_port": self._ports[port],
            "$ucast_egress_port_valid": True,
            "$egress_port_queue": 0,
            "$max_pkt_len": session_length(self._chip, longest, self._model),
        }
        self._client.write(operation, self._client.schema.table("$mirror.cfg"), {"$sid": session}, data, "$normal")

    # --- state

    def read_register(self, name: str, index: int) -> int:
        """One register cell of the pipe that all ports are in."""
        table = self._registers[name.partition(".")[0]]
        entry = self._client.read(table, {table.keys[0].name: index})
        return per_pipe(next(iter(entry.data.values())))[self._pipe]

    def touch(self, *indices: int) -> None:
        """Let the next `clear` set the cells of flow indices back."""
        if self._touched is not None:
            self._touched.update(indices)

    def write_register(self, name: str, index: int, value: int) -> None:
        """Set one register cell, in all pipes: a table is written as a whole."""
        table = self._registers[name.partition(".")[0]]
        (field,) = table.fields
        self.touch(index)
        self._client.write(Operation.MODIFY, table, {table.keys[0].name: index}, {field.name: value}, pipe=ALL_PIPES)

    def read_counters(self, name: str, indexes: Iterable[int]) -> list[tuple[int, int]]:
        """(packets, bytes) of cells of a counter array; 0 bytes where it counts packets only."""
        table = self._counters[name.partition(".")[0]]
        counts_bytes = any(field.name == "$COUNTER_SPEC_BYTES" for field in table.fields)
        self._client.execute(table, "Sync")
        cells = []
        for index in indexes:
            entry = self._client.read(table, {table.keys[0].name: index})
            size = number(entry, "$COUNTER_SPEC_BYTES") if counts_bytes else 0
            cells.append((number(entry, "$COUNTER_SPEC_PKTS"), size))
        return cells

    def enable_digest(self, name: str) -> None:
        """Nothing to do: a subscribed client gets every digest."""

    def digests(self, count: int, wait_s: float) -> list[list[int]]:
        """At most ``count`` digest messages, members in the order of the program."""
        messages: list[list[int]] = []
        deadline = time.monotonic() + wait_s
        while len(messages) < count and time.monotonic() < deadline:
            found = self._take_digests(max(0.0, deadline - time.monotonic()))
            messages += [[message.data[name] for name in self._digest_fields] for message in found]
            if found:
                deadline = time.monotonic() + wait_s
        return messages[:count]

    def _take_digests(self, wait_s: float) -> list[DigestMessage]:
        """What has come; each message tells of a flow whose packets are counted from then on."""
        found = self._client.digests(wait_s)
        self.touch(*(message.data["index"] for message in found))
        return found
