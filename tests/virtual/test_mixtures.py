# SPDX-License-Identifier: Apache-2.0
"""Features that meet, drawn at random: whatever an experiment asks for, its links obey their laws.

NARROWS_CASES sets how many; `make stress` runs some hundred.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import link_laws
import pytest
import yaml
from drawn import try_each
from mixtures import mixtures, write_files
from test_in_a_guest import start

CASES = int(os.environ.get("NARROWS_CASES", "0"))
SEED = int(os.environ.get("NARROWS_SEED", "1"))
FEW = 8
PATIENCE_S = 600.0
NEEDS = pytest.mark.needs("guest-kernel", "narrows-softswitch", "narrows-collector", "ip")


def obey(count: int, first_seed: int) -> Counter[str]:
    """Run so many mixtures; returns what was tried with them."""
    tried = Counter[str]()

    def attempt(mixture: dict[str, Any]) -> None:
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            write_files(directory)
            code = start(directory, yaml.safe_dump(mixture)).wait(PATIENCE_S)
            assert code == 0, (directory / "said").read_text()
            tried.update(link_laws.check(directory / "out"))
            tried["mixtures"] += 1

    try_each(mixtures(), count, first_seed, attempt)
    return tried


@pytest.mark.long
@NEEDS
def test_a_few_mixtures_obey_the_laws() -> None:
    tried = obey(FEW, 1)
    assert tried["mixtures"] == FEW
    assert min(tried[law] for law in ("started_after_others", "depths", "figures", "datagrams")) > 0, tried


@NEEDS
@pytest.mark.needs("stress")
def test_hundreds_of_mixtures() -> None:
    tried = obey(CASES, SEED)
    print(f"cases: {tried['mixtures']}: {dict(tried)}")
    assert tried["mixtures"] == CASES
