# SPDX-License-Identifier: Apache-2.0
"""Flows that programs make: what a group says of its client and its server."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal

from narrows_formats.suggestion import nearest
from narrows_formats.units import format_time
from narrows_formats.validation import refuse
from pydantic import AfterValidator, Field, StrictInt, StrictStr, model_validator

from narrows.field_types import Model, Name, Time, groups_in
from narrows.flows.group import FlowGroup, Place
from narrows.onhost import program as on_host

EXIT = "exit"  # `until` of a group: its client ends by itself
DEFAULT_TIMEOUT = 600_000_000_000  # ns
PLACEHOLDERS = ("server", "client", "port", "duration", "seed", "dir")
# {{name}} is {name} itself. ${name} and %{name} are the shell's and curl's.
_PLACEHOLDER = re.compile(r"{{([A-Za-z_]\w*)}}|(?<![$%]){([A-Za-z_]\w*)}")


def _known_placeholders(word: str) -> str:
    for match in _PLACEHOLDER.finditer(word):
        name = match[2]
        if name is not None and name not in PLACEHOLDERS:
            near = nearest(name, PLACEHOLDERS)
            guess = f" (did you mean {{{near}}}?)" if near else ""
            known = ", ".join(f"{{{one}}}" for one in PLACEHOLDERS)
            raise refuse(
                f"has the unknown placeholder {{{name}}}{guess}", f"{known}; {{{{{name}}}}} for the text {{{name}}}"
            )
    return word


Argument = Annotated[StrictStr, AfterValidator(_known_placeholders)]
Words = Annotated[tuple[Argument, ...], Field(min_length=1)]
Port = Annotated[StrictInt, Field(ge=1, le=65535)]


class Ready(Model):
    """When a server can be used."""

    tcp: Port | None = Field(default=None, description="Something listens at this TCP port.")
    udp: Port | None = Field(default=None, description="A UDP socket is bound to this port.")
    line: StrictStr | None = Field(default=None, description="It has printed a line that contains this text.")

    @model_validator(mode="after")
    def _one(self) -> Ready:
        if sum(value is not None for value in (self.tcp, self.udp, self.line)) != 1:
            raise refuse("is not one of tcp, udp and line", "one of tcp, udp and line")
        return self


_HIDDEN = "hidden:"


class ProgramGroup(FlowGroup):
    """A flow that programs make."""

    made_of = on_host.Program
    key = "client"

    client: Words = Field(
        description="A program and its arguments, run on a host of its own as an ordinary user, without a shell. "
        "`{server}`, `{client}`, `{port}`, `{duration}`, `{seed}`, `{dir}` in them: docs/applications.md.",
    )
    server: Words | None = Field(
        default=None, description="With `client`: a program that is ready before the client starts, and ended after it."
    )
    ready: Ready | None = Field(
        default=None,
        description="With `server`: when the client may start. Without it, when something listens at `{port}`, TCP or "
        "UDP.",
    )
    sends: Literal["server", "client"] = Field(
        default="server",
        description="With `client`: whose packets cross the links in the flow's direction; the other's are its "
        "acknowledgements.",
    )
    timeout: Time = Field(
        default=DEFAULT_TIMEOUT,
        json_schema_extra={"default": format_time(DEFAULT_TIMEOUT)},
        description="With `client` and no `duration`: a client that runs longer has failed.",
    )
    env: dict[str, Argument] = Field(
        default_factory=dict, description="With `client`: environment variables of both programs."
    )
    keep_env: bool = Field(
        default=False,
        description="With `env`: results have the values of `env`. Without it they have digests of them, since values "
        "may be secrets.",
    )
    cwd: StrictStr | None = Field(
        default=None,
        description="With `client`: working directory of both programs, relative to this file. Without it, `{dir}`.",
    )

    until: Name | None = Field(default=None, description="`exit`, as without a `duration`.")
    gap: Time = Field(default=0, description="Has no effect: a program makes its connections itself.")

    @property
    def takes_marks(self) -> bool:
        """See `FlowGroup.takes_marks`: whatever it sends."""
        return True

    def payload(self, place: Place) -> on_host.Program:
        """See `FlowGroup.payload`."""
        ready = self.ready or Ready.model_construct()
        return on_host.Program(
            client=self.client,
            server=self.server,
            tcp=ready.tcp,
            udp=ready.udp,
            line=ready.line,
            sends=self.sends,
            timeout_ns=self.timeout,
            env=tuple(self.env.items()),
            cwd=self.cwd,
        )

    def check_kind(self, others: Collection[str]) -> None:
        """See `FlowGroup.check_kind`."""
        if self.server is None and self.ready is not None:
            raise refuse("has ready without server", "ready together with server")
        if self.server is not None and self.ready is None and not any("{port}" in word for word in self.server):
            raise refuse("has a server without ready", "ready, or a server that is given {port}")
        unsuited = [*others, *(["count"] if self.count != 1 else [])]
        if unsuited or self.until not in (None, EXIT) or (self.until and self.duration):
            raise refuse(
                f"has client and {unsuited[0] if unsuited else 'until'}",
                "with client: a duration, or until: exit; a group for each client",
            )

    def no_op(self) -> Iterator[tuple[str, str]]:
        """See `FlowGroup.no_op`."""
        yield from super().no_op()
        if self.gap:
            yield "gap", "has no effect: a program makes its connections itself"
        if self.duration is not None and self.timeout != DEFAULT_TIMEOUT:
            yield "timeout", "has no effect: the client is ended after its duration"


def fill(word: str, values: dict[str, str]) -> str:
    """A word of a command with its placeholders replaced, and ``{name}`` for ``{{name}}``; other braces stay."""
    return _PLACEHOLDER.sub(lambda match: f"{{{match[1]}}}" if match[1] else values[match[2]], word)


def hide_env(data: dict[str, object]) -> dict[str, object]:
    """An experiment's plain data as results have them: values of ``env`` are digests, but where ``keep_env`` is set.

    Equal values have equal digests, so that runs of one experiment are recognised; guessing a value takes 50 ms a try.
    """
    for group in groups_in(data):
        if group.get("env") and not group["keep_env"]:
            group["env"] = {name: _hidden(name, value) for name, value in group["env"].items()}
    return data


def is_hidden(value: str) -> bool:
    """Whether this is what results have in place of a variable's value."""
    return value.startswith(_HIDDEN)


def _hidden(name: str, value: str) -> str:
    if is_hidden(value):
        return value
    import hashlib  # opens many files, which takes a guest long

    return _HIDDEN + hashlib.scrypt(value.encode(), salt=name.encode(), n=1 << 14, r=8, p=1, dklen=8).hex()


def resolve_paths(data: Mapping[str, object], path: Path) -> None:
    """Make paths of programs, working directories and BPF objects absolute that a file has relative to itself."""
    for group in groups_in(data):
        if not isinstance(group, dict):
            continue
        for name in ("client", "server"):
            words = group.get(name)
            if isinstance(words, list) and words and isinstance(words[0], str) and "/" in words[0]:
                words[0] = _beside(words[0], path)
        for name in ("cwd", "bpf"):
            if isinstance(group.get(name), str):
                group[name] = _beside(group[name], path)


def _beside(name: str, path: Path) -> str:
    return name if name.startswith("{") else str((path.parent / name).absolute())
