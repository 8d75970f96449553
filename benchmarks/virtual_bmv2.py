# SPDX-License-Identifier: Apache-2.0
"""The same experiments and the same compiled P4 in guests: on the softswitch, and on BMv2."""

from __future__ import annotations

from functools import partial

from measuring import Contestant, alternate
from narrows.targets.bmv2 import simple_switch
from narrows.virtual.kernels import Kernel
from results import Outcome, Table
from virtual import RTT, Load, in_guests, measure

TITLE = "Softswitch and BMv2 in virtual time"
SOFT, BMV2 = "soft", "bmv2"
LOADS = (
    Load("100 Mbit/s, 2 flows", "100Mbit", "40ms", 1500, 2, 5),
    Load("1 Gbit/s, 2 flows", "1Gbit", RTT, 1500, 2, 1),
)


@in_guests(TITLE)
def run(runs: int, _: Kernel) -> Outcome:
    """Each load on both, in turn."""
    if (lacks := simple_switch.missing()) is not None:
        return Outcome(TITLE, "Not run.", [], {}, [], [lacks])
    contestants: dict[str, Contestant] = {
        _name(load, target): partial(measure, load, "--target", target) for load in LOADS for target in (SOFT, BMV2)
    }
    series = alternate(contestants, runs)
    columns = (
        "Load",
        "Switch",
        "Wall / virtual time",
        "us / packet",
        "BMv2 / softswitch",
        "Utilization",
        "Drops, %",
        "Lost",
    )
    table = Table(columns)
    for load in LOADS:
        for target in (SOFT, BMV2):
            name = _name(load, target)
            wall, packet, used, drops, lost = series.texts(
                name, ("wall_ratio", "us_a_packet", "utilization", "drops_percent", "reports_lost")
            )
            ratio = series.ratio(name, _name(load, SOFT), "us_a_packet").text()
            table.rows.append((load.name, target, wall, packet, ratio, used, drops, lost))
    conditions = (
        "`narrows run --virtual`, a BBR and a CUBIC flow through a buffer of 1 BDP, a report on every packet, the "
        "guest on one core. Both switches run the program from the same file; BMv2 shapes and queues whole packets, "
        "and has the softswitch in front of its senders for the RTT. Wall time is that of the guest, from its boot to "
        "its end."
    )
    return Outcome(TITLE, conditions, [table], series.as_json(), ["narrows run FILE --virtual --target TARGET"])


def _name(load: Load, target: str) -> str:
    return f"{load.name}, {target}"
