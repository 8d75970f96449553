# SPDX-License-Identifier: Apache-2.0
"""The connection to a testbed's switch: through its tunnel if it has one, with the client that the inventory names."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from narrows.hosts.lab.ssh import SshError
from narrows.hosts.lab.tunnel import Tunnel

from narrows_tofino.bfrt.client import Client, Endpoint
from narrows_tofino.bfrt.connect import connect
from narrows_tofino.bfrt.errors import BfrtError, ConnectionLost
from narrows_tofino.testbed.inventory import Inventory

Connect = Callable[[Endpoint, Sequence[str]], Client]


class SwitchSession:
    """A session that can be opened again when it was lost; the tunnel is kept as long as it lives."""

    def __init__(self, inventory: Inventory, connect_to: Connect = connect) -> None:
        """Nothing is connected to before `open`; ``connect_to`` is what does it."""
        self._inventory = inventory
        self._connect_to = connect_to
        self._tunnel: Tunnel | None = None
        self._client: Client | None = None

    def open(self) -> Client:
        """A client in a session of its own, in place of the one before.

        Raises:
            RunError: the switch cannot be reached, runs another program, belongs to another client, or is another chip.
        """
        self._end()
        switch = self._inventory.switch
        address = None
        if switch.tunnel is not None:
            self._tunnel = self._tunnel or Tunnel(switch.tunnel, switch.address)
            try:
                address = self._tunnel.open()
            except SshError as error:
                raise ConnectionLost(str(error)) from error
        prefer = ("sde", "own") if switch.client == "auto" else (switch.client,)
        self._client = client = self._connect_to(self._inventory.endpoint(address), prefer)
        chip = switch.generation
        if not any(name.startswith(f"{chip.prefix}.tm.") for name in client.schema.tables):
            self._end()
            raise BfrtError(
                f"the switch is not a {chip.name}: its tables are another generation's; fix: switch.chip in the "
                "inventory"
            )
        return client

    def close(self) -> None:
        """End session and tunnel; safe to call twice."""
        self._end()
        if self._tunnel is not None:
            self._tunnel.close()
            self._tunnel = None

    def _end(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None
