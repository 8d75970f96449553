# SPDX-License-Identifier: Apache-2.0
"""Makes and tries what a release ships for this kind of machine, in dist/; publishes nothing.

Usage: .venv/bin/python scripts/release.py [OUT] [--programs DIR], or python3 scripts/release.py --wheel FILE

The source archive, the programs, a wheel with them in it, the components in CycloneDX, and SHA256SUMS. Without
--programs they are compiled (`cargo build --profile dist`). The wheel is installed with every Python that is here and
that it allows, each in an environment of its own outside of the checkout, where each program has to start and an
experiment to be checked. Exit code 1 if one does not. With --wheel nothing is made: that wheel is tried in this way, as
`scripts/fresh-machine.sh SUITE wheel FILE` does on a bare Debian.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("python3.11", "python3.12", "python3.13", "python3.14")
SBOM, SUMS = "narrows.cdx.json", "SHA256SUMS"


def run(*words: str | Path, cwd: Path = ROOT, **environment: str) -> None:
    """A command that has to succeed."""
    subprocess.run([str(word) for word in words], cwd=cwd, check=True, env={**os.environ, **environment})


def components() -> dict[str, object]:
    """What the programs and the Python packages are made of, as CycloneDX 1.5 (ECMA-424) has it."""
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "narrows", "version": version}},
        "components": [*_crates(), *_packages()],
    }


def _crates() -> Iterator[dict[str, object]]:
    """Crates of others, by Cargo.lock."""
    for crate in tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]:
        if "source" in crate:
            hashes = [{"alg": "SHA-256", "content": crate["checksum"]}]
            yield _component("cargo", crate["name"], crate["version"]) | {"hashes": hashes}


def _packages() -> Iterator[dict[str, object]]:
    """Python packages that `narrows` needs, by requirements/run.txt."""
    for name, version in re.findall(r"^([\w.-]+)==([^\s;]+)", (ROOT / "requirements" / "run.txt").read_text(), re.M):
        yield _component("pypi", name, version)


def _component(registry: str, name: str, version: str) -> dict[str, object]:
    return {"type": "library", "name": name, "version": version, "purl": f"pkg:{registry}/{name}@{version}"}


def build_packages(source: Path, programs: Path, out: Path) -> None:
    """Wheel and source archive of the commit that is checked out: nothing that earlier builds left gets into them."""
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    subprocess.run(["tar", "-x"], cwd=source, input=archive, check=True)
    carried = {"NARROWS_WHEEL_PROGRAMS": os.path.relpath(programs, source)}
    wheel = ("-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(out), ".")
    run(sys.executable, *wheel, cwd=source, **carried)
    archived = f"from setuptools import build_meta; build_meta.build_sdist({str(out)!r})"
    run(sys.executable, "-c", archived, cwd=source)


def usable_pythons() -> list[str]:
    """Those of `PYTHONS` that can make an environment here."""
    found = filter(None, map(shutil.which, PYTHONS))
    return [one for one in found if not subprocess.run([one, "-c", "import ensurepip"], capture_output=True).returncode]


def try_wheel(wheel: Path, python: str) -> None:
    """The wheel in an environment of its own: programs start, and an experiment is written and checked."""
    with tempfile.TemporaryDirectory(prefix="narrows-release-") as name:
        there = Path(name)
        run(python, "-m", "venv", there / "env", cwd=there)
        bare = {"PATH": f"{there / 'env' / 'bin'}:/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONPATH": ""}
        program = there / "env" / "bin"
        run(program / "pip", "install", "--quiet", wheel, cwd=there, **bare)
        run(program / "narrows", "--version", cwd=there, **bare)
        for one in ("narrows-softswitch", "narrows-collector"):
            subprocess.run([program / one, "--help"], check=True, stdout=subprocess.DEVNULL)
        run(program / "narrows", "new", "first.yaml", cwd=there, **bare)
        run(program / "narrows", "check", "first.yaml", cwd=there, **bare)


def try_with_each(wheel: Path) -> None:
    """The wheel with every Python that is here and can make an environment."""
    pythons = usable_pythons()
    if not pythons:
        raise SystemExit(f"release: {wheel.name} cannot be tried: no Python is here; allowed: {', '.join(PYTHONS)}")
    for python in pythons:
        print(f"release: {wheel.name} with {python}", flush=True)
        try_wheel(wheel, python)


def main(words: list[str]) -> int:
    """Make, try and sum up."""
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("out", nargs="?", type=Path, default=ROOT / "dist")
    options.add_argument("--programs", type=Path, help="directory of compiled programs")
    options.add_argument("--wheel", type=Path, help="only try this wheel")
    chosen = options.parse_args(words)
    if chosen.wheel is not None:
        try_with_each(chosen.wheel.resolve())
        return 0
    out: Path = chosen.out.resolve()
    if out.exists() and any(out.iterdir()):
        print(f"release: {out} is not empty: move it away", file=sys.stderr)
        return 2
    out.mkdir(parents=True, exist_ok=True)
    programs: Path = chosen.programs or ROOT / "target" / "dist"
    if chosen.programs is None:
        run("cargo", "build", "--profile", "dist", "--locked")
    run(
        sys.executable,
        "scripts/programs.py",
        "pack",
        programs,
        out / f"narrows-programs-{os.uname().machine}-linux.tar.gz",
    )
    with tempfile.TemporaryDirectory(prefix="narrows-release-") as name:
        build_packages(Path(name), programs.resolve(), out)
    (out / SBOM).write_text(json.dumps(components(), indent=1) + "\n")
    (wheel,) = out.glob("*.whl")
    try_with_each(wheel)
    files = sorted(path for path in out.iterdir() if path.name != SUMS)
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (out / SUMS).write_text("".join(lines))
    print("".join(lines), end="")
    print(f"release: {out}; for another kind of machine, run it there")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except subprocess.CalledProcessError as error:
        sys.exit(f"release: {error}")
