# SPDX-License-Identifier: Apache-2.0
"""Pages can be read by all: axe-core finds no fault in them, light and dark, wide and narrow; text on shades and
beside lines has a contrast of 4.5 at least (WCAG 2.2, 1.4.3)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import synthetic
from narrows.live.server import LivePage
from narrows_analysis import analyze_run, write_report
from narrows_analysis.colors import PALETTE
from narrows_analysis.comparison.differences import compare
from narrows_analysis.comparison.page import write_comparison
from narrows_analysis.comparison.sides import read_side
from narrows_analysis.sweep import HOT, write_sweep_report
from test_sweep import Swept, swept

__all__ = ["swept"]

READERS: dict[str, dict[str, Any]] = {
    "wide": {"viewport": {"width": 1280, "height": 900}},
    "narrow": {"viewport": {"width": 390, "height": 844}},
    "dark": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
}
CONTRAST = 4.5
INK_PERCENT = 55


def faults(browser: Any, address: str, reader: str) -> list[str]:
    """What axe-core finds, and whether the page is wider than the screen."""
    from axe_playwright_python.sync_playwright import Axe

    page = browser.new_page(**READERS[reader])
    page.goto(address)
    page.wait_for_timeout(300)
    found = [
        f"{one['impact']}: {one['id']}: {one['nodes'][0]['html']}" for one in Axe().run(page).response["violations"]
    ]
    if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
        found.append("wider than the screen")
    page.close()
    return found


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("accessible") / "run"
    synthetic.write_run(run, synthetic.two_flows(3.0))
    analyze_run(run)
    return write_report(run)


@pytest.fixture(scope="module")
def live() -> Iterator[LivePage]:
    figures = {"rate_bps": 72e6, "drops": 60, "cca": "bbr", "color": "c0", "tint": 0, "group": "bbr"}
    link = {"name": "bottleneck", "link_bps": 10**8, "rate_bps": 96e6, "other_bps": 0.0, "queue_bytes": 250_000,
            "limit_bytes": 500_000, "departed_packets": 9900, "drops": 100, "ce_marks": 7}  # fmt: skip
    with LivePage() as page:
        page.publish("run", {"title": "demo", "setting": "100 Mbit/s"})
        page.publish("phase", {"text": "traffic"})
        for time_s in range(4):
            flows = [{"name": name, **figures} for name in ("bbr-1", "bbr-2")]
            page.publish(
                "snapshot",
                {"time_s": time_s, "remaining_s": 9, "active": 2, "links": [link], "flows": flows, "groups": []},
            )
        yield page


@pytest.mark.long
@pytest.mark.needs("chromium")
@pytest.mark.parametrize("reader", READERS)
def test_a_report_has_no_fault(browser: Any, report: Path, reader: str) -> None:
    assert faults(browser, report.as_uri(), reader) == []


@pytest.mark.long
@pytest.mark.needs("chromium")
@pytest.mark.parametrize("reader", READERS)
def test_a_sweeps_page_has_no_fault(browser: Any, swept: Swept, reader: str) -> None:
    assert faults(browser, write_sweep_report(swept[0]).as_uri(), reader) == []


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of two runs of flows with long names, which share otherwise."""
    place = tmp_path_factory.mktemp("compared")
    sides = []
    for name, window in (("before", 20.0), ("after", 60.0)):
        senders = [
            synthetic.Sender("a-flow-with-a-name-of-more-than-forty-letters", "reno", window=20.0, aimd=False),
            synthetic.Sender("cubic", "cubic", window=window, aimd=False),
        ]
        synthetic.write_run(place / name, synthetic.Scenario(buffer_bytes=500_000, senders=senders))
        analyze_run(place / name)
        sides.append(read_side(place / name))
    first, second = sides
    (page,) = write_comparison(first, second, compare(first, second), place / "out", ())
    assert 'class="bars forest"' in page.read_text()
    return page


@pytest.mark.long
@pytest.mark.needs("chromium")
@pytest.mark.parametrize("reader", READERS)
def test_a_comparison_has_no_fault(browser: Any, comparison: Path, reader: str) -> None:
    assert faults(browser, comparison.as_uri(), reader) == []


