# SPDX-License-Identifier: Apache-2.0
"""The P4 pipeline and its queues alone: capture in, reports out, in virtual time on one processor."""

from __future__ import annotations

import ipaddress
import json
import os
import resource
import subprocess
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import host
import pipeline_aqms
from measuring import Contestant, Series, alternate
from narrows.paths import REPOSITORY, binary, compiled_program
from narrows.switch.entries import delay_bins
from narrows_formats.programs import SOFTSWITCH
from pipeline_aqms import MANAGED_PROGRAM
from results import Outcome, Table

PACKETS = 2_000_000
RATE_BPS = 100_000_000_000
PROGRAM = "v1model"
REPORT_PORT = 500
FIRST_EGRESS = 200
BOTTLENECKS = (1, 16, 64)
FLOWS = (1, 1_000, 60_000)
# Without FCS: 64 and 1518 on the wire.
FRAMES = (60, 1514)
BASE = (1, 1_000, 1514)
Shape = tuple[int, int, int]
EXAMPLE = REPOSITORY / "softswitch" / "replay" / "examples" / "constant-100g.json"
ORDINARY = "in memory (pages of 4 KiB)"
RATE = "packets_per_s"
SCHEDULED = "as the first row, another rate every millisecond"
MILLISECOND_NS = 1_000_000


def run(runs: int) -> Outcome:
    """A base case, one case for every other number of bottlenecks, flows and bytes, and several base cases at once."""
    shapes = [BASE]
    shapes += [(bottlenecks, BASE[1], BASE[2]) for bottlenecks in BOTTLENECKS if bottlenecks != BASE[0]]
    shapes += [(BASE[0], flows, BASE[2]) for flows in FLOWS if flows != BASE[1]]
    shapes += [(BASE[0], BASE[1], frame) for frame in FRAMES if frame != BASE[2]]
    with host.large_pages() as (directory, memory):
        startup_s, managed_startup_s = (_startup(directory, program) for program in (PROGRAM, MANAGED_PROGRAM))
        configs = {shape: prepare(directory, shape) for shape in shapes}
        managed = {kind: pipeline_aqms.managed(configs[BASE], kind) for kind in pipeline_aqms.KINDS}
        contestants: dict[str, Contestant] = {
            name_of(shape): partial(_replay, directory, config, startup_s) for shape, config in configs.items()
        }
        contestants[SCHEDULED] = partial(_replay, directory, scheduled(configs[BASE]), startup_s)
        laws: dict[str, Contestant] = {
            kind: partial(_replay, directory, config, managed_startup_s) for kind, config in managed.items()
        }
        with tempfile.TemporaryDirectory(prefix="narrows-bench-", dir=host.scratch()) as ordinary:
            places = {memory: directory, ORDINARY: Path(ordinary)}
            seconds: dict[str, Contestant] = {name: partial(_second, place) for name, place in places.items()}
            # Memory that a virtual machine has to be given first costs several times what is measured.
            for contestant in (*contestants.values(), *laws.values(), *seconds.values()):
                contestant()
            series = alternate(contestants, runs)
            of_laws = alternate({name_of(BASE): contestants[name_of(BASE)], **laws}, runs)
            second = alternate(seconds, runs)
        several: dict[str, Contestant] = {
            str(number): partial(_side_by_side, directory, configs[BASE], number) for number in _at_once()
        }
        scaling = alternate(several, runs)
    header = ("Bottlenecks, flows of all, frame without FCS", "Million packets/s of one core", "Cost against the base")
    table = Table(header, [_row(series, name) for name in contestants])
    conditions = (
        f"`narrows-softswitch replay` pinned to one processor: {PACKETS:,} packets from a capture {memory} through "
        f"the program to bottlenecks of {RATE_BPS // 10**9} Gbit/s in all, a report for every packet into another "
        "capture there. The rate is that of the packets read over processor time (user and system) of the process, "
        f"less {startup_s:.3f} s for starting up and loading the program ({managed_startup_s:.3f} s: with management), "
        "measured with an empty capture; the JSON has the wall clock as well. Cost is time per packet over that of the "
        "first row, run by run. 'One second at 100 "
        f"Gbit/s' is {EXAMPLE.name}: a generator at 101 Gbit/s, a queue that stays full, a report for every packet; "
        "all of the process's time, with its start. 'Replays at once' are so many configurations like the first row's "
        "in one process that has as many processors, by the wall clock and with its start: bottlenecks that are "
        "independent are configurations of their own. "
        "Queue management has its defaults and a link that is offered its own rate, as in the first row, so that a law "
        "drops nothing. A first run of each, which overwrites nothing, is not counted."
    )
    by_law = Table(
        ("Queue management of the first row's case", "Million packets/s of one core", "Cost against tail drop"),
        [
            (
                "tail-drop" if name == name_of(BASE) else name,
                of_laws.spread(name, RATE).text(1e-6),
                of_laws.ratio(name_of(BASE), name, RATE).text(),
            )
            for name in of_laws.runs
        ],
    )
    of_a_second = Table(
        ("One second at 100 Gbit/s, reports written to a file", "Processor time, s"),
        [(place, second.spread(place, "processor_s").text()) for place in second.runs],
    )
    of_several = Table(
        ("Replays at once", "Million packets/s of all", "Against one"),
        [(name, scaling.spread(name, RATE).text(1e-6), scaling.ratio(name, "1", RATE).text()) for name in scaling.runs],
    )
    data: dict[str, Any] = {"packets": PACKETS, "startup_s": startup_s, "base": name_of(BASE), **series.as_json()}
    data["cost_over_base"] = {name: series.ratio(name_of(BASE), name, RATE).__dict__ for name in contestants}
    data["queue_management"] = of_laws.as_json()
    data["one_second_at_100_gbps"] = second.as_json()
    data["replays_at_once"] = scaling.as_json()
    return Outcome(
        "Pipeline alone",
        conditions,
        [table, by_law, of_a_second, of_several],
        data,
        [" ".join(_command(Path("CONFIG"), Path("OUT"), SOFTSWITCH))],
    )


