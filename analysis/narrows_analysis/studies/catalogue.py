# SPDX-License-Identifier: Apache-2.0
"""All of our studies by name."""

from __future__ import annotations

from narrows_analysis.studies.model import Study
from narrows_analysis.studies.names import NAMES, OFFERS

STUDIES: dict[str, Study] = {name: OFFERS[name][0].load() for name in NAMES}
