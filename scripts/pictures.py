# SPDX-License-Identifier: Apache-2.0
"""Draws the pictures of the tutorials, docs/images/NAME.svg, from results.

scripts/pictures.py l4s                     from benchmarks/results
scripts/pictures.py notebook RUN            a run of experiments/demo.yaml
scripts/pictures.py shallow-buffers SWEEP   the tutorial's sweep
scripts/pictures.py varying-links SWEEP     experiments/varying-links.yaml, and varying-links-delay
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure
from narrows_analysis.colors import PALETTE
from narrows_analysis.gallery import draw, figure
from narrows_analysis.report.charts import Chart
from narrows_analysis.report.figures import RunFigures
from narrows_analysis.run_data import RunData
from narrows_analysis.sweep import line_charts_of, load_sweep

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
# The newest: names begin with the date.
L4S = max((ROOT / "benchmarks" / "results").glob("*-l4s.json"))
# The same picture is the same file; letters are letters, which takes a third.
matplotlib.rcParams |= {"svg.hashsalt": "narrows", "svg.fonttype": "none"}


def shallow_buffers(sweep: Path) -> Figure:
    """Shares over the swept buffer, with the intervals of the repetitions."""
    charts: list[Chart] = [chart for row in line_charts_of(load_sweep(sweep)) for chart in row]
    return draw(next(chart for chart in charts if "hare" in chart.title))


def varying_links(sweep: Path) -> Figure:
    """What the link of the first point offered, and what left it."""
    return figure(_first(sweep), "link_rate")


def varying_links_delay(sweep: Path) -> Figure:
    """How long packets waited there; every tenth point, of which there are thousands."""
    chart = RunFigures(_first(sweep)).delay()
    assert chart is not None
    for line in chart.series:
        line.x, line.y, line.lo, line.hi = line.at()[::10], line.y[::10], None, None
    return draw(chart)


def _first(sweep: Path) -> RunData:
    return RunData(min(sweep.glob("*/run.json")).parent)


def notebook(run: Path) -> Figure:
    """Congestion windows."""
    return figure(RunData(run), "cwnd")


def l4s(results: Path) -> Figure:
    """Queue delays of CUBIC and Prague that share a link through DualPI2."""
    spread = json.loads(results.read_text())["benchmarks"]["l4s"]["spread"]
    made = Figure(figsize=(6.4, 2.8), layout="constrained")
    axes = made.add_subplot()
    names = [name for name in spread if "cubic/prague" in name and "tail-drop" not in name][::-1]
    for offset, quantity, label in ((0.2, "classic_p99_ms", "CUBIC's queue"), (-0.2, "low_p99_ms", "Prague's queue")):
        values = [spread[name][quantity]["median"] for name in names]
        places = [place + offset for place in range(len(names))]
        axes.barh(places, values, height=0.36, color=PALETTE[0 if offset < 0 else 1], label=label)
        for place, value in zip(places, values, strict=True):
            axes.annotate(f" {value:.2g} ms", (value, place), va="center", fontsize=7.5)
    axes.set_yticks(
        range(len(names)),
        [name.replace("dualpi2, cubic/prague", "RTT").replace("/", " and ", 1) + " ms" for name in names],
    )
    axes.set_xlabel("99th percentile of the age of the oldest packet (ms)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.12)
    axes.legend(frameon=False, fontsize=8, ncols=2, loc="lower left", bbox_to_anchor=(0, 1))
    return made


PICTURES: dict[str, Callable[[Path], Figure]] = {
    "l4s": l4s, "notebook": notebook, "shallow-buffers": shallow_buffers, "varying-links": varying_links,
    "varying-links-delay": varying_links_delay,
}  # fmt: skip


def main(words: list[str]) -> int:
    """Returns the exit code."""
    name, *sources = words or [""]
    if name not in PICTURES or len(sources) > 1 or (not sources and name != "l4s"):
        print(__doc__, file=sys.stderr)
        return 2
    picture = PICTURES[name](Path(sources[0]) if sources else L4S)
    picture.savefig(IMAGES / f"{name}.svg", metadata={"Date": None})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
