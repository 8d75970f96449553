# SPDX-License-Identifier: Apache-2.0
"""What made a run (code, kernel, programs and files), by the names that provenance has, and how two runs differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from narrows_formats.programs import COLLECTOR, SOFTSWITCH

KERNEL_IMAGE = "kernel image"
# What any two runs have in common or differ in, and what people call it.
PROVENANCE_NAMES = {
    "version": "Narrows", "commit": "commit", "kernel": "kernel", "kernel_config_sha256": "kernel configuration",
    KERNEL_IMAGE: KERNEL_IMAGE, SOFTSWITCH: SOFTSWITCH, COLLECTOR: COLLECTOR,
}  # fmt: skip
# The code around it: a new version of it may go on with what an older one began.
CODE = ("version", "commit")
UNKNOWN = "that is not recorded"
# Of a digest: enough to tell two apart.
DIGITS = 12


def provenance(record: Mapping[str, Any]) -> dict[str, str]:
    """What a run was made by, from its run.json; what is not recorded is left out."""
    guest = record.get("virtual_time") or {}
    found = {
        "version": record.get("narrows_version"),
        "commit": record.get("commit"),
        "kernel": guest.get("release") or (record.get("host") or {}).get("kernel"),
        "kernel_config_sha256": guest.get("config_sha256"),
        **(record.get("programs") or {}),
    }
    return {name: value for name, value in found.items() if value is not None}


def difference(theirs: Mapping[str, str], ours: Mapping[str, str], leaving_out: Iterable[str] = ()) -> str:
    """How two runs differ in what made them, in words; empty if they do not.

    Of P4 programs and of users' programs, which differ from one experiment to another, only those that both have.
    """
    both = [name for name in theirs if name in ours and name not in PROVENANCE_NAMES]
    for name in [one for one in (*PROVENANCE_NAMES, *both) if one not in leaving_out]:
        if theirs.get(name) != ours.get(name):
            this, that = (_short(one[name]) if one.get(name) else UNKNOWN for one in (theirs, ours))
            return f"was made by {PROVENANCE_NAMES.get(name, name)} {this}, not {that}"
    return ""


def in_short(made: Mapping[str, str]) -> dict[str, str]:
    """What made a run, as people read it."""
    return {PROVENANCE_NAMES.get(name, name): _short(value) for name, value in made.items()}


def _short(value: str) -> str:
    """A value with the beginning of its digest, and what follows that."""
    digest, *rest = value.split("-", 1)
    return "-".join((digest[:DIGITS], *rest))
