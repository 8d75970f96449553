# SPDX-License-Identifier: Apache-2.0
"""Commands that distributions add by entry points of `narrows.commands`: imported when they are used, or listed."""

from __future__ import annotations

from typing import Any

import typer
from narrows_formats.plugins import COMMANDS, PluginError, load, offers
from typer.core import TyperCommand, TyperGroup

from narrows.errors import InputError


class Commands(TyperGroup):
    """The program's own commands, then those that distributions add."""

    def __init__(self, **attributes: Any) -> None:
        """Nothing that is added is imported yet: its name alone is known."""
        super().__init__(**attributes)
        self._offers = offers(COMMANDS, dict.fromkeys(self.commands, "narrows.cli:app"))
        for name in self._offers:
            self.commands.setdefault(name, TyperCommand(name))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a name, imported if it is an added one; None if there is none."""
        points = self._offers.get(cmd_name, ())
        if all(point.dist is None for point in points):
            return super().get_command(ctx, cmd_name)
        try:
            return typer.main.get_command(load(points))
        except PluginError as error:
            return _unusable(error)


def _unusable(error: PluginError) -> Any:
    """A command that says why it cannot be used; all others can be, and are listed."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None)

    @app.command(
        help=f"Cannot be used: {error}", context_settings={"ignore_unknown_options": True, "allow_extra_args": True}
    )
    def command() -> None:
        raise InputError(f"command {error}")

    return typer.main.get_command(app)
