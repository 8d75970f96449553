# SPDX-License-Identifier: Apache-2.0
"""docs/architecture.md: the Rust part of the map names what there is; crates know those below, modules no circle."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]

# Each crate's folder, and the crates of this repository that it may use (not those for its tests).
CRATES = {
    "captures": set(),
    "drop-records": set(),
    "metrics": set(),
    "packet-sockets": set(),
    "privileges": set(),
    "softswitch/program": set(),
    "softswitch/proto": set(),
    "softswitch/frontend": {"softswitch/program"},
    "softswitch/interpreter": {"softswitch/program"},
    "softswitch/native": {"softswitch/program", "softswitch/interpreter"},
    "softswitch/pipeline": {
        "softswitch/program",
        "softswitch/frontend",
        "softswitch/interpreter",
        "softswitch/native",
    },
    "softswitch/switch": {"softswitch/pipeline", "captures", "drop-records", "packet-sockets"},
    "softswitch/replay-config": {"softswitch/switch", "softswitch/pipeline"},
    "softswitch/replay": {
        "softswitch/replay-config",
        "softswitch/switch",
        "softswitch/pipeline",
        "captures",
        "packet-sockets",
    },
    "softswitch/server": {
        "softswitch/replay",
        "softswitch/switch",
        "softswitch/pipeline",
        "softswitch/proto",
        "privileges",
        "metrics",
    },
    "analysis/tables": set(),
    "analysis/arrow-stream": {"analysis/tables"},
    "analysis/collector": {
        "analysis/arrow-stream",
        "analysis/tables",
        "captures",
        "drop-records",
        "packet-sockets",
        "privileges",
        "metrics",
    },
}


def test_every_rust_file_on_the_map_exists() -> None:
    listed = subprocess.run(["git", "ls-files", "*.rs"], cwd=REPOSITORY, check=True, capture_output=True, text=True)
    places = [f"/{path}" for path in listed.stdout.split()]
    named = set(re.findall(r"`([\w/-]+\.rs)`", (REPOSITORY / "docs" / "architecture.md").read_text()))
    assert len(named) > 12
    assert {name for name in named if not any(path.endswith(f"/{name}") for path in places)} == set()


def test_every_crate_is_on_the_list() -> None:
    workspace = tomllib.loads((REPOSITORY / "Cargo.toml").read_text())["workspace"]
    assert set(workspace["members"]) == set(CRATES)


@pytest.mark.parametrize("folder", CRATES)
def test_crates_use_only_those_below_them(folder: str) -> None:
    manifest = tomllib.loads((REPOSITORY / folder / "Cargo.toml").read_text())
    used = {
        str((REPOSITORY / folder / given["path"]).resolve().relative_to(REPOSITORY))
        for given in manifest.get("dependencies", {}).values()
        if isinstance(given, dict) and "path" in given
    }
    assert used == CRATES[folder]


def uses(tree: str) -> list[str]:
    """Paths of a `use` declaration, its braces written out."""
    head, brace, inner = tree.partition("{")
    if not brace:
        return [tree.strip()]
    parts, depth = [""], 0
    for letter in inner.rpartition("}")[0]:
        depth += (letter == "{") - (letter == "}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [head.strip() + path for part in parts if part.strip() for path in uses(part)]


def named_modules(file: Path, source: Path, modules: dict[Path, Path]) -> set[Path]:
    """Modules of the same crate that a module names, tests left out."""
    text = re.sub(r"#\[cfg\(test\)\]\s*mod tests \{.*|//[^\n]*", "", file.read_text(), flags=re.DOTALL)
    paths = [path for tree in re.findall(r"\buse ((?:crate|super|self)::[^;]+);", text) for path in uses(tree)]
    paths += re.findall(r"\b(?:crate|super)(?:::\w+)+", re.sub(r"\buse [^;]+;", "", text))
    own = next(module for module, other in modules.items() if other == file)
    found = set()
    for path in paths:
        place = source if path.startswith("crate::") else own
        for word in re.split(r"::| as ", path.removeprefix("crate::").removeprefix("self::")):
            below = place.parent if word == "super" else place / word
            if word != "super" and below not in modules:
                break
            place = below
        found.add(place)
    return found - {own}


@pytest.mark.parametrize("folder", CRATES)
def test_no_two_modules_name_each_other(folder: str) -> None:
    source = REPOSITORY / folder / "src"
    files = [file for file in source.rglob("*.rs") if "tests" not in file.stem]
    modules = {file.parent if file.stem in ("mod", "lib", "main") else file.with_suffix(""): file for file in files}
    named = {module: named_modules(file, source, modules) for module, file in modules.items()}
    assert [(str(a), str(b)) for a in named for b in named[a] if a in named.get(b, ()) and str(a) < str(b)] == []
