# SPDX-License-Identifier: Apache-2.0
"""scripts/programs.py: programs that were compiled elsewhere are taken where they fit, and nothing else is."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tarfile
from pathlib import Path
from types import ModuleType

import pytest
from script_modules import load_script

SCRIPT = Path(__file__).parents[1] / "scripts" / "programs.py"


@pytest.fixture
def programs(tmp_path: Path) -> ModuleType:
    """The script in a checkout of its own, with the programs that it would build."""
    checkout = tmp_path / "checkout"
    (checkout / "scripts").mkdir(parents=True)
    shutil.copy(SCRIPT, checkout / "scripts")
    for name in ("Cargo.lock", "captures/src/lib.rs", "softswitch/proto/narrows.proto"):
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).write_text("source")
    (checkout / "Cargo.toml").write_text('[workspace]\nmembers = ["captures", "softswitch/proto"]\n')
    module = load_script(checkout / "scripts" / "programs.py")
    (checkout / "build").mkdir()
    for name in module.PROGRAMS:
        (checkout / "build" / name).write_text(f"#!/bin/sh\necho {name} 0\n")
        (checkout / "build" / name).chmod(0o755)
    return module


def packed(programs: ModuleType) -> tuple[str, str]:
    archive = programs.ROOT / "programs.tar.gz"
    assert programs.main(["pack", str(programs.ROOT / "build"), str(archive)]) == 0
    return str(archive), hashlib.sha256(archive.read_bytes()).hexdigest()


def taken(programs: ModuleType) -> list[str]:
    target = programs.ROOT / "target" / "release"
    return sorted(path.name for path in target.iterdir()) if target.exists() else []


def test_what_fits_is_taken(programs: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    archive, digest = packed(programs)
    assert digest in capsys.readouterr().out
    assert programs.main(["check"]) == programs.UNFIT
    target = programs.ROOT / "target" / "release"
    target.mkdir(parents=True)
    for name in programs.PROGRAMS:
        (target / f"{name}.d").write_text("of a program that cargo made here before")
    assert programs.main(["take", archive, digest.upper()]) == 0
    assert taken(programs) == sorted([programs.LABEL, *programs.PROGRAMS])
    assert programs.main(["check"]) == 0
    # A later change of the sources: set-up has to compile.
    (programs.ROOT / "captures" / "src" / "lib.rs").write_text("changed")
    assert programs.main(["check"]) == programs.UNFIT
    assert programs.main(["take", archive, digest]) == programs.UNFIT
    assert "was built from other sources" in capsys.readouterr().err


def test_another_digest_is_refused(programs: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    archive, digest = packed(programs)
    with Path(archive).open("ab") as file:
        file.write(b"x")
    assert programs.main(["take", archive, digest]) == programs.UNUSABLE
    assert programs.main(["take", archive, ""]) == programs.UNUSABLE
    assert f"not {digest}" in capsys.readouterr().err
    assert taken(programs) == []


def test_what_is_for_another_machine_or_does_not_start_is_compiled(
    programs: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(programs.platform, "machine", lambda: "s390x")
    archive, digest = packed(programs)
    monkeypatch.undo()
    assert programs.main(["take", archive, digest]) == programs.UNFIT
    assert "is for Linux s390x" in capsys.readouterr().err
    (programs.ROOT / "build" / "narrows-collector").write_text("#!/bin/sh\necho GLIBC_9 is missing >&2; exit 1\n")
    assert programs.main(["take", *packed(programs)]) == programs.UNFIT
    assert "does not start here: GLIBC_9 is missing" in capsys.readouterr().err
    assert taken(programs) == []


@pytest.mark.parametrize("content", [b"", b"no archive", "without", "link"], ids=str)
def test_what_is_no_archive_of_programs_is_refused(programs: ModuleType, content: bytes | str) -> None:
    archive = programs.ROOT / "bad.tar.gz"
    if isinstance(content, bytes):
        archive.write_bytes(content)
    else:
        with tarfile.open(archive, "w:gz") as file:
            label = tarfile.TarInfo(programs.LABEL)
            text = json.dumps(programs.label()).encode()
            label.size = len(text)
            file.addfile(label, io.BytesIO(text))
            if content == "link":
                for name in programs.PROGRAMS:
                    link = tarfile.TarInfo(name)
                    link.type, link.linkname = tarfile.SYMTYPE, "/bin/true"
                    file.addfile(link)
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    assert programs.main(["take", str(archive), digest]) == programs.UNUSABLE
    assert programs.main(["take", str(programs.ROOT / "none"), digest]) == programs.UNUSABLE
    assert programs.main(["take", str(archive)]) == programs.UNUSABLE
    assert taken(programs) == []
