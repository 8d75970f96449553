# SPDX-License-Identifier: Apache-2.0
"""sweep.json: which runs a sweep's directory holds, and what was swept; the model of its writer and its readers."""

from __future__ import annotations

from typing import Any, NotRequired

from pydantic import TypeAdapter
from typing_extensions import TypedDict


class SweepRun(TypedDict):
    """One finished run: its directory below the sweep's, and the values that the sweep gave it."""

    directory: str
    parameters: dict[str, Any]
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
