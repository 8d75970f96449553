# SPDX-License-Identifier: Apache-2.0
"""Faults, load and hostile input in one go: ``make stress``. Prints one table; ``--write FILE`` puts it into a file.

Every row is a group of the project's own tests, with more cases than `make test` gives them, within a time limit. Exit
code 1 if one fails. tests/faults.md says what each test shows.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTEST = (str(ROOT / ".venv/bin/python"), "-m", "pytest", "-q", "-s", "-rs", "-p", "no:cacheprovider")
LAWS = tuple(sorted(str(path) for path in (ROOT / "tests/analysis").glob("test_*_laws.py")))
# Time that a group has to remove namespaces and processes when its time is over.
REMOVES_S = 60
CARGO = ("cargo", "test", "--release", "--locked", "--quiet")


@dataclass(frozen=True)
class Group:
    """Tests that run together: their command, the environment that says how much, and how long they may take."""

    title: str
    command: tuple[str, ...]
    limit_s: int
    environment: dict[str, str] = field(default_factory=dict)


GROUPS = (
    Group("Data path ends, commands, copies, loops", (*CARGO, "-p", "narrows-switch", "-p",
          "narrows-replay-config", "-p", "narrows-replay", "-p", "narrows-softswitch", "--lib"), 600),
    Group("Loops and copies in virtual time", (*CARGO, "-p", "narrows-softswitch", "--test", "replay"), 300),
    Group("Interfaces, links, clients", (*PYTEST, "tests/softswitch/test_serve.py"), 300),
    Group("Full links, many ports, changes, memory", (*PYTEST, "tests/softswitch/test_under_stress.py"), 300),
    Group("Runs interrupted, killed, resumed", (*PYTEST, "tests/control_plane/e2e/test_run.py",
          "tests/control_plane/test_runner.py", "tests/control_plane/test_state.py",
          "tests/control_plane/test_streams.py",
          "tests/control_plane/test_workers.py", "tests/studies/test_interruption.py",
          "tests/studies/test_study_run.py", "tests/control_plane/test_series.py"), 900),
    Group("Runs in real time, ended at 200 random moments", (*PYTEST, "tests/control_plane/e2e/test_run_faults.py",
          "-k", "random_moment"), 7200, {"NARROWS_STRESS": "1", "NARROWS_KILLS": "200"}),
    Group("Runs in virtual time, killed at 200 random moments", (*PYTEST, "tests/virtual/test_kills.py"), 7200,
          {"NARROWS_KILLS": "200"}),
    Group("Disk full in virtual time", (*PYTEST, "tests/virtual/test_full_disk.py"), 300),
    Group("An hour of 64 TCP flows: memory, files, clocks", (*PYTEST, "tests/softswitch/test_soak.py"), 4200,
          {"NARROWS_STRESS": "1", "NARROWS_SOAK_S": "3600"}),
    Group("Guests killed, standing still, never up", (*PYTEST, "tests/virtual/test_in_a_guest.py",
          "tests/virtual/test_programs_in_a_guest.py"), 1200),
    Group("Disk full, collector, reports lost",
          (*PYTEST, "tests/control_plane/test_commands_on_a_full_disk.py", "tests/collector"), 600),
    Group("Machines and sessions lost, two runs at once", (*PYTEST, "tests/control_plane/test_run_lock.py",
          "tests/tofino/test_faults.py", "tests/tofino/test_testbed.py", "tests/tofino/test_tofino_run.py"), 1200),
    Group("Parts of a run lost, ends at random moments", (*PYTEST, "tests/control_plane/e2e/test_run_faults.py",
          "tests/control_plane/e2e/test_run_bmv2.py", "tests/lab/test_soft_lab.py"), 1800,
          {"NARROWS_STRESS": "1"}),
    Group("Clock stepped, telemetry damaged", (*PYTEST, "tests/virtual/test_clock_steps.py",
          "tests/analysis/test_broken_input.py",
          "tests/analysis/test_broken_captures.py"), 600),
    Group("Laws of figures over packets' lives", (*PYTEST, *LAWS), 3600, {"NARROWS_CASES": "300"}),
    Group("Results of released versions", (*PYTEST, "tests/formats"), 200),
    Group("Root on behalf of a user, and not root", (*PYTEST, "tests/control_plane/test_for_a_user.py",
          "tests/control_plane/test_unprivileged.py", "tests/control_plane/e2e/test_shell_at_a_terminal.py"), 500),
    Group("Ten hours of changes, 64 bottlenecks, 60,000 flows", (*PYTEST, "tests/softswitch/test_load.py"), 900,
          {"NARROWS_HOURS": "10"}),
    Group("1,000 TCP flows at once", (*PYTEST, "tests/virtual/test_many_flows.py"), 1200, {"NARROWS_STRESS": "1"}),
    Group("Experiments at the edges of every range", (*PYTEST, "tests/virtual/test_laws.py"), 5400,
          {"NARROWS_STRESS": "1", "NARROWS_CASES": "1000"}),
    Group("Features that meet, drawn at random", (*PYTEST, "tests/virtual/test_mixtures.py"), 3600,
          {"NARROWS_STRESS": "1", "NARROWS_CASES": "300"}),
    Group("A rate every millisecond for a minute", (*PYTEST, "tests/virtual/test_a_rate_every_millisecond.py"), 1800,
          {"NARROWS_STRESS": "1"}),
    Group("A run driven from Python, 1,000 changes", (*PYTEST, "tests/virtual/test_python_api.py",
          "tests/test_documentation.py::test_the_notebook_that_drives_runs"), 600,
          {"NARROWS_STRESS": "1"}),
    Group("Queues and TCP against theory", (*PYTEST, "tests/physics"), 600, {"NARROWS_STRESS": "1"}),
    Group("Queue management against its RFCs, packet by packet", (*PYTEST, "tests/aqm/test_switch.py"), 5400,
          {"NARROWS_PACKETS": "1000000"}),
    Group("DualPI2 with flows that only call themselves L4S", (*PYTEST, "tests/virtual/test_dualpi2_abused.py"), 600,
          {"NARROWS_STRESS": "1"}),
    Group("The data plane of both programs", (PYTEST[0], "ptf-tests/run.py", "--target", "soft"), 900, {}),
    Group("Studies that go on, and points that are made again",
          (*PYTEST, "tests/studies/test_interruption.py", "tests/studies/test_regenerated.py"), 1800,
          {"NARROWS_STRESS": "1"}),
    Group("Hostile gRPC", (*PYTEST, "tests/softswitch/test_hostile_grpc.py"), 900, {"NARROWS_CASES": "4000"}),
    Group("Certificates right, wrong, expired and missing", ("sh", "-c",
          " ".join((*CARGO[:1], "build", *CARGO[2:], "-p", "narrows-softswitch", "--features", "tls", "&&",
                    *PYTEST, "tests/softswitch/test_tls.py"))), 1200, {"NARROWS_STRESS": "1"}),
    Group("Hostile experiments and inventories, and what they name",
          (*PYTEST, "tests/control_plane/test_hostile_files.py", "tests/control_plane/test_named_files.py"), 900,
          {"NARROWS_CASES": "500"}),
    Group("Hostile result directories", (*PYTEST, "tests/analysis/test_hostile_results.py"), 900,
          {"NARROWS_CASES": "300"}),
    Group("Hostile files through the commands", (*PYTEST, "tests/analysis/test_hostile_commands.py"), 3600,
          {"NARROWS_CASES": "300"}),
    Group("Hostile programs and frames",
          (*CARGO, "-p", "narrows-pipeline", "--test", "fuzz", "--test", "robustness"), 900,
          {"PROPTEST_CASES": "512"}),
    Group("Hostile reports and captures", (*CARGO, "-p", "narrows-collector", "--test", "robustness"), 600,
          {"PROPTEST_CASES": "512"}),
)  # fmt: skip


@dataclass(frozen=True)
class Result:
    """What a group came to; ``counts`` are what its tests say of themselves."""

    group: Group
    passed: int
    failed: int
    skipped: int
    seconds: float
    counts: tuple[str, ...]
    output: str

    @property
    def good(self) -> bool:
        """Something ran, and nothing failed."""
        return self.failed == 0 and self.passed > 0


def run(group: Group) -> Result:
    """Run a group within its time."""
    started = time.monotonic()
    process = subprocess.Popen(
        group.command,
        cwd=ROOT,
        env={**os.environ, **group.environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=group.limit_s)
    except subprocess.TimeoutExpired:
        output = f"{_ended(process)}\nstress: not done after {group.limit_s} s"
        process.returncode = 1
    seconds = time.monotonic() - started
    number = {
        word: sum(map(int, re.findall(rf"(\d+) {word}", output))) for word in ("passed", "failed", "skipped", "error")
    }
    failed = number["failed"] + number["error"]
    if process.returncode != 0:
        failed = max(failed, 1)
    counts = tuple(re.findall(r"cases: (\d+(?: packets)?)", output))
    return Result(group, number["passed"], failed, number["skipped"], seconds, counts, output)


def _ended(process: subprocess.Popen[str]) -> str:
    """What a group had printed; ended as by the interrupt key first, so that fixtures remove what is theirs."""
    process.terminate()
    try:
        return process.communicate(timeout=REMOVES_S)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()[0]


def table(results: list[Result]) -> str:
    """All results as a table in Markdown."""
    lines = ["| group | tests passed | failed | left out | cases | seconds |", "|---|---|---|---|---|---|"]
    for one in results:
        given = one.group.environment.get("PROPTEST_CASES")
        cases = ", ".join(one.counts) or (f"{given} for each property" if given else "")
        lines.append(
            f"| {one.group.title} | {one.passed} | {one.failed} | {one.skipped} | {cases} | {one.seconds:.0f} |"
        )
    total = [sum(getattr(one, name) for one in results) for name in ("passed", "failed", "skipped", "seconds")]
    lines.append(f"| **all** | **{total[0]}** | **{total[1]}** | **{total[2]}** | | **{total[3]:.0f}** |")
    return "\n".join(lines)


def main() -> int:
    """Run the groups one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="put the table into this file")
    parser.add_argument("--only", default="", help="only groups whose title matches this expression")
    arguments = parser.parse_args()
    results = []
    for group in GROUPS:
        if re.search(arguments.only, group.title):
            results.append(run(group))
            print(f"{'ok' if results[-1].good else 'FAILED'}: {group.title}, {results[-1].seconds:.0f} s", flush=True)
            if not results[-1].good:
                print(results[-1].output[-6000:], flush=True)
    found = table(results)
    print(found)
    if arguments.write is not None:
        where = f"{os.cpu_count()} processors, {platform.machine()}, Linux {platform.release()}"
        title = "# Faults, load and hostile input: one run of `make stress`"
        arguments.write.write_text(f"{title}\n\nOn {where}, {datetime.date.today()}.\n\n{found}\n")
    return 0 if all(one.good for one in results) else 1


if __name__ == "__main__":
    sys.exit(main())
