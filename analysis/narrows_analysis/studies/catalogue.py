# SPDX-License-Identifier: Apache-2.0
"""All of our studies by name."""

from __future__ import annotations

from narrows_formats import plugins

from narrows_analysis.studies.model import Study
from narrows_analysis.studies.names import NAMES, OFFERS

STUDIES: dict[str, Study] = {name: plugins.load(OFFERS[name][:1]) for name in NAMES}
