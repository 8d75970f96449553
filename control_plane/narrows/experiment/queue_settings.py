# SPDX-License-Identifier: Apache-2.0
"""The queue management of a link as users write it, by the names that tc has."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from narrows_formats.units import TIME_UNITS, QueueDepth, format_time
from narrows_formats.validation import refuse
from pydantic import BeforeValidator, Discriminator, Field, StrictInt, Tag, field_validator

from narrows.experiment import queues
from narrows.experiment.quantities import Model, Probability, Size, Time
from narrows.experiment.red_settings import RedSettings

MS = TIME_UNITS["ms"]
MAX_FLOWS = 1024
# Nanoseconds that the program holds in 32 bits.
Short = Annotated[Time, Field(gt=0, le=(1 << 32) - 2)]
Period = Annotated[Time, Field(ge=MS, le=10_000 * MS)]
PieGain = Annotated[StrictInt, Field(ge=0, le=32)]
Hertz = Annotated[float, Field(ge=0, le=128)]


def _time(default: int, description: str) -> Any:
    """A field with a time, whose default is written as people write it."""
    return Field(default=default, json_schema_extra={"default": format_time(default)}, description=description)


class Simple(Model):
    """A queue without parameters."""

    kind: Literal["tail-drop", "head-drop"] = Field(description="What a full queue drops: the newest or the oldest.")

    @property
    def planned(self) -> queues.Queue | None:
        """As a plan has it."""
        return queues.HeadDrop() if self.kind == "head-drop" else None


class StepSettings(Model):
    """A threshold of delay above which packets are marked; `ecn_threshold` is one of depth."""

    kind: Literal["step"] = Field(description="Marks packets by their delay.")
    threshold: Short = Field(description="A packet that waited longer is marked, if it is ECN-capable.")
    ect1_only: bool = Field(default=False, description="Only packets with ECT(1), those of L4S.")

    @property
    def planned(self) -> queues.Step:
        """As a plan has it."""
        return queues.Step(self.threshold, self.ect1_only)


class CodelFields(Model):
    """Parameters of CoDel, for a single queue or for each fair queue."""

    target: Short = _time(5 * MS, "Acceptable standing queue delay.")
    interval: Short = _time(100 * MS, "About the longest RTT.")
    ecn: bool = Field(default=False, description="Marks instead of drops.")
    ce_threshold: Short | None = Field(default=None, description="A packet that waited longer is marked in any case.")

    @field_validator("interval")
    @classmethod
    def _some_interval(cls, interval: int) -> int:
        # The first bit of Linux's 16-bit root must not be lost.
        if interval < MS:
            raise refuse("is too short", "1ms or more")
        return interval

    @property
    def codel(self) -> queues.CoDel:
        """As a plan has it."""
        return queues.CoDel(self.target, self.interval, self.ecn, self.ce_threshold)


class CodelSettings(CodelFields):
    """CoDel (RFC 8289)."""

    kind: Literal["codel"] = Field(description="CoDel: drops at departure while the least delay is above a target.")

    @property
    def planned(self) -> queues.CoDel:
        """As a plan has it."""
        return self.codel


class PieSettings(Model):
    """PIE (RFC 8033)."""

    kind: Literal["pie"] = Field(description="PIE: drops on arrival with a probability that follows the delay.")
    target: Short = _time(15 * MS, "Target delay.")
    tupdate: Period = _time(15 * MS, "How often the probability changes.")
    alpha: PieGain = Field(default=2, description="Gain of the delay's distance from the target, in sixteenths.")
    beta: PieGain = Field(default=20, description="Gain of the delay's change, in sixteenths.")
    ecn: bool = Field(default=False, description="Marks instead of drops, up to a probability of 10 %.")

    @property
    def planned(self) -> queues.Pie:
        """As a plan has it."""
        return queues.Pie(self.target, self.tupdate, self.alpha, self.beta, self.ecn)


class Pi2Fields(Model):
    """What PI2 and DualPI2 take."""

    target: Short = _time(15 * MS, "Target delay; with two queues, that of the classic one.")
    tupdate: Period = _time(16 * MS, "How often the probability changes.")
    alpha: Hertz = Field(default=0.16, description="Gain of the delay's distance from the target, in Hz.")
    beta: Hertz = Field(default=3.2, description="Gain of the delay's change, in Hz.")

    @property
    def gains(self) -> tuple[int, int]:
        """In Linux's units."""
        return round(self.alpha * queues.PI2_GAINS), round(self.beta * queues.PI2_GAINS)


class Pi2Settings(Pi2Fields):
    """PI2: one queue, whose drop probability is the square of a linear one."""

    kind: Literal["pi2"] = Field(description="PI2: PIE without its table of gains, and with a squared probability.")
    ecn: bool = Field(default=True, description="Marks instead of drops.")

    @property
    def planned(self) -> queues.Pi2:
        """As a plan has it."""
        return queues.Pi2(self.target, self.tupdate, *self.gains, self.ecn)


