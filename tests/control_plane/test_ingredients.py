# SPDX-License-Identifier: Apache-2.0
"""What shapes a run is known by its contents at the moment of use."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from narrows import paths
from narrows.errors import RunError
from narrows.experiment.loader import validate
from narrows.experiment.plan import Plan
from narrows.experiment.planning import make_plan
from narrows.paths import compiled_program
from narrows.run.environment import THIS_MACHINE
from narrows.run.ingredients import inputs, programs
from narrows.targets.soft.target import SoftTarget

OURS = ("narrows-softswitch", "narrows-collector")
TCP = {"cca": "cubic", "duration": "1s"}


@pytest.fixture(autouse=True)
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Our programs, as far as their contents go."""
    place = tmp_path / "bin"
    place.mkdir()
    for name in OURS:
        (place / name).write_text(name)
        (place / name).chmod(0o755)
    monkeypatch.setenv("NARROWS_BIN", str(place))
    return place


def planned(flow: dict[str, Any], **link: Any) -> Plan:
    data = {"name": "x", "bottleneck": {"rate": "10Mbit", "rtt": "20ms", "buffer": "1bdp", **link}, "flows": [flow]}
    return make_plan(validate(data, "x"))


def found(flow: dict[str, Any] = TCP, **link: Any) -> dict[str, str]:
    return programs(planned(flow, **link), SoftTarget(), THIS_MACHINE)


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_our_programs_are_known_by_what_they_hold_now(built: Path) -> None:
    before = found()
    assert before == {
        **{name: sha256(name.encode()) for name in OURS},
        **{f"v1model/{path.name}": sha256(path.read_bytes()) for path in compiled_program("v1model")},
    }
    # Of the same size, and at the same time as far as its owner says.
    times = (built / "narrows-softswitch").stat()
    (built / "narrows-softswitch").write_text("narrows-softswitcH")
    os.utime(built / "narrows-softswitch", ns=(times.st_atime_ns, times.st_mtime_ns))
    after = found()
    assert {name for name in before if after[name] != before[name]} == {"narrows-softswitch"}
    (built / "narrows-collector").unlink()
    (built / "narrows-collector").mkdir()
    (built / "narrows-collector").chmod(0o755)
    with pytest.raises(RunError, match=r"narrows-collector: .* cannot be read"):
        found()


def test_the_p4_program_is_that_of_the_plan() -> None:
    assert {name for name in found(queue="codel") if "/" in name} == {
        f"v1model-managed/{path.name}" for path in compiled_program("v1model-managed")
    }


def test_programs_of_users_are_known_by_what_they_hold(tmp_path: Path) -> None:
    place = tmp_path / "mine"
    place.mkdir()
    client, settings, served = place / "client.py", place / "settings.json", place / "page.html"
    for path in (client, settings, served):
        path.write_text(path.name)
    flow = {
        "client": ["sh", "client.py", "--config=settings.json", "--size", "10", "missing.txt"],
        "server": ["sleep", str(served), "{port}"],
        "cwd": str(place),
        "duration": "1s",
    }
    shell = Path(str(shutil.which("sh", path="/usr/local/bin:/usr/bin:/bin")))
    before = found(flow)
    mine = {name: digest for name, digest in before.items() if name.startswith("/")}
    assert mine.pop(str(shell)) == sha256(shell.read_bytes())
    sleeping = [name for name in mine if name.endswith("/sleep")]
    assert len(sleeping) == 1 and mine.pop(sleeping[0])
    # The script, and what the server is given first.
    assert mine == {str(path): sha256(path.name.encode()) for path in (client, served)}
    assert inputs(planned(flow)) == {str(settings): sha256(b"settings.json")}
    client.write_text("client.pY")
    settings.write_text("settings.jsoN")
    after = found(flow)
    assert {name for name in before if after[name] != before[name]} == {str(client)}
    assert inputs(planned(flow)) == {str(settings): sha256(b"settings.jsoN")}
    assert inputs(planned(TCP)) == {}


def test_changes_of_a_checkout_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "REPOSITORY", tmp_path)
    file = tmp_path / "code.py"
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"]

    def commit_after(text: str) -> str:
        file.write_text(text)
        return str(paths.commit.__wrapped__())

    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    file.write_text("1")
    for words in (["add", "code.py"], ["commit", "-q", "-m", "first"]):
        subprocess.run(["git", "-C", tmp_path, *identity, *words], check=True)
    clean = commit_after("1")
    assert re.fullmatch("[0-9a-f]{40}", clean)
    found = [commit_after(text) for text in ("2", "3", "2")]
    assert found[0] == found[2] != found[1]
    assert all(re.fullmatch(f"{clean}-dirty-[0-9a-f]{{12}}", one) for one in found)
