# SPDX-License-Identifier: Apache-2.0
"""Variants of a congestion control: C files that differ in the values of constants, for one kernel."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from narrows.errors import InputError
from narrows.virtual import own_cca

REGISTERED = re.compile(r'(?P<before>\.name\s*=\s*")(?P<name>[^"\n]*)"')
# The kernel's names have 15 characters (TCP_CA_NAME_MAX, include/net/tcp.h), and these end with a number.
STEM_CHARACTERS = 11
MOST = 200
CONSTANT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


@dataclass(frozen=True)
class Variant:
    """One congestion control: the name that it registers, what tells it apart, and its C file."""

    cca: str
    label: str
    file: str
    text: str


def constants(options: Sequence[str]) -> dict[str, list[str]]:
    """Constants and their values as options give them, ``NAME=VALUE,VALUE``.

    Raises:
        InputError: one is not of this form, or is there twice.
    """
    found: dict[str, list[str]] = {}
    for option in options:
        name, _, text = option.partition("=")
        values = [value.strip() for value in text.split(",")]
        if not CONSTANT.fullmatch(name) or not all(values) or len(set(values)) < len(values) or name in found:
            raise InputError(
                f"--vary {option}: allowed: NAME=VALUE,VALUE, each name and value once, such as BETA=512,717"
            )
        found[name] = values
    return found


def variants(files: Sequence[Path], varied: Mapping[str, Sequence[str]]) -> list[Variant]:
    """The variants of some files, one for each combination of values; a file as it is where nothing varies.

    Args:
        files: each registers one ``tcp_congestion_ops``.
        varied: values of constants that each file has, by ``#define NAME`` or as the variable of a module parameter.

    Raises:
        InputError: a file cannot be read, registers none or several, does not define a constant, or there are too many.
    """
    texts = {file: own_cca.text(file) for file in files}
    found = list(itertools.chain.from_iterable(_of_file(file, text, varied) for file, text in texts.items()))
    if not 2 <= len(found) <= MOST:
        raise InputError(f"tune: {len(found)} variants; allowed: 2 to {MOST}, by --cca and --vary")
    if repeated := [one.cca for one in found if [other.cca for other in found].count(one.cca) > 1]:
        raise InputError(f"--cca: two variants register '{repeated[0]}'; allowed: each name once")
    return found


def _of_file(file: Path, text: str, varied: Mapping[str, Sequence[str]]) -> Iterator[Variant]:
    names = list(REGISTERED.finditer(text))
    if len(names) != 1:
        raise InputError(
            f"--cca {file}: has {len(names)} lines '.name = \"...\"'; allowed: one, of the algorithm that it registers"
        )
    if not varied:
        yield Variant(names[0]["name"], file.name, file.name, _with_lines(file, text))
        return
    for number, values in enumerate(itertools.product(*varied.values()), 1):
        chosen = dict(zip(varied, values, strict=True))
        cca = f"{names[0]['name'][:STEM_CHARACTERS]}_{number}"
        changed = REGISTERED.sub(lambda match, cca=cca: f'{match["before"]}{cca}"', text)  # type: ignore[misc]
        for name, value in chosen.items():
            changed = _with_value(file, changed, name, value)
        label = " ".join((file.name, *(f"{name}={value}" for name, value in chosen.items())))
        yield Variant(cca, label, f"{file.stem}_{number}.c", _with_lines(file, changed))


def _with_lines(file: Path, text: str) -> str:
    """A text whose errors name the user's file."""
    return f'#line 1 "{file.absolute()}"\n{text}'


def _with_value(file: Path, text: str, name: str, value: str) -> str:
    """A text in which a constant has another value.

    Raises:
        InputError: it has no such constant, or several.
    """
    forms = [rf"^(?P<before>[ \t]*#[ \t]*define[ \t]+{name}[ \t]+)(?P<value>.*?)(?P<after>[ \t]*(/[*/].*)?)$"]
    if re.search(rf"\bmodule_param(_named)?\s*\([^)]*\b{name}\b", text):
        forms.append(rf"^(?P<before>static\b[^;=\n]*\b{name}\b[^;=\n]*=[ \t]*)(?P<value>[^;\n]*)(?P<after>;.*)$")
    matches = [match for form in forms for match in re.finditer(form, text, re.MULTILINE)]
    if len(matches) != 1:
        raise InputError(
            f"--vary {name}: {file} has {len(matches)} definitions of it; allowed: one, '#define {name} VALUE', or "
            f"'static TYPE {name} = VALUE;' with module_param"
        )
    start, end = matches[0].span("value")
    return f"{text[:start]}{value}{text[end:]}"
