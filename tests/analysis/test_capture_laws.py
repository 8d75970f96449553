# SPDX-License-Identifier: Apache-2.0
"""Drops in the comments of an exported capture, by what made them: each against a slow count of packets' lives."""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import packet_lives as truth
import pytest
from narrows.cli import app
from narrows_analysis import analyze_run
from packet_cases import over_experiments
from packet_lives import BY_LINK, LOST, POLICED, Experiment, Life
from scapy.layers.inet import IP
from scapy.layers.l2 import Ether
from scapy.utils import RawPcapNgReader
from typer.testing import CliRunner

pytestmark = [pytest.mark.needs("narrows-collector"), pytest.mark.parallel_safe]

# A link, an address and the comment of each packet in front of its queue that has one, in order of arrival.
Comments = list[tuple[str, str, str]]


def _exported(directory: Path) -> tuple[Comments, str]:
    """Comments of the file, and the printed line."""
    analyze_run(directory)
    file = directory.parent / "run.pcapng"
    result = CliRunner().invoke(app, ["export", str(directory), "--pcapng", str(file)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    found = []
    with RawPcapNgReader(str(file)) as reader:
        packets: Any = reader
        for data, meta in packets:
            comment = b"; ".join(getattr(meta, "comments", None) or [getattr(meta, "comment", None) or b""]).decode()
            name = meta.ifname.decode()
            if name.endswith(" in") and comment:
                found.append((name.removesuffix(" in"), Ether(data)[IP].src, comment))
    return found, " ".join(result.output.split())


def _expected(experiment: Experiment, lives: dict[str, list[Life]], recorded: bool) -> Comments:
    """What was dropped of each flow since its packet before, said of the next one that left."""
    queue = "the queue or its ACK filter" if experiment.thinned_every else "the queue"
    causes = dict.fromkeys(BY_LINK, queue) | {POLICED: "the policer", LOST: "loss emulation"}
    if experiment.policed_every and not recorded:
        causes |= dict.fromkeys(BY_LINK, f"the policer or {queue}")
    order = ("the policer", f"the policer or {queue}", queue, "loss emulation")
    found = []
    for link, mine in lives.items():
        dropped: dict[str, Counter[str]] = {}
        for life in mine:
            of_flow = dropped.setdefault(life.flow, Counter())
            if life.cause is not None:
                of_flow[causes[life.cause]] += 1
            elif of_flow:
                comment = "; ".join(f"{of_flow[one]} dropped by {one} before it" for one in order if of_flow[one])
                found.append((link, f"10.0.{int(life.flow[1:])}.1", comment))
                of_flow.clear()
    return found


@pytest.mark.parametrize("recorded", [True, False])
def test_drops_in_comments_are_named_by_what_made_them(recorded: bool) -> None:
    """Where a target does not record each drop, those of a policer and of the queue are not told apart."""
    seen: Counter[str] = Counter()

    @over_experiments
    def each(experiment: Experiment) -> None:
        lives = truth.lives(experiment)
        with tempfile.TemporaryDirectory() as place:
            directory = Path(place, "run")
            truth.write(experiment, lives, directory)
            record = json.loads((directory / "run.json").read_text())
            for link in record["links"]:
                link["drops_recorded"] = recorded
            (directory / "run.json").write_text(json.dumps(record))
            comments, line = _exported(directory)
        assert sorted(comments) == sorted(_expected(experiment, lives, recorded))
        drops: Counter[str] = Counter()
        for number, cause in re.findall(
            r"(\d+) dropped by ([A-Za-z ]+) before it", "; ".join(one[2] for one in comments)
        ):
            drops[cause] += int(number)
        said = re.search(r"the comments name (\d+) drops:? ?(.*)$", line)
        assert said and int(said[1]) == drops.total()
        assert {cause: int(number) for number, cause in re.findall(r"(\d+) by ([A-Za-z ]+)", said[2])} == drops
        seen.update(drops)

    each()
    assert set(seen) >= ({"the policer", "the queue"} if recorded else {"the policer or the queue", "the queue"})
