# SPDX-License-Identifier: Apache-2.0
"""All AQMs: each module of this package that has settings is one, and no other place lists them."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator
from importlib import import_module
from inspect import getmembers, isabstract, isclass
from pkgutil import iter_modules
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from narrows_formats.validation import refuse
from pydantic import BeforeValidator, Discriminator, Tag

import narrows.queues
from narrows.queues.settings import AqmSettings


def _modules() -> Iterator[ModuleType]:
    """All modules but this one."""
    for module in iter_modules(narrows.queues.__path__, f"{narrows.queues.__name__}."):
        if module.name != __name__:
            yield import_module(module.name)


def _settings() -> list[type[AqmSettings]]:
    """Settings of all AQMs in the order of lists."""
    classes = {found for module in _modules() for _, found in getmembers(module, isclass)}
    aqms = [found for found in classes if issubclass(found, AqmSettings) and not isabstract(found)]
    return sorted(aqms, key=lambda aqm: aqm.position)


def _kinds(settings: type[AqmSettings]) -> tuple[str, ...]:
    return get_args(settings.model_fields["kind"].annotation)


# Settings of each kind, in the order of lists.
SETTINGS = {kind: settings for settings in _settings() for kind in _kinds(settings)}


def _by_name(value: Any) -> Any:
    """A queue that is only named has that kind's defaults."""
    given = {"kind": value} if isinstance(value, str) else value
    kind = given.get("kind") if isinstance(given, dict) else getattr(given, "kind", None)
    if kind is None and isinstance(given, dict):
        raise refuse("has no kind", ", ".join(SETTINGS))
    if not isinstance(kind, str) or kind not in SETTINGS:
        raise refuse("is not a kind of queue", ", ".join(SETTINGS))
    return given


def _tag(value: Any) -> str:
    kind = value["kind"] if isinstance(value, dict) else value.kind
    return f"({SETTINGS[kind].__name__})"


# A kind alone becomes a mapping before it is looked at. The tags are in no message: see `narrows_formats.validation`.
if TYPE_CHECKING:
    LinkQueue = AqmSettings
else:
    _TAGGED = [Annotated[settings, Tag(f"({settings.__name__})")] for settings in dict.fromkeys(SETTINGS.values())]
    LinkQueue = Annotated[
        functools.reduce(operator.or_, [Annotated[Literal[tuple(SETTINGS)], Tag("(kind)")], *_TAGGED]),
        Discriminator(_tag),
        BeforeValidator(_by_name),
    ]
