# SPDX-License-Identifier: Apache-2.0
"""One episode: a run in virtual time whose senders an agent drives."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from narrows.api import Bed, InputError, Interval, RunError, Sender, TcpInfo, testbed
from narrows.traffic.traffic import EXTERNAL

WAIT_RTTS = 100


class Episode:
    """A run under way; `close` ends it."""

    def __init__(self, experiment: dict[str, Any], kernel: str | None, keep: Path | None) -> None:
        """Begin a run, and let it go on until all senders are connected and have measured an RTT.

        Args:
            experiment: as a file has it; flows with an external congestion control are driven.
            kernel: of virtual time.
            keep: directory for its results, which must not exist; None: they are removed.

        Raises:
            InputError: the experiment is not valid, or none of its flows can be driven.
            RunError: a sender does not connect.
        """
        self._scratch = tempfile.TemporaryDirectory(prefix="narrows-gym-") if keep is None else None
        self.directory = keep or Path(self._scratch.name if self._scratch else "") / "run"
        self._keeps = keep is not None
        self._bed: Bed = testbed(experiment, virtual=True, kernel=kernel, out=self.directory)
        self._bed.__enter__()
        self._is_open = True
        try:
            self._begin(experiment)
        except BaseException as error:
            self._bed.__exit__(type(error), error, None)
            raise

    def _begin(self, experiment: dict[str, Any]) -> None:
        names = {flow.get("name") for flow in experiment["flows"] if flow.get("cca") in EXTERNAL}
        self.senders: dict[str, Sender] = {
            name: sender for name, sender in self._bed.flows.items() if name.rpartition("-")[0] in names
        }
        if not self.senders:
            raise InputError(f"experiment: no named group has cca {' or '.join(EXTERNAL)}; allowed: at least one")
        self.base_rtt_s = min(sender.base_rtt_s for sender in self.senders.values())
        self._before: dict[str, TcpInfo] = {}
        for _ in range(WAIT_RTTS):
            self._bed.step(self.base_rtt_s)
            for name, sender in self.senders.items():
                info = sender.info()
                if info is not None and info.rtt_s is not None:
                    self._before[name] = info
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

    def set(self, name: str, cwnd: int | None, pacing_rate_bps: float | None) -> None:
        """Set what an agent decided for its sender."""
        self.senders[name].set(cwnd=cwnd, pacing_rate=pacing_rate_bps)

    def state(self, name: str) -> TcpInfo:
        """The last reading of a sender."""
        return self._before[name]

    def step(self, duration_s: float) -> dict[str, Interval]:
        """Let time pass; what happened to each sender, none once the traffic has ended."""
        if self._bed.step(duration_s).over:
            return {}
        found = {}
        for name, sender in self.senders.items():
            if (info := sender.info()) is None:
                return {}
            found[name] = Interval(self._before[name], info)
            self._before[name] = info
        return found

    def queue_bytes(self) -> int:
        """What waits in the queues of all links: what a sender does not see."""
        return sum(link.queue_bytes for link in self._bed.state.links.values())

    def close(self) -> None:
        """End it; of one that is kept the results are complete then. Safe to call twice."""
        if self._is_open:
            self._is_open = False
            if self._keeps:
                self._bed.__exit__(None, None, None)
            else:
                self._bed.abandon()
        if self._scratch is not None:
            self._scratch.cleanup()
