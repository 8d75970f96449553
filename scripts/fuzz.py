# SPDX-License-Identifier: Apache-2.0
"""Coverage-guided fuzzing of what takes bytes of others in Rust: ``make fuzz``. Exit code 1 if a case fails.

Each target of fuzz/ runs for a bounded time, from seeds in the repository and what earlier runs found (fuzz/corpus).
A case that fails is kept in fuzz/artifacts, and the command that runs it again is printed. Needs a nightly compiler and
cargo-fuzz, which the set-up does not install: ``rustup toolchain install nightly``, ``cargo install cargo-fuzz``.
``--coverage`` says instead which lines of our crates the cases found so far reach (needs the component llvm-tools).
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FUZZ = ROOT / "fuzz"
SEEDS = FUZZ / "seeds"
CASE_S = 20
MEMORY_MB = 3072
BUILD_S = 3600


@dataclass(frozen=True)
class Target:
    """A target of fuzz/: what it takes, where its seeds are, and which crates' lines it is to reach."""

    name: str
    takes: str
    seeds: tuple[Path, ...]
    max_bytes: int
    crates: tuple[str, ...]


TARGETS = (
    Target("captures", "pcap and pcapng files", (SEEDS / "captures",), 4096, ("captures",)),
    Target("replay", "captures through the switch", (SEEDS / "captures",), 4096,
           ("softswitch/replay", "softswitch/switch/src/switch", "softswitch/switch/src/tm")),
    Target("reports", "report packets", (SEEDS / "reports",), 8192,
           ("analysis/collector/src/wire", "analysis/collector/src/aggregate", "analysis/collector/src/sequencer.rs")),
    Target("frames", "frames on ports", (SEEDS / "frames",), 4096,
           ("softswitch/interpreter", "softswitch/pipeline")),
    Target("programs", "changed programs", (SEEDS / "programs",), 2048,
           ("softswitch/frontend", "softswitch/program", "softswitch/interpreter", "softswitch/native")),
    Target("json", "text of programs", (ROOT / "tests" / "softswitch" / "p4" / "compiled",), 70_000,
           ("softswitch/frontend",)),
)  # fmt: skip


@dataclass(frozen=True)
class Result:
    """What a target came to: cases run, edges of code reached, cases kept, and the case that failed."""

    target: Target
    cases: int
    edges: int
    kept: int
    seconds: int
    failed: str


def fuzz(*words: str, timeout_s: float) -> subprocess.CompletedProcess[str]:
    """Run cargo-fuzz; what it says is in ``stdout``."""
    command = ["cargo", "+nightly", "fuzz", *words]
    return subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        timeout=timeout_s, check=False,
    )  # fmt: skip


def places(target: Target) -> list[str]:
    """Where cases are found before they are read: in the corpus, and the seeds."""
    corpus = FUZZ / "corpus" / target.name
    corpus.mkdir(parents=True, exist_ok=True)
    return [str(corpus), *(str(path) for path in target.seeds if path.is_dir())]


def run(target: Target, seconds: int) -> Result:
    """Run a target for some seconds."""
    dictionary = FUZZ / f"{target.name}.dict"
    options = [
        f"-max_total_time={seconds}", f"-max_len={target.max_bytes}", f"-timeout={CASE_S}",
        f"-rss_limit_mb={MEMORY_MB}", "-print_final_stats=1", *([f"-dict={dictionary}"] if dictionary.exists() else []),
    ]  # fmt: skip
    done = fuzz("run", target.name, *places(target), "--", *options, timeout_s=seconds + 300)

    def last(pattern: str) -> int:
        return int(([*re.findall(pattern, done.stdout)] or ["0"])[-1])

    failed = ""
    if done.returncode != 0:
        failed = (re.findall(r"Test unit written to (\S+)", done.stdout) or [f"exit code {done.returncode}"])[-1]
        print(done.stdout[-5000:], flush=True)
        print(f"fuzz: again: cargo +nightly fuzz run {target.name} {failed}", flush=True)
    cases, edges = last(r"stat::number_of_executed_units: (\d+)"), last(r"cov: (\d+) ")
    return Result(target, cases, edges, len(list(Path(places(target)[0]).iterdir())), seconds, failed)


def table(results: list[Result]) -> str:
    """All results as a table in Markdown."""
    lines = [
        "| target | takes | cases | edges reached | cases kept | seconds | failed |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {one.target.name} | {one.target.takes} | {one.cases:,} | {one.edges:,} | {one.kept} | {one.seconds} | "
        f"{1 if one.failed else 0} |"
        for one in results
    ]
    return "\n".join(lines)


def coverage(target: Target) -> str:
    """Which part of the lines of the target's crates its cases reach."""
    built = fuzz("coverage", target.name, *places(target), timeout_s=BUILD_S)
    if built.returncode != 0:
        raise SystemExit(built.stdout[-3000:])
    host = re.search(r"host: (\S+)", subprocess.check_output(["rustc", "+nightly", "-vV"], text=True))
    sysroot = subprocess.check_output(["rustc", "+nightly", "--print", "sysroot"], text=True).strip()
    assert host is not None
    program = f"target/{host[1]}/coverage/{host[1]}/release/{target.name}"
    binary = next(path for path in (ROOT / program, FUZZ / program) if path.exists())
    export = [
        f"{sysroot}/lib/rustlib/{host[1]}/bin/llvm-cov", "export", "-summary-only", str(binary),
        f"-instr-profile={FUZZ / 'coverage' / target.name / 'coverage.profdata'}",
    ]  # fmt: skip
    files = json.loads(subprocess.check_output(export, text=True))["data"][0]["files"]
    found = []
    for crate in target.crates:
        lines = [one["summary"]["lines"] for one in files if one["filename"].startswith(f"{ROOT / crate}")]
        covered, count = (sum(line[name] for line in lines) for name in ("covered", "count"))
        found.append(f"{crate} {covered} of {count} lines ({covered / max(count, 1):.0%})")
    return f"{target.name}: {', '.join(found)}"


def main() -> int:
    """Run the targets one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60, help="for each target (default: 60)")
    parser.add_argument("--only", default="", help="only targets whose name matches this expression")
    parser.add_argument("--coverage", action="store_true", help="say which lines are reached, instead of fuzzing")
    arguments = parser.parse_args()
    if shutil.which("cargo-fuzz") is None:
        print("fuzz: cargo-fuzz is not installed; fix: cargo install --locked cargo-fuzz", file=sys.stderr)
        return 2
    # What is tried is what is shipped.
    shutil.copy(ROOT / "Cargo.lock", FUZZ)
    targets = [target for target in TARGETS if re.search(arguments.only, target.name)]
    if arguments.coverage:
        for target in targets:
            print(coverage(target), flush=True)
        return 0
    built = fuzz("build", timeout_s=BUILD_S)
    if built.returncode != 0:
        print(built.stdout[-5000:], file=sys.stderr)
        return 2
    results = []
    for target in targets:
        results.append(run(target, arguments.seconds))
        print(f"{'FAILED' if results[-1].failed else 'ok'}: {target.name}, {results[-1].cases:,} cases", flush=True)
    print(table(results))
    return 1 if any(one.failed for one in results) else 0


if __name__ == "__main__":
    sys.exit(main())
