# SPDX-License-Identifier: Apache-2.0
"""What the program counts of packets, pipe by pipe, by the entries that the fake switch holds.

Every pipe's ingress knows only what came in through it; behind the queue all flows of a bottleneck meet in one pipe.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from fakeswitch.server import FakeSwitch

COLLISION = 0x02


@dataclass(frozen=True)
class Packet:
    """A packet of a flow as it comes to a port."""

    port: int
    dst_mac: int
    src: int
    dst: int
    src_port: int
    dst_port: int = 5201
    protocol: int = 6


@dataclass(frozen=True)
class Reported:
    """What a report says of a packet's flow."""

    index: int
    signature: int
    flags: int
    arrivals: int
    departures: int


def crc32(fields: list[tuple[int, int]]) -> int:
    """CRC-32 of (value, bits), behind zeros that make whole bytes of them."""
    message = width = 0
    for value, bits in fields:
        message, width = message << bits | value, width + bits
    return zlib.crc32(message.to_bytes(-(-width // 8), "big"))


class DataPlane:
    """Lets packets through a fake switch's program; no packet waits or is dropped."""

    def __init__(self, switch: FakeSwitch) -> None:
        self.switch = switch
        self._registers = {
            name: switch.schema.part(name, "Register")
            for name in ("flow_owner", "flow_arrivals", "flow_departures", "bottleneck_departures")
        }

    def pass_through(self, packet: Packet) -> Reported:
        """One packet comes in, and leaves its bottleneck."""
        action, data = self._connection(packet)
        bottleneck, share = data["index"], data["share"] if action == "bottleneck_of_pipe" else 0
        tuple_ = [(packet.src, 128), (packet.dst, 128), (packet.protocol, 8), (packet.src_port, 16)]
        tuple_ += [(packet.dst_port, 16)]
        size = self._registers["flow_arrivals"].size
        index = crc32([(bottleneck, 6), *tuple_]) % size
        if share & 0x80:
            index = index % (size // 4) + (share >> 5) % 4 * (size // 4)
        signature = crc32([*reversed(tuple_), (bottleneck, 6)]) | 1
        ingress, egress = packet.port // 128, data["port"] // 128
        owner = self._owner(index, signature, ingress, packet, bottleneck)
        arrivals = self._count("flow_arrivals", index, ingress)
        departures = self._count("flow_departures", index, egress)
        self._count("bottleneck_departures", bottleneck, egress)
        return Reported(index, signature, 0 if owner == signature else COLLISION, arrivals, departures)

    def _connection(self, packet: Packet) -> tuple[str, dict[str, int]]:
        """Action and parameters of the entry that a packet meets."""
        table = self.switch.schema.table("cross_connect")
        for key, (action, data) in self.switch.programs.entries[table.name].items():
            (port, port_mask), (mac, mac_mask) = key[0], key[1]
            if packet.port & port_mask == port and packet.dst_mac & mac_mask == mac:
                (name,) = [one.name for one in table.actions if one.id == action]
                return name.rpartition(".")[2], data
        raise AssertionError(f"nothing connects port {packet.port}")

    def _owner(self, index: int, signature: int, pipe: int, packet: Packet, bottleneck: int) -> int:
        """Signature of the flow that has an index in a pipe: this packet's, if nobody had it."""
        register = self._registers["flow_owner"]
        values = self.switch.programs.hardware[register.name, index, pipe]
        field = register.fields[0].name
        if not values.get(field):
            values[field] = signature
            self.switch.send_digest(
                pipe, bottleneck=bottleneck, index=index, signature=signature, src=packet.src, dst=packet.dst,
                protocol=packet.protocol, src_port=packet.src_port, dst_port=packet.dst_port,
            )  # fmt: skip
        return values[field]

    def _count(self, name: str, index: int, pipe: int) -> int:
        register = self._registers[name]
        return self.switch.programs.add(register.name, index, pipe, register.fields[0].name, 1)
