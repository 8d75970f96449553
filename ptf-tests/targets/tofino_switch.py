# SPDX-License-Identifier: Apache-2.0
"""A running Tofino, chip or model, as the cases see it: `TofinoControl`, and queues by the traffic manager."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from expected import TofinoHash
from narrows_tofino.bfrt.client import ALL_PIPES, Client, Operation
from narrows_tofino.bfrt.values import Data, Key
from narrows_tofino.chip.depth import cells_per_frame
from narrows_tofino.chip.model import CHIPS, Chip, pipe_of
from narrows_tofino.chip.shaper import burst_for
from narrows_tofino.writes.entries import DELAY_BITS
from narrows_tofino.writes.planned import number, numbers

from targets.base import Ability, OneControl, Profile, Result
from targets.tofino_control import TofinoControl

# Frames leave by the first one and come back by the other one: a cable, or twice the same port in loopback.
LOOPBACK = (10, 11)
PORTS = (*range(1, 10), *LOOPBACK)
# Report headers, and of the frame Ethernet, two tags, IPv6 and ports: a mirrored copy hashes its own headers.
SHORTEST_REPORT = 98 + 14 + 8 + 40 + 4
SHORTEST_FRAME = 60
_IN_CELLS = "queues are limited in cells, and once one has dropped it drops on until 32 cells have drained"
_CHIP_LACKS = {
    Ability.PACKET_LIMIT: _IN_CELLS,
    Ability.BYTE_LIMIT: _IN_CELLS,
    Ability.EXACT_RATE: "a shaper's bucket lets two frames or more through at once",
    Ability.MANAGED: "its traffic manager neither drops at departure for free nor tells depths before",
    Ability.LOSS_BY_POSITION: "its tables have room for few ranges of positions",
    Ability.SEEDED_SAMPLING: "its program samples the last packet of each row",
    Ability.PACKET_DEPTH: "its traffic manager counts depths in cells",
    Ability.VARYING_LINE: "its ports have no delay line",
}
_NO_AQMS = {Ability.TOFINO_AQMS: "its program has no queue management (--managed, or program: of the testbed)"}
_STORED = "the model stores the settings of its traffic manager and neither shapes nor holds frames back"
_MODEL_LACKS = {
    **_CHIP_LACKS,
    Ability.EXACT_RATE: _STORED,
    Ability.RATE: _STORED,
    Ability.HOLD: _STORED,
    Ability.INDEPENDENT_DRAWS: "the model's shift register moves on by one bit where a chip's does so each clock cycle",
    Ability.SHORT_ROUNDS: "the model takes longer for a frame, and what comes round a millisecond late leaves at once",
}


def tofino_profile(chip: Chip, model: bool, managed: bool = False) -> Profile:
    """Units and abilities of a generation, as a chip or as the SDE's model of it, ``managed`` with queue management."""
    lacks = _MODEL_LACKS if model else _CHIP_LACKS
    return Profile(
        name=f"{chip.name}-model" if model else chip.name,
        hashes=TofinoHash(),
        time_unit_s=1e-9,
        depth_of=lambda frame_bytes: cells_per_frame(chip.cell_bytes, frame_bytes),
        clock_tolerance=0,
        # The model takes some 50 packets a second.
        largest_burst=20 if model else 200,
        loopback=LOOPBACK,
        tells_depth_left=False,
        shortest_report=SHORTEST_REPORT,
        delay_bits=DELAY_BITS,
        shortest_frame=SHORTEST_FRAME,
        trailing_bytes=True,
        patience_s=180 if model else 5,
        silence_s=2 if model else 0.05,
        lacks=lacks if managed else {**lacks, **_NO_AQMS},
    )


class TofinoSwitch(OneControl[TofinoControl]):
    """See `targets.base.Switch`."""

    def __init__(
        self, client: Client, chip: Chip, ports: Mapping[int, int], model: bool, late_digests_s: float
    ) -> None:
        """Take a connected client.

        Args:
            client: the switch, with our program on it.
            chip: its generation.
            ports: dev_port of each of `PORTS`.
            model: whether it is the SDE's model.
            late_digests_s: how long after a case digests of it may still come.

        Raises:
            ValueError: ports of several pipes, each of which has registers of its own.
            SchemaError: the switch serves another program.
        """
        pipes = {pipe_of(dev_port) for dev_port in ports.values()}
        if set(ports) != set(PORTS) or len(pipes) != 1:
            raise ValueError(f"ports {PORTS} must all be there and in one pipe, not in {sorted(pipes)}")
        (self._pipe,) = pipes
        self._client = client
        self._chip = chip
        self._ports = ports
        self._changed: set[tuple[int, int]] = set()
        self.control = TofinoControl(client, chip, ports, self._pipe, late_digests_s, model)
        self.profile = tofino_profile(chip, model, self.control.manages)

    def reset(self) -> None:
        """Empty the program and let every queue go that was shaped or held."""
        for port, queue in sorted(self._changed):
            self._schedule(port, queue, {"max_rate_enable": False, "scheduling_enable": True})
        self._changed.clear()
        self.control.clear()

    def is_counted(self, flow: int) -> None:
        """Its cells are cleared, also where its digest was lost."""
        self.control.touch(flow)

    def shape(self, port: int, queue: int, frame_bytes: int, frames_per_second: int) -> None:
        """Let frames leave a queue at a rate; 0 takes the limit off again."""
        if frames_per_second == 0:
            self._schedule(port, queue, {"max_rate_enable": False})
            return
        data: Data = {
            "unit": "BPS",
            "provisioning": "MIN_ERROR",
            "max_rate": max(1, round(frame_bytes * 8 * frames_per_second / 1000)),
            "max_burst_size": burst_for(self._chip, frame_bytes),
        }
        self._queue_write("sched_shaping", port, queue, data)
        self._schedule(port, queue, {"max_rate_enable": True})

    def hold(self, port: int, queue: int, frame_bytes: int, pass_one: Callable[[], Result]) -> Result:
        """Let the frame through, then stop the queue."""
        result = pass_one()
        self._schedule(port, queue, {"scheduling_enable": False})
        return result

    def release(self, port: int, queue: int) -> None:
        """Let the queue go on."""
        self._schedule(port, queue, {"scheduling_enable": True})

    def close(self) -> None:
        """Let go of the switch."""
        self._client.close()

    def _schedule(self, port: int, queue: int, data: Data) -> None:
        self._changed.add((port, queue))
        self._queue_write("sched_cfg", port, queue, data)

    def _queue_write(self, table: str, port: int, queue: int, data: Data) -> None:
        name = f"{self._chip.prefix}.tm.queue.{table}"
        spec = self._client.schema.table(name)
        self._client.write(Operation.MODIFY, spec, self._queue_key(port, queue), data, pipe=self._pipe)

    def _queue_key(self, port: int, queue: int) -> Key:
        """Queues are numbered in their port's group."""
        table = self._client.schema.table(f"{self._chip.prefix}.tm.port.cfg")
        entry = self._client.read(table, {"dev_port": self._ports[port]}, pipe=ALL_PIPES)
        return {"pg_id": number(entry, "pg_id"), "pg_queue": numbers(entry, "egress_qid_queues")[queue]}


def chip_of(name: str) -> Chip:
    """A generation by its name.

    Raises:
        ValueError: there is none of that name.
    """
    if name not in CHIPS:
        raise ValueError(f"chip {name} is not known; allowed: {', '.join(CHIPS)}")
    return CHIPS[name]
