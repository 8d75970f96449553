# SPDX-License-Identifier: Apache-2.0
"""deploy/: scripts and units that checkers accept, the switch's installation, and what only real NICs have."""

from __future__ import annotations

import json
import lzma
import os
import re
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
    # A template is checked as one of its instances. Our programs are not installed where they are looked for.
    copy = tmp_path / unit.name.replace("@", "@ens1f0")
    copy.write_text(re.sub(r"/usr/local/bin/narrows-\w+", "/bin/true", unit.read_text()))
    checked = run("systemd-analyze", "verify", str(copy))
    words = [
        line for line in checked.stderr.splitlines() if unit.name.partition("@")[0].removesuffix(".service") in line
    ]
    assert checked.returncode == 0 and words == [], checked.stderr


def test_the_driver_s_unit_listens_on_loopback_only() -> None:
    (unit,) = [unit for unit in UNITS if "switchd" in unit.name]
    assert "--server-listen-local-only" in unit.read_text()


def test_the_driver_s_unit_finds_an_sde_wherever_it_was_built() -> None:
    """In a home directory, with its dependencies elsewhere, and as many huge pages as its own set-up makes."""
    (unit,) = [unit.read_text() for unit in UNITS if "switchd" in unit.name]
    assert "ProtectHome=yes" not in unit and "ProtectHome=read-only" in unit
    assert "LD_LIBRARY_PATH=${SDE_DEPENDENCIES}/lib:${SDE_INSTALL}/lib:/usr/local/lib;" in unit
    assert "vm.nr_hugepages=196" in unit


def stub(directory: Path, name: str, body: str = "") -> None:
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\necho "{name.rpartition("/")[2]} $*" >>"$LOG"\n{body}\n')
    path.chmod(0o755)


@ROOT
@pytest.mark.parametrize(
    ("chip", "option"),
    [("tofino", "-DTOFINO=ON"), pytest.param("tofino2", "-DTOFINO2=ON", marks=pytest.mark.long)],
)
def test_a_switch_is_installed_from_its_sde(chip: str, option: str, tmp_path: Path) -> None:
    """With stand-ins for the SDE's programs, and an /etc of its own."""
    sde, log = tmp_path / "sde", tmp_path / "log"
    (sde / "p4studio").mkdir(parents=True)
    targets = sde / "install" / "share" / "p4" / "targets" / chip
    for name in ("bf_switchd", "bf-p4c", "p4c-gen-bfrt-conf", "p4c-manifest-config", "cmake", "systemctl"):
        stub(sde, f"install/bin/{name}")
    # BF Runtime listens at the third look.
    stub(sde, "install/bin/ss", 'test "$(grep -c "^ss" "$LOG")" -lt 3 || echo LISTEN 127.0.0.1:50052')
    stub(
        sde,
        "install/bin/make",
        f'[ "$1" != install ] || {{ mkdir -p {targets}; echo "{{}}" >{targets}/narrows.conf; }}',
    )
    etc = f"mount -t tmpfs none /etc && mkdir -p /etc/systemd/system && sh {DEPLOY}/install-switch.sh {chip}"
    show = "&& cat /etc/narrows/switch.env /etc/systemd/system/narrows-switchd.service"
    path = f"{sde}/install/bin:{os.environ['PATH']}"
    environment = {"SDE": str(sde), "LOG": str(log), "PATH": path, "SDE_DEPENDENCIES": "/opt/deps"}

    def install(then: str = "", **more: str) -> subprocess.CompletedProcess[str]:
        return run("unshare", "-m", "sh", "-c", f"{etc} {then}", directory=None, **{**environment, **more})

    made = install(show)
    assert made.returncode == 0, made.stderr
    assert "SDE_DEPENDENCIES=/opt/deps" in made.stdout
    assert "BF Runtime listens on port 50052\ndone" in made.stdout
    assert f"NARROWS_CHIP={chip}\nNARROWS_PROGRAM=narrows\n" in made.stdout and f"SDE={sde}" in made.stdout
    assert "--server-listen-local-only" in made.stdout
    called = log.read_text().splitlines()
    (cmake,) = [line for line in called if line.startswith("cmake ")]
    assert option in cmake and f"-DP4_PATH={DEPLOY.parent}/p4src/tofino/narrows.p4" in cmake
    asked = ["systemctl is-active --quiet narrows-switchd"] * 2
    assert [line for line in called if line.startswith("systemctl")] == [
        "systemctl daemon-reload", "systemctl enable narrows-switchd", "systemctl restart narrows-switchd", *asked,
    ]  # fmt: skip
    # Without one that is named, the dependencies are where the SDE says, relative to its installation.
    (sde / "install" / "share" / "environment").write_text("SDE_DEPENDENCIES=../deps\nSDE=..\n")
    assert f"SDE_DEPENDENCIES={sde}/deps" in install(show, SDE_DEPENDENCIES="").stdout
    # A driver that ends is not waited for, and one that never listens not for ever.
    stub(sde, "install/bin/ss", "true")
    made = install(NARROWS_WAIT_S="1")
    assert made.returncode == 1 and "nothing listens on port 50052 after 1 s; fix: journalctl" in made.stderr
    stub(sde, "install/bin/systemctl", '[ "$1" != is-active ]')
    made = install()
    assert made.returncode == 1 and "narrows-switchd has ended; fix: journalctl" in made.stderr


