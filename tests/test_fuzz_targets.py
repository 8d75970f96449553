# SPDX-License-Identifier: Apache-2.0
"""`make fuzz`: its targets are there, with seeds."""

from __future__ import annotations

import importlib
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))


def test_every_target_is_run_and_has_seeds() -> None:
    targets = importlib.import_module("fuzz").TARGETS
    built = {one["name"]: one["path"] for one in tomllib.loads((ROOT / "fuzz" / "Cargo.toml").read_text())["bin"]}
    assert {target.name for target in targets} == set(built)
    assert all((ROOT / "fuzz" / path).is_file() for path in built.values())
    for target in targets:
        sizes = [path.stat().st_size for place in target.seeds for path in place.iterdir()]
        assert sizes and min(sizes) <= target.max_bytes, target.name
        assert all((ROOT / crate).exists() for crate in target.crates), target.name
