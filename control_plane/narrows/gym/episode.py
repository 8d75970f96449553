# SPDX-License-Identifier: Apache-2.0
"""One episode: a run in virtual time whose senders an agent drives."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from narrows.api import Interval, RunError, TcpInfo
from narrows.api.session import Session

WAIT_RTTS = 100


class Episode:
    """A run under way; `close` ends it."""

    def __init__(
        self, experiment: Mapping[str, object], agents: Sequence[str], kernel: str | None, keep: Path | None
    ) -> None:
        """Begin a run, and let it go on until all senders are connected and have measured an RTT.

        Args:
            experiment: as a file has it.
            agents: its groups, of one flow each, that are driven.
            kernel: of virtual time.
            keep: directory for its results, which must not exist; None: they are removed.

        Raises:
            InputError: the experiment is not valid.
            RunError: a sender does not connect.
        """
        self._is_kept, scratch = keep is not None, None
        if keep is None:
            # It goes with the run's process, also where this one dies.
            scratch = Path(tempfile.mkdtemp(prefix="narrows-gym-"))
            keep = scratch / "run"
        self.directory = keep
        self._bed = Session(experiment, True, kernel, self.directory, (), False, scratch)
        self._is_open = True
        with ExitStack() as stack:
            stack.enter_context(self._bed)
            self.senders = {agent: self._bed.flows[f"{agent}-1"] for agent in agents}
            self.base_rtt_s = min(sender.base_rtt_s for sender in self.senders.values())
            self._before: dict[str, TcpInfo] = {}
            self._connect()
            # The run goes on, until `close`.
            stack.pop_all()

    def _connect(self) -> None:
        for _ in range(WAIT_RTTS):
            self._bed.step(self.base_rtt_s)
            for agent, sender in self.senders.items():
                info = sender.info()
                if info is not None and info.rtt_s is not None:
                    self._before[agent] = info
            if len(self._before) == len(self.senders):
                return
        raise RunError(f"the senders are not connected after {WAIT_RTTS} round trips")

    @property
    def over(self) -> bool:
        """Whether its traffic has ended."""
        return self._bed.over

    @property
    def time_s(self) -> float:
        """Seconds since its start."""
        return self._bed.state.time_s

    def set(self, agent: str, cwnd: int | None, pacing_rate_bps: float | None) -> None:
        """Set what an agent decided for its sender."""
        self.senders[agent].set(cwnd=cwnd, pacing_rate=pacing_rate_bps)

    def state(self, agent: str) -> TcpInfo:
        """The last reading of a sender."""
        return self._before[agent]

    def step(self, duration_s: float) -> dict[str, Interval]:
        """Let time pass; what happened to each sender, none once the traffic has ended."""
        if self._bed.step(duration_s).over:
            return {}
        found = {}
        for agent, sender in self.senders.items():
            if (info := sender.info()) is None:
                return {}
            found[agent] = Interval(self._before[agent], info)
            self._before[agent] = info
        return found

    def queue_bytes(self) -> int:
        """What waits in the queues of all links: what a sender does not see."""
        return sum(link.queue_bytes for link in self._bed.state.links.values())

    def close(self) -> None:
        """End it; of one that is kept the results are complete then. Safe to call twice."""
        if self._is_open:
            self._is_open = False
            if self._is_kept:
                self._bed.__exit__(None, None, None)
            else:
                self._bed.abandon()
