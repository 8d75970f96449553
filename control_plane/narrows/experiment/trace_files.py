# SPDX-License-Identifier: Apache-2.0
"""The files of traces and samples, put into the data of the experiment that names them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from narrows_formats import named_file

from narrows.errors import InputError


def inline_traces(data: Any, path: Path) -> None:
    """Put the text of each `trace` and of `samples` beside the name of its file, which is relative to ``path``.

    Raises:
        InputError: a file cannot be read.
    """
    for value in data.values() if isinstance(data, dict) else data if isinstance(data, list) else ():
        inline_traces(value, path)
    for named in [data.get(name) for name in ("trace", "samples")] if isinstance(data, dict) else []:
        if isinstance(named, dict) and isinstance(named.get("file"), str) and "text" not in named:
            named["text"] = _read((path.parent / named["file"]).absolute(), path)


def _read(file: Path, path: Path) -> str:
    try:
        return named_file.read_text(file)
    except ValueError as error:
        raise InputError(f"{path}: trace: {file} {error}") from None
