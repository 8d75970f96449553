# SPDX-License-Identifier: Apache-2.0
"""Laws of what hosts say: requests, video, datagrams and probes, retransmissions; each from records drawn at random."""

from __future__ import annotations

import json
import math
import random
import tempfile
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import packet_lives as truth
import pytest
from narrows_analysis import analyze_run
from packet_cases import CASES
from packet_lives import NS, TCP, UDP, Experiment, Flow, Link, Sent

pytestmark = [pytest.mark.needs("narrows-collector"), pytest.mark.parallel_safe]

KINDS = ("requests", "video", "udp", "probe", "tcp")
PERCENTILES = {"p50": 50, "p95": 95, "p99": 99}
RECORD_SOURCE = "the hosts (flow records, TCP_INFO)"


def ranked(values: list[float]) -> dict[str, Any] | None:
    """Least, mean, most, and the smallest values that so many percent do not exceed."""
    if not values:
        return None
    ordered = sorted(values)
    places = {name: max(1, math.ceil(part / 100 * len(ordered))) for name, part in PERCENTILES.items()}
    found = {"min": ordered[0], "mean": fmean(ordered), "max": ordered[-1]}
    found |= {name: ordered[place - 1] for name, place in places.items()}
    return {name: pytest.approx(value, abs=1e-9) for name, value in found.items()}


def exchanges(chance: random.Random, bitrates: list[float] | None) -> list[dict[str, Any]]:
    """Requests, of which some have no answer, or half of one, or wait before they can be made."""
    found = []
    for number in range(chance.randint(0, 250)):
        due = round(number * 0.01 + chance.random() * 0.01, 6)
        sent = due + chance.choice([0.0, 0.05])
        first = None if chance.random() < 0.1 else sent + chance.expovariate(20)
        done = None if first is None or chance.random() < 0.1 else first + chance.expovariate(10)
        found.append(
            {"user": number % 3, "due_s": due, "sent_s": sent, "first_byte_s": first, "done_s": done, "bytes": 1_000,
             "src_port": 40_000, "bitrate_bps": chance.choice(bitrates) if bitrates else None}
        )  # fmt: skip
    return found


