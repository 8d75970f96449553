# SPDX-License-Identifier: Apache-2.0
"""What tests need of the machine, and what of it may be absent: only what neither a package nor this checkout has.

A test names its needs, `@pytest.mark.needs("root", "sshd")`: commands of scripts/packages.txt, our binaries, or what
`ABSENCES` lists. It fails where a command or a binary is missing, since `scripts/setup.sh test` brings them. It is left
out where something of `ABSENCES` is missing. A test that is skipped in any other way fails.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from _pytest.outcomes import Skipped
from narrows.hosts import bpf
from narrows.hosts.users import what_forbids
from narrows.targets.bmv2 import simple_switch
from narrows.virtual import kernels, own_cca
from narrows.virtual.adjustments import adjusted
from narrows_formats.programs import COLLECTOR, SOFTSWITCH, find_binary, missing_binary

PACKAGES = Path(__file__).resolve().parents[1] / "scripts" / "packages.txt"
ROOT = "root"
# Of the default source with experiments/guard/cubic-beta.patch.
CHANGED_KERNEL = "cubic-beta"
# Of a source with BBRv3, which no package has.
BBR3 = "bbr3"
POLICE = "CONFIG_NET_ACT_POLICE=y"
# Files of tests that take minutes, waiting or compiling.
LONGEST = ("test_tofino_run", "test_ptf_tofino", "test_third_party_clients", "test_in_a_guest")


class Absent(Skipped):
    """The machine lacks something that no package has."""

    # pytest puts the class before the reason, and the module of what is not built in.
    __module__ = "builtins"


def python_for_all() -> str | None:
    """An interpreter that has the modules of this one, and that users other than root can execute."""
    own = (sys.executable, f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}")
    return next((path for path in own if Path(path).exists() and not what_forbids(path)), None)


def _bpf() -> str | None:
    lacks = bpf.lacking() + ([] if shutil.which("clang") else ["the command 'clang' is missing"])
    return f"no congestion controls in BPF here: {'; '.join(lacks)}" if lacks else None


def _repeatable() -> bool:
    found = map(kernels.remembered, kernels.installed()[:1])
    return any(about is not None and about.repeatable for about in found)


def _seeded() -> bool:
    """Whether the default kernel is one of today's adjustments."""
    salt = f'CONFIG_BUILD_SALT="{adjusted()}'
    return any(salt in kernels.configuration(kernel) for kernel in kernels.installed()[:1])


def _has_external() -> bool:
    found = map(kernels.remembered, kernels.installed()[:1])
    return any(about is not None and "external" in about.ccas for about in found)


def _a_kernel_has(option: str) -> bool:
    return any(option in kernels.configuration(kernel) for kernel in kernels.installed())


def _uncounted() -> str | None:
    """Why instructions cannot be compared with those recorded."""
    if shutil.which("valgrind") is None:
        return "no valgrind: instructions are not counted; apt-get install valgrind"
    latest = max((PACKAGES.parents[1] / "benchmarks" / "results").glob("*-instructions.json"))
    recorded = json.loads(latest.read_text())["benchmarks"]["instructions"]["compiler"]
    here = subprocess.run(["rustc", "--version"], capture_output=True, text=True).stdout.strip()
    return None if here == recorded else f"instructions were recorded of {recorded}'s code, not of {here}'s"


def _mm_link_in_a_guest() -> str | None:
    found = _a_kernel_has("CONFIG_TUN=y")
    return _mm_link() or (None if found else "no kernel with tun devices is built; `make kernel` does")


def _mm_link() -> str | None:
    return None if shutil.which("mm-link") else "no mm-link of Mahimahi's; no package has it"


def _has_default() -> bool:
    return any(kernel.name == kernels.DEFAULT for kernel in kernels.installed())


def _has_netem() -> bool:
    probe = "unshare -n tc qdisc add dev lo root netem delay 1ms"
    return subprocess.run(probe.split(), capture_output=True, check=False).returncode == 0


