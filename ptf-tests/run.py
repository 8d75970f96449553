# SPDX-License-Identifier: Apache-2.0
"""Runs the PTF suite against one target: `run.py --target soft`. Needs root for its network namespace.

The last line is `N passed, N failed, N skipped`; exit code 0 when nothing failed, 1 otherwise, 2 for bad arguments.
A target that this machine does not have is one line `skipped: ...` and exit code 0.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import lab
from narrows.errors import RunError
from narrows.hosts.links import remove_namespace
from narrows_tofino.chip.model import CHIPS
from processes import inside
from targets import TARGETS
from targets.base import Target
from targets.tofino import TofinoModelTarget, TofinoTarget

HERE = Path(__file__).resolve().parent
COMPILED = HERE.parent / "p4src" / "compiled"
# The bottleneck, and the same with queue management, which the softswitch alone can run.
PROGRAM, MANAGED_PROGRAM = COMPILED / "v1model", COMPILED / "v1model-managed"
# Frames that PTF keeps per port until a case asks for them, and the largest one.
FRAMES_KEPT = 100_000
LARGEST_FRAME_BYTES = 10_240


@dataclass(frozen=True)
class Settings:
    """What to run."""

    cases: Sequence[str]
    compiled: Path
    seed: int
    failfast: bool


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--target", required=True, choices=list(TARGETS), help="what runs the program")
    parser.add_argument(
        "--case", action="append", default=[], metavar="NAME", help="a module (ecn) or a case (ecn.ThresholdIsExact)"
    )
    parser.add_argument(
        "--compiled",
        type=Path,
        help="folder with narrows.json and its P4Info (soft: both programs, one after the other)",
    )
    parser.add_argument("--chip", choices=list(CHIPS), default="tofino", help="generation that tofino-model models")
    parser.add_argument("--managed", action="store_true", help="let tofino-model run the program with queue management")
    parser.add_argument("--testbed", type=Path, help="YAML file that describes switch and ports of tofino")
    parser.add_argument("--seed", type=int, default=1, help="of the target's random numbers, where it takes one")
    parser.add_argument("--failfast", action="store_true", help="stop at the first failure")
    parser.add_argument("--logs", type=Path, help="keep the logs in this folder")
    parser.add_argument("--list", action="store_true", help="list the cases and exit")
    return parser.parse_args()


def ptf_command(folder: Path, *options: str) -> list[str]:
    """The `ptf` program of this environment, with its log in ``folder``."""
    beside = Path(sys.executable).parent / "ptf"
    program = str(beside) if beside.exists() else shutil.which("ptf")
    if program is None:
        raise RuntimeError("ptf is not installed; fix: scripts/setup.sh ptf")
    return [
        sys.executable,
        program,
        *("--test-dir", str(HERE / "cases"), "--pypath", str(HERE)),
        *("--log-file", str(folder / "ptf.log"), "--quiet"),
        *options,
    ]


def run_cases(target: Target, settings: Settings, folder: Path) -> Counter[str]:
    """Run the cases on a target that this starts and ends; returns how many of them ended how.

    Raises:
        RuntimeError: the namespace or the target could not be set up.
    """
    outcomes = folder / "outcomes.jsonl"
    outcomes.touch()
    with target.links() as links:
        running = target.start(links.namespace, links.switch, folder, settings.seed)
        try:
            parameters = {
                "target": target.name,
                "compiled": str(settings.compiled.resolve()),
                "outcomes": str(outcomes),
                **running.parameters,
            }
            command = ptf_command(
                folder,
                *("--qlen", str(FRAMES_KEPT), "--socket-recv-size", str(LARGEST_FRAME_BYTES)),
                *("--test-params", ";".join(f"{k}={v!r}" for k, v in parameters.items())),
                *(option for port, name in links.tester.items() for option in ("--interface", f"{port}@{name}")),
                *(["--failfast"] if settings.failfast else []),
                *settings.cases,
            )
            with subprocess.Popen(
                inside(links.namespace, command), env=suite_environment(), start_new_session=True
            ) as suite:
                try:
                    suite.wait()
                finally:
                    if suite.poll() is None:
                        os.killpg(suite.pid, signal.SIGKILL)
            counts = Counter(json.loads(line)["outcome"] for line in outcomes.read_text().splitlines())
            if not running.alive():
                counts["failed"] += 1
                print(f"{target.name} ended during the suite", file=sys.stderr)
            elif suite.returncode != 0 and counts["failed"] == 0:
                counts["failed"] += 1
                print(f"ptf ended with exit code {suite.returncode}", file=sys.stderr)
            return counts
        finally:
            running.stop()


def suite_environment() -> dict[str, str]:
    """The suite's environment: its own modules first, then what this process finds by PYTHONPATH (the SDE's client)."""
    path = [str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path)}


def chosen(options: argparse.Namespace) -> Target:
    """The target that is asked for."""
    if options.target == TofinoTarget.name:
        return TofinoTarget(options.testbed)
    if options.target == TofinoModelTarget.name:
        return TofinoModelTarget(options.chip, options.managed)
    return TARGETS[options.target]


def stop(number: int, frame: FrameType | None) -> None:
    """Makes SIGTERM an exception, so that everything is cleaned up."""
    raise KeyboardInterrupt


def main() -> int:
    """Command line; returns the exit code."""
    options = arguments()
    signal.signal(signal.SIGTERM, stop)
    if options.list:
        return subprocess.run(ptf_command(Path(tempfile.gettempdir()), "--list-test-names"), check=False).returncode
    target = chosen(options)
    reason = target.missing()
    if reason is not None:
        print(f"skipped: {options.target}: {reason}")
        return 0
    if os.geteuid() != 0:
        print("ptf: error: root is needed for a network namespace; use sudo", file=sys.stderr)
        return 2
    programs = [options.compiled] if options.compiled else [PROGRAM]
    if options.compiled is None and options.target == "soft":
        programs.append(MANAGED_PROGRAM)
    for compiled in programs:
        for name in ("narrows.json", "narrows.p4info.txtpb"):
            if not (compiled / name).exists():
                print(f"ptf: error: --compiled {compiled}: no {name} there", file=sys.stderr)
                return 2
    for namespace in lab.leftovers():
        remove_namespace(namespace)
    counts: Counter[str] = Counter()
    try:
        for compiled in programs:
            settings = Settings(options.case, compiled, options.seed, options.failfast)
            with tempfile.TemporaryDirectory(prefix=lab.PREFIX) as scratch:
                folder = Path(scratch)
                try:
                    counts += run_cases(target, settings, folder)
                finally:
                    if options.logs is not None:
                        logs = options.logs / compiled.name if len(programs) > 1 else options.logs
                        shutil.copytree(folder, logs, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.sock"))
    except (RuntimeError, RunError) as error:
        print(f"ptf: error: {error}", file=sys.stderr)
        counts["failed"] += 1
    except KeyboardInterrupt:
        print("ptf: interrupted", file=sys.stderr)
        return 130
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 1 if counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
