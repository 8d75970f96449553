# SPDX-License-Identifier: Apache-2.0
"""A hook of mkdocs: pages and plots of published studies, made from the results that the repository keeps of them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File
from narrows_analysis.study_results import read_variants
from narrows_studies.names import OFFERS
from narrows_studies.page import FIGURES, RESULTS, VARIANTS, render, results_path
from narrows_studies.plots import draw_all
from narrows_studies.running.catalogue import find_study

KEPT = Path(__file__).resolve().parents[1] / "docs" / "studies"


def on_files(files: Any, config: Any, **_: object) -> Any:
    """The site's files, with all pages of studies."""
    made = Path(config.site_dir).parent / "studies"
    shutil.rmtree(made, ignore_errors=True)
    for folder in (RESULTS, FIGURES):
        shutil.copytree(KEPT / folder, made / folder, dirs_exist_ok=True)
    for name in OFFERS:
        study = find_study(name)
        for results in read_variants(results_path(study, made)):
            if results.variant in VARIANTS:
                # What is drawn from runs, which are not kept, is left out.
                draw_all(study, results, made / "runs", made / FIGURES)
        for page, text in render(study, made).items():
            (made / page).parent.mkdir(exist_ok=True)
            (made / page).write_text(text, encoding="utf-8")
    for path in sorted(made.rglob("*.*")):
        if path.suffix in (".md", ".png"):
            place = f"studies/{path.relative_to(made).as_posix()}"
            if (kept := files.get_file_from_path(place)) is not None:
                files.remove(kept)
            files.append(File.generated(config, place, abs_src_path=str(path)))
    return files
