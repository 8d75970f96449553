# SPDX-License-Identifier: Apache-2.0
"""Writes what README and docs show of runs and measurements, between `<!-- shown: NAME -->` and `<!-- end -->`.

scripts/shown.py                 the tables, from benchmarks/results
scripts/shown.py --transcript    and what the terminal says of the demo in virtual time: needs a kernel, ten seconds
scripts/shown.py --check         writes nothing; the exit code is 1 where a table is not what it would be
"""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))
from measuring import Series
from virtual_ns3 import SAME

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGES = [ROOT / "README.md", ROOT / "benchmarks" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SHOWN = re.compile(r"(<!-- shown: (?P<name>[a-z0-9-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
TRANSCRIPT = "transcript"
# Behind the last line of progress, before results.
PROGRESS_ENDS = "demo: analysing\n"

(
    TIMING, ACCURACY, VIRTUAL, GROWTH, LINKS, CLOCKS, BMV2, FIRST, TASKS, FORWARDING, PIPELINE, ANALYZER,
    INSTRUCTIONS, SOAK, COLLECTOR, DELAY_LINE, FORWARDING_BMV2,
) = (
    f"{name}.json"
    for name in (
        "2026-11-21-2cpu-x86_64-timing", "2026-11-30-2cpu-x86_64-virtual-accuracy",
        "2026-11-27-2cpu-x86_64-virtual",
        "2026-11-24-2cpu-x86_64-virtual-growth", "2026-11-27-2cpu-x86_64-virtual-links",
        "2026-11-22-2cpu-x86_64-clocks", "2026-11-24-2cpu-x86_64-virtual-bmv2",
        "2026-11-24-2cpu-x86_64-first-minutes", "2026-11-26-2cpu-x86_64-ten-tasks",
        "2026-11-27-2cpu-x86_64-forwarding", "2026-11-24-2cpu-x86_64-pipeline", "2026-11-24-2cpu-x86_64-analyzer",
        "2026-11-30-2cpu-x86_64-instructions", "2026-11-21-2cpu-x86_64-soak", "2026-11-25-2cpu-x86_64-collector",
        "2026-11-22-2cpu-x86_64-collector", "2026-11-21-2cpu-x86_64",
    )
)  # fmt: skip
TBF, TBF_SHORT, TBF_4_MS = "tbf, burst of 1 frame", "tbf, burst of 0.1 ms", "tbf, burst of 4 ms"
MAHIMAHI = "Mahimahi mm-link"


def benchmark(file: str, name: str) -> Any:
    """A benchmark's part of a result file."""
    return json.loads((RESULTS / file).read_text())["benchmarks"][name]


def newest(name: str) -> str:
    """The last result file of those that have this benchmark."""
    found = [json.loads(path.read_text()) | {"path": path} for path in RESULTS.glob(f"*-{name}*.json")]
    found = [one for one in found if "spread" in one["benchmarks"].get(name, {})]
    return str(max(found, key=lambda one: one["host"]["date"])["path"].name)


def median(part: Any, who: str, figure: str) -> float:
    """A figure's median over the runs."""
    return float(part["spread"][who][figure]["median"])


def measured() -> str:
    """What Narrows reaches, and tbf, measured side by side: medians, with commands and versions."""
    real, exact = benchmark(TIMING, "accuracy"), benchmark(ACCURACY, "virtual-accuracy")

    def within(part: Any, who: str) -> str:
        return f"{median(part, who, 'error_p99_us'):.2g} µs"

    def off(part: Any, who: str) -> str:
        return f"{median(part, who, 'rate_error_percent'):+.2g} %"

    def by(file: str, name: str) -> str:
        document = json.loads((RESULTS / file).read_text())
        host, guest = document["host"], document["benchmarks"][name].get("guest")
        tools = host["iproute2"].split(",")[1].strip().replace("-", " ")
        kernel = f"{guest} in the guest" if guest else f"Linux {host['kernel'].partition('-')[0]}"
        return f"`benchmarks/run.py {name}` ({kernel}, {tools}, {host['revision']})"

    rows = [
        ("", "Narrows", "`tc tbf`"),
        ("99 % of departures within, at 100 Mbit/s in real time",
         within(real["100000000"], "Narrows"), f"{within(real['100000000'], TBF_4_MS)} (burst of 4 ms)"),
        ("99 % of departures within, at 10 Gbit/s in virtual time",
         within(exact["10000000000"], "Narrows"), f"{within(exact['10000000000'], TBF_SHORT)} (0.1 ms)"),
        ("rate, at 100 Gbit/s in virtual time",
         off(exact["100000000000"], "Narrows"), f"{off(exact['100000000000'], TBF_SHORT)} (0.1 ms)"),
    ]  # fmt: skip
    # A number and its unit stay on one line.
    nowrap = str.maketrans(" ", "\N{NO-BREAK SPACE}")
    made = table(rows[0], *((what, ours.translate(nowrap), tbfs.translate(nowrap)) for what, ours, tbfs in rows[1:]))
    return (
        f"{made}\nMedians of {len(real['100000000']['runs']['Narrows'])} runs by {by(TIMING, 'accuracy')}, and of "
        f"{len(exact['10000000000']['runs']['Narrows'])} by {by(ACCURACY, 'virtual-accuracy')}, on one machine "
        "with two cores.\n"
    )


def costs() -> str:
    """What it takes, in one line."""
    figures = {row["name"]: row["value"] for row in benchmark(FIRST, "first-minutes")["figures"]}
    seconds = median(benchmark(VIRTUAL, "virtual"), "100 Mbit/s, 2 flows (the demo)", "wall_ratio")
    memory = median(benchmark(GROWTH, "virtual-growth"), "2 flows, 10 s", "memory_mb")
    return (
        f"It costs (two cores): {figures['make demo, from nothing']:.0f} s from a clone to the first report, of which "
        f"{figures['- compiler, and packages beside it']:.0f} s are the compiler's; 2 GB of disk; Rust 1.85 or newer. "
        f"In virtual time a second of the demo takes {seconds:.2f} s, and a run at 1 Gbit/s {memory:.0f} MB.\n"
    )


def pace() -> str:
    """What virtual time takes."""
    part = benchmark(VIRTUAL, "virtual")
    loads = {
        "100 Mbit/s": "100 Mbit/s, 2 flows (the demo)", "1 Gbit/s": "1 Gbit/s, 2 flows",
        "10 Gbit/s": "10 Gbit/s, 2 flows", "100 Gbit/s": "100 Gbit/s, 4 flows",
    }  # fmt: skip
    slow, faster, fast, fastest = (
        f"{digits(median(part, load, 'wall_ratio'), 2)} s at {rate}" for rate, load in loads.items()
    )
    return (
        f"A second of traffic takes {slow}, {faster}, {fast} and {fastest} (one processor, BBR and CUBIC, a report on "
        "every packet).\n"
    )


def tasks() -> str:
    """What a new user does, the page that says how, and what its commands take."""
    first = {row["name"]: row["value"] for row in benchmark(FIRST, "first-minutes")["figures"]}
    rows = [("install, and a first run in real time", "docs/install.md", first["make demo, from nothing"])]
    rows += [(row["task"], row["page"], row["seconds"]) for row in benchmark(TASKS, "ten-tasks")["figures"]]
    lines = ["| task | page | seconds |", "| --- | --- | ---: |"]
    for name, page, seconds in rows:
        lines.append(f"| {name} | [{Path(page).name}](../{page}) | {seconds:.0f} |")
    load = json.loads((RESULTS / TASKS).read_text())["host"]["load average at start"].partition(",")[0]
    conditions = (
        f"Two cores, for which {float(load):.0f} programs were waiting when it began (load average); the first row is "
        "of an idle machine."
    )
    if not any(name.endswith("its kernel") for name, *_ in rows):
        conditions += " A kernel with a CCA of one's own takes another few minutes to build."
    return "\n".join(lines) + f"\n\n{conditions}\n"


def rates() -> str:
    """Packets and reports a second, each as it was measured last."""

    def shown(file: str, name: str, who: str, figure: str, scale: float) -> tuple[str, str]:
        found = benchmark(file, name)["spread"][who][figure]
        return spread(found, lambda value: f"{value / scale:#.3g}"), file.removesuffix(".json")

    def replay(what: str) -> tuple[str, str]:
        return shown(PIPELINE, "pipeline", what, "packets_per_s", 1e6)

    def reader(what: str) -> tuple[str, str]:
        return shown(ANALYZER, "analyzer", what, "reports_per_s", 1e6)

    def forwarder(what: str, file: str = FORWARDING) -> tuple[str, str]:
        return shown(file, "forwarding", what, "goodput_bps", 1e9)

    instructions = benchmark(INSTRUCTIONS, "instructions")["instructions_per_packet"]["1, 1,000, 1514 B"]
    rows = [
        ("million packets/s of one processor, with queues, clock and a report on each", *replay("1, 1,000, 1514 B")),
        ("the same with 64 bottlenecks", *replay("64, 1,000, 1514 B")),
        ("the same with 60,000 flows", *replay("1, 60,000, 1514 B")),
        ("instructions of a packet", f"{instructions:,.0f}", INSTRUCTIONS.removesuffix(".json")),
        ("million reports/s decoded, one thread", *reader("narrows-collector, decode")),
        ("million reports/s from a capture to all series and summary.json",
         *reader("Narrows, to all series and summary.json")),
        ("Gbit/s of one TCP flow through the softswitch, a report of every packet stored", *forwarder("Narrows")),
        ("the same, with receive rings of 4 MiB instead of 16", *forwarder("Narrows, receive rings of 4 MiB")),
        ("the same, reports sent and counted by an interface", *forwarder("Narrows, reports sent")),
        ("through the kernel's bridge", *forwarder("kernel bridge")),
        ("through the softswitch, each interface with one processor, as in runs from 1 Gbit/s on",
         *forwarder("Narrows, steered")),
        ("the kernel's bridge in the same way", *forwarder("kernel bridge, steered")),
        ("through a forwarder in C that runs no program", *forwarder("naive C forwarder")),
        ("through BMv2 with the same program", *forwarder("BMv2", FORWARDING_BMV2)),
    ]  # fmt: skip
    return table(("", "median (least to greatest)", "results"), *rows)


def ratio(part: Any, one: str, other: str, figure: str) -> dict[str, float]:
    """A figure of one contestant of a result over that of another, round by round."""
    return asdict(Series(part["runs"]).ratio(one, other, figure))


def times() -> str:
    """How exact times are, what is carried without a loss, and how much slower others are."""
    exact = {what: benchmark(TIMING, what) for what in ("accuracy", "delay", "emulators")}
    rates = {"10": "10000000", "100": "100000000", "500": "500000000"}
    rows = [("", "median (least to greatest)", "results")]

    def add(what: str, found: Any, file: str, scale: float = 1) -> None:
        shown = spread(found, lambda value: digits(value / scale, 3))
        rows.append((what, shown, file.removesuffix(".json")))

    for rate, key in rates.items():
        for who in ("Narrows", TBF_4_MS):
            found = exact["accuracy"][key]["spread"][who]["error_p99_us"]
            add(f"99 % of departures within, us, at {rate} Mbit/s: {who}", found, TIMING)
    for rate, key in rates.items():
        found = exact["accuracy"][key]["spread"][TBF]["rate_error_percent"]
        add(f"rate error, %, at {rate} Mbit/s: {TBF}", found, TIMING)
    for frames in ("1000", "10000"):
        found = exact["delay"][frames]["spread"]["Narrows"]["error_p99_us"]
        add(f"99 % of constant delays of 20 ms within, us, at {int(frames):,} frames/s", found, TIMING)
    for rate, key in {"500 Mbit/s": "500000000", "1 Gbit/s": "1000000000"}.items():
        for who in ("Narrows", MAHIMAHI, "Rattan"):
            found = exact["emulators"][key]["spread"][who]["goodput_percent"]
            add(f"goodput of one TCP flow, % of what {rate} allow: {who}", found, TIMING)
    metrics, delayed = (benchmark(COLLECTOR, "collecting"), benchmark(DELAY_LINE, "delay-line"))
    for rings in ("1 ring", "2 rings, merged"):
        for figure, how in (("live_per_s", "live"), ("drained_per_s", "from full rings")):
            add(f"reports/s stored without a loss, {how}, {rings}", metrics["spread"][rings][figure], COLLECTOR)
    with_metrics = ratio(metrics, "1 ring, --metrics", "1 ring", "live_per_s")
    add("the same live with `--metrics`, read every second, over without", with_metrics, COLLECTOR)
    for what in delayed["spread"]:
        add(f"packets/s held back for 20 ms without a loss: {what}", delayed["spread"][what]["held_per_s"], DELAY_LINE)
    fast = benchmark(PIPELINE, "pipeline")["one_second_at_100_gbps"]["spread"]
    for where in fast:
        add(f"s of a processor for a second of 101 Gbit/s into 100, {where}", fast[where]["processor_s"], PIPELINE)
    readers = benchmark(ANALYZER, "analyzer")
    for who in ("pandas, decode", "tshark", "dpkt", "scapy"):
        found = ratio(readers, "narrows-collector, decode", who, "reports_per_s")
        add(f"reports/s decoded by narrows-collector over those by {who.removesuffix(', decode')}", found, ANALYZER)
    switches = benchmark(BMV2, "virtual-bmv2")
    for load in ("100 Mbit/s, 2 flows", "1 Gbit/s, 2 flows"):
        found = ratio(switches, f"{load}, bmv2", f"{load}, soft", "us_a_packet")
        add(f"time for a packet in virtual time, BMv2 over the softswitch, {load}", found, BMV2)
    return table(*rows)


def against_ns3() -> str:
    """Processor time of whole commands, and how full the link was."""
    file = newest("virtual-ns3")
    part = benchmark(file, "virtual-ns3")["spread"]

    def used(who: str, load: str) -> float:
        return float(part[f"{who}, {load}"]["utilization"]["median"])

    def cell(who: str, load: str) -> str:
        seconds = spread(part[f"{who}, {load}"]["processor_s"], partial(digits, number=2))
        return f"{seconds}; {100 * used(who, load):.1f} % used"

    def name(load: str) -> str:
        return load if abs(used("Narrows", load) - used("ns-3", load)) <= SAME else f"{load} (not the same work)"

    loads = [name.removeprefix("ns-3, ") for name in part if name.startswith("ns-3, ")]
    rows = [(name(load), cell("Narrows", load), cell("ns-3", load)) for load in loads]
    return table(("processor seconds of whole commands", "Narrows", "ns-3"), *rows) + f"\n{named(file)}\n"


def soak() -> str:
    """The balances of a long run."""
    part = benchmark(SOAK, "soak")
    balances = {one["name"]: one for one in part["balances"]}
    departed = balances["departures"]["figures"]["queue"]
    lost, failed = balances["reports lost"]["figures"], [name for name, one in balances.items() if not one["holds"]]
    return (
        f"{part['conditions'].partition(',')[0]}: {departed:,} packets through the bottleneck, "
        f"{departed - lost['missing_by_sequence']:,} reports of them stored; {len(balances) - len(failed)} of "
        f"{len(balances)} balances of counters and bounds of memory hold. {named(SOAK)}\n"
    )


def table(*rows: tuple[str, ...]) -> str:
    """A table of Markdown; the first row is its head."""
    return "".join(f"| {' | '.join(row)} |\n" for row in (rows[0], ("---",) * len(rows[0]), *rows[1:]))


def digits(value: float, number: int) -> str:
    """At least so many digits of a number that count, and no exponent."""
    return "0" if value == 0 else f"{value:,.{max(0, number - 1 - math.floor(math.log10(abs(value))))}f}"


def spread(found: Any, show: Callable[[float], str]) -> str:
    """What was measured several times: the median, and the least and the greatest."""
    middle, least, greatest = (show(found[end]) for end in ("median", "least", "greatest"))
    return middle if least == middle == greatest else f"{middle} ({least} to {greatest})"


def named(file: str) -> str:
    """A result file as a page names it that is in a folder of the repository."""
    return f"[{file.removesuffix('.json')}](../benchmarks/results/{file.replace('.json', '.md')})"


def virtual_costs() -> str:
    """Wall time of a second of virtual time, by load and length of packets."""
    found = benchmark(VIRTUAL, "virtual")["spread"]
    variants = ("", ", 9000 B", ", LRO", ", 9000 B, LRO")

    def cell(case: str) -> str:
        return spread(found[case]["wall_ratio"], partial(digits, number=2)) if case in found else ""

    loads = ("100 Mbit/s, 2 flows", "1 Gbit/s, 2 flows", "10 Gbit/s, 2 flows", "100 Gbit/s, 4 flows")
    rows = [(load, *(cell(load + variant) for variant in variants)) for load in loads[1:]]
    shown = table(
        ("", "1500 B", "9000 B", "1500 B, LRO", "9000 B, LRO"),
        (loads[0], cell(f"{loads[0]} (the demo)"), "", "", ""),
        *rows,
    )
    fixed = found["Fixed: boot to first packet, and end"]["wall_ratio"]["median"]
    return f"{shown}\nThe start and the end of a run take {fixed:.1f} s more. {named(VIRTUAL)}\n"


def growth() -> str:
    """What many flows, long runs and many runs cost."""
    part = benchmark(GROWTH, "virtual-growth")
    few, many, most = (median(part, f"{flows} flows, 3 s", "us_a_packet") for flows in (2, 100, 1000))
    long, short = (
        f"{median(part, case, 'wall_ratio'):.2f} of their time and {median(part, case, 'memory_mb'):.0f} MB"
        for case in ("2 flows, 600 s", "2 flows, 60 s")
    )
    return (
        f"Of 100 flows each packet costs {many / few:.1f} times as much as of two, of 1,000 flows {most / few:.1f} "
        f"times. Ten minutes at 1 Gbit/s take {long}, one minute {short.replace('their', 'its')}; 64 runs of 5 s at "
        f"100 Mbit/s are over in {median(part, '64', 'wall_s'):.0f} s on two processors. {named(GROWTH)}\n"
    )


def virtual_accuracy() -> str:
    """How far departures are from a perfect schedule."""
    part = benchmark(ACCURACY, "virtual-accuracy")

    def cells(found: Any) -> tuple[str, str]:
        figures = {name: one["median"] for name, one in found.items()}
        times = ", ".join(digits(figures[f"error_{name}_us"], 2) for name in ("p50", "p99", "max"))
        return times, f"{figures['rate_error_percent']:.2g} %"

    rates = {
        "10000000": "10 Mbit/s",
        "1000000000": "1 Gbit/s",
        "10000000000": "10 Gbit/s",
        "100000000000": "100 Gbit/s",
    }
    rows = [
        (name, *(cell for shaper in ("Narrows", TBF, TBF_SHORT) for cell in cells(part[rate]["spread"][shaper])))
        for rate, name in rates.items()
    ]
    heads = ((f"{shaper}: p50, p99, max, us", "rate error") for shaper in ("Narrows", TBF, TBF_SHORT))
    head = ("rate", *(name for names in heads for name in names))
    return f"{table(head, *rows)}\n{named(ACCURACY)}\n"


def fast_links() -> str:
    """What fast links carry."""
    links = benchmark(LINKS, "virtual-links")["spread"]
    rows = []
    for link in sorted(links, key=lambda name: int(name.partition(" ")[0])):
        figures = {name: found["median"] for name, found in links[link].items()}
        ratio = figures["bbr_over_cubic"]
        rows.append((
            link, f"{figures['utilization']:.4f}", f"{figures['queue_over_buffer']:.4f}",
            f"{figures['rate_error']:.0e}", f"{figures['packets']:,.0f}", f"{figures['reports_lost']:.0f}",
            f"{100 * ratio / (1 + ratio):.0f} %",
        ))  # fmt: skip
    head = (
        "link", "utilization, last two seconds", "queue / buffer", "rate error while never idle", "packets",
        "reports lost", "BBR's share",
    )  # fmt: skip
    return f"{table(head, *rows)}\n{named(LINKS)}\n"


def source(files: dict[str, str]) -> str:
    """Below a table of benchmarks' spreads: how they were measured, which is the same for all; files by benchmark."""
    parts = [benchmark(file, name) for name, file in files.items()]
    runs = min(len(found) for part in parts for found in part["runs"].values())
    where = ", ".join(named(file) for file in files.values())
    return f"Median (least to greatest), n = {runs}, {where}. {parts[-1]['conditions']}\n"


def managed_cost() -> str:
    """What queue management adds to the instructions of a packet."""
    found = benchmark(INSTRUCTIONS, "instructions")["instructions_per_packet"]
    without = found["1, 1,000, 1514 B"]
    kinds = {name: count for name, count in found.items() if " " not in name}
    least, most = (100 * (pick(kinds.values()) / without - 1) for pick in (min, max))
    counts = ", ".join(f"{count:,.0f} with `{kind}`" for kind, count in kinds.items())
    return (
        f"With queue management the switch executes {least:.0f} to {most:.0f} % more instructions for a packet that "
        f"does not wait, its report included: {without:,.0f} without, {counts}. {named(INSTRUCTIONS)}\n"
    )


def against_linux() -> str:
    """Queue management of Linux and of Narrows; bold where their ranges are apart."""
    files = {name: newest(name) for name in ("aqm-10g", "aqm-1g", "aqm-50", "aqm")}
    spreads = {of: found for name, file in files.items() for of, found in benchmark(file, name)["spread"].items()}
    shows: dict[str, Callable[[float], str]] = {
        "delay_median_ms": partial(digits, number=3),
        "delay_p99_ms": partial(digits, number=3),
        "utilization": lambda value: f"{100 * value:.1f}",
        "drops": "{:,.0f}".format,
    }

    def ends(name: str, figure: str) -> tuple[float, float]:
        """As they are shown: what is equal there is not apart."""
        found = spreads[name][figure]
        least, greatest = (float(shows[figure](found[end]).replace(",", "")) for end in ("least", "greatest"))
        return least, greatest

    def cell(name: str, figure: str) -> str:
        (least, greatest), (least_of_linux, greatest_of_linux) = (
            ends(re.sub("^[^,]*", who, name), figure) for who in ("Narrows", "Linux")
        )
        text = spread(spreads[name][figure], shows[figure])
        apart = least > greatest_of_linux or greatest < least_of_linux
        return f"**{text}**" if apart and name.startswith("Narrows") else text

    rows = []
    for name in spreads:
        who, kind, load = name.split(", ", 2)
        rows.append((re.sub("(?=[MG]bit)", " ", load), kind, who, *(cell(name, figure) for figure in shows)))
    head = ("link, flows", "kind", "of", "delay, median, ms", "p99, ms", "utilization, %", "drops")
    return f"{table(head, *rows)}\n{source(files)}"


def l4s() -> str:
    """Pairs of flows through queues of Linux and of Narrows, beside what was published of them."""
    file = newest("l4s")
    return f"{table_of(file)}\n\n{source({'l4s': file})}"


def table_of(file: str) -> str:
    """The table of a result file that has one."""
    text = (RESULTS / file.replace(".json", ".md")).read_text()
    found = re.search(r"^## .*?^(\|.*?)\n\n", text, re.DOTALL | re.MULTILINE)
    assert found is not None, file
    return found[1]


def recorded(file: str) -> str:
    """The table of a result file, and its name."""
    return f"{table_of(file)}\n\n{named(file)}\n"


def transcript() -> str:
    """What the terminal says at the end of the demo in virtual time."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "narrows" / "kernels"
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        (place / "experiments").symlink_to(ROOT / "experiments")
        (place / "cache" / "narrows").mkdir(parents=True)
        (place / "cache" / "narrows" / "kernels").symlink_to(cache)
        narrows = Path(sys.executable).with_name("narrows")
        words = [narrows, "run", "experiments/demo.yaml", "--virtual", "--out", "results/demo"]
        environment = {**os.environ, "XDG_CACHE_HOME": str(place / "cache")}
        done = subprocess.run(
            words, cwd=place, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True
        )
        said = done.stdout.replace(f"{place}/", "").partition(PROGRESS_ENDS)[2]
    return "```text\n" + "".join(f"{line.rstrip()}\n" for line in said.splitlines()) + "```\n"


MADE: dict[str, Callable[[], str]] = {
    "measured": measured, "costs": costs, "pace": pace, "tasks": tasks, "rates": rates, "times": times, "soak": soak,
    TRANSCRIPT: transcript,
    "virtual-costs": virtual_costs, "growth": growth, "virtual-accuracy": virtual_accuracy, "fast-links": fast_links,
    "clocks": partial(recorded, CLOCKS), "virtual-switches": partial(recorded, BMV2), "against-linux": against_linux,
    "against-ns3": against_ns3, "l4s": l4s, "managed-cost": managed_cost,
}  # fmt: skip


def outdated(names: set[str]) -> Iterator[tuple[Path, str]]:
    """Pages of which a part named is not what it would be, with what they would be.

    Raises:
        KeyError: a page wants a part that there is not.
    """
    made: dict[str, str] = {}

    def part(found: re.Match[str]) -> str:
        name = found["name"]
        if name not in names:
            MADE[name]
            return found[0]
        if name not in made:
            made[name] = MADE[name]()
        return f"{found[1]}{made[name]}{found[3]}"

    for page in PAGES:
        text = page.read_text()
        if (now := SHOWN.sub(part, text)) != text:
            yield page, now


def main(words: list[str]) -> int:
    """Returns the exit code."""
    if not {*words} <= {"--check", "--transcript"}:
        print(__doc__, file=sys.stderr)
        return 2
    code = 0
    for page, text in list(outdated({*MADE} - ({TRANSCRIPT} - {word.removeprefix("--") for word in words}))):
        print(page.relative_to(ROOT))
        if "--check" in words:
            code = 1
        else:
            page.write_text(text)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
