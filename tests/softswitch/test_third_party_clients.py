# SPDX-License-Identifier: Apache-2.0
"""finsy and p4runtime-shell drive a live softswitch, and probe frames see in the data path what they set."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import Network
from script_modules import load_script
from third_party import (
    CONSTANT,
    COPY,
    COUNT,
    EXACT,
    LEARN,
    LPM,
    MIXED,
    OPTIONAL,
    RANGE,
    REGISTER,
    SHELL_PYTHON,
    TERNARY,
    Answer,
    Client,
    Driver,
    Prober,
    RefusedByTheSwitch,
    start_switch,
)

pytestmark = [pytest.mark.needs("root", "narrows-softswitch"), pytest.mark.parallel_safe]

ANSWER, DISCARD, UNMATCHED = "ProbeIngress.answer", "ProbeIngress.discard", "ProbeIngress.unmatched"
COUNTER, MEMORY, LEARNED = "ProbeIngress.probes", "ProbeIngress.memory", "learned_t"
P4 = Path(__file__).parent / "p4"


def table(kind: str) -> str:
    """Full name of the table of a kind of match."""
    return f"ProbeIngress.{kind}_table"


def entry(kind: str, match: dict[str, list[Any]] | list[Any], tag: int, *, priority: int = 0, port: int = 2) -> Any:
    """A table entry that answers a tag."""
    if isinstance(match, list):
        match = {"key": match}
    params = {"port": port, "tag": tag}
    return {"table": table(kind), "match": match, "priority": priority, "action": ANSWER, "params": params}


@pytest.fixture(scope="module")
def switch() -> Iterator[Network]:
    """A softswitch without a pipeline, in namespaces of its own."""
    network = Network()
    process = None
    try:
        network.up()
        process = start_switch(network)
        yield network
    finally:
        if process is not None:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=10)
            assert process.returncode == 0
        network.down()


# One of the two takes seconds a client.
@pytest.fixture(params=["finsy", pytest.param("p4runtime-shell", marks=pytest.mark.long)])
def kind(request: pytest.FixtureRequest) -> str:
    """Which client."""
    name: str = request.param
    if name == "p4runtime-shell":
        assert SHELL_PYTHON.exists(), "p4runtime-shell has no environment; fix: scripts/setup.sh test"
    return name


@pytest.fixture(scope="module")
def drivers(switch: Network) -> Iterator[dict[str, Driver]]:
    """What has been started by kind, see `driver`."""
    started: dict[str, Driver] = {}
    yield started
    for one in started.values():
        one.close()


@pytest.fixture
def driver(switch: Network, kind: str, drivers: dict[str, Driver], tmp_path: Path) -> Driver:
    """What clients of a kind are forked from, started by the first test of the kind."""
    if kind not in drivers:
        drivers[kind] = Driver(kind, switch, tmp_path / "clients")
    return drivers[kind]


@pytest.fixture
def connect(driver: Driver) -> Iterator[Callable[..., Client]]:
    """Starts clients of a kind; they end with the test."""
    clients: list[Client] = []

    def start(**arguments: Any) -> Client:
        clients.append(Client(driver))
        clients[-1].connect(**arguments)
        return clients[-1]

    try:
        yield start
    finally:
        for client in clients:
            client.close()


# The switch remembers the highest election id it has seen: each test goes above it.
ELECTION = iter(range(100, 100_000, 100))


@pytest.fixture
def client(connect: Callable[..., Client]) -> Client:
    """The primary, with the test program freshly loaded."""
    return connect(election_id=next(ELECTION), program="conformance")


@pytest.fixture
def probe(switch: Network) -> Iterator[Prober]:
    """Frames into the switch."""
    prober = Prober(switch)
    try:
        yield prober
    finally:
        prober.close()


def refused(code: str, request: Callable[..., Any], **arguments: Any) -> RefusedByTheSwitch:
    """A request that must be refused with this code: of the RPC, or of the only update."""
    with pytest.raises(RefusedByTheSwitch) as caught:
        request(**arguments)
    found = caught.value
    assert (found.updates or [(0, found.code)]) == [(0, code)], found
    if found.updates:
        assert found.code == "UNKNOWN"
    return found


def test_the_compiled_programs_belong_to_the_sources(tmp_path: Path) -> None:
    programs = load_script(P4 / "compile_programs.py")
    assert programs.stale() == []


@pytest.mark.long
def test_pipeline_configuration(connect: Callable[..., Client], probe: Prober) -> None:
    """Each action of SetForwardingPipelineConfig does what the specification says, and no more."""
    client = connect(election_id=next(ELECTION), program="conformance")
    assert client.version() == "1.5.0"
    client.write(kind="insert", entry=entry("exact", ["exact", 7], 70))
    assert probe.tag(EXACT, exact=7) == 70

    client.pipeline(action="VERIFY", program="conformance")
    assert probe.tag(EXACT, exact=7) == 70
    refused("INVALID_ARGUMENT", client.pipeline, action="VERIFY", program="conformance", device_config="{}")
    refused("INVALID_ARGUMENT", client.pipeline, action="VERIFY")
    found = refused("INVALID_ARGUMENT", client.pipeline, action="VERIFY_AND_COMMIT", program="unsupported")
    assert "range key" in found.message
    assert probe.tag(EXACT, exact=7) == 70

    refused("NOT_FOUND", client.pipeline, action="COMMIT")
    client.pipeline(action="VERIFY_AND_SAVE", program="conformance")
    # Entries go to the saved pipeline; the active one forwards until the commit.
    client.write(kind="insert", entry=entry("exact", ["exact", 7], 71))
    assert probe.tag(EXACT, exact=7) == 70
    refused("INVALID_ARGUMENT", client.pipeline, action="COMMIT", program="conformance")
    client.pipeline(action="COMMIT")
    assert probe.tag(EXACT, exact=7) == 71

    client.pipeline(action="RECONCILE_AND_COMMIT", program="conformance")
    assert probe.tag(EXACT, exact=7) == 71
    client.pipeline(action="VERIFY_AND_COMMIT", program="conformance")
    assert probe.tag(EXACT, exact=7) == 0


# Kind of table, probe, its field, and entries from the one that decides to the one it hides: match, priority, and a
# value that only this one matches. The last value matches none.
KINDS: dict[str, tuple[int, str, list[tuple[list[Any], int, int]], int]] = {
    "exact": (EXACT, "exact", [(["exact", 0], 0, 0), (["exact", 0xFFFF], 0, 0xFFFF)], 1),
    "lpm": (
        LPM,
        "lpm",
        [(["lpm", 0x0A010203, 32], 0, 0x0A010203), (["lpm", 0x0A010200, 24], 0, 0x0A0102FF),
         (["lpm", 0x0A000000, 7], 0, 0x0B000000), (["lpm", 0x80000000, 1], 0, 0xFFFFFFFF)],
        0x01020304,
    ),
    "ternary": (
        TERNARY,
        "ternary",
        [(["ternary", 0x1200, 0xFF00], 30, 0x1234), (["ternary", 0x0034, 0x00FF], 20, 0x5634),
         (["ternary", 0x0004, 0x0004], 10, 0x5604)],
        0x5600,
    ),
    "range": (
        RANGE,
        "range",
        [(["range", 100, 100], 30, 100), (["range", 50, 200], 20, 50), (["range", 0, 0x7FFF], 10, 201)],
        0x8000,
    ),
    "optional": (OPTIONAL, "optional", [(["optional", 5], 20, 5), (["optional", 0], 10, 0)], 6),
}  # fmt: skip


def tag_of(found: dict[str, Any]) -> int:
    """What an entry answers."""
    tag: int = found["params"]["tag"]
    return tag


@pytest.mark.parametrize("match", KINDS)
def test_tables(client: Client, probe: Prober, match: str) -> None:
    """Entries decide in their order, can be modified and deleted, and are read back as they were written."""
    number, field, entries, other = KINDS[match]
    field = {"range": "range_"}.get(field, field)
    written = [entry(match, found, 10 + place, priority=priority) for place, (found, priority, _) in enumerate(entries)]
    # The one that decides comes last: order of insertion must not matter.
    for given in reversed(written):
        client.write(kind="insert", entry=given)

    def tags() -> list[int | None]:
        return [probe.tag(number, **{field: value}) for *_, value in entries]

    assert tags() == [10 + place for place in range(len(entries))]
    assert probe.tag(number, **{field: other}) == 0

    found = client.read(entry={"table": table(match)})
    assert sorted(found, key=tag_of) == sorted(written, key=tag_of)
    (one,) = client.read(entry={key: written[0][key] for key in ("table", "match", "priority")})
    assert one == written[0]

    refused("ALREADY_EXISTS", client.write, kind="insert", entry=written[0])
    changed = {**written[0], "action": DISCARD, "params": {}}
    client.write(kind="modify", entry=changed)
    assert tags() == [None, *(10 + place for place in range(1, len(entries)))]
    assert changed in client.read(entry={"table": table(match)})

    for given in written:
        client.write(kind="delete", entry=given)
    assert tags() == [0] * len(entries)
    assert client.read(entry={"table": table(match)}) == []
    refused("NOT_FOUND", client.write, kind="modify", entry=written[0])
    refused("NOT_FOUND", client.write, kind="delete", entry=written[0])


def test_a_table_of_all_kinds(client: Client, probe: Prober) -> None:
    """Fields that are left out match everything; of entries that match, the one of highest priority decides."""
    everything = {
        "exact_key": ["exact", 1],
        "lpm_key": ["lpm", 0x0A000000, 8],
        "ternary_key": ["ternary", 0x10, 0xF0],
        "range_key": ["range", 3, 9],
        "optional_key": ["optional", 77],
    }
    narrow = entry("mixed", everything, 1, priority=5)
    wide = entry("mixed", {"exact_key": ["exact", 1]}, 2, priority=1)
    for given in (wide, narrow):
        client.write(kind="insert", entry=given)
    matching = {"exact": 1, "lpm": 0x0A0B0C0D, "ternary": 0x1F, "range_": 9, "optional": 77}
    assert probe.tag(MIXED, **matching) == 1
    for field, value in {"lpm": 0x0B000000, "ternary": 0x20, "range_": 10, "optional": 78}.items():
        assert probe.tag(MIXED, **{**matching, field: value}) == 2, field
    assert probe.tag(MIXED, **{**matching, "exact": 2}) == 0
    client.write(kind="insert", entry=entry("mixed", {"exact_key": ["exact", 1]}, 3, priority=9))
    assert probe.tag(MIXED, **matching) == 3
    assert sorted(found["priority"] for found in client.read(entry={"table": table("mixed")})) == [1, 5, 9]
    assert client.read(entry={"table": table("mixed"), "priority": 5}) == [narrow]


def test_default_actions(client: Client, probe: Prober) -> None:
    """A default action is set and reset; a constant one is not."""
    default = {"table": table("exact"), "default": True, "action": UNMATCHED, "params": {"tag": 9}}
    client.write(kind="modify", entry=default)
    assert probe.tag(EXACT, exact=1) == 9
    (found,) = client.read(entry={"table": table("exact"), "default": True})
    assert (found["action"], found["params"]) == (UNMATCHED, {"tag": 9})
    client.write(kind="modify", entry={"table": table("exact"), "default": True})
    assert probe.tag(EXACT, exact=1) == 0
    refused("INVALID_ARGUMENT", client.write, kind="insert", entry=default)
    refused("INVALID_ARGUMENT", client.write, kind="delete", entry=default)
    refused("PERMISSION_DENIED", client.write, kind="modify", entry={**default, "table": table("mixed")})


def test_constant_entries(client: Client, probe: Prober) -> None:
    """Entries of the program are read and answer, and cannot be changed."""
    assert [probe.tag(CONSTANT, exact=value) for value in (1, 2, 3)] == [101, 102, 0]
    assert [found["params"]["tag"] for found in client.read(entry={"table": table("constant")})] == [101, 102]
    for operation, value in (("insert", 3), ("modify", 1), ("delete", 1)):
        refused("PERMISSION_DENIED", client.write, kind=operation, entry=entry("constant", ["exact", value], 5))


def test_indirect_counters(client: Client, probe: Prober) -> None:
    """Counts of single cells and of all, read and written."""
    for length in (60, 61, 1514):
        probe.ask(COUNT, exact=3, length=length)
    probe.ask(COUNT, exact=7)
    counted = {int(index): found for index, found in client.counters(name=COUNTER).items()}
    assert counted == {index: [0, 0] for index in range(8)} | {3: [3, 60 + 61 + 1514], 7: [1, 60]}
    assert client.counters(name=COUNTER, index=3) == {"3": [3, 1635]}
    client.set_counter(name=COUNTER, index=3, packets=1_000_000_000_000, octets=5)
    probe.ask(COUNT, exact=3)
    assert client.counters(name=COUNTER, index=3) == {"3": [1_000_000_000_001, 65]}
    refused("OUT_OF_RANGE", client.counters, name=COUNTER, index=8)
    refused("INVALID_ARGUMENT", client.counters, name=COUNTER, index=-1)
    refused("OUT_OF_RANGE", client.set_counter, name=COUNTER, index=8, packets=1, octets=1)


def test_direct_counters(client: Client, probe: Prober) -> None:
    """An entry's counts, by its own entity and with the entry, read and written; a new entry begins at 0."""
    hit, missed = entry("exact", ["exact", 1], 1), entry("exact", ["exact", 2], 2)
    for given in (hit, missed):
        client.write(kind="insert", entry=given)
    for _ in range(3):
        probe.ask(EXACT, exact=1)

    def counts() -> dict[int, tuple[int, int]]:
        found = client.direct_counters(name="ProbeIngress.exact_hits")
        return {one["match"]["key"][1]: (packets, octets) for one, packets, octets in found}

    assert counts() == {1: (3, 180), 2: (0, 0)}
    assert [found["counter"] for found in client.read(entry={"table": table("exact"), "match": hit["match"]},
                                                      counters=True)] == [[3, 180]]  # fmt: skip
    key = {"table": table("exact"), "match": hit["match"]}
    ((_, packets, octets),) = client.direct_counters(name="ProbeIngress.exact_hits", entry=key)
    assert (packets, octets) == (3, 180)
    client.set_direct_counter(name="ProbeIngress.exact_hits", entry=key, packets=40)
    probe.ask(EXACT, exact=1)
    assert counts()[1][0] == 41
    client.write(kind="modify", entry={**hit, "params": {"port": 2, "tag": 5}})
    assert counts()[1][0] == 41
    client.write(kind="delete", entry=hit)
    client.write(kind="insert", entry=hit)
    assert counts()[1] == (0, 0)
    absent = {"table": table("exact"), "match": {"key": ["exact", 99]}}
    refused("NOT_FOUND", client.set_direct_counter, name="ProbeIngress.exact_hits", entry=absent, packets=1)


