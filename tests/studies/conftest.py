# SPDX-License-Identifier: Apache-2.0
"""Makes `synthetic`, the runs of known truth of tests/analysis, importable."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "analysis"))
