# SPDX-License-Identifier: Apache-2.0
"""All studies by name."""

from __future__ import annotations

from importlib import import_module

from narrows_analysis.studies.model import Study
from narrows_analysis.studies.names import NAMES

STUDIES: dict[str, Study] = {name: import_module(f"narrows_analysis.studies.{name}").STUDY for name in NAMES}
