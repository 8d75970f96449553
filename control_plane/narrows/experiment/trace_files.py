# SPDX-License-Identifier: Apache-2.0
"""The files of traces and samples, put into the data of the experiment that names them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from narrows.errors import InputError

MAX_BYTES = 16 << 20


def inline_traces(data: Any, path: Path) -> None:
    """Put the text of each `trace` and of `samples` beside the name of its file, which is relative to ``path``.

    Raises:
        InputError: a file cannot be read.
    """
    for value in data.values() if isinstance(data, dict) else data if isinstance(data, list) else ():
        inline_traces(value, path)
    for named in [data.get(name) for name in ("trace", "samples")] if isinstance(data, dict) else []:
        if isinstance(named, dict) and isinstance(named.get("file"), str) and "text" not in named:
            named["text"] = _read(path.parent / named["file"], path)


def _read(file: Path, path: Path) -> str:
    try:
        # Others may have written the experiment: a pipe would be waited for, and a device has no end.
        if file.exists() and not file.is_file():
            raise InputError(f"{path}: trace: {file} is no ordinary file; allowed: a file")
        with file.open("rb") as opened:
            content = opened.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise InputError(f"{path}: trace: {file} is too large; allowed: up to {MAX_BYTES >> 20} MiB")
        return content.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InputError(f"{path}: trace: {file} cannot be read: {reason}") from None
