# SPDX-License-Identifier: Apache-2.0
"""``narrows new``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from narrows.errors import InputError
from narrows.plain_text import say

SCHEMA = "narrows.schema.json"
TEMPLATE = Path(__file__).with_name("experiment.template.yaml")


def new(
    file: Annotated[Path, typer.Argument(help="Experiment file to write; must not exist.", show_default=False)],
) -> None:
    """Write a commented experiment file to begin with.

    Also writes the schema with which editors complete and check experiment files.
    """
    from narrows_formats import storage

    from narrows.cli.schema import schema_text
    from narrows.field_types import ALLOWED_NAME, NAME
    from narrows.run.results import give_to_user

    if file.exists():
        raise InputError(f"{file}: exists already; choose another name")
    if not file.parent.is_dir():
        raise InputError(f"{file}: there is no directory {file.parent}")
    if NAME.match(file.stem) is None:
        raise InputError(f"{file}: '{file.stem}' is not a name; allowed: {ALLOWED_NAME}")
    text = TEMPLATE.read_text(encoding="utf-8").replace("name: NAME", f"name: {file.stem}")
    storage.write_text(file, text)
    schema = file.parent / SCHEMA
    storage.write_text(schema, schema_text())
    for written in (file, schema):
        give_to_user(written)
    say(f"{file} (run it: narrows run {file}) and {schema}, for editors")