def test_registers(client: Client, probe: Prober) -> None:
    """Registers are read and written, one cell or all (BMv2 refuses both through P4Runtime)."""
    register = register_id()
    assert probe.tag(REGISTER, exact=2, lpm=0xDEADBEEF) == 0
    (found,) = client.raw_read(entity=f"register_entry {{ register_id: {register} index {{ index: 2 }} }}")
    assert r'bitstring: "\336\255\276\357"' in found
    client.raw_write(
        kind="modify",
        entity=f'register_entry {{ register_id: {register} index {{ index: 2 }} data {{ bitstring: "\\x06" }} }}',
    )
    assert probe.tag(REGISTER, exact=2, lpm=6) == 6
    assert len(client.raw_read(entity=f"register_entry {{ register_id: {register} }}")) == 8
    client.raw_write(
        kind="modify", entity=f'register_entry {{ register_id: {register} data {{ bitstring: "\\x0a" }} }}'
    )
    assert [probe.tag(REGISTER, exact=index, lpm=10) for index in range(8)] == [10] * 8
    beyond = f"register_entry {{ register_id: {register} index {{ index: 8 }} }}"
    refused("OUT_OF_RANGE", client.raw_read, entity=beyond)
    wide = (
        f'register_entry {{ register_id: {register} index {{ index: 0 }} data {{ bitstring: "\\x01\\0\\0\\0\\0" }} }}'
    )
    refused("OUT_OF_RANGE", client.raw_write, kind="modify", entity=wide)
    refused("INVALID_ARGUMENT", client.raw_write, kind="insert", entity=wide)


