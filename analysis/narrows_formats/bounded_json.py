# SPDX-License-Identifier: Apache-2.0
"""JSON that others have written: nested as deeply, and numbers as long, as Python takes them without an accident."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

MOST_DIGITS = 100


class NotJsonError(ValueError):
    """Text that is not JSON; ``place`` is ``:LINE`` (from 1), or empty where no line is to blame."""

    def __init__(self, problem: str, line: int | None = None) -> None:
        """Say what is wrong, without the text: the file may be one that only root can read."""
        super().__init__(problem)
        self.place = f":{line}" if line else ""


def integer(text: str) -> int:
    """An integer of its digits.

    Raises:
        NotJsonError: there are too many.
    """
    if len(text) > MOST_DIGITS:
        raise NotJsonError(f"has an integer of {len(text)} digits; allowed: at most {MOST_DIGITS}")
    return int(text)


def parse(text: str | bytes, integer: Callable[[str], int] = integer) -> Any:
    """The value that a text is.

    Args:
        text: in UTF-8, if it is bytes.
        integer: makes one of its digits; raises ValueError where it is too large.

    Raises:
        NotJsonError: it is not JSON, nested too deeply, or has an integer that is too long.
        ValueError: of ``integer``.
    """
    try:
        return json.loads(text, parse_int=integer)
    except json.JSONDecodeError as error:
        raise NotJsonError(f"is not JSON: {error.msg}", error.lineno) from None
    except UnicodeDecodeError:
        raise NotJsonError("is not JSON: it is not UTF-8 text") from None
    except RecursionError:
        raise NotJsonError("is not JSON: nested too deeply") from None
