# SPDX-License-Identifier: Apache-2.0
"""What was meant by a misspelt name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def suggestion(name: str, known: Iterable[str]) -> str:
    """`` (did you mean 'x'?); allowed: ...`` for a misspelt name."""
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1)
    guess = f", did you mean '{near[0]}'?" if near else ";"
    return f"{guess} allowed: {', '.join(known)}"
