# SPDX-License-Identifier: Apache-2.0
"""Tables, styles and live figures on a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from narrows.plain_text import plain


class Terminal(Console):
    """A console on which text is only text: no markup (``[v2]``), no ``:emoji:``, no control characters.

    What styles and moves the cursor is of the program alone.
    """

    def __init__(self, *, stderr: bool = False, quiet: bool = False) -> None:
        """As `rich.console.Console`."""
        super().__init__(stderr=stderr, quiet=quiet, markup=False, emoji=False, highlight=False)

    def render_str(self, text: str, **options: Any) -> Text:
        """See `rich.console.Console.render_str`, which takes what is printed before it is laid out."""
        return super().render_str(plain(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """See `rich.console.Console.render`, through which everything goes that is printed, also what is no string."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(plain(segment.text), segment.style)
