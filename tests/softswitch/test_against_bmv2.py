# SPDX-License-Identifier: Apache-2.0
"""BMv2 and the softswitch do the same with random packets and entries, on examples and on a program for each feature.

BMv2 gets each packet alone; what leaves it becomes the expectation of a script, which the softswitch's tests run by
native code and by the interpreter. The seed is printed; NARROWS_DIFFERENTIAL_SEED repeats a run, and
NARROWS_DIFFERENTIAL_PACKETS sets how many packets each program gets.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from bmv2_packets import commands, running
from random_scripts import CONTROLLER_PORT, PORTS, RandomScript

ROOT = Path(__file__).parents[2]
SEED = int(os.environ.get("NARROWS_DIFFERENTIAL_SEED", random.SystemRandom().randrange(1 << 32)))
PACKETS = int(os.environ.get("NARROWS_DIFFERENTIAL_PACKETS", "1000"))
# Ports that the softswitch has in these tests.
SOFTSWITCH_PORTS = 32
FOLDERS = ("experiments/own-program/compiled", "softswitch/switch/tests/stf/programs", "tests/softswitch/p4/compiled")
# `digest.json` is not a program, `unsupported` not one that the softswitch takes, and a packet that shows an assertion
# to be wrong ends either switch.
LEFT_OUT = ("digest", "unsupported", "assertions")
PROGRAMS = sorted(path for folder in FOLDERS for path in (ROOT / folder).glob("*.json") if path.stem not in LEFT_OUT)
# When a packet came and how long it waited is the switch's own: programs read 0.
TIMES = ("ingress_global_timestamp", "egress_global_timestamp", "enq_timestamp", "deq_timedelta")
NO_TIME = {"type": "hexstr", "value": "0x000000000000"}


# The port of the controller, in programs that have one, and another that the softswitch has in these tests.
CONTROLLER = {"0x00ff": f"{CONTROLLER_PORT:#06x}"}
# What the language leaves open (P4_16, 8.25), and the switches do otherwise: these programs read headers that may not
# be there, so that packets have them all; stacks are indexed, within bounds that fields keep to.
WHOLE = ("replicas", "unions")
# Without 3, which reads a label that may not be there.
STACKS: dict[str, Sequence[int]] = {"what": (0, 1, 2, 4, 5, 6), "index": range(3), "value": range(3)}
# Without 3, since BMv2 takes varbits of zeros for equal whatever their lengths, which P4_16 does not, and 6, a varbit
# that is valid anew. One is a byte longer than it may be.
VARBITS: dict[str, Sequence[int]] = {"what": (0, 1, 2, 4, 5, 7, 8), "bytes": range(9)}
VALUES: dict[str, dict[str, Sequence[int]]] = {"stacks": STACKS, "varbits": VARBITS}
# Constants that a program has others for: probes name one of eight ports of 512, as the softswitch has fewer here.
CONSTANTS = {"link_monitor": {"0x01ff": f"{PORTS[-1]:#06x}"}}


def comparable(part: Any, constants: Mapping[str, str]) -> Any:
    """A part of a compiled program that reads 0 where it read a time, and has other ``constants``."""
    if isinstance(part, dict):
        if part.get("type") == "field" and part["value"][-1] in TIMES:
            return NO_TIME
        return {name: comparable(inner, constants) for name, inner in part.items()}
    if isinstance(part, list):
        return [comparable(inner, constants) for inner in part]
    return constants.get(part, part) if isinstance(part, str) else part


def expectations(program: Path, script: RandomScript, directory: Path) -> Iterator[str]:
    """The lines of a script with what BMv2 makes of it."""
    entries = script.entries()
    yield from entries
    with running(program, entries, directory) as bmv2:
        for port, packet in script.packets(PACKETS):
            yield f"packet {port} {packet.hex()}"
            for out, left in bmv2.send(port, packet):
                if out < SOFTSWITCH_PORTS:
                    yield f"expect {out} {left.hex()}$"


def test_entries_for_bmv2s_command_line() -> None:
    """Arguments go by position, a range has two ends, and the first entry is the one with the lowest priority."""
    program = json.loads((ROOT / "tests/softswitch/p4/compiled/conformance.json").read_text())
    lines = [
        "mirroring_add 5 2",
        "add ProbeIngress.exact_table key:0x7 ProbeIngress.answer(tag:0x9,port:0x2)",
        "add ProbeIngress.range_table key:0x5 ProbeIngress.discard()",
        "setdefault ProbeIngress.lpm_table ProbeIngress.unmatched(tag:0x1)",
    ]
    assert list(commands(program, lines)) == [
        "mirroring_add 5 2",
        "table_add ProbeIngress.exact_table ProbeIngress.answer 0x7 => 0x2 0x9",
        "table_add ProbeIngress.range_table ProbeIngress.discard 0x5->0x5 =>  2",
        "table_set_default ProbeIngress.lpm_table ProbeIngress.unmatched 0x1",
    ]


def test_a_seed_makes_the_same_script() -> None:
    program = json.loads(PROGRAMS[0].read_text())
    one, same, other = (RandomScript(program, seed) for seed in (1, 1, 2))
    assert one.entries() == same.entries() != other.entries()
    assert list(one.packets(50)) == list(same.packets(50)) != list(other.packets(50))


@pytest.mark.needs("bmv2", "bmv2-cli")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_both_switches_do_the_same(program: Path, tmp_path: Path) -> None:
    print(f"\nNARROWS_DIFFERENTIAL_SEED={SEED} NARROWS_DIFFERENTIAL_PACKETS={PACKETS}")
    compiled = json.loads(program.read_text())
    for part in ("parsers", "actions", "pipelines"):
        compiled[part] = comparable(compiled[part], {**CONTROLLER, **CONSTANTS.get(program.stem, {})})
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    same = scripts / program.name
    same.write_text(json.dumps(compiled))
    script = RandomScript(compiled, SEED, program.stem in WHOLE, VALUES.get(program.stem, {}))
    lines = list(expectations(same, script, tmp_path))
    assert sum(line.startswith("expect") for line in lines) > PACKETS / 100, "hardly any packet leaves"
    same.with_suffix(".stf").write_text("\n".join(lines) + "\n")
    run = ["cargo", "test", "--release", "-p", "narrows-switch", "--test", "stf", "other_programs", "--", "--nocapture"]
    done = subprocess.run(
        run, cwd=ROOT, env={**os.environ, "NARROWS_STF": str(scripts)}, capture_output=True, text=True, check=False
    )
    outcomes = dict(re.findall(r"^(\w+): (.*)$", done.stdout, re.MULTILINE))
    assert outcomes.get(program.stem) == "passed", done.stdout[-3000:] + done.stderr[-1000:]
