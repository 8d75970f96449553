# SPDX-License-Identifier: Apache-2.0
"""Ten things that a new user does, as the documents say, and how long each takes.

    .venv/bin/python benchmarks/ten_tasks.py [--without-kernel] [--out STEM]

Experiments and programs are the blocks of docs/cookbook.md and of the tutorials, taken from the pages. It needs a
checkout that is set up and the kernel `default` for virtual time, and builds another one, which is removed
(--without-kernel: it is there already, called `ten-tasks`). What a clone takes before is measured by first_minutes.py.
No part of `make bench`.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import host
import results

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
NARROWS = str(Path(sys.executable).with_name("narrows"))
KERNEL = "ten-tasks"
PATCH = ROOT / "experiments" / "guard" / "cubic-beta.patch"
CONDITIONS = (
    "Each task as its page says, one after the other, in virtual time and without root. A time is that of all its "
    "commands: reading and writing come on top. A CCA of one's own is a patch of the kernel's CUBIC."
)


@dataclass(frozen=True)
class Task:
    """What is done, the page that says how, and how."""

    name: str
    page: str
    do: Callable[[], None]


def run(*words: str, code: int = 0) -> None:
    """A command, which has to end with this code."""
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != code:
        raise SystemExit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")


def narrows(*words: str, code: int = 0) -> None:
    """A command of ours."""
    run(NARROWS, *words, code=code)


def recipe(name: str, page: str = "cookbook.md") -> str:
    """The experiment of this name on a page, as a file."""
    found = re.search(rf"```yaml\n(name: {name}\n.*?)```", (DOCS / page).read_text(), re.DOTALL)
    if found is None:
        raise SystemExit(f"docs/{page} has no experiment {name}")
    Path(f"{name}.yaml").write_text(found[1])
    return f"{name}.yaml"


def program(heading: str) -> str:
    """The Python below a heading of the cookbook."""
    section = (DOCS / "cookbook.md").read_text().partition(f"## {heading}\n")[2].partition("\n## ")[0]
    found = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    if found is None:
        raise SystemExit(f"docs/cookbook.md has no program below {heading}")
    return found[1]


def _figure() -> None:
    run(sys.executable, "-c", program("A figure for a paper"))
    assert Path("goodput.pdf").stat().st_size


def _drops() -> None:
    loading = 'from narrows_analysis import load\nrun = load("results/demo")\n'
    run(sys.executable, "-c", loading + program("Which packets did a flow lose?") + "assert len(drops)")
    narrows("export", "results/demo", "--pcapng", "demo.pcapng")


def _two_kernels() -> None:
    for kernel, out in (("default", "ONE"), (KERNEL, "OTHER")):
        narrows("run", "experiments/demo.yaml", "--virtual", "--kernel", kernel, "--out", f"results/{out}")
    narrows("compare", "results/ONE", "results/OTHER", "--out", "results/DIFFERENCES")


def _cite() -> None:
    assert "repository-code" in (ROOT / "CITATION.cff").read_text()


def tasks(build: bool) -> Iterator[Task]:
    """In the order in which they are done."""
    first = ("run", "experiments/demo.yaml", "--virtual", "--out", "results/demo")
    yield Task("first run", "README.md", lambda: narrows(*first))
    if build:
        words = ("kernel", "build", "--patch", str(PATCH), "--name", KERNEL)
        yield Task("a CCA of one's own: its kernel", "docs/cookbook.md", lambda: narrows(*words))
    own = ("run", "experiments/demo.yaml", "--virtual", "--kernel", KERNEL, "--out", "results/mine")
    yield Task("a CCA of one's own: a run", "docs/cookbook.md", lambda: narrows(*own))
    yield Task("a trace of a cellular link", "docs/cookbook.md", lambda: narrows("run", recipe("lte"), "--virtual"))
    sweep = "docs/tutorials/shallow-buffers.md"
    yield Task(
        "a sweep of buffers, 15 runs", sweep,
        lambda: narrows("run", recipe("shallow-buffers", "tutorials/shallow-buffers.md"), "--virtual"),
    )  # fmt: skip
    yield Task("a figure for a paper", "docs/cookbook.md", _figure)
    yield Task("two kernels compared", "docs/cookbook.md", _two_kernels)
    yield Task(
        "a test for continuous integration", "docs/cookbook.md",
        lambda: narrows("test", "experiments/guard/cubic.yaml", "--virtual", "--junit", "junit.xml"),
    )  # fmt: skip
    yield Task("a flow's drops, by interval and by packet", "docs/cookbook.md", _drops)
    yield Task("to cite", "docs/cookbook.md", _cite)


def main() -> int:
    """Do them, print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--without-kernel", action="store_true", help=f"the kernel {KERNEL} is there, and stays")
    parser.add_argument("--out", type=Path, help="results go to STEM.json and STEM.md", metavar="STEM")
    options = parser.parse_args()
    out = options.out.resolve() if options.out else None
    machine = host.description()
    figures = []
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        shutil.copytree(ROOT / "experiments", "experiments")
        shutil.copytree(ROOT / "experiments" / "traces", "traces")
        for task in tasks(not options.without_kernel):
            start = time.monotonic()
            task.do()
            figures.append({"task": task.name, "page": task.page, "seconds": time.monotonic() - start})
            print(f"{task.name}: {figures[-1]['seconds']:.1f} s", file=sys.stderr)
        os.chdir(ROOT)
    if not options.without_kernel:
        narrows("kernel", "remove", KERNEL)
    rows: list[tuple[str, ...]] = [(str(one["task"]), str(one["page"]), f"{one['seconds']:.1f}") for one in figures]
    table = results.Table(("Task", "Page", "Seconds"), rows)
    outcome = results.Outcome("Ten tasks of a new user", CONDITIONS, [table], {"figures": figures}, [])
    written = results.write({"ten-tasks": outcome}, machine, sys.argv, out, kind="ten-tasks", note="One measurement.")
    print(*written, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
