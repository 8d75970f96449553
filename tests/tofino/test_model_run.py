# SPDX-License-Identifier: Apache-2.0
"""``narrows run --target tofino`` over the SDE's model and driver: real TCP through the compiled program.

What the model has no notion of, rates and full queues, these tests do not look at.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from fakeswitch.fixtures import inventory_data
from lab_machines import Machines
from narrows.errors import EXIT_OK
from narrows_formats.programs import COLLECTOR
from narrows_tofino.chip.model import TOFINO1
from narrows_tofino.programming.audit import outstanding, read_audit
from test_tofino_run import ENVIRONMENT, HERE, HOSTS, NARROWS, SWITCH, Lab, wait_until

sys.path.insert(0, str(HERE.parents[1] / "ptf-tests"))
from targets.tofino import PROGRAM
from targets.tofino_model import ADDRESS, Model

pytestmark = [pytest.mark.needs("root", "sshd", "ssh", COLLECTOR, "tofino-model"), pytest.mark.long]

PORTS = {"alice": 136, "bob": 264, "carol": 128, "dave": 144}
# Of a slow machine: a run that took longer hangs.
RUN_S = 1800
SIZE_BYTES = 200_000


EXPERIMENT: dict[str, Any] = {
    "name": "model",
    "bottleneck": {"rate": "10Mbit", "buffer": "100kB", "rtt": "1ms"},
    "flows": [{"cca": cca, "size": f"{SIZE_BYTES}B"} for cca in ("cubic", "reno")],
}


class ModelSwitch:
    """Model and driver in the switch's namespace, as `Lab` looks at them."""

    def __init__(self, machines: Machines, directory: Path) -> None:
        interfaces = {port: f"p{port}" for port in PORTS.values()}
        self.address = ADDRESS
        self._namespace, self._directory = machines.namespace(SWITCH), directory
        self._files = [directory / "inventory.yaml", directory / "experiment.yaml"]
        for path, content in zip(self._files, (inventory_data(model=True), EXPERIMENT), strict=True):
            path.write_text(yaml.safe_dump(content))
        self._model = Model(self._namespace, TOFINO1, PROGRAM, interfaces, directory, add_ports=False)

    def ask(self, command: str = "state") -> str:
        """What the switch holds wherever a run of `EXPERIMENT` writes."""
        script = [sys.executable, str(HERE / "driver_state.py"), *map(str, self._files)]
        inside = ["ip", "netns", "exec", self._namespace, *script]
        return subprocess.run(inside, check=True, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT).stdout

    def stop(self) -> None:
        self._model.stop()


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    made = Machines([*HOSTS, SWITCH], tmp_path_factory.mktemp("machines"), bridged=False)
    try:
        made.create()
        for name, port in PORTS.items():
            made.wire(name, "ens1f0", SWITCH, f"p{port}")
            # The model reads packets where a NIC would have completed them.
            made.inside(name, "ethtool", "-K", "ens1f0", "tx", "off")
        yield made
    finally:
        made.remove()


@pytest.fixture(scope="module")
def switch(machines: Machines, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelSwitch]:
    made = ModelSwitch(machines, tmp_path_factory.mktemp("model"))
    yield made
    made.stop()


@pytest.fixture
def lab(machines: Machines, switch: ModelSwitch, tmp_path: Path) -> Lab:
    made = Lab(machines, switch, TOFINO1.name, tmp_path)
    made.data["switch"]["model"] = True
    return made


def test_every_packet_of_real_flows_is_counted_and_reported(lab: Lab) -> None:
    process = lab.start(**EXPERIMENT)
    printed, _ = process.communicate(timeout=RUN_S)
    assert process.returncode == EXIT_OK, printed
    record, summary = lab.record(), lab.summary()
    assert record["status"] == "complete" and "the switch is the SDE's model" in printed
    # What the sockets sent has crossed the program, and each of its packets has a report.
    assert [flow["bytes_sent"] for flow in record["flows"]] == [SIZE_BYTES, SIZE_BYTES]
    assert summary["telemetry"]["lost"] == 0
    for flow in summary["flows"]:
        assert flow["departures"] >= SIZE_BYTES / 1448
    # Reports and the program's counters, which are kept apart from them, say the same of each flow.
    check = record["drop_cross_check"]["bottleneck"]
    assert (check["holds"], check["problems"], check["flows_checked"]) == (True, [], 2)
    lab.assert_restored()


@pytest.mark.parametrize("written", ["$PORT", "tm.queue.buffer", "cross_connect"])
def test_what_a_killed_run_has_written_is_taken_back(lab: Lab, written: str) -> None:
    """Killed at once, by its number, as soon as it writes to a table: at the first write, among them, at the last."""
    process = lab.start(**EXPERIMENT)
    wait_until(lambda: lab.audit.exists() and f'{written}", "pipe"' in lab.audit.read_text(), RUN_S)
    process.kill()
    process.communicate(timeout=RUN_S)
    assert outstanding(read_audit(lab.audit)) != []
    for command in ([*NARROWS, "clean"], [sys.executable, "-m", "narrows_tofino.restore", "lab.yaml", str(lab.audit)]):
        inside = ["ip", "netns", "exec", lab.machines.namespace("dave"), *command]
        subprocess.run(inside, check=True, cwd=lab.directory, env=ENVIRONMENT)
    lab.assert_restored()
