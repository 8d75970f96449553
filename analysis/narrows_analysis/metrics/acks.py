# SPDX-License-Identifier: Apache-2.0
"""Spacing of acknowledgements: whether a queue on their way lets them out closer together than they came."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

BoolArray = npt.NDArray[np.bool_]

# As many acknowledgements are judged together: a single short gap may be chance.
GROUP = 3
COMPRESSED_BELOW = 0.75


def compressed_groups(arrival: npt.ArrayLike, departure: npt.ArrayLike, resolution: float = 0.0) -> BoolArray:
    """Which groups of three successive acknowledgements of a flow a queue has compressed.

    Acknowledgements come as far apart as the data that they acknowledge left the link in the other direction, and clock
    out the sender's next data. Where they wait behind data of that direction, they leave one behind the other, no
    further apart than their own transmission takes: the sender sends a burst (ACK compression). A group counts as
    compressed if (Tr + C) / (Ts - C) < 0.75: Ts from its first arrival at the queue to its last, Tr from its first
    departure to its last, C the resolution of the clock. Groups overlap: n acknowledgements are n - 2 groups.

    What to expect:

    - No queue where acknowledgements pass: departures are as far apart as arrivals; no group is compressed.
    - Acknowledgements d apart that find a queue of w seconds: those that come while it drains leave a apart, a being
      the transmission time of one; with a < 0.75 d every group of three of them is compressed.
    - Both directions full, equal rates: four data frames a group of three (one acknowledgement for two segments)
      leave ahead of it on average. If data and acknowledgements were mixed by chance, two or fewer did so in 24 %
      of the groups (Poisson), and those are compressed; clusters, which two-way traffic makes, give more.

    Args:
        arrival: when each acknowledgement arrived at the queue, in order.
        departure: when its transmission began, in the same unit.
        resolution: of these times.

    Returns:
        For each acknowledgement but the last two, whether it and the two behind it were compressed.

    Source: L. Zhang, S. Shenker, D. Clark, "Observations on the Dynamics of a Congestion Control Algorithm: The Effects
    of Two-Way Traffic", SIGCOMM 1991; J. Mogul, "Observing TCP Dynamics in Real Networks", SIGCOMM 1992; groups and
    threshold: V. Paxson, "End-to-End Internet Packet Dynamics", SIGCOMM 1997.
    """
    came, left = (_spans(np.asarray(times)) for times in (arrival, departure))
    compressed: BoolArray = left + resolution < COMPRESSED_BELOW * (came - resolution)
    return compressed


def _spans(times: npt.NDArray[np.generic]) -> npt.NDArray[np.float64]:
    """From the first of each group to its last. Differences first: large times keep their last digits."""
    return (times[GROUP - 1 :] - times[: -(GROUP - 1)]).astype(np.float64)  # type: ignore[operator]
