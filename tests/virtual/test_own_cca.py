# SPDX-License-Identifier: Apache-2.0
"""Users' own congestion controls, C files that are added to a guest's kernel."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from narrows.errors import InputError, RunError
from narrows.virtual import kernels, own_cca
from narrows_analysis import load

# A file as users write it: what it does on an acknowledgement, and the name that it registers.
TEXT = """\
// SPDX-License-Identifier: GPL-2.0
#include <linux/module.h>
#include <net/tcp.h>

static void avoid(struct sock *sk, u32 ack, u32 acked)
{
\t/* As much as a user has to say. */
\t%(body)s
}

static struct tcp_congestion_ops own __read_mostly = {
\t.name\t\t= "%(name)s",
\t.owner\t\t= THIS_MODULE,
\t.flags\t\t= %(flags)s,
\t.ssthresh\t= tcp_reno_ssthresh,
\t.cong_avoid\t= avoid,
\t.undo_cwnd\t= tcp_reno_undo_cwnd,
};

static int __init own_register(void)
{
\treturn tcp_register_congestion_control(&own);
}

module_init(own_register);
MODULE_LICENSE("GPL");
"""


def source(name: str, body: str, flags: str = "0") -> str:
    """A congestion control of that name, of which ``body`` is what it does at an acknowledgement."""
    return TEXT % {"name": name, "flags": flags, "body": body}


BODIES = {
    "fixed20": "tcp_sk(sk)->snd_cwnd = 20;",
    "divides": "tcp_sk(sk)->snd_cwnd = 20 / (acked - acked);",
    "hangs": "while (READ_ONCE(tcp_sk(sk)->snd_cwnd));",
    "relaxes": "while (READ_ONCE(tcp_sk(sk)->snd_cwnd)) cpu_relax();",
    "oopses": "*(volatile u32 *)8 = ack;",
    "misspelt": "tcp_sk(sk)->snd_cwnd = twenty;",
    "taken": "tcp_reno_cong_avoid(sk, ack, acked);",
    "low": "tcp_reno_cong_avoid(sk, ack, acked);",
}
NAMES = {"taken": "cubic"}
# As RFC 9331, section 4, asks of a sender.
FLAGS = {"low": "TCP_CONG_NEEDS_ECN | TCP_CONG_NEEDS_ACCECN | TCP_CONG_ECT_1_NEGOTIATION"}
NARROWS = [sys.executable, "-c", "from narrows.cli import main; main()"]
MSS, RTT_S, RATE_BPS = 1448, 0.02, 100_000_000
EXPERIMENT = """\
name: own-cca
bottleneck: {{rate: 100Mbit, buffer: 1MB, rtt: 20ms, queue: {queue}}}
hosts: {{jitter: 0s}}
flows: [{{name: own, cca: {cca}, duration: 3s}}]
"""
pytestmark = [
    pytest.mark.long,
    pytest.mark.needs("guest-kernel", "kernel-objects", "narrows-softswitch", "narrows-collector", "ip"),
]
Build = Callable[..., str]


@pytest.fixture
def ccas(tmp_path: Path) -> Path:
    """A directory with a C file for each of `BODIES`."""
    place = tmp_path / "ccas"
    place.mkdir()
    for name, body in BODIES.items():
        (place / f"{name}.c").write_text(source(NAMES.get(name, name), body, FLAGS.get(name, "0")))
    return place


@pytest.fixture
def build(ccas: Path) -> Iterator[Build]:
    """Builds a kernel with some of `BODIES` under a name of its own; returns the name."""
    names: list[str] = []

    def make(*chosen: str) -> str:
        name = f"test-own-{'-'.join(chosen)}"
        names.append(name)
        own_cca.add([ccas / f"{cca}.c" for cca in chosen], kernels.DEFAULT, name, 2, lambda _text: None)
        return name

    yield make
    built = {kernel.name for kernel in kernels.installed()}
    for name in built.intersection(names):
        kernels.remove(name)


def run(place: Path, kernel: str, cca: str, queue: str = "tail-drop") -> subprocess.CompletedProcess[str]:
    (place / "x.yaml").write_text(EXPERIMENT.format(cca=cca, queue=queue))
    return subprocess.run(
        [*NARROWS, "run", "x.yaml", "--virtual", "--kernel", kernel, "--out", f"out-{cca}"],
        cwd=place, capture_output=True, text=True,
    )  # fmt: skip


def test_a_window_of_twenty_segments_carries_twenty_segments_an_rtt(tmp_path: Path, build: Build) -> None:
    kernel = build("fixed20")
    assert run(tmp_path, kernel, "fixed20").returncode == 0
    summary = load(tmp_path / "out-fixed20").summary
    # The receiver acknowledges every other segment: an RTT, and the time of two frames, after the first was sent.
    expected = 20 * MSS * 8 / (RTT_S + 2 * 1514 * 8 / RATE_BPS)
    assert summary["groups"][0]["goodput_bps"] == pytest.approx(expected, rel=0.01)
    assert kernels.config_digest(kernels.find(kernel)) != kernels.config_digest(kernels.find(kernels.DEFAULT))


def test_a_congestion_control_that_asks_for_ect_1_has_it_in_its_data(tmp_path: Path, build: Build) -> None:
    """So its packets are in DualPI2's low-latency queue, and marked; a reset at the end has no codepoint."""
    assert run(tmp_path, build("low"), "low", "dualpi2").returncode == 0
    classic, low = load(tmp_path / "out-low").summary["bottleneck"]["queues"]
    assert low["departures"] > 10_000 and classic["departures"] < 100 and low["ce_marks"] > 0
    (connection,) = (tmp_path / "out-low" / "hosts").glob("own*.json")
    assert json.loads(connection.read_text())["ecn"] == "accurate"


