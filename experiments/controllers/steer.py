# SPDX-License-Identifier: Apache-2.0
"""Runs an experiment in which a saved policy drives the flows of the group `agent`: in real time, or in virtual time.

Their congestion control is `external`; agent.yaml is an example. Needs narrows[gym].
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from narrows import api
from narrows.controllers import drive
from narrows_analysis import RunData
from policy import Policy

AGENT = "agent-"


def steered(policy: Policy, experiment: Path | dict[str, object], virtual: bool, out: Path | None) -> RunData:
    """The run.

    Args:
        policy: a controller of its own for each flow.
        experiment: a file, or what a file has.
        virtual: in virtual time.
        out: directory for the results, which must not exist; `results/NAME-TIME` by default.
    """
    with api.testbed(experiment, virtual=virtual, out=out) as bed:
        drive(bed, {name: policy.controller() for name in bed.flows if name.startswith(AGENT)})
    return bed.result


def main() -> None:
    """Run it, and say what each group got."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("policy", type=Path, help="what train.py or train_sb3.py saved")
    parser.add_argument("experiment", type=Path, help="an experiment file")
    parser.add_argument("--virtual", action="store_true")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    try:
        run = steered(Policy.load(arguments.policy), arguments.experiment, arguments.virtual, arguments.out)
    except api.NarrowsError as error:
        sys.exit(f"steer: {error}")
    for group in run.summary["groups"]:
        print(f"{group['name']}: {group['goodput_bps'] / 1e6:.2f} Mbit/s")
    print(f"queue delay: {1e3 * run.summary['bottleneck']['queue_delay_s']['mean']:.2f} ms mean")


if __name__ == "__main__":
    main()