@pytest.mark.long
@pytest.mark.needs("chromium")
def test_a_comparison_has_all_its_columns_and_whole_tables_in_print(browser: Any, comparison: Path) -> None:
    """Beside names of forty letters; on a phone the names leave room for the column beside them."""
    page = browser.new_page(**READERS["wide"])
    page.goto(comparison.as_uri())
    assert page.locator(".hint").count() == 0
    page.emulate_media(media="print")
    broken = "[...document.querySelectorAll('table')].map(table => getComputedStyle(table).breakInside)"
    assert set(page.evaluate(broken)) == {"avoid"}
    page.emulate_media(media="screen")
    page.set_viewport_size(READERS["narrow"]["viewport"])
    assert (
        page.locator("tbody td:first-child").last.bounding_box()["width"] < READERS["narrow"]["viewport"]["width"] / 2
    )
    page.close()


@pytest.mark.long
@pytest.mark.needs("chromium")
@pytest.mark.parametrize("reader", READERS)
def test_long_names_fit_into_a_report(browser: Any, comparison: Path, reader: str) -> None:
    assert faults(browser, write_report(comparison.parents[1] / "after").as_uri(), reader) == []


@pytest.mark.needs("chromium")
@pytest.mark.parametrize("reader", READERS)
def test_the_live_page_has_no_fault(browser: Any, live: LivePage, reader: str) -> None:
    assert faults(browser, live.url, reader) == []


@pytest.mark.needs("chromium")
def test_a_table_wider_than_the_page_says_so(browser: Any, report: Path) -> None:
    page = browser.new_page(**READERS["narrow"])
    page.goto(report.as_uri())
    hinted = page.locator(".scroll:has(#flows) + .hint")
    assert hinted.inner_text() == "more columns: scroll sideways \N{RIGHTWARDS ARROW}"
    page.set_viewport_size({"width": 1280, "height": 900})
    assert page.locator(".hint").count() == 0
    page.close()


@pytest.mark.needs("chromium")
def test_the_contents_lead_to_every_part(browser: Any, report: Path) -> None:
    page = browser.new_page()
    page.goto(report.as_uri())
    links = page.eval_on_selector_all(".contents a", "all => all.map(one => [one.textContent, one.hash])")
    parts = page.eval_on_selector_all("h2", "all => all.map(one => [one.textContent, '#' + one.id])")
    assert links == parts
    page.close()


def channels(color: str) -> list[float]:
    return [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]


def mixed(one: list[float], other: list[float], percent: float) -> list[float]:
    """CSS's color-mix in srgb, with ``percent`` of the other."""
    return [a + (b - a) * percent / 100 for a, b in zip(one, other, strict=True)]


def contrast(one: list[float], other: list[float]) -> float:
    """WCAG 2.2's contrast ratio."""

    def luminance(color: list[float]) -> float:
        red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def themes() -> list[dict[str, str]]:
    """The colours of the light and the dark page."""
    css = (files("narrows_analysis") / "static" / "report.css").read_text()
    blocks = re.findall(r"(:root[^{]*)\{([^}]*)\}", css)[:3]
    return [dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6})\b", text)) for _, text in blocks]


def test_contrast_is_that_of_the_standard() -> None:
    """Its extremes, and the grey that is known as the lightest to be read on white."""
    assert contrast(channels("#000000"), channels("#ffffff")) == pytest.approx(21)
    assert contrast(channels("#767676"), channels("#ffffff")) == pytest.approx(4.54, abs=0.01)


def test_text_on_shades_can_be_read() -> None:
    colors = themes()[0]
    for percent in range(101):
        shade = mixed(channels(colors["heat-low"]), channels(colors["heat-high"]), percent)
        assert contrast(shade, [1.0] * 3 if percent >= HOT else [0.0] * 3) >= CONTRAST, percent


@pytest.mark.parametrize("tint", [0, 55])
def test_names_beside_lines_can_be_read(tint: int) -> None:
    """As charts.js mixes them, of every colour, tinted most and not at all."""
    script = (files("narrows_analysis") / "static" / "charts.js").read_text()
    assert f"${{color}} {100 - INK_PERCENT}%, var(--ink)" in script
    for colors in themes():
        paper, ink = channels(colors["paper"]), channels(colors["ink"])
        assert contrast(channels(colors["ink-soft"]), paper) >= CONTRAST
        for number in range(len(PALETTE)):
            line = mixed(channels(colors[f"c{number}"]), paper, tint)
            assert contrast(mixed(line, ink, INK_PERCENT), paper) >= CONTRAST, (number, colors["paper"])
