# SPDX-License-Identifier: Apache-2.0
"""Hostile result directories: analysed, or refused with a message that names the directory or file.

NARROWS_CASES sets how often, NARROWS_SEED with which changes.
"""

from __future__ import annotations

import copy
import json
import os
import random
import shutil
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from narrows_analysis import AnalysisError, analyze_run, write_report

pytestmark = pytest.mark.needs("narrows-collector")

SEEDS = sorted((Path(__file__).parents[1] / "formats").glob("*/run"))
CASES = int(os.environ.get("NARROWS_CASES", "8"))
SEED = int(os.environ.get("NARROWS_SEED", "1"))
VALUES: list[Any] = [
    None, True, "", "x", -1, 0, 2**31, 2**64, 10**400, 0.5, -0.0, float("inf"), float("nan"), 1e308, "1e400", "\0",
    "9" * 5000, "/etc/shadow", "../../../etc/passwd", "<script>alert(1)</script>", "javascript:alert(1)", [], {}, [[]],
    [None] * 50, {"a": {"b": []}},
]  # fmt: skip


def holders(data: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in JSON that holds a value."""
    for key, value in data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ():
        yield data, key
        yield from holders(value)


def change(chance: random.Random, path: Path) -> str:
    """Do something to a file; returns what."""
    kind = chance.choice(["value", "value", "value", "bytes", "bytes", "cut", "empty", "gone", "directory", "link"])
    content = path.read_bytes()
    match kind:
        case "value" if path.suffix == ".json":
            data = json.loads(content)
            for _ in range(chance.randint(1, 3)):
                places = list(holders(data))
                if not places:
                    break
                holder, key = chance.choice(places)
                holder[key] = copy.deepcopy(chance.choice(VALUES))
            path.write_text(json.dumps(data))
        case "cut":
            path.write_bytes(content[: chance.randint(0, len(content))])
        case "empty":
            path.write_bytes(b"")
        case "gone" | "directory" | "link":
            path.unlink()
            if kind == "directory":
                path.mkdir()
            if kind == "link":
                path.symlink_to(chance.choice(["/dev/zero", "/etc/shadow", path.name, "/proc/self/mem"]))
        case _:
            damaged = bytearray(content)
            for _ in range(chance.randint(1, 8)):
                if damaged:
                    damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
            path.write_bytes(bytes(damaged))
    return f"{path.name}: {kind}"


def test_hostile_results_are_analysed_or_refused(tmp_path: Path) -> None:
    """No other exception, and no script in a report."""
    chance = random.Random(SEED)
    ends: Counter[str] = Counter()
    for number in range(CASES):
        run = tmp_path / "run"
        shutil.copytree(chance.choice(SEEDS), run)
        # What an analysis has made is not read again; a report is.
        files = sorted(path for path in run.rglob("*") if path.is_file())
        changes = [change(chance, path) for path in chance.sample(files, chance.randint(1, 2))]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                analyze_run(run)
                write_report(run)
            ends["analysed"] += 1
            assert "<script>alert" not in (run / "report.html").read_text(), (number, changes)
        except AnalysisError as error:
            ends["refused"] += 1
            assert 0 < len(str(error)) < 5_000, (number, changes, str(error)[:300])
        except AssertionError:
            raise
        except Exception as error:
            raise AssertionError(f"case {number}: {changes}: {type(error).__name__}: {error}") from error
        shutil.rmtree(run)
    print(f"cases: {ends.total()}: {dict(ends)}")
    assert ends["analysed"] > 0 and ends["refused"] > 0
