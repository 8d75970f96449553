# SPDX-License-Identifier: Apache-2.0
"""A fake switch in a process of its own, for a namespace: ``python -m fakeswitch.serve CHIP``.

Prints its address, and for each line on standard input what is set on it; ``fail TABLE`` makes it refuse the next write
to that table. Ends with its input.
"""

from __future__ import annotations

import sys

from fakeswitch.faults import Fault, refuse
from fakeswitch.server import FakeSwitch


def main(chip: str) -> None:
    """Serve until standard input ends."""
    fake = FakeSwitch(chip)
    print(fake.address, flush=True)
    for line in sys.stdin:
        command, _, table = line.strip().partition(" ")
        if command == "fail":
            fake.faults.append(Fault("write", refuse("INVALID_ARGUMENT"), table=table))
        print(repr(fake.state()), flush=True)
    fake.stop()


if __name__ == "__main__":
    main(sys.argv[1])
