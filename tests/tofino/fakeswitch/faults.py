# SPDX-License-Identifier: Apache-2.0
"""Things that can go wrong at a fake switch, on demand."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import grpc

from fakeswitch.traffic_manager import Refused


@dataclass
class Fault:
    """Something to go wrong: at the ``nth`` request that ``rpc`` and ``table`` (an ending of its name) select.

    ``act`` gets the request's context and may abort it, sleep, or raise `Refused`; ``when`` is ``before`` the request
    is carried out, ``after`` it, or ``instead`` of it. ``times`` counts down; -1 is for ever.
    """

    rpc: str
    act: Callable[[grpc.ServicerContext], None]
    table: str = ""
    nth: int = 1
    when: str = "before"
    times: int = 1
    seen: int = field(default=0, init=False)


def refuse(code: str, message: str = "injected") -> Callable[[grpc.ServicerContext], None]:
    """A fault that answers with an error of the driver."""

    def act(_: grpc.ServicerContext) -> None:
        raise Refused(code, message)

    return act


def abort(code: grpc.StatusCode = grpc.StatusCode.UNAVAILABLE) -> Callable[[grpc.ServicerContext], None]:
    """A fault that breaks the call."""

    def act(context: grpc.ServicerContext) -> None:
        context.abort(code, "injected")

    return act


def stall(seconds: float) -> Callable[[grpc.ServicerContext], None]:
    """A fault that makes an answer slow."""

    def act(_: grpc.ServicerContext) -> None:
        time.sleep(seconds)

    return act
