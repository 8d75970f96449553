# SPDX-License-Identifier: Apache-2.0
"""Suggestions for misspelt names."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

# Letters for each slip: with more slips it is another word.
LETTERS_A_SLIP = 4


def suggestion(name: str, known: Iterable[str]) -> str:
    """`` (did you mean 'x'?); allowed: ...`` for a misspelt name."""
    known = list(known)
    near = nearest(name, known)
    guess = f", did you mean '{near}'?" if near else ";"
    return f"{guess} allowed: {', '.join(known)}"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The name that a misspelt one is likely to be; None: it is like none of them."""
    return min((one for one in known if _is_near(name, one)), key=partial(slips, name), default=None)


def _is_near(name: str, known: str) -> bool:
    """Whether one can be a slip for the other. In a short name another digit is another thing: bbr2 is not bbr."""
    most = max(1, len(known) // LETTERS_A_SLIP)
    if abs(len(name) - len(known)) > most or (most == 1 and _digits(name) != _digits(known)):
        return False
    return slips(name.casefold(), known.casefold()) <= most < len(known)


def _digits(text: str) -> str:
    return "".join(filter(str.isdigit, text))


def slips(one: str, other: str) -> int:
    """Letters left out, added, changed, or swapped with the next, that lead from one word to the other.

    The optimal string alignment distance: Damerau, CACM 7 (3), 1964, by Wagner and Fischer's table.
    """
    before: list[int] = []
    last = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        row = [i]
        for j, wanted in enumerate(other, 1):
            row.append(min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (letter != wanted)))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == wanted:
                row[j] = min(row[j], before[j - 2] + 1)
        before, last = last, row
    return last[-1]
