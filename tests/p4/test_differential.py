# SPDX-License-Identifier: Apache-2.0
"""The softswitch against BMv2: the same program, entries and frames give the same frames, registers and counters.

Times and depths are left out: they are the targets' own. The seed is printed; NARROWS_DIFFERENTIAL_SEED repeats a run.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, seed, settings

REPOSITORY = Path(__file__).resolve().parents[2]
for folder in ("ptf-tests", "tests/p4"):
    sys.path.insert(0, str(REPOSITORY / folder))

import expected  # noqa: E402
from bench import (  # noqa: E402
    ARRIVAL_COUNTER,
    ARRIVALS,
    DEPARTURE_COUNTER,
    DEPARTURES,
    HISTOGRAM,
    LOSS_COUNTER,
    LOSS_DROPS,
    SEQUENCE,
    SIGNATURES,
)
from frame_strategies import BOTTLENECKS, SESSION, Scenario, scenarios  # noqa: E402
from narrows.switch.entries import delay_bins  # noqa: E402
from p4runtime import Entry  # noqa: E402
from targets import TARGETS  # noqa: E402
from targets.base import COLLECTOR_PORT, Switch  # noqa: E402
from twins import Twins, running  # noqa: E402

SEED = int(os.environ.get("NARROWS_DIFFERENTIAL_SEED", random.SystemRandom().randrange(1 << 32)))
EXAMPLES = int(os.environ.get("NARROWS_DIFFERENTIAL_EXAMPLES", "25"))
# Where a report holds depths, queue delay, epoch and timestamp: bytes 32..54 of report_t.
TARGETS_OWN = slice(42 + 32, 42 + 54)

HASHES = expected.V1modelHash()
FLOW_REGISTERS = (ARRIVALS, DEPARTURES, LOSS_DROPS, SIGNATURES)
FLOW_COUNTERS = (ARRIVAL_COUNTER, DEPARTURE_COUNTER, LOSS_COUNTER)


@pytest.fixture(scope="module")
def twins() -> Iterator[Twins]:
    print(f"\ndifferential test: NARROWS_DIFFERENTIAL_SEED={SEED}")
    compiled = REPOSITORY / "p4src" / "compiled" / "v1model"
    with running([TARGETS["soft"], TARGETS["bmv2"]], compiled, SEED) as started:
        yield started


def entries(scenario: Scenario) -> Iterator[Entry]:
    """All table entries of a scenario."""
    for item in delay_bins():
        yield Entry("delay_bins", {"queue_delay": (item.lowest, item.prefix_length)}, "set_bin", {"bin": item.number})
    for number, connection in enumerate(scenario.connections):
        priority = 1000 - number
        match = dict(connection.match)
        if connection.egress is None:
            yield Entry("cross_connect", match, "discard", {}, priority)
        elif connection.bottleneck is None:
            yield Entry("cross_connect", match, "wire", {"port": connection.egress}, priority)
        else:
            parameters = {"index": connection.bottleneck, "port": connection.egress, "queue": 0}
            yield Entry("cross_connect", match, "bottleneck", parameters, priority)
    for bottleneck, choice in scenario.settings.items():
        key = {"bottleneck": bottleneck}
        mask = (1 << choice.sample_shift) - 1
        marking = {"threshold": choice.ecn_threshold, "counts_packets": 0}
        observe = {**marking, "seed": bottleneck, "mask": mask, "shift": choice.sample_shift}
        yield Entry("settings.bottleneck", key, "observe", {**observe, "epoch": 7, "mirror": choice.mirror})
        addresses = {"src_mac": 1, "dst_mac": 2, "src_ip": 0xC613FFFE, "dst_ip": 0xC613FF01}
        ports = {"src_port": 5499, "dst_port": 5500 + bottleneck, "length": choice.report_length}
        yield Entry("collector", key, "encapsulate", {**addresses, **ports})
        if choice.loss is not None:
            yield Entry("loss", key, "set_loss", {"threshold": choice.loss})


def install(
    switch: Switch,
    scenario: Scenario,
    flows: set[int],
    fit: Callable[[Iterator[Entry]], Iterable[Entry]] = tuple,
) -> None:
    """Entries (of which ``fit`` makes what the program has), mirror session and start values of a scenario."""
    switch.control.add_mirror(SESSION, COLLECTOR_PORT)
    switch.control.insert(*fit(entries(scenario)))
    for bottleneck in scenario.settings:
        switch.write_register(SEQUENCE, bottleneck, scenario.start)
    for flow in flows:
        for name in (ARRIVALS, DEPARTURES, LOSS_DROPS):
            switch.write_register(name, flow, scenario.start)


def state(switch: Switch, flows: set[int]) -> dict[str, object]:
    """Registers and counters of these flows and of the scenario's bottlenecks, without times and depths."""
    found: dict[str, object] = {}
    for name in FLOW_REGISTERS:
        found[name] = {flow: switch.read_register(name, flow) for flow in flows}
    for name in FLOW_COUNTERS:
        found[name] = dict(zip(sorted(flows), switch.control.read_counters(name, sorted(flows)), strict=True))
    found[SEQUENCE] = [switch.read_register(SEQUENCE, bottleneck) for bottleneck in BOTTLENECKS]
    for bottleneck in BOTTLENECKS:
        bins = switch.profile.delay_bins
        cells = range(bottleneck * bins, (bottleneck + 1) * bins)
        counted = switch.control.read_counters(HISTOGRAM, cells)
        found[f"packets in the histogram of bottleneck {bottleneck}"] = sum(packets for packets, _ in counted)
    return found


def without_times(report: bytes) -> bytes:
    """A report with what is the target's own blanked out."""
    return report[: TARGETS_OWN.start] + bytes(20) + report[TARGETS_OWN.stop :]


def outputs(twins: Twins, device: int) -> dict[str, list[str]]:
    """Frames that left each port, and reports of each bottleneck, in order."""
    found = {f"port {port}": [frame.hex() for frame in frames] for port, frames in sorted(twins.out[device].items())}
    reports = found.pop(f"port {COLLECTOR_PORT}", [])
    for report in map(bytes.fromhex, reports):
        bottleneck = expected.decode_report(report).bottleneck
        found.setdefault(f"reports of bottleneck {bottleneck}", []).append(without_times(report).hex())
    return found


@pytest.mark.needs("bmv2", "root")
@seed(SEED)
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(scenario=scenarios())
def test_both_switches_do_the_same(twins: Twins, scenario: Scenario) -> None:
    flows = {
        HASHES.index(bottleneck, expected.identify(frame)) for bottleneck in BOTTLENECKS for _, frame in scenario.sent
    }
    twins.reset()
    for switch in twins.switches:
        install(switch, scenario, flows)
    for port, frame in scenario.sent:
        twins.send(port, frame)
    soft, bmv2 = (outputs(twins, device) for device in range(2))
    assert soft == bmv2
    soft_state, bmv2_state = (state(switch, flows) for switch in twins.switches)
    assert soft_state == bmv2_state
