# SPDX-License-Identifier: Apache-2.0
"""What targets have in common whose program is reached by P4Runtime."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection
from typing import TYPE_CHECKING

from narrows_formats.digest import NewFlow

from narrows.switch.readings import DIGEST_RECORDS, FlowTotals
from narrows.targets.base import Target

# What speaks P4Runtime takes half a second to import: only once there is a switch to speak to.
if TYPE_CHECKING:
    from narrows.switch.p4runtime import P4RuntimeSession


class P4RuntimeTarget(Target):
    """A target whose flows are counted by our program on a P4Runtime switch."""

    @property
    @abstractmethod
    def session(self) -> P4RuntimeSession:
        """The session, while the switch runs.

        Raises:
            RunError: it does not run.
        """

    async def flow_totals(self, flows: Collection[int]) -> list[FlowTotals]:
        """The program's arrival and departure counters of some flow indices."""
        from narrows.switch.p4runtime_entries import read_flow_totals

        return await read_flow_totals(self.session, flows)

    async def subscribe_new_flows(self, at_once: bool = False) -> None:
        """Subscribe to the program's digest of new flows."""
        from narrows.switch.p4runtime_entries import NEW_FLOW

        await self.session.subscribe(NEW_FLOW, 1 if at_once else DIGEST_RECORDS)

    async def new_flows(self) -> list[NewFlow]:
        """Records of the digest that have arrived since the last call."""
        return [NewFlow.of(record) for record in self.session.take_digests()]

    async def departed_bytes(self, flows: Collection[int]) -> dict[int, int]:
        """The program's departure counters of some flow indices."""
        from narrows.switch.p4runtime_entries import read_departed_bytes

        return await read_departed_bytes(self.session, flows)
