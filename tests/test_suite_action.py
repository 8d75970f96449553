# SPDX-License-Identifier: Apache-2.0
"""What the action that runs a suite on pull requests asks of Narrows, how it ends, and its comment."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.parallel_safe

ACTION = Path(__file__).parents[1] / ".github" / "actions" / "suite"
# In the place of Narrows: notes its words, and says what it is to say.
NARROWS = """\
#!/bin/sh
echo "$@" >> asked
case "$2" in
    run) mkdir -p results; printf '%s\\n' 'a: fail' 'mine: 1 pass, 1 fail' 'page: x'; exit $RUN_CODE ;;
    compare) printf '%s\\n' "$CHANGES" ;;
esac
"""
WORSE, BETTER = "a, bbr@k: pass -> fail (x < 1: 2)", "a, bbr@k: fail -> pass"


def act(place: Path, run_code: int = 0, changes: str = "", **inputs: str) -> tuple[int, list[str]]:
    """The action's exit code, and the commands that it gave, with some inputs in the place of defaults."""
    narrows = place / "narrows"
    narrows.write_text(NARROWS)
    narrows.chmod(narrows.stat().st_mode | stat.S_IXUSR)
    action = yaml.safe_load((ACTION / "action.yml").read_text())
    asked = {"suite": "mine", "narrows": str(narrows), "results": "results", **inputs}
    assert asked.keys() <= action["inputs"].keys()
    step = action["runs"]["steps"][0]
    values = {
        variable: asked.get(name, action["inputs"][name].get("default", ""))
        for variable, text in step["env"].items()
        for name in [text.removeprefix("${{ inputs.").removesuffix(" }}")]
    }
    more = {"GITHUB_ACTION_PATH": str(ACTION), "RUN_CODE": str(run_code), "CHANGES": changes}
    ended = subprocess.run(["bash", "-c", step["run"]], cwd=place, env=os.environ | values | more, check=False)
    return ended.returncode, (place / "asked").read_text().splitlines()


def test_senders_are_those_that_are_asked_for(tmp_path: Path) -> None:
    _, asked = act(tmp_path, ccas="reno bbr", programs="quic.yaml", kernels="default mine")
    senders = "--cca reno --cca bbr --program quic.yaml --kernel default --kernel mine"
    assert asked == [f"suite run mine --quick --quiet --out results --junit results-junit.xml {senders}"]


@pytest.mark.parametrize(
    ("run_code", "baseline", "changes", "code"),
    [
        (0, "", "", 0),
        (1, "", "", 1),
        (1, "before", f"{BETTER}\n1 cells changed", 0),
        (0, "before", "0 cells changed", 0),
        (1, "before", f"{WORSE}\n{BETTER}\n2 cells changed", 1),
    ],
)
def test_it_fails_where_a_case_fails_or_with_a_baseline_does_not_pass_any_more(
    tmp_path: Path, run_code: int, baseline: str, changes: str, code: int
) -> None:
    assert act(tmp_path, run_code, changes, baseline=baseline)[0] == code
    comment = (tmp_path / "results/comment.md").read_text()
    assert comment.startswith("### mine: 1 pass, 1 fail\n") and "a: fail" in comment
    assert (f"~~~text\n{changes}\n~~~" in comment) == bool(baseline)


@pytest.mark.parametrize("run_code", [2, 130])
def test_without_a_matrix_there_is_no_comment(tmp_path: Path, run_code: int) -> None:
    assert act(tmp_path, run_code, baseline="before")[0] == run_code
    assert not (tmp_path / "results/comment.md").exists()
