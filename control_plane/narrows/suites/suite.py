# SPDX-License-Identifier: Apache-2.0
"""A suite: a directory with ``suite.yaml`` and an experiment file for each of its cases.

The experiment is an ordinary one, with `expect`; suite.yaml says what it tests. The group of flows that the suite's
``tested`` names gets the congestion control that is asked for; with ``tested-a`` and ``tested-b``, each of these does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from narrows_formats.suggestion import suggestion
from pydantic import Field

from narrows.errors import InputError
from narrows.experiment.assignment import override
from narrows.experiment.expectations import BadExpectation
from narrows.experiment.loader import check, read_experiment, read_mapping
from narrows.experiment.sweep import Series, make_series
from narrows.field_types import Model, Name, groups_in
from narrows.paths import data
from narrows.suites.programs import TestedProgram, Unsuited

SUITE = "suite.yaml"


class Document(Model):
    """A document that cases refer to as ``KEY#SECTION``."""

    title: str
    url: str = Field(description="Address; `{section}` in it stands for a section.")
    sections: dict[str, str] = Field(description="Titles of sections, by their numbers or anchors.")


class CaseText(Model):
    """What suite.yaml says of a case; its experiment is the file of that name."""

    tests: tuple[str, ...] = Field(min_length=1, description="Sections that it tests: `DOCUMENT#SECTION`.")
    says: str = Field(description="In our words, what they say.")
    rule: str = Field(description="How the bounds of `expect` follow from that.")
    ccas: tuple[Name, ...] = Field(default=(), description="Only these are meant; without it, all.")
    given: tuple[str, ...] = Field(
        default=(), description="Expectations without which the case has not occurred, and is undecided."
    )
    sweep: dict[str, list[Any]] = Field(
        default_factory=dict, description="Swept without --quick, as `sweep` of a file."
    )
    changed: str = Field(default="", description="How the rule changed after it was run, and why.")
    passes_with: dict[str, str] = Field(
        default_factory=dict,
        description="Where a sender of `source` fails the case: code of it, and what is there when it passes.",
    )
    fails_with: dict[str, str] = Field(
        default_factory=dict,
        description="Code of a sender of `source`, and what was there, with `passes_with`, when it was seen to fail.",
    )
    failure: str = Field(default="", description="What failed then, in the words of the matrix.")


class SuiteText(Model):
    """suite.yaml."""

    title: str
    about: str = ""
    documents: dict[str, Document] = Field(default_factory=dict)
    include: tuple[str, ...] = Field(default=(), description="Suites whose cases are cases of this one, too.")
    tested: Name = Field(
        default="tested", description="The group of flows whose `cca` is tested; with `tested-a`, `tested-b`, each."
    )
    ccas: tuple[Name, ...] = Field(
        min_length=1, description="Congestion controls that are tested if none is asked for."
    )
    source: str = Field(default="", description="The sender whose code cases have in `passes_with` and `fails_with`.")
    cases: dict[Name, CaseText] = Field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """A case: what is said of it, its experiment, and the sections that it tests with their addresses."""

    name: str
    text: CaseText
    file: Path
    tested: str
    sections: tuple[str, ...]
    urls: tuple[str, ...]

    def applies_to(self, cca: str, like: str = "") -> bool:
        """Whether the case is about such a congestion control, or about the one that it is like."""
        return not self.text.ccas or not {cca, like}.isdisjoint(self.text.ccas)

    def _tested_groups(self, content: dict[str, object]) -> list[str]:
        """Groups of flows of the file that are tested.

        Raises:
            InputError: there is none.
        """
        names = [str(group.get("name")) for group in groups_in(content) if isinstance(group, dict)]
        ours = [name for name in names if name == self.tested or name.startswith(f"{self.tested}-")]
        if not ours:
            raise InputError(
                f"{self.file}: flows: none is called '{self.tested}', as what is tested; allowed: a group of that name"
            )
        return ours

    def series(self, cca: str, quick: bool = True, repeat: int | None = None) -> Series:
        """The case's runs with a congestion control.

        Raises:
            InputError: the file cannot be read, or is no case of a suite.
        """
        content = read_experiment(self.file)
        override(content, [f"flows.{group}.cca={cca}" for group in self._tested_groups(content)], str(self.file))
        return self._series(content, quick, repeat)

    def series_of_program(self, program: TestedProgram, quick: bool = True, repeat: int | None = None) -> Series:
        """The case's runs with a program as its sender.

        Raises:
            Unsuited: the case says nothing of programs.
        """
        content = read_experiment(self.file)
        tested = self._tested_groups(content)
        content["flows"] = [
            program.in_place_of(group) if group.get("name") in tested else group for group in groups_in(content)
        ]
        try:
            return self._series(content, quick, repeat)
        except InputError as error:
            raise Unsuited("not applicable", str(error).removeprefix(f"{self.file}: ")) from None

    def _series(self, content: dict[str, object], quick: bool, repeat: int | None) -> Series:
        if repeat:
            override(content, [f"repeat={repeat}"], str(self.file))
        if self.text.sweep and not quick:
            content["sweep"] = self.text.sweep
        found = make_series(content, str(self.file))
        if not found.experiment.expect:
            raise InputError(f"{self.file}: has no expect; allowed: files that expect something")
        for text in self.text.given:
            try:
                found.points[0].experiment.expectation(text)
            except BadExpectation as error:
                raise InputError(f"{self.file}: given '{text}', which {error}; allowed: {error.allowed}") from None
        return found


