# SPDX-License-Identifier: Apache-2.0
"""A veth link in a namespace of its own, frames sent over it at a steady rate, and the highest rate that is held."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from narrows.hosts import links
from narrows.paths import binary
from narrows_formats.programs import COLLECTOR

# The link's two ends: where frames are sent, and where they are measured.
NEAR, FAR = "near0", "far0"
# A sender that is slower than this part of what it was asked for is the limit itself.
ON_TIME = 0.95


@contextmanager
def veth_link(purpose: str) -> Iterator[str]:
    """The namespace with both ends, up; gone with the block."""
    name = f"nwdev-bench-{purpose}-{os.getpid()}"
    with links.namespace(name):
        links.add_cable(links.End(name, NEAR), links.End(name, FAR))
        yield name


def inside(namespace: str, *command: str) -> list[str]:
    """The command line that runs a command in a namespace."""
    return ["ip", "netns", "exec", namespace, *command]


def replay(namespace: str, capture: Path, rate: int) -> dict[str, Any]:
    """Send a capture's frames once by `NEAR`; ``frames`` that were sent and their ``rate`` a second."""
    command = inside(namespace, str(binary(COLLECTOR)), "replay", str(capture))
    sent: dict[str, Any] = json.loads(links.run([*command, "--interface", NEAR, "--rate", str(rate)]))
    return sent


def highest_held(rates: Sequence[int], attempt: Callable[[int], tuple[dict[str, Any], int]]) -> float:
    """The highest of ascending rates a second of which nothing was lost; 0 if there is none.

    Args:
        rates: what to try, until one is not held.
        attempt: sends at a rate; returns what `replay` did, and the frames that arrived.
    """
    held = 0.0
    for rate in rates:
        sent, arrived = attempt(rate)
        if arrived < sent["frames"] or sent["rate"] < ON_TIME * rate:
            break
        held = float(sent["rate"])
    return held
