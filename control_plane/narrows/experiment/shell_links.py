# SPDX-License-Identifier: Apache-2.0
"""A shell behind the links of an experiment: the experiment that it is, and what its plan has beside that."""

from __future__ import annotations

import copy
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml
from narrows_formats.link_names import REVERSE

from narrows.errors import InputError
from narrows.experiment.assignment import override
from narrows.experiment.loader import read_experiment, validate
from narrows.experiment.model import Experiment
from narrows.experiment.plan import Flow, Plan
from narrows.experiment.trace_files import inline_traces
from narrows.field_types import groups_in
from narrows.onhost.foreground import Shell
from narrows.onhost.program import Program

NAME = "shell"
DOWNLOAD, UPLOAD = "download", "upload"
HOST, GATEWAY = "shell", "gateway"
# A link to be given by a few options has these otherwise.
RATE, RTT, BUFFER = "20Mbit", "40ms", "1bdp"
TAIL_DROP = "tail-drop"


@dataclass(frozen=True)
class Command:
    """What is to be run: a program by its path, its arguments, and where; ``server`` is one at the gateway."""

    words: tuple[str, ...]
    cwd: str
    server: tuple[str, ...] | None = None


def one_link(options: Mapping[str, str | None]) -> dict[str, object]:
    """The link of an experiment by the options of a command line, as a file has it.

    Args:
        options: by their names: ``rate``, ``upload``, ``trace``, ``upload-trace``, ``buffer``, ``rtt``, ``loss`` and
            ``queue``; the upload is as the download where it is not given.

    Raises:
        InputError: two of them contradict each other, or one is not YAML.
    """
    given = {name: value for name, value in options.items() if value is not None}
    for rate, trace in (("rate", "trace"), ("upload", "upload-trace")):
        if rate in given and trace in given:
            raise InputError(f"--{trace} {given[trace]}: beside --{rate}; allowed: one of the two")
    down = _rate(given.get("trace")) or given.get("rate", RATE)
    up = _rate(given.get("upload-trace")) or given.get("upload", down)
    both: dict[str, object] = {"buffer": given.get("buffer", BUFFER)}
    both |= {name: _value(name, given[name]) for name in ("loss", "queue") if given.get(name, TAIL_DROP) != TAIL_DROP}
    return {"rate": down, **both, "rtt": given.get("rtt", RTT), "reverse": {"rate": copy.deepcopy(up), **both}}


def _value(name: str, text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError):
        raise InputError(f"--{name} {text}: is not YAML; allowed: what a file may have there") from None


def _rate(trace: str | None) -> dict[str, object] | None:
    """A trace of Mahimahi's, by its path."""
    if trace is None:
        return None
    return {"trace": {"file": str(Path(trace).absolute()), "format": "mahimahi"}}


def by_options(options: Mapping[str, str | None], settings: Sequence[str]) -> dict[str, object]:
    """The data of an experiment whose link is given by a few options, see `one_link`, and settings in addition.

    Raises:
        InputError: options contradict each other, a setting is wrong, or a trace cannot be read.
    """
    data: dict[str, object] = {"bottleneck": one_link(options)}
    override(data, settings, NAME)
    inline_traces(data, Path(NAME))
    return data


def read(file: Path, settings: Sequence[str]) -> dict[str, object]:
    """The data of an experiment file whose links a shell is to be behind, beside its flows if it has any.

    Raises:
        InputError: it cannot be read, or asks for several runs.
    """
    data = read_experiment(file, settings)
    for field in ("sweep", "repeat"):
        if data.get(field) not in (None, {}, 1):
            raise InputError(f"{file}: {field}: makes several runs; allowed: an experiment of one")
    return data


def experiment_of(data: Mapping[str, object], command: Command, origin: str) -> Experiment:
    """An experiment with the command as one flow more, which crosses all links.

    Raises:
        InputError: it is not valid; ``origin`` begins the message.
    """
    links = data.get("links")
    group: dict[str, object] = {
        "name": DOWNLOAD, "from": GATEWAY, "to": HOST, "client": list(command.words), "cwd": command.cwd,
        **({"path": list(links)} if isinstance(links, dict) else {}),
        **({} if command.server is None else {"server": list(command.server)}),
    }  # fmt: skip
    own = groups_in(data)
    if any(isinstance(one, dict) and one.get("name") == UPLOAD for one in own):
        raise InputError(f"{origin}: flows: has a group '{UPLOAD}', as the shell; allowed: another name")
    return validate({"name": NAME, **data, "flows": [*own, group]}, origin)


def server_words(text: str) -> tuple[str, ...]:
    """The words of a server's command.

    Raises:
        InputError: a quotation does not end, or there is none.
    """
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise InputError(f"--server {text}: {error}; allowed: a program and its arguments") from None
    if not words:
        raise InputError("--server: is empty; allowed: a program and its arguments")
    return words


def with_shell(plan: Plan, *, terminal: bool, nat: bool) -> Plan:
    """The plan of such an experiment with the command as a shell: both directions are flows, and its end is the run's.

    Args:
        plan: of `experiment_of`.
        terminal: the command has our terminal and standard files.
        nat: its host reaches this machine's network.
    """
    flows: list[Flow] = []
    limiting = {link.name for link in plan.links}
    for flow in plan.flows:
        if flow.group != DOWNLOAD or not isinstance(flow.payload, Program):
            flows.append(flow)
            continue
        payload = Shell(**vars(flow.payload), terminal=terminal, anywhere=nat)
        # Neither direction is distinguished from the other's acknowledgements: those are packets of the same programs.
        down = replace(flow, payload=payload, ack_links=())
        flows.append(down)
        back = tuple(name for name in _opposite(flow.links) if name in limiting)
        if back:
            flows.append(
                replace(
                    down, name=flow.name.replace(DOWNLOAD, UPLOAD), group=UPLOAD, sender=flow.receiver,
                    receiver=flow.sender, src=flow.dst, dst=flow.src, links=back,
                    payload=replace(payload, sends="client"),
                )
            )  # fmt: skip
    return replace(plan, flows=tuple(flows), gateway=GATEWAY if nat else None)


def _opposite(links: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name + REVERSE for name in reversed(links))
