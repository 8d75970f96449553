# SPDX-License-Identifier: Apache-2.0
"""Every Python that Narrows starts is isolated: a directory of another user, in which root works, has no say in it."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGES = [REPOSITORY / folder for folder in ("control_plane", "analysis", "studies")]
SOURCES = [path for package in PACKAGES for path in sorted(package.rglob("*.py"))]
# What may do what no other module does, and why.
ALLOWED = {
    "control_plane/narrows/python.py": "the one way of starting Python",
    "control_plane/narrows/batch/pool.py": "workers of the standard library, started within by_libraries()",
    "analysis/narrows_formats/programs.py": "our other programs are in the interpreter's directory",
}
# By name, or in a command that a user is to type.
STARTS_PYTHON = re.compile(r"(.*/)?python3(\.\d+)?|.*/python|.*\bpython3? -(?!I ).*", re.DOTALL)
PARTS = ("multiprocessing", "concurrent.futures.process")


def other_ways(source: str) -> Iterator[str]:
    """What a module's code has that would start Python, or have the standard library start it."""
    tree = ast.parse(source)
    documents = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr="executable" | "_base_executable" as name):
                yield f"line {node.lineno}: .{name}"
            case ast.Attribute(attr="ProcessPoolExecutor") | ast.Name(id="ProcessPoolExecutor"):
                yield f"line {node.lineno}: ProcessPoolExecutor"
            case ast.Import(names=names):
                yield from (f"line {node.lineno}: {one.name}" for one in names if one.name.startswith(PARTS))
            case ast.ImportFrom(module=str(module), names=names):
                if module.startswith(PARTS) or any(one.name in ("executable", "ProcessPoolExecutor") for one in names):
                    yield f"line {node.lineno}: from {module}"
            case ast.Constant(value=str(text)) if STARTS_PYTHON.fullmatch(text) and id(node) not in documents:
                yield f"line {node.lineno}: {text!r}"
            case _:
                pass


@pytest.mark.parametrize(
    "code",
    [
        'subprocess.run([sys.executable, "-m", "x"])', "from sys import executable", "import multiprocessing.pool",
        "from multiprocessing import get_context", "from concurrent.futures import ProcessPoolExecutor",
        'spawn(["python3", "-c", "pass"])', 'spawn(["/usr/bin/python3.11", "x.py"])', 'os.system("python3 -c pass")',
    ],
)  # fmt: skip
def test_another_way_is_found(code: str) -> None:
    assert list(other_ways(code))


def test_there_is_one_way_of_starting_python() -> None:
    found = {
        str(path.relative_to(REPOSITORY)): ways
        for path in SOURCES
        if "pb2" not in path.name and (ways := list(other_ways(path.read_text(encoding="utf-8"))))
    }
    assert len(SOURCES) > 400
    assert found.keys() - ALLOWED.keys() == set(), found
    assert found.keys() == ALLOWED.keys(), "an exception that is not needed any more"


# Each names what root starts, and does it in a directory that another user has prepared.
STARTED = {
    "guardian": """
from narrows.hosts.state import RunState
state = RunState.create(Path(sys.argv[1]) / "state")
state.guard()
state.destroy()
""",
    "workers": """
from narrows.batch.pool import worker_pool
if __name__ == "__main__":
    with worker_pool(1) as pool:
        pool.submit(os.getpid).result()
""",
    "queue of workers": """
from narrows.batch.pool import queue
if __name__ == "__main__":
    from multiprocessing.resource_tracker import _resource_tracker
    kept = queue()
    _resource_tracker._stop()
""",
    "run of the API": """
from narrows.api.child import Child
from narrows.errors import NarrowsError
from narrows.experiment.loader import validate
experiment = validate({"name": "x", "bottleneck": {"rate": "1Mbit", "buffer": "1bdp", "rtt": "20ms"},
                       "flows": [{"cca": "reno", "duration": "1s"}]}, "x")
child = Child(experiment, True, "no-such-kernel", Path(sys.argv[1]) / "out")
try:
    child.answer()
    sys.exit(3)
except NarrowsError as error:
    print(error)
child.end()
""",
    "relay": """
from narrows.hosts.lab.machines import relayed
subprocess.run(relayed(["true"]), check=True)
""",
    "Narrows of a cluster's worker": """
from narrows import python
subprocess.run([*python.module("narrows.cli"), "--version"], check=True)
""",
}
PLANTED = [
    "narrows/__init__.py", "narrows_formats/__init__.py", "multiprocessing.py", "signal.py", "json.py", "ctypes.py",
    "runpy.py", "sitecustomize.py", "usercustomize.py",
]  # fmt: skip


@pytest.mark.parametrize("started", STARTED)
def test_code_of_the_working_directory_is_not_run(tmp_path: Path, started: str) -> None:
    """A user has planted modules of ours and of the standard library where root works; none is imported."""
    place, trace = tmp_path / "shared", tmp_path / "executed"
    for name in PLANTED:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(f"import os; open({str(trace)!r}, 'a').write(__file__); os._exit(9)\n")
    program = tmp_path / "program.py"
    program.write_text(f"import os, subprocess, sys\nfrom pathlib import Path\n{STARTED[started]}")
    # As `narrows` does: a script, whose own directory is the first that is looked into.
    command = [sys.executable, str(program), str(tmp_path)]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=120)
    assert not trace.exists(), trace.read_text()
    assert done.returncode == 0, done.stderr


def test_what_a_worker_starts_has_the_users_environment(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import os\nfrom narrows.batch.pool import worker_pool\n"
        "def look(): return dict(os.environ)\n"
        "if __name__ == '__main__':\n"
        "    import json\n"
        "    with worker_pool(1) as pool: print(json.dumps([pool.submit(look).result(), dict(os.environ)]))\n"
    )
    said = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=120, check=True)
    worker, parent = json.loads(said.stdout)
    assert worker == parent
