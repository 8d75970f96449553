# SPDX-License-Identifier: Apache-2.0
"""Tofino's program on the SDE's model against v1model's on the softswitch: one source, two compilers, one behaviour.

Random frames through the same entries give the same frames, reports, registers and counters. Left out are times and
depths, which are the targets' own, and what the programs are meant to have otherwise: flow indices of 15 bits instead
of 16, of which the frames are chosen so that the same flows meet, and signatures, which are compared with the reference
of each. NARROWS_DIFFERENTIAL_SEED repeats a run, NARROWS_DIFFERENTIAL_PACKETS is how many frames it has.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
for folder in ("ptf-tests", "tests/p4"):
    sys.path.insert(0, str(REPOSITORY / folder))


import expected  # noqa: E402
import frames  # noqa: E402
import test_differential as differential  # noqa: E402
from bench import SIGNATURES  # noqa: E402
from expected import FlowHash, TofinoHash, V1modelHash  # noqa: E402
from frame_strategies import (  # noqa: E402
    BOTTLENECKS,
    EGRESS_PORTS,
    EVERYTHING,
    INGRESS_PORTS,
    SESSION,
    Connection,
    Scenario,
    Settings,
)
from scapy.layers.inet import ICMP, TCP, UDP  # noqa: E402
from targets import TARGETS  # noqa: E402
from targets.base import COLLECTOR_PORT, Switch  # noqa: E402
from targets.shadowed import that_fit  # noqa: E402
from targets.tofino import TofinoModelTarget  # noqa: E402
from targets.tofino_switch import TofinoSwitch  # noqa: E402
from test_differential import SEED  # noqa: E402
from twins import Twins, running  # noqa: E402

PACKETS = int(os.environ.get("NARROWS_DIFFERENTIAL_PACKETS", "10000"))
# Of the programs, Tofino's first.
HASHES: tuple[FlowHash, FlowHash] = (TofinoHash(), V1modelHash())
# Behind Ethernet: of an IPv4 header's bytes, those that leave addresses and protocol alone.
DAMAGED = (0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11)
SHORTEST = 60
OF_THE_SUITE = (*frames.catalogue().values(), *frames.broken().values())
SHARED_INDICES = TofinoHash.flow_count
# Of a report.
TARGETS_OWN = ("enqueue_depth", "dequeue_depth", "queue_delay", "epoch", "timestamp")
ENCAPSULATION = 42


def scenario() -> Scenario:
    """Bottlenecks for three kinds of frames, one that loses all of them, a wire, and what is discarded."""
    wire, first, second, third = EGRESS_PORTS[-1], *EGRESS_PORTS[:3]
    multicast = (("dst_mac", (0x333300000001, (1 << 48) - 1)),)
    ten = (("is_ipv4", (1, 1)), ("dst_ipv4", (0x0A000000, 0xFF000000)))
    ipv6 = (("is_ipv6", (1, 1)), ("dst_ipv6", (0x20010002 << 96, 0xFFFFFFFF << 96)))
    lossy = (("ingress_port", (INGRESS_PORTS[2], 0x1FF)), ("is_ipv4", (1, 1)))
    return Scenario(
        connections=(
            Connection(multicast, None, None),
            Connection(lossy, EGRESS_PORTS[3], BOTTLENECKS[3]),
            Connection(ten, first, BOTTLENECKS[0]),
            Connection(ipv6, second, BOTTLENECKS[1]),
            Connection((("ingress_port", (INGRESS_PORTS[1], 0x1FF)),), wire, None),
            Connection((), third, BOTTLENECKS[2]),
        ),
        settings={
            BOTTLENECKS[0]: Settings(0, 0, SESSION, 184, None),
            BOTTLENECKS[1]: Settings(EVERYTHING, 0, SESSION, 170, None),
            BOTTLENECKS[2]: Settings(0, 0, SESSION, 175, 0),
            BOTTLENECKS[3]: Settings(0, 0, SESSION, 184, EVERYTHING),
        },
        # Counts wrap on the way.
        start=0xFFFFFFF0,
        sent=(),
    )


def random_frame(draw: random.Random) -> bytes:
    """A frame of few flows: tagged or not, whole, damaged or cut."""
    src_port, dst_port = draw.choice((1, 80, 5201)), draw.choice((0, 99, 65535))
    with_ports = draw.choice((TCP, TCP, UDP))(sport=src_port, dport=dst_port)
    transport = draw.choice((with_ports, with_ports, with_ports, ICMP()))
    tags = draw.choice(((), (), (), (7,), (100, 7), (1, 2, 3)))
    size, ecn = draw.choice((100, 100, 333, 1514)), draw.randrange(4)
    kind = draw.randrange(5)
    if kind == 0:
        return draw.choice(OF_THE_SUITE)
    if kind in (1, 2):
        dst = draw.choice(("10.0.0.2", "10.9.0.3", "198.18.0.2"))
        options = draw.choice((b"", b"", b"", bytes.fromhex("9404000001010101")))
        frame = frames.ipv4(dst=dst, ecn=ecn, size=size, tags=tags, options=options, transport=transport)
        damaged = bytearray(frame)
        if draw.randrange(4) == 0:
            damaged[14 + 4 * len(tags) + draw.choice(DAMAGED)] ^= 1 << draw.randrange(8)
        frame = bytes(damaged)
    else:
        frame = frames.ipv6(
            dst=draw.choice(("2001:2::2", "2001:3::2")), ecn=ecn, size=size, tags=tags, transport=transport
        )
    return frame[: draw.randrange(SHORTEST, 90)] if draw.randrange(8) == 0 else frame


def ends_within_ports(frame: bytes) -> bool:
    """Whether a frame is cut between its transport ports: Tofino's parser takes what follows, on a chip its FCS."""
    return expected.identify(frame) != expected.identify(frame + b"\xff" * 4)


