# SPDX-License-Identifier: Apache-2.0
"""Experiments of some thousand packets on one link: for laws that need many reports."""

from __future__ import annotations

import random

from packet_lives import NS, PAYLOADS, UDP, Experiment, Flow, Link, Sent

LINK = "a"


def drawn(number: int) -> Experiment:
    """Two to four UDP flows for two seconds, packets in step or at random, on a link that is too narrow or not."""
    chance = random.Random(number)
    flows, sent = [], list[Sent]()
    for place in range(chance.randint(2, 4)):
        flow = Flow(f"f{place}", (LINK,), UDP, 0, 2 * NS, chance.choice(PAYLOADS))
        flows.append(flow)
        gap, regular = NS // chance.randint(150, 400), chance.random() < 0.5
        time = place * 1_000_003
        while time < 2 * NS:
            sent.append(Sent(flow.name, time, len(sent) * 1_500, False, (False,), (False,), (0,)))
            time += gap if regular else round(chance.expovariate(1 / gap)) + 1
    sent.sort(key=lambda one: one.time)
    link = Link(LINK, ((0, chance.choice([2_000_000, 5_000_000, 20_000_000])),), 20_000, marks_from=5_000)
    return Experiment((link,), tuple(flows), tuple(sent), 0, 0, 0, 0)
