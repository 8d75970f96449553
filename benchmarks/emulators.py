# SPDX-License-Identifier: Apache-2.0
"""How much of a set rate one TCP flow gets: Narrows with a report on every packet, Mahimahi, Rattan."""

from __future__ import annotations

import shutil
from functools import partial

import mahimahi
from measuring import Contestant, alternate
from narrows.hosts.links import set_sysctls
from narrows.switch import traffic_manager_pb2 as pb
from network import SENDER, Network, address, tcp_figures
from results import Outcome, Table
from switches import softswitch

RATES_BPS = (500_000_000, 1_000_000_000)
SECONDS = 2
QUEUE_PACKETS = 800
PACKET_BYTES, FRAME_BYTES, SEGMENT_BYTES = 1500, 1514, 1448
# Mahimahi refuses to run for root, and gives its rights back before it runs a command.
NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
NARROWS, MAHIMAHI, RATTAN = "Narrows", "Mahimahi mm-link", "Rattan"


def run(runs: int) -> Outcome:
    """One flow at each rate through each emulator that is here."""
    emulators = {NARROWS: _narrows}
    skipped = []
    for name, program, function in ((MAHIMAHI, mahimahi.PROGRAM, _mahimahi), (RATTAN, "rattan", _rattan)):
        if shutil.which(program):
            emulators[name] = function
        else:
            skipped.append(f"{name}: no '{program}' on PATH")
    table = Table(("Rate of IP packets", "Emulator", "Goodput, % of what the rate allows", "Retransmissions"))
    data: dict[str, object] = {"seconds": SECONDS}
    for rate in RATES_BPS:
        contestants: dict[str, Contestant] = {name: partial(one, rate) for name, one in emulators.items()}
        series = alternate(contestants, runs)
        data[str(rate)] = series.as_json()
        for name in emulators:
            share = series.spread(name, "goodput_percent").text()
            table.rows.append(
                (f"{rate // 1_000_000} Mbit/s", name, share, series.spread(name, "retransmissions").text())
            )
    conditions = (
        f"One Reno flow of {SECONDS} s after 1 s that is not counted (Mahimahi runs commands without rights, and Reno "
        f"is what every kernel allows then); a queue of {QUEUE_PACKETS} packets, no added delay. The rate counts IP "
        "packets, as Mahimahi and Rattan do; Narrows, which counts Ethernet frames, is set accordingly. It allows "
        f"{SEGMENT_BYTES} bytes of payload for each {PACKET_BYTES} bytes. Narrows' hosts have offloads off; the others "
        "set up their own interfaces."
    )
    commands = [
        f"mm-link TRACE TRACE --uplink-queue=droptail --uplink-queue-args=packets={QUEUE_PACKETS} -- "
        f"sh -c '{_client('$MAHIMAHI_BASE')}'",
        f"{' '.join(_rattan_command(RATES_BPS[0]))} -- sh -c '{_client('$RATTAN_BASE')}'",
    ]
    return Outcome("Other emulators", conditions, [table], data, commands, skipped)


def _client(server: str) -> str:
    return f"iperf3 --client {server} --congestion reno --omit 1 --time {SECONDS} --json"


def _figures(output: str, rate: int) -> dict[str, float]:
    figures = tcp_figures(output)
    return {"goodput_percent": figures["goodput_bps"] / (rate * SEGMENT_BYTES / PACKET_BYTES) * 100, **figures}


def _narrows(rate: int) -> dict[str, float]:
    setting = pb.ConfigureRequest(
        port=2, queue=0, rate_bps=rate * FRAME_BYTES // PACKET_BYTES, limit_bytes=0, limit_packets=QUEUE_PACKETS
    )
    with Network() as network, softswitch(network, setting), network.tcp_server():
        return _figures(network.call(SENDER, *_client(address(2)).split()), rate)


def _inside(prefix: list[str], server: str, network: Network, rate: int) -> dict[str, float]:
    """Run an emulator's shell in a namespace of ours; the server is outside of the shell, in that namespace."""
    output = network.directory / "client.json"
    output.touch()
    for path in (network.directory, output):
        path.chmod(0o777)
    set_sysctls(network.namespace(SENDER), {"net.ipv4.ip_forward": "1"})
    with network.tcp_server(SENDER):
        network.call(SENDER, *prefix, "--", "sh", "-c", f"{_client(server)} > {output}")
    return _figures(output.read_text(), rate)


def _mahimahi(rate: int) -> dict[str, float]:
    with Network() as network:
        trace = network.directory / "trace"
        trace.write_text(mahimahi.opportunities(rate / (8 * PACKET_BYTES), lasts_ms=1000))
        options = f"--uplink-queue=droptail --uplink-queue-args=packets={QUEUE_PACKETS}".split()
        command = [*NOBODY, shutil.which(mahimahi.PROGRAM) or mahimahi.PROGRAM, str(trace), str(trace), *options]
        return _inside(command, "$MAHIMAHI_BASE", network, rate)


def _rattan_command(rate: int) -> list[str]:
    command = ["rattan", "link"]
    for link in ("uplink", "downlink"):
        command += [f"--{link}-bandwidth", f"{rate // 1_000_000}Mbps", f"--{link}-queue", "droptail"]
        command += [f"--{link}-queue-args", f'{{"packet_limit":{QUEUE_PACKETS}}}']
    return command


def _rattan(rate: int) -> dict[str, float]:
    with Network() as network:
        return _inside(_rattan_command(rate), "$RATTAN_BASE", network, rate)
