# SPDX-License-Identifier: Apache-2.0
"""matrix.json: what became of each case of a suite with each sender; the model of its writer and its readers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import ConfigDict, TypeAdapter, with_config
from typing_extensions import TypedDict

from narrows_formats import beneath, files, storage

# To be raised whenever a field is added, renamed or given another meaning.
FORMAT = 1
# `not observable`: the sender does not show what the case asks for. `not applicable`: the case is not about such
# senders, or the kernel does not have them. `not run`: a run failed, or is still to be made.
Outcome = Literal["pass", "fail", "undecided", "not observable", "not applicable", "not run"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)

_exactly = with_config(ConfigDict(extra="forbid"))


@_exactly
class Check(TypedDict):
    """An expectation at a point of a case's sweep; ``values`` are those of its repetitions, in SI units.

    A ``precondition`` says whether what the case is about has occurred at all.
    """

    expectation: str
    precondition: bool
    parameters: dict[str, object]
    values: list[float]
    interval: list[float] | None
    outcome: Outcome
    reason: str


@_exactly
class Cell(TypedDict):
    """A case with a sender. ``directory`` has its runs, below the suite's; ``n`` is how many there are of a point."""

    case: str
    sender: str
    outcome: Outcome
    reason: str
    n: int
    directory: str
    checks: list[Check]


@_exactly
class Case(TypedDict):
    """What a case tests: sections of documents with their addresses, and in our words what they say."""

    name: str
    tests: list[str]
    urls: list[str]
    says: str
    rule: str
    changed: str


@_exactly
class Sender(TypedDict):
    """A congestion control of a kernel. ``version`` is empty where a kernel's algorithm has none."""

    name: str
    cca: str
    kernel: str
    release: str
    version: str


@_exactly
class Matrix(TypedDict):
    """The whole file; a cell for each case and sender."""

    format: int
    narrows_version: str
    suite: str
    title: str
    variant: Literal["quick", "full"]
    cases: list[Case]
    senders: list[Sender]
    cells: list[Cell]


def read(directory: Path) -> Matrix:
    """The matrix of a suite's directory.

    Raises:
        OSError: there is none.
        ValueError: it is not what `write` writes (pydantic.ValidationError).
    """
    return TypeAdapter(Matrix).validate_json(beneath.read(directory, files.MATRIX), strict=True)


def check(data: Any) -> Matrix:
    """The data as they are, if they are a matrix.

    Raises:
        pydantic.ValidationError: they are not.
    """
    return TypeAdapter(Matrix).validate_python(data)


def write(directory: Path, matrix: Matrix) -> Path:
    """Write the matrix of a suite's directory, in one step."""
    path = directory / files.MATRIX
    storage.write_json(path, check(matrix))
    return path


def judged(cells: Iterable[Cell]) -> list[Cell]:
    """Those that were judged, whatever came of it."""
    return [cell for cell in cells if cell["outcome"] not in ("not applicable", "not run")]


def counts(cells: Sequence[Cell]) -> dict[Outcome, int]:
    """How many cells have each outcome that there is."""
    found = [cell["outcome"] for cell in cells]
    return {one: found.count(one) for one in OUTCOMES if one in found}


def in_words(matrix: Matrix) -> str:
    """How many cells have each outcome."""
    return ", ".join(f"{number} {outcome}" for outcome, number in counts(matrix["cells"]).items())
