# SPDX-License-Identifier: Apache-2.0
"""The same experiments in virtual and in real time, where real time is accurate: whether the answers are the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import Any

from measuring import Contestant, Series, alternate
from narrows.virtual.kernels import Kernel
from narrows_analysis.metrics.confidence import estimate
from results import Outcome, Table
from virtual import in_guests, made

TITLE = "Virtual and real time"
CLOCKS = {"virtual time": ("--virtual",), "real time": ()}
RTT_S = {"idle": 0.02}


def _experiment(rate: str, rtt: str, buffer: str, *flows: dict[str, Any], **more: Any) -> dict[str, Any]:
    bottleneck = {"rate": rate, "rtt": rtt, "buffer": buffer}
    return {"name": "clocks", "bottleneck": bottleneck, "flows": list(flows), **more}


EXPERIMENTS = {
    # A window so small that nothing ever waits.
    "idle": _experiment("100Mbit", "20ms", "1bdp", {"cca": "cubic", "duration": "3s"}, tcp_buffer="32kB"),
    "share": _experiment(
        "100Mbit", "40ms", "1bdp", {"cca": "bbr", "duration": "12s"}, {"cca": "cubic", "duration": "12s"}
    ),
    "shallow": _experiment("80Mbit", "25ms", "0.5bdp", {"cca": "bbr", "count": 4, "duration": "12s"}),
    "deep": _experiment("80Mbit", "25ms", "8bdp", {"cca": "bbr", "count": 4, "duration": "12s"}),
}


def _bbr_share(summary: dict[str, Any]) -> float:
    sent = {flow["cca"]: flow["throughput_bps"] for flow in summary["flows"]}
    return float(100 * sent["bbr"] / sum(sent.values()))


def _median_queue(summary: dict[str, Any]) -> float:
    section = summary["bottleneck"]
    # The buffer is eight BDP.
    return float(8 * section["queue_bytes"]["p50"] / section["buffer_bytes"])


def _rate_error_ppm(summary: dict[str, Any]) -> float:
    section = summary["bottleneck"]
    return float(1e6 * (section["saturated_rate_bps"] / section["rate_bps"] - 1))


# What is compared: words, the experiment, and where its summary has it.
QUESTIONS: tuple[tuple[str, str, Callable[[dict[str, Any]], float]], ...] = (
    ("Idle RTT, ms more than set", "idle", lambda s: float(1e3 * (s["flows"][0]["rtt_s"]["min"] - RTT_S["idle"]))),
    ("BBR's share beside CUBIC, %", "share", _bbr_share),
    ("Saturated rate, ppm more than set", "share", _rate_error_ppm),
    ("Loss of BBR at 0.5 BDP, %", "shallow", lambda s: float(100 * s["bottleneck"]["loss_ratio"])),
    ("Loss of BBR at 8 BDP, %", "deep", lambda s: float(100 * s["bottleneck"]["loss_ratio"])),
    ("Median queue of BBR at 8 BDP, BDP", "deep", _median_queue),
)


@in_guests(TITLE)
def run(runs: int, kernel: Kernel) -> Outcome:
    """Each experiment by both clocks in turn, with another seed in each round."""
    contestants: dict[str, Contestant] = {
        f"{name}, {clock}": partial(_measure, name, options, count(1))
        for name in EXPERIMENTS
        for clock, options in CLOCKS.items()
    }
    series = alternate(contestants, runs)
    table = Table(("Question", *CLOCKS, "Difference"))
    table.rows += [_row(series, question, experiment) for question, experiment, _ in QUESTIONS]
    figures = ("flows_off_identity", "reports_lost")
    off, lost = (sum(run[figure] for all_ in series.runs.values() for run in all_) for figure in figures)
    conditions = (
        "Four experiments by both clocks on one machine, in turn: one CUBIC flow with a window of 32 kB (100 Mbit/s, "
        "20 ms), BBR against CUBIC (100 Mbit/s, 40 ms, 1 BDP), four BBR flows with a buffer of 0.5 and of 8 BDP "
        f"(80 Mbit/s, 25 ms); 3 s and 12 s. Means with 95 % confidence intervals (Student's t) of {runs} runs each; "
        "the difference's is Welch's. The RTT is the least that the sender's socket saw. Real time runs on this "
        f"machine's kernel, virtual time on a guest's (`{kernel.name}`). In all runs {off:g} flows had arrivals, "
        f"departures and drops that do not add up or are not those that the traffic manager counted, and {lost:g} "
        "reports were lost."
    )
    return Outcome(TITLE, conditions, [table], series.as_json(), ["narrows run FILE", "narrows run FILE --virtual"])


def _row(series: Series, question: str, experiment: str) -> tuple[str, ...]:
    virtual, real = ([run[question] for run in series.runs[f"{experiment}, {clock}"]] for clock in CLOCKS)
    # The difference is the sum of one mean and the negative of the other.
    samples = ((virtual,), (real,), (virtual, [-value for value in real]))
    return (question, *(_with_interval(*sample) for sample in samples))


def _with_interval(*samples: list[float]) -> str:
    found = estimate(*samples)
    assert found is not None
    half = found.half_width
    return f"{found.mean:.3f}" if half is None else f"{found.mean:.3f} ± {half:.3f}"


def _measure(name: str, options: tuple[str, ...], seeds: Iterator[int]) -> dict[str, float]:
    with made({**EXPERIMENTS[name], "seed": next(seeds)}, *options) as out:
        record, summary = (json.loads((out / file).read_text()) for file in ("run.json", "summary.json"))
    off = sum(flow["arrivals"] - flow["departures"] != flow["drops"] for flow in summary["flows"])
    found = {question: figure(summary) for question, experiment, figure in QUESTIONS if experiment == name}
    identity = {"flows_off_identity": off + len(record["drop_cross_check"]["bottleneck"]["problems"])}
    return found | identity | {"reports_lost": summary["telemetry"]["lost"]}
