# SPDX-License-Identifier: Apache-2.0
"""The first process of a guest whose bottleneck is not ours: measures what passage.py hands it, and turns it off."""

from __future__ import annotations

import asyncio
import pickle
import sys
import traceback
from pathlib import Path

from narrows.virtual import init
from narrows.virtual.task import TASK_FILE

FOUND_FILE = "found.pickle"


def main() -> None:
    """The life of a guest; its kernel runs in the directory that has the task and takes what is found."""
    try:
        directory = Path("/proc/self/cwd").resolve()
        link, options, experiment, plan, needed = pickle.loads((directory / TASK_FILE).read_bytes())
        init.seed_random_numbers(experiment.seed)
        init.prepare(needed, (directory,))
        # It needs the guest's own /proc as it is imported; a guest's first process lacks its own directory on sys.path.
        sys.path.append(str(Path(__file__).parent))
        from passage import measure

        (directory / FOUND_FILE).write_bytes(pickle.dumps(asyncio.run(measure(link, options, experiment, plan))))
        init.write_out(directory)
        init.Channel().tell(measured=True)
    except Exception:
        traceback.print_exc()
    finally:
        init.power_off()


if __name__ == "__main__":
    main()
