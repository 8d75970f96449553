# SPDX-License-Identifier: Apache-2.0
"""Records a command's terminal as an animated SVG, such as docs/images/demo.svg.

Usage: python scripts/screencast.py FILE.svg COMMAND..., with pyte (pip install pyte). Frames are what the terminal
showed every half second; waiting is shortened to a second.
"""

from __future__ import annotations

import html
import os
import pty
import select
import subprocess
import sys
import time
from itertools import groupby
from pathlib import Path

import pyte

COLUMNS, ROWS = 96, 24
STEP_S, LONGEST_S, LAST_S = 0.5, 1.0, 6.0
CHARACTER, LINE, MARGIN = 8.4, 18, 14
COLORS = {"default": "#e6e6e1", "black": "#1c1e21", "red": "#ff7b72", "green": "#7ee787", "brown": "#d29922",
          "blue": "#79c0ff", "magenta": "#d2a8ff", "cyan": "#56d4dd", "white": "#ffffff"}  # fmt: skip

Frame = tuple[str, ...]


def record(command: list[str]) -> list[tuple[float, Frame]]:
    """Frames with the seconds that each is shown."""
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.ByteStream(screen)
    screen.draw("$ " + " ".join(command))
    screen.linefeed()
    screen.carriage_return()
    leader, follower = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "LINES": str(ROWS)}
    process = subprocess.Popen(command, stdin=follower, stdout=follower, stderr=follower, env=environment)
    os.close(follower)
    shown: list[tuple[float, Frame]] = [(time.monotonic(), picture(screen))]
    while True:
        if select.select([leader], [], [], STEP_S)[0]:
            try:
                stream.feed(os.read(leader, 1 << 16))
            except OSError:  # the other end is closed
                break
        now, frame = time.monotonic(), picture(screen)
        if frame != shown[-1][1] and now - shown[-1][0] >= STEP_S:
            shown.append((now, frame))
    process.wait()
    shown.append((time.monotonic(), picture(screen)))
    ends = [at for at, _ in shown[1:]]
    lengths = [min(end - at, LONGEST_S) for (at, _), end in zip(shown, ends, strict=False)] + [LAST_S]
    return [(length, frame) for length, (_, frame) in zip(lengths, shown, strict=True)]


def picture(screen: pyte.Screen) -> Frame:
    """The lines of a screen as SVG text, empty where there is nothing."""
    lines = []
    for number in range(ROWS):
        row = [screen.buffer[number][column] for column in range(COLUMNS)]
        spans = ""
        position = 0
        for (color, bold), cells in groupby(row, key=lambda cell: (cell.fg, cell.bold)):
            text = "".join(cell.data for cell in cells)
            if text.strip():
                fill = COLORS.get(color, f"#{color}" if len(color) == 6 else COLORS["default"])
                weight = ' font-weight="bold"' if bold else ""
                spans += (
                    f'<tspan x="{MARGIN + position * CHARACTER:.1f}" fill="{fill}"{weight}>{html.escape(text)}</tspan>'
                )
            position += len(text)
        y = MARGIN + (number + 1) * LINE
        lines.append(f'<text y="{y}" xml:space="preserve">{spans}</text>' if spans else "")
    return tuple(lines)


def animate(frames: list[tuple[float, Frame]]) -> str:
    """One SVG: each line of a frame that differs from the one before is shown for its time."""
    total = sum(length for length, _ in frames)
    used = max(number + 1 for _, frame in frames for number in range(ROWS) if frame[number])
    width, height = COLUMNS * CHARACTER + 2 * MARGIN, used * LINE + 2 * MARGIN
    starts = [sum(length for length, _ in frames[:number]) for number in range(len(frames))]
    body = ""
    for number in range(used):
        lines = [(start, frame[number]) for start, (_, frame) in zip(starts, frames, strict=True)]
        for line, same in groupby(lines, key=lambda item: item[1]):
            begin = next(same)[0]
            later = [start for start, other in lines if start > begin and other != line]
            end = min(later, default=total)
            if line and (begin, end) == (0, total):
                body += f"{line}\n"
            elif line:
                keys = f"0;{begin / total:.4f};{end / total:.4f}" if begin else f"0;{end / total:.4f}"
                values = "hidden;visible;hidden" if begin else "visible;hidden"
                body += (
                    f'<g visibility="hidden">{line}<animate attributeName="visibility" dur="{total:.1f}s" '
                    f'repeatCount="indefinite" calcMode="discrete" keyTimes="{keys}" values="{values}"/></g>\n'
                )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}">\n'
        f'<rect width="100%" height="100%" rx="8" fill="#16181b"/>\n'
        f'<g font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="14">\n{body}</g>\n</svg>\n'
    )


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(animate(record(sys.argv[2:])), encoding="utf-8")