def arrivals(chance: random.Random, sent: int) -> dict[str, Any]:
    """What a receiver says of some datagrams; that it does not know how long they took, too."""
    got = chance.randint(0, sent)
    doubled = chance.randint(0, got // 2)
    delays = [chance.random() for _ in range(got)]
    timed = bool(got) and chance.random() < 0.8
    ordered = sorted(delays)
    delay = {"min": ordered[0], "mean": fmean(ordered), "max": ordered[-1]} if timed else None
    if delay is not None:
        delay |= {name: ordered[max(1, math.ceil(part / 100 * got)) - 1] for name, part in PERCENTILES.items()}
    return {"packets": got + doubled, "bytes": got * 100, "duplicates": doubled, "reordered": chance.randint(0, got),
            "ce_marked": chance.randint(0, got), "unread": 0, "delay_s": delay}  # fmt: skip


def record_of(kind: str, chance: random.Random) -> dict[str, Any]:
    """A host's record of a kind of flow."""
    own: dict[str, Any] = {"kind": kind, "started_s": round(chance.random(), 3), "ended_s": 9.0}
    if kind == "requests":
        own |= {"responses": exchanges(chance, None)}
    elif kind == "video":
        playing = None if chance.random() < 0.2 else own["started_s"] + chance.random()
        times = sorted(chance.uniform(2, 9) for _ in range(2 * chance.randint(0, 3)))
        stalls = [] if playing is None else list(zip(times[::2], times[1::2], strict=True))
        own |= {
            "responses": exchanges(chance, [300_000.0, 800_000.0, 2_500_000.0]),
            "video": {"segment_s": 2.0, "playing_s": playing, "stalls": stalls},
        }
    elif kind in ("udp", "probe"):
        sent = chance.randint(1, 400)
        received = None if chance.random() < 0.15 else arrivals(chance, sent)
        own |= {"packets_sent": sent, "packets_unsent": 0, "last_sent_s": 8.0, "received": received}
    else:
        samples = [
            {"time_s": float(second), "rtt_s": chance.choice([None, chance.uniform(0.01, 0.1)]), "cwnd_bytes": 1_000}
            for second in range(chance.randint(0, 9))
        ]
        own |= {"retransmits": chance.randrange(100), "rtt_min_s": chance.choice([None, 0.01]), "samples": samples}
    return own


def expected(own: dict[str, Any]) -> dict[str, Any]:
    """What a record says of its flow."""
    found: dict[str, Any] = {"responses": None, "video": None, "datagrams": None, "host_retransmits": None}
    if (asked := own.get("responses")) is not None:
        done = [one for one in asked if one["done_s"] is not None]
        found["responses"] = {
            "requests": len(asked),
            "completed": len(done),
            "first_byte_s": ranked([x["first_byte_s"] - x["due_s"] for x in asked if x["first_byte_s"] is not None]),
            "time_s": ranked([one["done_s"] - one["due_s"] for one in done]),
        }
    if (session := own.get("video")) is not None:
        bitrates = [one["bitrate_bps"] for one in own["responses"] if one["done_s"] is not None]
        changes = sum(one != other for one, other in pairwise(bitrates))
        stall_s = sum(end - begin for begin, end in session["stalls"])
        playing = session["playing_s"]
        found["video"] = {
            "segments": len(bitrates),
            "bitrate_bps": pytest.approx(fmean(bitrates)) if bitrates else None,
            "switches": changes,
            "startup_s": None if playing is None else pytest.approx(playing - own["started_s"]),
            "stalls": len(session["stalls"]),
            "stall_s": pytest.approx(stall_s),
            "stall_ratio": None if playing is None else pytest.approx(stall_s / (own["ended_s"] - playing)),
        }
    if "packets_sent" in own:
        got, names = own["received"], ("received", "lost", "duplicates", "reordered", "ce_marked", "delay_s", "rtt_s")
        found["datagrams"] = {"sent": own["packets_sent"], **dict.fromkeys(names)}
        if got is not None:
            distinct = got["packets"] - got["duplicates"]
            times = got["delay_s"] and {name: pytest.approx(value) for name, value in got["delay_s"].items()}
            found["datagrams"] |= {
                "received": got["packets"], "lost": own["packets_sent"] - distinct, "duplicates": got["duplicates"],
                "reordered": got["reordered"], "ce_marked": got["ce_marked"],
                "rtt_s" if own["kind"] == "probe" else "delay_s": times,
            }  # fmt: skip
            if own["kind"] == "probe" and got["delay_s"] is not None:
                found["rtt_s"] = {name: pytest.approx(got["delay_s"][name]) for name in ("min", "mean")}
                found["rtt_source"] = "the probe (round trips of its datagrams)"
    if own["kind"] == "tcp":
        known = [one["rtt_s"] for one in own["samples"] if one["rtt_s"] is not None]
        found["host_retransmits"] = own["retransmits"]
        found["rtt_s"] = {"min": own["rtt_min_s"], "mean": pytest.approx(fmean(known)) if known else None}
        found["rtt_source"] = None if own["rtt_min_s"] is None else RECORD_SOURCE
    return found


def test_what_hosts_say() -> None:
    link = Link("a", ((0, 1_000_000),), 20_000)
    flows = tuple(
        Flow(f"f{number}", ("a",), UDP if kind in ("udp", "probe") else TCP, 0, 9 * NS, 500)
        for number, kind in enumerate(KINDS)
    )
    sent = tuple(Sent(flow.name, NS + number, 0, False, (False,), (False,), (0,)) for number, flow in enumerate(flows))
    experiment = Experiment((link,), flows, sent, 0, 0, 0, 0)
    lives = truth.lives(experiment)
    for number in range(CASES):
        chance = random.Random(number)
        with tempfile.TemporaryDirectory() as place:
            directory = Path(place, "run")
            truth.write(experiment, lives, directory)
            records = {f"f{at}": record_of(kind, chance) for at, kind in enumerate(KINDS)}
            for name, own in records.items():
                file = directory / "hosts" / f"{name}.json"
                file.write_text(json.dumps({**json.loads(file.read_text()), "received": None, **own}))
            summary = analyze_run(directory)
        for flow in summary["flows"]:
            right = expected(records[flow["name"]])
            assert {name: value for name, value in flow.items() if name in right} == right, (number, flow["name"])
