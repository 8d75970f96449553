# SPDX-License-Identifier: Apache-2.0
"""Error messages are an interface: golden/NAME.txt is what ``narrows run golden/NAME.yaml`` says.

Those whose names begin with ``bmv2-`` are run with ``--target bmv2``.

UPDATE_GOLDEN=1 writes the files anew; read the difference before you commit it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from command import Narrows
from narrows.errors import EXIT_BAD_INPUT
from narrows.hosts import machine, state

GOLDEN = Path(__file__).parent / "golden"
CASES = sorted(GOLDEN.glob("*.yaml"))


@pytest.fixture
def narrows(narrows: Narrows, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Narrows:
    """The command in an empty directory, on a machine whose algorithms are known and where no run was killed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(machine, "kernel_ccas", lambda: ["reno", "cubic", "bbr"])
    monkeypatch.setattr(machine, "cca_modules", lambda: ["dctcp"])
    monkeypatch.setattr(state, "dead_runs", lambda _: [])
    return narrows


@pytest.mark.parametrize("case", CASES, ids=[case.stem for case in CASES])
def test_a_bad_experiment_has_its_golden_message(case: Path, tmp_path: Path, narrows: Narrows) -> None:
    (tmp_path / case.name).write_text(case.read_text())
    target = "bmv2" if case.name.startswith("bmv2-") else "soft"
    result = narrows("run", case.name, "--target", target)
    assert result.returncode == EXIT_BAD_INPUT
    assert result.stdout == ""
    # What the machine lacks (a build, root) is not the file's fault and not this test's matter.
    said = "".join(line + "\n" for line in result.stderr.splitlines() if f"{case.name}:" in line)
    expected = case.with_suffix(".txt")
    if os.environ.get("UPDATE_GOLDEN"):
        expected.write_text(said)
    assert said == expected.read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == [case.name], "a refused experiment creates nothing"


def test_there_are_cases() -> None:
    assert len(CASES) >= 12


def test_a_missing_file_is_named(narrows: Narrows) -> None:
    result = narrows("run", "none.yaml")
    assert (result.returncode, result.stderr) == (2, "narrows: none.yaml: cannot be read: No such file or directory\n")


def test_an_unknown_target_is_answered_with_the_nearest(tmp_path: Path, narrows: Narrows) -> None:
    (tmp_path / "x.yaml").write_text("")
    result = narrows("run", "x.yaml", "--target", "sft")
    assert result.returncode == EXIT_BAD_INPUT
    assert result.stderr.startswith("narrows: --target sft: no such target, did you mean 'soft'? allowed: soft")


def test_a_switch_of_a_lab_has_no_virtual_time(tmp_path: Path, narrows: Narrows) -> None:
    result = narrows("run", "x.yaml", "--virtual", "--target", "tofino", "--inventory", "lab.yaml")
    assert result.returncode == EXIT_BAD_INPUT
    said = "narrows: --virtual: --target tofino runs in real time only; allowed: with --target soft or bmv2"
    assert result.stderr.startswith(said)


def test_a_missing_tool_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "the command 'setpriv' is missing; fix: apt-get install util-linux" in machine.missing_tools()


def test_unknown_cca_lists_what_the_kernel_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "kernel_ccas", lambda: ["reno", "cubic"])
    monkeypatch.setattr(machine, "cca_modules", lambda: ["bbr"])
    assert machine.missing_cca("cubic") == ""
    assert machine.missing_cca("bbr3") == (
        "'bbr3' is not in this kernel; allowed: reno, cubic; fix: --virtual, with a kernel that has it "
        "(narrows kernel list)"
    )
    assert machine.missing_cca("external") == (
        "'external' is not in this kernel; allowed: reno, cubic; fix: --virtual, or give it to this kernel by BPF "
        "or as a module (docs/controllers.md, In real time)"
    )
    assert machine.missing_cca("bbr") == "'bbr' is not in this kernel; allowed: reno, cubic; fix: modprobe tcp_bbr"


def test_bmv2_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, narrows: Narrows) -> None:
    page = "https://github.com/p4lang/behavioral-model#installing-bmv2"
    fix = f"; fix: install BMv2, see {page}, or name it by --bmv2-path or $NARROWS_BMV2"
    text = (GOLDEN / "unknown-cca.yaml").read_text().replace("vegas", "cubic")
    (tmp_path / "x.yaml").write_text(text)
    result = narrows("run", "x.yaml", "--target", "bmv2", "--bmv2-path", "nowhere")
    assert result.returncode == EXIT_BAD_INPUT
    assert f"narrows: --bmv2-path nowhere: no executable simple_switch_grpc there{fix}\n" in result.stderr
    monkeypatch.setenv("NARROWS_BMV2", "/nowhere")
    result = narrows("run", "x.yaml", "--target", "bmv2")
    assert f"narrows: $NARROWS_BMV2 is /nowhere: no executable simple_switch_grpc there{fix}\n" in result.stderr
    monkeypatch.delenv("NARROWS_BMV2")
    monkeypatch.setenv("PATH", str(tmp_path))
    result = narrows("run", "x.yaml", "--target", "bmv2")
    assert f"narrows: simple_switch_grpc is not on PATH{fix}\n" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["x.yaml"], "nothing is created"


def test_bmv2_path_is_for_bmv2(tmp_path: Path, narrows: Narrows) -> None:
    (tmp_path / "x.yaml").write_text("")
    result = narrows("run", "x.yaml", "--bmv2-path", "/opt/bmv2")
    assert result.returncode == EXIT_BAD_INPUT
    said = "--bmv2-path /opt/bmv2: --target soft does not run BMv2; allowed: with --target bmv2"
    assert result.stderr == f"narrows: {said}\n"


@pytest.mark.parametrize("command", [("test", "one.yaml", "--virtual"), ("suite", "run", "rfc9743")])
@pytest.mark.parametrize("place", ["missing/junit.xml", ".", "/dev/stdout", "/dev/null"])
def test_a_file_that_cannot_be_written_is_refused_before_any_run(
    tmp_path: Path, narrows: Narrows, command: tuple[str, ...], place: str
) -> None:
    said = narrows(*command, "--junit", place)
    assert said.returncode == EXIT_BAD_INPUT and list(tmp_path.iterdir()) == []
    assert said.stderr == (
        f"narrows: --junit {place}: cannot be written; allowed: a file in a directory that exists, and may be\n"
    )
