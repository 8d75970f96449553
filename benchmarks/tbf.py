# SPDX-License-Identifier: Apache-2.0
"""The link that is the kernel's tc tbf: a bridge between the hosts, and tbf on its interface to the receiver."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pandas as pd
from bridged import ROOT, bridged
from passage import Place

NEEDS = "CONFIG_BRIDGE=y"  # of a kernel
PROGRAMS: tuple[str, ...] = ()  # that are not everywhere
# With fewer it loses more of its rate (virtual-accuracy), with two 0.2 % at 100 Mbit/s. More hide the queue from
# HyStart, which looks at the first packets of a round trip (RFC 9406): with 4 ms CUBIC lost three times as many.
BURST_FRAMES = 2
READING_S = 0.05


def link(place: Place) -> AbstractAsyncContextManager[Callable[[], pd.DataFrame]]:
    """See `passage.Link`; the queue is what was read of the qdisc.

    Raises:
        RunError: it cannot be made.
    """
    return bridged(place, [f"qdisc add DEV root {words(place)}"], ROOT, READING_S)


def words(place: Place) -> str:
    """What tc calls a tbf of the bottleneck's rate and buffer."""
    bottleneck = place.plan.bottleneck
    burst = BURST_FRAMES * place.plan.frame_bytes
    return f"tbf rate {bottleneck.rate_bps}bit burst {burst} limit {bottleneck.limit_bytes}"
