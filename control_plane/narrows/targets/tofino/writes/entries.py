# SPDX-License-Identifier: Apache-2.0
"""The entries of our own program: the twin of `narrows.switch.entries` for BF Runtime."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address

from narrows_formats.units import format_size

from narrows.experiment.plan import Plan
from narrows.switch.entries import ACK_QUEUE, COLLECTOR_SESSION, ECN_OFF, FIRST_PRIORITY, delay_bins, loss_threshold
from narrows.targets.tofino.bfrt.client import ALL_PIPES, Operation
from narrows.targets.tofino.bfrt.values import Key, Lpm, Ternary, Value
from narrows.targets.tofino.chip.depth import depth_units
from narrows.targets.tofino.chip.model import pipe_of
from narrows.targets.tofino.writes.planned import PlannedWrite, Reader

PORT_MASK = 0x1FF
# Shares of the flow indices, in the upper bits of a byte, as p4src/common/flow_share.p4 numbers them: quarters from 4.
SHARE_SHIFT = 5
FIRST_QUARTER = 4
# The settings generation that reports carry; settings stay as they are through a run.
EPOCH = 0
MAC_MASK = (1 << 48) - 1
# Tables whose entries of an earlier run would misdirect packets or reports.
TABLES = ("cross_connect", "loss", "bottleneck", "collector", "delay_bins")


def program_writes(plan: Plan, cell_bytes: int, reader: Reader) -> list[PlannedWrite]:
    """Removes what earlier runs left in the program's tables, then installs the plan's entries."""
    writes = [
        PlannedWrite(Operation.DELETE, table, entry.key, {}, "left by an earlier run")
        for table in TABLES
        for entry in reader.entries(table)
    ]
    writes += _delay_bins()
    writes.append(_collector(plan, plan.bottleneck.index))
    if plan.bottleneck.loss:
        writes.append(_loss(plan))
    writes.append(_observe(plan, cell_bytes))
    if plan.ack_bottleneck is not None:
        writes.append(_collector(plan, plan.ack_bottleneck))
        writes.append(_observe_acks(plan.ack_bottleneck))
    # Last: packets take the bottleneck only once all of it is there.
    writes += _paths(plan)
    return writes


def _observe(plan: Plan, cell_bytes: int) -> PlannedWrite:
    """ECN and sampling of the bottleneck; the settings never change under way, so that there is one generation."""
    bottleneck = plan.bottleneck
    threshold = ECN_OFF
    words = "off"
    if bottleneck.ecn_threshold_bytes is not None:
        threshold = min(depth_units(bottleneck.ecn_threshold_bytes, plan.frame_bytes, cell_bytes), ECN_OFF - 1)
        words = f"cells, {format_size(bottleneck.ecn_threshold_bytes)} of frames"
    return PlannedWrite(
        Operation.INSERT,
        "bottleneck",
        {"bottleneck": bottleneck.index},
        {
            "threshold": threshold,
            "mask": (1 << bottleneck.sample_shift) - 1,
            "shift": bottleneck.sample_shift,
            "epoch": EPOCH,
            "mirror": COLLECTOR_SESSION,
        },
        f"mark CE from a depth on, report one departure in {1 << bottleneck.sample_shift}",
        action="observe",
        units={"threshold": words},
    )


def _observe_acks(index: int) -> PlannedWrite:
    """Reports of the way back: every packet, nothing marked."""
    return PlannedWrite(
        Operation.INSERT,
        "bottleneck",
        {"bottleneck": index},
        {"threshold": ECN_OFF, "mask": 0, "shift": 0, "epoch": EPOCH, "mirror": COLLECTOR_SESSION},
        "report every packet of the way back",
        action="observe",
        units={"threshold": "off"},
    )


def _loss(plan: Plan) -> PlannedWrite:
    """Emulated loss of the bottleneck."""
    loss = plan.bottleneck.loss
    return PlannedWrite(
        Operation.INSERT,
        "loss",
        {"bottleneck": plan.bottleneck.index},
        {"threshold": loss_threshold(loss)},
        "emulated loss, counted apart from the queue's drops",
        action="set_loss",
        units={"threshold": f"2^-32, a loss ratio of {loss:g}"},
    )


def _delay_bins() -> Iterator[PlannedWrite]:
    for bin_ in delay_bins():
        yield PlannedWrite(
            Operation.INSERT,
            "delay_bins",
            {"queue_delay": Lpm(bin_.lowest, bin_.prefix_length)},
            {"bin": bin_.number},
            f"queue delays from {bin_.lowest} ns on",
            action="set_bin",
        )


def _collector(plan: Plan, index: int) -> PlannedWrite:
    collector = plan.collector
    data: dict[str, Value] = {
        "src_mac": mac_number(collector.src_mac),
        "dst_mac": mac_number(collector.dst_mac),
        "src_ip": int(IPv4Address(collector.src_address)),
        "dst_ip": int(IPv4Address(collector.dst_address)),
        "src_port": collector.src_port,
        "dst_port": collector.dst_port,
        "length": collector.report_length,
    }
    return PlannedWrite(
        Operation.INSERT,
        "collector",
        {"bottleneck": index},
        data,
        "address of the reports",
        action="encapsulate",
        units={
            "dst_mac": collector.dst_mac,
            "src_mac": collector.src_mac,
            "src_ip": collector.src_address,
            "dst_ip": collector.dst_address,
            "length": "B, encapsulation included",
        },
    )


def index_shares(plan: Plan) -> dict[int, int]:
    """Share of the flow indices of each pipe that packets come to a bottleneck through; of a single one 0, all."""
    pipes = sorted({pipe_of(path.ingress_port) for path in plan.paths if path.bottleneck is not None})
    if len(pipes) == 1:
        return {pipes[0]: 0}
    return {pipe: (FIRST_QUARTER + number) << SHARE_SHIFT for number, pipe in enumerate(pipes)}


def _paths(plan: Plan) -> Iterator[PlannedWrite]:
    shares = index_shares(plan)
    for number, path in enumerate(plan.paths):
        key: dict[str, int | str | Ternary | Lpm] = {
            "ingress_port": Ternary(path.ingress_port, PORT_MASK),
            "dst_mac": Ternary(mac_number(path.dst_mac), MAC_MASK),
            "$MATCH_PRIORITY": FIRST_PRIORITY + plan.bottleneck.index * len(plan.paths) + number,
        }
        if path.bottleneck is None:
            data: dict[str, Value] = {"port": path.egress_port}
            yield _path(key, "wire", data, f"{path.dst_mac} from port {path.ingress_port}: a plain cable")
        else:
            limited = path.bottleneck == plan.bottleneck.index
            queue = plan.bottleneck.queue if limited else ACK_QUEUE
            data = {"index": path.bottleneck, "port": path.egress_port, "queue": queue}
            words = "the bottleneck" if limited else "the way back, reported"
            action = "bottleneck"
            if share := shares[pipe_of(path.ingress_port)]:
                # Pipes count arrivals apart and departures together: they may not have an index in common.
                action = "bottleneck_of_pipe"
                data["share"] = share
            yield _path(key, action, data, f"{path.dst_mac} from port {path.ingress_port}: {words}")


def _path(key: Key, action: str, data: dict[str, Value], why: str) -> PlannedWrite:
    return PlannedWrite(Operation.INSERT, "cross_connect", key, data, why, action=action, pipe=ALL_PIPES)


def mac_number(mac: str) -> int:
    """A MAC address as the number that tables hold."""
    return int(mac.replace(":", ""), 16)
