# SPDX-License-Identifier: Apache-2.0
"""Entries of tables with action profiles: in P4Runtime's form, and refused by name in that of the tutorials."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from narrows.switch.own_entries import BadEntries, read_entries, read_p4info

PROGRAM = Path(__file__).parents[2] / "softswitch/switch/tests/stf/programs/profiles.p4info.txtpb"


def refused(file: Path) -> str:
    with pytest.raises(BadEntries) as found:
        read_entries(file, read_p4info(PROGRAM))
    return str(found.value).replace(f"{file}", "entries")


def test_members_and_groups_are_in_the_form_of_p4runtime(tmp_path: Path) -> None:
    file = tmp_path / "entries.txtpb"
    (known, *_) = (profile.preamble.id for profile in read_p4info(PROGRAM).action_profiles)
    entity = f"action_profile_member {{ action_profile_id: {known} member_id: 1 }}"
    file.write_text(f"updates {{ type: INSERT entity {{ {entity} }} }}")
    (update,) = read_entries(file, read_p4info(PROGRAM)).updates
    assert update.entity.action_profile_member.member_id == 1


def test_the_form_of_the_tutorials_has_no_members(tmp_path: Path) -> None:
    file = tmp_path / "entries.json"
    entry = {"table": "IngressImpl.first", "match": {"hdr.body.key": 1}, "action_name": "IngressImpl.flip"}
    file.write_text(json.dumps({"table_entries": [entry]}))
    assert refused(file) == (
        "entries:1: table_entries: IngressImpl.first: its actions are in an action profile, which this form does not "
        "have; allowed: a P4Runtime WriteRequest as text"
    )
