# SPDX-License-Identifier: Apache-2.0
"""`narrows study new` writes a study that can be judged and run."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

import pytest
from narrows.errors import InputError
from narrows.experiment.planning import make_plan
from narrows_analysis.study_results import MeasuredPoint
from narrows_studies.evaluate import evaluate
from narrows_studies.running.beginning import PAPERS, PROJECT, begin
from narrows_studies.running.catalogue import study_points
from script_modules import load_script

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / PAPERS / "experiments").mkdir(parents=True)
    shutil.copy(REPOSITORY / PROJECT, tmp_path / PROJECT)
    return tmp_path


def load(path: Path) -> dict[str, object]:
    return vars(load_script(path))


def test_a_new_study_is_one(checkout: Path) -> None:
    written = begin("cardwell2016", checkout)
    assert all(path.exists() for path in written)
    study = load(written[0])["STUDY"]
    assert study.name == "cardwell2016"  # type: ignore[attr-defined]
    for quick, count in ((True, 12), (False, 40)):
        points = study_points(study, quick, root=written[1].parents[1])  # type: ignore[arg-type]
        assert len(points) == count
        make_plan(points[0].point.experiment)
    # Its statements are about points that its experiment has.
    made = [MeasuredPoint(one.experiment, one.parameters, one.point.repetition, {"loss_ratio": 0.1}) for one in points]
    verdicts = [evaluate(one, made).verdict for one in study.figures[0].statements]  # type: ignore[attr-defined]
    assert verdicts == ["agrees", "differs"]
    # It is added as the others are: one line more.
    project, before = ((place / PROJECT).read_text() for place in (checkout, REPOSITORY))
    studies = tomllib.loads(project)["project"]["entry-points"]["narrows.studies"]
    assert studies["cardwell2016"] == "narrows_studies.papers.cardwell2016:STUDY"
    assert project.replace(f'cardwell2016 = "{studies["cardwell2016"]}"\n', "") == before


@pytest.mark.parametrize("name", ["Cardwell", "2016", "a-b", "", "ware2019", "../x"])
def test_a_name_that_is_none_or_taken_is_refused(checkout: Path, name: str) -> None:
    before = sorted(checkout.rglob("*"))
    with pytest.raises(InputError, match="allowed: "):
        begin(name, checkout)
    assert sorted(checkout.rglob("*")) == before


def test_nothing_is_written_where_there_is_no_checkout(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a checkout of Narrows"):
        begin("cardwell2016", tmp_path)
    assert not list(tmp_path.iterdir())
