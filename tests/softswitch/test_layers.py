# SPDX-License-Identifier: Apache-2.0
"""docs/architecture.md: the Rust part of the map names what there is, and crates know only those below them."""

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
    "softswitch/switch": {"softswitch/pipeline", "captures", "packet-sockets"},
    "softswitch/server": {"softswitch/switch", "softswitch/pipeline", "softswitch/proto", "privileges", "metrics"},
    "analysis/collector": {"captures", "packet-sockets", "privileges", "metrics"},
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
