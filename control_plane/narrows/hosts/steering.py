# SPDX-License-Identifier: Apache-2.0
"""Which processor handles what an interface in a namespace receives (receive packet steering).

veth leaves it to the processor that sends. When a sender or a thread of the switch moves to another one, its frames can
be reordered, and TCP retransmits spuriously. With one processor for an interface, as with a NIC that has one
queue, frames stay in order.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping

from narrows.hosts.links import End, run
from narrows.hosts.read_back import require

# /sys shows the interfaces of the namespace in which it was mounted: `ip netns exec` does that.
STEER = """
while [ $# -gt 0 ]; do
    for file in "/sys/class/net/$1/queues"/rx-*/rps_cpus; do
        echo "$2" > "$file" && echo "$1 $(cat "$file")" || exit 1
    done
    shift 2
done
"""


def spread(cables: Mapping[int, tuple[End, End]]) -> dict[End, int]:
    """Give each end of cables, by number, a processor that this process may use, the two of a cable different ones.

    Raises:
        RunError: see `steer`.
    """
    allowed = sorted(os.sched_getaffinity(0))
    chosen = {
        end: allowed[(number + side) % len(allowed)] for number, ends in cables.items() for side, end in enumerate(ends)
    }
    by_namespace: dict[str, dict[str, int]] = defaultdict(dict)
    for end, processor in chosen.items():
        by_namespace[end.namespace][end.interface] = processor
    for namespace, processors in by_namespace.items():
        steer(namespace, processors)
    return chosen


def steer(namespace: str, processors: Mapping[str, int]) -> None:
    """Give each of these interfaces in a namespace a processor.

    Raises:
        RunError: there is no such interface, the kernel refuses, or another setting is read back.
    """
    words = [word for interface, processor in processors.items() for word in (interface, _mask(processor))]
    shown = run(["ip", "netns", "exec", namespace, "sh", "-c", STEER, "steer", *words])
    for interface, found in (line.split() for line in shown.splitlines()):
        asked = {"rps_cpus": f"{1 << processors[interface]:x}"}
        require(f"{namespace}/{interface}", asked, {"rps_cpus": f"{int(found.replace(',', ''), 16):x}"})


def _mask(processor: int) -> str:
    """A processor as the kernel reads sets of them: hexadecimal, with a comma before each eight digits."""
    digits = f"{1 << processor:x}"
    first = len(digits) % 8
    return ",".join(filter(None, (digits[:first], *(digits[at : at + 8] for at in range(first, len(digits), 8)))))
