# SPDX-License-Identifier: Apache-2.0
"""Members, groups and action sets of action profiles by P4Runtime: its codes, and what is read back.

What packets get from them is in ``softswitch/switch/tests/stf/programs/profiles.stf``, whose program this is.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from finsy.proto import U128, p4i, p4r, p4r_grpc, rpc_status
from google.protobuf import text_format
from harness import BINARY

pytestmark = [pytest.mark.needs("narrows-softswitch"), pytest.mark.parallel_safe]

PROGRAM = Path(__file__).parents[2] / "softswitch/switch/tests/stf/programs/profiles"
INSERT, MODIFY, DELETE = p4r.Update.INSERT, p4r.Update.MODIFY, p4r.Update.DELETE
ELECTION = U128.encode(1)


class Client:
    """The primary client of a switch that runs the program, which names things as P4Info does."""

    def __init__(self, stub: Any) -> None:
        self._stub = stub
        self._info = text_format.Parse(PROGRAM.with_suffix(".p4info.txtpb").read_text(), p4i.P4Info())

    def id_of(self, name: str) -> int:
        info: Any = self._info
        every = (*info.tables, *info.actions, *info.action_profiles)
        named: dict[str, int] = {one.preamble.name.rpartition(".")[2]: one.preamble.id for one in every}
        return named[name]

    def load(self) -> None:
        config = p4r.ForwardingPipelineConfig(
            p4info=self._info, p4_device_config=PROGRAM.with_suffix(".json").read_bytes()
        )
        action = p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT
        self._stub.SetForwardingPipelineConfig(
            p4r.SetForwardingPipelineConfigRequest(device_id=1, election_id=ELECTION, action=action, config=config)
        )

    def mark(self, value: int) -> p4r.Action:
        params = [p4r.Action.Param(param_id=1, value=bytes([value]))]
        return p4r.Action(action_id=self.id_of("mark"), params=params)

    def member(self, profile: str, member_id: int, value: int | None = None) -> p4r.Entity:
        action = None if value is None else self.mark(value)
        return p4r.Entity(
            action_profile_member=p4r.ActionProfileMember(
                action_profile_id=self.id_of(profile), member_id=member_id, action=action
            )
        )

    def group(self, profile: str, group_id: int, members: dict[int, int], max_size: int = 0) -> p4r.Entity:
        listed = [p4r.ActionProfileGroup.Member(member_id=one, weight=weight) for one, weight in members.items()]
        return p4r.Entity(
            action_profile_group=p4r.ActionProfileGroup(
                action_profile_id=self.id_of(profile), group_id=group_id, members=listed, max_size=max_size
            )
        )

    def entry(self, table: str, key: int, action: p4r.TableAction | None) -> p4r.Entity:
        match = p4r.FieldMatch(field_id=1, exact=p4r.FieldMatch.Exact(value=bytes([key])))
        return p4r.Entity(table_entry=p4r.TableEntry(table_id=self.id_of(table), match=[match], action=action))

    def write(self, *updates: tuple[p4r.Update.Type.ValueType, p4r.Entity], atomic: bool = False) -> list[str]:
        """The code of each update."""
        request = p4r.WriteRequest(
            device_id=1,
            election_id=ELECTION,
            updates=[p4r.Update(type=kind, entity=entity) for kind, entity in updates],
            atomicity=p4r.WriteRequest.ROLLBACK_ON_ERROR if atomic else p4r.WriteRequest.CONTINUE_ON_ERROR,
        )
        try:
            self._stub.Write(request)
        except grpc.RpcError as error:
            trailers: Any = error.trailing_metadata()
            details = dict(trailers)["grpc-status-details-bin"]
            codes = []
            for one in rpc_status.Status.FromString(details).details:
                found = p4r.Error()
                one.Unpack(found)
                codes.append(_NAMES[found.canonical_code])
            return codes
        return ["OK"] * len(updates)

    def read(self, entity: p4r.Entity) -> list[p4r.Entity]:
        return [
            one for reply in self._stub.Read(p4r.ReadRequest(device_id=1, entities=[entity])) for one in reply.entities
        ]

    def all(self, profile: str) -> list[p4r.Entity]:
        """Members and groups."""
        return [*self.read(self.member(profile, 0)), *self.read(self.group(profile, 0, {}))]


_NAMES = {code.value[0]: code.name for code in grpc.StatusCode}


def of_member(number: int) -> p4r.TableAction:
    return p4r.TableAction(action_profile_member_id=number)


def of_group(number: int) -> p4r.TableAction:
    return p4r.TableAction(action_profile_group_id=number)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    """Of a switch without ports."""
    socket = tmp_path / "switch.sock"
    process = subprocess.Popen([BINARY, "serve", "--grpc", f"unix:{socket}"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "ready"
        options = [("grpc.default_authority", "localhost")]
        with grpc.insecure_channel(f"unix:{socket}", options=options) as channel:
            stub: Any = p4r_grpc.P4RuntimeStub(channel)
            arbitration = p4r.MasterArbitrationUpdate(device_id=1, election_id=ELECTION)
            held = iter([p4r.StreamMessageRequest(arbitration=arbitration)])
            stream = stub.StreamChannel(_open(held))
            next(stream)
            found = Client(stub)
            found.load()
            yield found
            stream.cancel()
    finally:
        process.terminate()
        process.wait(10)


def _open(first: Iterator[p4r.StreamMessageRequest]) -> Iterator[p4r.StreamMessageRequest]:
    """A stream that stays open until it is cancelled."""

    yield from first
    threading.Event().wait(60)


def test_members_have_the_codes_of_the_specification(client: Client) -> None:
    member, write = client.member, client.write
    # Four members fill the profile.
    assert write(*((INSERT, member("shared", number, number)) for number in range(1, 6))) == ["OK"] * 4 + [
        "RESOURCE_EXHAUSTED"
    ]
    assert write(
        (INSERT, member("shared", 1, 9)),
        (INSERT, member("shared", 0, 9)),
        (INSERT, member("shared", 7)),
        (MODIFY, member("shared", 7, 9)),
        (MODIFY, member("shared", 1)),
        (DELETE, member("shared", 7)),
    ) == ["ALREADY_EXISTS", "INVALID_ARGUMENT", "INVALID_ARGUMENT", "NOT_FOUND", "INVALID_ARGUMENT", "NOT_FOUND"]
    assert write((MODIFY, member("shared", 2, 0x22)), (DELETE, member("shared", 3))) == ["OK", "OK"]
    assert client.all("shared") == [member("shared", 1, 1), member("shared", 2, 0x22), member("shared", 4, 4)]
    assert client.read(client.member("shared", 2)) == [member("shared", 2, 0x22)]
    # A profile without a selector has no groups.
    assert write((INSERT, client.group("shared", 1, {1: 1}))) == ["INVALID_ARGUMENT"]


def test_entries_point_to_members_that_are_there(client: Client) -> None:
    write, entry = client.write, client.entry
    direct = p4r.TableAction(action=client.mark(1))
    empty = p4r.TableAction(action_profile_action_set=p4r.ActionProfileActionSet())
    assert write(
        (INSERT, entry("first", 1, of_member(1))),
        (INSERT, entry("first", 1, direct)),
        (INSERT, entry("first", 1, of_group(1))),
        (INSERT, entry("first", 1, empty)),
    ) == ["NOT_FOUND", *["INVALID_ARGUMENT"] * 3]
    assert write((INSERT, client.member("shared", 1, 1)), (INSERT, entry("first", 1, of_member(1)))) == ["OK", "OK"]
    assert client.read(entry("first", 1, None)) == [entry("first", 1, of_member(1))]
    # It is in use until the entry goes.
    assert write((DELETE, client.member("shared", 1))) == ["FAILED_PRECONDITION"]
    assert write((DELETE, entry("first", 1, None)), (DELETE, client.member("shared", 1))) == ["OK", "OK"]
    assert client.all("shared") == []


def test_groups_have_the_codes_of_the_specification(client: Client) -> None:
    write, group = client.write, client.group
    for number in (10, 20, 30):
        assert write((INSERT, client.member("by_value", number, number))) == ["OK"]
    assert write((INSERT, group("by_value", 1, {30: 2, 10: 1}))) == ["OK"]
    assert write(
        (INSERT, group("by_value", 1, {})),
        (INSERT, group("by_value", 2, {10: 1, 40: 1})),
        (INSERT, group("by_value", 2, {10: 0})),
        (INSERT, group("by_value", 0, {10: 1})),
        (MODIFY, group("by_value", 2, {10: 1})),
        (MODIFY, group("by_value", 1, {10: 1}, max_size=3)),
        (DELETE, group("by_value", 2, {})),
        (INSERT, group("by_value", 2, {10: 1, 20: 1}, max_size=1)),
        # All groups together have at most the 16 that the program says.
        (INSERT, group("by_value", 2, {10: 14})),
    ) == [
        "ALREADY_EXISTS",
        "NOT_FOUND",
        *["INVALID_ARGUMENT"] * 2,
        "NOT_FOUND",
        "INVALID_ARGUMENT",
        "NOT_FOUND",
        *["RESOURCE_EXHAUSTED"] * 2,
    ]
    twice = group("by_value", 2, {10: 1})
    twice.action_profile_group.members.add(member_id=10, weight=1)
    watched = group("by_value", 2, {10: 1})
    watched.action_profile_group.members[0].watch_port = b"\1"
    assert write((INSERT, twice), (INSERT, watched)) == ["INVALID_ARGUMENT", "UNIMPLEMENTED"]
    # In the order in which the members were added.
    assert client.read(group("by_value", 1, {})) == [group("by_value", 1, {10: 1, 30: 2})]

    assert write((INSERT, client.entry("third", 1, of_group(1)))) == ["OK"]
    assert write((DELETE, group("by_value", 1, {})), (DELETE, client.member("by_value", 10))) == [
        "FAILED_PRECONDITION",
        "FAILED_PRECONDITION",
    ]
    assert write((MODIFY, group("by_value", 1, {20: 1})), (DELETE, client.member("by_value", 10))) == ["OK", "OK"]
    assert client.read(client.entry("third", 1, None)) == [client.entry("third", 1, of_group(1))]
    assert write((DELETE, client.entry("third", 1, None)), (DELETE, group("by_value", 1, {}))) == ["OK", "OK"]


def action_set(client: Client, weights: dict[int, int]) -> p4r.TableAction:
    actions = [p4r.ActionProfileAction(action=client.mark(value), weight=one) for value, one in weights.items()]
    return p4r.TableAction(action_profile_action_set=p4r.ActionProfileActionSet(action_profile_actions=actions))


def test_an_action_set_comes_back_as_it_was(client: Client) -> None:
    write, entry = client.write, client.entry
    given = action_set(client, {5: 1, 3: 4, 9: 2})
    assert write((INSERT, entry("third", 1, given))) == ["OK"]
    assert client.read(entry("third", 1, None)) == [entry("third", 1, given)]
    # All entries of the table are of one style: neither is a group made nor a member.
    assert write((INSERT, client.member("by_value", 1, 1))) == ["INVALID_ARGUMENT"]
    assert write((INSERT, entry("third", 2, action_set(client, {1: 10})))) == ["RESOURCE_EXHAUSTED"]
    assert write((INSERT, entry("third", 2, action_set(client, {1: 0})))) == ["INVALID_ARGUMENT"]
    # What an entry had is free when it goes, or has something else: some two hundred have room for 16.
    for round_ in range(200):
        changed = action_set(client, {round_ % 100: 12})
        assert write((MODIFY, entry("third", 1, changed))) == ["OK"]
    assert client.read(entry("third", 1, None)) == [entry("third", 1, changed)]
    assert client.all("by_value") == []
    assert write((DELETE, entry("third", 1, None)), (INSERT, client.member("by_value", 1, 1))) == ["OK", "OK"]
    assert write((INSERT, entry("third", 1, given))) == ["INVALID_ARGUMENT"]


def test_a_batch_that_fails_leaves_profiles_as_they_were(client: Client) -> None:
    write, entry, member, group = client.write, client.entry, client.member, client.group
    assert write((INSERT, member("by_value", 1, 1)), (INSERT, member("by_value", 2, 2))) == ["OK", "OK"]
    assert write((INSERT, group("by_value", 5, {1: 1, 2: 3})), (INSERT, entry("third", 1, of_group(5)))) == ["OK", "OK"]
    before = [*client.all("by_value"), *client.read(entry("third", 1, None))]
    failed = write(
        (DELETE, entry("third", 1, None)),
        (DELETE, group("by_value", 5, {})),
        (DELETE, member("by_value", 1)),
        (INSERT, member("by_value", 3, 3)),
        (MODIFY, member("by_value", 2, 0x44)),
        (INSERT, entry("third", 2, of_member(3))),
        (DELETE, member("by_value", 9)),
        atomic=True,
    )
    assert failed == [*["ABORTED"] * 6, "NOT_FOUND"]
    assert [*client.all("by_value"), *client.read(entry("third", 1, None))] == before
