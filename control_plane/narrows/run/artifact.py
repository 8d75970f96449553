# SPDX-License-Identifier: Apache-2.0
"""Results as one archive to publish: every file with its digest, and what makes the same runs again."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from narrows_analysis.errors import AnalysisError
from narrows_analysis.records.json_files import only_files, read_json
from narrows_formats import beneath, bounded_yaml, files, storage
from narrows_formats.file_digest import file_digest
from narrows_formats.provenance import KERNEL_IMAGE, PROVENANCE_NAMES, provenance

from narrows.errors import InputError
from narrows.run.absent_files import Absent, absent_files
from narrows.run.results import give_to_user

MANIFEST, README, SWEEP = "SHA256SUMS", "REPRODUCE.md", "sweep.yaml"
MODIFIED = "-dirty"
DEFAULT = "soft"
# Options of the command that builds a kernel which name files.
OF_FILES = ("--source", "--patch", "--cca")
# A file of a run that is still being made, or that a killed one left.
UNFINISHED = ".unfinished"


class Packed(NamedTuple):
    """An archive's SHA-256, and what its experiments name and it does not have."""

    digest: str
    absent: tuple[Absent, ...]


def pack(directory: Path, runs: Sequence[Path], archive: Path, sweep: str = "") -> Packed:
    """Write an archive (tar, gzip) of a run's or a sweep's directory.

    The same files give the same archive to the byte: order, owners and times do not depend on where it is made.

    Args:
        directory: whose files it holds, under the directory's name, with ``SHA256SUMS`` (for ``sha256sum -c``) and
            ``REPRODUCE.md``.
        runs: the runs in it.
        archive: what is written, in one step.
        sweep: the experiment file that makes all of the runs, ``sweep.yaml`` in the archive; empty if there is none.

    Raises:
        InputError: the archive exists, the directory has what results do not have (links, devices, unfinished runs), or
            an experiment cannot be read.
    """
    if archive.exists():
        raise InputError(f"--out {archive}: exists already; choose another name")
    try:
        only_files(directory)
        records = {run: read_json(run, files.RUN) for run in runs}
    except AnalysisError as error:
        raise InputError(str(error)) from error
    name = directory.resolve().name
    found = list(_files(directory))
    if unfinished := next((path for path in found if any(UNFINISHED in part for part in path.parts)), None):
        raise InputError(f"{directory / unfinished}: of a run that is under way or was killed; fix: narrows clean")
    digests = "".join(f"{_digest(directory, path)}  {path}\n" for path in found)
    absent = tuple(dict.fromkeys(one for run, record in records.items() for one in _absent(run, record)))
    how = _reproduce(name, directory, records, absent, bool(sweep))
    made = {README: how, MANIFEST: digests}
    if sweep:
        made[SWEEP] = sweep
        made[MANIFEST] += f"{hashlib.sha256(sweep.encode()).hexdigest()}  {SWEEP}\n"
    with (
        storage.replacing(archive) as out,
        # The file's name and the time would be in its header.
        gzip.GzipFile("", "wb", fileobj=out, mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for file, text in made.items():
            _add(tar, f"{name}/{file}", io.BytesIO(text.encode()), len(text.encode()))
        for path in found:
            with _opened(directory, path) as content:
                _add(tar, f"{name}/{path}", content, os.fstat(content.fileno()).st_size)
    give_to_user(archive)
    return Packed(file_digest(archive), absent)


def _absent(run: Path, record: Mapping[str, object]) -> list[Absent]:
    programs = record.get("programs")
    try:
        experiment = bounded_yaml.parse(beneath.read(run, files.EXPERIMENT))
    except (OSError, ValueError) as error:
        raise InputError(f"{run / files.EXPERIMENT}: {getattr(error, 'strerror', None) or error}") from None
    return absent_files(experiment, programs if isinstance(programs, dict) else {})


@contextmanager
def _opened(directory: Path, path: Path) -> Iterator[io.BufferedReader]:
    # Its owner may have put a link in its place since it was looked at, while root packs it.
    with ExitStack() as opened:
        try:
            content = opened.enter_context(beneath.opened(directory, str(path)))
        except (OSError, ValueError) as error:
            raise InputError(f"{directory / path}: {getattr(error, 'strerror', None) or error}") from None
        yield content


def _digest(directory: Path, path: Path) -> str:
    with _opened(directory, path) as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _files(directory: Path) -> Iterator[Path]:
    for path in sorted(path.relative_to(directory) for path in directory.rglob("*") if path.is_file()):
        if path not in (Path(README), Path(MANIFEST), Path(SWEEP)):
            yield path


def _add(tar: tarfile.TarFile, name: str, content: io.BufferedIOBase, size: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, 0o644
    tar.addfile(entry, content)


def _reproduce(
    name: str, directory: Path, records: dict[Path, dict[str, object]], absent: Sequence[Absent], sweep: bool
) -> str:
    """What made the runs, and the commands that make them again."""
    lines = [
        f"# {name}",
        "",
        f"Results of Narrows. `sha256sum -c {MANIFEST}` checks the files; `narrows report DIR` makes",
    ]
    lines += ["the pages again, `narrows analyze DIR` the figures.", ""]
    alike = _alike(records)
    # One command makes all of them only where they were made by the same.
    whole = sweep and len(alike) == 1
    for made, members in alike.items():
        run = members[0]
        record = records[run]
        lines += [f"## {_of(directory, members)}", "", "| made by | |", "|---|---|"]
        lines += [f"| {PROVENANCE_NAMES.get(key, key)} | `{value}` |" for key, value in made]
        lines += ["", *_commands(directory, members, record, dict(made), whole), ""]
    if absent:
        lines += [
            "## Not in this archive",
            "",
            "Runs read these from here; where yours are elsewhere, change the fields.",
            "",
        ]
        lines += ["| path | SHA-256 | named by |", "|---|---|---|"]
        lines += [f"| `{path}` | {f'`{digest}`' if digest else '-'} | {field} |" for path, digest, field in absent]
        lines += [""]
    return "\n".join(lines)


def _alike(records: dict[Path, dict[str, object]]) -> dict[tuple[tuple[str, str], ...], list[Path]]:
    """Runs by what made them."""
    found: dict[tuple[tuple[str, str], ...], list[Path]] = {}
    for run, record in records.items():
        found.setdefault(tuple(provenance(record).items()), []).append(run)
    return found


def _of(directory: Path, runs: list[Path]) -> str:
    names = [str(run.relative_to(directory)) for run in runs]
    return (
        "The run" if names == ["."] else ", ".join(names) if len(names) < 4 else f"{len(names)} runs from {names[0]} on"
    )


def _commands(
    directory: Path, runs: list[Path], record: dict[str, object], made: dict[str, str], whole: bool
) -> list[str]:
    commit = made.get("commit", "")
    lines = []
    if MODIFIED in commit:
        lines.append(f"The checkout of Narrows was modified: no commit alone makes these runs again ({commit}).")
    elif commit:
        lines.append(f"Narrows: `git checkout {commit}`, `make setup`, `source .venv/bin/activate`.")
    guest = record.get("virtual_time")
    profile = record.get("target_profile")
    target = profile.get("name", DEFAULT) if isinstance(profile, dict) else DEFAULT
    options = "" if target == DEFAULT else f" --target {target}"
    if isinstance(guest, dict):
        kernel = guest.get("kernel")
        image = made.get(KERNEL_IMAGE, "")
        # Runs of earlier versions do not say so.
        built_by = str(guest.get("built_by") or "a command that is not recorded")
        lines.append(f"Kernel: `{built_by}`, as Linux {guest.get('release')}; its image has SHA-256 `{image}`.")
        if any(option in built_by for option in OF_FILES):
            lines.append("The files that this command names are not in this archive.")
        if guest.get("repeatable"):
            lines.append(f"The reports of a new run (`telemetry/`) then have the digests in `{MANIFEST}`.")
        options += f" --virtual --kernel {kernel}"
    experiments = [run.relative_to(directory) / files.EXPERIMENT for run in runs]
    if whole:
        lines += ["", f"All runs, with their table, `{files.INTERVALS}` and page (one alone: `{experiments[0]}`):"]
        experiments = [Path(SWEEP)]
    lines += ["", "```sh"]
    lines += [f"narrows run {experiment}{options}" for experiment in experiments]
    return [*lines, "```"]
