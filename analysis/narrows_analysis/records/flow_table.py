# SPDX-License-Identifier: Apache-2.0
"""Which flow of the experiment a report belongs to: flow index and signature -> 5-tuple -> entry of run.json."""

from __future__ import annotations

import functools
import ipaddress
from collections import defaultdict
from collections.abc import Set
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from narrows_formats import files
from narrows_formats.flow_names import ANYWHERE

from narrows_analysis.errors import AnalysisError
from narrows_analysis.records.five_tuple import FiveTuple
from narrows_analysis.records.run_directory import FlowSpec, Run

Int64Array = npt.NDArray[np.int64]
OTHER = -1
# Of a table of flow keys; where a flow's first packet has a time, the last one is there, too.
KEY_NUMBERS = ("bottleneck", "flow", "signature", "protocol", "src_port", "dst_port", "first_timestamp")
KEY_ADDRESSES = ("src", "dst")
Key = tuple[int, int]
_FIRST = attrgetter("first_timestamp")


@dataclass
class FlowTable:
    """Report keys (flow index, signature) of the flows of a run at one link.

    `keys_of` holds those of each position in the run's flows: one of a TCP connection, none where the telemetry has
    none, one for each connection of a program, which is in `connections`. `unmatched` and `guessed` are such positions.
    `protocols` has the IP protocol of each key in the telemetry.
    """

    keys_of: list[list[Key]]
    unmatched: list[int] = field(default_factory=list)
    guessed: list[int] = field(default_factory=list)
    connections: dict[Key, FiveTuple] = field(default_factory=dict)
    protocols: dict[Key, int] = field(default_factory=dict)
    _keys: Int64Array = field(init=False, repr=False)
    _numbers: Int64Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Build the sorted look-up."""
        known = [
            (index << 32 | signature, number) for number, keys in enumerate(self.keys_of) for index, signature in keys
        ]
        known.sort()
        self._keys = np.array([key for key, _ in known], dtype=np.int64)
        self._numbers = np.array([number for _, number in known], dtype=np.int64)

    def indices(self, position: int) -> list[int]:
        """Flow indices of a flow."""
        return [index for index, _ in self.keys_of[position]]

    def numbers(self, flow: Int64Array, signature: Int64Array) -> Int64Array:
        """Position of each report's flow, OTHER for traffic that is not part of the experiment."""
        if not len(self._keys):
            return np.full(len(flow), OTHER, dtype=np.int64)
        key = flow << 32 | signature
        index = np.minimum(np.searchsorted(self._keys, key), len(self._keys) - 1)
        return np.where(self._keys[index] == key, self._numbers[index], OTHER)


@dataclass(frozen=True)
class FlowNumbers:
    """The flow of each report at any of several links; OTHER for acknowledgements and for other traffic.

    ``tables`` has, by the links' indices, the flow table there and the number of the flow at each of its positions.
    """

    tables: dict[int, tuple[FlowTable, Int64Array]]

    def of(self, bottleneck: Int64Array, flow: Int64Array, signature: Int64Array) -> Int64Array:
        """Number of each report's flow."""
        found = np.full(len(flow), OTHER, dtype=np.int64)
        for index, (table, numbers) in self.tables.items():
            here = np.flatnonzero(bottleneck == index)
            position = table.numbers(flow[here], signature[here])
            found[here] = np.where(position == OTHER, OTHER, numbers[position]) if len(numbers) else OTHER
        return found


def _address(text: str) -> str:
    """The address in its canonical spelling; other text unchanged."""
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return text


def read_flow_table(run: Run) -> FlowTable:
    """Match telemetry/flow_keys.parquet, or without it learned_flows.parquet, with the flows of run.json.

    A flow without a source port is matched by the port that its sender's record has, else by the connection opened last
    between its addresses (iperf3 opens its control connection first); such flows are listed in `guessed`.
    """
    count = len(run.flows)
    if (path := _keys_file(run)) is None:
        return FlowTable([[] for _ in run.flows], unmatched=list(range(count)))
    rows = [row for row in read_keys(path) if row.bottleneck == run.bottleneck.index]
    rows.sort(key=_FIRST)
    # In front of the others: of two connections between the same addresses the one with reports is the flow.
    rows = _never_reported(run, {row.key for row in rows}) + rows
    keys_of: list[list[Key]] = [[] for _ in run.flows]
    unmatched, guessed = [], []
    connections: dict[Key, FiveTuple] = {}
    taken: set[tuple[int, int]] = set()
    canonical = functools.cache(_address)
    between: defaultdict[tuple[str, str], list[KeyRow]] = defaultdict(list)
    for row in rows:
        between[canonical(row.connection.src), canonical(row.connection.dst)].append(row)
    for position, (flow, host) in enumerate(zip(run.flows, run.host_records, strict=True)):
        if flow.key is not None:
            keys_of[position] = [flow.key]
            continue
        if flow.by_addresses:
            rows_of_it = [row for ends, own in between.items() if _is_between(ends, flow) for row in own]
            for row in rows_of_it:
                keys_of[position].append(_checked(row.key, path))
                connections[row.key] = row.connection
            if not rows_of_it:
                unmatched.append(position)
            continue
        src_port, dst_port = flow.src_port or host.local_port, flow.dst_port or host.remote_port
        candidates = [
            row
            for row in between[canonical(flow.src), canonical(flow.dst)]
            if flow.protocol in (None, row.connection.protocol)
            and (src_port is None or row.connection.src_port == src_port)
            and (dst_port is None or row.connection.dst_port == dst_port)
            and row.key not in taken
        ]
        if not candidates:
            unmatched.append(position)
            continue
        if src_port is None and len(candidates) > 1:
            guessed.append(position)
        key = _checked(candidates[-1].key, path)
        taken.add(key)
        keys_of[position] = [key]
    protocols = {row.key: row.connection.protocol for row in rows}
    return FlowTable(keys_of, unmatched, guessed, connections, protocols)


