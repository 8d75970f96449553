# SPDX-License-Identifier: Apache-2.0
"""Congestion controls in BPF: in the kernel as long as a run lasts, and no longer, however it ends."""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from narrows.errors import RunError
from narrows.experiment.loader import validate
from narrows.experiment.tcp_settings import unsupported
from narrows.hosts import bpf
from narrows.hosts.machine import kernel_ccas
from narrows_formats.programs import COLLECTOR

pytestmark = pytest.mark.needs("root", "bpf", "narrows-softswitch", COLLECTOR, "ip")
NARROWS = [sys.executable, "-c", "from narrows.cli import main; main()"]
WINDOW = 12
# The kernel finds fields by their names, so that those that are not used need not be there.
TEXT = """\
#define PART(name) __attribute__((section(name), used))
#define KERNELS __attribute__((preserve_access_index))
typedef unsigned int u32;
struct sock { int unused; } KERNELS;
struct tcp_sock { u32 snd_cwnd; } KERNELS;
struct tcp_congestion_ops {
    u32 (*ssthresh)(struct sock *sk);
    void (*cong_avoid)(struct sock *sk, u32 ack, u32 acked);
    u32 (*undo_cwnd)(struct sock *sk);
    char name[16];
} KERNELS;
char gpl[] PART("license") = "GPL";
PART("struct_ops/threshold") u32 threshold(unsigned long long *arguments) { return %(window)d; }
PART("struct_ops/avoid") int avoid(unsigned long long *arguments)
{
    ((struct tcp_sock *)arguments[0])->snd_cwnd = %(window)d;
    return 0;
}
PART("struct_ops/undo") u32 undo(unsigned long long *arguments) { return %(window)d; }
PART(".struct_ops") struct tcp_congestion_ops held = {
    .ssthresh = (void *)threshold, .cong_avoid = (void *)avoid, .undo_cwnd = (void *)undo, .name = "%(name)s",
};
"""
EXPERIMENT = """\
name: bpf
bottleneck: {rate: 10Mbit, buffer: 50packets, rtt: 20ms}
flows: [{name: own, cca: %s, bpf: own.bpf.o, duration: %s}]
"""
NAME = "bpf_test"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "own.bpf.c").write_text(TEXT % {"window": WINDOW, "name": NAME})
    compiler = ["clang", "-O2", "-g", "-target", "bpf", "-c", "own.bpf.c", "-o", "own.bpf.o"]
    subprocess.run(compiler, cwd=tmp_path, check=True)
    (tmp_path / "x.yaml").write_text(EXPERIMENT % (NAME, "2s"))
    return tmp_path


def run(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*NARROWS, *words], cwd=place, capture_output=True, text=True)


def test_flows_have_it_and_the_kernel_does_not_keep_it(place: Path) -> None:
    run(place, "run", "x.yaml", "--out", "out")
    # A busy machine may be late, which does not matter here.
    record = json.loads((place / "out" / "run.json").read_text())
    digest = hashlib.sha256((place / "own.bpf.o").read_bytes()).hexdigest()
    assert record["programs"][str(place / "own.bpf.o")] == digest
    connection = json.loads((place / "out" / "hosts" / "own-1.json").read_text())
    assert connection["congestion_control"] == NAME
    assert connection["samples"][-1]["cwnd_bytes"] == WINDOW * connection["mss_bytes"]
    assert NAME not in kernel_ccas()


def test_clean_takes_out_what_a_killed_run_left(place: Path) -> None:
    (place / "x.yaml").write_text(EXPERIMENT % (NAME, "60s"))
    with subprocess.Popen([*NARROWS, "run", "x.yaml", "--out", "out"], cwd=place, stderr=subprocess.DEVNULL) as process:
        until = time.monotonic() + 60
        while NAME not in kernel_ccas() and time.monotonic() < until:
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
    assert NAME in kernel_ccas()
    refused = run(place, "run", "x.yaml", "--out", "other")
    assert refused.returncode == 2 and f"cca {NAME}: the kernel has a congestion control '{NAME}'" in refused.stderr
    cleaned = run(place, "clean")
    assert cleaned.returncode == 0 and f"congestion control {NAME} of BPF" in cleaned.stdout + cleaned.stderr
    assert NAME not in kernel_ccas()


def test_what_cannot_be_registered_is_refused_and_leaves_nothing(place: Path) -> None:
    before = kernel_ccas()
    with pytest.raises(RunError, match=rf"own\.bpf\.o: registers {NAME}; allowed: the cca of its flows, bpf_other"):
        bpf.register("bpf_other", place / "own.bpf.o")
    (place / "broken.bpf.o").write_bytes((place / "own.bpf.o").read_bytes()[:500])
    with pytest.raises(RunError, match="bpftool struct_ops register"):
        bpf.register(NAME, place / "broken.bpf.o")
    assert bpf.problems(NAME, place / "own.bpf.c") == [
        f"{place / 'own.bpf.c'} is no object file; allowed: what clang -target bpf makes"
    ]
    assert bpf.problems("cubic", place / "none.bpf.o") == [
        f"{place / 'none.bpf.o'} cannot be read: No such file or directory",
        "the kernel has a congestion control 'cubic' already; allowed: another name, in the object too",
    ]
    assert kernel_ccas() == before


def test_guests_and_machines_of_a_lab_refuse_it() -> None:
    groups = validate(
        {
            "name": "x",
            "bottleneck": {"rate": "10Mbit", "buffer": "50packets", "rtt": "20ms"},
            "flows": [{"cca": NAME, "bpf": "/own.bpf.o", "duration": "1s"}],
        },
        "x",
    ).flows
    assert unsupported(groups, False, True, False) == [
        "flows.0.bpf: a guest's kernel has no BPF JIT, which congestion controls in BPF need; fix: without --virtual"
    ]
    assert unsupported(groups, False, False, True) == [
        "flows.0.bpf: registered by Narrows for namespaces only; allowed: register it on the hosts"
    ]
    assert unsupported(groups, False, False, False) == []
