# SPDX-License-Identifier: Apache-2.0
"""Loss in bursts as the program for Tofino has it (`LossStates` of p4src/tofino/primitives.p4).

It draws for both states before it knows which one a packet finds, by subtractions that stop at 0: so no chance is
exactly 1, but for that of a loss in the bad state, which is never 0 instead.
"""

from __future__ import annotations

from collections.abc import Iterator

from narrows.errors import InputError
from narrows.experiment.impairments import GilbertElliott, LossPattern
from narrows.experiment.plan import LOSS_BITS, Plan
from narrows.switch.entries import ProgramEntry, loss_threshold

from narrows_tofino.chip.model import pipe_of

_CERTAIN = 1 << LOSS_BITS


def loss_entries(index: int, model: GilbertElliott | LossPattern) -> Iterator[ProgramEntry]:
    """The entry of a bottleneck that loses packets in bursts."""
    # `refuse_losses_it_lacks` lets no pattern through.
    assert isinstance(model, GilbertElliott)
    meant = {
        "enter_chance": f"{model.p:g} that the bad state follows the good one",
        "stay_chance": f"{1 - model.r:g} that it follows itself",
        "good_chance": f"{model.loss_in_good:g} of a loss in the good state",
        "bad_chance": f"{model.loss_in_bad:g} of one in the bad state, where it is one more than this",
    }
    units = {name: f"2^-{LOSS_BITS}, a probability of {words}" for name, words in meant.items()}
    yield ProgramEntry(
        "loss_states", {"bottleneck": index}, "set_chances", chances(model), "emulated loss, in bursts", units
    )


def chances(model: GilbertElliott) -> dict[str, int]:
    """The parameters of `set_chances`: probabilities in units of 2^-32, that of a loss in the bad state less one."""
    return {
        "enter_chance": loss_threshold(model.p),
        "stay_chance": _CERTAIN - loss_threshold(model.r),
        "good_chance": loss_threshold(model.loss_in_good),
        "bad_chance": loss_threshold(model.loss_in_bad) - 1,
    }


def refuse_losses_it_lacks(plan: Plan) -> None:
    """Raises InputError if a link of a plan loses packets in a way that the program cannot."""
    for link in plan.links:
        if isinstance(link.loss_model, LossPattern):
            raise InputError(
                f"{link.field}.loss.trace: Tofino's program has no losses by position, since its tables have room for "
                "few ranges of positions; allowed: a ratio, gilbert_elliott, or --target soft"
            )
        if link.loss_model is not None:
            _refuse_chances(f"{link.field}.loss.gilbert_elliott", link.loss_model)


def _refuse_chances(field: str, model: GilbertElliott) -> None:
    found = chances(model)
    below, least = f"below 1, by at least 2^-{LOSS_BITS}", f"at least 2^-{LOSS_BITS}"
    for name, value, wrong, allowed in (
        ("p", model.p, found["enter_chance"] == _CERTAIN, below),
        ("r", model.r, found["stay_chance"] == _CERTAIN, least),
        ("loss_in_good", model.loss_in_good, found["good_chance"] == _CERTAIN, below),
        ("loss_in_bad", model.loss_in_bad, found["bad_chance"] < 0, least),
    ):
        if wrong:
            raise InputError(
                f"{field}.{name}: {value:g} is not among the probabilities that Tofino's program can draw; allowed: "
                f"{allowed}, or --target soft"
            )


def refuse_separate_states(plan: Plan) -> None:
    """Raises InputError if packets come to a link with two states through several pipes: each would have its own."""
    for link in plan.links:
        pipes = sorted({pipe_of(path.ingress_port) for path in plan.paths if path.link == link.index})
        if link.loss_model is not None and len(pipes) > 1:
            raise InputError(
                f"{link.field}.loss.gilbert_elliott: packets come through pipes {', '.join(map(str, pipes))}, each of "
                "which would have a state of its own; allowed: senders at ports of one pipe, or a ratio"
            )
