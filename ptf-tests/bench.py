# SPDX-License-Identifier: Apache-2.0
"""What all cases share: a switch with a fresh program, ways to connect its ports, and ways to send and to receive."""

from __future__ import annotations

import json
import socket
import time
import unittest
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import expected
import ptf
from expected import Collector, Report
from narrows.switch.entries import delay_bins
from p4runtime import Entry
from ptf import testutils
from ptf.base_tests import BaseTest
from targets import TARGETS
from targets.base import COLLECTOR_PORT, SLOW, Ability, Switch

SESSION = 5
ECN_OFF = 0xFFFFFFFF
PROGRAM_EPOCH = 0x1234
PRIORITY = 100
LONGEST_SERVICE_S = 1.5 / SLOW
RECEIVE_BUFFER_BYTES = 64 << 20
SO_RCVBUFFORCE = 33

ARRIVALS = "flow_arrivals.totals"
DEPARTURES = "flow_departures.totals"
LOSS_DROPS = "flow_loss_drops.totals"
SIGNATURES = "flow_owner.signatures"
SEQUENCE = "bottleneck_departures.totals"
WATERMARK = "high_watermark.depths"
ARRIVAL_COUNTER = "arrival_counter.flows"
DEPARTURE_COUNTER = "departure_counter.flows"
LOSS_COUNTER = "loss_counter.flows"
HISTOGRAM = "delay_histogram.bins"


