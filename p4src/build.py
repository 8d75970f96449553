"""Compiles the P4 program for each architecture and records what it was compiled from.

`build.py v1model tofino tofino2` rebuilds `compiled/<architecture>/`; `build.py --check` tells whether the committed
artifacts belong to the sources as they are, and needs no compiler.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from parser_states import lost_matches

P4SRC = Path(__file__).resolve().parent
COMPILED = P4SRC / "compiled"
TOPS = {
    "v1model": "v1model/narrows.p4",
    "v1model-managed": "v1model/managed.p4",
    "tofino": "tofino/narrows.p4",
    "tofino2": "tofino/narrows.p4",
    "tofino-managed": "tofino/managed.p4",
    "tofino2-managed": "tofino/managed.p4",
}
RECORD = "digest.json"

# What the program may take of a Tofino pipe, in match-action stages: Tofino 1 has 12, Tofino 2 has 20.
STAGE_LIMITS = {
    "tofino": {"ingress": 9, "egress": 6},
    "tofino2": {"ingress": 9, "egress": 6},
    "tofino-managed": {"ingress": 10, "egress": 10},
    "tofino2-managed": {"ingress": 11, "egress": 8},
}
# Name of the program's only pipeline, and of the directory that the compiler puts it in.
PIPE = "pipe"
TOFINO_ARCHITECTURES = {"tofino": "tna", "tofino2": "t2na"}
# What is behind a chip's name in that of an architecture whose program manages queues.
MANAGED = "-managed"
# Options of the compiler. Which fields could share dark containers, which only Tofino 2 has, is a search of an hour.
OPTIONS = {"tofino2-managed": ["-Xp4c=--disable-dark-allocation"]}
# Warnings of the Tofino compiler and assembler that are known to be harmless; any other fails the build.
ALLOWED_WARNINGS = {
    r"out parameter 'meta' may be uninitialized when 'Narrows(In|E)gressParser' terminates": (
        "parsers set what the packet brings; the controls set all else before they read it"
    ),
    r"index may be uninitialized": "its upper bits are the share's, and the hash fills in all others",
    r"(enter|stay) may be uninitialized": "of a register's action, which runs behind the table that sets them",
    r"increment may be uninitialized": "all actions of arrival_verdict and of departure_verdict set it",
    r"lost may be uninitialized": "passed for an out parameter, which BottleneckIngress sets before it reads it",
    r"No size defined for table '\w+_(ecn|sampling|truncation|bits_of_share|index_of|\w+_verdict)(_0)?'": (
        "their entries are constant; p4c warns on v1model when a size is given as well"
    ),
    r"Parser state min_parse_depth_accept_loop will be unrolled": (
        "a state of the compiler's own, which reads short frames up to Tofino 1's least parsing depth"
    ),
    # The assembler's, which come in pairs: what, and where the other definition is.
    r"duplicate hash group \d+, will merge with|previous definition here": (
        "a table that takes a hash group's bits for two purposes defines it once for each, with seeds of different bits"
    ),
    r"Input xbar hash group \d+ mergeable conflict in stage \d+|conflicting hash group definition here": (
        "two tables have bits of one hash group; the assembler refuses it where a bit of one is made for the other, too"
    ),
    r"\w+\.(dynhash|prim)\.json: can't read file": (
        "the compiler's driver has removed these when the assembler is asked again, whose output is thrown away then"
    ),
    r"exact hashtable \d+ does not exist in table \w+": (
        "of such a group the assembler looks through all hashes, also those that this table takes no bits of"
    ),
}


class BuildError(Exception):
    """The compiler is missing or refused the program."""


def sources(top: str) -> list[str]:
    """Files that make up a program, relative to p4src: the top and all that it includes, sorted."""
    found: set[str] = set()
    pending = [top]
    while pending:
        name = pending.pop()
        if name in found:
            continue
        found.add(name)
        path = P4SRC / name
        included = re.findall(r'^#include "([^"]+)"', path.read_text(), re.MULTILINE)
        pending += [str((path.parent / one).resolve().relative_to(P4SRC)) for one in included]
    return sorted(found)


def source_digests(architecture: str) -> dict[str, str]:
    """SHA-256 of each source file of an architecture's program."""
    return {name: _sha256(P4SRC / name) for name in sources(TOPS[architecture])}


def stale(architecture: str) -> list[str]:
    """Why the committed artifacts of an architecture are not what its sources compile to; empty when they are."""
    folder = COMPILED / architecture
    try:
        record = json.loads((folder / RECORD).read_text())
    except FileNotFoundError:
        return [f"{architecture}: no artifacts"]
    now = source_digests(architecture)
    problems = [
        f"{architecture}: {name} changed since it was compiled"
        for name in sorted(now.keys() | record["sources"].keys())
        if now.get(name) != record["sources"].get(name)
    ]
    for name, digest in record["artifacts"].items():
        path = folder / name
        if not path.exists():
            problems.append(f"{architecture}: artifact {name} is missing")
        elif _sha256(path) != digest:
            problems.append(f"{architecture}: artifact {name} is not what the compiler wrote")
    return problems