@ROOT
@pytest.mark.parametrize(
    ("chip", "name", "options"),
    [("tofino", "narrows", ""), ("tofino2", "narrows", ""), ("tofino", "narrows_managed", "--managed")],
)
def test_an_sde_of_the_compilers_version_gets_the_compiled_program(
    chip: str, name: str, options: str, tmp_path: Path
) -> None:
    """No compiler is needed on the switch; of another version, or when asked for, it is."""
    sde, log = tmp_path / "sde", tmp_path / "log"
    compiled = DEPLOY.parent / "p4src" / "compiled" / f"{chip}{options[1:]}"
    (sde / "p4studio").mkdir(parents=True)
    for tool in ("bf_switchd", "systemctl", "cmake", "make"):
        stub(sde, f"install/bin/{tool}")
    stub(sde, "install/bin/ss", "echo LISTEN 127.0.0.1:50052")
    share = sde / "install" / "share"
    share.mkdir()
    _, version, _ = json.loads((compiled / "digest.json").read_text())["compiler"].split()

    def install(version: str, *more: str) -> subprocess.CompletedProcess[str]:
        (share / "VERSION").write_text(version)
        words = " ".join([str(DEPLOY / "install-switch.sh"), chip, options, *more])
        command = f"mount -t tmpfs none /etc && mkdir -p /etc/systemd/system && sh {words}"
        path = f"{sde}/install/bin:{os.environ['PATH']}"
        return run("unshare", "-m", "sh", "-c", command, SDE=str(sde), LOG=str(log), PATH=path)

    made = install(version)
    assert made.returncode == 0, made.stderr
    assert f"installing the program compiled for SDE {version}" in made.stdout
    conf = json.loads((share / "p4" / "targets" / chip / f"{name}.conf").read_text())
    assert conf["chip_list"][0]["chip_family"] == chip
    (program,) = conf["p4_devices"][0]["p4_programs"]
    (pipeline,) = program["p4_pipelines"]
    assert program["program-name"] == name and pipeline["pipe_scope"] == [0, 1, 2, 3]
    # bf_switchd looks for them from the installation's directory.
    assert (sde / "install" / program["bfrt-config"]).read_bytes() == (compiled / "bf-rt.json").read_bytes()
    for named, artifact in ((pipeline["context"], "context.json"), (pipeline["config"], f"{chip}.bin")):
        installed = sde / "install" / named
        assert installed.read_bytes() == lzma.decompress((compiled / "pipe" / f"{artifact}.xz").read_bytes())
        assert installed.stat().st_mode & 0o777 == 0o644
    for wanted in ((version, "--compile"), ("9.9.9",)):
        assert "'bf-p4c' is missing; fix: the SDE's compiler" in install(*wanted).stderr


@ROOT
@pytest.mark.parametrize(
    ("arguments", "sde", "words"),
    [
        ([], True, "usage: install-switch.sh tofino|tofino2"),
        (["tofino", "--fast"], True, "'--fast' is unknown; allowed: --managed, --compile"),
        (["tofino", "--managed", "fast"], True, "'fast' is unknown; allowed: --managed, --compile"),
        (["tofino"], False, "SDE is not the directory of an SDE; fix: SDE=/path/to/sde"),
        (["tofino"], True, "has no bf_switchd; fix: build the SDE first"),
    ],
)
def test_an_installation_that_cannot_be_is_refused(arguments: list[str], sde: bool, words: str, tmp_path: Path) -> None:
    (tmp_path / "p4studio").mkdir()
    made = run("sh", str(DEPLOY / "install-switch.sh"), *arguments, SDE=str(tmp_path) if sde else "")
    assert made.returncode == 1 and words in made.stderr


