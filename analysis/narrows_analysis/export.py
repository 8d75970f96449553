# SPDX-License-Identifier: Apache-2.0
"""Figures and tables as files for papers: SVG, PDF and PGF, CSV and LaTeX."""

from __future__ import annotations

import io
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from narrows_formats.decimals import DECIMAL

from narrows_analysis.errors import AnalysisError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

FIGURES = ("png", "svg", "pdf", "pgf")
TABLES = ("csv", "tex")
FORMATS = (*TABLES, *FIGURES)
# PGF needs TeX to measure its texts; matplotlib asks for this one.
TEX = "xelatex"
# Nothing in a file depends on when it was made.
METADATA: dict[str, dict[str, None]] = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}


# What TeX takes for more than itself, among it the comment that would hide the rest of a line.
_IN_TEX = str.maketrans(
    {
        **{sign: f"\\{sign}" for sign in "_%&#${}"},
        "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
        "<": r"\textless{}", ">": r"\textgreater{}",
    }
)  # fmt: skip


def in_tex(text: str) -> str:
    """The text as LaTeX shows it as it is."""
    return text.translate(_IN_TEX)


def parse_formats(text: str) -> tuple[str, ...]:
    """Formats from a list with commas.

    Raises:
        AnalysisError: one of them is not known, or needs a program that is not there.
    """
    wanted = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    for one in wanted:
        if one not in FORMATS:
            raise AnalysisError(f"format {one}: is not known; allowed: {', '.join(FORMATS)}")
    if "pgf" in wanted and shutil.which(TEX) is None:
        raise AnalysisError(f"format pgf: needs {TEX}; fix: apt-get install texlive-xetex, or take pdf")
    return wanted


def save_figure(figure: Figure, path: Path, kind: str) -> Path:
    """Write a figure in a format; ``path`` is without the suffix, which is the format's name."""
    target = path.with_name(f"{path.name}.{kind}")
    figure.savefig(target, format=kind, metadata=METADATA.get(kind))
    return target


def save_small_png(figure: Figure, target: Path | BinaryIO, dpi: int) -> None:
    """Write a figure for a page as PNG; with 64 colours, enough for its lines, it has a quarter of the bytes."""
    from PIL import Image  # Slow to import.

    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=dpi)
    with Image.open(drawn) as image:
        image.convert("RGB").quantize(64, dither=Image.Dither.NONE).save(target, "png", optimize=True)


def save_table(frame: pd.DataFrame, path: Path, kind: str) -> Path:
    """Write a table in a format; ``path`` is without the suffix, which is the format's name. LaTeX needs booktabs."""
    target = path.with_name(f"{path.name}.{kind}")
    if kind == "csv":
        frame.to_csv(target, index=False, float_format=DECIMAL)
    else:
        import pandas as pd  # Slow to import, and figures need it not.

        plain = frame.copy()
        texts = plain.select_dtypes(exclude="number").columns
        plain[texts] = plain[texts].astype(str).map(in_tex, na_action="ignore")
        plain.columns = pd.Index([in_tex(str(name).replace("_", " ")) for name in plain])
        plain.to_latex(target, index=False, float_format="%.4g", na_rep="--")
    return target
