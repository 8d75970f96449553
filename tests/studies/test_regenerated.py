# SPDX-License-Identifier: Apache-2.0
"""A point of a study can be made again from what is kept of it, to the bit."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from narrows.virtual.kernels import DEFAULT, config_digest, find
from narrows_analysis.study_results import read_variants
from narrows_studies.model import Study, StudyFigure
from narrows_studies.running.catalogue import study_points
from narrows_studies.running.senders import guests
from script_modules import load_script

ROOT = Path(__file__).parents[2]
TINY: dict[str, Any] = {
    "name": "tiny",
    "bottleneck": {"rate": "10Mbit", "rtt": "20ms", "buffer": "1bdp"},
    "flows": [{"cca": "bbr", "duration": "1s"}, {"cca": "cubic", "duration": "1s"}],
    "repeat": 2,
}
# Long enough for a kernel to renew its random numbers several times, of which BBR draws.
LONG = {
    **TINY,
    "bottleneck": {"rate": "2Mbit", "rtt": "20ms", "buffer": "4bdp"},
    "flows": [{"cca": "bbr", "duration": "40s"}, {"cca": "cubic", "duration": "40s"}],
    "repeat": 1,
}
# A point made by whatever checkout it is started in, and written where it is asked for.
MAKES_IT = """
import importlib.util, sys
from pathlib import Path
import narrows
from narrows_studies.running.catalogue import study_points
from narrows_studies.running.senders import guests
from narrows_analysis.study_results import Results
from narrows_studies.model import Study, StudyFigure
from narrows_analysis.study_results import write_results
checkout, experiments, out = map(Path, sys.argv[1:])
assert Path(narrows.__file__).is_relative_to(checkout), narrows.__file__
spec = importlib.util.spec_from_file_location("regenerate", checkout / "scripts" / "regenerate.py")
script = importlib.util.module_from_spec(spec)
spec.loader.exec_module(script)
study = Study("tiny", "A", "B", "C", (StudyFigure("1", "tiny", "title"),))
(point,) = study_points(study, quick=False, root=experiments)
write_results(out, Results("tiny", "quick", (script.again(study, point, guests(["default"])[0]),)))
"""
STUDY = Study("tiny", "A", "B", "C", (StudyFigure("1", "tiny", "title"),))


@pytest.fixture(scope="module")
def script() -> Any:
    return load_script(ROOT / "scripts" / "regenerate.py")


@pytest.mark.long
@pytest.mark.needs("repeatable-kernel")
def test_a_point_is_made_again_to_the_bit(script: Any, tmp_path: Path) -> None:
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "tiny.yaml").write_text(yaml.safe_dump(TINY))
    (sender,) = guests([DEFAULT])
    first, second = study_points(STUDY, quick=False, root=tmp_path)
    then = script.again(STUDY, first, sender)
    made = then.provenance
    assert made["seed"] == first.point.experiment.seed
    assert made["kernel_config_sha256"] == config_digest(find(DEFAULT))
    assert made["kernel"] == sender.release and made["version"]
    assert made["rtt_s"] == first.point.experiment.all_links["bottleneck"].rtt / 1e9
    assert then.measures["utilization"] is not None and len(then.measures) > 50
    assert script.compare(then, script.again(STUDY, first, sender)) == ""
    # Another repetition is another run.
    assert script.compare(then, script.again(STUDY, second, sender)) != ""


@pytest.mark.needs("seeded-kernel", "stress")
def test_a_checkout_elsewhere_makes_the_same_point(script: Any, tmp_path: Path) -> None:
    """Paths are in a guest's memory, and it brings those below /tmp back: neither may reach its clock or its dice."""
    elsewhere = tmp_path / "a-checkout-whose-path-is-of-another-length"
    for place in ("control_plane/narrows", "analysis/narrows_analysis", "analysis/narrows_formats", "scripts"):
        shutil.copytree(ROOT / place, elsewhere / place, ignore=shutil.ignore_patterns("__pycache__"), symlinks=False)
    (elsewhere / "target").symlink_to(ROOT / "target")
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "tiny.yaml").write_text(yaml.safe_dump(LONG))
    found = []
    for number, checkout in enumerate((ROOT, elsewhere)):
        out = tmp_path / f"{number}.parquet"
        subprocess.run(
            [sys.executable, "-c", MAKES_IT, checkout, tmp_path, out],
            env={**os.environ, "PYTHONPATH": f"{checkout / 'control_plane'}:{checkout / 'analysis'}"},
            check=True,
            timeout=120,
        )
        found.append(read_variants(out)[0].points[0])
    assert script.compare(*found) == ""


def test_what_is_not_the_same_is_named(script: Any) -> None:
    point = script.MeasuredPoint("loss", {"x": "1"}, 1, {"loss_ratio": 0.1, "jain": None, "cpu_s": 3.0})
    assert script.compare(point, replace(point, measures={**point.measures, "cpu_s": 9.0})) == ""
    said = script.compare(point, replace(point, measures={"loss_ratio": 0.100001, "jain": None}))
    assert said.endswith("1 of 2 measures differ: loss_ratio 0.1 is now 0.100001")