# A NIC that keeps its settings, but for what is IGNORED.
KEPT = """nic=$(dirname "$LOG")/nic
mkdir -p "$nic"
now() { cat "$nic/$1" 2>/dev/null || echo "$2"; }
case $1 in
-g)
    printf 'Pre-set maximums:\\nRX:\\t8192\\nTX:\\t8192\\n'
    printf 'Current hardware settings:\\nRX:\\t%s\\nTX:\\t8192\\n' "$(now rx-G 1024)"
    ;;
-c)
    printf 'Adaptive RX: %s  TX: on\\nrx-usecs:\\t%s\\ntx-usecs:\\tn/a\\n' \\
        "$(now adaptive-rx-C on)" "$(now rx-usecs-C 64)"
    ;;
-l) printf 'Current hardware settings:\\nRX:\\tn/a\\nCombined:\\t%s\\n' "$(now combined-L 4)" ;;
-a) printf 'Autonegotiate:\\toff\\nRX:\\t%s\\nTX:\\t%s\\n' "$(now rx-A on)" "$(now tx-A on)" ;;
-k) printf 'tcp-segmentation-offload: %s\\n' "$(now tso-K on)" ;;
-[GCAKL]) [ "$1" = "${IGNORED-}" ] || echo "$4" >"$nic/$3$1" ;;
esac
rm -rf /sys/class/net/ens1f0/queues/*
for queue in $(seq "$(now combined-L 4)"); do mkdir -p /sys/class/net/ens1f0/queues/rx-$queue; done"""
# A NIC with three interrupts on a NUMA node of two processors; irqbalance runs.
NIC = """set -e
ip link add ens1f0 type veth peer name other
mount -t tmpfs none /proc/irq
mount -t tmpfs none /sys/class/net
mkdir -p /sys/class/net/ens1f0/device/msi_irqs /sys/class/net/ens1f0/queues/rx-1
echo 1500 >/sys/class/net/ens1f0/mtu
echo 2-3 >/sys/class/net/ens1f0/device/local_cpulist
for irq in 41 42 43; do
    : >/sys/class/net/ens1f0/device/msi_irqs/$irq
    mkdir /proc/irq/$irq
    echo 0-7 >/proc/irq/$irq/smp_affinity_list
done
"""


def applied_and_restored(directory: Path, machine: str, settings: str, show: str) -> tuple[list[str], list[str]]:
    """What ``show`` prints after host.sh applied settings and after it restored them, and the commands it called."""
    log = directory / "log"
    stub(directory, "bin/ethtool", KEPT)
    stub(directory, "bin/systemctl")
    host = f"sh {DEPLOY}/host.sh"
    script = f"{machine} {host} apply ens1f0 {settings}; {show}; {host} restore ens1f0; {show}"
    path = f"{directory}/bin:{os.environ['PATH']}"
    made = run("unshare", "-m", "-n", "sh", "-c", script, LOG=str(log), PATH=path, NARROWS_HOST_STATE=str(directory))
    assert made.returncode == 0, made.stderr
    return made.stdout.splitlines(), log.read_text().splitlines()


@ROOT
def test_rings_and_interrupts_of_a_nic_are_set_and_put_back(tmp_path: Path) -> None:
    show = "cat /proc/irq/*/smp_affinity_list | tr '\\n' ' '; echo"
    shown, called = applied_and_restored(tmp_path, NIC, "mtu=1500", show)
    # One a processor of the NIC's own node, in turn; afterwards as they were.
    assert shown == ["2 3 2 ", "0-7 0-7 0-7 "]
    changes = [line for line in called if line.startswith(("ethtool -G", "systemctl st"))]
    assert changes == [
        "ethtool -G ens1f0 rx 8192", "systemctl stop irqbalance",
        "systemctl start irqbalance", "ethtool -G ens1f0 rx 1024",
    ]  # fmt: skip


CPU = """mount -t tmpfs none /sys/devices/system/cpu
cpu=/sys/devices/system/cpu/cpu0
mkdir -p $cpu/cpufreq $cpu/cpuidle/state0 $cpu/cpuidle/state3
echo powersave >$cpu/cpufreq/scaling_governor
echo 2 >$cpu/cpuidle/state0/latency; echo 0 >$cpu/cpuidle/state0/disable
echo 133 >$cpu/cpuidle/state3/latency; echo 0 >$cpu/cpuidle/state3/disable
"""


