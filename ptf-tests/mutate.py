# SPDX-License-Identifier: Apache-2.0
"""Checks the suite itself: puts faults into a copy of the P4, one at a time, and sees that the suite notices each.

Needs p4c-bm2-ss on PATH, the softswitch, and root. The last line is `N caught, N missed`; exit code 0 when all were.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from mutations import MUTATIONS, QUEUE_MANAGEMENT, Mutation

HERE = Path(__file__).resolve().parent
P4SRC = HERE.parent / "p4src"
PROGRAM, MANAGED_PROGRAM = "v1model/narrows.p4", "v1model/managed.p4"
COMPILER = "p4c-bm2-ss"


class MutationError(Exception):
    """The source is not what the list of mutations was written for, or does not compile."""


def program_of(mutation: Mutation) -> str:
    """The program that has a fault: AQMs are in one alone."""
    return MANAGED_PROGRAM if mutation.file.startswith(QUEUE_MANAGEMENT) else PROGRAM


def mutate(mutation: Mutation | None, folder: Path, program: str) -> Path:
    """Copy the sources into ``folder``, with a fault unless it is None, and compile them; returns the artifacts.

    Raises:
        MutationError: the faulty piece is not there exactly once, or the compiler refuses the result.
    """
    copy = folder / "p4src"
    shutil.copytree(P4SRC, copy, ignore=shutil.ignore_patterns("compiled", "__pycache__"))
    if mutation is not None:
        path = copy / mutation.file
        source = path.read_text()
        if source.count(mutation.old) != 1:
            raise MutationError(f"{mutation.file} has {source.count(mutation.old)} times: {mutation.old.strip()}")
        path.write_text(source.replace(mutation.old, mutation.new))
    compiled = folder / "compiled"
    compiled.mkdir()
    command = [COMPILER, "--std", "p4-16", "-o", str(compiled / "narrows.json"), program]
    command += ["--p4runtime-files", str(compiled / "narrows.p4info.txtpb")]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise MutationError(done.stderr)
    return compiled


def failing_cases(compiled: Path, cases: list[str]) -> tuple[int, list[str]]:
    """Run cases on the softswitch; returns how many passed, and the names of those that failed."""
    command = [sys.executable, str(HERE / "run.py"), "--target", "soft", "--compiled", str(compiled)]
    command += [option for case in cases for option in ("--case", case)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    output = (done.stdout + done.stderr).splitlines()
    failed = [line.split()[1] for line in output if line.startswith(("FAIL: ", "ERROR: "))]
    passed = done.stdout.strip().rpartition("\n")[2].split(" passed")[0]
    if not passed.isdigit() or not (int(passed) or failed):
        raise MutationError("the suite did not run:\n" + "\n".join(output[-20:]))
    return int(passed), sorted({name.removesuffix(".runTest") for name in failed})


def check(mutation: Mutation, whole_suite: bool) -> bool:
    """Whether the suite notices a fault by the case that is said to; prints a line about it."""
    with tempfile.TemporaryDirectory(prefix="narrows-mutate-") as scratch:
        compiled = mutate(mutation, Path(scratch), program_of(mutation))
        _, failed = failing_cases(compiled, [] if whole_suite else [mutation.case])
    caught = mutation.case in failed
    others = [name for name in failed if name != mutation.case]
    verdict = f"caught by {mutation.case}" if caught else f"MISSED by {mutation.case}"
    print(f"{mutation.name}: {verdict}" + (f", also by {', '.join(others)}" if others else ""), flush=True)
    return caught


def main() -> int:
    """Command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--whole-suite", action="store_true", help="run all cases against each fault (takes long)")
    parser.add_argument("--only", action="append", metavar="TEXT", help="only faults whose name has this in it")
    options = parser.parse_args()
    if shutil.which(COMPILER) is None:
        print(f"skipped: {COMPILER} is not on PATH; install p4c (https://github.com/p4lang/p4c)")
        return 0
    wanted = [m for m in MUTATIONS if options.only is None or any(text in m.name for text in options.only)]
    try:
        for program in sorted({program_of(mutation) for mutation in wanted}):
            cases = sorted({mutation.case for mutation in wanted if program_of(mutation) == program})
            with tempfile.TemporaryDirectory(prefix="narrows-mutate-") as scratch:
                _, failed = failing_cases(mutate(None, Path(scratch), program), cases)
            if failed:
                print(f"mutate: error: these fail without any fault: {', '.join(failed)}", file=sys.stderr)
                return 1
        caught = sum(check(mutation, options.whole_suite) for mutation in wanted)
    except MutationError as error:
        print(f"mutate: error: {error}", file=sys.stderr)
        return 1
    print(f"{caught} caught, {len(wanted) - caught} missed")
    return 0 if caught == len(wanted) else 1


if __name__ == "__main__":
    sys.exit(main())
