# SPDX-License-Identifier: Apache-2.0
"""Random entries and packets for a compiled P4 program, as lines of p4c's tests (STF).

Packets follow a random way through the parser, with the values that it selects by; fields often have values that tables
have entries for. Some are cut off, or random altogether.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

# Ports that entries name, and that packets come in by; the last is that of a controller.
PORTS = range(8)
CONTROLLER_PORT = 31
MULTICAST_GROUPS, CLONE_SESSIONS = range(1, 5), range(1, 9)
FEW_ENTRIES, MOST_ENTRIES = 8, 24
MOST_HEADERS = 12
OFTEN, SELDOM = 0.6, 0.04
PORT_BITS, FORWARDING = 9, 4

# Name and bits; "*" of a varbit.
Fields = list[tuple[str, int | str]]


class RandomScript:
    """Entries and packets for a program; the same ones of the same seed."""

    def __init__(
        self, program: dict[str, Any], seed: int, whole: bool = False, values: Mapping[str, Sequence[int]] = {}
    ) -> None:
        """Take BMv2 JSON.

        Args:
            program: that.
            seed: of all that is drawn.
            whole: packets have all headers that the parser extracts.
            values: which values some fields have, by the fields' names; no packet is random altogether then.
        """
        self._whole, self._values = whole, values
        self._random = random.Random(seed)
        self._program = program
        types = {one["name"]: one["fields"] for one in program["header_types"]}
        self._headers: dict[str, Fields] = {
            one["name"]: [(name, bits) for name, bits, *_ in types[one["header_type"]]] for one in program["headers"]
        }
        for stack in program["header_stacks"]:
            self._headers[stack["name"]] = [(name, bits) for name, bits, *_ in types[stack["header_type"]]]
        for union in program["header_union_types"]:
            self._headers |= {
                f"{stack['name']}.{member}": [(name, bits) for name, bits, *_ in types[kind]]
                for stack in program["header_union_stacks"]
                if stack["union_type"] == union["name"]
                for member, kind in union["headers"]
            }
        self._actions = {action["name"]: action["runtime_data"] for action in program["actions"]}
        self._parser = program["parsers"][0]
        # Values that entries have of fields of each width.
        self._known: dict[int, list[int]] = {}

    def _value(self, bits: int) -> int:
        known = self._known.get(bits)
        if known and self._random.random() < OFTEN:
            return self._random.choice(known)
        few = min(bits, self._random.choice((1, 3, 8, bits)))
        return self._random.getrandbits(few)

    def entries(self) -> list[str]:
        """Groups, sessions, and entries of all tables that have none of their own."""
        return list(self._entries())

    def _entries(self) -> Iterator[str]:
        for node, group in enumerate(MULTICAST_GROUPS):
            yield f"mc_mgrp_create {group}"
            ports = self._random.sample(PORTS, self._random.randint(1, 3))
            yield f"mc_node_create {group * 10} {' '.join(map(str, sorted(ports)))}"
            yield f"mc_node_associate {group} {node}"
        for session in CLONE_SESSIONS:
            yield f"mirroring_add {session} {self._random.choice(PORTS)}"
        profiled: dict[str, list[str]] = {}
        for table in (table for pipeline in self._program["pipelines"] for table in pipeline["tables"]):
            if table.get("entries") or not table["key"]:
                continue
            if (profile := table.get("action_profile")) is not None and profile not in profiled:
                profiled[profile] = list(self._profile(profile, table))
                yield from (line for line in profiled[profile] if not line.startswith(("member(", "group(")))
            seen = set()
            for _ in range(
                self._random.randint(*(min(most, table["max_size"]) for most in (FEW_ENTRIES, MOST_ENTRIES)))
            ):
                keys = " ".join(self._key(key) for key in table["key"])
                if keys in seen:
                    continue
                seen.add(keys)
                targets = [line for line in profiled.get(profile or "", ()) if line.startswith(("member(", "group("))]
                targets = [one for one in targets if table["type"] == "indirect_ws" or one.startswith("member(")]
                yield f"add {table['name']} {keys} {self._random.choice(targets) if targets else self._call(table)}"

    def _profile(self, profile: str, table: dict[str, Any]) -> Iterator[str]:
        """Members, groups, and what entries may have of both."""
        members = range(1, 5)
        for member in members:
            yield f"member_add {profile} {member} {self._call(table)}"
            yield f"member({member})"
        if table["type"] == "indirect_ws":
            for group in range(1, 3):
                chosen = self._random.sample(members, self._random.randint(1, 3))
                yield f"group_add {profile} {group} {' '.join(map(str, sorted(chosen)))}"
                yield f"group({group})"

    def _call(self, table: dict[str, Any]) -> str:
        weights = [self._weight(name) for name in table["actions"]]
        (name,) = self._random.choices(table["actions"], weights)
        given = [f"{one['name']}:{self._argument(one['name'], one['bitwidth']):#x}" for one in self._actions[name]]
        return f"{name}({','.join(given)})"

    def _weight(self, action: str) -> int:
        """Most entries send packets somewhere, if their table can."""
        return FORWARDING if any(one["bitwidth"] == PORT_BITS for one in self._actions[action]) else 1

    def _argument(self, name: str, bits: int) -> int:
        if bits == PORT_BITS and self._random.random() < 1 - SELDOM:
            return self._random.choice(PORTS)
        if "group" in name or "session" in name:
            return self._random.choice(MULTICAST_GROUPS)
        return self._value(bits)

    def _bits(self, target: list[str]) -> int:
        header, field = target
        return 1 if field == "$valid$" else int(dict(self._headers[header])[field])

    def _key(self, key: dict[str, Any]) -> str:
        bits = self._bits(key["target"])
        value = self._random.choice(PORTS) if bits == PORT_BITS else self._value(bits)
        if key["match_type"] == "lpm":
            # Of small values most prefixes are the same.
            value = self._random.getrandbits(bits)
        self._known.setdefault(bits, []).append(value)
        ones = (1 << bits) - 1
        match key["match_type"]:
            case "exact":
                text = f"{value:#x}"
            case "lpm":
                length = self._random.randint(1, bits)
                text = f"{value & ones << bits - length & ones:#x}/{length}"
            case "range":
                # Of one value: the tests of the softswitch read no others.
                text = f"{value:#x}"
            case "optional":
                mask = self._random.choice((0, ones))
                text = f"{value & mask:#x}&&&{mask:#x}"
            case _:
                mask = self._random.choice((0, ones, self._random.getrandbits(bits)))
                text = f"{value & mask:#x}&&&{mask:#x}"
        return f"{key['name'] or '.'.join(key['target'])}:{text}"

    def packets(self, count: int) -> Iterator[tuple[int, bytes]]:
        """Port and bytes of each."""
        for _ in range(count):
            yield self._random.choice((*PORTS, CONTROLLER_PORT)), self._packet()

    def _packet(self) -> bytes:
        chance = 1.0 if self._whole else self._random.random()
        if chance < SELDOM and not self._values:
            return self._random.randbytes(self._random.randint(1, 80))
        # Of a packet that is to have all headers the payload is as long as those that were not foreseen.
        whole = self._parsed() + self._random.randbytes(self._random.randint(0, 40) + 64 * self._whole)
        if chance < 2 * SELDOM:
            whole = whole[: self._random.randint(1, max(1, len(whole)))]
        return whole or b"\0"

    def _parsed(self) -> bytes:
        """What a random way through the parser extracts."""
        states = {state["name"]: state for state in self._parser["parse_states"]}
        state, bits = states[self._parser["init_state"]], ""
        # Where each field was put last.
        places: dict[tuple[str, str], tuple[int, int]] = {}
        forced: list[tuple[int, int, int]] = []
        for _ in range(MOST_HEADERS):
            for operation in state["parser_ops"]:
                if operation["op"].startswith("extract"):
                    name = operation["parameters"][0]["value"]
                    bits += self._header(name if isinstance(name, str) else ".".join(name), len(bits), places)
            found = self._random.choice(state["transitions"])
            if found["type"] == "hexstr":
                forced += self._selected(state["transition_key"], found, places, len(bits))
            if found["next_state"] is None:
                break
            state = states[found["next_state"]]
        for at, width, value in forced:
            bits = bits.ljust(at + width, "0")
            bits = bits[:at] + f"{value:0{width}b}" + bits[at + width :]
        bits += "0" * (-len(bits) % 8)
        return int(bits, 2).to_bytes(len(bits) // 8, "big") if bits else b""

    def _header(self, name: str, begin: int, places: dict[tuple[str, str], tuple[int, int]]) -> str:
        text, length = "", self._random.randint(0, 8)
        for field, bits in self._headers[name]:
            width = 8 * length if bits == "*" else int(bits)
            places[name, field] = begin + len(text), width
            if width:
                value = self._value(width)
                if field in self._values:
                    # That of a varbit behind it.
                    value = length = self._random.choice(self._values[field])
                text += f"{value:0{width}b}"
        return text

    def _selected(
        self,
        keys: list[dict[str, Any]],
        found: dict[str, Any],
        places: dict[tuple[str, str], tuple[int, int]],
        end: int,
    ) -> Iterator[tuple[int, int, int]]:
        """Place, width and value of what a transition looks at, so that it is taken."""
        spans = []
        for key in keys:
            if key["type"] == "lookahead":
                spans.append((end + key["value"][0], key["value"][1]))
            elif key["type"] in ("field", "stack_field"):
                header, field = key["value"]
                spans.append(places.get((header, field), (-1, 0)))
            else:
                return
        # Of fields of metadata no place is known, nor how wide they are in the value.
        if any(at < 0 for at, _ in spans):
            return
        value, mask = int(found["value"], 16), int(found["mask"], 16) if found["mask"] else -1
        left = sum(-(-width // 8) * 8 for _, width in spans)
        for at, width in spans:
            left -= -(-width // 8) * 8
            ones = (1 << width) - 1
            chosen = value >> left & ones
            if (mask >> left & ones) != ones:
                chosen |= self._random.getrandbits(width) & ~(mask >> left) & ones
            yield at, width, chosen
