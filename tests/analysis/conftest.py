# SPDX-License-Identifier: Apache-2.0
"""Shared runs of known truth; `synthetic` is importable from every test of this folder."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import synthetic
from narrows_analysis import Summary, analyze_run


@pytest.fixture(scope="session")
def competition(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, synthetic.Truth, Summary]:
    """Two flows of unequal aggressiveness, analysed."""
    run_dir = tmp_path_factory.mktemp("runs") / "competition"
    truth = synthetic.write_run(run_dir, synthetic.two_flows(12.0))
    return run_dir, truth, analyze_run(run_dir)
