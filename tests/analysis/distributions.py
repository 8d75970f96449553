# SPDX-License-Identifier: Apache-2.0
"""Distributions as pip installs them: a module, and what says its name and entry points beside it."""

from __future__ import annotations

from pathlib import Path


def install(site: Path, name: str, module: str, entry_points: str) -> None:
    """Write a distribution of one module, both of that name, into a directory of ``sys.path``.

    Args:
        site: the directory.
        name: a Python identifier.
        module: its source.
        entry_points: as in ``entry_points.txt``.
    """
    (site / f"{name}.py").write_text(module)
    about = site / f"{name}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(entry_points)
