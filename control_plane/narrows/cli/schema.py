# SPDX-License-Identifier: Apache-2.0
"""``narrows schema``."""

from __future__ import annotations

from narrows.plain_text import say


def schema_text() -> str:
    """The JSON Schema of experiment files."""
    import json

    from narrows.experiment.model import Experiment

    schema = Experiment.model_json_schema(mode="validation")
    return json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}, indent=2) + "\n"


def schema() -> None:
    """Print the JSON Schema of experiment files, for editors."""
    say(schema_text(), end="")
