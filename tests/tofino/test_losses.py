# SPDX-License-Identifier: Apache-2.0
"""Loss in bursts on Tofino: the entry that a switch gets, what is refused, and that a run leaves no state behind."""

from __future__ import annotations

from typing import Any

import pytest
from fakeswitch.fixtures import (
    audit,
    client,
    inventory_data,
    kind,
    make_experiment,
    make_inventory,
    programmer,
    switch,
)
from fakeswitch.server import FakeSwitch
from narrows.errors import InputError
from narrows.experiment.impairments import GilbertElliott
from narrows.experiment.planning import make_plan
from narrows_tofino.bfrt.client import Operation
from narrows_tofino.binding import bind
from narrows_tofino.planner import plan, plan_switch, used_ports
from narrows_tofino.programming.programmer import Programmer
from narrows_tofino.testbed.inventory import Inventory
from narrows_tofino.writes.losses import chances
from narrows_tofino.writes.ports import port_writes
from narrows_tofino.writes.reader import LiveReader

__all__ = ["audit", "client", "kind", "programmer", "switch"]

MOST = 2**32 - 1
# Another port of pipe 1.
SECOND_SENDER_PORT = 140
FIELD = "bottleneck.loss.gilbert_elliott"


def in_one_pipe(chip: str = "tofino", address: str = "127.0.0.1:50052", **switch: Any) -> Inventory:
    """The testbed of the other tests, with both senders at ports of the receiver's pipe."""
    data = inventory_data(chip, address, **switch)
    data["ports"][3]["dev_port"] = SECOND_SENDER_PORT
    return Inventory.model_validate(data)


def in_bursts(**chances: Any) -> dict[str, Any]:
    return {"gilbert_elliott": {"p": "1%", "r": "25%", **chances}}


@pytest.mark.parametrize(
    ("model", "wanted"),
    [
        # p, r, loss in the good and the bad state; enter, stay (1 - r), good, bad less one: in units of 2^-32.
        (GilbertElliott(0.5, 0.25, 0.0, 1.0), (2**31, 3 * 2**30, 0, MOST)),
        (GilbertElliott(2**-32, 1.0, 0.125, 0.5), (1, 0, 2**29, 2**31 - 1)),
        (GilbertElliott(1 - 2**-32, 2**-32, 1 - 2**-32, 2**-32), (MOST, MOST, MOST, 0)),
    ],
)
def test_chances_are_in_units_of_a_draw_of_32_bits(model: GilbertElliott, wanted: tuple[int, int, int, int]) -> None:
    found = chances(model)
    assert (found["enter_chance"], found["stay_chance"], found["good_chance"], found["bad_chance"]) == wanted


def drawn(chance: int, draw: int) -> int:
    """Tofino's subtraction of unsigned numbers that stops at 0."""
    return max(0, chance - draw)


def test_the_program_draws_a_chance_as_often_as_it_says() -> None:
    """Of 2^32 draws as many are below a chance as it says; of the bad state's loss one more."""
    found = chances(GilbertElliott(2**-30, 1 - 2**-30, 2**-29, 2**-31))
    first = range(16)
    assert sum(drawn(found["enter_chance"], draw) != 0 for draw in first) == 2**2
    assert sum(drawn(found["stay_chance"], draw) != 0 for draw in first) == 2**2
    assert sum(drawn(found["good_chance"], draw) != 0 for draw in first) == 2**3
    assert sum(drawn(draw, found["bad_chance"]) == 0 for draw in first) == 2**1


def test_a_dry_run_has_one_entry_for_both_states_and_clears_the_state() -> None:
    writes = plan(make_experiment(loss=in_bursts(loss_in_bad="50%")), in_one_pipe())
    (cleared,) = [write for write in writes if write.table == "bad_states"]
    assert cleared.operation is Operation.CLEAR
    (entry,) = [write for write in writes if write.table == "loss_states"]
    assert str(entry) == (
        "insert loss_states [bottleneck=0] set_chances {"
        "enter_chance=42949673 (2^-32, a probability of 0.01 that the bad state follows the good one), "
        "stay_chance=3221225472 (2^-32, a probability of 0.75 that it follows itself), "
        "good_chance=0 (2^-32, a probability of 0 of a loss in the good state), "
        "bad_chance=2147483647 (2^-32, a probability of 0.5 of one in the bad state, where it is one more than this)}"
    )
    assert not [write for write in writes if write.table == "loss"]


def test_a_switch_takes_the_entry_and_gives_it_back(switch: FakeSwitch, programmer: Programmer, kind: str) -> None:
    inventory = in_one_pipe(switch.chip, switch.address, client=kind)
    table = switch.schema.table("loss_states")
    switch.programs.entries[table.name][9,] = (table.action("set_chances").id, chances(GilbertElliott(0.5, 0.5, 0, 1)))
    before = switch.state()
    bound = bind(make_plan(make_experiment(loss=in_bursts())), inventory)
    reader = LiveReader(programmer.client)
    programmer.apply(
        [*port_writes(inventory, used_ports(inventory, bound), reader), *plan_switch(inventory, bound, reader).writes]
    )
    ((key, (_, data)),) = switch.programs.entries[table.name].items()
    assert key == (0,) and data == {
        "enter_chance": round(0.01 * 2**32), "stay_chance": 3 * 2**30, "good_chance": 0, "bad_chance": MOST,
    }  # fmt: skip
    assert programmer.undo() == []
    assert switch.state() == before


def refusal(lab: Inventory, loss: Any) -> str:
    with pytest.raises(InputError) as refused:
        bind(make_plan(make_experiment(loss=loss)), lab)
    return str(refused.value)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"p": 1}, "p: 1 is not among the probabilities that Tofino's program can draw; allowed: below 1, by at least"),
        (
            {"r": 1e-11},
            "r: 1e-11 is not among the probabilities that Tofino's program can draw; allowed: at least 2^-32",
        ),
        ({"loss_in_good": 1}, "loss_in_good: 1 is not among"),
        ({"loss_in_bad": 0, "loss_in_good": "1%"}, "loss_in_bad: 0 is not among"),
    ],
)
def test_chances_that_cannot_be_drawn_are_refused(wrong: dict[str, Any], said: str) -> None:
    assert refusal(in_one_pipe(), in_bursts(**wrong)).startswith(f"{FIELD}.{said}")


def test_a_recording_of_losses_is_refused() -> None:
    said = refusal(make_inventory(), {"trace": {"file": "losses.txt", "text": "0010"}})
    assert said.startswith("bottleneck.loss.trace: Tofino's program has no losses by position")


def test_senders_in_several_pipes_are_refused_since_each_pipe_has_a_state_of_its_own() -> None:
    said = refusal(make_inventory(), in_bursts())
    assert said.startswith(f"{FIELD}: packets come through pipes 1, 2, each of which would have a state of its own")
    bind(make_plan(make_experiment(loss=in_bursts())), in_one_pipe())
