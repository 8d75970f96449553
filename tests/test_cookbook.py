# SPDX-License-Identifier: Apache-2.0
"""The recipes of docs/cookbook.md are experiments, and what troubleshooting quotes is what programs say."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from documented import ROOT
from narrows.experiment.sweep import load_series

RECIPES = re.findall(r"```yaml\n(name: (\S+)\n.*?)```", (ROOT / "docs" / "cookbook.md").read_text(), re.DOTALL)
SOURCES = [path for folder in ("control_plane", "analysis", "studies") for path in (ROOT / folder).rglob("*.py")]


@pytest.mark.parametrize(("text", "name"), RECIPES, ids=[name for _, name in RECIPES])
def test_a_recipe_is_an_experiment(text: str, name: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "experiments" / "traces", tmp_path / "traces")
    file = tmp_path / "recipe.yaml"
    file.write_text(text)
    assert load_series(file, ()).experiment.name == name


def test_there_are_recipes_and_files_that_are_named() -> None:
    text = (ROOT / "docs" / "cookbook.md").read_text()
    assert len(RECIPES) >= 3
    assert all((ROOT / name).is_file() for name in re.findall(r"experiments/[a-z-]+\.yaml", text))


def test_messages_that_are_quoted_exist() -> None:
    """Word for word, as far as they do not depend on the machine; `bad interpreter` is the shell's."""
    rows = re.findall(r"^\| `([^`]+)`", (ROOT / "docs" / "troubleshooting.md").read_text(), re.MULTILINE)
    said = "\n".join(path.read_text() for path in SOURCES)
    parts = [
        part
        for row in rows
        for part in re.split(r"'bbr'|'\.\.\.'|narrows-softswitch|CAP_\.\.\.|bad interpreter", row)
        if part.strip()
    ]
    assert len(parts) >= 6
    assert [part for part in parts if part.strip() not in said] == []
