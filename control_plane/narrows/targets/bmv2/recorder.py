# SPDX-License-Identifier: Apache-2.0
"""A softswitch around BMv2, which runs a user's program: it delays what BMv2 cannot, and reports what has left it.

    host eth0 -- portN [softswitch: portN <-> lineN] lineN -- bmvN [BMv2, port N]

Every host is behind it, and so is the collector. Of a packet it knows when it left BMv2, and nothing of its queue.
"""

from __future__ import annotations

from narrows.errors import RunError
from narrows.experiment.plan import Plan
from narrows.hosts.base import Testbed
from narrows.switch.entries import passthrough_entries
from narrows.switch.p4runtime_entries import table_entries
from narrows.targets.bmv2.delay_line import OFFSET, Bmv2DelayLine
from narrows.targets.soft.observed import Observed, observe_request
from narrows.targets.soft.settings import port_delays


class Recorder(Bmv2DelayLine):
    """One process for all hosts, in the switch's namespace."""

    _observed: Observed | None = None

    async def surround(self, testbed: Testbed, collector_port: int, pipe: str | None) -> dict[int, str]:
        """Put it between BMv2 and all hosts; returns the interface that each of their ports now has for BMv2.

        Args:
            testbed: whose hosts these are.
            collector_port: the port that reports leave by; it is not BMv2's.
            pipe: the named pipe that reports go into; None: they are sent.

        Raises:
            RunError: a link cannot be made, or the softswitch does not come up.
        """
        hosts = [one for one in testbed.attachments if one.port != collector_port]
        own = {one.port: one.interface for one in testbed.attachments if one.port == collector_port}
        return await self.start(testbed, hosts, own, {} if pipe is None else {collector_port: pipe})

    async def configure(self, plan: Plan) -> None:
        """Set what hosts and links delay, connect every host, and have what leaves links reported.

        Raises:
            RunError: the softswitch refuses something, or a delay reads back differently.
        """
        session = self._switch.session
        await session.push_pipeline()
        for port, delay_ns in port_delays(plan).items():
            await self._switch.set_delay(port, delay_ns)
        await self._switch.manager.observe(observe_request(plan))
        self._observed = Observed(self._switch.manager)
        ports = sorted(host.port for host in plan.end_hosts)
        cables = [cable for port in ports for cable in ((port, None, port + OFFSET), (port + OFFSET, None, port))]
        await session.insert(table_entries(passthrough_entries(cables), session.schema))

    @property
    def observed(self) -> Observed:
        """The flows that have been seen.

        Raises:
            RunError: it does not run.
        """
        self.check()
        if self._observed is None:
            raise RunError("the delay line is not configured")
        return self._observed

    async def now_ns(self) -> int:
        """The clock that stamps reports."""
        return (await self._switch.manager.list()).timestamp_ns

    async def departures(self) -> dict[int, int]:
        """Packets that have left to the host of each port."""
        found: dict[int, int] = {}
        for queue in (await self._switch.manager.list()).queues:
            found[queue.port] = found.get(queue.port, 0) + queue.dequeued_packets
        return found
