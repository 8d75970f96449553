# SPDX-License-Identifier: Apache-2.0
"""Experiments in which features meet: links that vary, managed queues, impairments, both ways, all kinds of flows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

NAMES = ("one", "two", "three")
PAYLOAD = 500  # of datagrams: it fits into the smallest MTU
STEPS = ("2Mbit", "10Mbit", "16Mbit", "3Mbit", "8Mbit")
TRACE_CSV = "t,r\n0,5\n0.4,2\n0.9,9\n1.5,4\n"
CSV = {"file": "rates", "format": "csv", "columns": {"time": "t", "rate": "r"}, "time_unit": "s", "unit": "Mbit"}
# Opportunities at which one, several, or none of the bytes of a frame find room; some at the same millisecond.
TRACE_MAHIMAHI = [0, 1, 1, 1, *range(3, 200, 2), *[210] * 40, *range(400, 600), 777, 777, 1000]
LOSSES = [int(position % 83 in (5, 6, 40)) for position in range(1000)]


def write_files(directory: Path) -> None:
    """The files that the experiments name."""
    (directory / "rates").write_text(TRACE_CSV)
    (directory / "opportunities").write_text("".join(f"{stamp}\n" for stamp in TRACE_MAHIMAHI))
    (directory / "losses").write_text("".join(f"{lost}\n" for lost in LOSSES))


def of(values: Sequence[Any]) -> st.SearchStrategy[Any]:
    """One of the values."""
    return st.sampled_from(values)


@st.composite
def rates(draw: st.DrawFn) -> Any:
    """A rate, more often constant than any other."""
    first, second = draw(of(STEPS)), draw(of(STEPS))
    outage = [{"at": "0s", "rate": first}, {"at": "900ms", "rate": "0bit"}, {"at": "1100ms", "rate": second}]
    steps = [{"at": "0s", "rate": first}, {"at": "700ms", "rate": second}, {"at": "1333333333ns", "rate": first}]
    wave = {"low": "1Mbit", "high": "17Mbit", "period": draw(of(["100ms", "333ms", "1s"]))}
    mahimahi = {"file": "opportunities", "format": "mahimahi"}
    constant = [*STEPS, "1Mbit", "33333333bit", "100Mbit"]
    varying = [
        {"steps": steps},
        {"steps": steps[:2], "period": draw(of(["750ms", "777777777ns"]))},
        {"steps": outage},
        {"wave": {"kind": draw(of(["sine", "square", "sawtooth"])), **wave}},
        {"trace": mahimahi},
        {"trace": {**mahimahi, "as": "rate", "bin": "100ms", "scale": 2}},
        {"trace": {**CSV, "holds": draw(of(["from", "until"])), "offset": draw(of(["0s", "300ms"]))}},
    ]
    return draw(of([*constant, *varying]))


@st.composite
def directions(draw: st.DrawFn, extra: bool) -> dict[str, Any]:
    """One direction of a link: rate, queue, impairments. ``extra``: with a capture perhaps."""
    link: dict[str, Any] = {"rate": draw(rates()), "buffer": draw(of(["10packets", "20kB", "50packets", "100kB"]))}
    kinds = ["tail-drop"] * 4 + ["head-drop", "codel", "pie", "pi2", "dualpi2", "fq", "fq_codel"]
    kind = draw(of([*kinds, {"kind": "step", "threshold": "2ms"}, {"kind": "codel", "ecn": True}]))
    if kind != "tail-drop":
        link["queue"] = kind
    elif draw(of([False, True])):
        link["ecn_threshold"] = "1packets"
    steps = [{"at": "0s", "delay": "10ms"}, {"at": "1s", "delay": "25ms"}]
    delay = draw(of([None, None, "5ms", "7777777ns", {"steps": steps}, {"steps": steps, "period": "1300ms"}]))
    if delay is not None:
        link["delay"] = delay
        normal, uniform = {"normal": "1ms"}, {"uniform": "3ms"}
        jitter = draw(of([None, normal, uniform, {**uniform, "reorder": True}]))
        link |= {"jitter": jitter} if jitter is not None else {}
    link |= {"duplication": 0.01} if draw(of([False] * 6 + [True])) else {}
    bursts = {"gilbert_elliott": {"p": 0.01, "r": 0.3}}
    loss = draw(of([None, None, None, None, 0.001, 0.01, bursts, {"trace": {"file": "losses"}}]))
    link |= {"loss": loss} if loss is not None else {}
    link |= {"capture": True} if extra and draw(of([False] * 9 + [True])) else {}
    return link


KINDS: dict[str, dict[str, Any]] = {
    "bulk": {"duration": "2s"},
    "several": {"duration": "1s", "count": 3},
    "sized": {"size": "100kB", "count": 2},
    "repeated": {"size": "20kB", "repeat": 8, "gap": "50ms"},
    "udp": {"udp": {"rate": "3Mbit", "payload": f"{PAYLOAD}B", "ecn": "ect0"}, "duration": "2s"},
    "bursts": {"udp": {"rate": "8Mbit", "payload": "200B", "bursts": {"length": "20ms", "pause": "60ms"}},
               "duration": "2s"},
    "probe": {"probe": {"interval": "10ms"}, "duration": "2s"},
    "workload": {"workload": {"flows": 15, "gaps": {"exponential": {"mean": "60ms"}},
                              "sizes": {"pareto": {"shape": 1.2, "smallest": "2kB", "largest": "200kB"}}}},
    "kept": {"requests": {"size": "30kB", "think": "50ms", "users": 2}, "duration": "2s"},
    "new": {"requests": {"gaps": {"exponential": {"mean": "80ms"}}, "size": "10kB", "connections": "new"},
            "duration": "1s"},
    "video": {"video": {"bitrates": ["300kbit", "700kbit"], "segment": "500ms", "buffer": "4s"}, "duration": "3s"},
}  # fmt: skip


@st.composite
def groups(draw: st.DrawFn, number: int, links: dict[str, Any]) -> dict[str, Any]:
    """A flow group over some links in a row."""
    names = list(links)
    first = draw(st.integers(0, len(names) - 1))
    path = names[first : draw(st.integers(first + 1, len(names)))]
    kind = draw(of(["bulk", "bulk", *KINDS]))
    group = {"name": f"{kind}-{number}", "path": path, **KINDS[kind]}
    if "udp" not in group and "probe" not in group:
        group["cca"] = draw(of(["cubic", "cubic", "reno", "bbr", "dctcp"]))
    group |= {"start": "300ms"} if draw(st.booleans()) else {}
    group |= {"rtt": "150ms"} if draw(of([False] * 5 + [True])) else {}
    if any("reverse" in links[name] for name in path) and draw(of([False, True])):
        group["direction"] = "reverse"
    return group


@st.composite
def mixtures(draw: st.DrawFn) -> dict[str, Any]:
    """An experiment of some seconds over one to three links, each packet of which is in a report."""
    links = {}
    for name in NAMES[: draw(st.integers(1, 3))]:
        links[name] = draw(directions(extra=True)) | {"rtt": draw(of(["4ms", "20ms", "13333333ns"]))}
        links[name] |= {"reverse": draw(directions(extra=False))} if draw(st.booleans()) else {}
    flows = [draw(groups(number, links)) for number in range(draw(st.integers(1, 4)))]
    mixture: dict[str, Any] = {"name": "mixture", "links": links, "flows": flows, "seed": draw(st.integers(1, 999))}
    mixture["mtu"], mixture["ip_version"] = draw(of([(1500, 4), (1500, 4), (1500, 6), (600, 4), (1280, 6)]))
    mixture["telemetry"] = {"acks": draw(st.booleans()), "sockets": draw(of(["0", "100ms"]))}
    if draw(of([False, False, True])):
        link = draw(of(list(links)))
        changes: list[dict[str, Any]] = [{"buffer": "15packets"}, {"buffer": "200packets"}]
        changes += [{"rate": "6Mbit"}] if isinstance(links[link]["rate"], str) else []
        changes += [{"loss": 0.02}] if not isinstance(links[link].get("loss"), dict) else []
        mixture["events"] = [{"at": "800ms", "link": link, **draw(of(changes))}]
    return mixture
