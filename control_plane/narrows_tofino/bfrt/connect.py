# SPDX-License-Identifier: Apache-2.0
"""Chooses between the two BF Runtime clients."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

from narrows.errors import InputError

from narrows_tofino.bfrt.client import Client, Endpoint


def connect(endpoint: Endpoint, prefer: Sequence[str] = ("sde", "own")) -> Client:
    """Open a session with the first client of ``prefer`` that this machine has and that can do what is asked.

    ``sde`` is the SDE's ``bfrt_grpc.client`` (it has no TLS), ``own`` ours, which needs nothing but gRPC.

    Raises:
        ConnectionLost: no answer, another client owns the program, or the program is not loaded.
        InputError: none of ``prefer`` can be used.
    """
    for kind in prefer:
        if kind == "sde" and endpoint.tls is None and importlib.util.find_spec("bfrt_grpc") is not None:
            from narrows_tofino.bfrt.sde_client import SdeClient

            return SdeClient(endpoint)
        if kind == "own":
            from narrows_tofino.bfrt.own_client import OwnClient

            return OwnClient(endpoint)
    raise InputError(
        f"no BF Runtime client of {', '.join(prefer)} can be used; allowed: own, or sde with the SDE's "
        "site-packages on PYTHONPATH and without TLS"
    )
