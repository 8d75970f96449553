# SPDX-License-Identifier: Apache-2.0
"""The controller of a user's P4 program: it controls, what it says is kept, and where it fails the run does."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import finsy
import pytest
from needs import python_for_all
from test_in_a_guest import PATIENCE_S, start

pytestmark = pytest.mark.needs("guest-kernel", "narrows-softswitch", "narrows-collector", "ip")

EXAMPLE = Path(__file__).parents[2] / "experiments" / "own-program"
PACKAGES = Path(finsy.__file__).parents[1]
LEARNING = '[python3, learning_controller.py, "1", "2", "3"]'


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that the user of a run's programs can read: pytest's own are closed to others."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


def learning(before: str = "") -> str:
    """The example's controller, by an interpreter that its user can execute."""
    return f"[{before}env, PYTHONPATH={PACKAGES}, {python_for_all()}{LEARNING.removeprefix('[python3')}"


def prepared(place: Path, controller: str) -> str:
    """The example for two seconds, with another controller."""
    shutil.copytree(EXAMPLE, place, dirs_exist_ok=True)
    text = (EXAMPLE / "learning.yaml").read_text()
    assert LEARNING in text
    return text.replace(LEARNING, controller).replace("20s", "2s")


@pytest.mark.long
@pytest.mark.needs("python-for-all")
@pytest.mark.parametrize("virtual", [True, pytest.param(False, marks=pytest.mark.needs("root"))])
def test_tcp_runs_through_what_a_controller_has_learned(place: Path, virtual: bool) -> None:
    said = place / "said"
    assert start(place, prepared(place, learning()), virtual=virtual).wait(PATIENCE_S) == 0, said.read_text()
    record = json.loads((place / "out" / "run.json").read_text())
    assert record["status"] == "complete", record["reason"]
    assert record["losses_elsewhere"] == []
    assert record["drop_cross_check"]["bottleneck"]["holds"]
    # Each host's first packet came to the controller, which knew no address: three hosts at three ports.
    learned = (place / "out" / "hosts" / "controller" / "stdout").read_text().splitlines()
    assert sorted(line.split()[-1] for line in learned) == ["1", "2", "3"]
    summary = json.loads((place / "out" / "summary.json").read_text())
    assert {flow["cca"] for flow in summary["flows"]} == {"cubic", "bbr"}
    assert all(flow["goodput_bps"] > 0 for flow in summary["flows"])
    assert summary["bottleneck"]["utilization"] > 0.8
    assert any(name.endswith("learning_controller.py") for name in record["programs"])


@pytest.mark.long
@pytest.mark.needs("python-for-all")
def test_a_controller_that_fails_later_is_a_failed_run(place: Path) -> None:
    controller = learning('timeout, "1", ')
    assert start(place, prepared(place, controller)).wait(PATIENCE_S) == 1
    record = json.loads((place / "out" / "run.json").read_text())
    assert record["status"] == "failed"
    # As timeout says that it has ended a program.
    assert record["reason"].startswith("bottleneck.program.controller: timeout ended with exit code 124")


@pytest.mark.parametrize(
    ("controller", "reason"),
    [
        (
            '[sh, -c, "echo no luck >&2; exit 3"]',
            "bottleneck.program.controller: sh ended with exit code 3:\nno luck",
        ),
        ('["true"]', "bottleneck.program.controller: true ended before it was a client"),
        ('[sleep, "100"]', "bottleneck.program.controller: sleep is not the primary client after 20 s"),
    ],
)
def test_a_controller_that_does_not_control_is_named_before_traffic(place: Path, controller: str, reason: str) -> None:
    assert start(place, prepared(place, controller)).wait(PATIENCE_S) == 1
    assert reason in (place / "said").read_text()
    assert not (place / "out" / "run.json").exists()
