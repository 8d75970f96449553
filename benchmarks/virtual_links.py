# SPDX-License-Identifier: Apache-2.0
"""Fast links in virtual time: whether BBR and CUBIC fill them, and whether every figure of the switch adds up."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd
from measuring import Contestant, alternate
from narrows.virtual.kernels import Kernel
from narrows_formats.files import QUEUE
from results import Outcome, Table
from virtual import in_guests, made

TITLE = "25, 40 and 100 Gbit/s in virtual time"
RTT = "10ms"
# Flows have left slow start by then.
START_UP_S = 1
SECONDS = 3
MUST = {
    "utilization": 0.9,
    "rate_error": 1e-5,
    "queue_over_buffer": 1.0,
    "reports_lost": 0,
    "flows_off_identity": 0,
}


@dataclass(frozen=True)
class Link:
    """A bottleneck of 1 BDP; two flows of BBR and two of CUBIC share it."""

    gbit: int
    mtu: int

    @property
    def name(self) -> str:
        """As the table has it."""
        return f"{self.gbit} Gbit/s, {self.mtu} B"

    def experiment(self) -> dict[str, Any]:
        """The experiment file."""
        groups = [{"cca": cca, "count": 2, "duration": f"{SECONDS}s"} for cca in ("bbr", "cubic")]
        bottleneck = {"rate": f"{self.gbit}Gbit", "buffer": "1bdp", "rtt": RTT}
        return {"name": "link", "bottleneck": bottleneck, "mtu": self.mtu, "flows": groups}


LINKS = tuple(Link(gbit, mtu) for mtu in (9000, 1500) for gbit in (25, 40, 100))


@in_guests(TITLE)
def run(runs: int, _: Kernel) -> Outcome:
    """Each link in a guest on one core."""
    contestants: dict[str, Contestant] = {link.name: partial(measure, link) for link in LINKS}
    series = alternate(contestants, runs)
    columns = ("Link", "Utilization", "Saturated rate, error, ppm", "Queue / buffer", "Lost", "Off identity",
               "BBR / CUBIC", "Packets", "Wall s")  # fmt: skip
    table = Table(columns)
    for link in LINKS:
        figures = (*MUST, "bbr_over_cubic", "packets", "wall_s")
        scales = {"rate_error": 1e6}
        spread = series.texts(link.name, figures, scales)
        table.rows.append((link.name, *spread))
    conditions = (
        f"`narrows run --virtual`: two flows of BBR and two of CUBIC, RTT {RTT}, a buffer of 1 BDP, a report on every "
        f"packet, {SECONDS} s. Utilization is that of the last {SECONDS - START_UP_S} s. The saturated rate is that "
        "measured while the link was never idle, its error relative to the rate that was set. The queue is the deepest "
        "that any packet saw. Off identity: flows whose arrivals - departures are not their drops, or not those that "
        "the traffic manager counted. Must: utilization above 0.9, error up to 10 ppm, queue no deeper than the "
        "buffer, nothing lost or off."
    )
    return Outcome(TITLE, conditions, [table], series.as_json(), ["narrows run FILE --virtual"])


def measure(link: Link) -> dict[str, float]:
    """One run.

    Raises:
        RunError: it failed.
    """
    with made(link.experiment(), "--virtual") as out:
        record, summary = (json.loads((out / name).read_text()) for name in ("run.json", "summary.json"))
        queue = pd.read_parquet(out / QUEUE)
    # What is in the queue when the flows end leaves later.
    late = queue[queue["time_s"].between(START_UP_S, SECONDS, inclusive="left")]
    bits = float((late["throughput_bps"] * late["interval_s"]).sum())
    rate = link.gbit * 1e9
    section, flows = summary["bottleneck"], summary["flows"]
    sent = {cca: sum(flow["throughput_bps"] for flow in flows if flow["cca"] == cca) for cca in ("bbr", "cubic")}
    off = sum(flow["arrivals"] - flow["departures"] != flow["drops"] for flow in flows)
    return {
        "utilization": bits / rate / (SECONDS - START_UP_S),
        "rate_error": abs(section["saturated_rate_bps"] / rate - 1),
        "queue_over_buffer": section["queue_bytes"]["max"] / section["buffer_bytes"],
        "reports_lost": summary["telemetry"]["lost"],
        "flows_off_identity": off + len(record["drop_cross_check"]["bottleneck"]["problems"]),
        "bbr_over_cubic": sent["bbr"] / sent["cubic"],
        "packets": sum(flow["departures"] for flow in flows),
        "wall_s": record["virtual_time"]["wall_s"],
    }
