# SPDX-License-Identifier: Apache-2.0
"""What all tests share: runs of known truth, a network for a live switch, and an interrupt key that works."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import synthetic
from command import narrows
from harness import Network
from hypothesis import settings
from narrows_analysis import analyze_run
from needs import (
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_make_collect_report,
    pytest_runtest_makereport,
    pytest_runtest_setup,
    pytest_terminal_summary,
    require,
)

__all__ = [
    "narrows",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_make_collect_report",
    "pytest_runtest_makereport",
    "pytest_runtest_setup",
    "pytest_terminal_summary",
]

# How long a case takes says nothing: the machine may be busy.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
# A test run in the background of a script inherits an ignored SIGINT, and so would the programs that tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)
# Whoever ends a test run ends it as the interrupt key does: fixtures remove their namespaces and processes.
signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.fixture(scope="session")
def competition(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, synthetic.Truth, Any]:
    """Two flows of unequal aggressiveness, analysed."""
    run_dir = tmp_path_factory.mktemp("runs") / "competition"
    truth = synthetic.write_run(run_dir, synthetic.two_flows(12.0))
    return run_dir, truth, analyze_run(run_dir)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, without what it would ask the network for; while it is there, asyncio.run cannot be called."""
    from playwright.sync_api import sync_playwright

    flags = [
        "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
        "--disable-component-update", "--disable-sync",
    ]  # fmt: skip
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=flags)
        yield browser
        browser.close()


@pytest.fixture
def network() -> Iterator[Network]:
    """A namespace for each host and for the softswitch; gone afterwards."""
    require("root")
    network = Network()
    try:
        network.up()
        yield network
    finally:
        network.down()
