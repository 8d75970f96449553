# SPDX-License-Identifier: Apache-2.0
"""What it takes to reproduce a point of a study; results keep it beside the measures."""

from __future__ import annotations

from typing import Any

from narrows.run.joining import made_by
from narrows_analysis.run_data import RunData


def provenance(run: RunData) -> dict[str, Any]:
    """Seed, version and commit of the code, kernel and digest of its configuration, and what was drawn for the run.

    Without virtual time there is no digest: such a run cannot be reproduced bit for bit.
    """
    record = run.run.raw
    found = {
        "seed": record.get("seed"),
        **made_by(record),
        "rtt_s": run.run.bottleneck.rtt_s,
        "hosts": record.get("virtual_time", {}).get("hosts"),
    }
    return {name: value for name, value in found.items() if value is not None}
