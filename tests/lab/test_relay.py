# SPDX-License-Identifier: Apache-2.0
"""What stands in for a process on a machine, when the run that wanted it is gone."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

from narrows.hosts.lab.machines import relayed


def test_a_relay_whose_run_was_killed_while_it_started_begins_nothing(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    command = shlex.join(relayed(["touch", str(begun)]))
    # The shell is its parent, and not the process that wanted it.
    subprocess.run(["sh", "-c", f"{command}; true"], check=True)
    assert not begun.exists()
    subprocess.run(relayed(["touch", str(begun)]), check=True)
    assert begun.exists()
