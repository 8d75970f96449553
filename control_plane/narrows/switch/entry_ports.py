# SPDX-License-Identifier: Apache-2.0
"""The ports of a switch to which P4Runtime's updates lead."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from finsy.proto import p4i, p4r

# Ports of v1model: their width, and the one that drops.
PORT_BITS, DROP_PORT = 9, 511


@dataclass(frozen=True)
class NamedPort:
    """A port in an update; ``is_certain``: the number can be nothing else. ``of`` is what has it."""

    number: int
    of: str
    is_certain: bool


def ports_of(update: p4r.Update, info: p4i.P4Info) -> Iterator[NamedPort]:
    """Ports of replicas, and parameters of actions that are as wide as one; without the port that drops.

    Args:
        update: P4Runtime's.
        info: of the program. What is not there is left out.
    """
    engine = update.entity.packet_replication_engine_entry
    for replica in (*engine.clone_session_entry.replicas, *engine.multicast_group_entry.replicas):
        number = int.from_bytes(replica.port, "big") if replica.port else replica.egress_port
        yield NamedPort(number, "a replica", is_certain=True)
    for call in _calls(update.entity):
        action = next((one for one in info.actions if one.preamble.id == call.action_id), p4i.Action())
        values = {param.param_id: int.from_bytes(param.value, "big") for param in call.params}
        for param in action.params:
            number = values.get(param.id, DROP_PORT)
            if param.bitwidth == PORT_BITS and number != DROP_PORT:
                is_certain = "port" in param.name.lower()
                yield NamedPort(number, f"{param.name} of {action.preamble.name}", is_certain)


def _calls(entity: p4r.Entity) -> Iterator[p4r.Action]:
    yield entity.table_entry.action.action
    yield entity.action_profile_member.action
    for one in entity.table_entry.action.action_profile_action_set.action_profile_actions:
        yield one.action
