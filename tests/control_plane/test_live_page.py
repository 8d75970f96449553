# SPDX-License-Identifier: Apache-2.0
"""The live page in a real browser: numbers and curves as published, no error, nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from narrows.live.server import LivePage

pytestmark = pytest.mark.needs("chromium")
DASH = "\u2013"
NAME = "<b>bbr-vs-cubic</b>"


def link(**changes: Any) -> dict[str, Any]:
    return {
        "name": "bottleneck", "link_bps": 100_000_000, "rate_bps": 96_000_000.0, "other_bps": 0.0,
        "queue_bytes": 250_000, "filled": 0.5, "limit_bytes": 500_000, "departed_packets": 9900, "drops": 100,
        **changes,
    }  # fmt: skip


def snapshot(time_s: float, links: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    def flow(name: str, group: str, rate_bps: float, drops: int) -> dict[str, Any]:
        color = {"color": "c1" if group == "cubic" else "c0", "tint": 0}
        return {"name": name, "group": group, "cca": group, "rate_bps": rate_bps, "drops": drops, **color}

    return {
        "time_s": time_s, "remaining_s": 30 - time_s, "active": 2, "links": [link(**links or {})],
        "flows": [flow("bbr-1", "bbr", 72_000_000.0, 60), flow("cubic-1", "cubic", 24_000_000.0, 40)],
        "groups": [flow("bbr", "bbr", 72_000_000.0, 60), flow("cubic", "cubic", 24_000_000.0, 40)],
        **changes,
    }  # fmt: skip


class Opened:
    """The page in a browser, with everything that it complains of."""

    def __init__(self, browser: Any, live: LivePage, **context: Any) -> None:
        self.problems: list[str] = []
        self.page = browser.new_page(**context)
        self.page.on("console", lambda m: self.problems.append(m.text) if m.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on(
            "request", lambda r: None if r.url.startswith((live.url, "data:")) else self.problems.append(r.url)
        )
        self.page.goto(live.url)

    def wait(self, snapshots: int) -> None:
        self.page.wait_for_selector(f'html[data-snapshots="{snapshots}"]', state="attached", timeout=10_000)

    def text(self, selector: str) -> str:
        return str(self.page.inner_text(selector))

    def points(self, figure: str) -> list[int]:
        script = "n => n.map(x => x.getAttribute('d'))"
        paths = self.page.eval_on_selector_all(f"#{figure} path.line", script)
        assert not any("NaN" in path for path in paths)
        return [path.count("L") + 1 for path in paths]


@pytest.fixture
def live() -> Iterator[LivePage]:
    with LivePage() as page:
        page.publish("run", {"title": NAME, "setting": "100Mbit/s · 40ms RTT"})
        page.publish("phase", {"text": "traffic"})
        yield page


@pytest.fixture
def opened(browser: Any, live: LivePage) -> Iterator[Opened]:
    page = Opened(browser, live)
    yield page
    page.page.close()
    assert page.problems == []


def test_the_page_shows_the_numbers(live: LivePage, opened: Opened) -> None:
    for second in range(5):
        live.publish("snapshot", snapshot(float(second)))
    opened.wait(5)
    assert opened.text("#title") == NAME
    assert opened.text("#phase") == "traffic"
    assert (opened.text("#rate"), opened.text("#used")) == ("96.0 Mbit/s", "96 % of 100.0 Mbit/s")
    assert (opened.text("#queue"), opened.text("#filled")) == ("250 kB", "50 % of the buffer")
    assert (opened.text("#drops"), opened.text("#ratio")) == ("100", "1 % of the packets")
    assert (opened.text("#left"), opened.text("#time")) == ("26 s", "4 s elapsed, 2 flows running")
    rows = [row.split("\t") for row in opened.text("#flows tbody").splitlines()]
    assert rows == [["bbr-1", "bbr", "72.0", "75 %", "60"], ["cubic-1", "cubic", "24.0", "25 %", "40"]]
    assert (opened.points("rates"), opened.points("depth")) == ([5, 5, 5], [5])
    styles = opened.page.eval_on_selector_all("#rates path.line", "n => n.map(x => x.getAttribute('style'))")
    assert [style.split(";")[0] for style in styles] == [f"stroke:var(--c{number})" for number in (0, 1, 6)]
    names = opened.page.eval_on_selector_all("#rates svg text", "n => n.map(x => x.textContent)")
    assert {"bbr-1", "cubic-1", "all flows", "rate of the link"} <= set(names)


def test_marks_are_shown_of_links_that_mark(live: LivePage, opened: Opened) -> None:
    live.publish("snapshot", snapshot(1.0, {"ce_marks": None}))
    opened.wait(1)
    assert not opened.page.is_visible("#marked")
    live.publish("snapshot", snapshot(2.0, {"ce_marks": 198}))
    opened.wait(2)
    assert (opened.text("#marks"), opened.text("#marked-ratio")) == ("198", "2 % of the packets that left")


def test_the_page_follows(live: LivePage, opened: Opened) -> None:
    live.publish("snapshot", snapshot(1.0))
    opened.wait(1)
    live.publish("snapshot", snapshot(2.0, {"rate_bps": 12_340_000.0, "drops": 101}))
    opened.wait(2)
    assert (opened.text("#rate"), opened.text("#drops")) == ("12.3 Mbit/s", "101")
    live.publish("run", {"title": "the next run", "setting": ""})
    live.publish("snapshot", snapshot(0.5))
    opened.wait(1)
    assert opened.text("#title") == "the next run"
    live.publish("end", {})
    opened.page.get_by_text("The run is over.").wait_for()


def test_the_report_can_be_read_when_the_server_is_gone(browser: Any) -> None:
    html = "<!doctype html><title>r</title><h1>The report</h1><script>document.body.dataset.ran = 'yes'</script>"
    with LivePage() as live:
        live.publish("run", {"title": NAME, "setting": ""})
        opened = Opened(browser, live)
        opened.page.wait_for_selector("#title:has-text('bbr')")
        assert not opened.page.is_visible("#report")
        live.publish("ended", {"run": 0, "status": "complete", "remaining_s": None})
        live.publish("report", {"run": 0, "html": html})
    opened.page.get_by_text("The run is over.").wait_for()
    with opened.page.expect_popup() as popup:
        opened.page.click("#report")
    assert popup.value.inner_text("h1") == "The report"
    assert popup.value.evaluate("document.body.dataset.ran") == "yes"
    opened.page.close()
    assert opened.problems == []


def test_a_rate_that_varies_is_a_curve(live: LivePage, opened: Opened) -> None:
    """Of the four readings the first has no time before it to be a mean of."""
    for second, offered in enumerate((100_000_000, 80_000_000, 40_000_000, 80_000_000)):
        live.publish(
            "snapshot", snapshot(float(second), {"link_bps": offered, **({} if second else {"rate_bps": None})})
        )
    opened.wait(4)
    assert opened.points("rates") == [3, 4, 4, 3]
    assert "(link)" in opened.text("#rates")
    assert opened.page.locator("#rates .reference").count() == 0


def test_what_is_not_known_is_a_dash(live: LivePage, opened: Opened) -> None:
    """The first snapshot of a target without a byte counter and without depth, of an experiment without a known end."""
    unknown = {"rate_bps": None, "queue_bytes": None, "drops": None}
    flows = [{**flow, "rate_bps": None, "drops": None} for flow in snapshot(0)["flows"]]
    live.publish("snapshot", snapshot(0.0, unknown, remaining_s=None, flows=flows))
    opened.wait(1)
    assert [opened.text(f"#{name}") for name in ("rate", "queue", "drops", "left")] == [DASH] * 4
    assert opened.text("#flows tbody").splitlines()[0].split("\t") == ["bbr-1", "bbr", *[DASH] * 3]


def test_many_flows_become_groups(live: LivePage, opened: Opened) -> None:
    flows = [{**snapshot(0)["flows"][0], "name": f"bbr-{number}"} for number in range(100)]
    for second in range(3):
        live.publish("snapshot", snapshot(float(second), flows=flows))
    opened.wait(3)
    assert [row.split("\t")[0] for row in opened.text("#flows tbody").splitlines()] == ["bbr", "cubic"]
    assert opened.points("rates") == [3, 3, 3]


def test_runs_at_once_are_all_there(live: LivePage, opened: Opened) -> None:
    """The first one under way is shown until the reader chooses another; what comes late sees the same."""
    live.publish("runs", {"titles": ["[1/4] a", "[2/4] b", "[3/4] c", "[4/4] d"]})
    for number, rate_bps in ((0, 10e6), (1, 20e6)):
        live.publish("run", {"run": number, "title": f"run {number}", "setting": f"setting {number}"})
        live.publish("phase", {"run": number, "text": "traffic"})
        live.publish("snapshot", {**snapshot(1.0, {"rate_bps": rate_bps}), "run": number})
        live.publish("pace", {"run": number, "time_s": 1.0, "total_s": 30.0, "remaining_s": 70.0 + number})
    opened.wait(1)

    def rows(page: Opened) -> list[list[str]]:
        return [row.split("\t") for row in page.text("#runs tbody").splitlines()]

    assert rows(opened) == [
        ["run 0", "traffic", "1.0 s of 30 s", "70 s"], ["run 1", "traffic", "1.0 s of 30 s", "71 s"],
        ["[3/4] c", "waiting", DASH, DASH], ["[4/4] d", "waiting", DASH, DASH],
    ]  # fmt: skip
    assert opened.text("#progress") == "0 of 4 ended, 2 under way"
    assert (opened.text("#title"), opened.text("#rate"), opened.text("#left")) == ("run 0", "10.0 Mbit/s", "70 s")
    opened.page.click("#runs tbody tr:nth-child(2) button")
    assert (opened.text("#title"), opened.text("#rate"), opened.text("#left")) == ("run 1", "20.0 Mbit/s", "71 s")
    # What one run does leaves the other's curves alone.
    live.publish("snapshot", {**snapshot(2.0, {"rate_bps": 20e6}), "run": 1})
    opened.wait(2)
    live.publish("ended", {"run": 0, "status": "complete", "remaining_s": 140.0})
    opened.page.get_by_text("1 of 4 ended, 1 under way, about 140 s left").wait_for()
    assert rows(opened)[0][0] == "run 1" and ["run 0", "complete", DASH, DASH] in rows(opened)
    assert opened.text("#title") == "run 1"
    late = Opened(opened.page.context.browser, live)
    late.wait(2)
    assert late.text("#title") == "run 1" and ["[1/4] a", "complete", DASH, DASH] in rows(late)
    late.page.close()
    assert late.problems == []
    live.publish("end", {})
    opened.page.get_by_text("All runs are over.").wait_for()


@pytest.mark.parametrize(("scheme", "paper"), [("light", "rgb(253, 253, 252)"), ("dark", "rgb(20, 22, 26)")])
def test_it_has_the_reports_style(browser: Any, live: LivePage, scheme: str, paper: str) -> None:
    opened = Opened(browser, live, color_scheme=scheme, viewport={"width": 360, "height": 700})
    live.publish("snapshot", snapshot(1.0))
    opened.wait(1)
    assert opened.page.evaluate("getComputedStyle(document.body).backgroundColor") == paper
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 360
    opened.page.close()
    assert opened.problems == []