@dataclass(frozen=True)
class Suite:
    """A suite and its cases, those of included suites first."""

    name: str
    text: SuiteText
    cases: tuple[Case, ...]

    def only(self, names: Sequence[str]) -> Suite:
        """The suite with some of its cases; with all if there are no names.

        Raises:
            InputError: it has no such case.
        """
        known = {case.name: case for case in self.cases}
        for name in names:
            if name not in known:
                raise InputError(f"suite {self.name}: has no case '{name}'{suggestion(name, known)}")
        return replace(self, cases=tuple(known[name] for name in names)) if names else self


def built_in() -> list[str]:
    """Names of the suites that come with the package."""
    return sorted(path.parent.name for path in data("suites").glob(f"*/{SUITE}"))


def load(name: str) -> Suite:
    """A suite that comes with the package, or that of a directory (a path with a slash, or ``.``).

    Raises:
        InputError: there is none, or it is wrong; the message names the file and what is allowed.
    """
    directory = _place(name, Path())
    text, cases = _read(directory, ())
    suite = Suite(directory.resolve().name, text, tuple(cases))
    for case in suite.cases:
        # Whatever is wrong with a case is said before the first run.
        case.series((case.text.ccas or text.ccas)[0], quick=False)
    return suite


def _place(name: str, directory: Path) -> Path:
    """A suite's directory: a path from ``directory``, or that of one that comes with Narrows."""
    if "/" in name or name == ".":
        return directory / name
    if name not in built_in():
        raise InputError(f"suite {name}: is not known{suggestion(name, built_in())}, or the path of a directory")
    return data("suites") / name


def _read(directory: Path, including: tuple[Path, ...]) -> tuple[SuiteText, list[Case]]:
    """suite.yaml of a directory, and the cases of it and of the suites that it includes."""
    if directory.resolve() in including:
        names = " -> ".join(path.name for path in (*including, directory.resolve()))
        raise InputError(f"{including[-1] / SUITE}: include: goes in a circle ({names}); allowed: suites without one")
    file = directory / SUITE
    text = check(SuiteText, read_mapping(file, "a suite; allowed: a mapping with title, ccas and cases"), str(file))
    found: dict[str, Case] = {}
    for other in text.include:
        for case in _read(_place(other, directory), (*including, directory.resolve()))[1]:
            # The same suite may be included by several.
            if found.setdefault(case.name, case).file.resolve() != case.file.resolve():
                both = f"{found[case.name].file} and {case.file}"
                raise InputError(f"{file}: include: has two cases '{case.name}' ({both}); allowed: different names")
    for name in text.cases:
        if name in found:
            raise InputError(f"{file}: cases.{name}: is a case of an included suite, too; allowed: another name")
    found |= {case.name: case for case in _own_cases(directory, text)}
    if not found:
        raise InputError(f"{file}: cases: there is none; allowed: at least one, or include")
    return text, list(found.values())


def _own_cases(directory: Path, text: SuiteText) -> Iterator[Case]:
    file = directory / SUITE
    there = {path.stem for path in directory.glob("*.yaml")} - {Path(SUITE).stem}
    if unnamed := sorted(there - text.cases.keys()):
        raise InputError(f"{file}: cases: {unnamed[0]}.yaml is none; allowed: a case for each file in the directory")
    for name, case in text.cases.items():
        if name not in there:
            raise InputError(f"{file}: cases.{name}: there is no {name}.yaml{suggestion(name, sorted(there))}")
        found = [_section(reference, text, f"{file}: cases.{name}.tests") for reference in case.tests]
        sections, urls = zip(*found, strict=True)
        yield Case(name, case, directory / f"{name}.yaml", text.tested, sections, urls)


def _section(reference: str, text: SuiteText, where: str) -> tuple[str, str]:
    """Document and section in words, and the address."""
    key, separator, section = reference.partition("#")
    if not separator or key not in text.documents:
        known = ", ".join(f"{one}#SECTION" for one in text.documents) or "documents that the suite names"
        raise InputError(f"{where}: refers to '{reference}', which is no document here; allowed: {known}")
    document = text.documents[key]
    if section not in document.sections:
        raise InputError(
            f"{where}: refers to '{reference}', but {key} has no such section{suggestion(section, document.sections)}"
        )
    return f"{document.title}, {section}: {document.sections[section]}", document.url.replace("{section}", section)
