# SPDX-License-Identifier: Apache-2.0
"""docs/architecture.md: the Python part of the map names what there is; packages and folders say what they are for."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = (REPOSITORY / "docs" / "architecture.md").read_text()
LISTED = subprocess.run(["git", "ls-files"], cwd=REPOSITORY, check=True, capture_output=True, text=True).stdout.split()
FOLDERS = ("control_plane/", "analysis/", "studies/")
PACKAGES = [path for path in LISTED if path.endswith("/__init__.py") and path.startswith(FOLDERS)]


def test_every_python_module_and_folder_on_the_map_exists() -> None:
    named = set(re.findall(r"`([\w-]+(?:/[\w-]+)*(?:\.py|/))`", PAGE))
    assert len(named) > 30
    places = [f"/{path}" for path in LISTED]
    missing = {
        name
        for name in named
        if not any(path.endswith(f"/{name}") or f"/{name.rstrip('/')}/" in path for path in places)
    }
    assert not missing


def test_what_contributing_says_is_where_it_says() -> None:
    """The twelve places are definitions: a newcomer's first guess."""
    rows = re.findall(
        r"^\| .+ \| `(\w+)` \| `([\w/.]+)` \|$", (REPOSITORY / "CONTRIBUTING.md").read_text(), re.MULTILINE
    )
    assert len(rows) == 12
    defined = r"(?:^(?:\s*(?:pub|async|enum|struct|def|class|header|control))+ {0}\b|^{0} = |\"{0}\": )"
    for name, place in rows:
        text = (REPOSITORY / place).read_text()
        assert re.search(defined.format(name), text, re.MULTILINE), (name, place)


def test_every_package_of_the_control_plane_is_on_the_map() -> None:
    packages = {
        path.removesuffix("__init__.py")
        for path in PACKAGES
        if re.fullmatch(r"control_plane/(narrows/\w+|narrows_\w+)/__init__\.py", path)
    }
    assert {name for name in packages if name not in PAGE} == set()


def test_every_package_of_the_tofino_target_is_on_the_map() -> None:
    (row,) = re.findall(r"^\| `control_plane/narrows_tofino/` \|.*$", PAGE, re.MULTILINE)
    packages = {
        path.split("/")[2] for path in PACKAGES if re.fullmatch(r"control_plane/narrows_tofino/\w+/__init__\.py", path)
    }
    assert {name for name in packages if f"`{name}/`" not in row} == set()


def test_every_package_of_the_analysis_is_on_the_map() -> None:
    packages = {
        path.split("/")[2] for path in PACKAGES if re.fullmatch(r"analysis/narrows_analysis/\w+/__init__\.py", path)
    }
    assert len(packages) > 5
    assert {name for name in packages if f"`{name}/`" not in PAGE} == set()


def test_every_package_says_what_may_be_in_it() -> None:
    silent = [path for path in PACKAGES if not ast.get_docstring(ast.parse((REPOSITORY / path).read_text()))]
    assert silent == []


def test_every_folder_at_the_top_says_what_may_be_in_it() -> None:
    folders = {path.split("/")[0] for path in LISTED if "/" in path and not path.startswith(".")}
    saying = {path.split("/")[0] for path in LISTED if re.fullmatch(r"[^/]+/(README\.md|index\.md|src/lib\.rs)", path)}
    assert folders - saying == set()
