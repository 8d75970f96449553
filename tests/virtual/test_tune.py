# SPDX-License-Identifier: Apache-2.0
"""``narrows tune``: variants of a congestion control in C, and which of them is best."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from command import Narrows
from narrows.virtual import kernels
from narrows.virtual.variants import constants, variants
from test_own_cca import MSS, NARROWS, RATE_BPS, RTT_S, source

distributed: Any = importlib.import_module("distributed")
GOLDEN = Path(__file__).parent / "golden" / "tune.txt"
NAME = "test-tune"
CONSTANT = "#define WINDOW 10 /* segments */\n" + source("fixed", "tcp_sk(sk)->snd_cwnd = WINDOW;")
PARAMETER = (
    "static unsigned int window __read_mostly = 10;\n"
    + source("a_long_name_of", "tcp_sk(sk)->snd_cwnd = window;")
    + "module_param(window, uint, 0644);\n"
)
EXPERIMENT = """\
name: tuned
bottleneck: {rate: 100Mbit, buffer: 1MB, rtt: 20ms}
hosts: {jitter: 0s}
flows: [{cca: reno, duration: 1s}, {name: sends, udp: {rate: 1Mbit}, duration: 1s}]
"""
# A fixed window of W full-size frames of 1514 bytes each RTT takes W x 0.6 % of the link, and `sends` 1 %.
SUITE = """\
title: t
ccas: [reno]
documents: {d: {title: D, url: "https://example.org/{section}", sections: {"1": One}}}
cases:
  busy: {tests: [d#1], says: x, rule: y, sweep: {bottleneck.buffer: [1MB, 2MB]}}
  calm: {tests: [d#1], says: x, rule: y}
  renos: {tests: [d#1], says: x, rule: y, ccas: [reno]}
"""
EXPECTED = {"busy": "> 9%", "calm": "< 20%", "renos": "> 3%"}
COMMANDS = (
    "tune x.yaml --cca none.c",
    "tune x.yaml --cca constant.c",
    "tune x.yaml --cca constant.c --cca constant.c",
    "tune x.yaml --cca constant.c --cca two.c",
    "tune x.yaml --cca constant.c --vary WINDOW",
    "tune x.yaml --cca constant.c --vary WINDOW=1,1",
    "tune x.yaml --cca constant.c --vary BETA=1,2",
    "tune x.yaml --cca parameter.c --vary skb=1,2",
    "tune x.yaml --cca constant.c --vary WINDOW=1,2 --by fame",
    "tune x.yaml --cca constant.c --vary WINDOW=1,2 --group bbr",
    "tune x.yaml --cca constant.c --vary WINDOW=1,2 --group sends",
    "tune none.yaml --cca constant.c --vary WINDOW=1,2",
    "tune x.yaml --cca constant.c --vary WINDOW=1,2 --cluster localhost:1 --jobs 2",
    "tune x.yaml --cca constant.c --vary WINDOW=1,2 --base none",
    "tune x.yaml --cca constant.c --vary WINDOW=1,2 --quick",
    "tune x.yaml --cca constant.c --vary WINDOW=1,2 --like reno",
    "tune mine --cca constant.c --vary WINDOW=1,2",
    "tune ./none --cca constant.c --vary WINDOW=1,2",
    "tune ./mine --cca constant.c --vary WINDOW=1,2 --by goodput_bps",
    "tune ./mine --cca constant.c --vary WINDOW=1,2 --set bottleneck.rate=1Mbit",
    "tune ./mine --cca constant.c --vary WINDOW=1,2 --case busi",
    "tune ./mine --cca constant.c --vary WINDOW=1,2 --case renos",
    "tune ./mine --cca constant.c --vary WINDOW=1,2 --like renno",
    "tune ./mine --cca constant.c --vary WINDOW=1,2 --case calm --like reno",
    "tune ./mine --cca constant.c --vary WINDOW=1,2 --base none",
)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with an experiment, a suite and C files."""
    for name, text in (
        ("x.yaml", EXPERIMENT),
        ("constant.c", CONSTANT),
        ("parameter.c", PARAMETER),
        ("two.c", CONSTANT + CONSTANT),
        ("oopses.c", source("oopses", "*(volatile u32 *)8 = ack;")),
    ):
        (tmp_path / name).write_text(text)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "suite.yaml").write_text(SUITE)
    for case, bound in EXPECTED.items():
        text = EXPERIMENT.replace("{cca: reno,", "{name: tested, cca: reno,")
        (tmp_path / "mine" / f"{case}.yaml").write_text(f"{text}expect: ['bottleneck.utilization {bound}']\n")
    return tmp_path


def run(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "200"}
    return subprocess.run([*NARROWS, *words], cwd=place, capture_output=True, text=True, env=environment)


@pytest.fixture
def one_kernel(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache with the default kernel only, whatever this machine has built, or a test that was killed has left."""
    cache = tmp_path_factory.mktemp("cache")
    shutil.copytree(kernels.installed()[0].path.parent, cache / "narrows" / "kernels" / kernels.DEFAULT)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))


@pytest.mark.needs("guest-kernel")
@pytest.mark.usefixtures("one_kernel")
def test_errors_name_the_option_and_what_is_allowed(
    place: Path, narrows: Narrows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """UPDATE_GOLDEN=1 writes the file anew."""
    monkeypatch.chdir(place)
    before = sorted(place.iterdir())
    said = ""
    for command in COMMANDS:
        ended = narrows(*command.split())
        assert ended.returncode == 2 and not ended.stdout, command
        said += f"$ narrows {command}\n{ended.stderr.replace(str(place), '.')}"
    assert sorted(place.iterdir()) == before
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(said)
    assert said == GOLDEN.read_text()


@pytest.mark.needs("guest-kernel")
@pytest.mark.usefixtures("one_kernel")
def test_a_cluster_that_does_not_answer_is_refused_before_a_kernel_is_built(place: Path) -> None:
    before = sorted(place.iterdir())
    words = "tune x.yaml --cca constant.c --vary WINDOW=1,2 --cluster 127.0.0.1:1 --out out --name"
    ended = run(place, *words.split(), NAME)
    assert ended.returncode == 2 and "allowed: HOST:PORT of a Dask scheduler" in ended.stderr
    assert sorted(place.iterdir()) == before
    assert NAME not in {kernel.name for kernel in kernels.installed()}


def test_each_combination_is_a_file_and_a_name_of_its_own(place: Path) -> None:
    found = variants([place / "parameter.c"], constants(["window=5,6"]))
    # A name has 15 characters in the kernel.
    assert [one.cca for one in found] == ["a_long_name_1", "a_long_name_2"]
    assert [one.label for one in found] == ["parameter.c window=5", "parameter.c window=6"]
    assert [one.file for one in found] == ["parameter_1.c", "parameter_2.c"]
    first, text = found[0].text.split("\n", 1)
    assert first == f'#line 1 "{place / "parameter.c"}"'
    assert text == PARAMETER.replace("= 10;", "= 5;").replace("a_long_name_of", "a_long_name_1")
    both = variants([place / "constant.c"], constants(["WINDOW=(1 + 2),4"]))
    assert "#define WINDOW (1 + 2) /* segments */\n" in both[0].text


@pytest.mark.long
@pytest.mark.needs("guest-kernel", "kernel-objects", "narrows-softswitch", "narrows-collector", "ip")
def test_the_larger_window_is_best_and_one_that_fails_is_last(place: Path) -> None:
    words = ["tune", "x.yaml", "--cca", "constant.c", "--vary", "WINDOW=10,20", "--repeat", "2", "--out", "out"]
    words += ["--name", NAME, "--by", "goodput_bps", "--by", "queue_delay_mean_s", "--json", "--jobs", "1"]
    try:
        ended = run(place, *words)
        assert ended.returncode == 0, ended.stderr
        first, second = json.loads(ended.stdout)
        assert [first["variant"], second["variant"]] == ["constant.c WINDOW=20", "constant.c WINDOW=10"]
        assert first["is_worse"] is None and second["is_worse"] is True
        for ranked, window in ((first, 20), (second, 10)):
            # The receiver acknowledges every other segment: an RTT, and two frames, after the first was sent.
            expected = window * MSS * 8 / (RTT_S + 2 * 1514 * 8 / RATE_BPS)
            assert ranked["goodput_bps"]["mean"] == pytest.approx(expected, rel=0.05)
            assert ranked["goodput_bps"]["n"] == 2
        image = kernels.find(NAME).path.stat().st_mtime_ns
        again = run(place, *words)
        assert again.returncode == 0 and json.loads(again.stdout) == [first, second]
        assert kernels.find(NAME).path.stat().st_mtime_ns == image, "what is there is not built again"
        # The workers have this machine's kernels; in virtual time they measure the same.
        with distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0", host="127.0.0.1"
        ) as cluster:
            shutil.rmtree(place / "out")
            elsewhere = run(place, *words[: words.index("--jobs")], "--cluster", cluster.scheduler_address)
        assert elsewhere.returncode == 0 and json.loads(elsewhere.stdout) == [first, second], elsewhere.stderr
        assert kernels.find(NAME).path.stat().st_mtime_ns == image
        failed = run(
            place, "tune", "x.yaml", "--cca", "oopses.c", "--cca", "constant.c", "--repeat", "1", "--name", NAME,
            "--json", "--out", "failed",
        )  # fmt: skip
        assert failed.returncode == 1 and "Kernel panic" in failed.stderr
        kept, lost = json.loads(failed.stdout)
        assert kept["cca"] == "fixed" and lost["cca"] == "oopses" and lost["goodput_bps"] is None
    finally:
        if NAME in {kernel.name for kernel in kernels.installed()}:
            kernels.remove(NAME)


@pytest.mark.long
@pytest.mark.needs("guest-kernel", "kernel-objects", "narrows-softswitch", "narrows-collector", "ip")
def test_variants_are_ranked_by_the_cases_of_a_suite_that_they_pass(place: Path) -> None:
    words = ["tune", "./mine", "--cca", "constant.c", "--vary", "WINDOW=10,20", "--like", "reno", "--out", "out"]
    words += ["--name", NAME, "--json"]
    try:
        ended = run(place, *words, "--jobs", "1")
        assert ended.returncode == 0, ended.stderr
        assert "6 cells, 8 runs to make" in ended.stderr
        first, second = json.loads(ended.stdout)
        assert [first["variant"], second["variant"]] == ["constant.c WINDOW=20", "constant.c WINDOW=10"]
        assert [(one["place"], one["passed"], one["judged"]) for one in (first, second)] == [(1, 3, 3), (2, 2, 3)]
        assert not first["not_passed"] and [one["case"] for one in second["not_passed"]] == ["busy"]
        assert "bottleneck.utilization" in second["not_passed"][0]["reason"]
        # Wilson's of 3 of 3 begins at n / (n + 1.96^2).
        assert first["interval"] == pytest.approx([3 / (3 + 1.959964**2), 1.0])
        for name in ("report.html", "matrix.json", f"fixed_2@{NAME}/calm/summary.json"):
            assert (place / "out" / name).is_file(), name
        again = run(place, *words, "--jobs", "1")
        assert "6 cells, 0 runs to make" in again.stderr and json.loads(again.stdout) == [first, second]
        with distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0", host="127.0.0.1"
        ) as cluster:
            shutil.rmtree(place / "out")
            elsewhere = run(place, *words, "--quick", "--cluster", cluster.scheduler_address)
        assert elsewhere.returncode == 0 and "6 cells, 6 runs to make" in elsewhere.stderr
        ranked = [(one["variant"], one["place"], one["passed"]) for one in json.loads(elsewhere.stdout)]
        assert ranked == [(one["variant"], one["place"], one["passed"]) for one in (first, second)]
        failed = run(
            place, "tune", "./mine", "--case", "calm", "--cca", "oopses.c", "--cca", "constant.c", "--name", NAME,
            "--out", "failed",
        )  # fmt: skip
        assert failed.returncode == 1 and "calm, oopses.c: not run: " in failed.stdout
        assert "Kernel panic" in failed.stdout
        rows = [line for line in failed.stdout.splitlines() if "1 of 1" in line or "0 of 0" in line]
        assert ["constant.c" in rows[0], "oopses.c" in rows[1]] == [True, True], rows
    finally:
        if NAME in {kernel.name for kernel in kernels.installed()}:
            kernels.remove(NAME)


def test_the_file_of_the_tutorial_has_what_its_command_varies(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "tutorials" / "cca-in-c.md").read_text()
    (tmp_path / "my_cca.c").write_text(page.partition("```c\n")[2].partition("```")[0])
    (vary,) = (
        word for line in page.splitlines() if "--vary" in line for word in line.split() if word.startswith("BETA=")
    )
    assert [one.cca for one in variants([tmp_path / "my_cca.c"], constants([vary]))] == [
        "my_cca_1",
        "my_cca_2",
        "my_cca_3",
    ]