# What may be absent, and what a machine without it reads: None where it is there.
ABSENCES: dict[str, Callable[[], str | None]] = {
    ROOT: lambda: None if os.geteuid() == 0 else "no root: it is needed for network namespaces; `make test` has it",
    "python-for-all": lambda: None if python_for_all() else "no Python of this version that every user can execute",
    "bmv2": simple_switch.missing,
    "bmv2-cli": lambda: None if shutil.which("simple_switch_CLI") else "no simple_switch_CLI of BMv2's on PATH",
    "repeatable-kernel": lambda: None if _repeatable() else "no kernel of today's sources is built; `make kernel` does",
    "seeded-kernel": lambda: None if _seeded() else "no kernel of today's adjustments is built; `make kernel` does",
    "guest-kernel": lambda: None if kernels.installed() else "no kernel for virtual time is built; `make kernel` does",
    "external-kernel": lambda: (
        None if _has_external() else "no kernel with the congestion control external is built; `make kernel` does"
    ),
    "kernel-objects": lambda: (
        None
        if own_cca.has_objects(kernels.DEFAULT)
        else "no objects of the default kernel are kept; `make kernel` does"
    ),
    "bbr3-objects": lambda: (
        None
        if own_cca.has_objects(BBR3)
        else f"no objects of a kernel {BBR3} are kept; `narrows kernel build --source bbr --name {BBR3}` makes them"
    ),
    "bridge-kernel": lambda: (
        None if _a_kernel_has("CONFIG_BRIDGE=y") else "no kernel with a bridge is built; `make kernel` does"
    ),
    # Linux's policer is compared with ours, and serves no other test.
    "police-kernel": lambda: (
        None
        if _a_kernel_has(POLICE)
        else "no kernel with a policer is built; `narrows kernel build --name police --config CONFIG_NET_CLS_ACT=y "
        f"--config {POLICE}` makes one"
    ),
    # The option came with the time that system calls of programs take.
    "programs-kernel": lambda: (
        None if _a_kernel_has("CONFIG_PID_NS=y") else "no kernel that charges programs is built; `make kernel` does"
    ),
    "changed-kernel": lambda: (
        None
        if any(kernel.name == CHANGED_KERNEL for kernel in kernels.installed())
        else f"no kernel {CHANGED_KERNEL} is built; docs/experiments.md#expect says how"
    ),
    "bpf": _bpf,
    "mahimahi": _mm_link_in_a_guest,
    "counted-instructions": _uncounted,
    "mm-link": _mm_link,
    "default-kernel": lambda: None if _has_default() else "the default kernel is not built; `make kernel` does",
    "sde": lambda: (
        None if importlib.util.find_spec("bfrt_grpc") else "the SDE's client is not on PYTHONPATH; no package has it"
    ),
    "tofino-model": lambda: (
        None
        if shutil.which("tofino-model") and shutil.which("bf_switchd") and "SDE_INSTALL" in os.environ
        else "no model and driver of Tofino's SDE on PATH; no package has them (docs/tofino-evidence.md)"
    ),
    "tutorials": lambda: (
        None
        if shutil.which("p4c-bm2-ss") and "NARROWS_TUTORIALS" in os.environ
        else "no p4c on PATH, or no checkout of github.com/p4lang/tutorials that NARROWS_TUTORIALS names"
    ),
    "prometheus": lambda: (
        None
        if shutil.which("prometheus")
        else "no Prometheus; Debian's package prometheus has it, and starts it as a service"
    ),
    "Rscript": lambda: None if shutil.which("Rscript") else "no R; Debian's package r-base-core has it",
    "octave": lambda: None if shutil.which("octave") else "no Octave; Debian's package octave has it",
    "telegraf": lambda: None if shutil.which("telegraf") else "no Telegraf; no Debian package has it",
    "stress": lambda: None if "NARROWS_STRESS" in os.environ else "what takes minutes, `make stress` runs it",
    "no-netem": lambda: "what happens on a kernel without netem, and this one has it" if _has_netem() else None,
}


def debian_packages() -> dict[str, str]:
    """The commands that scripts/setup.sh installs, and the Debian package of each."""
    lines = [line.split() for line in PACKAGES.read_text().splitlines() if line and not line.startswith("#")]
    return {command: package for _, command, package in lines}


def require(*names: str) -> None:
    """Leave the test out, or let it fail, if this machine lacks one of ``names``.

    Raises:
        Absent: something that no package has is missing.
        ValueError: a name that is neither of packages.txt, nor a binary, nor in `ABSENCES`.
    """
    for name in names:
        reason = _missing(name)
        if reason is None:
            continue
        if name in ABSENCES:
            raise Absent(reason)
        pytest.fail(reason, pytrace=False)


def _missing(name: str) -> str | None:
    if name in ABSENCES:
        return ABSENCES[name]()
    if name in (SOFTSWITCH, COLLECTOR):
        return None if find_binary(name) else missing_binary(name)
    packages = debian_packages()
    if name not in packages:
        raise ValueError(f"'{name}' is unknown to tests/needs.py and scripts/packages.txt")
    if shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin"):
        return None
    return f"{name} is not installed; fix: scripts/setup.sh test (Debian's package {packages[name]})"


def needs_of(item: pytest.Item) -> list[str]:
    """What a test says it needs, the farthest statement first."""
    marks = reversed(list(item.iter_markers("needs")))
    return list(dict.fromkeys(name for mark in marks for name in mark.args))


def pytest_configure(config: pytest.Config) -> None:
    """Tell pytest the marks."""
    config.addinivalue_line("markers", "needs(*names): what a test needs of the machine; see tests/needs.py")
    config.addinivalue_line("markers", "fault(what, stage, *clocks): what it shows; see scripts/faults.py")
    config.addinivalue_line("markers", "parallel_safe: as root, and all the same on a busy machine; run side by side")
    config.addinivalue_line("markers", "long: takes long, and others show the most of it; for `make test-long`")
    config.addinivalue_line("markers", "root: set by itself where root is needed (network namespaces)")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Lets `-m root` choose what needs root; begins with the files that take longest, so that none is left over."""
    for item in items:
        if ROOT in needs_of(item) or "network" in getattr(item, "fixturenames", ()):
            item.add_marker(ROOT)
    items.sort(key=lambda item: item.path.stem not in LONGEST)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before any fixture is made."""
    require(*needs_of(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that is skipped and not by `require` fails."""
    report = yield
    raised = None if call.excinfo is None else call.excinfo.value
    if report.skipped and isinstance(raised, Skipped) and not isinstance(raised, Absent):
        report.outcome = "failed"
        report.longrepr = f"skipped, and not for want of anything in tests/needs.py: {raised}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """So does a module that is skipped as a whole."""
    report = yield
    if report.outcome == "skipped":
        report.outcome = "failed"
        report.longrepr = (
            f"{collector.nodeid} is skipped as a whole; tests/needs.py says what may be: {report.longrepr}"
        )
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What was left out, by reason."""
    reasons = Counter(
        report.longrepr[2].removeprefix("Absent: ") for report in terminalreporter.stats.get("skipped", [])
    )
    if reasons:
        terminalreporter.section("left out for want of")
        for reason, count in reasons.most_common():
            terminalreporter.line(f"{count} test{'s' if count > 1 else ''}: {reason}")