@ROOT
def test_a_fast_nic_and_its_processors_are_set_and_put_back(tmp_path: Path) -> None:
    show = "cat $cpu/cpufreq/scaling_governor $cpu/cpuidle/state*/disable | tr '\\n' ' '; echo"
    shown, called = applied_and_restored(tmp_path, f"{NIC}{CPU}", "mtu=9000 nic=fast", show)
    assert shown == ["performance 0 1 ", "powersave 0 0 "]
    changes = [line for line in called if line.startswith(("ethtool -C", "ethtool -A"))]
    # What the NIC does not have is skipped; what is set already as well.
    assert changes == [
        "ethtool -C ens1f0 adaptive-rx off", "ethtool -C ens1f0 rx-usecs 8",
        "ethtool -A ens1f0 rx off", "ethtool -A ens1f0 tx off",
        "ethtool -A ens1f0 tx on", "ethtool -A ens1f0 rx on",
        "ethtool -C ens1f0 rx-usecs 64", "ethtool -C ens1f0 adaptive-rx on",
    ]  # fmt: skip


# A shell that is killed after the N-th change of the machine.
KILLED = """changed=0 last=
after_a_change() {
    case $last in
    'ethtool -'[GCAKL]* | 'ethtool "$change"'* | 'systemctl stop'* | 'ip link set'* | 'echo '*' > "$'* | 'sysctl -q'*)
        changed=$((changed + 1))
        if [ "$changed" = "$KILL" ]; then kill -9 $$; fi
        ;;
    esac
    last=$1
}
trap 'after_a_change "$BASH_COMMAND"' DEBUG
"""
LOOP = """show() {
    for list in -g -c -a -k -l; do ethtool $list; done
    sysctl net.ipv6.conf.ens1f0.disable_ipv6
    cat /proc/irq/*/smp_affinity_list $cpu/cpufreq/scaling_governor $cpu/cpuidle/state*/disable
    systemctl is-active && echo irqbalance runs
    ip -brief link show dev ens1f0 | cut -d'<' -f2
}
before=$(show)
killed=0
settings="mtu=1500 nic=fast queues=1 quiet=yes"
while KILL=$((killed + 1)) BASH_ENV=$KILLED bash -T $HOST apply ens1f0 $settings; [ $? = 137 ]; do
    killed=$((killed + 1))
    [ "$(show)" != "$before" ] || echo "change $killed changed nothing"
    sh $HOST restore ens1f0
    [ "$(show)" = "$before" ] || { echo "after change $killed"; show; }
done
echo "$killed kills"
"""


@pytest.mark.long
@ROOT
def test_a_kill_after_any_change_leaves_nothing_behind(tmp_path: Path) -> None:
    """How to undo a change is on disk before it is made."""
    stub(tmp_path, "bin/ethtool", KEPT)
    running = tmp_path / "irqbalance"
    running.touch()
    service = f"case $1 in stop) rm -f {running} ;; start) : >{running} ;; is-active) test -e {running} ;; esac"
    stub(tmp_path, "bin/systemctl", service)
    (tmp_path / "killed.sh").write_text(KILLED)
    made = run(
        "unshare", "-m", "-n", "sh", "-c", f"{NIC}{CPU}set +e\n{LOOP}",
        LOG=str(tmp_path / "log"), PATH=f"{tmp_path}/bin:{os.environ['PATH']}", NARROWS_HOST_STATE=str(tmp_path),
        KILLED=str(tmp_path / "killed.sh"), HOST=str(DEPLOY / "host.sh"),
    )  # fmt: skip
    # An offload, the queues, a ring, irqbalance, three interrupts (each written twice), quiet, twice coalescing, two
    # pauses, governor, an idle state and the link.
    assert made.stdout.splitlines() == ["18 kills"], made.stdout + made.stderr


@ROOT
@pytest.mark.parametrize(
    ("ignored", "words"),
    [
        ("-G", "ring RX reads 1024 after it was set to 8192"),
        ("-C", "adaptive-rx (-C) reads on after it was set to off"),
        (
            "-L",
            "ens1f0 has 4 receive queues, not 1; fix: a NIC whose driver can change that (ethtool -L), or queues in "
            "the inventory",
        ),
        ("-A", "rx (-A) reads on after it was set to off"),
    ],
)
def test_a_nic_that_ignores_a_setting_fails_the_set_up(ignored: str, words: str, tmp_path: Path) -> None:
    stub(tmp_path, "bin/ethtool", KEPT)
    stub(tmp_path, "bin/systemctl")
    made = run(
        "unshare", "-m", "-n", "sh", "-c", f"{NIC}{CPU}sh {DEPLOY}/host.sh apply ens1f0 nic=fast queues=1",
        LOG=str(tmp_path / "log"), PATH=f"{tmp_path}/bin:{os.environ['PATH']}", NARROWS_HOST_STATE=str(tmp_path),
        IGNORED=ignored,
    )  # fmt: skip
    assert made.returncode == 1 and made.stderr.endswith(f"{words}\n"), made.stderr
    # All or nothing: what was set before it is as it was.
    assert (tmp_path / "nic" / "tso-K").read_text() == "on\n"
