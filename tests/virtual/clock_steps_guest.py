# SPDX-License-Identifier: Apache-2.0
"""The first process of a guest in which a run in real time is made while the clock is changed: a machine of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import traceback
from pathlib import Path

from narrows.virtual import init
from narrows.virtual.probe import loopback_up
from narrows_formats.programs import BINARIES_VARIABLE

AFTER_S = 3.0
RUN = [sys.executable, "-c", "from narrows.cli import main; main()", "run"]


def main() -> None:
    """The life of a guest; its kernel runs in the directory that has the task and takes what is found."""
    try:
        directory = Path("/proc/self/cwd").resolve()
        task = json.loads((directory / "task.json").read_text())
        init.seed_random_numbers(1)
        init.prepare([Path(one) for one in task["needed"]], (directory,))
        init.set_date(task["date_s"])
        loopback_up()
        os.environ[BINARIES_VARIABLE] = str(directory / "programs")
        with (directory / "said").open("w") as said:
            command = [*RUN, str(directory / "experiment.yaml"), "--out", str(directory / "out")]
            run = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT)
            while run.poll() is None and ": traffic (" not in (directory / "said").read_text():
                time.sleep(0.1)
            time.sleep(AFTER_S)
            time.clock_settime(time.CLOCK_REALTIME, time.time() + task["step_s"])
            code = run.wait()
        init.write_out(directory)
        init.Channel().tell(ended=code)
    except Exception:
        traceback.print_exc()
    finally:
        init.power_off()


if __name__ == "__main__":
    main()