def register_id() -> int:
    """The id of the test program's register."""
    lines = (P4 / "compiled" / "conformance.p4info.txtpb").read_text().split("registers {")[1].splitlines()
    return int(next(line.split()[1] for line in lines if "id:" in line))


def test_clone_sessions(client: Client, probe: Prober) -> None:
    """Copies go to the session's ports, no longer than it says; without a session there are none."""
    original = Answer(2, 0, 200)
    assert probe.ask(COPY, exact=5, length=200) == [original]
    client.clone_session(kind="insert", session=5, ports=[3], length=100)
    assert probe.ask(COPY, exact=5, length=200) == [original, Answer(3, 0, 100)]
    assert client.clone_sessions() == [[5, [3], 100]]
    refused("ALREADY_EXISTS", client.clone_session, kind="insert", session=5, ports=[3])
    client.clone_session(kind="modify", session=5, ports=[2, 3], length=0)
    assert probe.ask(COPY, exact=5, length=200) == [original, original, Answer(3, 0, 200)]
    client.clone_session(kind="delete", session=5, ports=[])
    assert probe.ask(COPY, exact=5, length=200) == [original]
    assert client.clone_sessions() == []
    refused("NOT_FOUND", client.clone_session, kind="modify", session=5, ports=[3])
    refused("INVALID_ARGUMENT", client.clone_session, kind="insert", session=40_000, ports=[3])
    refused("OUT_OF_RANGE", client.clone_session, kind="insert", session=6, ports=[600])


