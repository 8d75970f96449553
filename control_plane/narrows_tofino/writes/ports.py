# SPDX-License-Identifier: Apache-2.0
"""Ports: always first, because adding a port (or changing its speed) resets its queues and shapers."""

from __future__ import annotations

from collections.abc import Sequence

from narrows.errors import InputError

from narrows_tofino.bfrt.client import Operation
from narrows_tofino.testbed.inventory import AUTO_NEGOTIATION, FEC, Inventory, Port
from narrows_tofino.writes.planned import PlannedWrite, Reader, text

TABLE = "$PORT"
# Names of one and the same FEC; the switch may answer with either.
_FEC_SYNONYMS = {
    "BF_FEC_TYP_FIRECODE": ("BF_FEC_TYP_FIRECODE", "BF_FEC_TYP_FC"),
    "BF_FEC_TYP_REED_SOLOMON": ("BF_FEC_TYP_REED_SOLOMON", "BF_FEC_TYP_RS"),
    "BF_FEC_TYP_NONE": ("BF_FEC_TYP_NONE",),
}
_PAUSE = ("$TX_PAUSE_FRAME_EN", "$RX_PAUSE_FRAME_EN")
_PFC = ("$TX_PFC_EN_MAP", "$RX_PFC_EN_MAP")
_LOOPBACK = "BF_LPBK_MAC_NEAR"
_NO_LOOPBACK = "BF_LPBK_NONE"


def port_writes(inventory: Inventory, dev_ports: Sequence[int], reader: Reader) -> list[PlannedWrite]:
    """Adds the ports that are not there; those that are must run as the inventory says.

    Raises:
        InputError: a port runs at another speed or with another FEC, has flow control or cut-through on, or is in
            loopback where the inventory says otherwise.
    """
    writes: list[PlannedWrite] = []
    for dev_port in dev_ports:
        port = inventory.port(dev_port)
        key = {"$DEV_PORT": dev_port}
        found = reader.entry(TABLE, key)
        if found is None:
            writes.append(_add(port, inventory.in_loopback(port)))
            continue
        speed = text(found, "$SPEED")
        if speed != f"BF_SPEED_{port.speed}":
            raise InputError(
                f"inventory: port {port.name} (dev_port {dev_port}) runs at {speed.removeprefix('BF_SPEED_')}, not at "
                f"{port.speed}: a change of speed interrupts the link and resets its queues; correct the inventory, "
                "or delete the port on the switch (bfshell, ucli, pm, port-del) and let Narrows add it"
            )
        if text(found, "$FEC") not in _FEC_SYNONYMS[FEC[port.fec]]:
            raise InputError(
                f"inventory: port {port.name} (dev_port {dev_port}) has {text(found, '$FEC')}, not {FEC[port.fec]}; "
                "correct the inventory, or delete the port on the switch (bfshell, ucli, pm, port-del) and let Narrows "
                "add it"
            )
        for name in (*_PAUSE, *_PFC, "$CUT_THROUGH_EN"):
            if found.data.get(name):
                raise InputError(
                    f"inventory: port {port.name} (dev_port {dev_port}) has {name} on: hosts must be dropped from, not "
                    "paused, and every packet must be queued; turn it off on the switch"
                )
        mode, wanted = text(found, "$LOOPBACK_MODE"), _LOOPBACK if inventory.in_loopback(port) else _NO_LOOPBACK
        if mode != wanted:
            raise InputError(
                f"inventory: port {port.name} (dev_port {dev_port}) has $LOOPBACK_MODE {mode}, not {wanted}; correct "
                "loopback in the inventory, or delete the port on the switch (bfshell, ucli, pm, port-del) and let "
                "Narrows add it"
            )
        if not found.data.get("$PORT_ENABLE"):
            writes.append(
                PlannedWrite(Operation.MODIFY, TABLE, key, {"$PORT_ENABLE": True}, f"turn port {port.name} on")
            )
    return writes


def _add(port: Port, loopback: bool) -> PlannedWrite:
    fec = FEC[port.fec]
    what = "loopback port" if loopback else "port"
    return PlannedWrite(
        Operation.INSERT,
        TABLE,
        {"$DEV_PORT": port.dev_port},
        {
            "$SPEED": f"BF_SPEED_{port.speed}",
            "$FEC": fec,
            "$AUTO_NEGOTIATION": AUTO_NEGOTIATION[port.auto_negotiation],
            **({"$LOOPBACK_MODE": _LOOPBACK} if loopback else {}),
            "$PORT_ENABLE": True,
        },
        f"add {what} {port.name}: the traffic manager is programmed after this, because adding a port resets its "
        "queues",
        expect={"$FEC": _FEC_SYNONYMS[fec]},
    )
