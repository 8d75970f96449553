# SPDX-License-Identifier: Apache-2.0
"""Seconds from a capture to every time series and summary.json: ``to_summary.py CAPTURE DIR RATE_BPS``.

Counted are the engine, as a process of its own, and all that Python does with its tables; not the start of this Python.
The first, uncounted time brings the file into the page cache and loads what is imported when it is needed.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from narrows_analysis import SourceSettings, analyze_source


def main(arguments: list[str]) -> None:
    """Analyse twice and print the seconds of the second time."""
    capture, out, rate_bps = arguments
    settings = SourceSettings(rate_bps=float(rate_bps))
    analyze_source(Path(capture), Path(out) / "uncounted", settings)
    started = time.monotonic()
    analyze_source(Path(capture), Path(out) / "counted", settings)
    print(time.monotonic() - started)


if __name__ == "__main__":
    main(sys.argv[1:])
