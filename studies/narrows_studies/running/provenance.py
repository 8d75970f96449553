# SPDX-License-Identifier: Apache-2.0
"""What it takes to reproduce a point of a study; results keep it beside the measures."""

from __future__ import annotations

from typing import Any

from narrows_analysis.run_data import RunData
from narrows_formats import provenance as of_run


def provenance(run: RunData) -> dict[str, Any]:
    """Seed, code, kernel and digests of what made the run, and what was drawn for it.

    Without virtual time there is no digest: such a run cannot be reproduced bit for bit.
    """
    record = run.run.raw
    found = {
        "seed": record.get("seed"),
        **of_run.provenance(record),
        "rtt_s": run.run.bottleneck.rtt_s,
        "hosts": record.get("virtual_time", {}).get("hosts"),
    }
    return {name: value for name, value in found.items() if value is not None}
