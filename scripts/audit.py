# SPDX-License-Identifier: Apache-2.0
"""Known vulnerabilities, licences and sources of what Narrows depends on: ``make audit``. Exit code 1 if one is found.

Crates are checked by cargo-deny, by deny.toml and RustSec's advisories; Python packages of .venv by pip-audit and
PyPI's. Neither is installed by the set-up: ``cargo install --locked cargo-deny``, ``pipx install pip-audit``. Where
their databases cannot be reached, copies will do: ``--crates CLONE`` of rustsec/advisory-db, ``--python CLONE`` of
pypa/advisory-database.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).resolve().parents[1]
CONFIGURATION = ROOT / "deny.toml"
ADVISORIES = "https://github.com/RustSec/advisory-db"
INSTALL = {"cargo-deny": "cargo install --locked cargo-deny", "pip-audit": "pipx install pip-audit"}


def tool(name: str) -> str:
    """Where a program is.

    Raises:
        SystemExit: it is not installed.
    """
    found = shutil.which(name)
    if found is None:
        print(f"audit: {name} is not installed; fix: {INSTALL[name]}", file=sys.stderr)
        raise SystemExit(2)
    return found


def crates(database: Path | None) -> bool:
    """Check the crates in Cargo.lock, of all features; whether all is well."""
    command = [tool("cargo-deny"), "--locked", "check"]
    if database is None:
        return subprocess.run(command, cwd=ROOT, check=False).returncode == 0
    with tempfile.TemporaryDirectory() as directory:
        # A cache of its own, and a setting of git by which the copy is the original.
        configuration = Path(directory) / CONFIGURATION.name
        place = f'[advisories]\ndb-path = "{directory}/databases"\n'
        configuration.write_text(CONFIGURATION.read_text().replace("[advisories]\n", place))
        instead = {"KEY_0": f"url.{database.resolve()}.insteadOf", "VALUE_0": ADVISORIES, "COUNT": "1"}
        environment = {**os.environ, **{f"GIT_CONFIG_{name}": value for name, value in instead.items()}}
        command[1:1] = ["--config", str(configuration)]
        return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode == 0


def python(database: Path | None) -> bool:
    """Check the installed packages; whether all is well."""
    if database is None:
        packages = [path for path in map(Path, sys.path) if path.name == "site-packages"]
        command = [tool("pip-audit"), "--progress-spinner", "off", "--skip-editable"]
        return subprocess.run([*command, "--path", str(packages[0])], check=False).returncode == 0
    number, found = 0, []
    for distribution in importlib.metadata.distributions():
        name = re.sub(r"[-_.]+", "-", distribution.metadata["Name"]).lower()
        if name == "pip":  # brought by the system's venv, and used once
            continue
        number += 1
        for path in sorted((database / "vulns" / name).glob("*.yaml")):
            entry = yaml.safe_load(path.read_text())
            if "withdrawn" not in entry and affects(entry, distribution.version):
                found.append(
                    f"{name} {distribution.version}: {entry['id']}: {' '.join(entry['details'].split())[:100]}"
                )
    print("\n".join([*found, f"python: {number} packages, {len(found)} known vulnerabilities"]))
    return not found


def affects(entry: dict[str, Any], version: str) -> bool:
    """Whether an entry in OSV's format is about a version (https://ossf.github.io/osv-schema, evaluation)."""
    for affected in entry["affected"]:
        if version in affected.get("versions", ()):
            return True
        ranges = [each["events"] for each in affected.get("ranges", ()) if each["type"] == "ECOSYSTEM"]
        if any(_within(events, version) for events in ranges):
            return True
    return False


def _within(events: list[dict[str, str]], version: str) -> bool:
    vulnerable, asked = False, Version(version)
    for kind, limit in sorted(_dated(events), key=lambda event: event[1]):
        if limit <= asked and kind != "last_affected":
            vulnerable = kind == "introduced"
        elif kind == "last_affected" and limit < asked:
            vulnerable = False
    return vulnerable


def _dated(events: list[dict[str, str]]) -> Iterator[tuple[str, Version]]:
    for event in events:
        for kind, text in event.items():
            try:
                yield kind, Version(text)
            except InvalidVersion:
                continue


def main() -> int:
    """Check both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--crates", type=Path, metavar="CLONE", help="copy of rustsec/advisory-db")
    parser.add_argument("--python", type=Path, metavar="CLONE", help="copy of pypa/advisory-database")
    arguments = parser.parse_args()
    for name in ("crates", "python"):
        given = getattr(arguments, name)
        if given is not None and not (given / name.replace("python", "vulns")).is_dir():
            parser.error(f"--{name} {given}: is not a copy of that database")
    good = [crates(arguments.crates), python(arguments.python)]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
