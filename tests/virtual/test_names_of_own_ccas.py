# SPDX-License-Identifier: Apache-2.0
"""A C file whose congestion control a kernel has already is refused before anything is compiled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from narrows.errors import InputError
from narrows.virtual import build, kernels, own_cca
from narrows.virtual.kernels import About, Kernel
from test_own_cca import source

HEAD = "static struct tcp_congestion_ops own __read_mostly = {"
# Text of a file, and the names that are known of it.
TEXTS = {
    "one": (source("mine", ";"), {"mine"}),
    "last": (f'{HEAD} .flags = 0, .name = "mine" }};', {"mine"}),
    "two": (source("mine", ";") + f'{HEAD} .name = "cubic", }};', {"mine", "cubic"}),
    "comment": (f'{HEAD} /* .name = "reno", */\n// .name = "bic",\n .name = "mine", }};', {"mine"}),
    "other structure": (f'static struct proto p = {{ .name = "cubic", }}; {HEAD} .name = "mine", }};', {"mine"}),
    "macro": (f"#define NAME \"mine\"\n{HEAD} .name = NAME, }};", set()),
    "parts": (f'{HEAD} .name = "cubic" "_x", }};', set()),
    "part and macro": (f'{HEAD} .name = "cubic" SUFFIX, }};', set()),
    "another is a macro": (source("cubic", ";") + f"{HEAD} .name = NAME, }};", set()),
    "no name": (f"{HEAD} .flags = 0, }};", set()),
    "none": ("int x;", set()),
}  # fmt: skip


class Compiled(Exception):
    """The workshop was entered."""


@pytest.fixture(autouse=True)
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has CUBIC and Reno, and is known to."""
    known = About("7.3", "0", "0", ("reno", "cubic"), {}, 1, 1)

    @contextmanager
    def enter(_: str) -> Iterator[Path]:
        raise Compiled
        yield tmp_path

    monkeypatch.setattr(build, "problems", list)
    monkeypatch.setattr(build, "in_workshop", enter)
    monkeypatch.setattr(own_cca, "find", lambda name: Kernel(name, tmp_path / "linux"))
    monkeypatch.setattr(own_cca, "about", lambda _: known)


def add(*files: Path) -> None:
    own_cca.add(files, kernels.DEFAULT, "test-names", 1, lambda _: None)


def written(file: Path, text: str) -> Path:
    file.write_text(text)
    return file


@pytest.mark.parametrize(("text", "names"), TEXTS.values(), ids=TEXTS)
def test_names_are_those_that_the_text_says(text: str, names: set[str]) -> None:
    assert own_cca.registered(text) == names


def test_a_name_that_the_kernel_has_is_refused(tmp_path: Path) -> None:
    mine = written(tmp_path / "mine.c", source("mine", ";"))
    taken = written(tmp_path / "cubic_x.c", source("cubic", ";"))
    with pytest.raises(InputError) as refused:
        add(mine, taken)
    expected = "--cca cubic_x.c: registers 'cubic', which kernel default has already; allowed: another .name"
    assert (str(refused.value), refused.value.exit_code) == (expected, 2)


@pytest.mark.parametrize("name", ["one", "two", "macro", "parts"])
def test_what_may_register_another_is_compiled(name: str, tmp_path: Path) -> None:
    with pytest.raises(Compiled):
        add(written(tmp_path / "own.c", TEXTS[name][0]))
