# SPDX-License-Identifier: Apache-2.0
"""The unit in which pages show a measure."""

from __future__ import annotations

from typing import Literal

Unit = Literal["%", "BDP", "s", "x", ""]

# By what comes before the group's name; a time ends in ``_s``, a size in ``_bdp``, and what is not here has no unit.
_UNITS: dict[str, Unit] = {
    "goodput_fraction": "%",
    "loss_after_right_probe": "%",
    "loss_after_wrong_probe": "%",
    "loss_max": "%",
    "loss_ratio": "%",
    "lossy_windows": "%",
    "pacing_fraction": "%",
    "probe_synchrony": "%",
    "probes_not_draining": "%",
    "queue_max_fill": "%",
    "retransmit_ratio": "%",
    "share": "%",
    "throughput_difference": "%",
    "utilization": "%",
    "fct_cv": "x",
    "rate_iqr": "x",
    "rtt_ratio": "x",
    "slowdown_large": "x",
    "slowdown_long": "x",
    "slowdown_medium": "x",
    "slowdown_short": "x",
    "slowdown_small": "x",
}


# In %, and can be below 0 or above 1; or without a unit, and between 0 and 1.
_UNBOUNDED = {"throughput_difference", "pacing_fraction"}
_RATIOS = {"queue_fill", "model_share"}


def is_ratio(measure: str) -> bool:
    """Whether a measure is a part of a whole, between 0 and 1."""
    name = measure.partition(".")[0]
    return name.startswith("jain") or name in _RATIOS or (_UNITS.get(name) == "%" and name not in _UNBOUNDED)


def unit_of(measure: str) -> Unit:
    """The unit of a measure, with or without a group behind its name: ``share.bbr`` is shown in %."""
    name = measure.partition(".")[0]
    if name.endswith("_s"):
        return "s"
    return "BDP" if name.endswith("_bdp") else _UNITS.get(name, "")
