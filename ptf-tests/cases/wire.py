# SPDX-License-Identifier: Apache-2.0
"""Bytes out are bytes in, whatever the frame is."""

from __future__ import annotations

import frames
from bench import BottleneckTest


def everything() -> list[bytes]:
    """Frames of all kinds, whole and broken."""
    return [*frames.catalogue().values(), *frames.broken().values()]


class WireKeepsEveryFrame(BottleneckTest):
    """Every kind of frame passes a wire unchanged."""

    def runTest(self) -> None:
        self.connect(1, 2)
        for frame in self.carried(everything()):
            self.pass_through([frame])
        self.expect_silence()


class BottleneckKeepsEveryFrame(BottleneckTest):
    """Every kind of frame passes a bottleneck that does not mark unchanged, and is reported once with its length."""

    def runTest(self) -> None:
        self.reported()
        for number, frame in enumerate(self.carried(everything()), 1):
            with self.subTest(frame=frame[:60].hex()):
                self.pass_through([frame])
                (report,) = self.reports(1)
                self.assertEqual(report.sequence, number)
                self.assertEqual(report.packet_length, len(frame))
                self.assertEqual(report.original, frame[:86])
        self.expect_silence()


class EverySize(BottleneckTest):
    """Frames of all sizes around the boundaries pass both a wire and a bottleneck."""

    def runTest(self) -> None:
        self.connect(1, 2)
        self.connect(3, 4, bottleneck=0)
        for ingress, egress in ((1, 2), (3, 4)):
            sizes = [*range(60, 130), 1499, 1500, 1501, 1514, 1518, 4095, 4096, 4097, 9000, 9215, 9216]
            for size in sizes:
                self.pass_through([frames.ipv4(size=size)], ingress, egress)
                if size >= 74:
                    self.pass_through([frames.ipv6(size=size)], ingress, egress)
        self.expect_silence()


class LargestFramesInBursts(BottleneckTest):
    """Bursts of 9216 B frames come through whole and in order."""

    def runTest(self) -> None:
        self.connect(1, 2, bottleneck=0)
        burst = [frames.ipv4(size=9216, identification=number) for number in range(50)]
        self.pass_through(burst)
        self.expect_silence()
