# SPDX-License-Identifier: Apache-2.0
"""What a lab has measured of its chip: a file beside the inventory that ``narrows calibrate`` writes."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal, Self

import yaml
from narrows.errors import InputError
from narrows.experiment.loader import check, read_mapping
from narrows.field_types import Model
from narrows.switch.calibration import Findings
from narrows_formats.storage import write_text
from narrows_formats.validation import fields_at
from pydantic import Field, StrictInt

SUFFIX = ".calibration.yaml"
Pipes = Annotated[StrictInt, Field(ge=1, le=8)]


class RateStep(Model):
    """A rate that the shaper was set to, in its own bytes, and the one that was measured."""

    set_bps: Annotated[float, Field(gt=0)]
    measured_bps: Annotated[float, Field(gt=0)]


class Calibration(Model):
    """One chip's answers.

    ``shaper_bytes``: what the shaper counts of a packet beside its frame without FCS, at a gap compensation of 0.
    ``overshoot_cells``: by how much a queue that was kept full was deeper than its limit. ``latency_ns``: what reports
    give as queue delay while nothing waits. ``tail_drop_counters``: drop counters that are not the queue's, and move
    when it drops. ``rate_step_ns``: the longest time that a reading of the queue and a new rate for it took together.
    ``date`` is the day of the measurement, ``driver`` the SDE's version as the inventory has it.
    """

    date: str
    chip: Literal["tofino", "tofino2"]
    sku: str
    pipes: Pipes
    driver: str | None = None
    shaper_bytes: Annotated[StrictInt, Field(ge=0, le=24)]
    overshoot_cells: Annotated[StrictInt, Field(ge=0)]
    latency_ns: Annotated[StrictInt, Field(ge=0)]
    tail_drop_counters: tuple[str, ...] = ()
    rate_step_ns: Annotated[StrictInt, Field(gt=0)] | None = None
    rates: tuple[RateStep, ...] = ()

    @classmethod
    def of(cls, found: Findings, chip: str, driver: str | None) -> Self:
        """What was found today of a switch's chip, under its driver."""
        rates = [{"set_bps": round(one.set_bps), "measured_bps": round(one.measured_bps)} for one in found.rates]
        return cls.model_validate(
            {
                "date": datetime.now(UTC).date().isoformat(),
                "chip": chip,
                **found.device,
                "driver": driver,
                "shaper_bytes": found.shaper_bytes,
                "overshoot_cells": found.overshoot,
                "latency_ns": found.latency_ns,
                "tail_drop_counters": found.moved,
                "rate_step_ns": found.rate_step_ns,
                "rates": rates,
            }
        )

    def write(self, path: Path) -> None:
        """Write the file.

        Raises:
            InputError: it cannot be written.
        """
        text = yaml.safe_dump(self.model_dump(mode="json", exclude_none=True), sort_keys=False)
        try:
            write_text(path, f"# Measured by 'narrows calibrate'; docs/tofino.md explains every field.\n{text}")
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}") from None


def calibration_path(inventory: Path) -> Path:
    """Where the calibration of an inventory's switch is: ``lab.calibration.yaml`` beside ``lab.yaml``."""
    return inventory.with_name(inventory.stem + SUFFIX)


def load_calibration(path: Path, chip: str) -> Calibration | None:
    """Read a calibration; None if there is no such file.

    Raises:
        InputError: it cannot be read, is not valid, or is of another chip.
    """
    if not path.exists():
        return None
    what = f"a calibration; allowed: a mapping with {', '.join(fields_at(Calibration, ()))}"
    found = check(Calibration, read_mapping(path, what), str(path))
    if found.chip != chip:
        raise InputError(f"{path}: measured on {found.chip}, the inventory's switch is {chip}; fix: narrows calibrate")
    return found
