# SPDX-License-Identifier: Apache-2.0
"""A controller of learning.p4: learns at which port each address is, and sends what has no entry yet.

``python3 learning_controller.py PORT...``: ports of hosts. finsy is its P4Runtime client.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import finsy


async def learn(switch: finsy.Switch, ports: list[int]) -> None:
    """Make entries for each address as its first packet comes, and pass the packet on."""
    port_of: dict[bytes, int] = {}
    async for packet in switch.read_packets():
        destination, source = packet.payload[:6], packet.payload[6:12]
        port = int(packet["ingress_port"])
        if port_of.get(source) != port:
            port_of[source] = port
            address = int.from_bytes(source, "big")
            await switch.insert(
                [
                    finsy.P4TableEntry(
                        "destinations",
                        match=finsy.P4TableMatch(dst=address),
                        action=finsy.P4TableAction("send", port=port),
                    ),
                    finsy.P4TableEntry(
                        "sources",
                        match=finsy.P4TableMatch(src=address, port=port),
                        action=finsy.P4TableAction("NoAction"),
                    ),
                ]
            )
            print(f"{source.hex(':')} is at port {port}", flush=True)
        known = port_of.get(destination)
        towards = [one for one in ports if one != port] if known is None else [known]
        await switch.write([finsy.P4PacketOut(packet.payload, egress_port=one, unused=0) for one in towards])


async def main() -> None:
    """Be the primary client of the switch until the run ends."""
    options = finsy.SwitchOptions(
        device_id=int(os.environ["P4RUNTIME_DEVICE_ID"]),
        initial_election_id=int(os.environ["P4RUNTIME_ELECTION_ID"]),
        p4info=Path(os.environ["P4RUNTIME_P4INFO"]),
    )
    async with finsy.Switch("switch", os.environ["P4RUNTIME_ADDRESS"], options) as switch:
        await learn(switch, [int(port) for port in sys.argv[1:]])


asyncio.run(main())