def name_of(shape: Shape) -> str:
    """What a case is called in tables."""
    bottlenecks, flows, frame = shape
    return f"{bottlenecks}, {flows:,}, {frame} B"


def _row(series: Series, name: str) -> tuple[str, ...]:
    rate = series.spread(name, RATE).text(1e-6)
    return (name, rate, series.ratio(name_of(BASE), name, RATE).text())


def _command(config: Path, out: Path, program: str | None = None, processor: int = 0) -> list[str]:
    return [
        "taskset",
        "--cpu-list",
        str(processor),
        program or str(binary(SOFTSWITCH)),
        *f"replay --config {config} --out {out}".split(),
    ]


def prepare(directory: Path, shape: Shape, packets: int = PACKETS) -> Path:
    """Make the input captures of a case by a generator, and its configuration."""
    bottlenecks, flows, frame = shape
    stem = f"{bottlenecks}-{flows}-{frame}"
    ports = list(range(1, bottlenecks + 1))
    rate = RATE_BPS // bottlenecks
    generate = _config(
        ports,
        [
            {
                "port": port,
                "generator": {
                    "arrivals": "constant",
                    "rate_bps": rate,
                    "frame_bytes": frame,
                    "flows": max(flows // bottlenecks, 1),
                    "stop_ns": packets // bottlenecks * frame * 8 * 10**9 // rate,
                    "src_ip": str(ipaddress.ip_address("10.1.0.0") + (port << 8)),
                },
            }
            for port in ports
        ],
        entries=[
            _path(port, {"action": "NarrowsIngress.cross_connect.wire", "params": {"port": FIRST_EGRESS + port}})
            for port in ports
        ],
        outputs=[{"port": FIRST_EGRESS + port, "pcap": f"{stem}-{port}.pcap", "snap_bytes": 128} for port in ports],
    )
    first = directory / f"{stem}-generate.json"
    first.write_text(json.dumps(generate))
    subprocess.run(_command(first, directory), check=True, capture_output=True)
    entries = []
    for port in ports:
        parameters = {"index": port - 1, "port": FIRST_EGRESS + port, "queue": 0}
        entries.append(_path(port, {"action": "NarrowsIngress.cross_connect.bottleneck", "params": parameters}))
        entries += _observe(port - 1)
    for bin_ in delay_bins():
        entries.append(
            {
                "table": "NarrowsEgress.bottleneck.delay_bins",
                "match": {"queue_delay": f"{bin_.lowest}/{bin_.prefix_length}"},
                "action": "NarrowsEgress.bottleneck.set_bin",
                "params": {"bin": bin_.number},
            }
        )
    config = _config(
        ports,
        [{"port": port, "pcap": str(directory / f"{stem}-{port}.pcap"), "start_ns": 0} for port in ports],
        entries=entries,
        outputs=[{"port": REPORT_PORT, "pcap": f"{stem}-reports.pcap", "snap_bytes": 184}],
    )
    config["clone_sessions"] = [{"session": 1, "ports": [REPORT_PORT], "length_limit": 128}]
    config["queues"] = [
        {"port": FIRST_EGRESS + port, "rate_bps": rate, "limit_bytes": 12_500_000 // bottlenecks, "limit_packets": 0}
        for port in ports
    ]
    path = directory / f"{stem}.json"
    path.write_text(json.dumps(config))
    return path


def scheduled(config: Path) -> Path:
    """The same configuration with a schedule: two rates in turn, 1 bit/s apart, so that queues do the same."""
    data = json.loads(config.read_text())
    for queue in data["queues"]:
        rate = queue["rate_bps"]
        steps = [(0, rate), (MILLISECOND_NS, rate + 1)]
        queue["rate_steps"] = {"steps": steps, "period_ns": 2 * MILLISECOND_NS}
    path = config.with_stem(f"{config.stem}-scheduled")
    path.write_text(json.dumps(data))
    return path


def _config(
    ports: list[int], inputs: list[dict[str, Any]], entries: list[dict[str, Any]], outputs: list[dict[str, Any]]
) -> dict[str, Any]:
    program, _ = compiled_program(PROGRAM)
    numbers = [*ports, *(FIRST_EGRESS + port for port in ports), REPORT_PORT]
    return {
        "program": str(program),
        "seed": 1,
        "ports": numbers,
        "entries": entries,
        "inputs": inputs,
        "outputs": outputs,
    }


def _path(port: int, action: dict[str, Any]) -> dict[str, Any]:
    table = "NarrowsIngress.cross_connect.cross_connect"
    return {"table": table, "match": {"ingress_port": port}, "priority": 10, **action}


def _observe(bottleneck: int) -> list[dict[str, Any]]:
    observe = {
        "threshold": "0xffffffff",
        "counts_packets": 0,
        "seed": 0,
        "mask": 0,
        "shift": 0,
        "epoch": 0,
        "mirror": 1,
    }
    encapsulate = {
        "src_mac": "02:00:00:00:00:fe",
        "dst_mac": "02:00:00:00:00:ff",
        "src_ip": "10.255.0.1",
        "dst_ip": "10.255.0.2",
        "src_port": 5500,
        "dst_port": 5500,
        "length": 184,
    }
    key = {"bottleneck": bottleneck}
    settings, report = "NarrowsEgress.settings", "NarrowsEgress.report"
    return [
        {"table": f"{settings}.bottleneck", "match": key, "action": f"{settings}.observe", "params": observe},
        {"table": f"{report}.collector", "match": key, "action": f"{report}.encapsulate", "params": encapsulate},
    ]


def _timed(command: list[str]) -> tuple[float, float]:
    """Processor seconds (user and system) and wall-clock seconds of a command."""
    started = time.monotonic()
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    wall = time.monotonic() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - usage.ru_utime - usage.ru_stime, wall


def _startup(directory: Path, program: str) -> float:
    """Processor time of a run without packets: the least of three."""
    config = directory / "empty.json"
    config.write_text(json.dumps({**_config([1], [], [], []), "program": str(compiled_program(program)[0])}))
    return min(_timed(_command(config, directory / "empty"))[0] for _ in range(3))


def _replay(directory: Path, config: Path, startup_s: float) -> dict[str, float]:
    out = directory / "out"
    processor, wall = _timed(_command(config, out))
    summary = json.loads((out / "summary.json").read_text())
    packets = sum(entry["packets"] for entry in summary["inputs"])
    reports = next(entry["packets"] for entry in summary["outputs"] if entry["port"] == REPORT_PORT)
    return {
        RATE: packets / (processor - startup_s),
        "wall_packets_per_s": packets / wall,
        "reports_per_packet": reports / packets,
    }


def _at_once() -> list[int]:
    """1, 2, 4 and so on, as far as there are processors."""
    processors = os.cpu_count() or 1
    return [1 << power for power in range(processors.bit_length())]


def _side_by_side(directory: Path, config: Path, number: int) -> dict[str, float]:
    """So many replays of one configuration at once, in one process."""
    words = ["taskset", "--cpu-list", f"0-{number - 1}", str(binary(SOFTSWITCH)), "replay"]
    for copy in range(number):
        same = config.with_name(f"{config.stem}-{copy}.json")
        same.write_bytes(config.read_bytes())
        words += ["--config", str(same)]
    return {RATE: number * PACKETS / _timed([*words, "--out", str(directory / "at-once")])[1]}


def _second(directory: Path) -> dict[str, float]:
    processor, wall = _timed(_command(EXAMPLE, directory / "second"))
    return {"processor_s": processor, "wall_s": wall}
