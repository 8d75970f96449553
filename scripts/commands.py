# SPDX-License-Identifier: Apache-2.0
"""The site's page of commands, made from the program itself."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import typer
from narrows.cli import app

T = TypeVar("T")


def page() -> str:
    """The page: every command with its options, as --help has them."""
    program = typer.main.get_command(app)
    text = f"# Commands\n\n`narrows COMMAND --help` says the same. {program.epilog}\n\n"
    text += "`narrows --install-completion` makes the shell complete commands, options and files.\n"
    shown: dict[tuple[str, str, str], str] = {}
    return text + "".join(_command(name, command, shown) for name, command in _all(program))


def as_before(again: list[T], shown: dict[T, str], name: Callable[[T], str]) -> str:
    """A sentence for each place that has the meaning of some of them already."""
    places = itertools.groupby(sorted(again, key=shown.__getitem__), shown.__getitem__)
    return "".join(f"\nAs in {place}: {', '.join(map(name, same))}.\n" for place, same in places)


def _all(group: Any, prefix: str = "narrows") -> Iterator[tuple[str, Any]]:
    for name in group.commands:
        command = group.get_command(None, name)
        if hasattr(command, "commands"):
            yield from _all(command, f"{prefix} {name}")
        else:
            yield f"{prefix} {name}", command


def _command(name: str, command: Any, shown: dict[tuple[str, str, str], str]) -> str:
    """A command's section; options that an earlier one has, by ``shown``, are only named."""
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option" and not one.hidden]
    usage = [one.metavar or (one.name.upper() if one.required else f"[{one.name.upper()}]") for one in arguments]
    # Behind the words of a command that they could belong to, they would be that command's.
    place = 0 if command.context_settings.get("allow_interspersed_args") is False else len(usage)
    usage[place:place] = ["[OPTIONS]"] if options else []
    text = f"\n## {name}\n\n    {' '.join([name, *usage])}\n\n{command.help}\n"
    rows = [(f"`{one.metavar or one.name.upper()}`", one.help or "", _default(one)) for one in arguments]
    rows += [(f"`{', '.join(one.opts)}`", one.help or "", _default(one)) for one in options]
    new = [row for row in rows if row not in shown]
    lines = (f"- {named}: {meaning}{default and f' Default: {default}.'}\n" for named, meaning, default in new)
    text += "\n" * bool(new) + "".join(lines)
    text += as_before([row for row in rows if row in shown], shown, lambda row: row[0])
    shown |= dict.fromkeys(new, f"`{name}`")
    return text + f"\n```sh\n{textwrap.dedent(command.epilog.partition('Examples:')[2]).strip()}\n```\n"


def _default(parameter: Any) -> str:
    if isinstance(parameter.show_default, str):
        return parameter.show_default
    shown = parameter.default is not None and parameter.default is not False and parameter.default != ""
    return f"`{parameter.default}`" if shown and not callable(parameter.default) else ""
