# SPDX-License-Identifier: Apache-2.0
"""What every command's help ends with: commands as they are written, which the tests try."""

from __future__ import annotations

_EXAMPLES: dict[str, tuple[str, ...]] = {
    "analyze": ("narrows analyze results/demo",),
    "benchmark": ("narrows benchmark",),
    "calibrate": ("narrows calibrate --inventory lab.yaml",),
    "check": ("narrows check experiments/demo.yaml --virtual", "narrows check first.yaml --set bottleneck.rate=50Mbit"),
    "clean": ("sudo .venv/bin/narrows clean",),
    "collect": ("narrows collect --interface eth1 --out reports",),
    "compare": (
        "narrows compare results/demo results/tofino",
        "narrows compare results/bbrv1 results/bbrv3 --out results/bbrv1-bbrv3 --format pdf",
    ),
    "doctor": ("narrows doctor", "narrows doctor --target tofino --inventory lab.yaml"),
    "export": ("narrows export results/demo --csv tables", "narrows export results/demo --pcapng demo.pcapng"),
    "kernel build": (
        "narrows kernel build --source bbr --name bbr3",
        "narrows kernel build --cca tcp_prague.c --name prague",
    ),
    "kernel list": ("narrows kernel list",),
    "kernel remove": ("narrows kernel remove bbr3",),
    "new": ("narrows new first.yaml",),
    "pack": ("narrows pack results/demo --out demo.tar.gz",),
    "plan": (
        "narrows plan experiments/demo.yaml --target tofino",
        "narrows plan experiments/demo.yaml --inventory lab.yaml",
    ),
    "report": ("narrows report results/demo",),
    "run": (
        "sudo .venv/bin/narrows run first.yaml",
        "narrows run experiments/demo.yaml --virtual",
        "narrows run bbrv3.yaml --virtual --kernel bbr3 --out results/bbrv3",
    ),
    "runs": ("narrows runs",),
    "schema": ("narrows schema",),
    "shell": ("sudo .venv/bin/narrows shell --rate 10Mbit --rtt 80ms --nat -- curl -o /dev/null https://www.kernel.org/",),
    "suite compare": ("narrows suite compare results/suites/before results/suites/after",),
    "suite list": ("narrows suite list",),
    "suite run": (
        "narrows suite run bbr-draft --quick --cca bbr --kernel bbr3",
        "narrows suite run tcp-regression --junit junit.xml",
    ),
    "suite show": ("narrows suite show bbr-draft",),
    "test": ("narrows test experiments/guard/cubic.yaml --virtual --junit junit.xml",),
    "tune": (
        "narrows tune first.yaml --cca a.c --cca b.c",
        "narrows tune first.yaml --cca my_cca.c --vary BETA=512,717,900 --by queue_delay_p99_s --repeat 5",
        "narrows tune tcp-regression --like reno --quick --cca my_cca.c --vary BETA=512,717,900",
    ),
}  # fmt: skip


def examples_of(command: str) -> str:
    """The end of a command's help."""
    return examples(*_EXAMPLES[command])


def examples(*commands: str) -> str:
    """Commands as the end of a help; the lines are left as they are (``\\b``)."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in commands)
