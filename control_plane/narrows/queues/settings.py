# SPDX-License-Identifier: Apache-2.0
"""An AQM as users write it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from narrows_formats.units import TIME_UNITS, format_time
from pydantic import Field

from narrows.field_types import Model, Time
from narrows.queues.aqm import NO_THRESHOLD, Aqm, LinkBasis

MS = TIME_UNITS["ms"]
# Nanoseconds that the program holds in 32 bits.
Short = Annotated[Time, Field(gt=0, le=NO_THRESHOLD - 1)]
Period = Annotated[Time, Field(ge=MS, le=10_000 * MS)]


def time_field(default: int, description: str) -> Any:
    """A field with a time, whose default is written as people write it."""
    return Field(default=default, json_schema_extra={"default": format_time(default)}, description=description)


class AqmSettings(Model, ABC):
    """An AQM as users write it, by the names that tc has; a subclass with a ``kind`` is an AQM that can be chosen."""

    if TYPE_CHECKING:
        kind: str

    # Where lists have it: the simpler, the earlier.
    position: ClassVar[int]
    # The link has several queues, each of which counts its own packets only.
    several_queues: ClassVar[bool] = False

    @abstractmethod
    def on(self, link: LinkBasis) -> Aqm | None:
        """The AQM as a plan has it; None: the queue drops what it has no room for.

        Raises:
            InputError: its parameters do not go together, or not with the link.
        """

    def no_op_settings(self) -> Iterator[tuple[str, str]]:
        """Settings that change nothing, and why."""
        yield from ()