@dataclass(frozen=True)
class KeyRow:
    """A row of a table of flow keys: a flow at a link, and when it began; the switch's are in that order already."""

    bottleneck: int
    key: Key
    ip_version: int
    connection: FiveTuple
    first_timestamp: int


def read_keys(path: Path) -> list[KeyRow]:
    """The rows of a table of flow keys.

    Raises:
        AnalysisError: it cannot be read, or lacks a column, or has something else in it; the message names both.
    """
    try:
        table = pq.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise AnalysisError(f"{path}: not readable as Parquet: {error}") from None
    if missing := {*KEY_NUMBERS[:-1], *KEY_ADDRESSES}.difference(table.column_names):
        raise AnalysisError(f"{path}: no column {', '.join(sorted(missing))}")
    for name in {*KEY_NUMBERS, *KEY_ADDRESSES}.intersection(table.column_names):
        column, kind = table.column(name), "integers" if name in KEY_NUMBERS else "text"
        is_kind = pa.types.is_integer if name in KEY_NUMBERS else _is_text
        if column.null_count or not is_kind(column.type):
            raise AnalysisError(f"{path}: column {name} has something else than {kind}")
    return [
        KeyRow(
            row["bottleneck"],
            (row["flow"], row["signature"]),
            row.get("ip_version", 0),
            FiveTuple(*(row[name] for name in FiveTuple._fields)),
            row.get("first_timestamp", 0),
        )
        for row in table.to_pylist()
    ]


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _never_reported(run: Run, reported: Set[Key]) -> list[KeyRow]:
    """Flows that the switch announced at the link though no packet of theirs is in a report, as rows of flow keys."""
    path = run.path / files.TELEMETRY / files.LEARNED_FLOWS
    if not path.exists():
        return []
    return [row for row in read_keys(path) if row.bottleneck == run.bottleneck.index and row.key not in reported]


def _keys_file(run: Run) -> Path | None:
    """The addresses of flows by the collector, or by the switch if that was killed; None without either."""
    paths = [run.path / files.TELEMETRY / name for name in (files.FLOW_KEYS, files.LEARNED_FLOWS)]
    return next((path for path in paths if path.exists()), None)


def _is_between(ends: tuple[str, str], flow: FlowSpec) -> bool:
    """Whether packets between two addresses are those of programs' flow."""
    return all(own == ANYWHERE or _address(own) == end for own, end in zip((flow.src, flow.dst), ends, strict=True))


def _checked(key: Key, path: Path) -> Key:
    index, signature = key
    if not (0 <= index < 1 << 16 and 0 <= signature < 1 << 32):
        raise AnalysisError(f"{path}: flow index {index} or signature {signature} does not fit into 16 or 32 bits")
    return key


def reverse_keys(run: Run, table: FlowTable) -> dict[int, set[tuple[int, int]]]:
    """(bottleneck, flow index) of the packets that travel against each flow (by its position), where they are reported.

    Acknowledgements that cross several links are taken at the last of them, next to the sender. A program's several
    connections have no path of their own.
    """
    if (path := _keys_file(run)) is None:
        return {}
    rows = read_keys(path)
    if all(row.bottleneck == run.bottleneck.index for row in rows):
        return {}
    index_of = {link.name: link.index for link in run.links}
    numbers = {keys[0]: number for number, keys in enumerate(table.keys_of) if len(keys) == 1}
    by_tuple: defaultdict[FiveTuple, list[KeyRow]] = defaultdict(list)
    for row in sorted(rows, key=_FIRST):
        by_tuple[row.connection].append(row)
    found: dict[int, set[tuple[int, int]]] = {}
    for row in rows:
        number = numbers.get(row.key)
        if number is None or row.bottleneck != run.bottleneck.index or number >= run.data_flows:
            continue
        turned = by_tuple[row.connection.reverse]
        last = {index_of[name] for name in run.flows[number].ack_links[-1:] if name in index_of}
        if not last:
            # A capture does not say where they cross links: they come to the last one last.
            last = {other.bottleneck for other in turned[-1:]}
        if keys := {(other.bottleneck, other.key[0]) for other in turned if other.bottleneck in last}:
            found[number] = keys
    return found
