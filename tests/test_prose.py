# SPDX-License-Identifier: Apache-2.0
"""Words that pages do not use are found in prose, and in no code."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def prose() -> ModuleType:
    """The script."""
    path = Path(__file__).parents[1] / "scripts" / "prose.py"
    spec = importlib.util.spec_from_file_location("prose", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_words_are_found_where_they_are_prose(prose: ModuleType) -> None:
    text = "One.\n```sh\nway back\n```\nIt runs as `nobody`.\nOn its Way\nback, forwards.\nHighway backs.\n"
    assert list(prose.unwanted(text)) == [(6, "'way back'; better: reverse path")]


def test_pages_are_there(prose: ModuleType) -> None:
    assert all(page.is_file() for page in prose.PAGES)
    assert len(prose.words()) > 5
