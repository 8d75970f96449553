# SPDX-License-Identifier: Apache-2.0
"""Poisson traffic through the softswitch in virtual time, as its reports tell it; means with confidence intervals."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

import line_rate
import numpy as np
import numpy.typing as npt
import page
from narrows_formats.programs import SOFTSWITCH, find_binary
from scipy import stats

Numbers = npt.NDArray[np.float64]
# Two-sided: of all runs with other seeds, one in a thousand would be outside by chance. With its seed a run repeats.
CONFIDENCE = 0.999
BATCHES = 25
# report_t of p4src/common/headers.p4 behind Ethernet, IPv4 and UDP, behind the capture's own 16 bytes.
_ENCAPSULATION, _CAPTURED = 42, 98
# Of the delay's 48 bits the lower 32: no packet waits for seconds here.
_RECORD = np.dtype(
    {
        "names": ["length", "arrivals", "departures", "loss_drops", "queue_delay", "enqueue_depth"],
        "formats": [">u2", ">u4", ">u4", ">u4", ">u4", ">u4"],
        "offsets": [16 + _ENCAPSULATION + offset for offset in (6, 16, 20, 24, 42, 32)],
        "itemsize": 16 + _CAPTURED,
    }
)


@dataclass(frozen=True)
class Stream:
    """A Poisson stream of one flow: frames of one length at a mean rate."""

    frame_bytes: int
    rate_bps: float


def replay(
    directory: Path,
    streams: list[Stream],
    rate_bps: int,
    duration_s: float,
    limit_packets: int = 0,
    loss: float = 0.0,
) -> npt.NDArray[np.void]:
    """Send streams through one bottleneck; a record for each packet that left, in the order of departures.

    All are one flow to the program: its counters are of all streams together.

    Args:
        directory: takes all files.
        streams: what arrives, each at a port of its own.
        rate_bps: L2 rate of the bottleneck.
        duration_s: of the arrivals.
        limit_packets: how many may wait, 0 for any.
        loss: ratio of the emulated loss in front of the queue.
    """
    out, reports, first = 2, 3, 4
    document = line_rate.configuration(rate_bps, 0, directory / "none")
    connect, *others = document["entries"]
    ports = range(first, first + len(streams))
    document["ports"] = [out, reports, *ports]
    document["entries"] = [
        *({**connect, "match": {"ingress_port": port}, "priority": 1 + port} for port in ports), *others
    ]  # fmt: skip
    if loss:
        document["entries"].append(
            {"table": "NarrowsIngress.bottleneck.loss", "match": {"bottleneck": 0},
             "action": "NarrowsIngress.bottleneck.set_loss", "params": {"threshold": round(loss * 2**32)}}
        )  # fmt: skip
    document["queues"][0]["limit_packets"] = limit_packets
    document["pool_packets"] = 1_000_000
    document["inputs"] = [
        {"port": port, "generator": {
            "arrivals": "poisson", "rate_bps": round(stream.rate_bps), "frame_bytes": stream.frame_bytes,
            "stop_ns": round(duration_s * 1e9),
        }}
        for port, stream in zip(ports, streams, strict=True)
    ]  # fmt: skip
    document["outputs"][0]["snap_bytes"] = _CAPTURED
    (directory / "replay.json").write_text(json.dumps(document))
    command = [find_binary(SOFTSWITCH), "replay", "--config", directory / "replay.json", "--out", directory]
    subprocess.run([str(word) for word in command], check=True, capture_output=True)
    return np.frombuffer((directory / "reports.pcap").read_bytes()[24:], dtype=_RECORD)


@dataclass(frozen=True)
class Estimate:
    """A mean, and half the width of its confidence interval."""

    mean: float
    half_width: float

    def shown(self, name: str, expected: float) -> Estimate:
        """The same; the page has it in a row."""
        page.shows(name, expected, self.mean, self.half_width, repeats=True)
        return self

    def agrees(self, expected: float, sharp: float = 0.05) -> bool:
        """Whether the interval holds ``expected``, and is narrow enough (relative to it) to tell it from others."""
        return abs(self.mean - expected) <= self.half_width <= sharp * abs(expected)


def estimate(numerator: Numbers, denominator: Numbers | None = None) -> Estimate:
    """Mean of correlated values, or the ratio of two sums, by batch means.

    A. M. Law, Simulation Modeling and Analysis, 5th ed., section 9.5.3: means of long batches are nearly independent
    and normal, so that Student's t holds for them.
    """
    batches = np.array_split(numerator, BATCHES)
    below = [np.ones_like(batch) for batch in batches] if denominator is None else np.array_split(denominator, BATCHES)
    means = np.array([batch.sum() / part.sum() for batch, part in zip(batches, below, strict=True)])
    spread = float(means.std(ddof=1)) / BATCHES**0.5
    return Estimate(float(means.mean()), float(stats.t.ppf((1 + CONFIDENCE) / 2, BATCHES - 1)) * spread)
