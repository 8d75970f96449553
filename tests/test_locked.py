# SPDX-License-Identifier: Apache-2.0
"""What set-up and the workflows take from elsewhere is known by its digest."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
LOCKS = {path.stem: path.read_text() for path in sorted((ROOT / "requirements").glob("*.txt"))}
PURPOSES = {"run": ("run",), "ptf": ("run", "ptf"), "docs": ("run", "docs"), "test": ("run", "ptf", "docs", "test")}
EXTRAS = {
    "run": {"build"},
    "ptf": {"build", "ptf"},
    "docs": {"build", "docs"},
    "test": {"build", "cluster", "dask", "docs", "ptf", "dev"},
}
PINNED = re.compile(r"([A-Za-z0-9._-]+)(?:\[[\w,-]+\])?==(\S+)(?: ; .+?)? \\")
DIGEST = re.compile(r"    --hash=sha256:[0-9a-f]{64}( \\)?")


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("name", LOCKS)
def test_each_package_has_a_version_and_digests_and_no_place(name: str) -> None:
    lines = LOCKS[name].splitlines()[1:]
    pinned = [number for number, line in enumerate(lines) if PINNED.fullmatch(line)]
    assert pinned and pinned[0] == 0
    for number, line in enumerate(lines):
        assert number in pinned or DIGEST.fullmatch(line), line
        assert number not in pinned or DIGEST.fullmatch(lines[number + 1]), line
    assert "://" not in LOCKS[name]


@pytest.mark.parametrize("purpose", PURPOSES)
def test_the_lock_has_what_pyproject_asks_for(purpose: str) -> None:
    """After a change of dependencies: make lock."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["build"]]
    wanted += [one for extra in EXTRAS[purpose] for one in project["optional-dependencies"][extra]]
    versions: dict[str, list[str]] = {}
    for name in PURPOSES[purpose]:
        for package, version in PINNED.findall(LOCKS[name]):
            versions.setdefault(normal(package), []).append(version)
    for requirement in map(Requirement, wanted):
        if requirement.name != "narrows":
            found = versions.get(normal(requirement.name), [])
            assert found and all(requirement.specifier.contains(one) for one in found), (str(requirement), found)


def test_set_up_installs_only_what_is_locked() -> None:
    commands = re.findall(r"^.*\binstall --.*$", (ROOT / "scripts" / "setup.sh").read_text(), re.MULTILINE)
    options = re.search(r"locked=\((.+)\)", (ROOT / "scripts" / "setup.sh").read_text())
    assert options is not None and "--require-hashes" in options[1] and "--no-build-isolation" in options[1]
    packages = [line for line in commands if "pip" in line]
    assert len(packages) == 4
    for line in packages:
        assert (
            '"${locked[@]}"' in line
            or "--require-hashes" in line
            or "--no-deps --no-build-isolation --editable ." in line
        )


@pytest.mark.parametrize("workflow", sorted((ROOT / ".github" / "workflows").glob("*.yml")), ids=lambda path: path.name)
def test_actions_are_pinned_by_commit(workflow: Path) -> None:
    """A tag can be moved; the comment says which one it was."""
    used = re.findall(r"uses: *(.*)", workflow.read_text())
    assert used
    for action in used:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+", action), action
