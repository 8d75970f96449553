# SPDX-License-Identifier: Apache-2.0
"""Options of ``narrows study`` that do not go together."""

from __future__ import annotations

from pathlib import Path

import pytest
from narrows.cli import app
from narrows.errors import EXIT_BAD_INPUT, InputError
from typer.testing import CliRunner


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--controls", "--quick"], "--controls: together with --quick or --figure; allowed: alone"),
        (["--real-time", "--cluster", "here:1"], "--cluster: --real-time needs machines of its own"),
        (["--real-time", "--kernel", "bbr3"], "--kernel bbr3: --real-time has the running kernel's hosts"),
        (["--real-time", "--jobs", "10000"], "--jobs 10000: with --real-time runs disturb one another; allowed: 1 to "),
        (["--target", "tofino", "--jobs", "10000"], "--jobs 10000: with --target tofino runs disturb one another"),
        (["--format", "bmp"], "--format: format bmp: is not known; allowed: csv, tex, png, svg, pdf, pgf"),
        (["--kernel", "no-such"], "--kernel no-such: no such kernel is built"),
        (["--target", "bmv2", "--kernel", "no-such"], "--kernel no-such: no such kernel is built"),
        (["--only", "rate=1Gbit"], "--only rate=1Gbit: no point has a field 'rate'; allowed: bottleneck.rate, bottl"),
        (["--only", "bottleneck.rate=2Gbit"], "no point has that value; allowed: 1Gbit, 10Gbit"),
        (["--only", "flows.all.cca=bbr", "--only", "flows.*.count=1"], "flows.*.count=1: no point meets all of these"),
        (["--add", "none.json"], "--add none.json: is not a study's results"),
        ([], "no kernel for virtual time is built; fix: narrows kernel build, or run with --real-time"),
    ],
)
def test_bad_options_are_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(InputError) as refused:
        CliRunner().invoke(app, ["study", "hock2017", *options], catch_exceptions=False)
    assert said in str(refused.value)
    assert refused.value.exit_code == EXIT_BAD_INPUT
    assert not (tmp_path / "results").exists()
