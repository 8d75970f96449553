# SPDX-License-Identifier: Apache-2.0
"""What the program counts of packets, pipe by pipe, by the entries that the fake switch holds.

Every pipe's ingress knows only what came in through it; behind the queue all flows of a bottleneck meet in one pipe.
What leaves a port in loopback comes in again there.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace

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
    """Lets packets through a fake switch's program. What comes to a queue of ``stopped`` ports waits there."""

    def __init__(self, switch: FakeSwitch) -> None:
        self.switch = switch
        self.stopped: set[int] = set()
        self._registers = {
            name: switch.schema.part(name, "Register")
            for name in ("flow_owner", "flow_arrivals", "flow_departures", "bottleneck_departures")
        }

    def travel(self, packet: Packet, frame: int) -> tuple[list[Reported], int | None]:
        """One packet of ``frame`` bytes goes as far as it gets: its reports, and the port that it left the switch by.

        None: a queue has dropped it, or it waits in one.
        """
        reports: list[Reported] = []
        while True:
            action, data = self._connection(packet)
            port = data["port"]
            if action == "wire":
                self.switch.tm.offer(packet.port, port, 0, frame)
                self.switch.tm.drain(port, 0, 1)
            else:
                found = self._identify(packet, data["index"], data.get("share", 0))
                self._count_both("arrival", found.index, packet.port // 128, frame)
                if not self.switch.tm.offer(packet.port, port, data["queue"], frame) or port in self.stopped:
                    return reports, None
                self.switch.tm.drain(port, data["queue"], 1)
                reports.append(self._depart(found, data["index"], port // 128))
                self._count_both("departure", found.index, port // 128, frame)
            if self.switch.tm.ports[port]["$LOOPBACK_MODE"] == "BF_LPBK_NONE":
                return reports, port
            for side in ("Transmitted", "Received"):
                self._statistics(port)[f"$Frames{side}OK"] += 1
            packet = replace(packet, port=port)

    def pass_through(self, packet: Packet) -> Reported:
        """One packet comes in, and leaves its bottleneck."""
        action, data = self._connection(packet)
        share = data["share"] if action == "bottleneck_of_pipe" else 0
        return self._depart(self._identify(packet, data["index"], share), data["index"], data["port"] // 128)

    def _identify(self, packet: Packet, bottleneck: int, share: int) -> Reported:
        """A packet comes to a bottleneck: its flow there, and how many of it have come."""
        tuple_ = [(packet.src, 128), (packet.dst, 128), (packet.protocol, 8), (packet.src_port, 16)]
        tuple_ += [(packet.dst_port, 16)]
        size = self._registers["flow_arrivals"].size
        index = crc32([(bottleneck, 6), *tuple_]) % size
        if share & 0x80:
            index = index % (size // 4) + (share >> 5) % 4 * (size // 4)
        signature = crc32([*reversed(tuple_), (bottleneck, 6)]) | 1
        ingress = packet.port // 128
        owner = self._owner(index, signature, ingress, packet, bottleneck)
        arrivals = self._count("flow_arrivals", index, ingress)
        return Reported(index, signature, 0 if owner == signature else COLLISION, arrivals, 0)

    def _depart(self, found: Reported, bottleneck: int, pipe: int) -> Reported:
        """It leaves the queue."""
        self._count("bottleneck_departures", bottleneck, pipe)
        return replace(found, departures=self._count("flow_departures", found.index, pipe))

    def _connection(self, packet: Packet) -> tuple[str, dict[str, int]]:
        """Action and parameters of the entry that a packet meets."""
        table = self.switch.schema.table("cross_connect")
        names = [spec.name for spec in table.keys]
        for key, (action, data) in self.switch.programs.entries[table.name].items():
            (port, port_mask), (mac, mac_mask) = key[names.index("ingress_port")], key[names.index("dst_mac")]
            if packet.port & port_mask == port and packet.dst_mac & mac_mask == mac:
                (name,) = [one.name for one in table.actions if one.id == action]
                return name.rpartition(".")[2], data
        raise AssertionError(f"nothing connects port {packet.port}")

    def _owner(self, index: int, signature: int, pipe: int, packet: Packet, bottleneck: int) -> int:
        """Signature of the flow that has an index in a pipe: this packet's, if no flow had it."""
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

    def _count_both(self, name: str, index: int, pipe: int, frame: int) -> None:
        """The counter of 64 bits, in packets and bytes."""
        counter = self.switch.schema.part(f"{name}_counter", "Counter")
        for field, number in (("$COUNTER_SPEC_PKTS", 1), ("$COUNTER_SPEC_BYTES", frame)):
            self.switch.programs.add(counter.name, index, pipe, field, number, 64)

    def _statistics(self, port: int) -> dict[str, int]:
        fields = self.switch.schema.table("$PORT_STAT").fields
        return self.switch.statistics.setdefault(port, {field.name: 0 for field in fields})
