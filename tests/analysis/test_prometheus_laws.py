# SPDX-License-Identifier: Apache-2.0
"""Laws of the collector's page for Prometheus: each sample against the lives of packets, whose reports are lost, late
or doubled, and whose drops are recorded or not."""

from __future__ import annotations

import os
import random
import struct
import subprocess
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import packet_lives as truth
import pytest
from narrows.paths import binary
from narrows.run.collector_figures import figures_at
from packet_cases import CASES, departed, dropped
from packet_lives import FULL, LOST, MANAGED, POLICED, THINNED, Experiment, Life
from prometheus_client.parser import text_string_to_metric_families
from steady_traffic import LINK, drawn

pytestmark = [pytest.mark.needs("narrows-collector"), pytest.mark.parallel_safe]

Key = tuple[str, frozenset[tuple[str, str]]]
PATIENCE_S = float(os.environ.get("NARROWS_PATIENCE", "60"))
# What may overtake a report, and how far behind it is still known from a copy (`WINDOW`, `HISTORY` of the collector).
WINDOW, KNOWN = 256, 1024
# Links with recorded drops, without, and one whose switch begins anew.
RECORDED, UNRECORDED, RESTARTED = range(3)
BEFORE, AFTER, FAR = 2_000, 200, 1 << 30
# The delay's bins: four for each power of two of time units.
EDGES = sorted((4 + part << power) - 1 for power in range(8, 34) for part in range(4))
SHOWN = [edge for edge in EDGES if 1_000 <= edge < 60_000_000_000]
REPORT = struct.Struct(">BBBBHHIIIIIIII6sH6sH")
DROP = struct.Struct(">BBHIIIQQI6s")


@dataclass(frozen=True)
class Received:
    """What a collector receives of a link: reports as they come, and which of them count."""

    frames: list[tuple[float, bytes]]
    passed: list[Life]
    lost: int
    late: int
    doubled: int


def pcap(frames: list[bytes]) -> bytes:
    """A capture in nanoseconds."""
    head = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65_535, 1)
    return head + b"".join(struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame for frame in frames)


def report_frame(report: dict[str, int], ends: dict[str, Any]) -> bytes:
    """A report as the switch sends it: Ethernet, IPv4 and UDP around it, and the packet's own headers behind."""
    row = {name: report[name] for name in (
        "flags", "bottleneck", "sample_shift", "flow", "packet_length", "signature", "sequence", "arrivals",
        "departures", "loss_drops", "aqm_drops", "enqueue_depth", "dequeue_depth", "queue_delay", "epoch", "timestamp",
        "queue",
    )}  # fmt: skip
    long = {name: row[name].to_bytes(6, "big") for name in ("queue_delay", "timestamp")}
    own = REPORT.pack(2, *(long.get(name, value) for name, value in row.items()))
    ports = struct.pack(">HHHH", ends["src_port"], ends["dst_port"], report["packet_length"] - 34, 0)
    packet = bytes(12) + b"\x08\x00" + ip(ends["src"], ends["dst"], ends["protocol"], report["packet_length"] - 14)
    inner = own + packet + ports
    outer = struct.pack(">HHHH", 5_500, 5_500, 8 + len(inner), 0)
    return bytes(12) + b"\x08\x00" + ip("192.0.2.1", "192.0.2.2", 17, 28 + len(inner)) + outer + inner


