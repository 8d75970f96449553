# SPDX-License-Identifier: Apache-2.0
"""Congestion controls of other trees, whose files are changed for mainline's Linux."""

from __future__ import annotations

from pathlib import Path

import pytest
from narrows.errors import InputError
from narrows.virtual.ports import HEADER, PORTS, port

(PRAGUE,) = PORTS
# No more of that file than what is changed in it.
TEXT = "first line\n" + "\n".join(found.strip("\n") + "\n" for found, _ in PRAGUE.edits) + "last line\n"
FILE = Path("mine.c")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A kernel's source, which has accurate ECN."""
    (tmp_path / HEADER).parent.mkdir(parents=True)
    (tmp_path / HEADER).write_text(f"#define {PRAGUE.needs} 8\n")
    return tmp_path


def changed(text: str, tree: Path) -> tuple[str, list[str]]:
    said: list[str] = []
    return port(FILE, text, tree, said.append), said


def test_a_file_of_another_tree_is_changed_and_keeps_its_lines(tree: Path) -> None:
    text, said = changed(TEXT, tree)
    for found, becomes in PRAGUE.edits:
        assert becomes in text and (found in becomes or found not in text)
    lines = text.splitlines()
    assert lines.index("last line") == TEXT.splitlines().index("last line")
    # What it shows of itself is left out, and nothing else.
    assert lines.index("#if 0") == lines.index("static size_t prague_get_info(") - 1
    assert lines.index("#endif") == lines.index("static void prague_release(") - 1
    assert said == ["mine.c: TCP Prague, changed for mainline's Linux"]


def test_other_files_stay_as_they_are(tree: Path) -> None:
    assert changed("static u32 mine(struct sock *sk);\n", tree) == ("static u32 mine(struct sock *sk);\n", [])


def test_its_own_tree_takes_it_as_it_is(tree: Path) -> None:
    (tree / HEADER).write_text(f"#define {PRAGUE.mark} 8\n")
    assert changed(TEXT, tree) == (TEXT, [])


@pytest.mark.parametrize("found", [found for found, _ in PRAGUE.edits if found != PRAGUE.mark])
def test_a_version_in_which_a_text_is_missing_is_refused(found: str, tree: Path) -> None:
    with pytest.raises(InputError, match=r"--cca mine\.c: this TCP Prague cannot be .*; allowed: tcp_prague\.c of "):
        changed(TEXT.replace(found.strip("\n"), ""), tree)


def test_a_kernel_without_accurate_ecn_is_refused(tree: Path) -> None:
    (tree / HEADER).write_text("#define TCP_CONG_NEEDS_ECN 2\n")
    with pytest.raises(InputError, match=r"needs TCP_CONG_ECT_1_NEGOTIATION; allowed: --base with Linux 7\.0"):
        changed(TEXT, tree)
