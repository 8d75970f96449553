# SPDX-License-Identifier: Apache-2.0
"""The solutions of p4lang/tutorials do on the softswitch what their exercises say.

It takes p4c, and a checkout of the tutorials, which ``NARROWS_TUTORIALS`` names.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from tutorials import EXERCISES, source

ROOT = Path(__file__).parents[2]


@pytest.mark.needs("tutorials")
@pytest.mark.long
def test_solutions_do_what_their_exercises_say(tmp_path: Path) -> None:
    tutorials = Path(os.environ["NARROWS_TUTORIALS"])
    for name, script in EXERCISES.items():
        program = source(tutorials, name)
        command = ["p4c-bm2-ss", "--std", "p4-16", "-o", f"{tmp_path}/{name}.json", program.name]
        subprocess.run(command, cwd=program.parent, check=True, capture_output=True)
        lines = script(tutorials / "exercises" / name).lines
        (tmp_path / f"{name}.stf").write_text("\n".join(lines) + "\n")
    run = ["cargo", "test", "--release", "-p", "narrows-switch", "--test", "stf", "other_programs", "--", "--nocapture"]
    environment = {**os.environ, "NARROWS_STF": str(tmp_path)}
    done = subprocess.run(run, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    outcomes = dict(re.findall(r"^(\w+): (.*)$", done.stdout, re.MULTILINE))
    assert {name: outcomes.get(name) for name in EXERCISES} == dict.fromkeys(EXERCISES, "passed"), done.stdout
