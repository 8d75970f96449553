# SPDX-License-Identifier: Apache-2.0
"""Runs a notebook of docs/tutorials and stores what its cells show: readers see it without running anything.

Usage: .venv/bin/python scripts/notebook.py notebook.ipynb RUN, or control.ipynb, which makes its own runs. It needs no
Jupyter: cells are Python, and show their last expression.
"""

from __future__ import annotations

import ast
import base64
import io
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from narrows_analysis.export import save_small_png

PLACE = Path(__file__).resolve().parents[1] / "docs" / "tutorials"
NOTEBOOK = PLACE / "notebook.ipynb"


def execute(cells: list[dict[str, Any]], names: dict[str, Any]) -> Iterator[tuple[dict[str, Any], Any]]:
    """Run code cells with common ``names``, and give each with what it shows, None where it ends with no expression."""
    for cell in cells:
        if cell["cell_type"] != "code":
            continue
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "notebook", "exec"), names)
        value = None if last is None else eval(compile(ast.Expression(last.value), "notebook", "eval"), names)
        yield cell, value


def output(value: Any, number: int) -> dict[str, Any]:
    """What Jupyter would store of a value that cell ``number`` shows."""
    data: dict[str, Any] = {"text/plain": repr(value).splitlines(keepends=True)}
    if isinstance(value, Figure):
        image = io.BytesIO()
        save_small_png(value, image, 90)
        data["image/png"] = base64.b64encode(image.getvalue()).decode()
    elif hasattr(value, "_repr_html_"):
        data["text/html"] = value._repr_html_().splitlines(keepends=True)
    return {"output_type": "execute_result", "execution_count": number, "metadata": {}, "data": data}


def main(path: Path, run: Path | None = None) -> None:
    """Run it where it leaves nothing, and store what it shows."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    if run is not None:
        os.environ["NARROWS_RUN"] = str(run.resolve())
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        for number, (cell, value) in enumerate(execute(notebook["cells"], {}), 1):
            cell["execution_count"] = number
            cell["outputs"] = [] if value is None else [output(value, number)]
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(PLACE / sys.argv[1], *map(Path, sys.argv[2:]))
