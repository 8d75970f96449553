# SPDX-License-Identifier: Apache-2.0
"""A file or a directory that is there when it is complete, and not before."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from narrows_analysis.errors import AnalysisError


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Where to write what becomes ``path`` at the end; nothing is left of it after an error.

    Raises:
        AnalysisError: it exists already, or cannot be written.
    """
    if path.exists():
        raise AnalysisError(f"{path}: exists already; allowed: a path that does not exist")
    making = path.with_name(f"{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield making
        making.rename(path)
    except OSError as error:
        raise AnalysisError(f"{path}: {error.strerror}") from None
    finally:
        if making.is_dir():
            shutil.rmtree(making)
        else:
            making.unlink(missing_ok=True)
