# SPDX-License-Identifier: Apache-2.0
"""Published points that were run again: what replaces them, and what stays of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from narrows.errors import InputError
from narrows_analysis.study_results import MeasuredPoint, Results, put_results, read_results
from narrows_studies.page import kept_page, results_path
from narrows_studies.renewal import renew
from own_studies import STUDIES
from script_modules import load_script

ROOT = Path(__file__).parents[2]
CLAYPOOL = STUDIES["claypool2019"]
SETTING = {"bottleneck.rate": "80Mbit", "bottleneck.buffer": "0.5bdp", "flows.bbr.count": "4"}
MACHINE = {"target": "soft", "kernel": "6.1", "cpus": 2, "published": {"points": 9, "traffic_s": 60.0, "left_s": 5.0}}


def points(experiment: str, losses: Sequence[float], **made: Any) -> tuple[MeasuredPoint, ...]:
    return tuple(
        MeasuredPoint(experiment, SETTING, number, {"loss_ratio": loss}, f"{experiment}/{number}", made)
        for number, loss in enumerate(losses, 1)
    )


def results(*measured: MeasuredPoint, **other: Any) -> Results:
    experiments = {point.experiment: {"repeat": len(measured)} for point in measured}
    return replace(Results("claypool2019", "quick", measured, {}, MACHINE, experiments), **other)


LOSS, STAGGERED = points("loss", (0.02, 0.02, 0.03)), points("staggered", (0.1, 0.1, 0.1))
KEPT = results(*LOSS, *STAGGERED, skipped={"loss/9": "an old reason", "staggered/9": "another"})
NEW = results(*points("loss", (0.11, 0.12, 0.11, 0.11), seed=7), skipped={"loss/8": "a new reason"})


def test_an_experiment_is_replaced_whole_and_its_former_points_stay() -> None:
    renewed, former = renew(KEPT, NEW, None)
    assert renewed.points == (*NEW.points, *STAGGERED)
    assert renewed.skipped == {"loss/8": "a new reason", "staggered/9": "another"}
    assert renewed.experiments == {"loss": {"repeat": 4}, "staggered": {"repeat": 6}}
    assert former.variant == "quick-former-jitter"
    assert former.points == LOSS and former.experiments == {"loss": {"repeat": 6}}


def test_both_machines_are_named_and_what_is_published_stays() -> None:
    elsewhere = {**MACHINE, "kernel": "7.3", "published": {"points": 1}}
    renewed, _ = renew(KEPT, replace(NEW, machine=elsewhere), None)
    assert renewed.machine == {**MACHINE, "kernel": "6.1, 7.3"}


def test_what_is_run_a_third_time_does_not_replace_the_former_points() -> None:
    renewed, former = renew(KEPT, NEW, None)
    more = results(*points("loss", (0.1,) * 5, seed=8), *points("staggered", (0.2,) * 3, seed=9))
    again, left = renew(renewed, more, former)
    assert again.points == more.points
    assert left.points == (*LOSS, *STAGGERED)


def test_fewer_points_than_there_were_are_refused() -> None:
    with pytest.raises(InputError, match="loss: lacks 1 of the 3 points that it replaces; allowed: all of them"):
        renew(KEPT, replace(NEW, points=NEW.points[1:]), None)
    with pytest.raises(InputError, match="results of claypool2019, full; allowed: of claypool2019, quick"):
        renew(KEPT, replace(NEW, variant="full"), None)


@pytest.fixture(scope="module")
def script() -> Any:
    return load_script(ROOT / "scripts" / "study_renew.py")


def test_a_page_has_the_verdicts_of_both(script: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "results").mkdir()
    path, new = results_path(CLAYPOOL, tmp_path), tmp_path / "new.parquet"
    put_results(path, KEPT)
    put_results(new, NEW)
    before = kept_page(CLAYPOOL, tmp_path)
    assert "former jitter" not in before
    assert "Of the quick variant all points of loss, staggered are of one default of the senders' jitter." in before
    command = ["claypool2019", str(new), "--kept", str(tmp_path)]
    assert script.main(command) == 0
    text = (tmp_path / "claypool2019.md").read_text(encoding="utf-8")
    assert capsys.readouterr().out == f"{tmp_path / 'claypool2019.md'}\n" and text == kept_page(CLAYPOOL, tmp_path)
    assert "Of the quick variant loss were run again with its present default. The 3 points that were there" in text
    # What has points of one only is named, with what adds the others.
    assert "Of the quick variant all points of staggered are of one default of the senders' jitter." in text
    assert "`narrows study claypool2019 --quick --out DIR`, then `scripts/study_renew.py claypool2019 " in text
    assert "3 of them have none of the other [variations](README.md#verdicts) either." in text
    # A loss of 11 %, within two points, is published: that of the new points, and not that of the former ones.
    (row,) = [line for line in text.splitlines() if line.startswith("| 7/half-bdp |")]
    assert row.count("former jitter: differs (n=3)") == 1 and "**agrees** (n=4)" in row
    # The rest has one verdict.
    assert all("former jitter" not in line for line in text.splitlines() if line.startswith("| 4b/"))
    found = read_results(path, "quick-former-jitter")
    assert found is not None and len(found.points) == 3


def test_results_that_do_not_fit_change_nothing(
    script: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "results").mkdir()
    path, new = results_path(CLAYPOOL, tmp_path), tmp_path / "new.parquet"
    put_results(path, KEPT)
    put_results(new, replace(NEW, points=NEW.points[1:]))
    before = path.read_bytes()
    assert script.main(["claypool2019", str(new), "--kept", str(tmp_path)]) == 2
    assert script.main(["claypool2019", str(new), "--kept", str(tmp_path), "--variant", "full"]) == 2
    assert "has no results; allowed: of claypool2019, full" in capsys.readouterr().err
    assert path.read_bytes() == before and not (tmp_path / "claypool2019.md").exists()
