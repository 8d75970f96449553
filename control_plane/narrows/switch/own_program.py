# SPDX-License-Identifier: Apache-2.0
"""A user's P4 program before a switch runs it: whether its files are what they should be, and belong together."""

from __future__ import annotations

import functools
import re
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from narrows_formats import bounded_json, named_file
from narrows_formats.file_digest import file_digest
from narrows_formats.programs import SOFTSWITCH
from narrows_formats.suggestion import suggestion

from narrows.errors import InputError
from narrows.experiment.plan import OwnProgram, Plan
from narrows.paths import binary

if TYPE_CHECKING:
    from finsy.proto import p4i, p4r

    from narrows.switch.own_entries import Entries

_CHECK_S = 120
# Of a value in the results.
_CELL_BITS = 64
ARCHITECTURE = "v1model"
# How the switch begins what it says of P4Info.
_OF_P4INFO = "P4Info: "
# What it says of an update that it would not make.
_REFUSED = re.compile(r"^entries: updates\[(?P<number>\d+)\]: (?P<code>\w+): (?P<message>.*)$", re.MULTILINE)


def problems(plan: Plan, on_softswitch: bool = True) -> list[str]:
    """What is wrong with the files of a plan's programs, one line each; nothing is made or changed.

    Args:
        plan: whose programs they are.
        on_softswitch: whether the softswitch runs them; another switch may know more of the language.
    """
    found = []
    for program in plan.programs:
        try:
            # Entries are of what P4Info says, which has to be the program's own first.
            _p4info(program)
            _check_fields(program)
            if on_softswitch:
                notes(program)
            else:
                _require_own_p4info(program)
            _check_entries(plan, program, on_softswitch)
            cells(program)
        except InputError as error:
            found.append(str(error))
    return found


def updates(program: OwnProgram) -> list[p4r.Update]:
    """The entries of a program, in the order in which they are made; none where it names no file.

    Raises:
        InputError: P4Info or the entries are wrong.
    """
    found = _entries(program)
    return [] if found is None else list(found.updates)


def port_notes(plan: Plan) -> tuple[str, ...]:
    """Ports of a plan's programs at which nothing is: of hosts without flows, and what may be one in the entries.

    Raises:
        InputError: as `updates`.
    """
    found = [(program, entries) for program in plan.programs if (entries := _entries(program)) is not None]
    unused = [(program, *one) for program in plan.programs for one in program.unused]
    return (
        *(f"{program.field}.ports: port {port}: no flow has the host '{name}'" for program, port, name in unused),
        *(note for program, those in found for note in those.notes(_p4info(program), plan.destinations_of(program))),
    )


def _entries(program: OwnProgram) -> Entries | None:
    if program.entries is None:
        return None
    try:
        digests = file_digest(program.entries), file_digest(program.p4info)
    except OSError:
        digests = None  # what reads it says why
    return _read_entries(program, program.entries, digests)


@functools.cache
def _read_entries(program: OwnProgram, path: Path, _digests: tuple[str, str] | None) -> Entries:
    """The entries in a file, which is read once for a check, its notes, the switch and each point of a sweep."""
    from narrows.switch.own_entries import BadEntries, read_entries

    try:
        return read_entries(path, _p4info(program), program.device_id)
    except BadEntries as error:
        raise InputError(f"{program.field}.entries: {error}") from None


def _check_entries(plan: Plan, program: OwnProgram, on_softswitch: bool) -> None:
    """Whether a switch that has just loaded a program makes its entries.

    Raises:
        InputError: they are wrong, or it does not make one of them.
    """
    from finsy.proto import p4r

    from narrows.switch.own_entries import BadEntries

    entries = _entries(program)
    if entries is None:
        return
    try:
        entries.require_ports(_p4info(program), plan.destinations_of(program))
    except BadEntries as error:
        raise InputError(f"{program.field}.entries: {error}") from None
    if not on_softswitch and _asked(program)[1]:
        # Another switch may load it, and says then what it does not make.
        return
    request = p4r.WriteRequest(updates=entries.updates).SerializeToString(deterministic=True)
    _, why_not = _asked(program, request)
    refused = list(_REFUSED.finditer(why_not))
    if why_not and not refused:
        raise InputError(f"{program.field}.entries: {program.entries}: cannot be checked: {why_not}")
    for one in refused:
        if on_softswitch or one["code"] != "Unimplemented":
            raise InputError(f"{program.field}.entries: {entries.where(int(one['number']))}: {one['message']}")