class Flows:
    """Flows of frames, of which two share an index in both programs or in neither."""

    def __init__(self) -> None:
        # Of each program, whose signature is which.
        self.signed: tuple[dict[int, object], dict[int, object]] = ({0: "no flow"}, {0: "no flow"})
        self._indices: dict[int, int] = {}

    def admit(self, frame: bytes) -> bool:
        """Whether a frame keeps to that, whichever bottleneck it takes; it is one of them from then on."""
        who = expected.identify(frame)
        indices = [tuple(hashes.index(bottleneck, who) for hashes in HASHES) for bottleneck in BOTTLENECKS]
        known = dict(self._indices)
        if any(known.setdefault(tofino, v1model) != v1model for tofino, v1model in indices):
            return False
        self._indices = known
        for hashes, signed in zip(HASHES, self.signed, strict=True):
            signed |= {hashes.signature(bottleneck, who): (bottleneck, who) for bottleneck in BOTTLENECKS}
        return True

    def of(self, program: int) -> set[int]:
        """All indices of them in the program at a position of `HASHES`."""
        return set(self._indices if program == 0 else self._indices.values())

    def seen(self, report: bytes, program: int) -> dict[str, object]:
        """A report without what is the target's own."""
        report = report[: expected.frame_length(report)]
        found = expected.decode_report(report)
        fields = {name: value for name, value in asdict(found).items() if name not in TARGETS_OWN}
        original = found.original[: found.packet_length].hex()
        whose = {"flow": found.flow % SHARED_INDICES, "signature": self.signed[program][found.signature]}
        return {**fields, **whose, "original": original, "encapsulation": report[:ENCAPSULATION].hex()}

    def outputs(self, twins: Twins, program: int) -> dict[str, list[object]]:
        """Frames that left each port, and reports of each bottleneck, in order."""
        found: dict[str, list[object]] = {}
        for port, frames_left in sorted(twins.out[program].items()):
            if port != COLLECTOR_PORT:
                found[f"port {port}"] = [frame.hex() for frame in frames_left]
        for report in twins.reports(program):
            reported = self.seen(report, program)
            found.setdefault(f"reports of bottleneck {reported['bottleneck']}", []).append(reported)
        return found

    def state(self, switch: Switch, program: int) -> dict[str, object]:
        """Registers and counters, by index as both programs have it and with flows in the place of signatures."""
        found = differential.state(switch, self.of(program))
        signatures = found[SIGNATURES]
        assert isinstance(signatures, dict)
        found[SIGNATURES] = {flow: self.signed[program][value] for flow, value in signatures.items()}
        return {
            name: {flow % SHARED_INDICES: value for flow, value in values.items()}
            if isinstance(values, dict)
            else values
            for name, values in found.items()
        }


@pytest.fixture(scope="module")
def twins() -> Iterator[Twins]:
    print(f"\ndifferential test: NARROWS_DIFFERENTIAL_SEED={SEED}")
    # The model first: it is reached by TCP, and gRPC's threads stay in the namespace that they begin in.
    targets = [TofinoModelTarget(), TARGETS["soft"]]
    with running(targets, REPOSITORY / "p4src" / "compiled" / "v1model", SEED) as started:
        yield started


@pytest.mark.needs("root", "tofino-model")
@pytest.mark.long
def test_two_compilers_make_the_same_of_one_source(twins: Twins) -> None:
    draw, flows, chosen = random.Random(SEED), Flows(), scenario()
    sent: list[tuple[int, bytes]] = []
    while len(sent) < PACKETS:
        frame = random_frame(draw)
        if len(frame) >= SHORTEST and not ends_within_ports(frame) and flows.admit(frame):
            sent.append((draw.choice(INGRESS_PORTS), frame))
    twins.reset()
    model, soft = twins.switches
    assert isinstance(model, TofinoSwitch)
    differential.install(soft, chosen, flows.of(1))
    differential.install(model, chosen, flows.of(0), lambda entries: that_fit(entries, model))
    for number in range(0, PACKETS, model.profile.largest_burst):
        burst = sent[number : number + model.profile.largest_burst]
        # One port after the other: which of two is served first is a switch's own.
        for port in INGRESS_PORTS:
            twins.send_burst(port, [frame for into, frame in burst if into == port], model.profile.patience_s)
        one, other = (flows.outputs(twins, program) for program in range(2))
        assert one == other, f"frames {number} to {number + len(burst) - 1}"
        twins.forget()
    twins.drain(model.profile.silence_s)
    assert flows.outputs(twins, 0) == flows.outputs(twins, 1) == {}
    assert flows.state(model, 0) == flows.state(soft, 1)
