# SPDX-License-Identifier: Apache-2.0
"""What can go wrong between Narrows and a switch that speaks BF Runtime."""

from __future__ import annotations

from dataclasses import dataclass

from narrows.errors import RunError


class BfrtError(RunError):
    """The switch cannot be reached or does not do what it was asked."""


class SchemaError(BfrtError):
    """The program or driver on the switch has no table, field or action of that name, or not of that shape."""


class ConnectionLost(BfrtError):
    """The switch does not answer (any more)."""


@dataclass(frozen=True)
class Refusal:
    """One item of a request that the switch refused."""

    index: int
    code: str
    message: str


class SwitchRefused(BfrtError):
    """The switch answered a read or write with an error; ``refusals`` has one item for each refused entry."""

    def __init__(self, what: str, refusals: tuple[Refusal, ...]) -> None:
        """``what`` names the table, key and target of the request."""
        said = "; ".join(f"{refusal.code}: {refusal.message}" for refusal in refusals)
        super().__init__(f"the switch refuses {what}: {said}")
        self.refusals = refusals

    @property
    def codes(self) -> frozenset[str]:
        """Names of the google.rpc codes among the refusals."""
        return frozenset(refusal.code for refusal in self.refusals)


def code_name(number: int) -> str:
    """Name of a google.rpc code."""
    # Not above: what a plan can be refused for is imported with this, and gRPC takes long.
    import grpc

    return next((code.name for code in grpc.StatusCode if code.value[0] == number), f"CODE_{number}")