def cells(program: OwnProgram) -> list[p4r.RegisterEntry]:
    """The watched cells of a program's registers, as P4Runtime names them, in their order.

    Raises:
        InputError: P4Info is wrong, or has no such cell.
    """
    from finsy.proto import p4r

    if not program.watch:
        return []
    registers = _p4info(program).registers
    known = {name: one for one in registers for name in (one.preamble.alias, one.preamble.name)}
    found = []
    for cell in program.watch:
        where = f"{program.field}.watch: {cell}"
        if (register := known.get(cell.register)) is None:
            names = [one.preamble.name for one in registers]
            near = suggestion(cell.register, names) if names else "; the program has none"
            raise InputError(f"{where}: there is no register '{cell.register}'{near}")
        if cell.index >= register.size:
            raise InputError(f"{where}: the register has {register.size} cells; allowed: 0 to {register.size - 1}")
        if (bits := register.type_spec.bitstring.bit.bitwidth) > _CELL_BITS:
            raise InputError(f"{where}: the register has cells of {bits} bits; allowed: up to {_CELL_BITS}")
        found.append(p4r.RegisterEntry(register_id=register.preamble.id, index=p4r.Index(index=cell.index)))
    return found


def cell_names(program: OwnProgram) -> list[tuple[str, int]]:
    """The same cells by their registers' full names, as the compiled program has them.

    Raises:
        InputError: as `cells`.
    """
    names = {one.preamble.id: one.preamble.name for one in _p4info(program).registers} if program.watch else {}
    return [(names[cell.register_id], cell.index.index) for cell in cells(program)]


def _p4info(program: OwnProgram) -> p4i.P4Info:
    from narrows.switch.own_entries import BadEntries, read_p4info

    try:
        info = read_p4info(program.p4info)
    except BadEntries as error:
        raise InputError(f"{program.field}.p4info: {error}") from None
    if info.pkg_info.arch not in ("", ARCHITECTURE):
        raise InputError(
            f"{program.field}.p4info: {program.p4info}: is of a program for {info.pkg_info.arch}; "
            f"allowed: {ARCHITECTURE}"
        )
    return info


def assigned_fields(program: OwnProgram) -> set[str]:
    """The fields (`header.field`) that a program's actions assign.

    Raises:
        InputError: it is not a compiled program.
    """
    where, found = _compiled(program)
    try:
        calls = [call for action in found["actions"] for call in action["primitives"]]
        targets = [call["parameters"][0] for call in calls if call["op"] == "assign"]
        return {".".join(target["value"]) for target in targets if target["type"] == "field"}
    except (KeyError, TypeError, IndexError):
        raise InputError(f"{where}: its actions cannot be read; allowed: what p4c-bm2-ss writes with -o") from None


def _compiled(program: OwnProgram) -> tuple[str, Mapping[str, Any]]:
    """The compiled program, behind how errors begin that are about it."""
    where = f"{program.field}.json: {program.json}"
    try:
        found = bounded_json.parse(named_file.read(program.json))
    except OSError as error:
        raise InputError(f"{where}: cannot be read: {error.strerror}") from None
    except bounded_json.NotJsonError as error:
        raise InputError(f"{where}{error.place}: {error}") from None
    if not isinstance(found, dict) or not isinstance(found.get("pipelines"), list):
        raise InputError(f"{where}: is not a compiled program; allowed: what p4c-bm2-ss writes with -o")
    return where, found


