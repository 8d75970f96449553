# SPDX-License-Identifier: Apache-2.0
"""What no publication controls, and what therefore varies from one run of a study to the next.

Runs in virtual time that differ in nothing are one run, counted several times. That goes for two settings as well if
they make no difference (two buffers that never fill). So each run, of each setting and repetition, has a seed of its
own, which draws a slightly different start, RTT and network cards. What was drawn is in the run's experiment file.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Collection, Mapping
from typing import Any, Literal

from narrows.experiment.model import Experiment, Hosts
from narrows.experiment.planning import make_plan
from narrows.targets.soft.virtual_time import adapted, settings
from narrows_formats.units import format_time

Card = Literal["jitter", "rx_usecs"]
# What hosts' cards may vary in: all of it in virtual time with our switch, see the fields of `Hosts`.
CARDS: tuple[Card, ...] = ("jitter", "rx_usecs")

RTT_PART = 0.01
JITTERS = (0.5, 1.5)  # times what it is where nothing varies: see the field of `Hosts`
MODERATIONS_US = (0, 5, 10, 20, 50)  # usual settings of cards; 0 is none


def seed_of(identity: str, parameters: Mapping[str, str], repetition: int) -> int:
    """The seed of a run: a different one for each experiment, setting and repetition."""
    words = [identity, *(f"{name}={value}" for name, value in sorted(parameters.items())), str(repetition)]
    return int.from_bytes(hashlib.sha256("\n".join(words).encode()).digest()[:4])


def varied(experiment: Experiment, seed: int, cards: Collection[Card] = CARDS) -> Experiment:
    """The experiment with a seed, and with the uncontrolled quantities that the seed draws.

    Each group starts up to one RTT later, the RTTs are up to 1 % shorter or longer, all by the same part, so that they
    keep their proportions, and cards take their time. What an experiment says of its hosts itself stays.
    """
    drawn = random.Random(seed)
    longer = 1 + drawn.uniform(-RTT_PART, RTT_PART)
    link = experiment.bottleneck
    assert link is not None, "studies are of one link"
    rtt = link.rtt
    groups = tuple(
        group.model_copy(
            update={
                "start": group.start + round(drawn.random() * rtt),
                **({} if group.rtt is None else {"rtt": round(group.rtt * longer)}),
            }
        )
        for group in experiment.flows
    )
    bottleneck = link.model_copy(update={"rtt": round(rtt * longer)})
    changes: dict[str, Any] = {"seed": seed, "flows": groups, "bottleneck": bottleneck}
    # Drawn whether they are used or not, so that all other draws stay the same.
    jitter, moderation = drawn.uniform(*JITTERS), drawn.choice(MODERATIONS_US)
    if cards and experiment.hosts is None:
        card: dict[Card, Any] = {
            "jitter": format_time(round(jitter * _jitter_ns(experiment))),
            "rx_usecs": moderation or None,
        }
        changes["hosts"] = Hosts(**{name: card[name] for name in cards})
    return experiment.model_copy(update=changes)


def _jitter_ns(experiment: Experiment) -> int:
    """What senders take for a frame, at most, where an experiment says nothing of it."""
    return max(settings(adapted(make_plan(experiment))).jitter_ns.values())
