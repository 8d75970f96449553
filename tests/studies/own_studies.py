# SPDX-License-Identifier: Apache-2.0
"""The studies of this repository, by name, and where their experiments are."""

from __future__ import annotations

from pathlib import Path

from narrows_studies import papers
from narrows_studies.names import OFFERS
from narrows_studies.running.catalogue import find_study

STUDIES = {name: find_study(name) for name in OFFERS}
EXPERIMENTS = Path(papers.__file__).parent / "experiments"