def build(architecture: str) -> None:
    """Compiles one architecture into `compiled/<architecture>/`; raises BuildError and changes nothing on failure."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch)
        compiler = _COMPILERS[architecture](out)
        artifacts = sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())
        record = {
            "program": TOPS[architecture],
            "compiler": compiler,
            "sources": source_digests(architecture),
            "artifacts": {name: _sha256(out / name) for name in artifacts},
        }
        (out / RECORD).write_text(json.dumps(record, indent=2) + "\n")
        folder = COMPILED / architecture
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(out, folder)
    print(f"p4: compiled {architecture}: {', '.join(artifacts)}")


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _compact(path: Path) -> None:
    """Takes the white space out of a JSON file, which programs read: indented, it has as many lines as all sources."""
    path.write_text(json.dumps(json.loads(path.read_text()), separators=(",", ":")) + "\n")


def _need(tool: str) -> str:
    if shutil.which(tool) is None:
        raise BuildError(f"{tool} is not on PATH; install p4c (https://github.com/p4lang/p4c) and try again")
    return tool


def _run(command: list[str]) -> str:
    """Runs a compiler inside p4src, so that no path of this machine gets into its output."""
    done = subprocess.run(command, cwd=P4SRC, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    if "warning" in done.stderr:
        print(done.stderr, file=sys.stderr)
    return done.stdout


def _version(tool: str) -> str:
    """Name and version as the compiler tells them; p4c tells them on standard error."""
    done = subprocess.run([tool, "--version"], capture_output=True, text=True, check=False)
    version = re.search(r"Version (\S+)", done.stdout + done.stderr)
    return f"{tool} {version[1] if version else 'of unknown version'}"


def _v1model(top: str, out: Path) -> str:
    tool = _need("p4c-bm2-ss")
    p4info = str(out / "narrows.p4info.txtpb")
    _run([tool, "--std", "p4-16", "-o", str(out / "narrows.json"), "--p4runtime-files", p4info, top])
    _compact(out / "narrows.json")
    return _version(tool)


def unexplained_warnings(output: str) -> list[str]:
    """Lines of a compiler's output that warn of something not in ALLOWED_WARNINGS."""
    warnings = [line for line in output.splitlines() if re.search(r"\bwarning:", line, re.IGNORECASE)]
    return [line for line in warnings if not any(re.search(allowed, line) for allowed in ALLOWED_WARNINGS)]


def exceeded_limits(architecture: str, stages: dict[str, int]) -> list[str]:
    """Gresses that need more stages than STAGE_LIMITS allows a program, as sentences."""
    return [
        f"{gress} takes {stages[gress]} stages, at most {limit} are allowed"
        for gress, limit in STAGE_LIMITS[architecture].items()
        if stages[gress] > limit
    ]


def _tofino(architecture: str, out: Path) -> str:
    """Compiler and assembler; what a switch loads and what it takes of the chip go to ``out``."""
    chip = architecture.removesuffix(MANAGED)
    name = "narrows" if architecture == chip else "narrows_managed"
    tool, assembler = _need("p4c"), _need("bfas")
    generator = _need("p4c-gen-bfrt-conf")
    with tempfile.TemporaryDirectory() as scratch:
        raw = Path(scratch)
        schema = raw / "bf-rt.json"
        command = [tool, "--std", "p4-16", "--target", chip, "--arch", TOFINO_ARCHITECTURES[chip], "--verbose", "1"]
        command += OPTIONS.get(architecture, [])
        done = subprocess.run(
            [*command, "--bf-rt-schema", str(schema), "-o", str(raw), TOPS[architecture]],
            cwd=P4SRC,
            capture_output=True,
            text=True,
            check=False,
        )
        output = done.stdout + done.stderr
        loaded = [raw / PIPE / "context.json", raw / PIPE / f"{chip}.bin"]
        if done.returncode != 0 or not all(path.exists() for path in loaded):
            raise BuildError(f"{' '.join(command)}\n{output}")
        resources = tofino_resources(architecture, raw / PIPE / "logs")
        assembly = raw / PIPE / f"{Path(TOPS[architecture]).stem}.bfa"
        problems = unexplained_warnings(output + _assemblers_warnings(assembler, chip, assembly))
        problems += exceeded_limits(architecture, resources["stages"]) + lost_matches(assembly.read_text())
        if problems:
            raise BuildError("\n".join([f"{architecture}:", *problems]))
        for path in (schema, loaded[0]):
            _compact(path)
        # Where the SDE's own build installs them, seen from the directory of the SDE's installation.
        named = [generator, "--name", name, "--device", chip, "--pipe", PIPE, "--testdir", str(raw)]
        _run([*named, "--installdir", f"share/{chip}pd/{name}"])
        loaded += [schema, raw / f"{name}.conf"]
        for path in loaded:
            if any(str(place).encode() in path.read_bytes() for place in (raw, P4SRC)):
                raise BuildError(f"{architecture}: {path.name} holds a path of this machine")
        version = json.loads((raw / "manifest.json").read_text())["compiler_version"]
        (out / PIPE).mkdir()
        for path in loaded:
            kept = out / path.relative_to(raw)
            if path.parent.name == PIPE:
                # Read by a switch alone, for which deploy/install-switch.sh unpacks it: a twentieth of the bytes.
                packed = lzma.compress(path.read_bytes(), preset=9 | lzma.PRESET_EXTREME)
                kept.with_name(f"{kept.name}.xz").write_bytes(packed)
            else:
                shutil.copyfile(path, kept)
    (out / "resources.json").write_text(json.dumps(resources, indent=2) + "\n")
    (out / "resources.md").write_text(_resource_table(architecture, resources))
    return f"p4c-barefoot {version}"


