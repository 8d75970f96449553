# SPDX-License-Identifier: Apache-2.0
"""What a group says of its flows' TCP besides the congestion control."""

from __future__ import annotations

from typing import Annotated

from narrows_formats.suggestion import suggestion
from narrows_formats.units import NANOSECONDS
from narrows_formats.validation import refuse
from pydantic import BeforeValidator, Field, StrictBool, StrictInt, WithJsonSchema

from narrows.field_types import Count, Model, Rate, Size, Time
from narrows.onhost.payload import Tcp

MILLISECOND = NANOSECONDS // 1000
# linux/tcp.h: those that take a number and read back as it. A listener hands them on to what it accepts.
OPTIONS = {
    "TCP_NODELAY": 1, "TCP_MAXSEG": 2, "TCP_CORK": 3, "TCP_SYNCNT": 7, "TCP_WINDOW_CLAMP": 10,
    "TCP_THIN_LINEAR_TIMEOUTS": 16, "TCP_USER_TIMEOUT": 18, "TCP_RTO_MAX_MS": 44, "TCP_RTO_MIN_US": 45,
    "TCP_DELACK_MAX_US": 46,
}  # fmt: skip
SYSCTLS = "net.ipv4.tcp_"
# Kernel settings that follow from something else of an experiment.
TAKEN = {
    "congestion_control": "cca", "allowed_congestion_control": "cca", "available_congestion_control": "cca",
    "ecn": "ecn_threshold, or ecn of tcp", "rmem": "tcp_buffer", "wmem": "tcp_buffer",
    "no_metrics_save": "nothing: no run knows of another one",
}  # fmt: skip


def _options(value: object) -> object:
    for name in value if isinstance(value, dict) else ():
        if name not in OPTIONS:
            raise refuse(f"has the unknown option '{name}'", suggestion(str(name), OPTIONS).partition("allowed: ")[2])
    return value


def _sysctls(value: object) -> object:
    if not isinstance(value, dict):
        return value
    for name, asked in value.items():
        short = str(name).removeprefix(SYSCTLS)
        if short == name or not short.replace("_", "").isalnum():
            raise refuse(f"has '{name}', which is not a kernel setting of TCP", f"names that begin with {SYSCTLS}")
        if short in TAKEN:
            raise refuse(f"has '{name}', which Narrows sets itself", f"in its place {TAKEN[short]}")
        if isinstance(asked, bool) or not isinstance(asked, int | str):
            raise refuse(f"has '{name}', whose value is not a number", "a whole number, or several in quotation marks")
    return {name: str(asked) for name, asked in value.items()}


_Options = Annotated[
    dict[str, StrictInt],
    BeforeValidator(_options),
    WithJsonSchema(
        {"title": "mapping of name to number: options", "type": "object", "additionalProperties": {"type": "integer"}}
    ),
]
Sysctls = Annotated[
    dict[str, str],
    BeforeValidator(_sysctls),
    WithJsonSchema({"title": "mapping of name to value: kernel settings", "type": "object"}),
]


class TcpSettings(Model):
    """What a group's TCP is set to; every setting is read back."""

    initial_window: Count | None = Field(
        default=None,
        description="Initial congestion window in segments (`initcwnd` of the route); Linux's default is 10. At "
        "most what fits in 65,535 bytes, which is all that a receiver can offer at first.",
    )
    rto_min: Annotated[Time, Field(gt=0)] | None = Field(
        default=None,
        description="Least time that a retransmission timeout adds to the round-trip time (`rto_min` of the route), in "
        "whole milliseconds; Linux's default is `200ms`.",
    )
    hystart: StrictBool | None = Field(
        default=None,
        description="`false`: CUBIC's slow start ends with a loss only. It is a kernel setting: the same for all CUBIC "
        "flows of an experiment, and in virtual time only.",
    )
    ecn: StrictBool | None = Field(
        default=None,
        description="Whether its connections use ECN. By default they do if a link marks packets.",
    )
    notsent_lowat: Size | None = Field(
        default=None, description="Limit of unsent bytes in the sender's socket (`TCP_NOTSENT_LOWAT`)."
    )
    options: _Options = Field(
        default_factory=dict,
        description="Options of the senders' sockets: " + ", ".join(f"`{name}`" for name in OPTIONS) + ".",
    )
    receiver_options: _Options = Field(
        default_factory=dict, description="Options of the receivers' sockets, the same ones."
    )
    sysctls: Sysctls = Field(
        default_factory=dict,
        description=f"Kernel settings of the sending host, `{SYSCTLS}...`; of all hosts: `hosts.sysctls`.",
    )

    @property
    def of_sockets(self) -> list[str]:
        """Fields that are settings of Narrows's own sockets."""
        return [name for name in ("notsent_lowat", "options", "receiver_options") if getattr(self, name)]

    def planned(self, rate_bps: int | None) -> Tcp:
        """The hosts' settings, with the flow's pacing rate."""
        return Tcp(
            rate_bps=rate_bps,
            initial_window=self.initial_window,
            rto_min_ns=self.rto_min,
            hystart=self.hystart,
            ecn=self.ecn,
            notsent_lowat=self.notsent_lowat,
            options=tuple((name, OPTIONS[name], value) for name, value in self.options.items()),
            receiver_options=tuple((name, OPTIONS[name], value) for name, value in self.receiver_options.items()),
            sysctls=tuple(self.sysctls.items()),
        )


class TcpFields(Model):
    """What a group of flows may say of its TCP."""

    rate: Annotated[Rate, Field(gt=0)] | None = Field(
        default=None,
        description="Paces each flow's payload to this rate at most (`SO_MAX_PACING_RATE`), once its first ten "
        "segments are sent.",
    )
    tcp: TcpSettings | None = Field(default=None, description="What else its TCP is set to.")
    bpf: Annotated[str, Field(min_length=1)] | None = Field(
        default=None,
        description="Object file of a congestion control in BPF (`struct_ops`), relative to the experiment's file. "
        "This machine's kernel has it as long as the run lasts, under the name that `cca` has. In real time, in "
        "namespaces.",
    )

    def refuse_tcp(self, kind: str, has_tcp: bool, cca: str | None) -> None:
        """Refuse what cannot matter.

        Args:
            kind: of the flows.
            has_tcp: whether they are TCP, or may be.
            cca: the congestion control of their sockets, if they have one.
        """
        if self.bpf is not None and cca is None:
            raise refuse("has bpf without a cca", "bpf with the cca that the object file registers")
        given = [name for name in ("rate", "tcp") if getattr(self, name) is not None]
        if not has_tcp and given:
            raise refuse(f"has {given[0]}, and flows of {kind}", f"{given[0]} with a cca (TCP)")
        if self.rate is not None and self.rate % 8:
            raise refuse("has a rate that is not a whole number of bytes/s", "a multiple of 8 bit/s")
        if kind == "application":
            given = [*given[: self.rate is not None], *([] if self.tcp is None else self.tcp.of_sockets)]
            if given:
                raise refuse(f"has {given[0]} with client", f"{given[0]} with flows that Narrows makes itself")
        if self.tcp is None:
            return
        if self.tcp.hystart is not None and cca != "cubic":
            raise refuse(f"has hystart, and flows of {cca or kind}", "hystart with cca: cubic")
        if self.tcp.rto_min is not None and self.tcp.rto_min % MILLISECOND:
            raise refuse(
                "has an rto_min that is not a whole number of milliseconds", "whole milliseconds, such as 50ms"
            )
