# SPDX-License-Identifier: Apache-2.0
"""deploy/: scripts and units that checkers accept, the switch's installation, and what only real NICs have."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
SCRIPTS = sorted(DEPLOY.glob("*.sh"))
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
ROOT = pytest.mark.needs("root", "unshare")


def run(*command: str, directory: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, cwd=directory, env={**os.environ, **environment}, timeout=60
    )


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_posix_shell(script: Path) -> None:
    assert run("sh", "-n", str(script)).returncode == 0


@pytest.mark.needs("shellcheck")
def test_shellcheck_has_nothing_to_say() -> None:
    checked = run("shellcheck", *map(str, SCRIPTS))
    assert checked.returncode == 0, checked.stdout


@pytest.mark.needs("systemd-analyze")
@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_units_are_valid(unit: Path, tmp_path: Path) -> None:
    # A template is checked as one of its instances. The collector is not installed where it is looked for.
    copy = tmp_path / unit.name.replace("@", "@ens1f0")
    copy.write_text(unit.read_text().replace("/usr/local/bin/narrows-collector", "/bin/true"))
    checked = run("systemd-analyze", "verify", str(copy))
    words = [
        line for line in checked.stderr.splitlines() if unit.name.partition("@")[0].removesuffix(".service") in line
    ]
    assert checked.returncode == 0 and words == [], checked.stderr


def test_the_driver_s_unit_listens_on_loopback_only() -> None:
    (unit,) = [unit for unit in UNITS if "switchd" in unit.name]
    assert "--server-listen-local-only" in unit.read_text()


def stub(directory: Path, name: str, body: str = "") -> None:
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\necho "{name.rpartition("/")[2]} $*" >>"$LOG"\n{body}\n')
    path.chmod(0o755)


@ROOT
@pytest.mark.parametrize(("chip", "option"), [("tofino", "-DTOFINO=ON"), ("tofino2", "-DTOFINO2=ON")])
def test_a_switch_is_installed_from_its_sde(chip: str, option: str, tmp_path: Path) -> None:
    """With stand-ins for the SDE's programs, and an /etc of its own."""
    sde, log = tmp_path / "sde", tmp_path / "log"
    (sde / "p4studio").mkdir(parents=True)
    targets = sde / "install" / "share" / "p4" / "targets" / chip
    for name in ("bf_switchd", "bf-p4c", "cmake", "systemctl"):
        stub(sde, f"install/bin/{name}")
    stub(
        sde,
        "install/bin/make",
        f'[ "$1" != install ] || {{ mkdir -p {targets}; echo "{{}}" >{targets}/narrows.conf; }}',
    )
    etc = f"mount -t tmpfs none /etc && mkdir -p /etc/systemd/system && sh {DEPLOY}/install-switch.sh {chip}"
    show = "&& cat /etc/narrows/switch.env /etc/systemd/system/narrows-switchd.service"
    path = f"{sde}/install/bin:{os.environ['PATH']}"
    made = run("unshare", "-m", "sh", "-c", f"{etc} {show}", SDE=str(sde), LOG=str(log), PATH=path)
    assert made.returncode == 0, made.stderr
    assert f"NARROWS_CHIP={chip}" in made.stdout and f"SDE={sde}" in made.stdout
    assert "--server-listen-local-only" in made.stdout
    called = log.read_text().splitlines()
    (cmake,) = [line for line in called if line.startswith("cmake ")]
    assert option in cmake and f"-DP4_PATH={DEPLOY.parent}/p4src/tofino/narrows.p4" in cmake
    assert [line for line in called if line.startswith("systemctl")] == [
        "systemctl daemon-reload", "systemctl enable narrows-switchd", "systemctl restart narrows-switchd",
    ]  # fmt: skip


@ROOT
@pytest.mark.parametrize(
    ("arguments", "sde", "words"),
    [
        ([], True, "usage: install-switch.sh tofino|tofino2"),
        (["tofino"], False, "SDE is not the directory of an SDE; fix: SDE=/path/to/sde"),
        (["tofino"], True, "has no bf_switchd; fix: build the SDE first"),
    ],
)
def test_an_installation_that_cannot_be_is_refused(arguments: list[str], sde: bool, words: str, tmp_path: Path) -> None:
    (tmp_path / "p4studio").mkdir()
    made = run("sh", str(DEPLOY / "install-switch.sh"), *arguments, SDE=str(tmp_path) if sde else "")
    assert made.returncode == 1 and words in made.stderr


RINGS = """case $1 in
-g)
    echo 'Ring parameters for ens1f0:'
    printf 'Pre-set maximums:\\nRX:\\t8192\\nTX:\\t8192\\n'
    printf 'Current hardware settings:\\nRX:\\t1024\\nTX:\\t8192\\n'
    ;;
-k) printf 'tcp-segmentation-offload: off\\ngeneric-segmentation-offload: off\\n' ;;
esac"""
# A NIC with three interrupts on a NUMA node of two processors; irqbalance runs.
NIC = """set -e
ip link add ens1f0 type veth peer name other
mount -t tmpfs none /proc/irq
mount -t tmpfs none /sys/class/net
mkdir -p /sys/class/net/ens1f0/device/msi_irqs
echo 1500 >/sys/class/net/ens1f0/mtu
echo 2-3 >/sys/class/net/ens1f0/device/local_cpulist
for irq in 41 42 43; do
    : >/sys/class/net/ens1f0/device/msi_irqs/$irq
    mkdir /proc/irq/$irq
    echo 0-7 >/proc/irq/$irq/smp_affinity_list
done
"""


@ROOT
def test_rings_and_interrupts_of_a_nic_are_set_and_put_back(tmp_path: Path) -> None:
    log = tmp_path / "log"
    stub(tmp_path, "bin/ethtool", RINGS)
    stub(tmp_path, "bin/systemctl")
    show = "cat /proc/irq/*/smp_affinity_list | tr '\\n' ' '; echo"
    script = f"{NIC} sh {DEPLOY}/host.sh apply ens1f0 mtu=1500; {show}; sh {DEPLOY}/host.sh restore ens1f0; {show}"
    path = f"{tmp_path}/bin:{os.environ['PATH']}"
    made = run("unshare", "-m", "-n", "sh", "-c", script, LOG=str(log), PATH=path, NARROWS_HOST_STATE=str(tmp_path))
    assert made.returncode == 0, made.stderr
    # One a processor of the NIC's own node, in turn; afterwards as they were.
    assert made.stdout.splitlines() == ["2 3 2 ", "0-7 0-7 0-7 "], made.stderr
    called = log.read_text().splitlines()
    changes = [line for line in called if line.startswith(("ethtool -G", "systemctl st"))]
    assert changes == [
        "ethtool -G ens1f0 rx 8192", "systemctl stop irqbalance",
        "systemctl start irqbalance", "ethtool -G ens1f0 rx 1024",
    ]  # fmt: skip