def _assemblers_warnings(assembler: str, chip: str, assembly: Path) -> str:
    """What the assembler says of a program: an installed p4c runs it with its warnings off."""
    with tempfile.TemporaryDirectory() as scratch:
        command = [assembler, "--target", chip, "-o", scratch, str(assembly)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def tofino_resources(architecture: str, logs: Path) -> dict[str, Any]:
    """What a compiled program takes of its pipe, from the compiler's logs: blocks, units and containers in use."""
    summary = (logs / "table_summary.log").read_text()
    # The last allocation counts: the compiler may have tried several.
    stages = {
        gress: int(re.findall(rf"Number of stages for {gress} table allocation: (\d+)", summary)[-1])
        for gress in STAGE_LIMITS[architecture]
    }
    metrics = json.loads((logs / "metrics.json").read_text())
    used = json.loads((logs / "resources.json").read_text())["resources"]
    mau_stages = used["mau"]["mau_stages"]

    def count(kind: str, members: str) -> int:
        return sum(len(stage[kind][members]) for stage in mau_stages)

    meters: Iterable[Any] = (meter for stage in mau_stages for meter in stage["meter_alus"]["meters"])
    return {
        "stages": stages,
        "logical_tables": metrics["mau"]["logical_tables"],
        "sram_blocks": metrics["mau"]["srams"],
        "map_ram_blocks": metrics["mau"]["map_rams"],
        "tcam_blocks": metrics["mau"]["tcams"],
        "stateful_alus": sum(any(use["used_for"] == "stateful_ram" for use in meter["usages"]) for meter in meters),
        "statistics_alus": count("statistic_alus", "stats"),
        "hash_bits": count("hash_bits", "bits"),
        "hash_distribution_units": count("hash_distribution_units", "units"),
        "phv_containers": {
            kind: {str(size["bit_width"]): size["containers_occupied"] for size in sizes}
            for kind, sizes in metrics["phv"].items()
        },
        "parser_states": {parser["gress"]: len(parser["states"]) for parser in used["parser"]["parsers"]},
    }


def _resource_table(architecture: str, resources: dict[str, Any]) -> str:
    """The same for people."""
    stages = resources["stages"]
    limits = STAGE_LIMITS[architecture]
    rows = [f"| stages, {gress} | {count} of {limits[gress]} allowed |" for gress, count in stages.items()]
    for name, value in resources.items():
        if isinstance(value, int):
            rows.append(f"| {name.replace('_', ' ')} | {value} |")
    for kind, sizes in resources["phv_containers"].items():
        counts = ", ".join(f"{count} x {width} bit" for width, count in sizes.items())
        rows.append(f"| PHV containers, {kind} | {counts} |")
    rows += [f"| parser states, {gress} | {count} |" for gress, count in resources["parser_states"].items()]
    title = f"# Resources on {architecture}\n\nWritten by build.py from the compiler's logs.\n\n"
    return title + "\n".join(["| | in use |", "|---|---|", *rows]) + "\n"


_COMPILERS: dict[str, Callable[[Path], str]] = {
    "v1model": lambda out: _v1model(TOPS["v1model"], out),
    "v1model-managed": lambda out: _v1model(TOPS["v1model-managed"], out),
    "tofino": lambda out: _tofino("tofino", out),
    "tofino2": lambda out: _tofino("tofino2", out),
    "tofino-managed": lambda out: _tofino("tofino-managed", out),
    "tofino2-managed": lambda out: _tofino("tofino2-managed", out),
}


def main() -> int:
    """Command line; exit code 0, 1 when artifacts are stale or a compilation fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("architectures", nargs="*", choices=[[], *TOPS], help="what to compile")
    parser.add_argument("--check", action="store_true", help="only compare digests; needs no compiler")
    arguments = parser.parse_args()
    if arguments.check:
        problems = [problem for architecture in TOPS for problem in stale(architecture)]
        print("\n".join(problems) or "p4: all artifacts belong to their sources")
        return 1 if problems else 0
    try:
        for architecture in arguments.architectures:
            build(architecture)
    except BuildError as error:
        print(f"p4: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
