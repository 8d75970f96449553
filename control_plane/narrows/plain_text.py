# SPDX-License-Identifier: Apache-2.0
"""Text of others, such as names in results and what programs say, as a terminal may be given it."""

from __future__ import annotations

import re
import sys

# Control characters but newline and tab, and those that turn the direction of what follows.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    """The text with control characters written out (``\\x1b``): a terminal would obey them."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def say(text: object, *, end: str = "\n", error: bool = False) -> None:
    """Print plain text on standard output, or on standard error; `narrows.terminal` prints tables and styles."""
    print(plain(str(text)), end=end, file=sys.stderr if error else sys.stdout)


def note_line(note: str) -> str:
    """The line that shows a note; one that is a warning says so itself (``warning: ...``), and gets no other prefix."""
    return note if note.startswith("warning: ") else f"note: {note}"
