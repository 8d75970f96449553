# SPDX-License-Identifier: Apache-2.0
"""Worker processes of runs side by side."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

from narrows.hosts.process import start_time

PARENT = """
import os, time
from narrows.run.workers import worker_pool
def tell(_):
    # In one piece: the pipe is both workers'.
    os.write(1, b"%d\\n" % os.getpid())
    time.sleep(60)
if __name__ == "__main__":
    with worker_pool(2) as pool:
        list(pool.map(tell, range(2)))
"""


def test_workers_end_with_a_killed_parent(tmp_path: Path) -> None:
    # New processes look for what they are to do in a file.
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        workers = [int(process.stdout.readline()) for _ in range(2)]
        assert len(set(workers)) == 2 and process.pid not in workers
        process.send_signal(signal.SIGKILL)
        process.wait()
        deadline = time.monotonic() + 20
        while any(start_time(worker) is not None for worker in workers):
            assert time.monotonic() < deadline
            time.sleep(0.05)
