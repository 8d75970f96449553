# SPDX-License-Identifier: Apache-2.0
"""TCP on/off sources: flows that have data to send in bursts, with pauses in between."""

from __future__ import annotations

from collections.abc import Collection

from narrows_formats.validation import refuse
from pydantic import Field

from narrows.flows.datagrams import Bursts
from narrows.flows.group import FlowGroup, Place, alone
from narrows.onhost import onoff as on_host


class OnOffGroup(FlowGroup):
    """Flows that pause."""

    made_of = on_host.OnOff
    key = "onoff"

    onoff: Bursts = Field(
        description="A TCP connection that sends as much as it can in bursts, and nothing in the pauses, for a "
        "`duration`. A pause begins with at most `notsent_lowat` unsent bytes in the socket, `16384B` by default."
    )

    def payload(self, place: Place) -> on_host.OnOff:
        """See `FlowGroup.payload`."""
        try:
            return on_host.OnOff(self.onoff.bursts(0, place.duration_ns or 0, place.seed))
        except ValueError as error:
            raise ValueError(f"{self.key}: {error}") from None

    def check_kind(self, others: Collection[str]) -> None:
        """See `FlowGroup.check_kind`."""
        self.needs_cca()
        alone(others, self.key, f"a duration with {self.key}")
        if self.duration is None:
            raise refuse(f"has no duration, and {self.key}", f"a duration with {self.key}")
