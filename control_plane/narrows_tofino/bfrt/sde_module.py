# SPDX-License-Identifier: Apache-2.0
"""The SDE's ``bfrt_grpc.client`` in our process: imported beside our own protobufs, quiet, and with deadlines."""

from __future__ import annotations

import importlib
import logging
import sys
from typing import Any

from narrows_tofino.bfrt.client import WHOLE_TABLE_FACTOR

# Protobuf takes a .proto file once in a process. Our P4Runtime library brings these two, the SDE's client asks for them
# where googleapis-common-protos has them: both are the same messages.
_SHARED = ("status_pb2", "code_pb2")
_OURS, _THEIRS = "finsy.proto.google.rpc", "google.rpc"


def load() -> Any:
    """The module ``bfrt_grpc.client``.

    Raises:
        ImportError: it is not on PYTHONPATH, or something that it needs is not.
    """
    for name in _SHARED:
        sys.modules.setdefault(f"{_THEIRS}.{name}", importlib.import_module(f"{_OURS}.{name}"))
    module = importlib.import_module("bfrt_grpc.client")
    # It logs every step to standard error.
    logging.getLogger("bfruntime_grpc_client").setLevel(logging.CRITICAL)
    return module


def add_deadlines(stub: Any, timeout_s: float) -> None:
    """Let no call wait for ever: the client sets no deadlines itself."""
    write, read = stub.Write, stub.Read
    bind, config = stub.SetForwardingPipelineConfig, stub.GetForwardingPipelineConfig
    stub.Write = lambda request, metadata=None: write(request, timeout=timeout_s, metadata=metadata)
    stub.Read = lambda request, metadata=None: read(
        request, timeout=timeout_s * (WHOLE_TABLE_FACTOR if _whole_table(request) else 1), metadata=metadata
    )
    stub.SetForwardingPipelineConfig = lambda request: bind(request, timeout=timeout_s)
    stub.GetForwardingPipelineConfig = lambda request: config(request, timeout=timeout_s)


def _whole_table(request: Any) -> bool:
    return any(
        not entity.table_entry.HasField("key") and not entity.table_entry.is_default_entry
        for entity in request.entities
    )
