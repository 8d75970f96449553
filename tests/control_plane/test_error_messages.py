# SPDX-License-Identifier: Apache-2.0
"""Error messages are an interface: golden/NAME.txt is what ``narrows run golden/NAME.yaml`` says.

UPDATE_GOLDEN=1 writes the files anew; read the difference before you commit it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from narrows import machine
from narrows.errors import EXIT_BAD_INPUT

GOLDEN = Path(__file__).parent / "golden"
CASES = sorted(GOLDEN.glob("*.yaml"))
# Stands in for the command, with a kernel whose algorithms are known.
PROGRAM = """
import sys
from narrows import cli, machine
machine.kernel_ccas = lambda: ["reno", "cubic", "bbr"]
machine.cca_modules = lambda: ["dctcp"]
machine.missing_tools = lambda: []
sys.argv = ["narrows", *sys.argv[1:]]
cli.main()
"""


def narrows(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM, *arguments]
    environment = {**os.environ, "COLUMNS": "200", "NARROWS_BIN": str(directory)}
    return subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("case", CASES, ids=[case.stem for case in CASES])
def test_golden(case: Path, tmp_path: Path) -> None:
    (tmp_path / case.name).write_text(case.read_text())
    result = narrows(tmp_path, "run", case.name)
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


def test_missing_file(tmp_path: Path) -> None:
    result = narrows(tmp_path, "run", "none.yaml")
    assert (result.returncode, result.stderr) == (2, "narrows: none.yaml: cannot be read: No such file or directory\n")


def test_unknown_target(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("")
    result = narrows(tmp_path, "run", "x.yaml", "--target", "sft")
    assert result.returncode == EXIT_BAD_INPUT
    assert result.stderr.startswith("narrows: --target sft: no such target; allowed: soft")


def test_missing_tool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "the command 'iperf3' is missing; fix: apt-get install iperf3" in machine.missing_tools()


def test_unknown_cca_lists_what_the_kernel_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "kernel_ccas", lambda: ["reno", "cubic"])
    monkeypatch.setattr(machine, "cca_modules", lambda: ["bbr"])
    assert machine.missing_cca("cubic") == ""
    assert machine.missing_cca("bbr3") == "'bbr3' is not in this kernel; allowed: reno, cubic"
    assert machine.missing_cca("bbr") == "'bbr' is not in this kernel; allowed: reno, cubic; fix: modprobe tcp_bbr"
