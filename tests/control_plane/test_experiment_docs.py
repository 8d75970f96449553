# SPDX-License-Identifier: Apache-2.0
"""docs/experiments.md against the models: every field with its default, and examples that are experiments."""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from narrows.experiment.model import Experiment
from narrows.experiment.planning import make_plan
from narrows.experiment.sweep import load_series
from narrows.field_types import Model
from pydantic import BaseModel
from pydantic.fields import FieldInfo

PAGE = (Path(__file__).parents[2] / "docs" / "experiments.md").read_text()
SECTIONS = {"": "Top level", "bottleneck": "bottleneck", "flows": "flows", "telemetry": "telemetry", "hosts": "hosts"}
SECTIONS["events"] = "events"
KINDS = ("workload", "requests", "video", "udp", "probe", "media", "onoff")
SECTIONS |= {f"flows.{kind}": f"flows: {kind}" for kind in KINDS}
EXAMPLES = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif typing.get_origin(annotation) in (tuple, list, types.UnionType, typing.Union, typing.Annotated):
        for argument in typing.get_args(annotation):
            yield from models_in(argument)


def all_fields(model: type[BaseModel], path: str = "") -> Iterator[tuple[str, str, FieldInfo]]:
    for name, field in getattr(model, "as_written", model).model_fields.items():
        name = field.alias or name
        yield path, name, field
        for inner in models_in(field.annotation):
            yield from all_fields(inner, f"{path}.{name}".lstrip("."))


def rows(title: str) -> dict[str, tuple[str, str]]:
    """Kind and default of each field that the lists of a section name; `required` in place of a default."""
    section = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    text = next(part for part in section if part.startswith(f"{title}\n"))
    found: dict[str, tuple[str, str]] = {}
    for names, kind in re.findall(r"^- (`[\w.]+`(?:, `[\w.]+`)*) \((.+?)\): ", text, re.MULTILINE):
        kind, _, default = kind.partition(", default ")
        if kind.endswith(", required"):
            kind, default = kind.removesuffix(", required"), "required"
        found |= {name.strip("` "): (kind, default) for name in names.split(",")}
    return found


# What users write: contents of files are put in by the program.
FIELDS = [one for one in all_fields(Experiment) if one[1] != "text"]


def test_all_models_are_looked_at() -> None:
    assert {path for path, _, _ in FIELDS} >= set(SECTIONS)
    assert all(issubclass(model, Model) for model in models_in(Experiment.model_fields["flows"].annotation))


@pytest.mark.parametrize(("path", "name", "field"), FIELDS, ids=[f"{path}.{name}" for path, name, _ in FIELDS])
def test_a_field_is_documented(path: str, name: str, field: FieldInfo) -> None:
    section = max((known for known in SECTIONS if f"{path}.".startswith(f"{known}.") or not known), key=len)
    written = rows(SECTIONS[section])
    label = f"{path}.{name}".removeprefix(section).lstrip(".")
    if path.endswith(".queue"):
        return  # Each kind's list is in queues.md.
    if label.startswith("reverse."):
        label = label.removeprefix("reverse.")  # The same as forward.
    if section == "flows.requests" and label.startswith(("size.", "gaps.", "think.")):
        # The same as a workload's.
        written = rows(SECTIONS["flows.workload"])
        label = label.replace("size.", "sizes.").replace("think.", "gaps.")
    if any(known.startswith(f"{label}.") for known in written):
        return  # A mapping whose own fields have rows.
    assert label in written, f"docs/experiments.md: '{SECTIONS[section]}' does not name {label}"
    default = written[label][1]
    if field.is_required():
        assert default == "required"
    elif field.default is None:
        assert default != "required"
    elif isinstance(field.default, int | float | str) and field.default != "":
        assert same(field, default.strip("`")), f"{label}: {default} is not {field.default}"


def same(field: FieldInfo, written: str) -> bool:
    """Whether a default as written reads as the model's."""
    value: Any = written
    for reader in field.metadata:
        if type(reader).__name__ == "BeforeValidator":
            value = reader.func(yaml.safe_load(written))
    return str(value) in (str(field.default), str(field.default).lower()) or float(value) == field.default


def test_no_field_is_documented_that_does_not_exist() -> None:
    known = {f"{path}.{name}".lstrip(".") for path, name, _ in FIELDS}
    for section, title in SECTIONS.items():
        for label in rows(title):
            assert f"{section}.{label}".lstrip(".") in known, label


@pytest.mark.parametrize("text", EXAMPLES, ids=[example.split()[1] for example in EXAMPLES])
def test_an_example_is_an_experiment(tmp_path: Path, text: str) -> None:
    file = tmp_path / "experiment.yaml"
    file.write_text(text)
    for point in load_series(file).points:
        make_plan(point.experiment)


def test_every_field_is_in_an_example() -> None:
    """What the page explains, it also shows."""
    fragments = re.findall(
        r"^```\n((?:rate|loss|policer|delay|program|trace|framing): .*?)^```", PAGE, re.MULTILINE | re.DOTALL
    )
    shown = set(re.findall(r"(\w+):", "\n".join([*EXAMPLES, *fragments])))
    assert {name for path, name, _ in FIELDS if not path.endswith(".queue")} <= shown
