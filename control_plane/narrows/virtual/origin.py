# SPDX-License-Identifier: Apache-2.0
"""What a kernel was built from, written down next to it when it was built."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from narrows_formats.file_digest import file_digest
from narrows_formats.storage import write_text

from narrows.virtual import sources
from narrows.virtual.kernels import Kernel

ORIGIN = "origin.json"


@dataclass(frozen=True)
class Input:
    """A file, a tree of files or another kernel's image, and its SHA-256 (of a tree: `sources.digest`)."""

    name: str
    sha256: str


@dataclass(frozen=True)
class Origin:
    """A ``source`` with ``patches`` and ``config`` over our own configuration, or the ``ccas`` added to a ``base``.

    ``base_origin`` is that of the base as it was then; None if it was not recorded, or there is no base.
    """

    source: Input | None = None
    patches: tuple[Input, ...] = ()
    config: tuple[str, ...] = ()
    base: Input | None = None
    base_origin: Origin | None = None
    ccas: tuple[Input, ...] = ()

    def lines(self) -> Iterator[str]:
        """For people; those of the base come last."""
        named = [("source", self.source), *(("patch", one) for one in self.patches), ("base", self.base)]
        for kind, one in [*named, *(("CCA", one) for one in self.ccas)]:
            if one is not None:
                yield f"{kind}: {one.name}, SHA-256 {one.sha256}"
        if self.config:
            yield f"options: {' '.join(self.config)}"
        if self.base is not None:
            yield from (f"base's {line}" for line in _lines(self.base_origin))


def lines_of(kernel: Kernel) -> list[str]:
    """What a kernel was built from, for people."""
    return list(_lines(recorded(kernel)))


def _lines(origin: Origin | None) -> Iterator[str]:
    if origin is None:
        yield "source: not recorded, as it was built by an earlier version"
    else:
        yield from origin.lines()


def inputs(files: Sequence[Path]) -> tuple[Input, ...]:
    """Files as they are now."""
    return tuple(Input(file.name, file_digest(file)) for file in files)


def source(given: Path, name: str, tree: Path) -> Input:
    """A source by what it holds.

    Args:
        given: the archive or the tree.
        name: what it is called.
        tree: our own copy of it, as it is before patches; of a tree it is what is digested.
    """
    return Input(name, sources.digest(tree) if given.is_dir() else file_digest(given))


def write(place: Path, origin: Origin) -> None:
    """Write it next to a kernel's image."""
    write_text(place / ORIGIN, json.dumps(asdict(origin), indent=2) + "\n")


def recorded(kernel: Kernel) -> Origin | None:
    """What a kernel was built from; None if that was not recorded."""
    try:
        return _origin(json.loads((kernel.path.parent / ORIGIN).read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _origin(data: dict[str, Any] | None) -> Origin | None:
    if data is None:
        return None
    if data.keys() != {field.name for field in fields(Origin)}:
        raise ValueError("of another version")
    return Origin(
        source=None if data["source"] is None else Input(**data["source"]),
        patches=tuple(Input(**one) for one in data["patches"]),
        config=tuple(data["config"]),
        base=None if data["base"] is None else Input(**data["base"]),
        base_origin=_origin(data["base_origin"]),
        ccas=tuple(Input(**one) for one in data["ccas"]),
    )