def ip(src: str, dst: str, protocol: int, length: int) -> bytes:
    """A header of IPv4."""
    ends = ip_address(src).packed + ip_address(dst).packed
    header: bytes = struct.pack(">BBHHHBBH", 0x45, 0, length, 0, 0, 64, protocol, 0) + ends
    total: int = sum(struct.unpack(">10H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return header[:10] + (total ^ 0xFFFF).to_bytes(2, "big") + header[12:]


def drop_frame(row: dict[str, int]) -> bytes:
    """The record of a drop."""
    values = (row["cause"], row["bottleneck"], row["flow"], row["signature"], row["packet_length"])
    depths = (row["depth_bytes"], row["depth_packets"].to_bytes(6, "big"))
    return bytes(12) + b"\x88\xb5" + DROP.pack(1, *values, row["timestamp"], row["waited"], *depths)


def received(experiment: Experiment, lives: list[Life], index: int, chance: random.Random) -> Received:
    """Reports of the lives in a link's order, of which some are lost, late or doubled, and others change places."""
    left = sorted(departed(lives), key=lambda life: life.started or 0)
    end = len(left) - 100 - WINDOW
    chosen = {number for number in range(100, end) if chance.random() < 0.01}
    late = {number for number in chosen if number + KNOWN < end and chance.random() < 0.5}
    doubled = {number for number in range(100, end) if number not in chosen and chance.random() < 0.02}
    frames = []
    for number, life in enumerate(left):
        if number in chosen - late:
            continue
        row = truth._report(experiment, life, index, number + 1)
        frame = report_frame(row, truth._ends(experiment.flow(life.flow)))
        place = number + (chance.random() * WINDOW / 4 if 100 <= number < end else 0)
        if number in late:
            place = number + chance.randint(2 * WINDOW, KNOWN - WINDOW)
        frames += [(place, frame)] + [(place + chance.random() * WINDOW / 4, frame)] * (number in doubled)
    passed = [life for number, life in enumerate(left) if number not in chosen]
    return Received(frames, passed, len(chosen), len(late), len(doubled))


def expected(experiment: Experiment, lives: list[Life], came: Received, index: int, unit: int) -> dict[Key, float]:
    """All samples of a link."""
    found: dict[Key, float] = {}

    def add(name: str, value: float, **labels: str) -> None:
        found[f"narrows_{name}", frozenset({"bottleneck": str(index), **labels}.items())] = value

    add_reports(add, len(came.passed), came.lost, {"duplicate": came.doubled, "late": came.late, "implausible": 0}, 0)
    add("link_queue_depth_bytes", came.passed[-1].left * unit)
    delays = [(life.started or 0) - life.offered for life in came.passed]
    add("link_queue_delay_seconds_sum", sum(delays))
    add("link_queue_delay_seconds_count", len(delays))
    for edge in SHOWN:
        add("link_queue_delay_seconds_bucket", sum(delay <= edge for delay in delays), le=str(edge))
    add("link_queue_delay_seconds_bucket", len(delays), le="inf")
    seen = 0
    for flow in experiment.flows:
        mine = [life for life in lives if life.flow == flow.name]
        left, shown = departed(mine), [life for life in came.passed if life.flow == flow.name]
        if not shown and (index == UNRECORDED or not dropped(mine, LOST, MANAGED, FULL, POLICED, THINNED)):
            continue
        seen += 1
        key = truth._key(experiment, flow.name, index)["flow"]
        labels = {"flow": str(key)} | {name: str(value) for name, value in truth._ends(flow).items() if shown}
        causes = {name: len(dropped(mine, cause)) for name, cause in
                  (("tail", FULL), ("aqm", MANAGED), ("policer", POLICED), ("ack-filter", THINNED),
                   ("loss", LOST))}  # fmt: skip
        # No program of a user's runs here.
        causes |= {"program-ingress": 0, "program-egress": 0}
        arrivals = len(mine) - causes["loss"]
        if index == UNRECORDED:
            last = max(left, key=lambda life: life.started or 0)
            arrivals, tail = last.arrivals, last.arrivals - last.departures - last.managed
            causes = {**dict.fromkeys(causes, 0), "tail": tail, "aqm": last.managed, "loss": last.losses}
        add("flow_arrivals_packets_total", arrivals, **labels)
        add("flow_departures_packets_total", len(left), **labels)
        for cause, count in causes.items():
            add("flow_drops_packets_total", count, cause=cause, **labels)
        add("flow_marks_packets_total", sum(life.marked for life in shown), **labels)
        add("flow_reported_bytes_total", sum(life.length for life in shown), **labels)
    add("link_flows", seen)
    return found


def add_reports(add: Any, reports: int, lost: int, discarded: dict[str, int], restarts: int) -> None:
    """What became of a link's reports."""
    add("reports_total", reports)
    add("reports_lost_total", lost)
    add("reports_restarts_total", restarts)
    for reason, count in discarded.items():
        add("reports_discarded_total", count, reason=reason)


def restarted(experiment: Experiment) -> list[bytes]:
    """Reports of a switch that begins anew, one of which is damaged."""
    life = Life("f0", LINK, experiment.sent[0], False, 0, 100, started=1, arrivals=1, departures=1)
    frames = []
    for number in [*range(1, BEFORE + 1), *range(1, AFTER + 1)]:
        counted = replace(life, arrivals=number, departures=number)
        row = truth._report(experiment, counted, RESTARTED, number)
        frames.append(report_frame(row, truth._ends(experiment.flow("f0"))))
        if len(frames) == BEFORE // 2:
            frames.append(report_frame({**row, "sequence": FAR}, truth._ends(experiment.flow("f0"))))
    return frames


def scraped(path: Path) -> dict[Key, float]:
    """Every sample but the page's own times; times as whole nanoseconds."""
    found: dict[Key, float] = {}
    for family in text_string_to_metric_families(figures_at(path)):
        for sample in family.samples:
            labels = dict(sample.labels)
            if labels.get("le", "+Inf") != "+Inf":
                labels["le"] = str(round(float(labels["le"]) * 1e9))
            elif "le" in labels:
                labels["le"] = "inf"
            value = round(sample.value * 1e9) if sample.name.endswith("seconds_sum") else sample.value
            key = sample.name, frozenset(labels.items())
            assert key not in found, "a sample is there twice"
            found[key] = value
    return found


def about(samples: dict[Key, float], restarts: bool) -> dict[Key, float]:
    """Samples of the link whose switch begins anew, of which only reports are looked at, or of the others."""
    mine = {key: value for key, value in samples.items() if (("bottleneck", str(RESTARTED)) in key[1]) == restarts}
    return {key: value for key, value in mine.items() if not restarts or key[0].startswith("narrows_reports")}


@pytest.mark.parametrize("number", range(max(1, CASES // 5)))
def test_each_sample_is_what_became_of_the_packets(tmp_path: Path, number: int) -> None:
    chance, unit = random.Random(number), random.Random(number).choice([1, 80])
    seen, right = Counter[str](), dict[Key, float]()
    streams: list[list[bytes]] = []
    for index in (RECORDED, UNRECORDED):
        plain = drawn(2 * number + index)
        sent = [replace(one, lost_at=(chance.random() < 0.05,)) for one in plain.sent]
        experiment = replace(plain, sent=tuple(sent), managed_every=7, policed_every=11, thinned_every=5)
        lives = truth.lives(experiment)[LINK]
        came = received(experiment, lives, index, chance)
        records = [drop_frame(truth._drop(experiment, life, index)) for life in lives if life.dropped is not None]
        streams.append([frame for _, frame in sorted(came.frames, key=lambda one: one[0])])
        streams.append(records if index == RECORDED else [])
        right |= expected(experiment, lives, came, index, unit)
        seen += Counter({"lost": came.lost, "late": came.late, "doubled": came.doubled})
        seen += Counter(str(life.cause) for life in lives if life.cause)
    assert all(seen[str(what)] for what in ("lost", "doubled", MANAGED, POLICED, THINNED, LOST)), seen

    def add(name: str, value: float, **labels: str) -> None:
        right[f"narrows_{name}", frozenset({"bottleneck": str(RESTARTED), **labels}.items())] = value

    add_reports(add, BEFORE + AFTER, 0, {"duplicate": 0, "late": 0, "implausible": 1}, 1)
    capture = pcap([frame for stream in (*streams, restarted(experiment)) for frame in stream])
    with ExitStack() as stack:
        pipe, metrics = tmp_path / "pipe", tmp_path / "metrics"
        os.mkfifo(pipe)
        files = ("--pipe", pipe, "--out", tmp_path / "out", "--metrics", f"unix:{metrics}")
        command: list[str | Path] = [binary("narrows-collector"), "collect", *files, "--depth-unit-bytes", str(unit)]
        process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE))
        stack.callback(process.terminate)
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        with pipe.open("wb") as file:
            file.write(capture)
        deadline = time.monotonic() + PATIENCE_S
        shown = scraped(metrics)
        while any(about(shown, it) != about(right, it) for it in (False, True)) and time.monotonic() < deadline:
            time.sleep(0.2)
            shown = scraped(metrics)
    for restarts in (False, True):
        assert not set(about(shown, restarts).items()) ^ set(about(right, restarts).items())
