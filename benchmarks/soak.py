# SPDX-License-Identifier: Apache-2.0
"""Real TCP flows through the softswitch for a long time, a report on every packet; then every counter must balance.

``soak.py --seconds 600`` as root. Exit code 1 when a balance does not hold, memory or open files
grow, or the switch's clock drifts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import host
import results
from finsy import P4CounterEntry
from narrows.errors import EXIT_BAD_INPUT, EXIT_FAILED, EXIT_OK, NarrowsError, RunError
from narrows.hosts.links import links
from narrows.paths import binary, compiled_program
from narrows.switch import traffic_manager_pb2 as pb
from narrows.switch.p4runtime import P4RuntimeSession
from narrows.switch.traffic_manager import TrafficManagerClient
from narrows_formats.programs import COLLECTOR, SOFTSWITCH
from network import COLLECTOR as COLLECTOR_HOST
from network import RECEIVER, SENDER, Network, address, ready
from results import Outcome, Table
from switches import entries, softswitch_command

RATE_MBPS = 500
FLOWS = 64
DELAY_NS = 10_000_000  # each way
SAMPLE_S = 5.0
IPERF3_LONGEST_INTERVAL_S = 60  # its own limit
DRAIN_S = 3.0
# Resident memory may vary by this much; what leaks at 40,000 packets a second is more within a minute.
GROWTH_BYTES = 4 << 20
# Until then the hosts ramp up, and memory is taken for the first time.
WARM_UP = 0.25
MIN_UTILIZATION = 0.95
# What the fastest of some hundred answers takes on a machine that does other things.
MOST_BEHIND_NS = 5_000_000
ANSWERS = 5  # of each sample
ARRIVALS = "NarrowsIngress.bottleneck.arrival_counter.flows"
DEPARTURES = "NarrowsEgress.bottleneck.departure_counter.flows"
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Sample:
    """The state at one moment: resident bytes, open files and processor seconds of both processes, packets so far.

    ``clock_ns`` is the switch's clock less this process's when its answer came, the latest of a few.
    """

    time_s: float
    clock_ns: int
    switch_bytes: int
    collector_bytes: int
    switch_files: int
    collector_files: int
    switch_cpu_s: float
    collector_cpu_s: float
    dequeued_bytes: int
    pool_packets: int


@dataclass
class Soak:
    """What one run leaves: samples, and every counter after the queues have drained."""

    samples: list[Sample] = field(default_factory=list)
    queues: dict[int, pb.Queue] = field(default_factory=dict)
    ports: dict[int, pb.Port] = field(default_factory=dict)
    discards: pb.Discards = field(default_factory=pb.Discards)
    # Packets and bytes by flow, those that are not 0.
    arrivals: dict[int, tuple[int, int]] = field(default_factory=dict)
    departures: dict[int, tuple[int, int]] = field(default_factory=dict)
    drops: dict[int, tuple[int, int]] = field(default_factory=dict)
    interfaces: dict[str, tuple[int, int]] = field(default_factory=dict)
    collector: dict[str, Any] = field(default_factory=dict)
    iperf3: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Balance:
    """Figures that must be equal, or one that must be within a bound."""

    name: str
    figures: dict[str, float]
    holds: bool

    @staticmethod
    def equal(name: str, **figures: int) -> Balance:
        """All figures are the same."""
        return Balance(name, dict(figures), len(set(figures.values())) == 1)


def process_state(process: int) -> tuple[int, int, float]:
    """Resident bytes, open files and processor seconds of a process."""
    resident = int(Path(f"/proc/{process}/statm").read_text().split()[1]) * PAGE_BYTES
    words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    files = len(list(Path(f"/proc/{process}/fd").iterdir()))
    return resident, files, (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def client_command(seconds: int) -> list[str]:
    """The sender's command line."""
    words = f"iperf3 --client {address(2)} --port 5201 --congestion cubic --parallel {FLOWS} --time {seconds}"
    return [*words.split(), "--interval", str(min(seconds, IPERF3_LONGEST_INTERVAL_S)), "--json"]