@pytest.mark.parametrize(
    ("cca", "said"),
    [
        ("divides", "Kernel panic"),
        ("oopses", "Kernel panic"),
        ("hangs", "the guest's kernel loops"),
        ("relaxes", "the guest's kernel loops"),
    ],
)
def test_a_fault_ends_its_run_by_name_and_the_next_run_goes_on(
    cca: str, said: str, tmp_path: Path, build: Build
) -> None:
    kernel = build(cca, "fixed20")
    failed = run(tmp_path, kernel, cca)
    assert failed.returncode == 1 and said in failed.stderr + failed.stdout
    assert run(tmp_path, kernel, "fixed20").returncode == 0


def test_the_compilers_errors_have_the_lines_of_the_file(build: Build) -> None:
    with pytest.raises(RunError, match=r"ccas/misspelt\.c:8:\d+: error: .*twenty"):
        build("misspelt")
    # What is left of it keeps nobody from the next build.
    build("fixed20")


def test_a_name_that_is_taken_is_refused(build: Build) -> None:
    with pytest.raises(InputError, match=r"taken\.c: registers 'cubic', which kernel default has already"):
        build("taken")


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (["nothing.c"], r"nothing\.c: is no file"),
        (["fixed20.c", "fixed20.c"], "two files have one name"),
        (["../test_own_cca.py"], "is not a C file's name"),
    ],
)
def test_what_is_no_file_is_refused(files: list[str], said: str, ccas: Path) -> None:
    with pytest.raises(InputError, match=said):
        own_cca.add([ccas / file for file in files], kernels.DEFAULT, "test-own", 2, lambda _text: None)


def test_a_kernel_without_objects_is_refused(ccas: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    default = kernels.find(kernels.DEFAULT)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    place = kernels.directory(kernels.DEFAULT)
    place.mkdir(parents=True)
    (place / kernels.IMAGE).symlink_to(default.path)
    with pytest.raises(InputError, match=r"--base default: its objects were not kept.*; fix: narrows kernel build"):
        own_cca.add([ccas / "fixed20.c"], kernels.DEFAULT, "test-own", 2, lambda _text: None)
