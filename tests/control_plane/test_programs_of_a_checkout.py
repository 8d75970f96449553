# SPDX-License-Identifier: Apache-2.0
"""A program that a checkout has built is refused where the sources that it is made of are others by now."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from narrows.cli import app
from narrows.cli.doctor import findings
from narrows.errors import InputError
from narrows_formats import programs
from narrows_formats.programs import BINARIES_VARIABLE, COLLECTOR, COMPARED_VARIABLE, SOFTSWITCH, find_binary
from typer.testing import CliRunner

SOURCE, SPACED, DIRECTORY = "softswitch/server/src/main.rs", "a space/lib.rs", "softswitch/proto"
BUILT_NS = 1_700_000_000_123_456_789
EXPERIMENT = """
name: outdated
bottleneck: {rate: 10Mbit, buffer: 1bdp, rtt: 10ms}
flows: [{cca: cubic, duration: 1s}]
"""


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One with programs that are a nanosecond younger than their sources, one of which is named as cargo does."""
    place = tmp_path / "checkout"
    release = place / "target" / "release"
    release.mkdir(parents=True)
    sources = [place / SOURCE, place / SPACED, place / DIRECTORY / "a" / "messages.proto"]
    for source in sources:
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text("source")
    named = " ".join(
        str(one).replace(" ", "\\ ") for one in (place / "softswitch/proto/../server/src/main.rs", place / SPACED)
    )
    for name in (SOFTSWITCH, COLLECTOR):
        (release / name).write_text("#!/bin/sh\n")
        (release / name).chmod(0o755)
        (release / f"{name}.d").write_text(f"{release / name}: {named} {place / DIRECTORY}\n")
        changed(release / name, BUILT_NS)
    for source in (*sources, place / DIRECTORY / "a", place / DIRECTORY):
        changed(source, BUILT_NS - 1)
    monkeypatch.setattr(programs, "_CHECKOUT", place)
    monkeypatch.delenv(BINARIES_VARIABLE, raising=False)
    return place


def changed(path: Path, when_ns: int) -> None:
    os.utime(path, ns=(when_ns, when_ns))


def said(checkout: Path, why: str) -> str:
    return f"{SOFTSWITCH}: {checkout}/target/release/{SOFTSWITCH} {why}; fix: make setup"


def test_one_that_is_younger_than_its_sources_or_as_old_is_found(checkout: Path) -> None:
    program = checkout / "target" / "release" / SOFTSWITCH
    assert find_binary(SOFTSWITCH) == program
    programs._outdated.cache_clear()
    changed(checkout / SOURCE, BUILT_NS)
    assert find_binary(SOFTSWITCH) == program


@pytest.mark.parametrize(
    ("newer", "shown"), [(SOURCE, SOURCE), (SPACED, SPACED), (f"{DIRECTORY}/a/messages.proto", DIRECTORY)]
)
def test_one_that_is_older_than_a_source_is_refused(newer: str, shown: str, checkout: Path) -> None:
    changed(checkout / newer, BUILT_NS + 1)
    assert find_binary(SOFTSWITCH) is None
    assert programs.missing_binary(SOFTSWITCH) == said(checkout, f"is older than {shown}")


def test_one_whose_source_is_gone_is_refused(checkout: Path) -> None:
    (checkout / SPACED).unlink()
    assert find_binary(SOFTSWITCH) is None
    assert programs.missing_binary(SOFTSWITCH) == said(checkout, f"is made of {SPACED}, which is gone")


def test_one_without_a_list_of_its_sources_is_found(checkout: Path) -> None:
    """Such as a wheel's, or one that was taken as it is (NARROWS_PROGRAMS)."""
    program = checkout / "target" / "release" / SOFTSWITCH
    program.with_name(f"{SOFTSWITCH}.d").unlink()
    changed(checkout / SOURCE, BUILT_NS + 1)
    assert find_binary(SOFTSWITCH) == program


def test_another_checkouts_is_refused_as_well(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "_CHECKOUT", checkout / "none")
    monkeypatch.setenv(BINARIES_VARIABLE, str(checkout / "target" / "release"))
    changed(checkout / SOURCE, BUILT_NS + 1)
    assert find_binary(SOFTSWITCH) is None


def test_a_process_goes_on_with_what_it_began(checkout: Path) -> None:
    assert find_binary(SOFTSWITCH)
    changed(checkout / SOURCE, BUILT_NS + 1)
    assert find_binary(SOFTSWITCH)


def test_a_guest_goes_on_with_what_began_outside(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed(checkout / SOURCE, BUILT_NS + 1)
    monkeypatch.setenv(COMPARED_VARIABLE, "yes")
    assert find_binary(SOFTSWITCH)


def test_a_run_is_refused_before_anything_is_made(checkout: Path, tmp_path: Path) -> None:
    changed(checkout / SOURCE, BUILT_NS + 1)
    (tmp_path / "outdated.yaml").write_text(EXPERIMENT)
    done = CliRunner().invoke(app, ["run", str(tmp_path / "outdated.yaml"), "--out", str(tmp_path / "out")])
    assert isinstance(done.exception, InputError) and done.exception.exit_code == 2
    assert str(done.exception).count(said(checkout, f"is older than {SOURCE}")) == 1
    assert not (tmp_path / "out").exists()


def test_the_doctor_says_it(checkout: Path) -> None:
    changed(checkout / SOURCE, BUILT_NS + 1)
    problems = {(one.subject, one.found): one.problem for one in findings()}
    assert problems["target", "soft"] == said(checkout, f"is older than {SOURCE}")
    assert problems["collector", COLLECTOR].startswith(f"{COLLECTOR}: {checkout}/target/release/{COLLECTOR} is older")
