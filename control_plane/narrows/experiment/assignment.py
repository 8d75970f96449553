# SPDX-License-Identifier: Apache-2.0
"""Fields of an experiment's data by their dotted names, as a sweep, a study and ``--set`` have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml
from narrows_formats.suggestion import suggestion
from narrows_formats.validation import fields_at, has_kinds_at

from narrows.errors import InputError
from narrows.experiment.model import Experiment, named_groups
from narrows.field_types import groups_in

# What makes several runs of an experiment; it is replaced as a whole.
WHOLE = ("sweep", "repeat")


def override(data: dict[str, object], settings: Sequence[str], origin: str) -> None:
    """Put settings, ``FIELD=VALUE`` with the value in YAML, instead of those of a file.

    Raises:
        InputError: one is not of this form, there is no such field, or the file sweeps it; ``origin`` is the file.
    """
    groups = [str(group.get("name")) if isinstance(group, dict) else "" for group in named_groups(groups_in(data))]
    for setting in settings:
        field, equals, text = setting.partition("=")
        if not field or not equals or not text.strip():
            raise InputError(f"--set {setting}: is not a setting; allowed: FIELD=VALUE, such as bottleneck.rate=50Mbit")
        if _is_swept(field, data.get("sweep"), groups):
            raise InputError(f"--set {setting}: {origin} sweeps it; allowed: fields that are not in sweep")
        try:
            value = yaml.safe_load(text)
        except (yaml.YAMLError, ValueError):
            raise InputError(f"--set {setting}: the value is not YAML; allowed: what a file may have there") from None
        if field in WHOLE:
            data[field] = value
        else:
            assign(data, field, value, groups, f"{origin}: --set ")


def _is_swept(field: str, sweep: Any, groups: list[str]) -> bool:
    """Whether a sweep gives a field, what it is in, or something in it."""
    pairs = [
        zip(place, other, strict=False)
        for place in places(field, groups)
        for swept in (sweep if isinstance(sweep, dict) else {})
        for other in places(str(swept), groups)
    ]
    return any(all(part == other for part, other in pair) for pair in pairs)


def places(field: str, groups: list[str]) -> list[tuple[str, ...]]:
    """The dotted field in parts, each group by its number; ``flows.*`` is that of every group."""
    parts = field.split(".")
    if len(parts) < 2 or parts[0] != "flows":
        return [tuple(parts)]
    chosen = map(str, range(len(groups))) if parts[1] == "*" else [parts[1]]
    return [("flows", str(groups.index(one)) if one in groups else one, *parts[2:]) for one in chosen]


def assign(data: dict[str, object], field: str, value: Any, groups: list[str], origin: str) -> None:
    """Set a dotted field; ``flows.<n>``, ``flows.<group name>`` and ``flows.*`` (all groups) are understood.

    Raises:
        InputError: there is no such field; ``origin`` stands before it.
    """
    if field.startswith("flows.*."):
        for group in groups:
            assign(data, field.replace("*", group, 1), value, groups, origin)
        return
    parts: list[int | str] = list(field.split("."))
    target: Any = data
    for depth, part in enumerate(parts):
        if isinstance(target, list):
            index = groups.index(str(part)) if part in groups else _index(part, len(target))
            if index is None:
                raise InputError(
                    f"{origin}{field}: no flow group '{part}'{suggestion(str(part), groups)} or 0..{len(target) - 1}"
                )
            parts[depth] = index
            part = index
        else:
            # Where names are free, such as those of links, what there is can be set.
            fields = fields_at(Experiment, tuple(parts[:depth]), data) or list(target)
            known = [name for name in fields if depth or name not in WHOLE]
            if not known:
                raise InputError(f"{origin}{field}: the file has no {parts[depth - 1]}, so there is no '{part}' to set")
            if part not in known:
                kind = f" of kind '{target['kind']}'" if isinstance(target.get("kind"), str) else ""
                raise InputError(f"{origin}{field}: unknown field '{part}'{kind}{suggestion(str(part), known)}")
            if depth < len(parts) - 1:
                target.setdefault(part, {})
                # `queue: pie` is short for a mapping.
                if isinstance(target[part], str) and has_kinds_at(Experiment, tuple(parts[: depth + 1]), data):
                    target[part] = {"kind": target[part]}
        if depth == len(parts) - 1:
            target[part] = value
            return
        target = target[part]
        if not isinstance(target, dict | list):
            raise InputError(f"{origin}{field}: '{part}' has no fields of its own")


def _index(part: int | str, length: int) -> int | None:
    return int(part) if str(part).isdigit() and int(part) < length else None
