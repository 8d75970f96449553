# SPDX-License-Identifier: Apache-2.0
"""Draws the pictures of README and tutorials, docs/images/NAME.svg, from results.

scripts/pictures.py demo-report RUN         a run of experiments/demo.yaml: demo-report.png, and -dark; needs chromium
scripts/pictures.py l4s                     from benchmarks/results
scripts/pictures.py notebook RUN            a run of experiments/demo.yaml
scripts/pictures.py own-aqm SWEEP           the tutorial's sweep, and own-aqm-shares
scripts/pictures.py shallow-buffers SWEEP   the tutorial's sweep
scripts/pictures.py varying-links SWEEP     experiments/varying-links.yaml, and varying-links-delay
"""

from __future__ import annotations

import io
import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import matplotlib
import narrows_analysis
from matplotlib.figure import Figure
from narrows_analysis.colors import PALETTE
from narrows_analysis.gallery import draw, figure
from narrows_analysis.report.charts import Chart
from narrows_analysis.report.figures import RunFigures
from narrows_analysis.run_data import RunData
from narrows_analysis.sweep import line_charts_of, load_sweep
from PIL import Image

if TYPE_CHECKING:
    from playwright.sync_api import ViewportSize

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
# The newest: names begin with the date.
L4S = max((ROOT / "benchmarks" / "results").glob("*-l4s.json"))
REPORT = "demo-report"
REPORTS: dict[Literal["light", "dark"], str] = {"light": f"{REPORT}.png", "dark": f"{REPORT}-dark.png"}
# Of the report's picture, in pixels.
WINDOW: ViewportSize = {"width": 1040, "height": 1380}
BELOW = 24
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


def own_aqm(sweep: Path) -> Figure:
    """How long packets waited over time, for each target: of the first repetitions, tenths of a second."""
    made = Figure(figsize=(6.4, 2.8), layout="constrained")
    axes = made.add_subplot()
    for color, run in zip(PALETTE, sorted(sweep.glob("*-r1"), key=_target_ms), strict=False):
        queue = narrows_analysis.load(run).queue
        delays_ms = 1e3 * queue.delay_mean_s.groupby((queue.time_s * 10).astype(int)).mean()
        axes.plot(delays_ms.index / 10, delays_ms, color=color, linewidth=1, label=f"target {_target_ms(run)} ms")
    axes.set(xlabel="Time (s)", ylabel="Queue delay (ms)", yscale="log")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, ncols=4, loc="lower left", bbox_to_anchor=(0, 1))
    return made


def own_aqm_shares(sweep: Path) -> Figure:
    """What CUBIC and BBR had of the link, for each target, with the intervals of the repetitions."""
    return narrows_analysis.load(sweep).figure("share")


def _target_ms(named: Path | str) -> int:
    """The target in a file's or a run's name: target-5ms.json."""
    return int(re.findall(r"target-(\d+)ms", str(named))[-1])


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


def demo_report(run: Path) -> None:
    """The report down to its first figure, light and dark."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for scheme, name in REPORTS.items():
            page = browser.new_page(viewport=WINDOW, color_scheme=scheme)
            page.goto((run / "report.html").resolve().as_uri())
            page.wait_for_selector("html[data-ready]")
            figure = page.locator("figure:has(.plot)").first.bounding_box()
            assert figure is not None
            height = figure["y"] + figure["height"] + BELOW
            shot = page.screenshot(full_page=True, clip={"x": 0, "y": 0, "width": WINDOW["width"], "height": height})
            # A page has few colours: a third of the bytes.
            Image.open(io.BytesIO(shot)).convert("RGB").quantize(128).save(IMAGES / name, optimize=True)


PICTURES: dict[str, Callable[[Path], Figure]] = {
    "l4s": l4s, "notebook": notebook, "own-aqm": own_aqm, "own-aqm-shares": own_aqm_shares,
    "shallow-buffers": shallow_buffers, "varying-links": varying_links,
    "varying-links-delay": varying_links_delay,
}  # fmt: skip


def main(words: list[str]) -> int:
    """Returns the exit code."""
    name, *sources = words or [""]
    if name == REPORT and len(sources) == 1:
        demo_report(Path(sources[0]))
        return 0
    if name not in PICTURES or len(sources) > 1 or (not sources and name != "l4s"):
        print(__doc__, file=sys.stderr)
        return 2
    picture = PICTURES[name](Path(sources[0]) if sources else L4S)
    picture.savefig(IMAGES / f"{name}.svg", metadata={"Date": None})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
