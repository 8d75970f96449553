# SPDX-License-Identifier: Apache-2.0
"""New-flow messages of the program."""

from __future__ import annotations

from collections import defaultdict

from narrows_formats.digest import NewFlow

from narrows_tofino.bfrt.client import Client
from narrows_tofino.bfrt.values import DigestMessage


class Digests:
    """All that have come from one switch."""

    def __init__(self, client: Client) -> None:
        """None is taken before it is asked for."""
        self._client = client
        self._taken: list[DigestMessage] = []
        self._handed_out = 0

    def take(self) -> list[DigestMessage]:
        """All that have come until now."""
        self._taken += self._client.digests(0)
        return list(self._taken)

    def new(self) -> list[NewFlow]:
        """Those since the last call."""
        known, self._handed_out = self._handed_out, len(self.take())
        return [NewFlow.of(digest.data) for digest in self._taken[known:]]

    def flows(self) -> defaultdict[object, set[int]]:
        """Flow indices by bottleneck."""
        flows: defaultdict[object, set[int]] = defaultdict(set)
        for digest in self.take():
            flows[digest.data["bottleneck"]].add(digest.data["index"])
        return flows

    def shared_indices(self) -> list[str]:
        """Flows that met at one index in two pipes, which their shares of the indices rule out."""
        met: dict[tuple[object, object], set[object]] = {}
        for digest in self.take():
            met.setdefault((digest.data["bottleneck"], digest.data["index"]), set()).add(digest.data["signature"])
        return [
            f"{len(signatures)} flows of different pipes share flow index {index} of bottleneck {bottleneck}, so that "
            "their counts are mixed; fix: the program of this version of Narrows (deploy/install-switch.sh)"
            for (bottleneck, index), signatures in met.items()
            if len(signatures) > 1
        ]
