# SPDX-License-Identifier: Apache-2.0
"""Seconds from a capture to every time series and summary.json: ``to_summary.py CAPTURE DIR RATE_BPS``.

Counted are the engine, as a process of its own, and all that Python does with its tables; not the start of this Python.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from narrows_analysis import SourceSettings, analyze_source


def main(arguments: list[str]) -> None:
    """Analyse and print the seconds."""
    capture, out, rate_bps = arguments
    started = time.monotonic()
    analyze_source(Path(capture), Path(out), SourceSettings(rate_bps=float(rate_bps)))
    print(time.monotonic() - started)


if __name__ == "__main__":
    main(sys.argv[1:])