def collector_command(directory: Path) -> list[str]:
    """The collector's command line."""
    return [str(binary(COLLECTOR)), "collect", "--interface", "eth0", "--out", str(directory)]


def buffer_bytes(rate_bps: int) -> int:
    """Bytes of one bandwidth times round trip."""
    return rate_bps * 2 * DELAY_NS // 8_000_000_000


async def soak(seconds: int, rate_bps: int, telemetry: Path) -> Soak:
    """Run the flows and read all counters."""
    found = Soak()
    with Network() as network, network.tcp_server():
        switch = network.start(
            "switch", *softswitch_command(network.directory, str(binary(SOFTSWITCH))), stdout=subprocess.PIPE
        )
        ready(switch, "the softswitch")
        collector = network.start(COLLECTOR_HOST, *collector_command(telemetry), stdout=subprocess.PIPE)
        ready(collector, "the collector")
        device_config, p4info = compiled_program("v1model")
        session = P4RuntimeSession(f"unix:{network.directory}/switch.sock", p4info, device_config)
        await session.open()
        try:
            await session.push_pipeline()
            manager = TrafficManagerClient(session.channel)
            await manager.configure(
                pb.ConfigureRequest(
                    port=2,
                    delay_ns=DELAY_NS,
                    rate_bps=rate_bps,
                    limit_bytes=buffer_bytes(rate_bps),
                    limit_packets=0,
                )
            )
            await manager.configure(pb.ConfigureRequest(port=1, delay_ns=DELAY_NS))
            await session.insert(entries(session))
            before = interface_counts(network)
            await drive(network, seconds, manager, (switch.pid, collector.pid), found)
            await read_counters(session, manager, found)
        finally:
            await session.close()
        after = interface_counts(network)
        found.interfaces = {
            name: (after[name][0] - before[name][0], after[name][1] - before[name][1]) for name in after
        }
        collector.terminate()
        if collector.wait(120) != 0:
            raise RunError(f"the collector ended with exit code {collector.returncode}")
    found.collector = json.loads((telemetry / "collector.json").read_text())
    return found


async def drive(
    network: Network, seconds: int, manager: TrafficManagerClient, processes: tuple[int, int], found: Soak
) -> None:
    """Run iperf3 and sample meanwhile."""
    output = network.directory / "iperf3.json"
    with output.open("w") as stream:
        client = subprocess.Popen(network.inside(SENDER, *client_command(seconds)), stdout=stream)
        started = time.monotonic()
        try:
            while client.poll() is None:
                found.samples.append(await sample(started, manager, processes))
                now = found.samples[-1]
                print(f"  {now.time_s:.0f} s: {now.dequeued_bytes / 1e6:,.0f} MB", file=sys.stderr, flush=True)
                await asyncio.sleep(SAMPLE_S)
                if time.monotonic() > started + seconds + 60:
                    raise RunError("iperf3 does not end")
        finally:
            client.kill()
            client.wait()
    found.iperf3 = json.loads(output.read_text())
    if "error" in found.iperf3:
        raise RunError(f"iperf3: {found.iperf3['error']}")
    await asyncio.sleep(DRAIN_S)


async def sample(started: float, manager: TrafficManagerClient, processes: tuple[int, int]) -> Sample:
    """The state now."""
    clocks = []
    for _ in range(ANSWERS):
        listed = await manager.list()
        clocks.append(listed.timestamp_ns - time.monotonic_ns())
    (switch_bytes, switch_files, switch_cpu_s), (collector_bytes, collector_files, collector_cpu_s) = map(
        process_state, processes
    )
    dequeued = next(queue.dequeued_bytes for queue in listed.queues if (queue.port, queue.queue) == (2, 0))
    return Sample(
        time.monotonic() - started, max(clocks), switch_bytes, collector_bytes, switch_files, collector_files,
        switch_cpu_s, collector_cpu_s, dequeued, listed.pool_used_packets,
    )  # fmt: skip


