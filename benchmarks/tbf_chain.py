# SPDX-License-Identifier: Apache-2.0
"""The link that is two of the kernel's tc tbf, one in the other, as Claypool et al. (2019) have them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pandas as pd
from bridged import ROOT, bridged
from passage import Place
from tbf import NEEDS, PROGRAMS, READING_S, words

__all__ = ["NEEDS", "PROGRAMS", "link"]


def link(place: Place) -> AbstractAsyncContextManager[Callable[[], pd.DataFrame]]:
    """See `passage.Link`; the queue, which the inner one has, is counted by the outer one as well, and read there.

    Raises:
        RunError: it cannot be made.
    """
    bucket = words(place)
    commands = [f"qdisc add DEV root handle 1: {bucket}", f"qdisc add DEV parent 1:1 handle 10: {bucket}"]
    return bridged(place, commands, ROOT, READING_S)