def _metadata(program: OwnProgram) -> dict[str, int]:
    """The fields of a program's metadata (`header.field`), with their bits.

    Raises:
        InputError: it is not a compiled program.
    """
    where, found = _compiled(program)
    try:
        types = {one["name"]: one["fields"] for one in found["header_types"]}
        headers = {one["name"]: types[one["header_type"]] for one in found["headers"] if one["metadata"]}
        fields = {
            f"{name}.{field}": int(bits) for name, its in headers.items() for field, bits, *_ in its if bits != "*"
        }
    except (KeyError, TypeError, ValueError):
        raise InputError(f"{where}: its headers cannot be read; allowed: what p4c-bm2-ss writes with -o") from None
    if "standard_metadata" not in headers:
        raise InputError(f"{where}: is a program for another architecture; allowed: {ARCHITECTURE}")
    return fields


def _check_fields(program: OwnProgram) -> None:
    """Whether there are the fields of metadata that are to be recorded.

    Raises:
        InputError: there is no such field, or its values are too long; what is wrong with the program.
    """
    fields = _metadata(program)
    for name in program.fields:
        where = f"{program.field}.watch: {name}"
        if name not in fields:
            known = [field for field, bits in fields.items() if bits <= _CELL_BITS and not field.endswith("._padding")]
            # p4c calls the program's metadata by the name of its struct, which a user may not know.
            same = [field for field in known if field.split(".")[-1] == name.split(".")[-1]]
            raise InputError(
                f"{where}: there is no such field of metadata{suggestion(same[0] if same else name, known)}"
            )
        if fields[name] > _CELL_BITS:
            raise InputError(f"{where}: the field has {fields[name]} bits; allowed: up to {_CELL_BITS}")


def notes(program: OwnProgram) -> tuple[str, ...]:
    """What is to be known of a program, such as that it is interpreted, each with the field of its file.

    Raises:
        InputError: the switch cannot run it, or P4Info is not its own.
    """
    found, why_not = _asked(program)
    if why_not:
        _require_own_p4info(program)
        raise InputError(f"{program.field}.json: {program.json}: {why_not.removeprefix('program: ')}")
    return tuple(f"{program.field}.json: {program.json}: {note}" for note in found)


def _require_own_p4info(program: OwnProgram) -> None:
    """Whether P4Info is a program's own, as far as the softswitch can tell: of what it cannot load it says nothing.

    Raises:
        InputError: it is another one's.
    """
    _, why_not = _asked(program)
    if why_not.startswith(_OF_P4INFO):
        raise InputError(
            f"{program.field}.p4info: {program.p4info}: does not belong to {program.json}: "
            f"{why_not.removeprefix(_OF_P4INFO)}; allowed: both of one run of p4c"
        )


def _asked(program: OwnProgram, entries: bytes = b"") -> tuple[tuple[str, ...], str]:
    return _asked_of_switch(program, (file_digest(program.json), file_digest(program.p4info)), entries)


@functools.cache
def _asked_of_switch(program: OwnProgram, _digests: tuple[str, str], entries: bytes) -> tuple[tuple[str, ...], str]:
    """What the switch says of a program whose files have these digests: its notes, and why it cannot run it or make the
    entries of a ``WriteRequest``, if so."""
    info = _p4info(program)
    with tempfile.TemporaryDirectory() as directory:
        binary_info, binary_entries = Path(directory) / "p4info", Path(directory) / "entries"
        binary_info.write_bytes(info.SerializeToString())
        binary_entries.write_bytes(entries)
        command = [str(binary(SOFTSWITCH)), "check", str(program.json), "--p4info", str(binary_info)]
        if entries:
            command += ["--entries", str(binary_entries)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_CHECK_S, check=False)
        except (OSError, subprocess.SubprocessError) as error:
            raise InputError(f"{program.field}.json: {program.json}: cannot be checked: {error}") from None
    why_not = done.stderr.strip().removeprefix(f"{SOFTSWITCH}: ") or f"exit code {done.returncode}"
    return tuple(done.stdout.splitlines()), why_not if done.returncode else ""
