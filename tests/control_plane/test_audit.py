# SPDX-License-Identifier: Apache-2.0
"""scripts/audit.py: which versions an advisory in OSV's format is about."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "audit.py"
SPEC = importlib.util.spec_from_file_location("audit", SCRIPT)
assert SPEC is not None and SPEC.loader is not None
audit = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(audit)


def entry(*events: dict[str, str], versions: tuple[str, ...] = ()) -> dict[str, Any]:
    """An advisory about these events and versions."""
    return {"affected": [{"ranges": [{"type": "ECOSYSTEM", "events": list(events)}], "versions": list(versions)}]}


@pytest.mark.parametrize(
    ("version", "is_affected"),
    [
        ("0.9", False),
        ("1.0", True),
        ("1.9.1", True),
        ("1.10", False),
        ("2.0", True),
        ("2.5.post1", True),
        ("3.0", False),
    ],
)
def test_ranges_of_versions(version: str, is_affected: bool) -> None:
    two = entry({"introduced": "1.0"}, {"fixed": "1.10"}, {"introduced": "2.0"}, {"fixed": "3.0"})
    assert audit.affects(two, version) == is_affected
    assert audit.affects(entry(versions=("1.5",)), version) is False


def test_the_last_affected_version_is_affected() -> None:
    last = entry({"introduced": "0"}, {"last_affected": "2.4"})
    assert [audit.affects(last, version) for version in ("2.3", "2.4", "2.4.1")] == [True, True, False]
    assert audit.affects(entry(versions=("1.5",)), "1.5")
