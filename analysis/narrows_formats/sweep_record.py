# SPDX-License-Identifier: Apache-2.0
"""sweep.json: which runs a sweep's directory holds, and what was swept; the model of its writer and its readers."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired

from pydantic import AfterValidator, TypeAdapter
from typing_extensions import TypedDict

LONGEST_NAME = 255  # NAME_MAX of linux/limits.h


def _entry(name: str) -> str:
    """The name of an entry of a directory, which others may have written."""
    if name in ("", ".", "..") or "/" in name or "\0" in name or len(name.encode(errors="replace")) > LONGEST_NAME:
        raise ValueError("is not the name of a directory in the sweep's")
    return name


class SweepRun(TypedDict):
    """One finished run: its directory in the sweep's, and the values that the sweep gave it."""

    directory: Annotated[str, AfterValidator(_entry)]
    parameters: dict[str, object]
    repetition: int
    status: str


class SweepRecord(TypedDict):
    """The whole file. ``sweep`` maps fields to their values in order; it is empty for repetitions of one experiment."""

    narrows_version: NotRequired[str]
    name: str
    sweep: dict[str, list[Any]]
    repeat: NotRequired[int]
    points: int
    runs: list[SweepRun]


def check(data: Any) -> SweepRecord:
    """The data as they are, if they are a sweep's record.

    Raises:
        pydantic.ValidationError: a field is missing or of the wrong kind.
    """
    TypeAdapter(SweepRecord).validate_python(data)
    record: SweepRecord = data
    return record
