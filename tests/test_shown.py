# SPDX-License-Identifier: Apache-2.0
"""What README and docs show of runs and measurements is what scripts/shown.py makes of them."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest
from script_modules import load_script

SCRIPT = Path(__file__).parents[1] / "scripts" / "shown.py"


@pytest.fixture
def shown() -> ModuleType:
    """The script."""
    return load_script(SCRIPT)


def test_tables_are_those_of_the_results(shown: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert shown.main(["--check"]) == 0, capsys.readouterr().out
    names = {found["name"] for page in shown.PAGES for found in shown.SHOWN.finditer(page.read_text())}
    assert names == set(shown.MADE)


def test_what_twenty_seconds_and_a_packet_take_is_what_was_measured(shown: ModuleType) -> None:
    """In the README's first sentence, and where it is explained."""
    fixed, pace = (
        shown.median(shown.benchmark(shown.VIRTUAL, "virtual"), case, "wall_ratio")
        for case in ("Fixed: boot to first packet, and end", "100 Mbit/s, 2 flows (the demo)")
    )
    seconds = f"{fixed + 20 * pace:.0f} s"
    assert f"20 s at 100 Mbit/s in about {seconds}, without root" in (shown.ROOT / "README.md").read_text()
    page = (shown.ROOT / "docs" / "repeatability.md").read_text()
    assert f"20 s of 100 Mbit/s (162,000 packets) in {seconds}" in page
    case = "1, 1,000, 1514 B"
    instructions = shown.benchmark(shown.INSTRUCTIONS, "instructions")["instructions_per_packet"][case]
    packets = shown.median(shown.benchmark(shown.PIPELINE, "pipeline"), case, "packets_per_s")
    assert (
        f"{round(instructions, -2):,.0f} instructions; {packets / 1e6:.1f} million packets a second in replay" in page
    )
    forwarded = shown.median(shown.benchmark(shown.FORWARDING, "forwarding"), "Narrows", "goodput_bps")
    assert f"| {forwarded / 1e9:.1f} Gbit/s of full-size frames" in page


def test_how_far_tbf_is_from_its_rate_is_what_was_measured(shown: ModuleType) -> None:
    part = shown.benchmark(shown.TIMING, "accuracy")["100000000"]
    short = -shown.median(part, shown.TBF, "rate_error_percent")
    assert f"it is {int(short)} % short at 100 Mbit/s" in (shown.ROOT / "docs" / "other-tools.md").read_text()


def test_how_long_setting_up_takes_is_what_was_measured(shown: ModuleType) -> None:
    took_s = {row["name"]: row["value"] for row in shown.benchmark(shown.FIRST, "first-minutes")["figures"]}
    set_up_s = took_s["make demo, from nothing"] - took_s["- the run: testbed, 20 s of traffic, removal"]
    assert round(set_up_s / 60) == 2
    assert "On two cores it takes about two minutes" in (shown.ROOT / "docs" / "install.md").read_text()


def test_the_newest_result_is_shown_that_was_measured(
    shown: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = {"conditions": "As it was.", "runs": {"Linux": [{}] * 5}, "spread": {"Linux": {}}}
    files = {"2026-11-24-l4s": part, "2026-11-25-l4s-again": part, "2026-11-26-l4s": {"skipped": ["no kernel"]}}
    for name, one in files.items():
        text = json.dumps({"host": {"date": name[:10]}, "benchmarks": {"l4s": one}})
        (tmp_path / f"{name}.json").write_text(text)
        (tmp_path / f"{name}.md").write_text(f"# Benchmark results\n\n## L4S\n\n| {name} |\n|---|\n\nCommands\n")
    monkeypatch.setattr(shown, "RESULTS", tmp_path)
    assert shown.l4s() == (
        "| 2026-11-25-l4s-again |\n|---|\n\nMedian (least to greatest), n = 5, "
        "[2026-11-25-l4s-again](../benchmarks/results/2026-11-25-l4s-again.md). As it was.\n"
    )


def test_another_number_is_noticed_and_mended(
    shown: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "README.md"
    text = (shown.ROOT / "README.md").read_text()
    page.write_text(text.replace("| 78\N{NO-BREAK SPACE}µs |", "| 77\N{NO-BREAK SPACE}µs |"))
    monkeypatch.setattr(shown, "PAGES", [page])
    monkeypatch.setattr(shown, "ROOT", tmp_path)
    assert (shown.main(["--check"]), capsys.readouterr().out) == (1, "README.md\n")
    assert shown.main([]) == 0
    assert page.read_text() == text
    assert shown.main(["--chekc"]) == 2