class DualPi2Settings(Pi2Fields):
    """DualPI2 (RFC 9332), with Linux's choices."""

    kind: Literal["dualpi2"] = Field(
        description="DualPI2: a queue of little delay for L4S beside a classic one, coupled by their probabilities."
    )
    step_thresh: Short = _time(MS, "L4S packets that waited longer are marked.")
    coupling_factor: Annotated[StrictInt, Field(ge=1, le=255)] = Field(
        default=2, description="An L4S packet is marked with this many times the classic queue's linear probability."
    )
    classic_protection: Probability = Field(
        default=0.1,
        description="The classic queue's part of the link while both have packets, in whole percent.",
    )

    @field_validator("classic_protection")
    @classmethod
    def _whole_percents(cls, share: float) -> float:
        if abs(share * 100 - round(share * 100)) > 1e-9:
            raise refuse("is not a whole number of percents", "0%, 1%, ... 100%")
        return share

    @property
    def planned(self) -> queues.DualPi2:
        """As a plan has it."""
        share = round(self.classic_protection * 100)
        return queues.DualPi2(self.target, self.tupdate, *self.gains, self.step_thresh, self.coupling_factor, share)


class FairSettings(Model):
    """Fair queues (RFC 8290): flows are distinguished by a hash, and each set of them has a queue and its turn."""

    kind: Literal["fq"] = Field(description="Fair queues; a full link drops the oldest packet of the longest one.")
    flows: Annotated[StrictInt, Field(ge=2, le=MAX_FLOWS)] = Field(
        default=MAX_FLOWS, description="Number of queues, a power of two."
    )
    quantum: Annotated[Size, Field(gt=0, le=1 << 20)] = Field(
        default=1514, description="Bytes that a queue may send in its turn."
    )

    @field_validator("flows")
    @classmethod
    def _power_of_two(cls, flows: int) -> int:
        if flows & (flows - 1):
            raise refuse("is not a power of two", f"2, 4, ... {MAX_FLOWS}")
        return flows

    @property
    def planned(self) -> queues.Fair:
        """As a plan has it."""
        return queues.Fair(self.flows, self.quantum, None)


class FairCodelSettings(CodelFields, FairSettings):
    """FQ-CoDel (RFC 8290)."""

    kind: Literal["fq_codel"] = Field(description="Fair queues with CoDel in each.")  # type: ignore[assignment]
    ecn: bool = Field(default=True, description="Marks instead of drops.")

    @property
    def planned(self) -> queues.Fair:
        """As a plan has it."""
        return queues.Fair(self.flows, self.quantum, self.codel, kind="fq_codel")


_KINDS: dict[str, type[Model]] = {
    "tail-drop": Simple,
    "head-drop": Simple,
    "step": StepSettings,
    "codel": CodelSettings,
    "pie": PieSettings,
    "red": RedSettings,
    "pi2": Pi2Settings,
    "dualpi2": DualPi2Settings,
    "fq": FairSettings,
    "fq_codel": FairCodelSettings,
}


def _by_name(value: Any) -> Any:
    """A queue that is only named has that kind's defaults."""
    given = {"kind": value} if isinstance(value, str) else value
    kind = given.get("kind") if isinstance(given, dict) else getattr(given, "kind", None)
    if not isinstance(kind, str) or kind not in _KINDS:
        raise refuse("is not a kind of queue", ", ".join(_KINDS))
    return given


def _tag(value: Any) -> str:
    kind = value["kind"] if isinstance(value, dict) else value.kind
    return f"({_KINDS[kind].__name__})"


def planned(queue: Any, field: str, buffer: QueueDepth, at: tuple[int, int, int]) -> queues.Queue | None:
    """A link's `queue` as a plan has it; None: it drops what it has no room for.

    Args:
        queue: as it is written.
        field: where the link is.
        buffer: what may wait there, as it is written.
        at: its rate, RTT and full-size frame, in base units.

    Raises:
        InputError: it does not go with the link.
    """
    found: queues.Queue | None = queue.on(field, buffer, at) if isinstance(queue, RedSettings) else queue.planned
    return found


# A kind alone becomes a mapping before it is looked at. The tags are in no message: see `narrows_formats.validation`.
Kind = Literal["tail-drop", "head-drop", "step", "codel", "pie", "red", "pi2", "dualpi2", "fq", "fq_codel"]
LinkQueue = Annotated[
    Annotated[Kind, Tag("(kind)")]
    | Annotated[Simple, Tag("(Simple)")]
    | Annotated[StepSettings, Tag("(StepSettings)")]
    | Annotated[CodelSettings, Tag("(CodelSettings)")]
    | Annotated[PieSettings, Tag("(PieSettings)")]
    | Annotated[RedSettings, Tag("(RedSettings)")]
    | Annotated[Pi2Settings, Tag("(Pi2Settings)")]
    | Annotated[DualPi2Settings, Tag("(DualPi2Settings)")]
    | Annotated[FairSettings, Tag("(FairSettings)")]
    | Annotated[FairCodelSettings, Tag("(FairCodelSettings)")],
    Discriminator(_tag),
    BeforeValidator(_by_name),
]