class BottleneckTest(BaseTest):  # type: ignore[misc]
    """A case: one class with `runTest`. It starts with an empty program: nothing is connected.

    A case states what it needs of a target that not every target can do, and is skipped where it cannot.
    """

    needs: frozenset[Ability] = frozenset()
    _switch: Switch | None = None

    def setUp(self) -> None:
        """Get the switch, empty it, and forget frames of earlier cases."""
        super().setUp()
        self.maxDiff = None
        parameters: dict[str, str] = testutils.TEST_PARAMS
        if BottleneckTest._switch is None:
            target = TARGETS[parameters["target"]]
            BottleneckTest._switch = target.connect(parameters, Path(parameters["compiled"]))
            for port in ptf.dataplane_instance.ports.values():
                port.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES)
        self.switch = BottleneckTest._switch
        self.profile = self.switch.profile
        for ability in sorted(self.needs, key=lambda one: one.name):
            if ability in self.profile.lacks:
                self.skipTest(f"needs {ability.value}: {self.profile.lacks[ability]}")
        self.switch.reset()
        self.plane: Any = ptf.dataplane_instance
        self.plane.flush()

    def shortDescription(self) -> None:
        """Name cases by their name alone."""

    def run(self, result: unittest.TestResult | None = None) -> None:
        """Run the case and write down how it ended."""
        assert result is not None
        before = len(result.failures) + len(result.errors), len(result.skipped)
        super().run(result)
        after = len(result.failures) + len(result.errors), len(result.skipped)
        outcome = "failed" if after[0] > before[0] else "skipped" if after[1] > before[1] else "passed"
        if outcome == "failed" and hasattr(self, "plane"):
            # What still waits in a slow queue must not get into the next case.
            for port in self.profile.tester_ports:
                self.drain(port, LONGEST_SERVICE_S)
        with Path(testutils.TEST_PARAMS["outcomes"]).open("a") as out:
            out.write(json.dumps({"case": str(self), "outcome": outcome}) + "\n")

    # --- settings

    def connect(
        self,
        ingress: int | None,
        egress: int,
        *,
        bottleneck: int | None = None,
        queue: int = 0,
        priority: int = PRIORITY,
        share: int = 0,
        **match: tuple[int, int],
    ) -> Entry:
        """Connect ports, as a wire or through a bottleneck; ``match`` narrows it down to destinations.

        ``share``: the part of the flow indices that flows of the ingress port's pipe have.
        """
        keys = dict(match) if ingress is None else {"ingress_port": (ingress, 0x1FF), **match}
        if bottleneck is None:
            entry = Entry("cross_connect", keys, "wire", {"port": egress}, priority)
        else:
            parameters = {"index": bottleneck, "port": egress, "queue": queue}
            action = "bottleneck"
            if share:
                action, parameters["share"] = "bottleneck_of_pipe", share << 5
            entry = Entry("cross_connect", keys, action, parameters, priority)
        self.switch.control.insert(entry)
        return entry

    def observe(
        self,
        bottleneck: int = 0,
        *,
        ecn_threshold: int = ECN_OFF,
        counts_packets: bool = False,
        sample_shift: int = 0,
        seed: int = 1,
        mirror: int = SESSION,
        change: bool = False,
    ) -> None:
        """Set what egress does with the frames of a bottleneck."""
        parameters = {
            "threshold": ecn_threshold,
            **({} if Ability.PACKET_DEPTH in self.profile.lacks else {"counts_packets": int(counts_packets)}),
            **({} if Ability.SEEDED_SAMPLING in self.profile.lacks else {"seed": seed}),
            "mask": (1 << sample_shift) - 1,
            "shift": sample_shift,
            "epoch": PROGRAM_EPOCH,
            "mirror": mirror,
        }
        entry = Entry("settings.bottleneck", {"bottleneck": bottleneck}, "observe", parameters)
        (self.switch.control.modify if change else self.switch.control.insert)(entry)

    def report_to(self, collector: Collector, bottleneck: int = 0, *, change: bool = False) -> None:
        """Set where the reports of a bottleneck go."""
        parameters = {
            "src_mac": int(collector.src_mac.replace(":", ""), 16),
            "dst_mac": int(collector.dst_mac.replace(":", ""), 16),
            "src_ip": int.from_bytes(socket.inet_aton(collector.src_ip), "big"),
            "dst_ip": int.from_bytes(socket.inet_aton(collector.dst_ip), "big"),
            "src_port": collector.src_port,
            "dst_port": collector.dst_port,
            "length": collector.report_length,
        }
        entry = Entry("collector", {"bottleneck": bottleneck}, "encapsulate", parameters)
        (self.switch.control.modify if change else self.switch.control.insert)(entry)

    def lose(self, threshold: int, bottleneck: int = 0) -> Entry:
        """Lose frames of a bottleneck with probability ``threshold`` / 2^32."""
        entry = Entry("loss", {"bottleneck": bottleneck}, "set_loss", {"threshold": threshold})
        self.switch.control.insert(entry)
        return entry

    def reported(
        self,
        ingress: int = 1,
        egress: int = 2,
        bottleneck: int = 0,
        *,
        queue: int = 0,
        collector: Collector | None = None,
        ecn_threshold: int = ECN_OFF,
        counts_packets: bool = False,
        sample_shift: int = 0,
    ) -> None:
        """A bottleneck from port to port whose every frame (1 of 2^``sample_shift``) is reported to COLLECTOR_PORT."""
        self.connect(ingress, egress, bottleneck=bottleneck, queue=queue)
        self.observe(bottleneck, ecn_threshold=ecn_threshold, counts_packets=counts_packets, sample_shift=sample_shift)
        self.report_to(collector or Collector(), bottleneck)
        self.switch.control.add_mirror(SESSION, COLLECTOR_PORT)

    def install_delay_bins(self) -> None:
        """The histogram's bins, as the control plane installs them."""
        self.switch.control.insert(
            *(
                Entry("delay_bins", {"queue_delay": (item.lowest, item.prefix_length)}, "set_bin", {"bin": item.number})
                for item in delay_bins(self.profile.delay_bits)
            )
        )

    # --- traffic

    def send(self, port: int, frames: Iterable[bytes]) -> None:
        """Send frames into a switch port."""
        for frame in frames:
            self.plane.send(0, port, frame)

    def receive(self, port: int, count: int) -> list[bytes]:
        """The next ``count`` frames that leave a switch port; fails if they do not all come."""
        frames: list[bytes] = []
        while len(frames) < count:
            found = self.plane.poll(device_number=0, port_number=port, timeout=self.profile.patience_s)
            if found.packet is None:
                self.fail(f"port {port} sent {len(frames)} frames where {count} were expected")
            frames.append(found.packet)
        return frames

    def drain(self, port: int, silence_s: float | None = None) -> list[bytes]:
        """All frames that leave a switch port until it is quiet."""
        frames: list[bytes] = []
        quiet_s = 2 * self.profile.silence_s if silence_s is None else silence_s
        while (found := self.plane.poll(device_number=0, port_number=port, timeout=quiet_s)).packet is not None:
            frames.append(found.packet)
        return frames

    def expect(self, port: int, frames: Sequence[bytes]) -> None:
        """Exactly these frames leave a switch port next, in this order, bit by bit."""
        for number, (got, wanted) in enumerate(zip(self.receive(port, len(frames)), frames, strict=True)):
            if got != wanted:
                self.fail(f"frame {number} at port {port}:\n  got    {got.hex()}\n  wanted {wanted.hex()}")

    def expect_silence(self) -> None:
        """No port has sent anything that was not received yet, and none does for a moment."""
        time.sleep(self.profile.silence_s)
        for port in self.profile.tester_ports:
            found = self.plane.poll(device_number=0, port_number=port, timeout=0)
            if found.packet is not None:
                self.fail(f"port {port} sent an unexpected frame: {found.packet.hex()}")

    def carried(self, frames: Iterable[bytes]) -> list[bytes]:
        """Those of some frames that are long enough for the target's links."""
        return [frame for frame in frames if len(frame) >= self.profile.shortest_frame]

    def pass_through(self, frames: Sequence[bytes], ingress: int = 1, egress: int = 2) -> None:
        """Send frames and expect them unchanged, in bursts that the target's input can hold."""
        for start in range(0, len(frames), self.profile.largest_burst):
            burst = frames[start : start + self.profile.largest_burst]
            self.send(ingress, burst)
            self.expect(egress, burst)

    def occupy(self, frame: bytes, ingress: int = 1, egress: int = 2, queue: int = 0) -> Report:
        """Let a frame leave a queue and hold all behind it; returns the frame's report.

        Where the link is as slow as the queue, the frame itself arrives only when it has been sent to its last bit.
        """

        def pass_one() -> Report:
            self.send(ingress, [frame])
            (report,) = self.reports(1)
            return report

        return self.switch.hold(egress, queue, len(frame), pass_one)

    def reports(self, count: int, collector: Collector | None = None) -> list[Report]:
        """The next ``count`` reports; their encapsulation is checked on the way."""
        return [self.open_report(frame, collector or Collector()) for frame in self.receive(COLLECTOR_PORT, count)]

    def open_report(self, frame: bytes, collector: Collector) -> Report:
        """A report that was received, after a check of its headers to the byte."""
        length = expected.frame_length(frame)
        if self.profile.trailing_bytes:
            frame = frame[:length]
        report = expected.decode_report(frame)
        wanted = expected.encapsulation(collector, len(frame), report.flow)
        self.assertEqual(frame[: len(wanted)].hex(), wanted.hex(), "encapsulation of a report")
        self.switch.is_counted(report.flow)
        return report

    # --- flows

    def flow_of(self, frame: bytes, bottleneck: int = 0) -> int:
        """Flow index of a frame; what is counted there is set back behind the case."""
        index = self.profile.hashes.index(bottleneck, expected.identify(frame))
        self.switch.is_counted(index)
        return index

    def signature_of(self, frame: bytes, bottleneck: int = 0) -> int:
        """Flow signature of a frame."""
        return self.profile.hashes.signature(bottleneck, expected.identify(frame))

    def colliding_port(self, bottleneck: int, owner: bytes, template: bytes) -> int:
        """A source port with which a frame like ``template`` collides with the flow of ``owner``."""
        return expected.colliding_port(self.profile.hashes, bottleneck, owner, template)

    # --- state

    def totals(self, flow: int) -> tuple[int, int, int]:
        """Arrivals, departures and loss-emulation drops of a flow index, from the registers."""
        read = self.switch.read_register
        return read(ARRIVALS, flow), read(DEPARTURES, flow), read(LOSS_DROPS, flow)

    def wait_for_loss(self, flow: int, count: int) -> None:
        """Wait until loss emulation has taken so many frames of a flow: nothing of them leaves a port."""
        self._wait_for(LOSS_DROPS, flow, count)

    def wait_for_arrivals(self, flow: int, count: int) -> None:
        """Wait until so many frames of a flow were offered to the queue: new settings do not concern them then."""
        self._wait_for(ARRIVALS, flow, count)

    def _wait_for(self, name: str, flow: int, count: int) -> None:
        deadline = time.monotonic() + self.profile.patience_s
        while (found := self.switch.read_register(name, flow)) < count:
            if time.monotonic() > deadline:
                self.fail(f"{name} of flow {flow} is {found} where {count} was expected")

    def counted(self, name: str, flow: int) -> tuple[int, int]:
        """(packets, bytes) of one cell of a counter."""
        (cell,) = self.switch.control.read_counters(name, [flow])
        return cell

    def histogram(self, bottleneck: int = 0) -> list[int]:
        """Packets in each delay bin of a bottleneck."""
        bins = self.profile.delay_bins
        cells = self.switch.control.read_counters(HISTOGRAM, range(bottleneck * bins, (bottleneck + 1) * bins))
        return [packets for packets, _ in cells]
