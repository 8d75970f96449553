# SPDX-License-Identifier: Apache-2.0
"""BBR's phases by their names: BBRv3 gives its phase, and BBRv1's is known by its two gains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from narrows_formats.columns import BBR_PHASES

if TYPE_CHECKING:
    # A guest, which names the phase of one reading, would wait for it.
    import pandas as pd

# Linux, net/ipv4/tcp_bbr.c of BBRv1: bbr_high_gain, bbr_drain_gain, bbr_cwnd_gain and bbr_pacing_gain, in 1/256, as
# pacing gain and window gain. Between the two gains of its probing BBRv1 cruises; it does not refill.
BBR1_GAINS = {
    (739, 739): "STARTUP", (88, 739): "DRAIN", (256, 256): "PROBE_RTT",
    (320, 512): "PROBE_UP", (192, 512): "PROBE_DOWN", (256, 512): "PROBE_CRUISE",
}  # fmt: skip


def name(raw: Mapping[str, int]) -> str | None:
    """The phase of one reading; fields and result as in `names`."""
    if raw["bbr_phase"]:
        return BBR_PHASES[raw["bbr_phase"] - 1] if raw["bbr_phase"] <= len(BBR_PHASES) else None
    return BBR1_GAINS.get((raw["bbr_pacing_gain"], raw["bbr_cwnd_gain"])) if raw["bbr_bandwidth"] > 0 else None


def names(raw: pd.DataFrame) -> pd.Series[str]:
    """The phase of each reading; null for other congestion control, and for gains that BBRv1 does not have.

    Args:
        raw: `bbr_phase` (0: BBRv1, or no BBR), `bbr_bandwidth`, `bbr_pacing_gain` and `bbr_cwnd_gain` as the kernel
            gives them.
    """
    import pandas as pd

    given = raw["bbr_phase"].map(dict(enumerate(BBR_PHASES, 1)))
    pairs = list(zip(raw["bbr_pacing_gain"], raw["bbr_cwnd_gain"], strict=True))
    gains = pd.Series(pairs, index=raw.index, dtype=object)
    by_gains = gains.map(BBR1_GAINS).where(raw["bbr_bandwidth"] > 0)
    return given.where(raw["bbr_phase"] > 0, by_gains).astype("string")
