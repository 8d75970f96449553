# SPDX-License-Identifier: Apache-2.0
"""How fast one TCP flow passes: Narrows with a report on every packet, BMv2 with the same, plain C, the kernel."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from measuring import Contestant, alternate
from narrows.hosts.netns import NIC_CHECKSUM_OFFLOADS
from narrows.targets.bmv2 import simple_switch
from network import COLLECTOR, RECEIVER, SENDER, Network, address, iperf3, tcp_figures
from results import Outcome, Table
from switches import (
    PORTS,
    bmv2,
    bridge,
    collected_softswitch,
    compile_c,
    naive_forwarder,
    softswitch,
    softswitch_command,
)

SECONDS = 3
NARROWS, BMV2, NAIVE, BRIDGE = "Narrows", "BMv2", "naive C forwarder", "kernel bridge"
SENT = "Narrows, reports sent"
SHORT_RINGS = "Narrows, receive rings of 4 MiB"
STEERED = {NARROWS: "Narrows, steered", BRIDGE: "kernel bridge, steered"}
Switch = Callable[[Network], AbstractContextManager[Callable[[], int] | None]]


def run(runs: int) -> Outcome:
    """One CUBIC flow through each contestant in turn."""
    skipped = []
    with tempfile.TemporaryDirectory(prefix="narrows-bench-") as directory:
        switches: dict[str, Switch] = {
            NARROWS: collected_softswitch,
            SHORT_RINGS: partial(collected_softswitch, options=("--ring-mib", "4")),
            SENT: softswitch,
            BRIDGE: bridge,
        }
        if shutil.which("cc"):
            program = compile_c(Path(__file__).parent / "naive_forwarder.c", Path(directory))
            switches[NAIVE] = partial(naive_forwarder, program=program)
        else:
            skipped.append(f"{NAIVE}: no C compiler 'cc' on PATH")
        if (lacks := simple_switch.missing()) is None:
            switches[BMV2] = bmv2
        else:
            skipped.append(f"{BMV2}: {lacks}")
        contestants: dict[str, Contestant] = {
            name: partial(_flow, switch, partial(Network, () if name in (NAIVE, BMV2) else NIC_CHECKSUM_OFFLOADS))
            for name, switch in switches.items()
        }
        steered = partial(Network, NIC_CHECKSUM_OFFLOADS, steered=True)
        contestants |= {name: partial(_flow, switches[same], steered) for same, name in STEERED.items()}
        series = alternate(contestants, runs)
    header = (
        "Forwarder",
        "Goodput, Gbit/s",
        "Narrows is faster by",
        "Of the bridge's",
        "Reports per packet",
        "Retransmissions",
    )
    table = Table(header)
    for name in contestants:
        table.rows.append(
            (
                name,
                series.spread(name, "goodput_bps").text(1e-9),
                series.ratio(NARROWS, name, "goodput_bps").text(),
                series.ratio(name, BRIDGE, "goodput_bps").text(),
                series.spread(name, "reports_per_packet").text(),
                series.spread(name, "retransmissions").text(),
            )
        )
    commands = [
        "switch$   " + " ".join(softswitch_command(Path("DIR"))) + " [--pipe 3@DIR/reports.pipe] [--ring-mib 4]",
        "receiver$ iperf3 --server --port 5201",
        "sender$   " + " ".join(iperf3(address(2), SECONDS)),
    ]
    if BMV2 in switches:
        commands.insert(1, "switch$   " + " ".join(simple_switch.command(PORTS, Path("DIR"))))
    if NAIVE in switches:
        commands.insert(1, "switch$   naive_forwarder p1 p2      (cc -O2 naive_forwarder.c)")
    conditions = (
        f"One CUBIC flow of {SECONDS} s (after 1 s that is not counted) through network namespaces, 1500-byte MTU. "
        "Interfaces leave checksums to the other end and take frames in pieces (tx, sg), as in a run, and do no "
        f"segmentation; those around '{NAIVE}' and BMv2, which complete no checksum, do none of it. Sender, receiver "
        "and forwarder share all processors of the machine. No queue has a rate limit. Narrows and BMv2 run the same "
        "program, with a report for each data packet. As in a run, a collector stores those of Narrows, which come "
        f"through a pipe; BMv2 sends them to an interface, which counts them, and so does '{SENT}'. Receive rings of "
        "Narrows hold 10,000 frames (16 MiB, the default) or 2,500, the kernel 1,000 for each processor, and TCP fills "
        "what there is. 'Steered': each interface has one processor for what it receives, as in runs from 1 Gbit/s on, "
        "so that frames stay in order. All contestants take turns within one run; each has fresh namespaces."
    )
    ratios = {name: series.ratio(NARROWS, name, "goodput_bps").__dict__ for name in contestants}
    data = {"seconds": SECONDS, "narrows_over": ratios, **series.as_json()}
    return Outcome("Forwarding", conditions, [table], data, commands, skipped)


def _flow(switch: Switch, make: Callable[[], Network]) -> dict[str, float]:
    with make() as network, switch(network) as stored, network.tcp_server():
        figures = tcp_figures(network.call(SENDER, *iperf3(address(2), SECONDS)))
        reports, packets = stored() if stored else network.received(COLLECTOR), network.received(RECEIVER)
    return {**figures, "reports_per_packet": reports / packets}
