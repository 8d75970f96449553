# SPDX-License-Identifier: Apache-2.0
"""How the SDE's model of Tofino and its driver are started with our program."""

from __future__ import annotations

import json
import lzma
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from narrows_tofino.bfrt.client import DEFAULT_PORT
from narrows_tofino.chip.model import Chip
from narrows_tofino.testbed.inventory import MANAGED_PROGRAM
from processes import Child

COMPILED = Path(__file__).resolve().parents[2] / "p4src" / "compiled"
CHIP_TYPES = {"tofino": 2, "tofino2": 5}
PIPES = [0, 1, 2, 3]
# Loading a program takes the driver 60 s of a processor, of which a busy machine may give it a twentieth.
READY_S = 2400.0
ADDRESS = f"127.0.0.1:{DEFAULT_PORT}"
# In the kernel's list of sockets.
_LISTENING = "0A"
NEEDED = ("tofino-model", "bf_switchd")


def missing_programs() -> str | None:
    """Which of the SDE's programs are not there, or None."""
    if "SDE_INSTALL" not in os.environ:
        return "SDE_INSTALL does not say where Tofino's SDE is"
    absent = [name for name in NEEDED if shutil.which(name) is None]
    return f"{' and '.join(absent)} of Tofino's SDE are not on PATH" if absent else None


def unpack_program(chip: Chip, program: str, out: Path) -> None:
    """Copy the committed artifacts of a program for a generation, unpacked."""
    compiled = COMPILED / (f"{chip.name}-managed" if program == MANAGED_PROGRAM else chip.name)
    (out / "pipe").mkdir(parents=True)
    shutil.copy(compiled / "bf-rt.json", out)
    for packed in (compiled / "pipe").glob("*.xz"):
        (out / "pipe" / packed.stem).write_bytes(lzma.decompress(packed.read_bytes()))


def configuration(chip: Chip, program: str, out: Path) -> dict[str, object]:
    """Configuration of bf_switchd: our program, in all pipes."""
    pipeline = {
        "p4_pipeline_name": "pipe",
        "context": str(out / "pipe" / "context.json"),
        "config": str(out / "pipe" / f"{chip.name}.bin"),
        "pipe_scope": PIPES,
        "path": str(out),
    }
    loaded = {"program-name": program, "bfrt-config": str(out / "bf-rt.json"), "p4_pipelines": [pipeline]}
    return {
        "chip_list": [{"chip_family": chip.name, "instance": 0}],
        "instance": 0,
        "p4_devices": [{"device-id": 0, "p4_programs": [loaded], "agent0": "lib/libpltfm_mgr.so"}],
    }


def port_map(interfaces: Mapping[int, str]) -> dict[str, object]:
    """Configuration of the model: which interface is which dev_port."""
    return {"PortToIf": [{"device_port": port, "if": name} for port, name in sorted(interfaces.items())]}


def listens(driver: Child) -> bool:
    """Whether BF Runtime is there; what the driver prints may stay in its buffers.

    To connect would not tell: within a host's range of ports, a connection may be to itself.
    """
    sockets = [line.split() for line in Path(f"/proc/{driver.pid}/net/tcp6").read_text().splitlines()[1:]]
    sockets += [line.split() for line in Path(f"/proc/{driver.pid}/net/tcp").read_text().splitlines()[1:]]
    return any(place.endswith(f":{DEFAULT_PORT:04X}") and state == _LISTENING for _, place, _, state, *_ in sockets)


class Model:
    """Model and driver in a network namespace. See `targets.base.Running`."""

    def __init__(
        self,
        namespace: str,
        chip: Chip,
        program: str,
        interfaces: Mapping[int, str],
        directory: Path,
        add_ports: bool = True,
    ) -> None:
        """Start both with the committed program for ``chip``; ``interfaces`` by dev_port.

        With ``add_ports`` the driver adds every port, at 10G; else there are none, as on a switch.

        Raises:
            RuntimeError: one of the two did not come up.
        """
        install = os.environ["SDE_INSTALL"]
        out = directory / "program"
        unpack_program(chip, program, out)
        files = {"ports.json": port_map(interfaces), "narrows.conf": configuration(chip, program, out)}
        for name, content in files.items():
            (directory / name).write_text(json.dumps(content, indent=1))
        ports, conf = str(directory / "ports.json"), str(directory / "narrows.conf")
        self.parameters: Mapping[str, str] = {"address": ADDRESS, "chip": chip.name, "model": "yes"}
        model = ["tofino-model", "-d", "1", "-f", ports, "--p4-target-config", conf, "--install-dir", install]
        model += ["--chip-type", str(CHIP_TYPES[chip.name]), "--log-dir", str(directory)]
        # A line for each step of each packet otherwise.
        model += ["--logs-disable"]
        self._children = [Child(namespace, model, directory / "model.log", {})]
        driver = ["bf_switchd", "--install-dir", install, "--conf-file", conf, "--init-mode=cold", "--background"]
        driver += [] if add_ports else ["--skip-port-add"]
        try:
            self._children.append(Child(namespace, driver, directory / "switch.log", {}))
            self._children[-1].wait_until(listens, READY_S)
        except RuntimeError:
            self.stop()
            raise

    def alive(self) -> bool:
        """Whether both still run."""
        return all(child.alive() for child in self._children)

    def stop(self) -> None:
        """End both, the driver first."""
        for child in reversed(self._children):
            child.stop()