async def read_counters(session: P4RuntimeSession, manager: TrafficManagerClient, found: Soak) -> None:
    """Everything that the switch counts."""
    found.queues = {queue.port: queue for queue in (await manager.list()).queues if queue.queue == 0}
    stats = await manager.port_stats()
    found.ports, found.discards = {port.port: port for port in stats.ports}, stats.discards
    for name, counted in ((ARRIVALS, found.arrivals), (DEPARTURES, found.departures)):
        async for cell in session.read([P4CounterEntry(name)]):
            if isinstance(cell, P4CounterEntry) and cell.packet_count:
                counted[cell.index or 0] = (cell.packet_count, cell.byte_count)
    found.drops = {drop.flow: (drop.packets, drop.bytes) for drop in (await manager.flow_drops(2, 0)).flows}


def interface_counts(network: Network) -> dict[str, tuple[int, int]]:
    """Frames received by, and sent from, each host's interface."""
    found = {name: links(network.namespace(name))["eth0"] for name in (SENDER, RECEIVER, COLLECTOR_HOST)}
    return {name: (link.rx_packets, link.tx_packets) for name, link in found.items()}


def total(counts: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """Packets and bytes of all flows."""
    return sum(packets for packets, _ in counts.values()), sum(octets for _, octets in counts.values())


def balances(found: Soak) -> list[Balance]:
    """What must be equal when nothing was lost without being counted."""
    queue, reports, ports, discards = found.queues[2], found.queues[3], found.ports, found.discards
    (arrived, arrived_bytes), (departed, departed_bytes), (dropped, dropped_bytes) = map(
        total, (found.arrivals, found.departures, found.drops)
    )
    flows = found.arrivals.keys() | found.departures.keys() | found.drops.keys()
    none = (0, 0)
    unbalanced = [
        flow
        for flow in flows
        if found.arrivals.get(flow, none)[0] != found.departures.get(flow, none)[0] + found.drops.get(flow, none)[0]
    ]
    received, lost = collected(found.collector)
    counted_lost = (
        reports.dropped_packets
        + ports[3].tx_drops
        + ports[3].tx_errors
        + found.collector["kernel_ring_drops"]
        + sum(found.collector["bad"].values())
    )
    return [
        Balance.equal("drops, packets", of_the_queue=queue.dropped_packets, sum_of_flows=dropped,
                      arrivals_less_departures=arrived - departed),
        Balance.equal("drops, bytes", of_the_queue=queue.dropped_bytes, sum_of_flows=dropped_bytes,
                      arrivals_less_departures=arrived_bytes - departed_bytes),
        Balance.equal("flows whose arrivals are not departures and drops", found=len(unbalanced), expected=0),
        Balance.equal("arrivals", of_the_sender_less_ring_drops=found.interfaces[SENDER][1] - ports[1].rx_ring_drops,
                      at_port_1=ports[1].rx_packets, sum_of_flows=arrived,
                      queue=queue.enqueued_packets + queue.dropped_packets),
        Balance.equal("departures", sum_of_flows=departed, queue=queue.dequeued_packets,
                      from_port_2=ports[2].tx_packets, at_the_receiver=found.interfaces[RECEIVER][0]),
        Balance.equal("reverse path", of_the_receiver=found.interfaces[RECEIVER][1], at_port_2=ports[2].rx_packets,
                      from_port_1=ports[1].tx_packets, at_the_sender=found.interfaces[SENDER][0]),
        Balance.equal("frames discarded elsewhere", expected=0, found=sum(
            (discards.no_pipeline, discards.ingress, discards.egress, discards.absent_port, discards.clones,
             discards.loopback, *(port.rx_ring_drops + port.rx_errors for port in ports.values()),
             *(ports[number].tx_drops + ports[number].tx_errors for number in (1, 2))))),
        Balance.equal("reports sent", departures=departed, queued_or_counted_as_dropped=reports.enqueued_packets
                      + reports.dropped_packets, from_port_3_or_counted_as_dropped=ports[3].tx_packets
                      + ports[3].tx_drops + ports[3].tx_errors + reports.dropped_packets),
        Balance.equal("reports received", departures=departed, stored_and_missing_by_sequence=received + lost),
        Balance.equal("reports lost", missing_by_sequence=lost, counted_where_they_were_lost=counted_lost),
        Balance.equal("packets that still wait", found=sum(one.depth_packets for one in found.queues.values()),
                      expected=0),
    ]  # fmt: skip


def collected(account: dict[str, Any]) -> tuple[int, int]:
    """Reports stored, and missing by their sequence numbers, of all bottlenecks."""
    bottlenecks = account["bottlenecks"].values()
    return sum(one["reports"] for one in bottlenecks), sum(one["lost"] for one in bottlenecks)


def growth(name: str, samples: Sequence[tuple[float, int]]) -> Balance:
    """Whether memory stays: the median of the last quarter is not above that of the one after the warm-up."""
    end = samples[-1][0]
    early = statistics.median(value for at, value in samples if WARM_UP * end <= at <= 2 * WARM_UP * end)
    late = statistics.median(value for at, value in samples if at >= (1 - WARM_UP) * end)
    figures = {"after_warm_up": early, "at_the_end": late, "allowed_growth": float(GROWTH_BYTES)}
    return Balance(f"resident bytes of the {name}", figures, late - early <= GROWTH_BYTES)


def open_files(name: str, samples: Sequence[tuple[float, int]]) -> Balance:
    """Whether there are no more of them at the end than there were after the warm-up."""
    end = samples[-1][0]
    early = max(value for at, value in samples if WARM_UP * end <= at <= 2 * WARM_UP * end)
    late = samples[-1][1]
    return Balance(f"open files of the {name}", {"after_warm_up": early, "at_the_end": late}, late <= early)


def clock(samples: Sequence[Sample]) -> Balance:
    """Whether the switch's clock is the host's all the time, which both read as CLOCK_MONOTONIC.

    An answer has the time at which the switch last looked at its clock, and takes a while to come: so none is ahead,
    and of many the latest is hardly behind. A clock that drifts is ahead at some time, or behind in the last quarter.
    """
    bounds = [len(samples) * quarter // 4 for quarter in range(5)]
    latest = [max(one.clock_ns for one in samples[first:end]) for first, end in pairwise(bounds)]
    figures = {
        "most_ahead_ns": max(latest),
        "least_behind_in_the_worst_quarter_ns": -min(latest),
        "allowed_ns": MOST_BEHIND_NS,
    }
    return Balance("clock of the switch", dict(figures), max(latest) <= 0 and min(latest) >= -MOST_BEHIND_NS)


def utilization(samples: Sequence[Sample], rate_bps: int) -> Balance:
    """Share of the rate that was used after the warm-up."""
    kept = [one for one in samples if one.time_s >= WARM_UP * samples[-1].time_s]
    first, last = kept[0], kept[-1]
    share = (last.dequeued_bytes - first.dequeued_bytes) * 8 / (last.time_s - first.time_s) / rate_bps
    return Balance("utilization", {"found": share, "at_least": MIN_UTILIZATION}, share >= MIN_UTILIZATION)


def outcome(found: Soak, checked: list[Balance], seconds: int, rate_bps: int) -> Outcome:
    """Tables, and everything that was read."""
    balance = Table(("What", "Figures", "Holds"))
    for one in checked:
        compared = ", ".join(f"{name.replace('_', ' ')} {value:,.10g}" for name, value in one.figures.items())
        balance.rows.append((one.name, compared, "yes" if one.holds else "**no**"))
    last = found.samples[-1]
    sent, received = found.iperf3["end"]["sum_sent"], found.iperf3["end"]["sum_received"]
    flows = [stream["receiver"]["bits_per_second"] for stream in found.iperf3["end"]["streams"]]
    figures = Table(("Figure", "Value"))
    figures.rows += [
        ("flows", f"{len(flows)}"),
        ("goodput of all, Mbit/s", f"{received['bits_per_second'] / 1e6:.2f}"),
        ("goodput of one, least to greatest, Mbit/s", f"{min(flows) / 1e6:.2f} to {max(flows) / 1e6:.2f}"),
        ("retransmissions", f"{sent['retransmits']:,}"),
        ("packets through the bottleneck", f"{found.queues[2].dequeued_packets:,}"),
        ("dropped by the queue", f"{found.queues[2].dropped_packets:,}"),
        ("reports stored", f"{collected(found.collector)[0]:,}"),
        ("processor time of the switch, of one", f"{last.switch_cpu_s / last.time_s:.0%}"),
        ("processor time of the collector, of one", f"{last.collector_cpu_s / last.time_s:.0%}"),
    ]
    conditions = (
        f"{FLOWS} CUBIC flows for {seconds} s through {rate_bps / 1e6:g} Mbit/s, a buffer of "
        f"{buffer_bytes(rate_bps):,} bytes and {2 * DELAY_NS / 1e6:g} ms of round trip, a report on every packet, all "
        "of them stored by the collector; sender, receiver, switch and collector share all processors. All counters "
        f"were read after the queues had run empty. Memory and counters were sampled every {SAMPLE_S:g} s: the JSON "
        "file has the samples."
    )
    commands = [
        "switch$    " + " ".join(softswitch_command(Path("DIR"))),
        "collector$ narrows-collector collect --interface eth0 --out DIR",
        "receiver$  iperf3 --server --port 5201",
        "sender$    " + " ".join(client_command(seconds)),
    ]
    data = {
        "seconds": seconds,
        "balances": [asdict(one) for one in checked],
        "samples": [asdict(one) for one in found.samples],
        "flows": {name: getattr(found, name) for name in ("arrivals", "departures", "drops")},
        "collector": found.collector,
        "iperf3": found.iperf3["end"],
    }
    return Outcome("Soak", conditions, [figures, balance], data, commands)


def main(arguments: list[str]) -> int:
    """Run the soak and write its results; returns the exit code."""
    parser = argparse.ArgumentParser(prog="benchmarks/soak.py", description=__doc__)
    parser.add_argument("--seconds", type=int, default=600, help="how long the flows last (default: %(default)s)")
    parser.add_argument("--mbps", type=int, default=RATE_MBPS, help="the bottleneck's rate (default: %(default)s)")
    parser.add_argument(
        "--out", type=Path, help="results without suffix (default: benchmarks/results/DATE-MACHINE-soak)"
    )
    options = parser.parse_args(arguments)
    if options.seconds < 20:
        parser.error(f"--seconds is {options.seconds}; at least 20, for memory to be compared")
    if options.mbps < 1:
        parser.error(f"--mbps is {options.mbps}; at least 1")
    rate_bps = options.mbps * 1_000_000
    if not host.is_fit():
        return EXIT_BAD_INPUT
    machine = host.description()
    # About 20 bytes a report, too much for a memory that is also watched.
    telemetry = Path(tempfile.mkdtemp(prefix="narrows-soak-"))
    try:
        found = asyncio.run(soak(options.seconds, rate_bps, telemetry / "telemetry"))
    except NarrowsError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_FAILED
    finally:
        shutil.rmtree(telemetry)
    checked = balances(found)
    checked += [
        growth(name, [(one.time_s, getattr(one, f"{name}_bytes")) for one in found.samples])
        for name in ("switch", "collector")
    ]
    checked += [
        open_files(name, [(one.time_s, getattr(one, f"{name}_files")) for one in found.samples])
        for name in ("switch", "collector")
    ]
    checked += [clock(found.samples), utilization(found.samples, rate_bps)]
    command = ["benchmarks/soak.py", *arguments]
    failed = [one.name for one in checked if not one.holds]
    note = f"Does not hold: {', '.join(failed)}." if failed else "All balances hold."
    soaked = {"soak": outcome(found, checked, options.seconds, rate_bps)}
    written = results.write(soaked, machine, command, options.out, kind="soak", note=note)
    print(written[1].read_text())
    return EXIT_FAILED if failed else EXIT_OK


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
