# SPDX-License-Identifier: Apache-2.0
"""The pipeline benchmark's configuration with a managed queue: the program that has laws, and a law's entries in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from narrows.experiment.model import Experiment
from narrows.experiment.planning import make_plan
from narrows.paths import compiled_program
from narrows.switch.entries import aqm_entries
from narrows.targets.soft.settings import management_message

MANAGED_PROGRAM = "v1model-managed"
KINDS = ("step", "codel", "pie", "red", "pi2", "dualpi2", "fq", "fq_codel")
CONTROLS = {
    "enqueue_aqm": "NarrowsIngress.manage",
    "dequeue_aqm": "NarrowsEgress.manage",
    "update_aqm": "NarrowsIngress.update",
}
BOTTLENECK = 0


def managed(config: Path, kind: str) -> Path:
    """A configuration whose only queue is managed, beside the one that it is made of.

    Args:
        config: with one bottleneck.
        kind: of queue management, with its defaults.
    """
    made: dict[str, Any] = json.loads(config.read_text())
    (queue,) = made["queues"]
    settings = {"kind": "step", "threshold": "1ms"} if kind == "step" else kind
    bottleneck = {
        "rate": f"{queue['rate_bps']}bit",
        "buffer": f"{queue['limit_bytes']}B",
        "rtt": "1ms",
        "queue": settings,
    }
    flows = [{"cca": "cubic", "duration": "1s"}]
    plan = make_plan(Experiment.model_validate({"name": "laws", "bottleneck": bottleneck, "flows": flows}))
    link = plan.bottleneck
    made["program"] = str(compiled_program(MANAGED_PROGRAM)[0])
    made["entries"] += [
        {
            "table": f"{CONTROLS[table]}.{table}",
            "match": {"bottleneck": BOTTLENECK},
            "action": f"{CONTROLS[table]}.{action}",
            "params": dict(parameters),
        }
        for table, (action, parameters) in aqm_entries(link, plan.frame_bytes)
    ]
    asked = management_message(link, plan)
    shares = asked.WhichOneof("scheduling")
    scheduling = (
        {shares: {field.name: value for field, value in getattr(asked, shares).ListFields()}} if shares else "fifo"
    )
    queue["management"] = {"index": BOTTLENECK, "period_ns": asked.period_ns, "scheduling": scheduling}
    path = config.with_name(f"{config.stem}-{kind}.json")
    path.write_text(json.dumps(made))
    return path