def test_digests(client: Client, probe: Prober) -> None:
    """Lists come by size and by age, without duplicates; what is not acknowledged is not sent again until then."""
    second = 1_000_000_000
    # No client wants this one; its record reaches the control side a little after its frame has left.
    probe.ask(LEARN, exact=1, lpm=1)
    time.sleep(1)
    client.digest(kind="insert", name=LEARNED, size=2, wait_ns=60 * second, ack_ns=60 * second)
    refused("ALREADY_EXISTS", client.digest, kind="insert", name=LEARNED)
    # Two records make a list; one alone waits for its age, here a minute. What is the same comes once.
    for value in (10, 10, 11, 12):
        probe.ask(LEARN, exact=1, lpm=value)
    first, records = client.next_digest(name=LEARNED, wait_s=5)
    assert records == [[1, 10], [1, 11]]
    assert client.next_digest(name=LEARNED, wait_s=0.3) is None
    # By age: the record that waits.
    client.digest(kind="modify", name=LEARNED, size=100, wait_ns=second // 10, ack_ns=60 * second)
    number, records = client.next_digest(name=LEARNED, wait_s=5)
    assert records == [[1, 12]] and number != first
    client.acknowledge(list_id=number)
    # 10 was never acknowledged, 12 was.
    time.sleep(0.5)
    for value in (10, 12):
        probe.ask(LEARN, exact=1, lpm=value)
    number, records = client.next_digest(name=LEARNED, wait_s=5)
    assert records == [[1, 12]]
    client.acknowledge(list_id=number)
    # Unacknowledged lists expire.
    client.digest(kind="modify", name=LEARNED, size=1, wait_ns=0, ack_ns=second)
    probe.ask(LEARN, exact=2, lpm=20)
    assert client.next_digest(name=LEARNED, wait_s=5)[1] == [[2, 20]]
    probe.ask(LEARN, exact=2, lpm=20)
    assert client.next_digest(name=LEARNED, wait_s=0.05) is None
    time.sleep(1.5)
    probe.ask(LEARN, exact=2, lpm=20)
    assert client.next_digest(name=LEARNED, wait_s=5)[1] == [[2, 20]]
    client.digest(kind="delete", name=LEARNED)
    probe.ask(LEARN, exact=3, lpm=30)
    assert client.next_digest(name=LEARNED, wait_s=0.5) is None
    refused("NOT_FOUND", client.digest, kind="delete", name=LEARNED)


def test_arbitration(connect: Callable[..., Client], probe: Prober) -> None:
    """The highest election id is primary; others may read only; who follows hears of it; a backup can take over."""
    low = next(ELECTION)
    first = connect(election_id=low, program="conformance")
    second = connect(election_id=low - 1)
    second.adopt()
    refused("PERMISSION_DENIED", second.write, kind="insert", entry=entry("exact", ["exact", 1], 1))
    refused("PERMISSION_DENIED", second.pipeline, action="VERIFY_AND_COMMIT", program="conformance")
    first.write(kind="insert", entry=entry("exact", ["exact", 1], 1))
    assert len(second.read(entry={"table": table("exact")})) == 1

    third = connect(election_id=low + 5)
    third.adopt()
    assert first.status() == ["ALREADY_EXISTS", low + 5]
    refused("PERMISSION_DENIED", first.write, kind="insert", entry=entry("exact", ["exact", 2], 2))
    third.write(kind="insert", entry=entry("exact", ["exact", 2], 2))
    # The entries of the former primary stay.
    assert [probe.tag(EXACT, exact=value) for value in (1, 2)] == [1, 2]


def test_a_used_election_id(connect: Callable[..., Client], kind: str) -> None:
    """An election id is held by one client only: finsy then tries a lower one, p4runtime-shell gives up."""
    number = next(ELECTION)
    connect(election_id=number, program="conformance")
    if kind == "finsy":
        assert connect(election_id=number).status is not None
    else:
        with pytest.raises(AssertionError, match="the driver ended"):
            connect(election_id=number)


def test_roles(connect: Callable[..., Client], probe: Prober) -> None:
    """Each role has a primary of its own."""
    number = next(ELECTION)
    connect(election_id=number, program="conformance")
    other = connect(election_id=1, role="monitor")
    other.adopt()
    other.write(kind="insert", entry=entry("exact", ["exact", 1], 1))
    assert probe.tag(EXACT, exact=1) == 1


def test_errors_of_a_batch(client: Client, probe: Prober) -> None:
    """Each update that fails has a code of its own; the others are done."""
    good, bad = entry("exact", ["exact", 1], 1), entry("exact", ["exact", 2], 2)
    with pytest.raises(RefusedByTheSwitch) as caught:
        client.batch(
            updates=[
                ["delete", bad],
                ["insert", good],
                ["insert", good],
                ["insert", entry("range", ["range", 1, 2], 1)],
                ["insert", entry("range", ["range", 1, 2], 1, priority=1)],
                ["modify", entry("constant", ["exact", 1], 1)],
            ]
        )
    assert caught.value.code == "UNKNOWN"
    assert caught.value.updates == [
        (0, "NOT_FOUND"),
        (2, "ALREADY_EXISTS"),
        (3, "INVALID_ARGUMENT"),
        (5, "PERMISSION_DENIED"),
    ]
    assert [probe.tag(EXACT, exact=1), probe.tag(RANGE, range_=2)] == [1, 1]
    client.batch(updates=[["delete", good], ["insert", bad]])
    assert [probe.tag(EXACT, exact=value) for value in (1, 2)] == [0, 2]


def test_canonical_errors(client: Client) -> None:
    """Canonical codes of what a single update can do wrong."""
    for number in range(4):
        client.write(kind="insert", entry=entry("exact", ["exact", number], 1))
    refused("RESOURCE_EXHAUSTED", client.write, kind="insert", entry=entry("exact", ["exact", 4], 1))
    refused("INVALID_ARGUMENT", client.write, kind="insert", entry=entry("ternary", ["ternary", 1, 1], 1))
    refused("INVALID_ARGUMENT", client.write, kind="insert", entry=entry("lpm", ["lpm", 0x0A000000, 8], 1, priority=1))
    default_only = {**entry("ternary", ["ternary", 1, 1], 1, priority=1), "action": UNMATCHED, "params": {"tag": 1}}
    refused("PERMISSION_DENIED", client.write, kind="insert", entry=default_only)
    refused("NOT_FOUND", client.raw_write, kind="insert", entity="table_entry { table_id: 33554431 }")
    refused("INVALID_ARGUMENT", client.raw_write, kind="insert", entity="")
    refused("INVALID_ARGUMENT", client.raw_write, kind="modify", entity="direct_meter_entry { }")
    refused("NOT_FOUND", client.raw_write, kind="modify", entity="value_set_entry { value_set_id: 1 }")
    refused("NOT_FOUND", client.raw_write, kind="modify", entity="action_profile_member { action_profile_id: 1 }")
    refused("NOT_FOUND", client.raw_write, kind="modify", entity="action_profile_group { action_profile_id: 1 }")
    refused("UNIMPLEMENTED", client.raw_write, kind="modify", entity="extern_entry { extern_id: 1 }")


def test_everything_is_deleted(client: Client) -> None:
    """Both clients' own way to clear a switch."""
    for given in (entry("exact", ["exact", 1], 1), entry("ternary", ["ternary", 1, 1], 1, priority=3)):
        client.write(kind="insert", entry=given)
    client.clear()
    for name in ("exact", "ternary"):
        assert client.read(entry={"table": table(name)}) == []
    assert len(client.read(entry={"table": table("constant")})) == 2


def test_the_switch_survives_a_client_that_is_killed(driver: Driver, connect: Callable[..., Client]) -> None:
    """A client that dies without a word leaves the primary's place to the next."""
    number = next(ELECTION)
    dying = Client(driver)
    dying.connect(election_id=number, program="conformance")
    dying.kill()
    deadline = time.monotonic() + 5
    successor = connect(election_id=number)
    successor.adopt()
    while True:
        try:
            successor.write(kind="insert", entry=entry("exact", ["exact", 1], 1))
            break
        except RefusedByTheSwitch:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_the_programs_have_no_path_of_the_machine_that_compiled_them() -> None:
    found = subprocess.run(
        ["grep", "-lE", '"/(tmp|home|root|work|opt)/', "-r", str(P4)], capture_output=True, text=True
    )
    assert found.stdout == ""
